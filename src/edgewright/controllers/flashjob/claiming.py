"""Claims on Devices: all that there are, our own writes included, and the writing of new ones.

The loop over FlashJobs reads every claim here before `admission` decides, and writes what it allows. A claim is one
write that is conditional on the Device as it was read, so no two can ever be on one Device, whoever else writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from edgewright.api.device import Claim, Device, JobReference
from edgewright.api.endpoint import one_spelling
from edgewright.api.flashjob import FlashJob, FlashJobSpec
from edgewright.controllers.flashjob.admission import Held, Wish
from edgewright.controllers.flashjob.manifests import endpoint_of
from edgewright.controllers.flashjob.names import state_of
from edgewright.controllers.flashjob.survey import Need, Standing
from edgewright.controllers.flashjob.world import ANY_JOB, BY_CLAIM, World
from edgewright.runtime.errors import Conflict, NotFound
from edgewright.runtime.objects import Key

_AT_ONCE: Final = 16
"""How many claims are written at the same time."""


class Claims:
    """The claims on all Devices, as new as this process can know them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._settled = False
        self._settling = asyncio.Lock()

    async def settle(self) -> None:
        """Makes sure, once, that no claim is unknown that the process before us wrote.

        Caches are filled before this process leads and may be behind when it begins to; from then on nobody else writes
        claims, and what we write is known.
        """
        async with self._settling:
            if self._settled:
                return
            async for page in self._world.client.of(Device).pages():
                for device in page.items:
                    if device.status.claim is not None:
                        self._world.devices.wrote(device)
            self._settled = True

    def known(self, job_uid: str = ANY_JOB) -> list[Held]:
        """Every claim on every Device, or those of one job."""
        ledger = self._world.devices
        held: dict[str, Held] = {}
        for seen in (*ledger.cache.by(BY_CLAIM, job_uid), *ledger.pending):
            device = ledger.get(seen.key)
            claim = device.status.claim if device is not None else None
            if device is not None and claim is not None and job_uid in (ANY_JOB, claim.job.uid):
                held[seen.metadata.name] = Held(seen.metadata.name, claim, self._endpoint(device, claim))
        return list(held.values())

    def _endpoint(self, device: Device, claim: Claim) -> str:
        """Where the device is being flashed, in one spelling."""
        job = self._world.jobs.get(Key(claim.job.namespace, claim.job.name))
        spec = job.spec if job is not None and job.metadata.uid == claim.job.uid else FlashJobSpec()
        return one_spelling(endpoint_of(spec, device))

    async def write(
        self, job: FlashJob, wishes: Iterable[Wish], standings: Iterable[Standing], *, now: datetime
    ) -> dict[str, Device | None]:
        """The Devices of the wishes with their claims, by name; None where somebody else wrote to one first."""
        by_device = _by_device(standings)
        gate = asyncio.Semaphore(_AT_ONCE)

        async def one(wish: Wish) -> Device | None:
            async with gate:
                return await self._write_one(job, by_device[wish.device], now=now)

        wishes = tuple(wishes)
        results = await asyncio.gather(*map(one, wishes), return_exceptions=True)
        written: dict[str, Device | None] = {}
        for wish, result in zip(wishes, results, strict=True):
            if isinstance(result, BaseException):
                raise result
            written[wish.device] = result
        return written

    async def _write_one(self, job: FlashJob, standing: Standing, *, now: datetime) -> Device | None:
        device = standing.device
        if device is None:
            raise AssertionError("only devices that are known can be claimed")
        change: dict[str, Any]
        if standing.need is Need.RESUME:
            change = {"notBefore": None}
        else:
            moment = now.replace(microsecond=0)
            claim = Claim(
                job=reference_to(job),
                uuid=standing.uuid,
                state=state_of(job.spec),
                since=moment,
                # What the original left has the names that we need: it goes before the attempt begins.
                not_before=moment if standing.check else None,
                check=standing.check,
            )
            change = msgspec.to_builtins(claim)
        try:
            written = await self._world.client.of(Device).patch(
                device.key,
                {"status": {"claim": change}},
                resource_version=device.metadata.resource_version,
                subresource="status",
            )
        except (Conflict, NotFound):
            return None
        return self._world.devices.wrote(written)


def reference_to(job: FlashJob) -> JobReference:
    """How a claim names its job."""
    metadata = job.metadata
    return JobReference(namespace=metadata.namespace, name=metadata.name, uid=metadata.uid)


def _by_device(standings: Iterable[Standing]) -> Mapping[str, Standing]:
    """What is to be claimed, by the name of its Device; of two entries for one Device the first counts."""
    found: dict[str, Standing] = {}
    for standing in standings:
        if standing.need is not Need.NOTHING and standing.device is not None:
            found.setdefault(standing.device.metadata.name, standing)
    return found
