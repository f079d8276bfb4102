"""Keeps each EdgeDevice true: its labels, its bucket claim, and the list of the workloads that it is to run.

The operator adds it with `add_devices`. It never talks to a device: the gateway tells the device, and writes what it
hears. A device that is being deleted stays until it was told to disconnect, or for some minutes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec

from edgewright.api.edge_matching import selects, settings_of, workloads_of
from edgewright.api.edge_revisions import by_workload, owner, served, workload_of
from edgewright.api.edge_tombstone import DECOMMISSIONED, tombstone_of, without_device
from edgewright.api.edgedevice import MEMBER_OF, EdgeDevice
from edgewright.api.edgedeviceset import EdgeDeviceGroup, EdgeDeviceSet
from edgewright.api.edgedevicesignedrequest import EdgeDeviceSignedRequest, id_record
from edgewright.api.edgeworkload import EdgeDeployment, EdgeWorkload
from edgewright.api.edgeworkloadrevision import EdgeWorkloadRevision
from edgewright.controllers.edgedevice.claims import Claims
from edgewright.controllers.edgedevice.decisions import OURS, held_until, labels_of, needs_claim, status_of
from edgewright.controllers.ledger import Ledger
from edgewright.controllers.settings import Settings
from edgewright.runtime import logs
from edgewright.runtime.cache import Cache, Change
from edgewright.runtime.clock import Clock
from edgewright.runtime.controller import DONE, For, Maps, Result, requeue_after
from edgewright.runtime.errors import AlreadyExists, NotFound
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key
from edgewright.runtime.patches import merge_diff
from edgewright.runtime.predicates import intent_changed

_log = logs.get("controllers.edgedevice")

NAMESPACE: Final = "edge-namespace"
"""The index of workloads, sets and devices by namespace."""
_SET: Final = "edge-set"
_ID: Final = "edge-request-id"
_OWNER: Final = "edge-revision-owner"
_WORKERS: Final = 4


class EdgeDevices:
    """The loop over EdgeDevices, and what it knows."""

    def __init__(self, manager: Manager, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._api = manager.client.of(EdgeDevice)
        self._requests_api = manager.client.of(EdgeDeviceSignedRequest)
        self._requests = manager.cache(EdgeDeviceSignedRequest)
        self._requests.add_index(_ID, _id_of)
        self.devices = Ledger(manager.cache(EdgeDevice))
        self.workloads: tuple[Cache[Any], ...] = (manager.cache(EdgeWorkload), manager.cache(EdgeDeployment))
        self.sets: tuple[Cache[Any], ...] = (manager.cache(EdgeDeviceSet), manager.cache(EdgeDeviceGroup))
        self._claims = Claims(
            manager.client, clock, storage_class=settings.bucket_class, recheck=settings.timing.recheck
        )
        self.devices.cache.add_index(_SET, _set_of)
        self._revisions = manager.cache(EdgeWorkloadRevision)
        self._revisions.add_index(_OWNER, lambda each: (workload_of(each),))
        for cache in (self.devices.cache, *self.workloads, *self.sets):
            cache.add_index(NAMESPACE, lambda each: (each.metadata.namespace,))

    def add(self, manager: Manager) -> None:
        """Adds the loop to a manager."""
        manager.controller(
            "edgedevice",
            self.reconcile,
            For(self.devices.cache, when=_concerns_us),
            *(Maps(cache, to=self.devices_of_workload, when=intent_changed) for cache in self.workloads),
            *(Maps(cache, to=self.members_of, when=intent_changed) for cache in self.sets),
            workers=_WORKERS,
        )

    def devices_of_workload(self, workload: EdgeWorkload) -> Iterator[Key]:
        """The devices that a workload selects, and those that have it."""
        for device in self.devices.cache.by(NAMESPACE, workload.metadata.namespace):
            listed = any(each.name == workload.metadata.name for each in device.status.known_workloads)
            if listed or selects(workload.spec, device):
                yield device.key

    def _served(self, workload: EdgeWorkload) -> EdgeWorkload:
        """The workload as devices can get it; only one that is wrong and has a rollout is asked for its revisions."""
        if workload.spec.rollout is None:
            return workload
        return served(workload, by_workload(self._revisions.by(_OWNER, owner(workload))).get(owner(workload), []))

    def members_of(self, found: EdgeDeviceSet) -> list[Key]:
        """The devices that are members of a set."""
        return self.devices.cache.keys(_SET, found.key)

    async def reconcile(self, key: Key) -> Result:
        """One pass for an EdgeDevice."""
        device = self.devices.get(key)
        if device is None:
            return DONE
        if device.deleting:
            return await self._let_go(device)
        here = [each for cache in self.workloads for each in cache.by(NAMESPACE, key.namespace)]
        workloads = workloads_of(device, map(self._served, here))
        labels = labels_of(device, workloads)
        change = merge_diff({"labels": device.metadata.labels}, {"labels": labels})
        if change:
            version = device.metadata.resource_version
            device = self.devices.wrote(await self._api.patch(key, {"metadata": change}, resource_version=version))
        settings = settings_of(device, [each for cache in self.sets for each in cache.by(NAMESPACE, key.namespace)])
        status = status_of(device, workloads, now=self._clock.now())
        waits = False
        if needs_claim(device, settings, automatic=self._settings.claim_buckets):
            claim = await self._claims.ensure(device)
            status = msgspec.structs.replace(status, data_obc=claim)
            waits = not claim
        if status != device.status:
            self.devices.wrote(await self._api.write_status(device, status))
        # Nobody tells when the kind of claims is installed.
        return requeue_after(self._settings.timing.recheck) if waits else DONE

    async def _let_go(self, device: EdgeDevice) -> Result:
        """Takes our finalizers off where the device need not be told any more; the gateway does so when it was told."""
        wait = held_until(device, grace=self._settings.timing.disconnect_grace)
        since = device.metadata.deletion_timestamp
        if wait is None or since is None:
            return DONE
        left = wait - (self._clock.now() - since).total_seconds()
        if left > 0:
            return requeue_after(left)
        await self._bury(device)
        kept = [name for name in device.metadata.finalizers if name not in OURS]
        try:
            await self._api.change(device, {"metadata": {"finalizers": kept}})
        except NotFound:
            return DONE
        _log.info("device deleted", device=str(device.key), told=False)
        return DONE

    async def _bury(self, device: EdgeDevice) -> None:
        """Records that the device was decommissioned: it was not told, and is when it comes back."""
        record = id_record(self._requests.by(_ID, device.metadata.name))
        if record is None:
            if not without_device(device):
                with suppress(AlreadyExists):
                    await self._requests_api.create(tombstone_of(device, device.metadata.namespace))
        elif not (record.spec.denied and record.spec.decommissioned):
            version = record.metadata.resource_version
            await self._requests_api.patch(record.key, {"spec": DECOMMISSIONED}, resource_version=version)


def _id_of(request: EdgeDeviceSignedRequest) -> tuple[str]:
    return (request.metadata.name,)


def _set_of(device: EdgeDevice) -> Iterator[Key]:
    if name := device.metadata.labels.get(MEMBER_OF):
        yield Key(device.metadata.namespace, name)


def _concerns_us(change: Change[EdgeDevice]) -> bool:
    """Intent, or what we keep ourselves; heartbeats alone are none of our business."""
    if intent_changed(change):
        return True
    old, new = change.old, change.new
    assert old is not None  # noqa: S101 - else the intent has changed
    assert new is not None  # noqa: S101
    return (
        old.status.hardware != new.status.hardware
        or old.status.data_obc != new.status.data_obc
        or _standing(old) != _standing(new)
        or [each.name for each in old.status.workloads] != [each.name for each in new.status.workloads]
        or [each.name for each in old.status.deployments] != [each.name for each in new.status.deployments]
    )


def _standing(device: EdgeDevice) -> tuple[object, ...]:
    """What its condition Ready follows from."""
    status = device.status
    return (
        [(each.type, each.status, each.message) for each in status.conditions],
        [each.phase for each in status.known_workloads],
    )
