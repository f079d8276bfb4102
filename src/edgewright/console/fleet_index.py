"""What the fleet's counts need of each Device, kept in step with the shared cache: 100,000 are not decoded per request.

`fleet` counts from it. A row is made again when its Device changes; all of them when the cache was listed again, or
when more has happened since the last count than the cache remembers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias
from weakref import WeakKeyDictionary

import msgspec

from edgewright.api.device import STALE, Device
from edgewright.api.flash_pod import Outcome
from edgewright.console.kind_cache import KindCache, Shown, decoded
from edgewright.runtime.conditions import is_true
from edgewright.runtime.errors import UNFIT
from edgewright.runtime.objects import Key, ObjectMeta

State: TypeAlias = Literal["updating", "quarantined", "failed", "unreachable", "ok"]
NONE: Final = "(none)"
"""The version of a device that tells none, and the group of one that has not the label."""
_device: Final = msgspec.json.Decoder(Device).decode


class Row(msgspec.Struct, frozen=True, gc=False):
    """One device, as it is counted."""

    name: str
    state: State
    version: str
    labels: Mapping[str, str]


def state_of(device: Device) -> State:
    """Where one device stands: what somebody has to look at comes before what goes by itself."""
    status = device.status
    if status.claim is not None:
        return "updating"
    if status.quarantined:
        return "quarantined"
    last = status.last_flash
    if last is not None and last.outcome in set(Outcome) and not Outcome(last.outcome).good:
        return "failed"
    return "unreachable" if is_true(status.conditions, STALE) else "ok"


def row_of(device: Device, metadata: ObjectMeta | None = None) -> Row:
    """What counts of a device; with the name and labels that somebody keeps already, where they are given."""
    about = metadata or device.metadata
    version = device.status.version or NONE
    return Row(name=about.name, state=state_of(device), version=version, labels=about.labels)


@dataclass(eq=False)
class _Rows:
    """The rows of one cache."""

    by_key: dict[Key, Row] = field(default_factory=dict)
    lists: int = 0
    """The list of the cache that they are from, by its number."""
    version: int = 0
    """The state of the cache that they have."""

    def add(self, shown: Shown, device: Device) -> None:
        """The row of a Device; its name and labels are those that the cache keeps."""
        self.by_key[shown.key] = row_of(device, shown.metadata)


class FleetIndex:
    """The rows of every cache of Devices that is kept; they go with the cache."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._of: WeakKeyDictionary[KindCache, _Rows] = WeakKeyDictionary()
        self._turn = asyncio.Lock()

    async def rows(self, kept: KindCache) -> Collection[Row]:
        """A row for each Device in the cache as it is now; one that cannot be read is left out."""
        async with self._turn:
            rows = self._of.get(kept)
            while rows is None or rows.lists != kept.lists or rows.version < kept.floor:
                rows = self._of[kept] = await _made(kept)
            for change in kept.since(rows.version):
                rows.by_key.pop(change.new.key, None)
                if not change.gone:
                    with suppress(*UNFIT):
                        rows.add(change.new, _device(change.new.body))
            rows.version = kept.version
            return rows.by_key.values()


async def _made(kept: KindCache) -> _Rows:
    """All rows; what changes meanwhile is caught up with afterwards."""
    rows = _Rows(lists=kept.lists, version=kept.version)
    async for shown, device in decoded(kept.ordered(), _device):
        rows.add(shown, device)
    return rows
