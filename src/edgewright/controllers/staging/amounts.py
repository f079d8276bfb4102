"""Counts and shares as people write them: 5, "5" or "10%".

Validation, batches and stop rules read them here. Pure; what cannot be read raises BadAmount with what to write.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

_COUNT: Final = re.compile(r"[0-9]{1,9}")
_SHARE: Final = re.compile(r"([0-9]{1,3})%")
_WHOLE: Final = 100


class BadAmount(ValueError):
    """The text is neither a count nor a share."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A count, or a share in per cent."""

    number: int
    share: bool = False

    def of(self, total: int) -> int:
        """How many of so many it is, a share rounded up: some of a few are never none of them."""
        return math.ceil(total * self.number / _WHOLE) if self.share else self.number

    def reached(self, part: int, total: int) -> bool:
        """Whether so many are at least as many as this, of so many in all."""
        return part * _WHOLE >= self.number * total and part > 0 if self.share else part >= self.number

    def __str__(self) -> str:
        return f"{self.number}%" if self.share else str(self.number)


def parse_amount(text: int | str) -> Amount:
    """The amount in a number or a text such as 10%; BadAmount where it is none."""
    if isinstance(text, int):
        if text < 1:
            raise BadAmount(f"{text} is too small: write a count of at least 1, or a share such as 10%")
        return Amount(text)
    share = _SHARE.fullmatch(text)
    if share is not None and 1 <= int(share[1]) <= _WHOLE:
        return Amount(int(share[1]), share=True)
    if _COUNT.fullmatch(text) and int(text) >= 1:
        return Amount(int(text))
    raise BadAmount(f"{text[:40]!r} is no amount: write a count such as 5, or a share from 1% to 100%")
