"""What a rollout costs: its plan against listing the fleet, a decision against a bare loop, its writes per device.

The plan of 100,000 devices is compared with listing the same Devices from a real API server, in the same process, whose
memory is told too. A decision in the middle of a rollout of 10,000 devices is compared with a loop that reads version,
labels, claim and records of the same structs. The writes are those of the rollout controller alone, which has a client
of its own, while FlashJobs that are carried out at once take a fleet through canary, tenth and rest.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench import drive
from edgewright.api import CUSTOM_KINDS, Device, FlashJob, custom_resource_definitions
from edgewright.api.device import Claim, DeviceSpec, DeviceStatus, FlashRecord, JobReference
from edgewright.api.firmwarerollout import FirmwareRollout, FirmwareRolloutSpec
from edgewright.api.flash_pod import Outcome
from edgewright.controllers.flashjob.context import Context
from edgewright.controllers.flashjob.job_loop import add_jobs
from edgewright.controllers.flashjob.legacy.takeover import Takeover
from edgewright.controllers.flashjob.names import state_of
from edgewright.controllers.rollout.actions import CreateJob
from edgewright.controllers.rollout.decisions import decide
from edgewright.controllers.rollout.loop import add_rollouts
from edgewright.controllers.rollout.plan import plan
from edgewright.controllers.settings import Settings
from edgewright.runtime import Client, Key, Manager, ObjectMeta
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.definitions import install
from edgewright.runtime.errors import Conflict
from tests.harness.controlplane import ControlPlane

NOW = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)
BATCHES = [{"name": "canary", "size": 10, "soakSeconds": 0}, {"name": "tenth", "size": "10%"}]
_AT_ONCE = 64
_PATIENCE = 1800.0
replace = msgspec.structs.replace


def rollout_of(**more: Any) -> FirmwareRollout:
    """A rollout to 2.0.0 with three batches."""
    given = {"firmware": "registry.example/esp32:2.0.0", "version": "2.0.0", "batches": BATCHES, **more}
    metadata = ObjectMeta(name="bench", namespace="default", uid="uid-bench", generation=1, creation_timestamp=NOW)
    return FirmwareRollout(metadata=metadata, spec=msgspec.convert(given, FirmwareRolloutSpec))


def device_of(number: int) -> Device:
    """A Device of one of a hundred sites."""
    labels = {"site": f"site-{number % 100}", "ring": str(number % 3), "edgewright.dev/type": "esp32"}
    return Device(
        metadata=ObjectMeta(name=f"device-{number:06}", uid=f"uid-{number}", labels=labels, creation_timestamp=NOW),
        spec=DeviceSpec(type="esp32", endpoint=f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"),
        status=DeviceStatus(version="1.0.0", application="thermo", last_seen=NOW),
    )


# --- one decision ---------------------------------------------------------------------------------------------------


def middle(number: int) -> tuple[FirmwareRollout, list[Device], list[FlashJob]]:
    """A fleet in the middle of a rollout: all batches open, half of the devices ended, some under way."""
    rollout = rollout_of()
    devices = [device_of(each) for each in range(number)]
    jobs: list[FlashJob] = []
    ended: set[str] = set()
    for _ in range(4):
        for action in decide(rollout, devices, jobs, NOW).actions:
            assert isinstance(action, CreateJob)
            metadata = replace(action.job.metadata, uid=f"job-{len(jobs)}", creation_timestamp=NOW, generation=1)
            jobs.append(replace(action.job, metadata=metadata))
        job_of = {name: job for job in jobs for name in job.spec.uuids}
        last = len({job.metadata.annotations["edgewright.dev/batch"] for job in jobs}) == 3
        for place, device in enumerate(devices):
            name = device.metadata.name
            job = job_of.get(name)
            if job is None or name in ended or (last and place % 2):
                continue
            ended.add(name)
            devices[place] = replace(device, status=_ended(device, job, claimed=last and place % 50 == 0))
    return rollout, devices, jobs


def _ended(device: Device, job: FlashJob, *, claimed: bool) -> DeviceStatus:
    reference = JobReference(namespace="default", name=job.metadata.name, uid=job.metadata.uid)
    state = state_of(job.spec)
    earlier = FlashRecord(job=JobReference(uid="earlier"), state="earlier", outcome=Outcome.SUCCEEDED, time=NOW)
    if claimed:
        claim = Claim(job=reference, state=state, since=NOW, rollout="uid-bench")
        return replace(device.status, claim=claim, records=(earlier,))
    record = FlashRecord(
        job=reference, state=state, outcome=Outcome.SUCCEEDED, time=NOW, version="2.0.0", rollout="uid-bench"
    )
    return replace(device.status, records=(earlier, record), version="2.0.0")


def bare_loop(devices: Sequence[Device]) -> int:
    """Reads version, labels, claim and records of every device: the least that a decision has to look at."""
    found = 0
    for device in devices:
        status = device.status
        if status.version == "2.0.0":
            found += 1
        if device.metadata.labels.get("site") == "site-1":
            found += 1
        claim = status.claim
        if claim is not None and claim.job.uid == "job-1":
            found += 1
        for record in status.records:
            if record.job.uid == "job-1" and record.outcome == "succeeded":
                found += 1
    return found


def fastest(work: Callable[[], object], runs: int) -> float:
    """The best of several turns, in seconds of the processor: what is slower was disturbed."""
    best = float("inf")
    for _ in range(runs):
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
    return best


# --- the plan -------------------------------------------------------------------------------------------------------


async def planned(plane: ControlPlane, number: int) -> tuple[float, float, float]:
    """How many seconds of this process listing the fleet and planning it take, and its memory in MiB.

    Time in which the server works is not counted: it would only make the listing longer.
    """
    async with drive.client_for(plane) as client:
        for document in custom_resource_definitions(CUSTOM_KINDS):
            await install(client, document)
        await _make(client, number)
        began = time.process_time()
        devices = (await client.of(Device).list()).items
        listing = time.process_time() - began
    spec = rollout_of().spec
    began = time.process_time()
    found = plan(spec, devices, NOW)
    planning = time.process_time() - began
    assert sum(len(batch.devices) for batch in found.batches) == number
    return listing, planning, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def _make(client: Client, number: int) -> None:
    api, gate = client.of(Device), asyncio.Semaphore(_AT_ONCE)

    async def one(place: int) -> None:
        async with gate:
            device = device_of(place)
            await api.create(
                Device(metadata=replace(device.metadata, uid="", creation_timestamp=None), spec=device.spec)
            )

    for start in range(0, number, 10_000):
        await asyncio.gather(*(one(place) for place in range(start, min(number, start + 10_000))))
        drive.progress(f"{min(number, start + 10_000)} of {number} Devices made")


# --- the writes -----------------------------------------------------------------------------------------------------


async def writes(plane: ControlPlane, number: int) -> Counter[str]:
    """What the rollout controller writes while a fleet of this size is taken to another version."""
    counted: Counter[str] = Counter()
    async with (
        drive.client_for(plane) as client,
        drive.client_for(plane) as flashing,
        drive.client_for(plane) as rolling,
    ):
        _count(rolling, counted)
        names = [f"device-{place:06}" for place in range(number)]
        selector = {"names": names} if number <= 5000 else {}
        made = rollout_of(selector=selector, maxConcurrent=200)
        metadata = ObjectMeta(name="bench", namespace="default")
        await client.of(FirmwareRollout).create(FirmwareRollout(metadata=metadata, spec=made.spec))
        async with carried_out(flashing, rolling):
            await until_completed(client)
    return counted


@asynccontextmanager
async def carried_out(flashing: Client, rolling: Client) -> AsyncIterator[None]:
    """Rollouts go on for the length of the block, with FlashJobs that are carried out at once."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ota-agent-tls", "namespace": "default"}}
    await flashing.transport.request(
        "POST",
        "/api/v1/namespaces/default/secrets",
        body=msgspec.json.encode({**secret, "stringData": {"tls.crt": "c", "tls.key": "k"}}),
    )
    clock, settings = SystemClock(), Settings(local=True)
    jobs = Manager(flashing, clock=clock)
    context = Context(jobs, settings, clock)
    add_jobs(jobs, context, Takeover(context))
    rollouts = Manager(rolling, clock=clock)
    add_rollouts(rollouts, settings, clock)
    tasks = [
        asyncio.create_task(jobs.run()),
        asyncio.create_task(rollouts.run()),
        asyncio.create_task(_flash(context)),
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _count(client: Client, counted: Counter[str]) -> None:
    send = client.transport.request

    async def request(method: str, path: str, **more: Any) -> bytes:
        if method != "GET":
            parts = path.partition("?")[0].split("/")
            name = next((each for each in ("events", "status", "firmwarerollouts") if each in parts), "flashjobs")
            counted[f"{method} {name}"] += 1
        return await send(method, path, **more)

    client.transport.request = request  # type: ignore[method-assign] # the one door to the server


async def _flash(context: Context) -> None:
    """Ends whatever is claimed, at once and well."""
    await context.devices.cache.wait_synced()
    while True:
        claimed = [each for each in context.devices.cache if each.status.claim is not None]
        await asyncio.gather(*(_end(context, each) for each in claimed[:_AT_ONCE]))
        await asyncio.sleep(0.02)


async def _end(context: Context, device: Device) -> None:
    claim = device.status.claim
    job = context.jobs.get(Key(claim.job.namespace, claim.job.name)) if claim is not None else None
    if claim is None or job is None:
        return
    record = FlashRecord(
        job=claim.job,
        uuid=claim.uuid,
        state=claim.state,
        outcome=Outcome.SUCCEEDED,
        version=job.spec.version,
        time=context.clock.now(),
        rollout=claim.rollout,
    )
    records = (*(each for each in device.status.records if each.job.uid != claim.job.uid), record)
    status = replace(device.status, claim=None, records=records, version=job.spec.version)
    try:
        context.devices.wrote(await context.client.of(Device).write_status(device, status))
    except Conflict:
        return


async def until_completed(client: Client) -> None:
    """Waits for the end of the rollout that is called bench."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        status = (await client.of(FirmwareRollout).get(Key("default", "bench"))).status
        if status.phase == "Completed":
            return
        await asyncio.sleep(0.5)
    raise TimeoutError(f"the rollout is {status.phase}: {status.message}")


# --- the report -----------------------------------------------------------------------------------------------------


def main() -> int:
    """Measures and reports."""
    args = drive.arguments(
        __doc__,
        devices={"type": int, "default": 100_000, "help": "how many devices are planned (default 100,000)"},
        decided={"type": int, "default": 10_000, "help": "how many devices a decision is about (default 10,000)"},
        rolled={"type": int, "default": 2000, "help": "how many devices are rolled out (default 2,000)"},
        runs={"type": int, "default": 15, "help": "how many turns each side of a decision gets (default 15)"},
        only_decision={"action": "store_true", "help": "measure the decision only, without a server"},
    )
    outcome = drive.Outcome("rollout", columns=("what", "devices", "seconds"))
    _decision(outcome, args)
    if not args.only_decision:
        with drive.control_plane() as plane:
            asyncio.run(_on_a_server(outcome, plane, args))
    return drive.finish(outcome, as_json=args.json)


def _decision(outcome: drive.Outcome, args: Namespace) -> None:
    rollout, devices, jobs = middle(args.decided)
    later = NOW + timedelta(minutes=5)
    decision = fastest(lambda: decide(rollout, devices, jobs, later), args.runs)
    bare = fastest(lambda: bare_loop(devices), args.runs)
    outcome.rows += [
        ("one decision", str(args.decided), f"{decision:.4f}"),
        ("a bare loop over the same structs", str(args.decided), f"{bare:.4f}"),
    ]
    outcome.add("decision / bare loop", decision / bare, "<=10")


async def _on_a_server(outcome: drive.Outcome, plane: ControlPlane, args: Namespace) -> None:
    listing, planning, memory = await planned(plane, args.devices)
    outcome.rows += [
        ("listing the fleet", str(args.devices), f"{listing:.2f}"),
        ("planning it", str(args.devices), f"{planning:.2f}"),
    ]
    outcome.add("plan / listing", planning / listing, "<=2")
    outcome.add("memory of listing and plan, MiB", memory, "<=1024")
    counted = await writes(plane, args.rolled)
    told = sum(number for what, number in counted.items() if "events" not in what)
    outcome.rows.append(("writes of the rollout controller", str(args.rolled), str(dict(counted))))
    outcome.add("writes per device beyond those of the FlashJobs", told / args.rolled, "<=0.02")


if __name__ == "__main__":
    sys.exit(main())
