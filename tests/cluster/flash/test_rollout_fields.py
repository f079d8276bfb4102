"""The fields of a rollout one by one, each with its failure side, on both API servers; measured at the devices."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from edgewright.api import Device
from edgewright.api.device import DeviceSpec
from edgewright.api.firmwarerollout import FirmwareRollout, FirmwareRolloutStatus
from edgewright.controllers.settings import Timing
from edgewright.devices.simulated.device import Slot
from edgewright.runtime import Key
from edgewright.runtime.conditions import find
from edgewright.runtime.errors import Invalid, NotFound
from edgewright.runtime.objects import ObjectMeta
from tests.cluster.flash.rolling import FAILS, STAGE, Rolling, rolling
from tests.cluster.flash.stage import APPLICATION, QUICK, Stage
from tests.cluster.flash.test_probing import start_asking_operator
from tests.harness import ApiServer

FAR = ZoneInfo("Pacific/Kiritimati")
"""Fourteen hours from UTC: what is open there now is not open by UTC."""


async def edgewright(stage: Stage, *words: str) -> tuple[int, str]:
    """A command as it is typed: what it ended with, and what it said."""
    place = ("--kubeconfig", str(stage.server.kubeconfig))
    namespace = () if words[0] == "devices" else ("-n", stage.namespace)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "edgewright", *words, *place, *namespace),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode()


async def refused(rollouts: Rolling, name: str, field: str, **spec: Any) -> None:
    """A rollout with this spec is told to be wrong, with the field, and starts nothing."""
    await rollouts.make(name, **spec)
    status = await rollouts.until_phase("Pending", name)
    accepted = find(status.conditions, "Accepted")
    assert accepted is not None
    assert (accepted.status, accepted.message.startswith(field)) == ("False", True), accepted.message


def counts(status: FirmwareRolloutStatus) -> dict[str, int]:
    """How many devices stand where; only where some do."""
    assert status.counts is not None
    return {name: number for name, number in status.counts.to_raw().items() if number}


async def test_who_is_selected_excluded_and_given_which_firmware(flash_server: ApiServer, flash_namespace: str) -> None:
    async with Stage(flash_server, flash_namespace, devices=3) as stage, rolling(stage) as rollouts:
        uids = await stage.uids()
        expression = {"key": STAGE, "operator": "In", "values": [stage.namespace]}
        every = {"types": ["ESP32"], "applications": [APPLICATION], "versions": ["0.1.0"]}
        selector = {**every, "labels": {"matchExpressions": [expression]}, "uuids": [uids[1], uids[2], uids[3]]}
        await rollouts.make("nobody", selector={**selector, "types": ["esp32c3"]})
        status = await rollouts.until_phase("Pending", "nobody")
        assert "no device" in status.message
        await refused(rollouts, "all-out", "spec.exclude", exclude={})
        twice = [{"type": "esp32", "firmware": "registry.example/a:1", "version": "1"}]
        await refused(rollouts, "both", "spec.firmwares", firmwares=twice)

        fitting = {"type": "esp32", "firmware": stage.firmware("0.2.0"), "version": "0.2.0"}
        other = {**fitting, "type": "esp32s3"}
        await rollouts.make(
            selector=selector,
            exclude={"uuids": [uids[3]]},
            firmwares=[other],
            version=None,
        )
        status = await rollouts.until(lambda status: status.counts is not None and status.counts.excluded == 2, "left")
        assert counts(status) == {"total": 2, "excluded": 2}, "there is no firmware for their type"
        code, why = await edgewright(stage, "rollout", "why", rollouts.names[1], "--rollout", "rollout")
        assert (code, "add one to spec.firmwares" in why) == (0, True), why
        await rollouts.change(firmwares=[other, fitting])
        status = await rollouts.until_phase("Completed")
        assert rollouts.versions() == {1: "0.2.0", 2: "0.2.0", 3: "0.1.0"}
        assert status.revision == 1, "none had begun"


async def test_a_rate_a_share_of_a_group_and_a_window_in_its_time_zone_hold_devices_back(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    faults = [f"{FAILS}=1"]
    async with (
        Stage(flash_server, flash_namespace, devices=4, faults=faults) as stage,
        rolling(stage, sites=1) as rollouts,
    ):
        with pytest.raises(Invalid, match=r"spec\.maxPerMinute"):
            await rollouts.make("wrong", maxPerMinute=0)
        await refused(rollouts, "none", "spec.budgets[0].maxUnavailable", budgets=[budget("0%")])
        mars = {"cron": "0 2 * * *", "durationSeconds": 600, "timeZone": "Mars/Olympus"}
        await refused(rollouts, "mars", "spec.windows[0].timeZone", windows=[mars])

        opened = datetime.now(UTC).astimezone(FAR)
        window = {"cron": f"{opened.minute} {opened.hour} * * *", "durationSeconds": 7200}
        names = [rollouts.names[number] for number in (2, 3, 4)]
        await rollouts.make(selector={"names": names}, windows=[window], maxPerMinute=2)
        status = await rollouts.until_phase("Waiting")
        assert status.next_opening is not None
        assert timedelta(hours=9) < status.next_opening - datetime.now(UTC) < timedelta(hours=15)
        assert rollouts.asked() == set()
        await rollouts.change(windows=[{**window, "timeZone": FAR.key}])
        told = "starts at most 2 devices per minute; the next one at"
        status = await rollouts.until(lambda status: told in status.message, told)
        assert len(rollouts.asked()) == 2
        await rollouts.change(maxPerMinute=None)
        await rollouts.until_phase("Completed")

        await rollouts.make("broken", version="0.3.0", selector={"names": [rollouts.names[1]]})
        await rollouts.until_phase("Failed", "broken")
        await rollouts.make("shared", version="0.3.0", selector={"names": names}, budgets=[budget("25%")])
        told = "1 of 4 are being updated or broken, and rollout shared allows 1 at once"
        await rollouts.until(lambda status: told in status.message, told, "shared")
        assert set(rollouts.versions().values()) == {"0.1.0", "0.2.0"}
        await rollouts.change("shared", budgets=[budget("50%")])
        await rollouts.until_phase("Completed", "shared")


def budget(share: str) -> dict[str, str]:
    """A budget of the sites."""
    return {"label": "site", "maxUnavailable": share}


async def test_a_device_that_keeps_failing_is_quarantined_until_somebody_releases_it(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with (
        Stage(flash_server, flash_namespace, devices=2, faults=[f"{FAILS}:once=2"]) as stage,
        rolling(stage) as rollouts,
    ):
        held = rollouts.names[2]
        with pytest.raises(Invalid, match=r"spec\.quarantineAfter"):
            await rollouts.make("wrong", quarantineAfter=-1)
        await rollouts.make("first", selector={"names": [held]}, quarantineAfter=1)
        await rollouts.until_phase("Failed", "first")
        device = await stage.device(2)
        quarantined = find(device.status.conditions, "Quarantined")
        assert quarantined is not None
        assert (quarantined.status, device.status.failures) == ("True", 1)
        assert quarantined.last_transition_time is not None

        await rollouts.make(maxConcurrent=1)
        status = await rollouts.until_phase("Completed")
        assert counts(status) == {"total": 2, "succeeded": 1, "quarantined": 1}, "it holds no slot and no batch"
        _, why = await edgewright(stage, "rollout", "why", held, "--rollout", "rollout")
        assert f"edgewright devices release {held}" in why
        assert await edgewright(stage, "devices", "release", held) == (0, f"device {held} released\n")
        status = await rollouts.until(lambda status: status.progress == "2/2", "the released one has its turn")
        assert rollouts.versions() == {1: "0.2.0", 2: "0.2.0"}
        code, said = await edgewright(stage, "devices", "release", held)
        assert "is not in quarantine" in said, code


async def test_revisions_are_kept_undone_and_forgotten_and_a_rollout_goes_when_its_time_is_over(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with Stage(flash_server, flash_namespace, devices=2) as stage, rolling(stage) as rollouts:
        await rollouts.make(dynamic=False)
        await rollouts.until_phase("Completed")
        code, said = await edgewright(stage, "rollout", "undo", "rollout", "--yes")
        assert (code, "nothing is known of what came before" in said) == (1, True), said

        late = f"late-{stage.namespace}"
        metadata = ObjectMeta(name=late, labels={STAGE: stage.namespace})
        await stage.client.of(Device).create(Device(metadata=metadata, spec=DeviceSpec(type="esp32")))
        await rollouts.change(version="0.3.0", firmware=stage.firmware("0.3.0"), maxConcurrent=2)
        status = await rollouts.until(lambda status: status.revision == 2 and status.phase == "Completed", "revision 2")
        assert status.progress == "2/2", "a Device that was made later does not join"
        assert len(await stage.jobs()) == 2
        _, said = await edgewright(stage, "rollout", "history", "rollout")
        assert "0.2.0" in said
        await rollouts.change(dynamic=True)
        await rollouts.until(lambda status: status.counts is not None and status.counts.total == 3, "it joins now")
        await stage.client.of(Device).delete(Key("", late))
        await rollouts.until(lambda status: status.counts is not None and status.counts.total == 2, "it is gone")

        code, said = await edgewright(stage, "rollout", "undo", "rollout", "--yes")
        assert code == 0, said
        await rollouts.until_phase("Completed", "rollout-undo")
        assert set(rollouts.versions().values()) == {"0.2.0"}

        with pytest.raises(Invalid, match=r"spec\.ttlSecondsAfterFinished"):
            await rollouts.change(ttlSecondsAfterFinished=-1)
        await rollouts.change(revisionHistoryLimit=0)

        async def forgotten() -> bool:
            mine = [job for job in await stage.jobs() if job.metadata.owner_references[0].name == "rollout"]
            return {job.spec.version for job in mine} == {"0.3.0"}

        await stage.until(forgotten, "the jobs of the first revision are gone")
        await rollouts.change("rollout-undo", ttlSecondsAfterFinished=1)

        async def gone() -> bool:
            try:
                await stage.client.of(FirmwareRollout).get(Key(stage.namespace, "rollout-undo"))
            except NotFound:
                return all(job.metadata.owner_references[0].name == "rollout" for job in await stage.jobs())
            return False

        await stage.until(gone, "the rollout is gone with its FlashJobs")
        assert set(rollouts.versions().values()) == {"0.2.0"}


async def test_a_batch_follows_the_end_of_another_and_its_gate_and_a_rule_that_paused_can_be_answered(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with (
        Stage(flash_server, flash_namespace, devices=4, faults=[f"{FAILS}=2"]) as stage,
        rolling(stage) as rollouts,
    ):
        first, second, third, fourth = (rollouts.names[number] for number in (1, 2, 3, 4))
        rule = {"action": "pause", "threshold": "50%", "minSample": 2, "outcomes": ["corrupt", "reverted", "failed"]}
        canary = {"name": "canary", "selector": {"names": [first, second]}, "gate": {"successPercent": 60}}
        await rollouts.make(batches=[canary], stop=[rule])
        status = await rollouts.until_phase("Paused")
        assert "spec.stop[0] allows fewer than 50%" in status.message
        code, said = await edgewright(stage, "rollout", "status", "rollout", "--timeout", "60s")
        assert (code, "paused" in said) == (5, True), said
        assert (await edgewright(stage, "rollout", "resume", "rollout"))[0] == 0
        status = await rollouts.until_phase("Failed")
        assert "60% must succeed" in status.message
        assert rollouts.asked() == {1, 2}
        await rollouts.change(batches=[{**canary, "gate": {"successPercent": 50}}])
        status = await rollouts.until_phase("Completed")
        assert counts(status) == {"total": 4, "succeeded": 3, "failed": 1}

        both = {"names": [third, fourth]}
        await refused(rollouts, "mixed", "spec.batchSize", batchSize=1, batches=[{"name": "a", "size": 1}])
        await rollouts.make("simple", version="0.3.0", selector=both, batchSize=1, intervalSeconds=2)
        status = await rollouts.until_phase("Completed", "simple")
        one, two = status.batches
        assert one.ended is not None
        assert two.opened is not None
        assert two.opened - one.ended >= timedelta(seconds=2)


async def test_a_device_that_changes_within_the_soak_time_has_regressed_unless_nobody_minds(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with Stage(flash_server, flash_namespace, devices=2) as stage, rolling(stage) as rollouts:
        board = stage.fleet[1]
        canary = {"name": "canary", "selector": {"names": [rollouts.names[1]]}, "soakSeconds": 600}
        await rollouts.make(batches=[canary], stop=[{"action": "abort", "threshold": 1, "outcomes": ["regressed"]}])
        status = await rollouts.until_phase("Soaking")
        assert status.observed_by == "Instances"
        board.running = Slot(version="0.9.9", application=APPLICATION)  # somebody with a cable
        status = await rollouts.until_phase("Aborted")
        assert (counts(status)["regressed"], status.outcomes) == (1, {"regressed": 1})
        assert rollouts.asked() == {1}

        await rollouts.make("lenient", version="0.3.0", batches=[canary], observe={"version": False})
        await rollouts.until_phase("Soaking", "lenient")
        board.running = Slot(version="0.9.8", application=APPLICATION)

        async def seen() -> bool:
            return (await stage.device(1)).status.version == "0.9.8"

        await stage.until(seen, "the change is known")
        await rollouts.change("lenient", batches=[{**canary, "soakSeconds": 1}])
        status = await rollouts.until_phase("Completed", "lenient")
        assert counts(status) == {"total": 2, "succeeded": 2}


@asynccontextmanager
async def written_device(server: ApiServer, namespace: str, timing: Timing) -> AsyncIterator[Stage]:
    """A stage with one device that people wrote, and an operator that asks it."""
    async with Stage(server, namespace, discovered=False, operator=False, timing=timing) as stage:
        spec = DeviceSpec(endpoint=stage.fleet[1].endpoint, type="esp32")
        await stage.client.of(Device).create(Device(metadata=ObjectMeta(name=f"written-{namespace}"), spec=spec))
        start_asking_operator(stage)
        yield stage


async def test_a_device_that_is_watched_is_asked_itself_where_the_operator_may_and_found_to_have_gone(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    timing = replace(QUICK, probe_every=0.2, observe_every=0.1, stale_after=3.0)
    async with written_device(flash_server, flash_namespace, timing) as stage, rolling(stage) as rollouts:
        canary = {"name": "canary", "size": 1, "soakSeconds": 600}
        await rollouts.make(batches=[canary])
        status = await rollouts.until_phase("Soaking")
        assert status.observed_by == "Prober"
        await stage.fleet[1].vanish()
        status = await rollouts.until_phase("Failed")
        assert counts(status) == {"total": 1, "regressed": 1}
        assert "fell back after their success" in status.message
        await stage.fleet[1].come_back()


async def test_a_device_that_disappears_within_a_short_soak_time_is_missed_all_the_same(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    timing = replace(QUICK, probe_every=0.2, observe_every=0.1, stale_after=5.0)
    async with written_device(flash_server, flash_namespace, timing) as stage, rolling(stage) as rollouts:
        canary = {"name": "canary", "size": 1, "soakSeconds": 600}
        await rollouts.make(batches=[canary])
        status = await rollouts.until_phase("Soaking")
        await stage.fleet[1].vanish()
        ended = status.batches[0].ended
        assert ended is not None
        gone = datetime.now(UTC) - ended
        # It ends a moment after the device went, and long before anybody misses it.
        await rollouts.change(batches=[{**canary, "soakSeconds": int(gone.total_seconds()) + 2}])
        status = await rollouts.until(lambda status: status.phase in {"Failed", "Completed"}, "the soak time is over")
        assert (status.phase, counts(status)) == ("Failed", {"total": 1, "regressed": 1})
        await stage.fleet[1].come_back()


async def test_a_short_soak_time_ends_once_its_device_was_seen_after_it(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    timing = replace(QUICK, probe_every=0.2, observe_every=0.1)
    async with written_device(flash_server, flash_namespace, timing) as stage, rolling(stage) as rollouts:
        await rollouts.make(batches=[{"name": "canary", "size": 1, "soakSeconds": 2}])
        status = await rollouts.until_phase("Completed")
        batch = status.batches[0]
        assert batch.ended is not None
        device = await stage.client.of(Device).get(Key("", f"written-{flash_namespace}"))
        assert device.status.last_seen is not None
        assert device.status.last_seen >= batch.ended + timedelta(seconds=2)
