"""A device that a Pod of the original operator is flashing: nobody else has it meanwhile, however it is named."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edgewright.api.device import Device, Mark
from edgewright.api.flashjob import FINALIZER, FlashJob
from edgewright.api.pod import Pod
from edgewright.controllers.flashjob.legacy.original import Original
from edgewright.controllers.flashjob.legacy.takeover import Takeover
from edgewright.runtime.objects import Key, ObjectMeta
from tests.unit.controllers.flashjob.jobs_stage import DEVICES, JOBS, QUICK, Stage, eventually, flash_job, stage
from tests.unit.controllers.flashjob.legacy.test_takeover_loop import (
    PODS,
    claim_of,
    the_original_runs,
    the_original_stops,
)
from tests.unit.controllers.flashjob.test_claims import world_of
from tests.unit.runtime.fakeserver import until

ENDPOINT = "192.0.2.9"


async def a_device(here: Stage, *instances: str, name: str = "one") -> None:
    await here.make_device(name, endpoint=ENDPOINT)
    await here.change(f"{DEVICES}/{name}/status", {"status": {"instances": list(instances)}})


async def taken_over(here: Stage, *uuids: str, **spec: Any) -> None:
    """A job that the original began."""
    job = flash_job("job", *uuids, **spec)
    job["metadata"]["finalizers"] = [FINALIZER]
    await here.api.made(JOBS, job)


async def flashing(here: Stage, uuid: str, **env: str) -> str:
    """The Pod of the original for one entry of the job, which runs; its path."""
    name = f"job-flashing-pod-{uuid}"
    variables = [{"name": name, "value": value} for name, value in {"UUID": uuid, **env}.items()]
    container = {"name": "flash-container", "image": "registry.example/flasher", "env": variables}
    metadata = {"name": name, "labels": {"app": "job", "uuid": uuid}}
    await here.api.made(
        PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
    )
    return f"{PODS}/{name}"


async def ends(here: Stage, pod: str) -> None:
    await here.change(f"{pod}/status", {"status": {"phase": "Succeeded"}})


def says(status: dict[str, Any], words: str) -> bool:
    return all(words in each["message"] for each in status["devices"])


ITS_POD = "Pod job-flashing-pod-u1 of the original operator is flashing it and is still running"
OF_ANOTHER = "waiting for Pod job-flashing-pod-u1 of the original operator in namespace default, which is flashing it"


@pytest.mark.parametrize("uuids", [("u1", "u2"), ("u2", "u1"), ("u2",)], ids=["first", "last", "not named any more"])
async def test_all_names_of_a_device_wait_for_the_pod_that_flashes_it_under_one(
    tmp_path: Path, uuids: tuple[str, ...]
) -> None:
    async with stage(tmp_path) as here:
        await a_device(here, "u1", "u2")
        here.flashing = False
        await taken_over(here, *uuids)
        pod = await flashing(here, "u1")
        async with here.operating():
            status = await here.shown(lambda status: says(status, ITS_POD))
            assert {each["state"] for each in status["devices"]} == {"Flashing"}
            passes = here.passes()
            await until(lambda: here.passes() > passes + 2)
            assert await claim_of(here) is None
            await ends(here, pod)
            claim = await eventually(lambda: claim_of(here))
            assert (claim["check"], claim["uuid"]) == (True, uuids[0])
            here.flashing = True
            await here.shown(lambda status: status["phase"] == "Completed")
            await here.gone(pod)
        assert here.flashed == {"one": 1}


@pytest.mark.parametrize(
    ("uuid", "spec"),
    [("one", {}), ("u1", {}), ("one", {"paused": True}), ("one", {"firmware": "fsdsdsd"})],
    ids=["by its name", "by its uid", "the original's job is paused", "the original's job is refused"],
)
async def test_another_job_waits_for_the_pod_of_the_original(tmp_path: Path, uuid: str, spec: dict[str, Any]) -> None:
    async with stage(tmp_path) as here:
        await a_device(here, "u1")
        await here.make_job("another", uuid, version="2.0.0")
        await taken_over(here, "u1", **spec)
        pod = await flashing(here, "u1")
        async with here.operating():
            await here.shown(lambda status: says(status, OF_ANOTHER), "another")
            assert not here.flashed
            await ends(here, pod)
            await here.shown(lambda status: status["phase"] == "Completed", "another")


async def test_another_device_at_the_address_waits_for_the_pod_of_the_original(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await a_device(here, "u1")
        await here.make_job("another", "on-my-desk", hostEndpoint=f"http://{ENDPOINT}")
        await taken_over(here, "u1", "two")
        pod = await flashing(here, "u1", HOST_ENDPOINT=ENDPOINT)
        await a_device(here, name="two")
        async with here.operating():
            await here.shown(lambda status: says(status, OF_ANOTHER), "another")
            await here.shown(lambda status: OF_ANOTHER in {each["message"] for each in status["devices"]})
            assert not here.flashed
            await ends(here, pod)
            for name in ("job", "another"):
                await here.shown(lambda status: status["phase"] == "Completed", name)
        assert here.most == 1


@pytest.mark.parametrize("uuids", [("u1",), ("u9", "u1")], ids=["by its old uid", "by its new one as well"])
async def test_a_device_whose_instance_went_in_mid_flash_is_found_at_the_address_that_its_pod_was_told(
    tmp_path: Path, uuids: tuple[str, ...]
) -> None:
    async with stage(tmp_path) as here:
        await taken_over(here, *uuids)
        pod = await flashing(here, "u1", HOST_ENDPOINT=f"{ENDPOINT}:80", DEVICE="esp32")
        here.flashing = False
        async with here.operating():
            await here.shown(lambda status: ITS_POD in {each["message"] for each in status["devices"]})
            await a_device(here, "u9")
            await here.make_job("another", "u9", version="2.0.0")
            await here.shown(lambda status: says(status, OF_ANOTHER), "another")
            await here.shown(lambda status: says(status, ITS_POD) and status["devices"][0].get("device") == "one")
            await here.change(f"{JOBS}/another", {"spec": {"paused": True}})
            await here.shown(lambda status: says(status, "paused"), "another")
            await ends(here, pod)
            claim = await eventually(lambda: claim_of(here))
            assert (claim["check"], claim["uuid"]) == (True, "u1")
            here.flashing = True
            await here.shown(lambda status: status["phase"] == "Completed")
        # It goes by that uid from then on, whatever becomes of the claim, the Pod and the job.
        assert (await here.api("GET", f"{DEVICES}/one")).body["status"]["instances"] == ["u1", "u9"]


async def test_what_the_original_began_since_we_last_looked_is_found_before_anything_starts(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await a_device(here, "u1")
        await here.make_device("two")
        await here.make_job("before", "two")
        async with here.operating() as context:
            await here.shown(lambda status: status["phase"] == "Completed", "before")
            await here.quiet()
            await the_original_runs(here)
            looked = context.clock.elapsed()
            await until(lambda: context.clock.elapsed() > looked + QUICK.original_every)
            await here.make_job("another", "one")
            await here.shown(lambda status: "the original FlashJob operator runs" in status["message"], "another")
            await taken_over(here, "u1", paused=True)
            await until(lambda: len(context.jobs) == 3)
            await flashing(here, "u1", HOST_ENDPOINT=ENDPOINT)
            await the_original_stops(here)
            await here.shown(lambda status: says(status, OF_ANOTHER), "another")
        assert here.flashed == {"two": 1}


async def test_all_jobs_are_looked_at_once_and_again_when_the_original_has_been_at_work(tmp_path: Path) -> None:
    async with stage(tmp_path) as here, world_of(here) as context:
        await taken_over(here, "u1")
        context.jobs.put(msgspec.convert(await here.job(), FlashJob))
        original = Original(context.client, context.clock, every=3600)
        takeover = Takeover(context, original)
        now = context.clock.now()
        assert await takeover.flashing(now=now) == []
        await flashing(here, "u1", HOST_ENDPOINT=f"{ENDPOINT}:80")
        assert await takeover.flashing(now=now) == []  # nobody has been there who could have made anything
        original.sightings += 1
        (found,) = await takeover.flashing(now=now)
        assert (found.why, found.endpoint, found.overdue) == (
            "waiting for Pod job-flashing-pod-u1 of the original operator in namespace default, which is flashing it",
            ENDPOINT,
            False,
        )
        (found,) = await takeover.flashing(now=now + timedelta(hours=1))
        assert found.overdue
        takeover.forget((await here.job())["metadata"]["uid"])
        assert await takeover.flashing(now=now) == []


async def test_a_pod_that_does_not_tell_its_device_may_be_on_any_of_its_job(tmp_path: Path) -> None:
    async with stage(tmp_path) as here, world_of(here) as context:
        await taken_over(here, "one", "two", "nobody")
        context.jobs.put(msgspec.convert(await here.job(), FlashJob))
        for name in ("one", "two"):
            context.devices.cache.put(msgspec.convert(await here.make_device(name), Device))
        metadata = {"name": "job-flashing-pod", "labels": {"app": "job"}}
        spec = {"containers": [{"name": "flash-container", "image": "registry.example/flasher"}]}
        await here.api.made(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        takeover = Takeover(context, Original(context.client, context.clock, every=3600))
        (found,) = await takeover.flashing(now=context.clock.now())
        assert (sorted(found.devices), found.endpoint) == (["one", "two"], "")
        await ends(here, f"{PODS}/job-flashing-pod")
        await takeover.look(next(iter(context.jobs)))
        assert await takeover.flashing(now=context.clock.now()) == []


async def test_a_pod_of_the_original_belongs_to_the_job_on_its_label(tmp_path: Path) -> None:
    async with stage(tmp_path) as here, world_of(here) as context:
        jobs_of = Takeover(context).jobs_of
        theirs = Pod(metadata=ObjectMeta(name="p", namespace="default", labels={"app": "job"}))
        ours = Pod(metadata=ObjectMeta(name="p", namespace="default", labels={"app": "job", Mark.JOB_UID: "u"}))
        assert list(jobs_of(theirs)) == [Key("default", "job")]
        assert list(jobs_of(ours)) == []
        assert list(jobs_of(Pod())) == []
