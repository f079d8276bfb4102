"""Rollouts from their declaration to what the simulated devices run, on both API servers, and what goes wrong."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from edgewright.api import Device, FlashJob, Pod
from edgewright.api.device import Mark
from edgewright.api.firmwarerollout import FirmwareRollout
from edgewright.runtime import Key
from edgewright.runtime.conditions import find
from edgewright.runtime.errors import Invalid
from tests.cluster.flash.rolling import FAILS, rolling
from tests.cluster.flash.stage import Stage
from tests.harness import ApiServer


async def test_a_rollout_goes_from_its_canary_to_the_rest_within_its_limits(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with Stage(flash_server, flash_namespace, devices=6) as stage, rolling(stage, sites=2) as rollouts:
        canary = {"name": "canary", "selector": {"names": [rollouts.names[3]]}, "soakSeconds": 2}
        gate = {"approval": "manual"}
        await rollouts.make(
            batches=[canary, {"name": "some", "size": "30%", "gate": gate}],
            maxConcurrent=2,
            budgets=[{"label": "site", "maxUnavailable": 1}],
            exclude={"names": [rollouts.names[6]]},
        )
        await rollouts.until_phase("Soaking")
        assert rollouts.asked() == {3}
        status = await rollouts.until_phase("Waiting")
        assert "some" in status.message
        assert len(rollouts.asked()) == 3
        await rollouts.change(approvals=["some"])
        status = await rollouts.until_phase("Completed")
        assert (status.progress, len(status.batches)) == ("5/5", 3)
        assert rollouts.versions() == {**dict.fromkeys(range(1, 6), "0.2.0"), 6: "0.1.0"}
        assert rollouts.most_at_once() <= 2
        assert all(rollouts.most_at_once(site) == 1 for site in rollouts.sites().values())
        assert all(stage.flashed(stage.fleet[number]) == 1 for number in range(1, 6))


async def test_a_recall_takes_devices_back_to_what_each_ran_also_without_the_jobs(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with Stage(flash_server, flash_namespace, devices=3) as stage, rolling(stage) as rollouts:
        await rollouts.make("first", selector={"names": [rollouts.names[1], rollouts.names[2]]})
        await rollouts.until_phase("Completed", "first")
        await rollouts.make("second", version="0.3.0")
        await rollouts.until_phase("Completed", "second")
        await rollouts.change("second", aborted=True)
        await stage.until_clean()
        recalled = await stage.client.of(FirmwareRollout).get(Key(stage.namespace, "second"))
        for job in await stage.jobs():
            if job.metadata.owner_references[0].uid == recalled.metadata.uid:
                await stage.client.raw(FlashJob.kind).delete(job.key)
        await rollouts.make_recall("back", recalled)
        status = await rollouts.until_phase("Failed", "back")
        assert rollouts.versions() == {1: "0.2.0", 2: "0.2.0", 3: "0.3.0"}
        assert rollouts.names[3] in status.message, "nobody knows what it ran before"


async def test_a_rollout_whose_canary_fails_recalls_by_itself_and_never_reaches_the_rest(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with (
        Stage(flash_server, flash_namespace, devices=4, faults=[f"{FAILS}=2"]) as stage,
        rolling(stage) as rollouts,
    ):
        names = [rollouts.names[number] for number in (1, 2)]
        await rollouts.make("first", selector={"names": names[:1]})
        await rollouts.until_phase("Completed", "first")
        await rollouts.make(
            version="0.3.0",
            batches=[
                {"name": "one", "selector": {"names": names[:1]}},
                {"name": "two", "selector": {"names": names[1:]}},
            ],
            stop=[{"action": "recall", "threshold": 1, "outcomes": ["unreachable", "timed-out", "failed"]}],
        )
        status = await rollouts.until_phase("Recalled")
        assert status.recall == "rollout-recall"
        assert "spec.stop[0]" in status.message
        await rollouts.until_phase("Completed", "rollout-recall")
        assert stage.fleet[1].running.version == "0.2.0"
        assert rollouts.asked() == {1, 2}


async def test_pause_freeze_windows_and_abort_keep_devices_from_being_started(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with Stage(flash_server, flash_namespace, devices=3) as stage, rolling(stage) as rollouts:
        later = datetime.now(UTC) + timedelta(hours=3)
        await rollouts.make(batchSize=1, windows=[{"cron": f"0 {later.hour} * * *", "durationSeconds": 60}])
        status = await rollouts.until_phase("Waiting")
        assert status.next_opening is not None
        await rollouts.freeze(frozen=True)
        await rollouts.change(windows=None)
        status = await rollouts.until(lambda status: "frozen" in status.message, "it is frozen")
        await rollouts.change(paused=True)
        await rollouts.until_phase("Paused")
        await rollouts.freeze(frozen=False)
        assert rollouts.asked() == set()
        await rollouts.change(paused=None)
        await rollouts.until(lambda status: status.counts is not None and status.counts.succeeded >= 1, "one is done")
        await rollouts.change(aborted=True)
        status = await rollouts.until(lambda status: status.completion_time is not None, "it has ended")
        assert status.phase == "Aborted"
        asked = rollouts.asked()
        await rollouts.change(aborted=None)
        await rollouts.until_phase("Aborted")
        assert rollouts.asked() == asked != {1, 2, 3}


async def test_one_second_after_an_abort_no_device_starts_any_more(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with Stage(flash_server, flash_namespace, devices=8) as stage, rolling(stage) as rollouts:
        await rollouts.make(maxConcurrent=2)
        await rollouts.until(lambda status: status.counts is not None and status.counts.succeeded >= 1, "one is done")
        await rollouts.change(aborted=True)
        await asyncio.sleep(1)  # the second that is promised
        pods = (await stage.client.of(Pod).list(stage.namespace)).items
        by_name = {name: number for number, name in rollouts.names.items()}
        started = rollouts.asked() | {by_name[pod.metadata.annotations[Mark.DEVICE]] for pod in pods}
        status = await rollouts.until(lambda status: status.completion_time is not None, "it has ended")
        assert status.phase == "Aborted"
        await stage.until_clean()
        assert rollouts.asked() <= started
        assert len(started) < 8


async def test_a_device_of_others_waits_outside_and_a_failed_one_is_retried(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with (
        Stage(flash_server, flash_namespace, devices=3, faults=[f"{FAILS}:once=2"]) as stage,
        rolling(stage) as rollouts,
    ):
        devices = stage.client.raw(Device.kind)
        await devices.patch(Key("", rollouts.names[3]), {"spec": {"allowedNamespaces": ["elsewhere"]}})
        await rollouts.make()
        status = await rollouts.until_phase("Failed")
        assert status.counts is not None
        assert (status.counts.excluded, status.counts.failed, status.counts.succeeded) == (1, 1, 1)
        await rollouts.change(retryRequest="again", resumeRequest="again")
        status = await rollouts.until_phase("Completed")
        assert status.counts is not None
        assert status.counts.succeeded == 2
        assert rollouts.versions()[3] == "0.1.0"


async def test_what_no_rollout_can_be_is_refused_or_told_with_its_field(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with Stage(flash_server, flash_namespace, devices=1) as stage, rolling(stage) as rollouts:
        await rollouts.make(batches=[{"name": "a", "size": "10%x"}])
        status = await rollouts.until_phase("Pending")
        accepted = find(status.conditions, "Accepted")
        assert accepted is not None
        assert accepted.message.startswith("spec.batches[0].size")
        with pytest.raises(Invalid, match=r"spec\.stop\[0\]\.action"):
            await rollouts.make("wrong", stop=[{"action": "panic"}])
        assert rollouts.asked() == set()
