"""How long to wait before trying again: exponential, bounded, with jitter.

Used by the reflector, the lease and the client for what failed as a whole; the queue has its own count a key and asks
`delay` for the time. Pure but for the random number that is passed in.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field


def delay(failures: int, *, base: float, cap: float) -> float:
    """The wait after that many failures in a row: base, 2·base, 4·base … up to cap."""
    if failures <= 0:
        return 0.0
    # The exponent is bounded first: 2.0 ** 5000 would overflow where `cap` is all that is meant.
    return min(cap, base * 2.0 ** min(failures - 1, 64))


@dataclass
class Backoff:
    """Counts failures in a row and gives the next wait, spread so that many clients do not return together."""

    base: float = 0.1
    cap: float = 2.0
    jitter: float = 0.2
    rng: random.Random = field(default_factory=random.Random, repr=False)
    failures: int = 0

    def next(self) -> float:
        """The wait after one more failure; never more than `cap`."""
        self.failures += 1
        exact = delay(self.failures, base=self.base, cap=self.cap)
        return exact * (1.0 - self.jitter * self.rng.random())

    def reset(self) -> None:
        """It worked: start over."""
        self.failures = 0
