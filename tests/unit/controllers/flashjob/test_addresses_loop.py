"""The loops with a load balancer that has no address: a place is given away in time, and nothing is lost by it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edgewright.api import Device, FlashJob, Pod, Service
from edgewright.api.device import Claim, DeviceStatus
from edgewright.api.flash_pod import Variable
from edgewright.api.flashjob import DeviceState
from edgewright.runtime.clock import SystemClock, VirtualClock
from edgewright.runtime.errors import Conflict
from edgewright.runtime.objects import Condition, Key, Kind
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.flashjob.behind import D1, Behind, behind, given_address, made_service, quiet
from tests.unit.controllers.flashjob.harness import QUICK, Stage, operating, plane, stage
from tests.unit.controllers.flashjob.test_job_loop_shared_devices import SETTINGS, both, ended, found, tls_secret

EVENT = Kind(group="", version="v1", kind="Event", plural="events")
TIMEOUT = 60
ADDRESS = "198.51.100.7"


async def late(on: Stage, operator: Behind, clock: VirtualClock) -> tuple[FlashJob, Device, Service]:
    """A claimed device whose Service has had no address for too long; the operator's caches know all of it."""
    job = await on.job("job", "d1", timeout_seconds=TIMEOUT)
    claimed = await on.claim(job, await on.device("d1"))
    service = await made_service(on, job, claimed)
    operator.sees(job, claimed, service)
    # The server has a clock of its own, which went on while it was started: on a busy machine for seconds.
    made = service.metadata.creation_timestamp
    assert made is not None
    await clock.advance(max(0.0, (made - clock.now()).total_seconds()) + TIMEOUT + 1)
    return job, claimed, service


async def claim_of(on: Stage) -> Claim:
    claim = (await on.status("d1")).claim
    assert claim is not None
    return claim


def a_clock() -> VirtualClock:
    return VirtualClock(SystemClock().now())


async def test_a_claim_is_set_aside_before_its_service_goes_and_that_is_told(tmp_path: Path) -> None:
    clock = a_clock()
    async with quiet(tmp_path) as (config, on), behind(config, clock) as operator:
        await late(on, operator, clock)
        await operator.flashes.reconcile(D1)
        assert [method for method, _ in operator.mortal.writes] == ["PATCH", "DELETE"]
        assert await on.services() == []
        claim = await claim_of(on)
        assert (claim.attempt, claim.waits) == (1, 1)
        assert claim.not_before is not None
        assert (claim.not_before - clock.now()).total_seconds() == pytest.approx(QUICK.timing.first_backoff, abs=0.01)
        assert (await on.status("d1")).records == ()
        ((type_, reason, message),) = operator.heard.said
        assert (type_, reason) == ("Warning", "ServiceIPTimeout")
        assert message.startswith("d1: Service job-service-d1 has had no address for 60 s; others go first, and it is")


async def test_an_address_that_comes_at_the_last_moment_is_taken(tmp_path: Path) -> None:
    clock = a_clock()
    async with quiet(tmp_path) as (config, on), behind(config, clock) as operator:
        _, _, service = await late(on, operator, clock)
        operator.context.services.wrote(service)  # so that only the last look asks for it
        await given_address(on, service, ADDRESS)
        assert (await operator.flashes.reconcile(D1)).after == 0
        await operator.flashes.reconcile(D1)
        (pod,) = await on.pods()
        assert pod.variable(Variable.EXTERNAL_IP) == ADDRESS
        assert await claim_of(on) == msgspec.structs.replace(await claim_of(on), waits=0, not_before=None)
        assert operator.heard.said == []


async def test_a_service_that_somebody_deleted_is_made_again_and_its_time_begins_again(tmp_path: Path) -> None:
    clock = a_clock()
    async with quiet(tmp_path) as (config, on), behind(config, clock) as operator:
        _, _, service = await late(on, operator, clock)
        await on.client.of(Service).delete(service.key)
        operator.context.services.wrote(service)  # so that only the last look asks for it
        assert (await operator.flashes.reconcile(D1)).after == 0
        await operator.flashes.reconcile(D1)
        (new,) = await on.services()
        assert new.metadata.uid != service.metadata.uid
        assert (await claim_of(on)).waits == 0


async def test_a_device_that_somebody_else_wrote_to_keeps_its_service(tmp_path: Path) -> None:
    clock = a_clock()
    async with quiet(tmp_path) as (config, on), behind(config, clock) as operator:
        _, claimed, _ = await late(on, operator, clock)
        operator.context.devices.wrote(claimed)  # so that the pass does not ask for it
        await on.client.of(Device).write_status(claimed, DeviceStatus())
        with pytest.raises(Conflict):
            await operator.flashes.reconcile(D1)
        assert (await on.status("d1")).claim is None
        assert len(await on.services()) == 1
        assert operator.heard.said == []


async def test_a_claim_that_is_seen_to_be_gone_in_the_same_moment_is_not_written_again(tmp_path: Path) -> None:
    clock = a_clock()
    async with quiet(tmp_path) as (config, on), behind(config, clock) as operator:
        _, claimed, service = await late(on, operator, clock)
        operator.context.devices.wrote(claimed)
        operator.context.services.wrote(service)
        send = operator.client.transport.request

        async def request(method: str, path: str, **given: Any) -> bytes:
            answer = await send(method, path, **given)
            if method == "GET" and path.endswith("/job-service-d1"):  # the claim goes while the Service is asked for
                operator.sees(await on.client.of(Device).write_status(claimed, DeviceStatus()))
            return answer

        operator.client.transport.request = request  # type: ignore[method-assign] # the one door to the server
        assert (await operator.flashes.reconcile(D1)).after == 0
        await operator.flashes.reconcile(D1)
        assert (await on.status("d1")).claim is None
        assert await on.services() == []


# --- a crash at every write -----------------------------------------------------------------------------------------


async def a_pass(operator: Behind, key: Key) -> None:
    """One pass, or as much of it as the operator lives to see."""
    working = asyncio.create_task(operator.flashes.reconcile(key))
    dying = asyncio.create_task(operator.mortal.died.wait())
    await asyncio.wait([working, dying], return_when=asyncio.FIRST_COMPLETED)
    for task in (working, dying):
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def catch_up(operator: Behind, on: Stage, key: Key) -> None:
    """Brings the operator's caches to where the server is."""
    context = operator.context
    operator.sees(await on.client.of(Device).get(key), *(await on.client.of(FlashJob).list("default")).items)
    pods, services = await on.pods(), await on.services()
    operator.sees(*pods, *services)
    present = {each.key for each in (*pods, *services)}
    for cache in (context.pods.cache, context.services.cache):
        for obj in cache:
            if obj.key not in present:
                cache.drop(obj.key)


async def go_on(operator: Behind, on: Stage, key: Key, clock: VirtualClock) -> None:
    """What others do between two passes."""
    device = await on.client.of(Device).get(key)
    claim = device.status.claim
    assert claim is not None
    if claim.not_before is not None:  # the loop over FlashJobs
        going = msgspec.structs.replace(claim, not_before=None)
        await on.client.of(Device).write_status(device, msgspec.structs.replace(device.status, claim=going))
    for service in await on.services():
        if claim.waits and not service.external_address:  # the load balancer
            await given_address(on, service, ADDRESS)
    await clock.advance(TIMEOUT + 1)
    await catch_up(operator, on, key)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_crash_at_any_write_loses_neither_the_attempt_nor_the_device(tmp_path: Path, after: bool) -> None:
    clock = a_clock()
    async with asyncio.timeout(180), quiet(tmp_path) as (config, on):
        for at in range(1, 6):  # the Service, the claim, no Service, the Service, the Pod
            key = Key("", f"d{at}")
            job = await on.job(f"job-{at}", key.name, timeout_seconds=TIMEOUT)
            await on.claim(job, await on.device(key.name))
            async with behind(config, clock, at=at, after=after) as first:
                await catch_up(first, on, key)
                await a_pass(first, key)
                while not first.mortal.died.is_set():
                    await go_on(first, on, key, clock)
                    await a_pass(first, key)
            async with behind(config, clock) as second:
                await catch_up(second, on, key)
                while not await on.pods():
                    await a_pass(second, key)
                    await go_on(second, on, key, clock)
            (pod,) = await on.pods()
            (service,) = await on.services()
            assert pod.variable(Variable.EXTERNAL_IP) == service.external_address == ADDRESS
            assert not service.deleting
            claim = (await on.status(key.name)).claim
            assert claim is not None
            assert (claim.attempt, claim.not_before, claim.waits >= 1) == (1, None, True)
            await on.client.of(Pod).patch(pod.key, {"metadata": {"finalizers": None}})
            await on.client.of(Pod).delete(pod.key, grace_seconds=0)
            await on.client.of(Service).delete(service.key)


# --- both loops -----------------------------------------------------------------------------------------------------


def condition(job: FlashJob, type_: str) -> Condition | None:
    return next((each for each in job.status.conditions if each.type == type_), None)


async def test_devices_without_an_address_starve_nobody_and_all_are_flashed_once_there_is_one(tmp_path: Path) -> None:
    names = ["d1", "d2", "d3"]
    async with plane(tmp_path) as config, stage(config, addresses=[]) as on:
        await tls_secret(on.client)
        for name in names:
            await on.device(name)
        await on.device("dialled", protocol="smp-udp")
        await on.job("job", *names, "dialled", max_concurrent=1, timeout_seconds=1)
        async with operating(config, settings=SETTINGS, add=both):

            async def has_waited(name: str) -> bool:
                claim = (await on.status(name)).claim
                return claim is not None and claim.waits > 0

            async def all_have_waited() -> bool:
                return all([await has_waited(name) for name in names])

            await wait_until_async(all_have_waited, what="each has had the only place", timeout=120)

            async def says_so() -> bool:
                job = await found(on, "job")
                ready = condition(job, "Ready")
                shown = [each.message for each in job.status.devices if each.state == DeviceState.WAITING]
                return ready is not None and ready.reason == "NoAddress" and any("no address for" in s for s in shown)

            await wait_until_async(says_so, what="the job says what is missing", timeout=120)
            # From here on it is about the order, not the time: a second is too short for a flash on a busy machine.
            await on.client.of(FlashJob).patch(Key("default", "job"), {"spec": {"timeoutSeconds": 60}})

            async def dialled() -> bool:
                return bool((await on.status("dialled")).records)

            await wait_until_async(dialled, what="a device that needs no address is flashed meanwhile", timeout=120)
            on.node.addresses.append("127.40.0.1")
            job = await ended(on, "job")
            await on.settled(*names)
        assert {each.attempts for each in job.status.devices} == {1}
        assert on.node.most_services == 1
        events = await on.client.raw(EVENT).list(on.namespace)
        assert {"ServiceIPTimeout", "NoAddress"} <= {each["reason"] for each in events.items}
