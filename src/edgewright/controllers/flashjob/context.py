"""What both loops of this package read and write with: caches with indexes, ledgers, the client, the clock.

Made once by `operator`; it decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

import msgspec

from edgewright.api.device import Device, JobReference, Mark
from edgewright.api.endpoint import normalize_endpoint
from edgewright.api.flash_pod import Report
from edgewright.api.flashjob import FlashJob
from edgewright.api.pod import Pod
from edgewright.api.service import Service
from edgewright.controllers.flashjob.names import device_name
from edgewright.controllers.ledger import Ledger
from edgewright.controllers.metrics import FlashMetrics
from edgewright.controllers.settings import Settings
from edgewright.runtime.clock import Clock
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key

BY_INSTANCE: Final = "by-instance"
BY_CLAIM: Final = "by-claim"
ANY_JOB: Final = ""
"""The value under which BY_CLAIM holds every Device that has a claim, whosever it is."""
BY_RECORD: Final = "by-record"
BY_CERTIFICATE: Final = "by-certificate"
BY_ENDPOINT: Final = "by-endpoint"
BY_DEVICE: Final = "by-device"
BY_JOB: Final = "by-job"
BY_UUID: Final = "by-uuid"

R = TypeVar("R", Pod, Service)


class Context:
    """Everything that the FlashJob controllers know and can do."""

    def __init__(self, manager: Manager, settings: Settings, clock: Clock) -> None:
        self.settings = settings
        self.clock = clock
        self.client = manager.client
        self.recorder = manager.recorder
        self.jobs = manager.cache(FlashJob)
        self.devices = Ledger(manager.cache(Device))
        # Whatever is made for a device has this label, whoever made it.
        self.pods = Ledger(manager.cache(Pod, labels="uuid"))
        self.services = Ledger(manager.cache(Service, labels="uuid"))
        self.metrics = FlashMetrics(
            manager.metrics.registry, devices=self.devices.cache, clock=clock, leading=lambda: manager.leads
        )
        self.jobs.add_index(BY_UUID, _entries)
        devices = self.devices.cache
        devices.add_index(BY_INSTANCE, known_as)
        devices.add_index(
            BY_CLAIM, lambda device: (device.status.claim.job.uid, ANY_JOB) if device.status.claim else ()
        )
        devices.add_index(BY_RECORD, lambda device: (record.job.uid for record in device.status.records))
        devices.add_index(BY_CERTIFICATE, lambda device: filter(None, (device.status.certificate,)))
        devices.add_index(BY_ENDPOINT, lambda device: filter(None, (normalize_endpoint(device.spec.endpoint),)))
        for each in (self.pods.cache, self.services.cache):
            each.add_index(BY_DEVICE, _device_of)
            each.add_index(BY_JOB, _job_of)

    def lives(self, reference: JobReference) -> bool:
        """Whether a job exists, as far as the cache knows; one that cannot be read does, and may be read again."""
        key = Key(reference.namespace, reference.name)
        job = self.jobs.get(key)
        if job is None:
            return any(unread.key == key for unread in self.jobs.unread)
        return job.metadata.uid == reference.uid

    def device(self, name: str) -> Device | None:
        """A Device by its name, as new as we know it."""
        return self.devices.get(Key("", name))

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
    keys = {obj.key: None for obj in ledger.cache.by(BY_JOB, job_uid)}
    keys.update({obj.key: None for obj in ledger.pending if obj.metadata.labels.get(Mark.JOB_UID) == job_uid})
    found = (ledger.get(key) for key in keys)
    return [obj for obj in found if obj is not None and obj.metadata.labels.get(Mark.JOB_UID) == job_uid]
