"""Which changes in the world are a reason to look at a FlashJob again, and at which one.

`job_loop` gives these to the controller as its sources. Pure, and quick: they see every change of every Device.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from edgewright.api.device import MAX_NAMESPACE_RECORDS, QUARANTINED, Device
from edgewright.api.firmwarerollout import ROLLOUT_UID_LABEL, FirmwareRollout
from edgewright.api.flashjob import FlashJob
from edgewright.api.fleet import Fleet
from edgewright.api.pod import Pod
from edgewright.api.service import Service
from edgewright.controllers.flashjob.context import (
    ANY_JOB,
    BY_CLAIM,
    BY_RECORD,
    BY_ROLLOUT,
    BY_UUID,
    Context,
    known_as,
)
from edgewright.runtime.cache import Change
from edgewright.runtime.conditions import is_true
from edgewright.runtime.objects import Key


def jobs_of(device: Device, context: Context) -> Iterable[Key]:
    """The jobs that a Device concerns: whoever has claimed it, flashed it or names it."""
    status = device.status
    if status.claim is not None:
        yield Key(status.claim.job.namespace, status.claim.job.name)
    for record in status.records:
        yield Key(record.job.namespace, record.job.name)
    for name in {device.metadata.name, *known_as(device)}:
        yield from context.jobs.keys(BY_UUID, name)
    if context.limited:
        rollouts = {record.rollout for record in status.records}
        for uid in {"", status.claim.rollout if status.claim is not None else "", *rollouts}:
            yield from tuple(context.limited.get(uid, ()))


def limited_jobs(obj: Pod | Service, context: Context) -> Iterable[Key]:
    """The jobs that wait for others of their rollout, of which this is something."""
    return tuple(context.limited.get(obj.metadata.labels.get(ROLLOUT_UID_LABEL, ""), ()))


def jobs_of_rollout(rollout: FirmwareRollout, context: Context) -> Iterable[Key]:
    """The jobs that a rollout made."""
    return context.jobs.keys(BY_ROLLOUT, rollout.metadata.uid)


def every_job(_: Fleet, context: Context) -> Iterable[Key]:
    """All jobs: whether anything starts has changed."""
    return [job.key for job in context.jobs]


def claimed_for(rollout: FirmwareRollout, context: Context) -> Iterable[Key]:
    """The Devices that are claimed for a rollout."""
    return context.devices.cache.keys(BY_ROLLOUT, rollout.metadata.uid)


def every_claimed(_: Fleet, context: Context) -> Iterable[Key]:
    """All Devices that are claimed."""
    return context.devices.cache.keys(BY_CLAIM, ANY_JOB)


def waiting_for_room(gone: FlashJob, context: Context) -> Iterable[Key]:
    """The jobs that may wait until this one is gone: those of Devices that have no room for another outcome."""
    for device in context.devices.cache.by(BY_RECORD, gone.metadata.uid):
        if len(device.status.records) >= MAX_NAMESPACE_RECORDS:
            yield from jobs_of(device, context)


def is_gone(change: Change[Any]) -> bool:
    """Whether the object is no more."""
    return change.new is None


def tells_something(change: Change[Any]) -> bool:
    """Whether a change of a Device is one that a job shows or acts on; that it was seen once more is not."""
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    before, after = old.status, new.status
    return bool(
        old.spec != new.spec
        or old.metadata.labels != new.metadata.labels
        or is_true(before.conditions, QUARANTINED) != is_true(after.conditions, QUARANTINED)
        or before.claim != after.claim
        or before.records != after.records
        or before.last_flash != after.last_flash
        or before.firmware != after.firmware
        or before.instances != after.instances
        or (before.version, before.application) != (after.version, after.application)
    )
