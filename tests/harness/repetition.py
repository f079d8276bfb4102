"""How often a test repeats what it does, and with which seed: few times and always alike, or many times in `make soak`.

A test that asks for either is marked `repeated`, so that `make soak` finds it. Whoever uses a seed prints it, and
EDGEWRIGHT_SEED repeats it.
"""

from __future__ import annotations

import os

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
"""Whether this is `make soak`."""


def times(few: int, many: int) -> int:
    """How often to do something: `few` must be enough for each kind of fault to happen."""
    return many if SOAK else few


def numbers(few: int, many: int) -> range:
    """So many numbers, each the seed of one case; other ones for another seed."""
    first = int(seed())
    return range(first, first + times(few, many))


def seed() -> str:
    """What random numbers begin with; without another one always the same."""
    return os.environ.get("EDGEWRIGHT_SEED", "0")
