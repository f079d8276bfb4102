"""Shows how far each EdgeWorkload and EdgeDeployment is, and lets it go when no device refers to it any more.

The operator adds it with `add_workloads`, once for each of the two kinds. It also writes down each version of a
workload, and which devices have got it. Which workloads a device has is the business of the loop over EdgeDevices.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from edgewright.api.edge_matching import selects, yields_to
from edgewright.api.edgedevice import ONLINE, EdgeDevice
from edgewright.api.edgeworkload import WORKLOAD_REFERENCE_FINALIZER, EdgeDeployment, EdgeWorkload
from edgewright.controllers.edgeworkload.decisions import BAD, problem_to_show, status_of
from edgewright.controllers.edgeworkload.revisions import Revisions
from edgewright.controllers.edgeworkload.staging import decide
from edgewright.controllers.ledger import Ledger
from edgewright.runtime.cache import Cache, Change
from edgewright.runtime.clock import Clock
from edgewright.runtime.conditions import is_true
from edgewright.runtime.controller import DONE, For, Maps, Result, requeue_after
from edgewright.runtime.errors import NotFound
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key
from edgewright.runtime.predicates import intent_changed

_LISTED: Final = "edge-listed-workloads"
_WORKERS: Final = 2


class EdgeWorkloads:
    """The loop over one of the two kinds."""

    def __init__(self, manager: Manager, clock: Clock, kind: type[EdgeWorkload], other: type[EdgeWorkload]) -> None:
        self._clock = clock
        self._recorder = manager.recorder
        self._api = manager.client.of(kind)
        self._kind = kind
        self._workloads: Ledger[Any] = Ledger(manager.cache(kind))
        self._others: Cache[Any] = manager.cache(other)
        self._devices = manager.cache(EdgeDevice)
        self._revisions = Revisions(manager, kind)
        self._devices.add_index(f"{_LISTED}-{kind.kind.plural}", _listed)

    def add(self, manager: Manager) -> None:
        """Adds the loop to a manager."""
        manager.controller(
            self._kind.kind.kind.lower(),
            self.reconcile,
            For(self._workloads.cache),
            Maps(self._others, to=lambda each: (each.key,), when=intent_changed),
            Maps(self._devices, to=self.workloads_of, when=_workloads_changed),
            Maps(self._revisions.cache, to=self._revisions.workload),
            workers=_WORKERS,
        )

    def workloads_of(self, device: EdgeDevice) -> Iterator[Key]:
        """The workloads that a device has, and those that select it."""
        namespace = device.metadata.namespace
        yield from (Key(namespace, each.name) for each in device.status.known_workloads)
        for workload in self._workloads.cache:
            if workload.metadata.namespace == namespace and selects(workload.spec, device):
                yield workload.key

    async def reconcile(self, key: Key) -> Result:
        """One pass for a workload."""
        workload = self._workloads.get(key)
        if workload is None:
            await self._revisions.forget(key)
            return DONE
        other = self._others.get(key)
        if workload.deleting:
            await self._let_go(workload, other)
            return DONE
        devices = [
            device
            for device in self._devices
            if device.metadata.namespace == key.namespace and not device.deleting and selects(workload.spec, device)
        ]
        winner = other if other is not None and not other.deleting and yields_to(workload, other) else None
        staging = None
        if winner is None and problem_to_show(workload) is None:
            staging = decide(workload, devices, self._revisions.of(key), self._clock.now())
            await self._revisions.carry_out(workload, staging)
        # After its first version is written down: without either the gateway sends none of a workload with a rollout.
        if WORKLOAD_REFERENCE_FINALIZER not in workload.metadata.finalizers:
            finalizers = [*workload.metadata.finalizers, WORKLOAD_REFERENCE_FINALIZER]
            workload = self._workloads.wrote(await self._finalizers(workload, finalizers))
        status = status_of(workload, devices, winner=winner, now=self._clock.now(), staging=staging)
        if status != workload.status:
            self._workloads.wrote(await self._api.write_status(workload, status))
            self._recorder.record_transitions(workload, workload.status.conditions, status.conditions, bad=BAD)
        return DONE if staging is None or staging.after is None else requeue_after(staging.after)

    async def _let_go(self, workload: EdgeWorkload, other: EdgeWorkload | None) -> None:
        """Takes our finalizer off once no device refers to the workload; a living one of its name takes them."""
        if WORKLOAD_REFERENCE_FINALIZER not in workload.metadata.finalizers:
            return
        taken_over = other is not None and not other.deleting
        if not taken_over and self._devices.by(f"{_LISTED}-{self._kind.kind.plural}", workload.key):
            return
        await self._revisions.forget(workload.key)
        kept = [each for each in workload.metadata.finalizers if each != WORKLOAD_REFERENCE_FINALIZER]
        try:
            await self._finalizers(workload, kept)
        except NotFound:
            return

    async def _finalizers(self, workload: EdgeWorkload, finalizers: list[str]) -> Any:
        return await self._api.change(workload, {"metadata": {"finalizers": finalizers}})


def add_workloads(manager: Manager, clock: Clock) -> None:
    """Adds the loops over both kinds."""
    EdgeWorkloads(manager, clock, EdgeWorkload, EdgeDeployment).add(manager)
    EdgeWorkloads(manager, clock, EdgeDeployment, EdgeWorkload).add(manager)


def _listed(device: EdgeDevice) -> Iterator[Key]:
    return (Key(device.metadata.namespace, each.name) for each in device.status.known_workloads)


def _workloads_changed(change: Change[EdgeDevice]) -> bool:
    """The labels of a device, or what is known of its workloads; other parts of heartbeats are none of our business."""
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    return (
        old.metadata.labels != new.metadata.labels
        or old.deleting != new.deleting
        or old.status.known_workloads != new.status.known_workloads
        or is_true(old.status.conditions, ONLINE) != is_true(new.status.conditions, ONLINE)
    )
