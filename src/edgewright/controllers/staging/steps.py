"""The steps of a staged change, and which devices each takes.

A step takes devices in one fixed order: those that have what is wanted already come last, for they prove nothing; named
batches go by a hash of the name, which spreads a small batch over sites, types and serial numbers and is the same in
every pass. Pure.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, TypeVar

from edgewright.controllers.staging.amounts import Amount
from edgewright.runtime.objects import Resource

R = TypeVar("R", bound=Resource)

REST: Final = "rest"
"""What the implied last batch is called."""
_ALL: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One batch as the spec asks for it."""

    number: int
    name: str
    size: Amount | None = None
    chooses: Callable[[Any], bool] | None = None
    """Whether a device is meant; None: every one."""
    soak: int = 0
    """How many seconds its devices are watched after its end."""
    interval: int = 0
    """How many seconds there are from its end to the next one."""
    success: int = _ALL
    """How many per cent of its devices must succeed."""
    blocks: bool = True
    """Whether the next one waits until so many have."""
    manual: bool = False
    """Whether somebody has to approve before the next one opens."""
    last: bool = False
    """Whether it takes all the rest, and those that appear later."""


class NamedSteps:
    """The batches that a spec names, by number from 1 on; where the last names a part, all the rest is implied."""

    def __init__(self, named: Iterable[Step], *, rest: Step | None = None) -> None:
        """`rest` says what the implied last one demands; its number and name are given here."""
        self._named = list(named)
        self._rest = rest or Step(number=0, name=REST)
        takes_all = bool(self._named) and self._named[-1].size is None and self._named[-1].chooses is None
        if takes_all:
            self._named[-1] = replace(self._named[-1], last=True)
        self._last = len(self._named) if takes_all else len(self._named) + 1

    @property
    def last(self) -> int | None:
        """The number of the last one."""
        return self._last

    def get(self, number: int) -> Step:
        """The step of this number; one beyond the last is as the last."""
        if number <= len(self._named):
            return self._named[number - 1]
        return replace(self._rest, number=number, name=self._rest_name(), last=True)

    def _rest_name(self) -> str:
        taken = {step.name for step in self._named}
        return REST if REST not in taken else f"{REST} (implied)"


def rank_by_hash(name: str) -> tuple[int, str]:
    """Where a device stands among others: spread, and the same always."""
    return zlib.crc32(name.encode()), name


def ordered(
    candidates: Iterable[R],
    *,
    simple: bool,
    current: Callable[[R], bool],
    silent: Callable[[R], bool] = lambda _: False,
) -> list[R]:
    """The devices in the order in which steps take them; those that are `silent` come after those that are heard."""
    if simple:
        return sorted(candidates, key=lambda device: (current(device), device.metadata.name))
    return sorted(candidates, key=lambda device: (current(device), silent(device), rank_by_hash(device.metadata.name)))


def taken_by(step: Step, candidates: Sequence[R], *, total: int, start: int = 0) -> list[R]:
    """Which of these devices, in their order from `start` on, a step takes; the change means `total` in all."""
    size = None if step.size is None else step.size.of(total)
    if step.chooses is None:
        return list(candidates[start : None if size is None else start + size])
    found = (device for device in islice(candidates, start, None) if step.chooses(device))
    return list(islice(found, size))
