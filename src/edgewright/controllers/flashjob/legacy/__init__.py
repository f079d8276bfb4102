"""What exists only because the original FlashJob operator ran before, or still runs: a takeover without a second flash.

`operator` gives the loops a `Takeover`, which they know as `predecessor.Predecessor`; no other module imports from
here. `original` tells whether that operator runs, `leftovers` recognises what it made, `traces` says what that means
for each device.
"""
