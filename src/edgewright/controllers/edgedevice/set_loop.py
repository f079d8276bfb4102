"""Shows of each EdgeDeviceSet and EdgeDeviceGroup how many devices it is for, and whether an older one has its name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from edgewright.api.edge_matching import yields_to
from edgewright.api.edgedevice import MEMBER_OF, EdgeDevice
from edgewright.api.edgedeviceset import EdgeDeviceGroup, EdgeDeviceSet, EdgeDeviceSetStatus
from edgewright.controllers.eras import conflict_shown
from edgewright.runtime.cache import Cache
from edgewright.runtime.clock import Clock
from edgewright.runtime.conditions import done, stuck, with_outcome
from edgewright.runtime.controller import DONE, For, Maps, Result
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key
from edgewright.runtime.predicates import intent_changed


class DeviceSets:
    """The loop over one of the two kinds."""

    def __init__(self, manager: Manager, clock: Clock, kind: type[EdgeDeviceSet], other: type[EdgeDeviceSet]) -> None:
        self._clock = clock
        self._recorder = manager.recorder
        self._api = manager.client.of(kind)
        self._kind = kind
        self._sets: Cache[Any] = manager.cache(kind)
        self._others: Cache[Any] = manager.cache(other)
        self._devices = manager.cache(EdgeDevice)

    def add(self, manager: Manager) -> None:
        """Adds the loop to a manager."""
        manager.controller(
            self._kind.kind.kind.lower(),
            self.reconcile,
            For(self._sets),
            Maps(self._others, to=lambda each: (each.key,), when=intent_changed),
            Maps(self._devices, to=_sets_of, when=intent_changed),
        )

    async def reconcile(self, key: Key) -> Result:
        """One pass for a set."""
        found = self._sets.get(key)
        if found is None or found.deleting:
            return DONE
        members = sum(
            1
            for device in self._devices
            if device.metadata.namespace == key.namespace and device.metadata.labels.get(MEMBER_OF) == key.name
        )
        status = self._status(found, self._others.get(key), members)
        if status != found.status:
            await self._api.write_status(found, status)
            self._recorder.record_transitions(
                found, found.status.conditions, status.conditions, bad=frozenset({"Conflict"})
            )
        return DONE

    def _status(self, found: EdgeDeviceSet, other: EdgeDeviceSet | None, members: int) -> EdgeDeviceSetStatus:
        generation, now = found.metadata.generation, self._clock.now()
        beaten = other is not None and yields_to(found, other)
        conditions = conflict_shown(found.status.conditions, other if beaten else None, generation=generation, now=now)
        outcome = stuck("Conflict", "an older object has its name") if beaten else done("InEffect")
        return msgspec.structs.replace(
            found.status,
            members=0 if beaten else members,
            conditions=with_outcome(conditions, outcome, generation=generation, now=now),
            observed_generation=generation,
        )


def add_sets(manager: Manager, clock: Clock) -> None:
    """Adds the loops over both kinds."""
    DeviceSets(manager, clock, EdgeDeviceSet, EdgeDeviceGroup).add(manager)
    DeviceSets(manager, clock, EdgeDeviceGroup, EdgeDeviceSet).add(manager)


def _sets_of(device: EdgeDevice) -> Iterator[Key]:
    if name := device.metadata.labels.get(MEMBER_OF):
        yield Key(device.metadata.namespace, name)
