"""What happens between a claim and its Pod: a spec that changes meanwhile, and a digest that is told meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgewright.api import Device, FlashJob, Pod
from edgewright.api.device import DeviceStatus
from edgewright.api.flash_pod import Variable
from edgewright.controllers.flashjob.manifests import pod_for
from edgewright.runtime.objects import Key
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.flashjob.harness import DIGEST, GOOD, QUICK, Stage, operating, plane, stage


async def _has_a_service(on: Stage) -> None:
    async def made() -> bool:
        return bool(await on.services())

    await wait_until_async(made, what="the Service is there and waits for its address")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"podTemplate": {"securityContext": {"privileged": True}}}, id="a looser security context"),
        pytest.param({"hostEndpoint": "169.254.169.254"}, id="an address that flash Pods must not reach"),
    ],
)
async def test_a_spec_that_is_refused_by_now_makes_no_pod_for_a_claim_from_before(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    async with plane(tmp_path) as config, stage(config, addresses=[]) as on:
        job = await on.job("job", "d1")
        await on.claim(job, await on.device("d1"))
        async with operating(config):
            await _has_a_service(on)
            await on.client.of(FlashJob).patch(job.key, {"spec": change}, uid=job.metadata.uid)
            await on.settled("d1")
        assert on.node.ran == []
        assert (await on.status("d1")).records == ()


async def test_a_device_that_moves_to_where_none_may_be_gets_no_pod(tmp_path: Path) -> None:
    async with plane(tmp_path) as config, stage(config, addresses=[]) as on:
        device = await on.claim(await on.job("job", "d1"), await on.device("d1"))
        async with operating(config):
            await _has_a_service(on)
            moved = {"spec": {"endpoint": "127.0.0.1"}}
            await on.client.of(Device).patch(device.key, moved, uid=device.metadata.uid)
            await on.settled("d1")
        assert on.node.ran == []


async def test_a_pod_that_starts_after_the_first_outcome_gets_its_digest_though_no_status_tells_it_yet(
    tmp_path: Path,
) -> None:
    async with plane(tmp_path) as config, stage(config) as on:
        job = await on.job("job", "d1", "d2")
        await on.claim(job, await on.device("d1"))
        async with operating(config):
            await on.settled("d1")
            await on.claim(job, await on.device("d2"))
            await on.settled("d2")
        first, second = on.node.ran
        assert (first.variable(Variable.DIGEST), second.variable(Variable.DIGEST)) == ("", DIGEST)
        assert (await on.client.of(FlashJob).get(Key("default", "job"))).status.digest == ""


async def test_what_is_forced_asks_again_what_the_tag_stands_for(tmp_path: Path) -> None:
    async with plane(tmp_path) as config, stage(config) as on:
        job = await on.job("job", "d1", "d2")
        await on.claim(job, await on.device("d1"))
        async with operating(config) as operator:
            await on.settled("d1")
            forced = await on.client.of(FlashJob).patch(job.key, {"spec": {"force": True}})

            async def seen() -> bool:
                known = operator.context.jobs.get(job.key)
                return known is not None and bool(known.spec.force)

            await wait_until_async(seen, what="the operator knows that it is forced")
            await on.claim(forced, await on.device("d2"))
            await on.settled("d2")
        assert [pod.variable(Variable.DIGEST) for pod in on.node.ran] == ["", ""]


async def test_a_pod_that_has_the_marks_of_a_job_and_not_the_name_is_removed_and_claims_nothing(tmp_path: Path) -> None:
    async with plane(tmp_path) as config, stage(config, ending=lambda _: GOOD) as on:
        job = await on.job("job", "d1", paused=True)
        device = await on.device("d1")
        made_up = await on.claim(job, device)
        claim = made_up.status.claim
        assert claim is not None
        body = pod_for(job, device, claim, address="", digest="", settings=QUICK)
        body["metadata"]["name"] = "made-by-hand"
        await on.client.of(Device).write_status(made_up, DeviceStatus())
        await on.client.raw(Pod.kind).create(body)
        async with operating(config) as operator:
            await on.settled("d1")
            assert (await on.status("d1")).records == ()
            assert not [path for _, path in operator.mortal.writes if "/devices/" in path]
