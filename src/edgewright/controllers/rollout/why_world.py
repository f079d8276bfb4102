"""Reads what `why` decides from: the Device, the rollouts and FlashJobs that are about it, and the Fleet.

The command line and the REST API call it as whoever asks, each with its own way to read. It changes nothing, and does
without what it may not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from edgewright.api.device import Device
from edgewright.api.firmwarerollout import ROLLOUT_UID_LABEL, FirmwareRollout, RolloutPhase
from edgewright.api.flashjob import FlashJob
from edgewright.api.fleet import FLEET, Fleet
from edgewright.controllers.rollout import changes
from edgewright.controllers.rollout.batches import Steps
from edgewright.controllers.rollout.jobs import read_job, revisions_of
from edgewright.controllers.rollout.plan import plan
from edgewright.controllers.rollout.selection import choice_of
from edgewright.controllers.rollout.why import World, why
from edgewright.runtime.client import Client
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.errors import Forbidden, NotFound
from edgewright.runtime.objects import Key, Resource

R = TypeVar("R", bound=Resource)
_FIRST = datetime.min.replace(tzinfo=UTC)


class Reads(Protocol):
    """Where objects are read from; NotFound and Forbidden say what cannot be read."""

    async def get(self, resource: type[R], key: Key) -> R:
        """One object."""
        ...

    async def list(self, resource: type[R], namespace: str | None = None) -> Sequence[R]:
        """All of a kind, in a namespace or in all."""
        ...


class ServerReads:
    """From the API server, as the client's user."""

    def __init__(self, client: Client) -> None:
        """Reads nothing yet."""
        self._client = client

    async def get(self, resource: type[R], key: Key) -> R:
        """One object."""
        return await self._client.of(resource).get(key)

    async def list(self, resource: type[R], namespace: str | None = None) -> Sequence[R]:
        """All of a kind, in a namespace or in all."""
        return (await self._client.of(resource).list(namespace)).items


async def sentence(
    reads: Reads, name: str, *, namespace: str | None = None, rollout: FirmwareRollout | None = None
) -> str:
    """Why the device is not updated, and what would change that; by the jobs and rollouts of a namespace, or of all."""
    device = await _maybe(reads, Device, Key("", name))
    if device is None:
        return why(name, World(device=None), SystemClock().now())
    jobs = [each for each in await _all(reads, FlashJob, namespace) if names(each, device)]
    chosen = rollout or latest(await _all(reads, FirmwareRollout, namespace), device, jobs)
    if chosen is not None:
        uid = chosen.metadata.uid
        jobs = [each for each in jobs if each.metadata.labels.get(ROLLOUT_UID_LABEL) == uid]
    selected, reason = standing(chosen, device)
    batch = await batch_name(reads, chosen, device, jobs) if chosen is not None and selected and not reason else ""
    world = World(
        device=device,
        rollout=chosen,
        selected=selected or bool(jobs),
        reason="" if jobs else reason,
        batch=batch,
        jobs=jobs,
        fleet=await _maybe(reads, Fleet, Key("", FLEET)),
    )
    return why(name, world, SystemClock().now())


def names(job: FlashJob, device: Device) -> bool:
    """Whether a job is about the device."""
    mine = {device.metadata.name, device.metadata.uid, *device.status.instances}
    return not mine.isdisjoint(job.spec.uuids)


def latest(rollouts: Sequence[FirmwareRollout], device: Device, jobs: Sequence[FlashJob]) -> FirmwareRollout | None:
    """The rollout that is asked about: of those that select the device or have a job for it, the latest.

    One that has ended, or was aborted, is in nobody's way as long as another one goes on. One that was aborted or
    recalled before it came to the device wants nothing of it any more: what an earlier one did is what counts.
    """
    owners = {each.metadata.labels.get(ROLLOUT_UID_LABEL) for each in jobs}
    mine = [
        each
        for each in rollouts
        if each.metadata.uid in owners or (each.spec.recall is None and choice_of(each.spec)(device))
    ]

    def rank(each: FirmwareRollout) -> tuple[bool, bool, datetime]:
        meant = each.metadata.uid in owners or not _withdrawn(each)
        return _goes_on(each), meant, each.metadata.creation_timestamp or _FIRST

    return max(mine, key=rank, default=None)


def _goes_on(rollout: FirmwareRollout) -> bool:
    return not rollout.spec.aborted and not changes.has_ended(rollout)


def _withdrawn(rollout: FirmwareRollout) -> bool:
    return rollout.spec.aborted or rollout.status.phase in {RolloutPhase.ABORTED, RolloutPhase.RECALLED}


async def batch_name(reads: Reads, rollout: FirmwareRollout, device: Device, mine: Sequence[FlashJob]) -> str:
    """The batch that the device is in, by the rollout's FlashJobs that name it, or that it will be in as it is now."""
    steps = Steps(rollout.spec)
    if mine:
        return steps.get(max(batch_of(each) for each in mine)).name
    uid = rollout.metadata.uid
    jobs = [
        each
        for each in await _all(reads, FlashJob, rollout.metadata.namespace)
        if each.metadata.labels.get(ROLLOUT_UID_LABEL) == uid
    ]
    revisions = revisions_of(rollout.spec, jobs)
    found = plan(
        rollout.spec,
        await _all(reads, Device, None),
        SystemClock().now(),
        namespace=rollout.metadata.namespace,
        opened=revisions.current.top,
        taken=revisions.current.members,
    )
    name = device.metadata.name
    return next((each.name for each in found.batches if name in each.devices), "")


def batch_of(job: FlashJob) -> int:
    """The number of the batch of a FlashJob that a rollout made."""
    return read_job(job).batch


def standing(rollout: FirmwareRollout | None, device: Device) -> tuple[bool, str]:
    """Whether a rollout selects the device, and why it leaves it out."""
    if rollout is None:
        return False, ""
    found = plan(rollout.spec, [device], SystemClock().now(), namespace=rollout.metadata.namespace)
    name = device.metadata.name
    reason = found.excluded.get(name, "") or "; ".join(found.problems)
    return bool(found.total or reason), reason


async def _maybe(reads: Reads, resource: type[R], key: Key) -> R | None:
    try:
        return await reads.get(resource, key)
    except (NotFound, Forbidden):
        return None


async def _all(reads: Reads, resource: type[R], namespace: str | None) -> Sequence[R]:
    try:
        return await reads.list(resource, namespace)
    except (NotFound, Forbidden):
        return []
