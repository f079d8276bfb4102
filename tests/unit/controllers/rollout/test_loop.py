"""The loop over rollouts on a real API server of ours, with FlashJobs that are carried out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from edgewright.api.device import Device, FlashRecord
from edgewright.api.firmwarerollout import FirmwareRollout
from edgewright.api.flash_pod import Outcome
from edgewright.controllers.rollout import loop
from edgewright.controllers.rollout.decisions import Decision, decide
from edgewright.controllers.rollout.jobs import job_name
from edgewright.controllers.settings import Timing
from edgewright.runtime.objects import Kind
from tests.unit.controllers.flashjob.harness import Mortal
from tests.unit.controllers.flashjob.jobs_stage import JOBS, condition, eventually
from tests.unit.controllers.rollout.rollout_stage import FLEETS, ROLLOUTS, Stage, batch_of, stage
from tests.unit.controllers.rollout.rollout_world import replace, rollout_of

THREE = [{"name": "canary", "size": 1}, {"name": "some", "size": "30%"}]
BAD = FlashRecord(outcome=Outcome.REVERTED, message="it went back", version="0.9.0")
EVENTS = Kind(group="", version="v1", kind="Event", plural="events").path("default")


def failing(on: Stage, *names: str) -> None:
    """Lets the flash of these devices fail."""
    on.outcomes.update(dict.fromkeys(names, BAD))


async def test_a_rollout_of_ten_devices_in_three_batches_completes(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        names = await on.make_fleet(10)
        async with on.rolling():
            await on.make_rollout(batches=THREE)
            status = await on.phase("Completed")
        assert set((await on.versions()).values()) == {"1.0.0"}
        assert all(on.flashed[name] == 1 for name in names)
        jobs = await on.jobs()
        assert [(batch_of(job), len(job["spec"]["uuid"])) for job in jobs] == [(1, 1), (2, 3), (3, 6)]
        assert [(each["name"], each["phase"], each["done"]) for each in status["batches"]] == [
            ("canary", "Passed", 1),
            ("some", "Passed", 3),
            ("rest", "Passed", 6),
        ]
        assert status["progress"] == "10/10"
        assert status["counts"]["succeeded"] == status["counts"]["total"] == 10


@pytest.mark.parametrize("after", [False, True])
async def test_a_process_that_dies_at_any_write_leaves_a_rollout_that_the_next_one_ends(
    tmp_path: Path, after: bool
) -> None:
    async with stage(tmp_path) as on:
        names = await on.make_fleet(4)
        await on.make_rollout(batches=[{"name": "canary", "size": 1}], maxConcurrent=2)
        for at in range(1, 30, 3):
            async with on.rolling(at=at, after=after) as mortal:
                await eventually(lambda mortal=mortal: _died_or_done(on, mortal))  # type: ignore[misc]
        async with on.rolling():
            await on.phase("Completed")
        assert all(on.flashed[name] <= 1 for name in names)
        assert set((await on.versions()).values()) == {"1.0.0"}
        assert [len(job["spec"]["uuid"]) for job in await on.jobs()] == [1, 3]


async def _died_or_done(on: Stage, mortal: Mortal) -> bool:
    status: dict[str, Any] = (await on.rollout()).get("status", {})
    return mortal.died.is_set() or status.get("phase") == "Completed"


async def test_a_rule_pauses_and_a_resume_goes_on(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        await on.make_fleet(4)
        failing(on, "d00")
        async with on.rolling():
            await on.make_rollout(batchSize=1, stop=[{"action": "pause", "threshold": 1}])
            status = await on.phase("Paused")
            assert condition(status, "Stalled")["reason"] == "PausedByRule"
            assert on.flashed["d01"] == 0
            await on.change(f"{ROLLOUTS}/rollout", {"spec": {"resumeRequest": "go on"}})
            status = await on.phase("Failed")
        assert (status["counts"]["succeeded"], status["counts"]["failed"]) == (3, 1)


async def test_a_bad_firmware_is_stopped_after_its_canary_and_recalled(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        await on.make_fleet(6)
        failing(on, "d01")
        async with on.rolling():
            rule = {"action": "recall", "threshold": 1}
            await on.make_rollout(batchSize=1, stop=[rule])
            status = await on.phase("Recalled")
            assert status["recall"] == "rollout-recall"
            back = await on.phase("Completed", "rollout-recall")
        assert back["progress"] == "1/1"
        assert set((await on.versions()).values()) == {"0.9.0"}
        assert on.flashed["d02"] == 0


async def test_pause_abort_and_freeze_keep_batches_closed(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        await on.make_fleet(3)
        frozen = {"apiVersion": "edgewright.dev/v1alpha1", "kind": "Fleet", "metadata": {"name": "fleet"}}
        await on.api.made(FLEETS, {**frozen, "spec": {"frozen": True, "reason": "audit"}})
        async with on.rolling():
            await on.make_rollout(batchSize=1)
            assert "frozen: audit" in (await on.phase("Waiting"))["message"]
            await on.change(f"{ROLLOUTS}/rollout", {"spec": {"paused": True}})
            await on.phase("Paused")
            await on.change(f"{FLEETS}/fleet", {"spec": {"frozen": False}})
            assert await on.jobs() == []
            on.flashing = False
            await on.change(f"{ROLLOUTS}/rollout", {"spec": {"paused": None}})
            await on.said(lambda status: status["counts"]["flashing"] == 1)
            await on.change(f"{ROLLOUTS}/rollout", {"spec": {"aborted": True}})
            await on.phase("Aborted")
            on.flashing = True
            await on.said(lambda status: status["phase"] == "Aborted" and status["completionTime"])
        assert len(await on.jobs()) == 1


async def test_devices_that_appear_later_join_and_a_new_version_starts_again(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        await on.make_fleet(2)
        async with on.rolling():
            await on.make_rollout()
            await on.phase("Completed")
            await on.make_device("late")
            await on.said(lambda status: status["progress"] == "3/3")
            assert len(await on.jobs()) == 1
            await on.change(f"{ROLLOUTS}/rollout", {"spec": {"version": "1.1.0"}})
            await on.said(lambda status: status["revision"] == 2 and status["phase"] == "Completed")
        assert set((await on.versions()).values()) == {"1.1.0"}


async def test_soak_and_approval_are_waited_for_and_failed_devices_are_retried(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        await on.make_fleet(3)
        gate = {"approval": "manual", "successPercent": 100}
        canary = {"name": "canary", "selector": {"names": ["d00"]}, "soakSeconds": 1, "gate": gate}
        failing(on, "d00")
        async with on.rolling():
            await on.make_rollout(batches=[canary])
            await on.phase("Failed")
            on.outcomes.clear()
            await on.change(f"{ROLLOUTS}/rollout", {"spec": {"retryRequest": "again"}})
            await on.phase("Soaking")
            await on.phase("Waiting")
            await on.change(f"{ROLLOUTS}/rollout", {"spec": {"approvals": ["canary"]}})
            await on.phase("Completed")
        assert on.flashed["d00"] == 2


async def test_a_bad_spec_is_told_in_a_condition_and_an_event(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        await on.make_fleet(1)
        async with on.rolling():
            await on.make_rollout(batches=[{"name": "a", "size": "10%x"}])
            status = await on.phase("Pending")
            assert condition(status, "Accepted")["status"] == "False"
            assert "spec.batches[0].size" in status["message"]
            await eventually(lambda: _warned(on))
        assert await on.jobs() == []


async def _warned(on: Stage) -> bool:
    events = (await on.api("GET", EVENTS)).body["items"]
    return any(each["reason"] == "InvalidSpec" and each["type"] == "Warning" for each in events)


async def test_a_settled_rollout_is_not_written_again_and_a_wiped_status_is(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        await on.make_fleet(2)
        async with on.rolling() as mortal:
            await on.make_rollout(selector={"names": ["d00"]})
            await on.phase("Completed")
            await eventually(lambda: _quiet(on))
            mortal.writes.clear()
            await on.change(f"{Device.kind.path()}/d01/status", {"status": {"version": "0.9.5"}})
            await on.change(f"{Device.kind.path()}/d00/status", {"status": {"lastSeen": _now(0)}})
            await eventually(lambda: _quiet(on))
            assert [path for _, path in mortal.writes if "rollout" in path] == []
            await on.change(f"{ROLLOUTS}/rollout/status", {"status": None})
            await on.phase("Completed")


async def _quiet(on: Stage) -> bool:
    assert on.manager is not None
    return all(not len(each.queue) and not each.queue.working for each in on.manager._controllers)


async def test_a_rollout_whose_time_is_over_is_deleted(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        await on.make_fleet(1)
        async with on.rolling():
            await on.make_rollout(ttlSecondsAfterFinished=0)
            await on.gone(f"{ROLLOUTS}/rollout")
        assert on.flashed["d00"] == 1


async def test_many_changes_of_devices_are_few_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decided: list[Decision] = []

    def counted(*given: Any, **more: Any) -> Decision:
        decided.append(decide(*given, **more))
        return decided[-1]

    monkeypatch.setattr(loop, "decide", counted)
    async with stage(tmp_path, timing=Timing(status_every=0.5, recheck=0.05, first_backoff=0.05)) as on:
        names = await on.make_fleet(4)
        await on.make_rollout(paused=True)
        async with on.rolling():
            await on.phase("Paused")
            for number in range(20):
                for name in names:
                    await on.change(f"{Device.kind.path()}/{name}/status", {"status": {"version": f"0.9.{number}"}})
            await eventually(lambda: _quiet(on))
    assert 1 <= len(decided) < 40


async def test_a_job_of_others_that_has_the_name_of_one_of_ours_is_not_taken_for_ours(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        await on.make_fleet(1)
        made = await on.make_rollout(paused=True)
        name = loop_name(made)
        await on.make_job(name, "other")
        async with on.rolling() as mortal:
            await on.change(f"{ROLLOUTS}/rollout", {"spec": {"paused": None}})
            await eventually(lambda: _tried_twice(mortal))
            await on.api("DELETE", f"{JOBS}/{name}", None)
            await on.phase("Completed")


async def _tried_twice(mortal: Mortal) -> bool:
    return sum(method == "POST" and path.endswith("flashjobs") for method, path in mortal.writes) > 1


def loop_name(made: Any) -> str:
    """What the first FlashJob of a rollout is called."""
    rollout: FirmwareRollout = rollout_of()
    metadata = replace(rollout.metadata, uid=made["metadata"]["uid"])
    return job_name(replace(rollout, metadata=metadata), 1, 1, 0)


def _now(ahead: int) -> str:
    return (datetime.now(UTC) + timedelta(seconds=ahead)).strftime("%Y-%m-%dT%H:%M:%SZ")
