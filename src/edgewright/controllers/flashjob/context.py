"""What both loops of this package read and write with: caches with indexes, ledgers, the client, the clock.

Made once by `operator`; it decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final, TypeVar

import msgspec

from edgewright.api.device import Claim, Device, FlashRecord, JobReference, Mark
from edgewright.api.endpoint import normalize_endpoint
from edgewright.api.firmwarerollout import DEFAULT_QUARANTINE, FirmwareRollout
from edgewright.api.flash_pod import Report
from edgewright.api.flashjob import FlashJob
from edgewright.api.fleet import FLEET, Fleet
from edgewright.api.pod import Pod
from edgewright.api.service import Service
from edgewright.controllers.flashjob.limits import is_broken, owner_of
from edgewright.controllers.flashjob.names import device_name
from edgewright.controllers.flashjob.waits import Wait
from edgewright.controllers.ledger import Ledger
from edgewright.controllers.metrics import FlashMetrics
from edgewright.controllers.settings import Settings
from edgewright.runtime.clock import Clock
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key, Resource

BY_INSTANCE: Final = "by-instance"
BY_CLAIM: Final = "by-claim"
ANY_JOB: Final = ""
"""The value under which BY_CLAIM holds every Device that has a claim, whosever it is."""
BY_RECORD: Final = "by-record"
BY_CERTIFICATE: Final = "by-certificate"
BY_ENDPOINT: Final = "by-endpoint"
RESTRICTED: Final = "restricted"
"""The Devices that not every namespace may flash."""
BY_DEVICE: Final = "by-device"
BY_JOB: Final = "by-job"
BY_UUID: Final = "by-uuid"
BY_UID: Final = "by-uid"
BY_ROLLOUT: Final = "by-rollout"
"""Of FlashJobs: those that a rollout made. Of Devices: those with a claim of a rollout."""
BY_LABEL: Final = "by-label"
BY_TROUBLE: Final = "by-trouble"
"""The Devices that are claimed or broken, by each of their labels and its value."""
BY_START: Final = "by-start"
"""The Devices of which a flash Pod was made for a rollout, by its uid and the minute."""

_BY_OTHERS: Final = frozenset({Wait.SLOT, Wait.RATE, Wait.BUDGET})

R = TypeVar("R", Pod, Service)
M = TypeVar("M", bound=Resource)


class Context:
    """Everything that the FlashJob controllers know and can do."""

    def __init__(self, manager: Manager, settings: Settings, clock: Clock) -> None:
        self.settings = settings
        self.clock = clock
        self.client = manager.client
        self.recorder = manager.recorder
        self.watches = manager.watches
        self.jobs = manager.cache(FlashJob)
        self.devices = Ledger(manager.cache(Device))
        # Whatever is made for a device has this label, whoever made it.
        self.pods = Ledger(manager.cache(Pod, labels="uuid"))
        self.services = Ledger(manager.cache(Service, labels="uuid"))
        self.metrics = FlashMetrics(
            manager.metrics.registry, devices=self.devices.cache, clock=clock, leading=lambda: manager.leads
        )
        self.rollouts = manager.cache(FirmwareRollout, optional=True)
        self.fleets = manager.cache(Fleet, optional=True)
        self.limited: dict[str, set[Key]] = {}
        """The jobs that wait for others because of a limit, by the uid of their rollout."""
        self._resting: dict[tuple[str, str], float] = {}
        """By the uid of a job and the name of a Device: until when it does not claim it again."""
        self.rollouts.add_index(BY_UID, lambda rollout: (rollout.metadata.uid,))
        self.jobs.add_index(BY_UUID, _entries)
        self.jobs.add_index(BY_ROLLOUT, lambda job: (owner.uid,) if (owner := owner_of(job)) else ())
        devices = self.devices.cache
        devices.add_index(BY_INSTANCE, known_as)
        devices.add_index(
            BY_CLAIM, lambda device: (device.status.claim.job.uid, ANY_JOB) if device.status.claim else ()
        )
        devices.add_index(BY_RECORD, lambda device: (record.job.uid for record in device.status.records))
        devices.add_index(BY_CERTIFICATE, lambda device: filter(None, (device.status.certificate,)))
        devices.add_index(BY_ENDPOINT, lambda device: filter(None, (normalize_endpoint(device.spec.endpoint),)))
        devices.add_index(RESTRICTED, lambda device: (True,) if device.spec.allowed_namespaces else ())
        devices.add_index(BY_ROLLOUT, _claimed_for)
        devices.add_index(BY_LABEL, lambda device: device.metadata.labels.items())
        devices.add_index(BY_TROUBLE, lambda device: device.metadata.labels.items() if in_trouble(device) else ())
        devices.add_index(BY_START, lambda device: ((uid, minute_of(time)) for uid, time in starts_of(device)))
        for each in (self.pods.cache, self.services.cache):
            each.add_index(BY_DEVICE, _device_of)
            each.add_index(BY_JOB, _job_of)

    def lives(self, reference: JobReference) -> bool:
        """Whether a job exists, as far as the cache knows; one that cannot be read does, and may be read again."""
        if not self.watches(reference.namespace):
            return True  # another operator's: what it has claimed stays claimed
        key = Key(reference.namespace, reference.name)
        job = self.jobs.get(key)
        if job is None:
            return any(unread.key == key for unread in self.jobs.unread)
        return job.metadata.uid == reference.uid

    def keeps(self, record: FlashRecord) -> bool:
        """Whether an outcome is still needed: its job or its rollout exists."""
        return self.lives(record.job) or (bool(record.rollout) and bool(self.rollouts.count(BY_UID, record.rollout)))

    def note_limited(self, job: Key, rollouts: Iterable[str], waits: Iterable[Wait]) -> None:
        """Notes whether a job waits for others of these rollouts, so that it hears when one of them ends."""
        if not self.limited and not rollouts:
            return
        for jobs in self.limited.values():
            jobs.discard(job)
        rollouts = (*rollouts, "") if rollouts else ()
        if rollouts and not _BY_OTHERS.isdisjoint(waits):
            for uid in rollouts:
                self.limited.setdefault(uid, set()).add(job)
        self.limited = {uid: jobs for uid, jobs in self.limited.items() if jobs}

    def quarantine_after(self, rollout_uid: str) -> int:
        """After how many failed jobs in a row a rollout leaves a Device alone; 0 for never, and where it is gone."""
        found = self.rollouts.by(BY_UID, rollout_uid) if rollout_uid else ()
        after = found[0].spec.quarantine_after if found else 0
        return DEFAULT_QUARANTINE if after is None else after

    @property
    def fleet(self) -> Fleet | None:
        """The switch that stops every start."""
        return self.fleets.get(Key("", FLEET))

    def device(self, name: str) -> Device | None:
        """A Device by its name, as new as we know it."""
        return self.devices.get(Key("", name))

    @property
    def restricted(self) -> bool:
        """Whether there is a Device that not every namespace may flash: mostly there is none, and nobody has to ask."""
        return self.devices.cache.count(RESTRICTED, True) > 0

    def at(self, endpoint: str) -> Sequence[Device]:
        """The Devices at an address, however it is written."""
        place = normalize_endpoint(endpoint)
        return self.devices.cache.by(BY_ENDPOINT, place) if place else ()

    def rest(self, claim: Claim, device: str) -> None:
        """Keeps a job from claiming a Device again before others could that wait for it."""
        now = self.clock.elapsed()
        self._resting = {key: until for key, until in self._resting.items() if until > now}
        self._resting[claim.job.uid, device] = now + self.settings.timing.recheck

    def rests(self, job_uid: str, device: str) -> bool:
        """Whether a job gave a Device back just now, because it could not go on."""
        return self._resting.get((job_uid, device), 0.0) > self.clock.elapsed() if self._resting else False

    def about(self, device: Device, report: Report) -> Report:
        """The report without a certificate by which another Device is known: two with one could not be told apart.

        It is of a board that was moved here; the Device keeps the certificate of its own, so that every later flash
        sees that another board answers, until the inventory or people put right which is where.
        """
        known_by = self.devices.cache.by(BY_CERTIFICATE, report.certificate) if report.certificate else ()
        if any(each.key != device.key for each in known_by):
            return msgspec.structs.replace(report, certificate="")
        return report


def known_as(device: Device) -> Iterator[str]:
    """The uids of a Device and its Instances, and what jobs have called it: Instances are forgotten after a while."""
    status = device.status
    yield device.metadata.uid
    yield from status.instances
    if status.claim is not None:
        yield status.claim.uuid
    for record in status.records:
        yield record.uuid


def in_trouble(device: Device) -> bool:
    """Whether a Device counts for the budgets of its groups: it is claimed or broken."""
    return device.status.claim is not None or is_broken(device)


def _claimed_for(device: Device) -> Iterator[str]:
    if device.status.claim is not None and device.status.claim.rollout:
        yield device.status.claim.rollout


def starts_of(device: Device) -> Iterator[tuple[str, datetime]]:
    """When flash Pods were made for rollouts that the Device remembers, by their uids."""
    for each in (device.status.claim, *device.status.records):
        if each is not None and each.rollout and each.last_started is not None:
            yield each.rollout, each.last_started


def minute_of(time: datetime) -> int:
    """The number of a minute."""
    return int(time.timestamp()) // 60


def _entries(job: FlashJob) -> Iterator[str]:
    """What a Device may be called that a job names: an entry of spec.uuid, or the name that is made of one."""
    for uuid in job.spec.uuids:
        yield uuid
        name = device_name(uuid)
        if name != uuid:
            yield name


def _device_of(obj: Pod | Service) -> Iterator[str]:
    name = obj.metadata.annotations.get(Mark.DEVICE)
    if name:
        yield name


def _job_of(obj: Pod | Service) -> Iterator[str]:
    uid = obj.metadata.labels.get(Mark.JOB_UID)
    if uid:
        yield uid


def by_device(objects: Iterable[R]) -> dict[str, R]:
    """Pods or Services by the name of the Device that they are marked for."""
    return {name: obj for obj in objects if (name := obj.metadata.annotations.get(Mark.DEVICE))}


def of_job(ledger: Ledger[R], job_uid: str) -> list[R]:
    """The Pods or Services of a job, our own writes included."""
    keys = dict.fromkeys(ledger.cache.keys(BY_JOB, job_uid))
    keys.update({obj.key: None for obj in ledger.pending if obj.metadata.labels.get(Mark.JOB_UID) == job_uid})
    found = (ledger.get(key) for key in keys)
    return [obj for obj in found if obj is not None and obj.metadata.labels.get(Mark.JOB_UID) == job_uid]


def marked_for(ledger: Ledger[R], device: str) -> tuple[R, ...]:
    """What is marked for a device, as new as we know it, without what is known to be gone."""
    return tuple(ledger.by(BY_DEVICE, device))


def with_one(objects: tuple[M, ...], one: M | None, device: Device) -> tuple[M, ...]:
    """The objects and that one, where it is marked for the same device and not among them yet."""
    marked = one is not None and one.metadata.annotations.get(Mark.DEVICE) == device.metadata.name
    if one is None or not marked or any(one.key == each.key for each in objects):
        return objects
    return (*objects, one)
