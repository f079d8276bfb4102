"""Which users and groups Pods may have on a node that is root: a range that nobody else on the machine uses.

Every Pod that names no user gets one of its own from it, so that Pods cannot read each other's files, memory or
environment. What a Pod asks for outside the range is refused. Pure, but for the reading of what was typed.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

_SHAPE: Final = re.compile(r"([0-9]{1,10})-([0-9]{1,10})")
_LARGEST: Final = 2**32 - 2
COMMON: Final = frozenset({65532, 65533, 65534})
"""The ids by which images call somebody without rights; Pods that ask for the same one share it."""


class NoIdLeft(Exception):
    """As many Pods run as there are ids."""


@dataclass(frozen=True)
class PodIds:
    """The ids of users and groups from the first to the last."""

    first: int = 2_000_000_000
    last: int = 2_000_065_535

    def __str__(self) -> str:
        """As people type it."""
        return f"{self.first}-{self.last}"

    def allow(self, number: int) -> bool:
        """Whether a Pod may ask for this one."""
        return self.first <= number <= self.last or number in COMMON

    def own(self, used: Collection[int]) -> int:
        """An id that no Pod has yet; NoIdLeft where there is none."""
        free = next((number for number in range(self.first, self.last + 1) if number not in used), None)
        if free is None:
            raise NoIdLeft(f"every id from {self.first} to {self.last} belongs to a Pod")
        return free


def parse(text: str) -> PodIds:
    """A range as it was typed; ValueError says what is wrong with it."""
    found = _SHAPE.fullmatch(text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]) <= _LARGEST:
        raise ValueError(f"{text!r} is not FIRST-LAST with ids from 1 to {_LARGEST}, such as {PodIds()}")
    return PodIds(int(found[1]), int(found[2]))
