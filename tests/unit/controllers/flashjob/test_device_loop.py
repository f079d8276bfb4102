"""The loop for Devices on a real API server of ours, with a node that does what the test says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from edgewright.api import Device, FlashJob, Pod, Service
from edgewright.api.device import DeviceStatus
from edgewright.api.flash_pod import Outcome, Report
from edgewright.controllers.settings import Timing
from edgewright.runtime.objects import Key
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.flashjob.harness import (
    DIGEST,
    GOOD,
    QUICK,
    Ending,
    activating,
    operating,
    plane,
    stage,
)

CUT = Report(outcome=Outcome.FAILED, message="the transfer broke off", written=True)
REFUSED = Report(outcome=Outcome.REFUSED, message="the attestation service does not know it", log=("a", "b"))


def at_first(report: Report) -> Ending:
    """The first attempt ends so, all others go well."""
    return lambda pod: report if pod.metadata.annotations["edgewright.dev/attempt"] == "1" else GOOD


def always(report: Report | None) -> Ending:
    """Every attempt ends so."""
    return lambda _: report


async def test_a_claimed_device_is_flashed_recorded_and_freed_in_six_writes_and_nothing_is_left(tmp_path: Path) -> None:
    async with plane(tmp_path) as config, stage(config) as on:
        job = await on.job("job", "d1")
        await on.claim(job, await on.device("d1"))
        async with operating(config) as operator:
            await on.settled("d1")
            status = await on.status("d1")
            (record,) = status.records
            assert (record.outcome, record.version, record.digest) == (Outcome.SUCCEEDED, "1.1.0", DIGEST)
            assert record.job.uid == job.metadata.uid
            assert status.firmware is not None
            assert status.firmware.digest == DIGEST
            # With the claim, which the loop for FlashJobs writes, the seven that a device may cost.
            assert [method for method, _ in operator.mortal.writes] == [
                "POST",
                "POST",
                "PATCH",
                "DELETE",
                "PATCH",
                "DELETE",
            ]
        assert len(on.node.ran) == 1


async def test_a_device_that_is_dialled_needs_no_service(tmp_path: Path) -> None:
    async with plane(tmp_path) as config, stage(config) as on:
        await on.claim(await on.job("job", "d1"), await on.device("d1", protocol="smp-udp"))
        async with operating(config) as operator:
            await on.settled("d1")
            assert len(operator.mortal.writes) == 4
        assert (await on.status("d1")).records[0].outcome == Outcome.SUCCEEDED


@pytest.mark.untraced
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("ending", "writes", "attempts"),
    [
        pytest.param(always(GOOD), 6, 1, id="good at once"),
        pytest.param(at_first(CUT), 12, 2, id="good at the second try"),
        pytest.param(always(REFUSED), 6, 1, id="refused"),
    ],
)
async def test_a_crash_at_any_write_changes_nothing_and_no_attempt_runs_twice(
    tmp_path: Path, ending: Ending, writes: int, attempts: int, after: bool
) -> None:
    async with plane(tmp_path) as config, activating(config), stage(config, ending=ending) as on:
        for at in range(1, writes + 1):
            name = f"d{at}"
            on.node.ran.clear()
            await on.claim(await on.job(f"job-{at}", name), await on.device(name))
            async with operating(config, at=at, after=after) as operator:
                await wait_until_async(operator.mortal.died.is_set, what=f"the operator died at write {at}")
            async with operating(config):
                await on.settled(name)
            status = await on.status(name)
            (record,) = status.records
            expected = REFUSED.outcome if ending(on.node.ran[-1]) is REFUSED else GOOD.outcome
            assert (record.outcome, record.attempts) == (expected, attempts)
            assert [pod.metadata.annotations["edgewright.dev/attempt"] for pod in on.node.ran] == [
                str(number) for number in range(1, attempts + 1)
            ]
        assert set(on.node.most_pods.values()) == {1}


async def test_a_device_that_fails_every_time_is_recorded_when_its_attempts_are_used_up(tmp_path: Path) -> None:
    async with plane(tmp_path) as config, activating(config), stage(config, ending=always(CUT)) as on:
        await on.claim(await on.job("job", "d1", retries=1), await on.device("d1"))
        async with operating(config):
            await on.settled("d1")
        (record,) = (await on.status("d1")).records
        assert (record.outcome, record.attempts, record.message) == (Outcome.FAILED, 2, CUT.message)


async def test_a_refusal_is_final_and_its_log_is_kept(tmp_path: Path) -> None:
    async with plane(tmp_path) as config, stage(config, ending=always(REFUSED)) as on:
        await on.claim(await on.job("job", "d1"), await on.device("d1"))
        async with operating(config):
            await on.settled("d1")
        status = await on.status("d1")
        assert status.records[0].attempts == 1
        assert status.last_flash is not None
        assert status.last_flash.log == ("a", "b")
        assert status.firmware is None


async def test_a_pool_of_one_address_serves_one_device_after_the_other_without_an_attempt_lost(tmp_path: Path) -> None:
    names = [f"d{number}" for number in range(4)]
    async with plane(tmp_path) as config, stage(config, addresses=["127.40.0.1"]) as on:
        job = await on.job("job", *names)
        for name in names:
            await on.claim(job, await on.device(name))
        async with operating(config):
            await on.settled(*names)
        for name in names:
            (record,) = (await on.status(name)).records
            assert (record.outcome, record.attempts) == (Outcome.SUCCEEDED, 1)


async def test_a_job_that_is_paused_before_the_pod_gives_its_device_back(tmp_path: Path) -> None:
    async with plane(tmp_path) as config, stage(config, addresses=[]) as on:
        job = await on.job("job", "d1")
        await on.claim(job, await on.device("d1"))
        async with operating(config):
            await wait_until_async(on.services, what="there is a Service")
            await on.client.of(FlashJob).patch(job.key, {"spec": {"paused": True}})
            await on.settled("d1")
        assert (await on.status("d1")).records == ()
        assert on.node.ran == []


async def test_a_job_that_is_deleted_ends_its_pod_and_leaves_nothing(tmp_path: Path) -> None:
    async with plane(tmp_path) as config, stage(config, bound=True, ending=always(None)) as on:
        job = await on.job("job", "d1")
        await on.claim(job, await on.device("d1"))
        async with operating(config):
            await wait_until_async(lambda: on.node.ran, what="the Pod runs")
            await on.client.of(FlashJob).delete(job.key)
            await on.settled("d1")
        status = await on.status("d1")
        assert status.last_flash is not None
        assert status.last_flash.outcome == Outcome.FAILED
        assert len(on.node.ran) == 1


async def test_a_pod_that_somebody_deletes_keeps_its_outcome_and_is_tried_again(tmp_path: Path) -> None:
    cancelled = Report(outcome=Outcome.CANCELLED, message="told to stop")

    def ending(pod: Pod) -> Report | None:
        if pod.metadata.annotations["edgewright.dev/attempt"] == "2":
            return GOOD
        return cancelled if pod.deleting else None

    async with (
        plane(tmp_path) as config,
        activating(config),
        stage(config, bound=True, ending=ending) as on,
    ):
        await on.claim(await on.job("job", "d1"), await on.device("d1"))
        async with operating(config):
            await wait_until_async(lambda: on.node.ran, what="the Pod runs")
            await on.client.of(Pod).delete(on.node.ran[0].key)
            await on.settled("d1")
        (record,) = (await on.status("d1")).records
        assert (record.outcome, record.attempts) == (Outcome.SUCCEEDED, 2)


async def test_a_device_whose_status_is_lost_in_mid_flash_is_not_flashed_twice(tmp_path: Path) -> None:
    open_gate: list[bool] = []
    async with plane(tmp_path) as config, stage(config, ending=lambda _: GOOD if open_gate else None) as on:
        job = await on.job("job", "d1")
        await on.claim(job, await on.device("d1"))
        async with operating(config):
            await wait_until_async(lambda: on.node.ran, what="the Pod runs")
        device = await on.client.of(Device).get(Key("", "d1"))
        await on.client.of(Device).write_status(device, DeviceStatus())
        async with operating(config):

            async def adopted() -> bool:
                return (await on.status("d1")).claim is not None

            await wait_until_async(adopted, what="the claim is back")
            open_gate.append(True)
            await on.node.end((await on.pods())[0], GOOD)
            await on.settled("d1")
        (record,) = (await on.status("d1")).records
        assert (record.job.uid, record.outcome) == (job.metadata.uid, Outcome.SUCCEEDED)
        assert len(on.node.ran) == 1


async def test_a_pod_that_nobody_starts_fails_its_attempt_with_a_reason_and_blocks_nobody(tmp_path: Path) -> None:
    settings = replace(QUICK, timing=Timing(first_backoff=0.01, start_grace=0.0, grace=1))
    async with plane(tmp_path) as config, stage(config, starting=False) as on:
        # Long enough for an address on a busy machine: a claim without one steps back, and here nobody takes it again.
        await on.claim(await on.job("job", "d1", retries=0, timeout_seconds=8), await on.device("d1"))
        async with operating(config, settings=settings):
            await on.settled("d1")
        (record,) = (await on.status("d1")).records
        assert record.outcome == Outcome.FAILED
        assert "never started" in record.message


@pytest.mark.parametrize("kind", [Service, Pod], ids=["service", "pod"])
async def test_a_foreign_object_of_our_name_fails_the_attempt_with_a_sentence(
    tmp_path: Path, kind: type[Service] | type[Pod]
) -> None:
    async with plane(tmp_path) as config, stage(config) as on:
        job = await on.job("job", "d1", retries=0)
        name = "job-service-d1" if kind is Service else "job-flashing-pod-d1"
        spec = {"ports": [{"port": 1}]} if kind is Service else {"containers": [{"name": "c", "image": "i"}]}
        body = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
        await on.client.raw(kind.kind).create({"apiVersion": "v1", "kind": kind.kind.kind, **body})
        device = await on.device("d1")
        await on.claim(job, device)
        async with operating(config):

            async def recorded() -> bool:
                return bool((await on.status("d1")).records)

            await wait_until_async(recorded, what="the outcome is recorded")
        (record,) = (await on.status("d1")).records
        assert record.outcome == Outcome.FAILED
        assert name in record.message


async def test_what_was_made_for_a_device_goes_with_it(tmp_path: Path) -> None:
    async with plane(tmp_path) as config, stage(config, bound=True, ending=always(None)) as on:
        await on.claim(await on.job("job", "d1"), await on.device("d1"))
        async with operating(config):
            await wait_until_async(lambda: on.node.ran, what="the Pod runs")
            await on.client.of(Device).delete(Key("", "d1"))
            await on.settled()


async def test_a_settled_device_costs_no_request(tmp_path: Path) -> None:
    async with plane(tmp_path) as config, stage(config) as on:
        await on.claim(await on.job("job", "d1"), await on.device("d1"))
        async with operating(config):
            await on.settled("d1")
        async with operating(config) as operator:
            await operator.context.devices.cache.wait_synced()
            device = await on.client.of(Device).get(Key("", "d1"))
            seen = msgspec.structs.replace(device.status, application="thermo")
            await on.client.of(Device).write_status(device, seen)

            def caught_up() -> bool:
                known = operator.context.device("d1")
                return known is not None and known.status.application == "thermo"

            await wait_until_async(caught_up, what="the change is seen")
            await on.claim(await on.job("other", "d2"), await on.device("d2"))
            await on.settled("d2")  # the pass for d1 is over by then
            assert not any("d1" in path for _, path in operator.mortal.writes)
        assert len(on.node.ran) == 2
