"""The controllers without which an API server is a mere store, in-process and on our own runtime.

`add_all` registers them with a manager; what it returns runs next to that manager. They speak only the Kubernetes API,
so they are tested on a real API server, and know nothing of the store behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from edgewright.local.controllers import (
    aggregation,
    claims,
    defaults,
    endpoints,
    namespaces,
    orphans,
    scheduler,
    workloads,
)
from edgewright.local.controllers.discovery import KindsFunction, ServedKinds
from edgewright.local.controllers.expiry import EventExpiry
from edgewright.local.controllers.garbage import GarbageCollector
from edgewright.local.controllers.resources import CustomResourceDefinition
from edgewright.runtime import Clock, Manager, SystemClock
from edgewright.runtime.events import Recorder

__all__ = ["Companions", "ServedKinds", "add_all"]


class Companions:
    """What runs next to the manager: it watches kinds that come and go, which a manager's caches cannot."""

    def __init__(
        self, kinds: ServedKinds, garbage: GarbageCollector, expiry: EventExpiry, recorders: Sequence[Recorder]
    ) -> None:
        self.kinds = kinds
        """Whom to tell (`kinds.changed()`) that kinds were defined or taken away."""
        self.garbage = garbage
        self._parts = (kinds.run, garbage.run, expiry.run, *(each.run for each in recorders))

    async def run(self) -> None:
        """Runs until cancelled; raises what ended a part otherwise."""
        async with asyncio.TaskGroup() as group:
            for part in self._parts:
                group.create_task(part())


def add_all(
    manager: Manager,
    *,
    root_ca: bytes,
    kinds: KindsFunction | None = None,
    schedule: bool = True,
    folders: Path = claims.FOLDERS,
    clock: Clock | None = None,
) -> Companions:
    """Registers every controller; run the manager and what is returned side by side.

    `root_ca` is the PEM certificate that goes into every namespace. `kinds` gives all served kinds that can be listed,
    watched and deleted, in all versions; call `companions.kinds.changed()` when they change. Without it they are read
    by discovery. `schedule=False` leaves placing Pods to somebody else. `folders` are those of claims.
    """
    clock = clock or SystemClock()
    served = ServedKinds(manager.client, given=kinds, clock=clock)
    if kinds is None:
        manager.cache(CustomResourceDefinition).subscribe(lambda _: served.changed())
    defaults.add(manager, certificate=root_ca)
    aggregation.add(manager)
    namespaces.add(manager, kinds=served, clock=clock)
    endpoints.add(manager)
    claims.add(manager, folders=folders)
    orphans.add(manager, clock=clock)
    recorder = Recorder(manager.client, "default-scheduler", clock=clock)
    if schedule:
        scheduler.add(manager, recorder=recorder, clock=clock)
    garbage = GarbageCollector(manager, kinds=served, clock=clock)
    recorders = [recorder, *workloads.add(manager, clock=clock)]
    return Companions(served, garbage, EventExpiry(manager.client, clock=clock), recorders)
