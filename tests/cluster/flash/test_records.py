"""What is remembered of a flash, and where: jobs act once on a device, whatever becomes of anybody's status."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from edgewright.api import Device, FlashJob
from edgewright.api.flash_pod import FLASH_CONTAINER
from edgewright.devices.simulated.journal import Did
from edgewright.runtime.objects import Key
from tests.cluster.flash.stage import Stage
from tests.harness import ApiServer


async def wipe_job(stage: Stage, name: str) -> None:
    """Takes the whole status of a FlashJob away."""
    await stage.client.raw(FlashJob.kind).patch(Key(stage.namespace, name), {"status": None}, subresource="status")


async def wipe_device(stage: Stage, device: Device) -> None:
    """Takes the whole status of a Device away."""
    await stage.client.raw(Device.kind).patch(device.key, {"status": None}, subresource="status")


async def test_no_job_flashes_again_what_it_has_flashed_whatever_becomes_of_its_status(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with Stage(flash_server, flash_namespace) as stage:
        await stage.job("a", version="0.2.0")
        first = await stage.until_phase("Completed", "a")
        await stage.job("b", version="0.3.0")
        await stage.until_phase("Completed", "b")
        await stage.until_clean()

        await wipe_job(stage, "a")  # under the eyes of the operator
        await stage.until_phase("Completed", "a")
        await stage.stop_operator()
        await wipe_job(stage, "a")
        assert (await stage.get("a")).status.phase == ""
        stage.start_operator()
        second = await stage.until_phase("Completed", "a")

        # When the operator has done something else, it has had every occasion.
        await stage.job("c", version="0.3.0", firmware=(await stage.get("b")).spec.firmware)
        third = await stage.until_phase("Completed", "c")
        await stage.until_clean()
        assert [entry.version for entry in stage.fleet[1].journal.of(Did.WRITTEN)] == ["0.2.0", "0.3.0"]
        assert [each.outcome for each in third.status.devices] == ["already-current"]
        (before,), (after,) = first.status.devices, second.status.devices
        assert (before.superseded, after.superseded) == (False, True)
        assert (after.outcome, after.version, after.time) == (before.outcome, before.version, before.time)
        assert (await stage.get("a")).status.completed_uuids == first.status.completed_uuids


async def test_a_devices_lost_status_in_mid_flash_is_told_by_its_pod(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with Stage(flash_server, flash_namespace, faults=["slow:65536=1"]) as stage:
        with stage.devices_stand_still():
            await stage.job()
            await stage.until_did(1, Did.WRITING)
            await wipe_device(stage, await stage.device())

            async def claimed_again() -> bool:
                claim = (await stage.device()).status.claim
                return claim is not None and claim.job.name == "job"

            await stage.until(claimed_again, "the device is claimed again")
        await stage.until_phase("Completed")
        await stage.until_clean()
        assert stage.fleet[1].journal.count(Did.ASKED) == 1
        assert (await stage.device()).status.claim is None


async def test_a_device_whose_status_is_lost_is_asked_before_anything_is_done(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    async with Stage(flash_server, flash_namespace) as stage:
        # By its name: the uids of Instances that it has had are lost with the rest.
        await stage.job(uuids=[(await stage.device()).metadata.name])
        await stage.until_phase("Completed")
        await stage.until_clean()
        await stage.stop_operator()
        await wipe_device(stage, await stage.device())
        stage.start_operator()

        async def recorded_again() -> Device | None:
            device = await stage.device()
            return device if device.status.records else None

        device = await stage.until(recorded_again, "there is a record again")
        # It said what it ran; of which firmware that was nobody knows any more, so it was proven again.
        assert device.status.last_flash is not None
        assert device.status.last_flash.version_before == "0.2.0"
        await stage.until_phase("Completed")
        await stage.until_clean()
        assert device.status.firmware is not None
        assert device.status.firmware.version == stage.fleet[1].running.version == "0.2.0"


async def test_a_device_that_falls_back_before_its_proof_is_recorded_is_known_by_what_it_runs(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    """No operator runs from the middle of the flash until the device is back with what it ran before."""
    async with Stage(flash_server, flash_namespace, faults=["slow:65536=1"]) as stage:
        board = stage.fleet[1]
        before = board.running
        with stage.devices_stand_still():
            await stage.job()
            await stage.until_did(1, Did.WRITING)
            await stage.stop_operator()

        async def proven() -> datetime | None:
            ended = [pod.terminated(FLASH_CONTAINER) for pod in await stage.pods() if pod.finished]
            return next((each.finished_at for each in ended if each is not None), None)

        ended = await stage.until(proven, "the flasher has read the new version")
        assert board.running.version == "0.2.0"
        await board.vanish()

        async def lost() -> bool:
            # When an Instance was made is told in whole seconds.
            return not await stage.uids() and datetime.now(UTC) >= ended + timedelta(seconds=2)

        await stage.until(lost, "Akri does not see it any more")
        board.running = before
        await board.come_back()

        async def found() -> bool:
            return bool(await stage.uids())

        await stage.until(found, "Akri sees it again")
        assert not (await stage.device()).status.records
        stage.start_operator()
        await stage.until_phase("Completed")
        await stage.until_clean()

        async def known() -> bool:
            return (await stage.device()).status.version == before.version

        await stage.until(known, "it is known by what it runs")
        (record,) = (await stage.device()).status.records
        assert (record.outcome, record.version) == ("succeeded", "0.2.0")
        assert record.observed is not None
        assert record.time is not None
        assert record.observed < record.time
