"""FlashJobs from end to end, on both API servers: our node runs our flasher against simulated devices."""

from __future__ import annotations

from tests.cluster.flash.stage import Stage
from tests.harness import ApiServer


async def test_every_device_runs_the_new_version_by_proof(flash_server: ApiServer, flash_namespace: str) -> None:
    async with Stage(flash_server, flash_namespace, devices=3) as stage:
        await stage.job()
        job = await stage.until_phase("Completed")
        assert [each.running.version for each in stage.fleet] == ["0.2.0"] * 3
        assert {each.outcome for each in job.status.devices} == {"succeeded"}
        assert len(job.status.completed_uuids) == 3
        await stage.until_clean()
        for device in await stage.devices():
            assert device.status.claim is None
            assert device.status.firmware is not None
            assert device.status.firmware.version == "0.2.0"
