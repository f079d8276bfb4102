"""A pool of one address that somebody else has for longer than an attempt may take, on both API servers."""

from __future__ import annotations

from edgewright.api import FlashJob, Service
from edgewright.devices.simulated.journal import Did
from edgewright.runtime.conditions import find
from tests.cluster.flash.scenes import discovered, entries, one_after_the_other, only_address, spans
from tests.cluster.flash.stage import Stage
from tests.cluster.flash.test_weak_points_of_outcomes import block
from tests.harness import ApiServer


async def test_devices_that_get_no_address_in_time_wait_for_their_turn_and_no_attempt_is_used_up(
    flash_server: ApiServer, flash_namespace: str
) -> None:
    address = only_address(flash_server)
    # Open to all, as behind NAT, no two Services can have one address.
    async with Stage(flash_server, flash_namespace, devices=4, nat=True) as stage:
        blocker = await block(stage, address)
        uids = await discovered(stage)
        await stage.job(externalIP=address, maxConcurrent=2, timeoutSeconds=2, retries=0)

        async def all_have_waited() -> bool:
            claims = [each.status.claim for each in await stage.devices()]
            return len(claims) == len(uids) and all(claim is not None and claim.waits for claim in claims)

        await stage.until(all_have_waited, "each device has had a place and given it away")

        async def told() -> FlashJob | None:
            job = await stage.get()
            ready = find(job.status.conditions, "Ready")
            return job if ready is not None and (ready.status, ready.reason) == ("False", "NoAddress") else None

        job = await stage.until(told, "the job says what is missing")
        assert any("no address for Service job-service-" in each.message for each in job.status.devices)
        assert {each.attempts for each in job.status.devices} == {1}
        assert len([each for each in await stage.services() if each.key != blocker]) <= 2
        assert await stage.pods() == []

        await stage.change("job", timeoutSeconds=60)
        await stage.client.of(Service).delete(blocker)
        job = await stage.until_phase("Completed")
        assert {uuid: each.attempts for uuid, each in entries(job).items()} == dict.fromkeys(uids.values(), 1)
        assert [entry.detail for each in stage.fleet for entry in each.journal.of(Did.ASKED)] == [address] * 4
        assert one_after_the_other(spans(stage, 1, 2, 3, 4))
        await stage.until_clean()
