"""Claims on Devices: all that there are, our own writes included, and the writing of new ones.

The loop over FlashJobs reads every claim here before `admission` decides, and writes what it allows. A claim is one
write that is conditional on the Device as it was read, so no two can ever be on one Device, whoever else writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec

from edgewright.api.device import MAX_INSTANCES, Claim, Device, JobReference
from edgewright.api.endpoint import normalize_endpoint
from edgewright.api.flashjob import FlashJob, FlashJobSpec
from edgewright.controllers.flashjob.admission import Held, Wish
from edgewright.controllers.flashjob.context import ANY_JOB, BY_CLAIM, Context
from edgewright.controllers.flashjob.events import telling
from edgewright.controllers.flashjob.limits import groups_of, owner_of
from edgewright.controllers.flashjob.manifests import endpoint_of
from edgewright.controllers.flashjob.names import state_of
from edgewright.controllers.flashjob.progress import DeviceStanding, JobSnapshot, Need
from edgewright.controllers.flashjob.reasons import Reason
from edgewright.controllers.flashjob.starts import Starts
from edgewright.runtime.errors import BadRequest, Conflict, Forbidden, Invalid, NotFound
from edgewright.runtime.objects import Key

_AT_ONCE: Final = 16
"""How many claims are written at the same time."""
_REFUSALS: Final = (BadRequest, Forbidden, Invalid)
"""How the server, or a policy of the cluster, says that a Device is not to be written, however often it is asked."""

T = TypeVar("T")


@dataclass(frozen=True)
class Refused:
    """A Device could not be written, and will not be for a while; `why` is what people are told."""

    why: str


class Claims:
    """The claims on all Devices: those of the cache, which knew all when this process began to work, and our own."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._refused: dict[str, dict[str, tuple[float, Refused]]] = {}
        """By the uid of the job and the name of the Device: until when it is left alone."""

    def known(self, job_uid: str = ANY_JOB) -> list[Held]:
        """Every claim on every Device, or those of one job."""
        ledger = self._context.devices
        held: dict[str, Held] = {}
        specs: dict[str, FlashJobSpec] = {}  # a job may have hundreds of claims
        for key in (*ledger.cache.keys(BY_CLAIM, job_uid), *(each.key for each in ledger.pending)):
            device = ledger.get(key)
            claim = device.status.claim if device is not None else None
            if device is not None and claim is not None and job_uid in (ANY_JOB, claim.job.uid):
                uid = claim.job.uid
                if uid not in specs:
                    specs[uid] = self._spec(claim.job)
                held[key.name] = Held(key.name, claim, normalize_endpoint(endpoint_of(specs[uid], device)))
        return list(held.values())

    def _spec(self, reference: JobReference) -> FlashJobSpec:
        """What a job says of where its device is; nothing where it is gone."""
        job = self._context.jobs.get(Key(reference.namespace, reference.name))
        return job.spec if job is not None and job.metadata.uid == reference.uid else FlashJobSpec()

    async def write(
        self, job: FlashJob, wishes: Iterable[Wish], standings: Iterable[DeviceStanding], *, now: datetime
    ) -> dict[str, Device | Refused | None]:
        """The Devices of the wishes with their claims, by name; None where somebody else wrote to one first."""
        by_device = _by_device(standings)

        async def one(name: str) -> Device | Refused | None:
            standing = by_device[name]
            return await self._change(job, _known(standing), self._claimed(job, standing, now=now))

        return await _each((wish.device for wish in wishes), one)

    async def release(self, job: FlashJob, devices: Iterable[Device]) -> dict[str, Device | Refused | None]:
        """The Devices without their claims, by name; the job has nothing under way on them, and others wait for them.

        How the last attempt ended stands on the Device already.
        """
        by_name = {device.metadata.name: device for device in devices}

        async def one(name: str) -> Device | Refused | None:
            return await self._change(job, by_name[name], {"claim": None})

        return await _each(by_name, one)

    def refused(self, job_uid: str) -> dict[str, str]:
        """Why Devices cannot be claimed for a job, by their names, as far as it is too early to try again."""
        now = self._context.clock.elapsed()
        left = {name: each for name, each in self._refused.pop(job_uid, {}).items() if each[0] > now}
        if left:
            self._refused[job_uid] = left
        return {name: refused.why for name, (_, refused) in left.items()}

    def forget(self, job_uid: str) -> None:
        """The job is gone."""
        self._refused.pop(job_uid, None)

    def _claimed(self, job: FlashJob, standing: DeviceStanding, *, now: datetime) -> dict[str, Any]:
        """What changes in the status of a Device when it is claimed, or its next attempt begins."""
        change: dict[str, Any]
        if standing.need is Need.RESUME:
            change = {"claim": {"notBefore": None}}
        else:
            moment = now.replace(microsecond=0)
            owner = owner_of(job)
            claim = Claim(
                job=reference_to(job),
                rollout=owner.uid if owner is not None else "",
                before=_known(standing).status.firmware,
                uuid=standing.uuid,
                state=state_of(job.spec),
                since=moment,
                # What stands under the names that we need goes before the attempt begins.
                not_before=moment if standing.trace.blocked else None,
                check=standing.trace.check,
            )
            change = {"claim": msgspec.to_builtins(claim)}
            if standing.trace.identifies:
                # Nobody else knows it by this uid, and what tells it now is about to be cleared away.
                known = _known(standing).status.instances
                change["instances"] = [standing.uuid, *known[-(MAX_INSTANCES - 1) :]]
        return change

    async def _change(self, job: FlashJob, device: Device, change: dict[str, Any]) -> Device | Refused | None:
        """Writes to the status of a Device, unless somebody else has written to the Device since it was read."""
        try:
            with telling(self._context.recorder, job, Reason.STATUS_UPDATE_FAILED):
                written = await self._context.client.of(Device).patch(
                    device.key,
                    {"status": change},
                    resource_version=device.metadata.resource_version,
                    subresource="status",
                )
        except (Conflict, NotFound):
            return None
        except _REFUSALS as error:
            refused = Refused(f"its Device cannot be written: {error.status.message}")
            until = self._context.clock.elapsed() + self._context.settings.timing.recheck
            self._refused.setdefault(job.metadata.uid, {})[device.metadata.name] = until, refused
            return refused
        return self._context.devices.wrote(written)


def reference_to(job: FlashJob) -> JobReference:
    """How a claim names its job."""
    metadata = job.metadata
    return JobReference(namespace=metadata.namespace, name=metadata.name, uid=metadata.uid)


def _by_device(standings: Iterable[DeviceStanding]) -> Mapping[str, DeviceStanding]:
    """What is to be claimed, by the name of its Device.

    Of two entries for one Device the first counts; or that which nobody would know any more but for the claim.
    """
    found: dict[str, DeviceStanding] = {}
    for standing in standings:
        if standing.need is not Need.NOTHING and standing.device is not None:
            first = found.setdefault(standing.device.metadata.name, standing)
            if standing.trace.identifies and not first.trace.identifies:
                found[standing.device.metadata.name] = standing
    return found


def _known(standing: DeviceStanding) -> Device:
    if standing.device is None:
        raise AssertionError("only devices that are known can be claimed")
    return standing.device


async def _each(names: Iterable[str], one: Callable[[str], Awaitable[T]]) -> dict[str, T]:
    """What comes of each, so many at a time; all have ended when one that failed is raised."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def gated(name: str) -> T:
        async with gate:
            return await one(name)

    names = tuple(names)
    results = await asyncio.gather(*map(gated, names), return_exceptions=True)
    done: dict[str, T] = {}
    for name, result in zip(names, results, strict=True):
        if isinstance(result, BaseException):
            raise result
        done[name] = result
    return done


def wishes_of(job: FlashJob, standings: Iterable[DeviceStanding], starts: Starts | None = None) -> list[Wish]:
    """What the job would start now: devices that it has claimed first, so that nobody else waits for them in vain.

    Those whose Services got no address come last: they have had a place, and would only keep it from others.
    """
    reference = reference_to(job)
    limit = job.spec.concurrency
    claimed: dict[str, Device] = {}
    new: dict[str, Device] = {}
    set_aside: dict[str, Device] = {}
    for standing in standings:
        if standing.need is not Need.NOTHING and standing.device is not None:
            waited = standing.claim is not None and standing.claim.waits > 0
            devices = new if standing.need is Need.START else set_aside if waited else claimed
            devices[standing.device.metadata.name] = standing.device
    owner, rollout = owner_of(job), starts.rollout(job) if starts is not None else None
    return [
        Wish(
            device=name,
            job=reference,
            endpoint=normalize_endpoint(endpoint_of(job.spec, device)),
            limit=limit,
            rollout=owner.uid if owner is not None else "",
            groups=groups_of(rollout, device) if rollout is not None else (),
            barred=starts.barred(job, device, owner) if starts is not None else None,
        )
        for devices in (claimed, new, set_aside)
        for name, device in devices.items()
    ]


def lingering(snapshot: JobSnapshot, claims: Iterable[Held], job_uid: str) -> int:
    """Of how many devices something of the job is left that no active claim accounts for."""
    active = {held.device for held in claims if held.claim.job.uid == job_uid and held.claim.not_before is None}
    return len((snapshot.pods.keys() | snapshot.services.keys()) - active)
