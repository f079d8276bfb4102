"""A real API server of ours with the loop over FlashJobs on it, and somebody who flashes whatever is claimed.

The tests of the loop use it. The one who flashes stands for the loop over Devices: it records an outcome for each claim
at once, or does nothing until it is told to.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from edgewright.api import FlashJob
from edgewright.api.device import Device, DeviceStatus, Firmware, FlashRecord, LastFlash
from edgewright.api.flash_pod import Outcome
from edgewright.controllers.flashjob.context import Context
from edgewright.controllers.flashjob.job_loop import add_jobs
from edgewright.controllers.flashjob.legacy.takeover import Takeover
from edgewright.controllers.settings import Settings, Timing
from edgewright.runtime.client import Client
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.config import Config
from edgewright.runtime.errors import Conflict
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key
from edgewright.runtime.queue import Queue
from tests.unit.controllers.flashjob.harness import our_kinds
from tests.unit.local.serving.inprocess import Api, serving
from tests.unit.runtime.fakeserver import running, until

T = TypeVar("T")

JOBS = FlashJob.kind.path("default")
DEVICES = Device.kind.path()
MERGE = "application/merge-patch+json"
FIRMWARE = "registry.example/esp32:1.0.0"
QUICK = Timing(status_every=0.01, recheck=0.05, original_every=0.05, first_backoff=0.05, start_grace=0.5)
DIGEST = "sha256:" + "a" * 64


def flash_job(name: str = "job", /, *uuids: str, **spec: Any) -> dict[str, Any]:
    """A FlashJob for these devices."""
    return {
        "apiVersion": FlashJob.kind.api_version,
        "kind": "FlashJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"uuid": list(uuids), "firmware": FIRMWARE, "version": "1.0.0", **spec},
    }


def device(name: str, /, **spec: Any) -> dict[str, Any]:
    """A Device that was written by hand."""
    return {
        "apiVersion": Device.kind.api_version,
        "kind": "Device",
        "metadata": {"name": name},
        "spec": {"endpoint": f"{name}.example", "type": "esp32", **spec},
    }


async def eventually(look: Callable[[], Awaitable[T | None]], *, seconds: float = 60) -> T:
    """What a look at the server answers, as soon as it is something true."""
    async with asyncio.timeout(seconds):
        while True:
            found = await look()
            if found:
                return found
            await asyncio.sleep(0.01)


class Flashing:
    """Stands for the loop over Devices: whatever is claimed ends at once, and well unless a test says otherwise."""

    def __init__(self) -> None:
        self.outcomes: dict[str, FlashRecord] = {}
        """How the flash of a Device ends, by its name; well, where nothing is said."""
        self.flashing = True
        """Whether claims are carried out."""
        self.most = 0
        """The most claims that were seen at one time."""
        self.flashed: Counter[str] = Counter()

    async def flash(self, context: Context) -> None:
        """Ends what is claimed, until cancelled."""
        await context.devices.cache.wait_synced()
        while True:
            claimed = [each for each in context.devices.cache if each.status.claim and not each.status.claim.not_before]
            self.most = max(self.most, len(claimed))
            for each in claimed if self.flashing else ():
                await self.finish(context, each)
            await asyncio.sleep(0.005)

    async def finish(self, context: Context, claimed: Device) -> None:
        """Records the outcome of the flash of a Device and frees its claim, in one write."""
        claim = claimed.status.claim
        assert claim is not None
        ending = self.outcomes.get(claimed.metadata.name, FlashRecord(outcome=Outcome.SUCCEEDED, version="1.0.0"))
        now = context.clock.now()
        job = context.jobs.get(Key(claim.job.namespace, claim.job.name))
        record = msgspec.structs.replace(
            ending,
            job=claim.job,
            uuid=claim.uuid,
            state=claim.state,
            attempts=claim.attempt,
            digest=ending.digest or DIGEST,
            forced=bool(job and job.spec.force),
            time=now,
        )
        others = tuple(each for each in claimed.status.records if each.job.uid != claim.job.uid)
        last = LastFlash(job=claim.job, outcome=record.outcome, digest=record.digest, time=now)
        status: DeviceStatus = msgspec.structs.replace(
            claimed.status, claim=None, records=(*others, record), last_flash=last, version=record.version
        )
        if Outcome(record.outcome).good:
            firmware = Firmware(digest=record.digest, version=record.version)
            status = msgspec.structs.replace(status, firmware=firmware)
        try:
            context.devices.wrote(await context.client.of(Device).write_status(claimed, status))
        except Conflict:
            return
        self.flashed[claimed.metadata.name] += 1


class Stage(Flashing):
    """What a test has in its hands."""

    def __init__(self, api: Api, settings: Settings) -> None:
        super().__init__()
        self.api = api
        self.settings = settings
        self.requests: Counter[str] = Counter()
        """What the loop asked of the server, by verb, watches apart."""
        self.manager: Manager | None = None

    @asynccontextmanager
    async def operating(self) -> AsyncIterator[Context]:
        """Runs the loop, and the one who flashes, as one process would."""
        clock = SystemClock()
        client = Client(Config(server=self.api.url, tls=self.api.tls), clock=clock)
        manager = self.manager = Manager(client, clock=clock)
        counted = client.transport.on_answer

        def count(method: str, code: Any) -> None:
            if method != "WATCH":
                self.requests[method] += 1
            if counted is not None:
                counted(method, code)

        client.transport.on_answer = count
        context = Context(manager, self.settings, clock)
        add_jobs(manager, context, Takeover(context))
        async with running(manager.run()), running(self.flash(context)):
            try:
                yield context
            finally:
                manager.stop()

    async def make_device(self, name: str, /, **spec: Any) -> Any:
        """Makes a Device."""
        return await self.api.made(DEVICES, device(name, **spec))

    async def make_job(self, name: str = "job", /, *uuids: str, **spec: Any) -> Any:
        """Makes a FlashJob."""
        return await self.api.made(JOBS, flash_job(name, *uuids, **spec))

    async def change(self, path: str, change: Any) -> Any:
        """Changes an object by a merge patch."""
        answer = await self.api("PATCH", path, change, media=MERGE)
        assert answer.code == 200, answer.body
        return answer.body

    async def job(self, name: str = "job") -> Any:
        """A FlashJob as the server has it."""
        return (await self.api("GET", f"{JOBS}/{name}")).body

    async def shown(self, condition: Callable[[dict[str, Any]], object], name: str = "job") -> dict[str, Any]:
        """The status of a job, as soon as the condition holds for it."""

        async def look() -> dict[str, Any] | None:
            status: dict[str, Any] = (await self.job(name)).get("status", {})
            try:
                return status if condition(status) else None
            except (KeyError, IndexError, StopIteration):
                return None

        return await eventually(look)

    async def gone(self, path: str) -> None:
        """Returns when the server has no such object any more."""

        async def look() -> bool:
            return (await self.api("GET", path)).code == 404

        await eventually(look)

    @property
    def queue(self) -> Queue:
        """The queue of the loop that runs."""
        assert self.manager is not None
        (controller,) = self.manager._controllers
        return controller.queue

    def passes(self) -> int:
        """How many passes the loop that runs has made."""
        assert self.manager is not None
        text = self.manager.metrics.render().decode()
        lines = [line for line in text.splitlines() if line.startswith("controller_runtime_reconcile_total")]
        return int(sum(float(line.rpartition(" ")[2]) for line in lines))

    async def quiet(self) -> None:
        """Returns when no pass is due or under way any more."""
        await until(lambda: not len(self.queue) and not self.queue.working and not self.queue._timers)

    async def quiet_but_for_timers(self) -> None:
        """Returns when no pass is under way; one may be due later."""
        await until(lambda: not len(self.queue) and not self.queue.working)


@asynccontextmanager
async def stage(directory: Path, **settings: Any) -> AsyncIterator[Stage]:
    """A server with our kinds and the Secret that flash Pods need."""
    async with serving(directory) as api:
        api.kinds.set_custom(our_kinds())
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ota-agent-tls"}}
        await api.made("/api/v1/namespaces/default/secrets", {**secret, "stringData": {"tls.crt": "c", "tls.key": "k"}})
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        await api.made("/api/v1/namespaces/default/serviceaccounts", account)
        yield Stage(api, Settings(**{"timing": QUICK, **settings}))


def condition(status: dict[str, Any], type_: str) -> dict[str, Any]:
    """A condition of a status."""
    return next(each for each in status["conditions"] if each["type"] == type_)
