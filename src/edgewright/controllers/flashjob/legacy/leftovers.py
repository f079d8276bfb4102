"""What the original operator left behind: recognised by its names and labels, and what of it may go when.

`takeover` asks it for jobs that carry a finalizer. All three versions of the original are known: one Pod and Service
per job, a Pod per device with one shared Service, and a Pod and Service per device. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Final

from edgewright.api.device import Device, Mark
from edgewright.api.device_type import same_type
from edgewright.api.endpoint import normalize_endpoint
from edgewright.api.flash_pod import OTA_PORT, Variable
from edgewright.api.flashjob import FlashJob
from edgewright.api.pod import Pod
from edgewright.api.service import Service
from edgewright.controllers.flashjob.lookup import Directory, resolve
from edgewright.controllers.flashjob.names import label_value, state_of
from edgewright.runtime.objects import Resource

_SHORT: Final = 8
"""How many hex digits stand for a device in the annotation: a job may name thousands, and has little room for it."""


@dataclass(frozen=True)
class Leftovers:
    """What the original made for one job, by entry of spec.uuid; the key of what it made for the whole job is empty."""

    pods: dict[str, Pod] = field(default_factory=dict)
    services: dict[str, Service] = field(default_factory=dict)

    @property
    def uuids(self) -> frozenset[str]:
        """The entries of spec.uuid for which there is something."""
        return frozenset(self.pods.keys() | self.services.keys())

    def __bool__(self) -> bool:
        """Whether there is anything at all."""
        return bool(self.pods or self.services)


def recognise(job: FlashJob, pods: Iterable[Pod], services: Iterable[Service]) -> Leftovers:
    """Those of the objects that the original made for this job: its names and labels, and no mark of ours."""
    found = Leftovers()
    for pod in pods:
        uuid = _uuid_of(job, pod, f"{job.metadata.name}-flashing-pod", told=pod.variable(Variable.UUID))
        if uuid is not None:
            found.pods[uuid] = pod
    for service in services:
        uuid = _uuid_of(job, service, f"{job.metadata.name}-service")
        # An application may well have a Service of that name and label: devices dial in at one port only.
        if uuid is not None and any(port.port == OTA_PORT for port in service.spec.ports):
            found.services[uuid] = service
    return found


def _uuid_of(job: FlashJob, obj: Resource, name: str, *, told: str = "") -> str | None:
    """The entry of spec.uuid that a leftover is for; empty: for all of them. None where it is no leftover.

    `told` is what it says itself: the spec may name other devices by now than when it was made.
    """
    metadata = obj.metadata
    if metadata.namespace != job.metadata.namespace or Mark.JOB_UID in metadata.labels:
        return None
    if metadata.labels.get("app") != label_value(job.metadata.name):
        return None
    if metadata.name == name:
        uuids = job.spec.uuids
        return told or (uuids[0] if len(uuids) == 1 else "")
    uuid = metadata.name.removeprefix(f"{name}-")
    return uuid if uuid != metadata.name else None


def same_order(pod: Pod, job: FlashJob) -> bool:
    """Whether a Pod of the original was to bring what the job asks for now, as far as it tells."""
    firmware, version = pod.variable(Variable.FIRMWARE), pod.variable(Variable.VERSION)
    return firmware in ("", job.spec.firmware) and version in ("", job.spec.version)


def clearable(
    job: FlashJob, leftovers: Leftovers, *, settled: Iterable[str], late: Collection[str] = ()
) -> list[Pod | Service]:
    """What may go now: where the job is being deleted everything, else what belongs to no Pod that is awaited.

    `settled` are the entries of spec.uuid whose devices are claimed, done or given up: that there was a Pod is known.
    `late` are the names of the Pods that are waited for no longer.
    """
    if job.deleting:
        return [*leftovers.pods.values(), *leftovers.services.values()]
    wanted = set(job.spec.uuids)
    known = set(settled)

    def is_known(uuid: str) -> bool:
        return (uuid in known or uuid not in wanted) if uuid else wanted <= known

    over = {uuid for uuid, pod in leftovers.pods.items() if pod.finished and is_known(uuid)}
    ended = {uuid for uuid, pod in leftovers.pods.items() if pod.metadata.name in late and is_known(uuid)}
    awaited = leftovers.pods.keys() - over
    services = [
        service
        for uuid, service in leftovers.services.items()
        if (uuid not in awaited if uuid else not awaited) and "" not in awaited
    ]
    return [*(leftovers.pods[uuid] for uuid in sorted(over | ended)), *services]


def overdue(job: FlashJob, leftovers: Leftovers, *, now: datetime, grace: float) -> frozenset[str]:
    """The names of the Pods that have had the time of an attempt and more, and have not ended: they are told to."""
    longest = timedelta(seconds=job.spec.timeout + grace)
    return frozenset(
        pod.metadata.name
        for pod in leftovers.pods.values()
        if not pod.finished
        and pod.metadata.creation_timestamp is not None
        and now - pod.metadata.creation_timestamp > longest
    )


# --- whose devices they are -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """Which Devices the entries of spec.uuid mean, and what the original left of each."""

    devices: dict[str, Device]
    told: frozenset[str] = frozenset()
    """The entries whose Device only a Pod of the original tells."""
    leftovers: Leftovers = field(default_factory=Leftovers)
    """What is left, under all entries for the same device: two Instances of it, say."""


def meant_by(job: FlashJob, leftovers: Leftovers, directory: Directory) -> Found:
    """What a job means, where the original left these for it."""
    uuids = job.spec.uuids
    devices = resolve(uuids, directory)
    if not leftovers:
        return Found(devices)
    left = devices_of(leftovers, directory)
    told = frozenset(uuid for uuid in uuids if uuid in left and uuid not in devices)
    devices.update({uuid: left[uuid] for uuid in told})
    return Found(devices, told, _shared(leftovers, devices, left))


def devices_of(leftovers: Leftovers, directory: Directory) -> dict[str, Device]:
    """The Device of each leftover: by the uid that it was made for, else at the address that its Pod was told.

    A flash may change the application of a device, and Akri then gives it another uid before we have seen the first.
    """
    found = resolve((uuid for uuid in leftovers.uuids if uuid), directory)
    for uuid, pod in leftovers.pods.items():
        device = _at(pod, directory) if uuid and uuid not in found else None
        if device is not None:
            found[uuid] = device
    return found


def _at(pod: Pod, directory: Directory) -> Device | None:
    """The Device at the address that a Pod was told, unless it is of another type; of several that which came last."""
    endpoint, kind = normalize_endpoint(pod.variable(Variable.HOST_ENDPOINT)), pod.variable(Variable.DEVICE)
    there = directory.at(endpoint) if endpoint else ()
    same = [each for each in there if not (kind and each.spec.type) or same_type(each.spec.type, kind)]
    return max(same, key=lambda each: (_came(each.metadata.creation_timestamp), each.metadata.name), default=None)


def _shared(leftovers: Leftovers, devices: Mapping[str, Device], left: Mapping[str, Device]) -> Leftovers:
    """The leftovers, under all entries for the same device; of several Pods that which runs longest."""
    under: dict[str, list[str]] = {}
    for uuid, device in left.items():
        under.setdefault(device.metadata.name, []).append(uuid)
    pods, services = dict(leftovers.pods), dict(leftovers.services)
    for entry, device in devices.items():
        uuids = under.get(device.metadata.name, ())
        its_pods = [leftovers.pods[uuid] for uuid in uuids if uuid in leftovers.pods]
        its_services = [leftovers.services[uuid] for uuid in uuids if uuid in leftovers.services]
        if its_pods:
            pods[entry] = max(its_pods, key=lambda pod: (not pod.finished, _came(pod.metadata.creation_timestamp)))
        if its_services:
            services.setdefault(entry, its_services[0])
    return Leftovers(pods, services)


def _came(moment: datetime | None) -> float:
    return 0.0 if moment is None else moment.timestamp()


def with_namesakes(entries: frozenset[str], devices: Mapping[str, Device]) -> frozenset[str]:
    """The entries of spec.uuid, and those that mean the same Devices."""
    if not entries:
        return entries
    names = {devices[uuid].metadata.name for uuid in entries if uuid in devices}
    return entries | {uuid for uuid, device in devices.items() if device.metadata.name in names}


# --- what is remembered ---------------------------------------------------------------------------------------------


def had_by_original(job: FlashJob, note: str | None = None) -> frozenset[str]:
    """The entries of spec.uuid that the original had for what the spec asks for now, as the job itself remembers it.

    `note` is what the job is about to remember in the place of what it does.
    A device that it had for another firmware or version has to be flashed like any other.
    """
    text = job.metadata.annotations.get(Mark.TAKEN_OVER, "") if note is None else note
    return _among(job.spec.uuids, _noted(text, state_of(job.spec))) if text else frozenset()


def to_remember(job: FlashJob, leftovers: Leftovers) -> str | None:
    """What the job's annotation has to say from now on of the devices that the original had; None where it does.

    It is written before anything of the original goes and before our status takes the place of its own: whatever is
    lost after that (a claim, a Device's status, this process), such a device is asked before it is flashed. It is
    empty once the job asks for something else: what a device then gets is not what the original gave it.
    """
    text = job.metadata.annotations.get(Mark.TAKEN_OVER, "")
    had = {uuid for uuid, pod in leftovers.pods.items() if same_order(pod, job)}
    if job.status.observed_time is None:  # so the status is not ours but the original's
        had.update(job.status.completed_uuids)
    if not had and not text:
        return None
    if "" in had:
        had.update(job.spec.uuids)
    state = state_of(job.spec)
    shorts = _noted(text, state) | {_short(uuid) for uuid in had if uuid}
    note = " ".join((state, *sorted(shorts))) if shorts else ""
    return None if note == text else note


def _noted(text: str, state: str) -> frozenset[str]:
    """What the annotation says, where it is about this state."""
    of, *shorts = text.split(" ")
    return frozenset(shorts) if of == state else frozenset()


@lru_cache(maxsize=64)  # asked in every pass over a job
def _among(uuids: tuple[str, ...], shorts: frozenset[str]) -> frozenset[str]:
    return frozenset(uuid for uuid in uuids if _short(uuid) in shorts)


def _short(uuid: str) -> str:
    return hashlib.sha256(uuid.encode()).hexdigest()[:_SHORT]
