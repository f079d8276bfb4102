"""How deep objects may be, and of how many values.

Everything that walks an object calls itself once or a few times a level and takes some microseconds a value, while all
others wait. So what comes in is measured once, by `serving.bodies` and by patches that can put one object into another;
after that nobody has to be afraid of depth or number.
"""

from __future__ import annotations

from typing import Any, Final

from edgewright.local.errors import Refusal, bad_request, too_large

DEEPEST: Final = 200
"""More levels than any manifest has, and few enough for every walk within Python's own limit."""
MAX_VALUES: Final = 50_000
"""More values than the largest definitions and endpoint slices have, and few enough for an answer within seconds."""


def check(value: Any) -> None:
    """Refuses a value that has too many levels or parts; it is walked level by level, without recursion."""
    level = [value] if isinstance(value, dict | list) else []
    count = depth = 0
    while level:
        depth += 1
        if depth > DEEPEST:
            raise too_deep()
        below = []
        for each in level:
            children = each.values() if isinstance(each, dict) else each
            count += len(children)
            below += [child for child in children if isinstance(child, dict | list)]
        if count > MAX_VALUES:
            raise too_many()
        level = below


def too_deep() -> Refusal:
    """What is said of a value with too many levels."""
    return bad_request(f"the object is nested too deeply: at most {DEEPEST} levels are taken")


def too_many() -> Refusal:
    """What is said of a value with too many parts."""
    return too_large(f"an object may have at most {MAX_VALUES} values")
