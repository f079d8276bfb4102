"""Limits of a rollout over several jobs, and a fleet that is frozen in mid-work, measured at the devices."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from edgewright.api import FlashJob
from edgewright.api.firmwarerollout import FirmwareRollout
from edgewright.api.fleet import FLEET, Fleet, FleetSpec
from edgewright.devices.simulated.journal import Did
from edgewright.runtime.errors import NotFound
from edgewright.runtime.objects import Key, ObjectMeta, owner_reference
from tests.cluster.flash.scenes import discovered
from tests.cluster.flash.stage import Stage
from tests.harness import ApiServer

PAUSES: Final = "slow:65536=1"


async def a_rollout(stage: Stage, **spec: Any) -> FirmwareRollout:
    """A rollout that selects nobody, so that only the jobs of the test are of it."""
    body = {
        "apiVersion": FirmwareRollout.kind.api_version,
        "kind": "FirmwareRollout",
        "metadata": {"name": "spring", "namespace": stage.namespace},
        "spec": {"selector": {"names": ["nobody"]}, "firmware": "registry.example/f:1", "version": "1", **spec},
    }
    await stage.client.raw(FirmwareRollout.kind).create(body)
    return await stage.client.of(FirmwareRollout).get(Key(stage.namespace, "spring"))


async def a_batch(stage: Stage, name: str, rollout: FirmwareRollout, uuids: list[str]) -> None:
    """A job that the rollout owns, paused until it has its owner; without the labels by which the rollout finds its own
    jobs, or it would take this one for a part of an earlier revision and pause it.
    """
    await stage.job(name, uuids=uuids, paused=True)
    owners = [owner_reference(rollout).to_raw()]
    change = {"metadata": {"ownerReferences": owners}, "spec": {"paused": False}}
    await stage.client.raw(FlashJob.kind).patch(Key(stage.namespace, name), change)


async def test_no_more_devices_are_flashed_at_once_than_a_rollout_allows_over_all_its_jobs(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with Stage(flash_server, flash_namespace, devices=4) as stage:
        uids = list((await stage.uids()).values())
        rollout = await a_rollout(stage, maxConcurrent=1)
        await a_batch(stage, "first", rollout, uids[:2])
        await a_batch(stage, "second", rollout, uids[2:])
        most = 0

        async def done() -> bool:
            nonlocal most
            most = max(most, len(await stage.pods()))
            return all(job.status.phase == "Completed" for job in await stage.jobs())

        await stage.until(done, "both jobs are done")
        assert most == 1
        assert [each.running.version for each in stage.fleet] == ["0.2.0"] * 4
        for number in range(1, 5):
            (record,) = (await stage.device(number)).status.records
            assert record.rollout == rollout.metadata.uid
            assert record.last_started is not None
        await stage.until_clean()


async def test_a_fleet_that_is_frozen_in_mid_work_finishes_what_runs_and_starts_nothing(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with Stage(flash_server, flash_namespace, devices=2, faults=[PAUSES]) as stage:
        uids = await discovered(stage)
        fleets = stage.client.of(Fleet)
        try:
            with stage.devices_stand_still():
                await stage.job(uuids=[uids[1], uids[2]], maxConcurrent=1)
                await stage.until_did(1, Did.WRITING)
                frozen = FleetSpec(frozen=True, reason="storm in Athens")
                with suppress(NotFound):  # other tests thaw it and leave it there
                    await fleets.delete(Key("", FLEET))
                await fleets.create(Fleet(metadata=ObjectMeta(name=FLEET), spec=frozen))

                async def told() -> bool:
                    return "the fleet is frozen: storm in Athens" in (await stage.get()).status.message

                await stage.until(told, "the job says that the fleet is frozen")

            async def finished() -> bool:
                return (await stage.device(1)).status.version == "0.2.0" and not await stage.pods()

            await stage.until(finished, "what ran has finished")
            assert (await stage.device(2)).status.claim is None
            assert stage.fleet[2].journal.count(Did.ASKED) == 0
            await fleets.patch(Key("", FLEET), {"spec": {"frozen": False}})
            await stage.until_phase("Completed")
        finally:
            with suppress(NotFound):
                await fleets.delete(Key("", FLEET))
