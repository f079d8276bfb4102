"""A real API server of ours with the loops over rollouts and FlashJobs on it, and somebody who flashes what is claimed.

The tests of the loop use it. The one who flashes stands for the loop over Devices: it records an outcome for each claim
at once, with what the device ran before and the rollout that the job belongs to.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from edgewright.api.device import Device, DeviceStatus, Firmware, FlashRecord, LastFlash
from edgewright.api.firmwarerollout import BATCH_ANNOTATION, ROLLOUT_UID_LABEL, FirmwareRollout
from edgewright.api.flash_pod import Outcome
from edgewright.api.fleet import Fleet
from edgewright.controllers.flashjob.context import Context
from edgewright.controllers.flashjob.job_loop import add_jobs
from edgewright.controllers.flashjob.legacy.takeover import Takeover
from edgewright.controllers.notifications.loop import add_notifications
from edgewright.controllers.rollout.loop import add_rollouts
from edgewright.controllers.settings import Settings
from edgewright.runtime.client import Client
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.config import Config
from edgewright.runtime.errors import Conflict
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key
from tests.unit.controllers.flashjob.harness import Mortal
from tests.unit.controllers.flashjob.jobs_stage import DIGEST, JOBS, QUICK, Flashing, eventually
from tests.unit.controllers.flashjob.jobs_stage import Stage as JobsStage
from tests.unit.controllers.flashjob.jobs_stage import stage as jobs_stage
from tests.unit.runtime.fakeserver import running

ROLLOUTS = FirmwareRollout.kind.path("default")
FLEETS = Fleet.kind.path()
FIRMWARE = "registry.example/esp32:1.0.0"
BEFORE = Firmware(reference="registry.example/esp32:0.9.0", digest="sha256:" + "9" * 64, version="0.9.0")


class Stage(JobsStage):
    """What a test has in its hands."""

    async def finish(self, context: Context, claimed: Device) -> None:
        """Records the outcome of the flash of a Device and frees its claim, in one write."""
        claim = claimed.status.claim
        assert claim is not None
        name = claimed.metadata.name
        job = context.jobs.get(Key(claim.job.namespace, claim.job.name))
        if job is None:
            return
        ending = self.outcomes.get(name, FlashRecord(outcome=Outcome.SUCCEEDED, version=job.spec.version))
        good = Outcome(ending.outcome).good
        before = claimed.status.firmware
        now = context.clock.now()
        digest = ending.digest or (BEFORE.digest if "0.9.0" in job.spec.firmware else DIGEST)
        record = msgspec.structs.replace(
            ending,
            job=claim.job,
            uuid=claim.uuid,
            state=claim.state,
            attempts=claim.attempt,
            digest=digest,
            time=now,
            started=claim.since,
            before=before if ending.outcome == Outcome.SUCCEEDED else None,
            rollout=job.metadata.labels.get(ROLLOUT_UID_LABEL, ""),
        )
        others = tuple(each for each in claimed.status.records if each.job.uid != claim.job.uid)
        last = LastFlash(job=claim.job, outcome=record.outcome, digest=record.digest, time=now)
        status: DeviceStatus = msgspec.structs.replace(
            claimed.status, claim=None, records=(*others, record), last_flash=last
        )
        if good:
            firmware = Firmware(reference=job.spec.firmware, digest=record.digest, version=record.version)
            status = msgspec.structs.replace(status, firmware=firmware, version=record.version)
        try:
            context.devices.wrote(await context.client.of(Device).write_status(claimed, status))
        except Conflict:
            return
        self.flashed[name] += 1

    @asynccontextmanager
    async def rolling(self, *, at: int = 0, after: bool = False) -> AsyncIterator[Mortal]:
        """Runs the loops, and the one who flashes, as one process would; it dies at its write number `at`."""
        clock = SystemClock()
        client = Client(Config(server=self.api.url, tls=self.api.tls), clock=clock)
        mortal = Mortal(client, at=at, after=after)
        manager = self.manager = Manager(client, clock=clock)
        context = Context(manager, self.settings, clock)
        add_jobs(manager, context, Takeover(context))
        add_rollouts(manager, self.settings, clock)
        if self.settings.webhook is not None:
            add_notifications(manager, self.settings.webhook, clock)
        async with running(manager.run()), running(self.flash(context)):
            try:
                yield mortal
            finally:
                manager.stop()

    async def make_fleet(self, number: int, *, labels: Callable[[int], dict[str, str]] | None = None) -> list[str]:
        """Makes Devices d00, d01 …, which were proven to run 0.9.0."""
        names = [f"d{place:02}" for place in range(number)]
        for place, name in enumerate(names):
            made = {
                "apiVersion": Device.kind.api_version,
                "kind": "Device",
                "metadata": {"name": name, "labels": labels(place) if labels is not None else {}},
                "spec": {"endpoint": f"{name}.example", "type": "esp32"},
            }
            await self.api.made(Device.kind.path(), made)
            status = {"version": "0.9.0", "application": "thermo", "firmware": msgspec.to_builtins(BEFORE)}
            await self.change(f"{Device.kind.path()}/{name}/status", {"status": status})
        return names

    async def make_rollout(self, name: str = "rollout", **spec: Any) -> Any:
        """Makes a rollout to 1.0.0."""
        given = spec if "recall" in spec or "firmwares" in spec else {"firmware": FIRMWARE, "version": "1.0.0", **spec}
        made = {
            "apiVersion": FirmwareRollout.kind.api_version,
            "kind": "FirmwareRollout",
            "metadata": {"name": name, "namespace": "default"},
            "spec": given,
        }
        return await self.api.made(ROLLOUTS, made)

    async def rollout(self, name: str = "rollout") -> Any:
        """A rollout as the server has it."""
        return (await self.api("GET", f"{ROLLOUTS}/{name}")).body

    async def said(self, condition: Callable[[dict[str, Any]], object], name: str = "rollout") -> dict[str, Any]:
        """The status of a rollout, as soon as the condition holds for it."""

        async def look() -> dict[str, Any] | None:
            status: dict[str, Any] = (await self.rollout(name)).get("status", {})
            try:
                return status if condition(status) else None
            except (KeyError, IndexError, StopIteration):
                return None

        return await eventually(look)

    async def phase(self, phase: str, name: str = "rollout") -> dict[str, Any]:
        """The status of a rollout, as soon as it has this phase."""
        return await self.said(lambda status: status["phase"] == phase, name)

    async def jobs(self) -> list[Any]:
        """The FlashJobs, by batch and name."""
        items = (await self.api("GET", JOBS)).body["items"]
        return sorted(items, key=lambda each: (batch_of(each), each["metadata"]["name"]))

    async def versions(self) -> dict[str, str]:
        """What each Device says that it runs."""
        items = (await self.api("GET", Device.kind.path())).body["items"]
        return {each["metadata"]["name"]: each["status"].get("version", "") for each in items}


def batch_of(job: Any) -> int:
    """The number of the batch of a FlashJob."""
    return int(job["metadata"].get("annotations", {}).get(BATCH_ANNOTATION, 0))


@asynccontextmanager
async def stage(directory: Path, **settings: Any) -> AsyncIterator[Stage]:
    """A server with our kinds and the Secret that flash Pods need."""
    async with jobs_stage(directory, **{"timing": QUICK, **settings}) as made:
        yield Stage(made.api, Settings(**{"timing": QUICK, **settings}))


__all__ = ["BEFORE", "FIRMWARE", "FLEETS", "ROLLOUTS", "Flashing", "Stage", "batch_of", "stage"]
