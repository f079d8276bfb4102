"""What keeps one device of a job, or the whole of it, from going on, and what others have to do with that: nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edgewright.api.device import Mark
from edgewright.api.flashjob import FlashJobSpec
from edgewright.controllers.flashjob.names import state_of
from edgewright.runtime.client import Client
from edgewright.runtime.errors import ApiError, Forbidden, Invalid, Status
from tests.unit.controllers.flashjob.jobs_stage import DEVICES, JOBS, QUICK, Stage, condition, eventually, stage
from tests.unit.runtime.fakeserver import until

REFUSAL = "admission webhook denied the request: not this one"


class Policy:
    """An admission policy that lets nobody write to some Devices."""

    def __init__(self, client: Client, *names: str, error: type[ApiError] = Forbidden) -> None:
        self.names = set(names)
        self.refusals = 0
        self._send, self._error = client.transport.request, error
        client.transport.request = self._request  # type: ignore[method-assign] # the one door to the server

    async def _request(self, method: str, path: str, **given: Any) -> bytes:
        if method == "PATCH" and any(path.endswith(f"/devices/{name}/status") for name in self.names):
            self.refusals += 1
            raise self._error(Status(code=403, message=REFUSAL))
        return await self._send(method, path, **given)


def of(status: dict[str, Any], uuid: str) -> Any:
    return next(each for each in status["devices"] if each["uuid"] == uuid)


@pytest.mark.parametrize("error", [Forbidden, Invalid], ids=["forbidden", "invalid"])
async def test_a_device_whose_claim_is_refused_keeps_no_other_from_being_flashed(
    tmp_path: Path, error: type[ApiError]
) -> None:
    async with stage(tmp_path) as here:
        for name in ("one", "two", "three"):
            await here.make_device(name)
        async with here.operating() as context:
            policy = Policy(context.client, "one", error=error)
            await here.make_job("job", "one", "two", "three", maxConcurrent=1)
            status = await here.shown(
                lambda status: status["progress"] == "2/3" and REFUSAL in of(status, "one")["message"]
            )
            assert status["phase"] == "InProgress"
            assert of(status, "one")["message"] == f"its Device cannot be written: {REFUSAL}"
            assert here.flashed == {"two": 1, "three": 1}
            again = policy.refusals
            await until(lambda: policy.refusals > again)
            policy.names.clear()
            await here.shown(lambda status: status["phase"] == "Completed")
        assert here.flashed == {"one": 1, "two": 1, "three": 1}


async def passes_again(here: Stage, why: str) -> None:
    passes = here.passes()
    await here.change(f"{JOBS}/job", {"metadata": {"labels": {"touched": why}}})
    await until(lambda: here.passes() > passes)


async def test_a_refused_claim_is_tried_again_only_after_a_while(tmp_path: Path) -> None:
    async with stage(tmp_path, timing=replace(QUICK, recheck=3600)) as here:
        await here.make_device("one")
        async with here.operating() as context:
            policy = Policy(context.client, "one")
            await here.make_job("job", "one")
            await here.shown(lambda status: REFUSAL in of(status, "one")["message"])
            for number in range(3):
                await passes_again(here, str(number))
            assert REFUSAL in of((await here.job())["status"], "one")["message"]
            assert policy.refusals == 1


async def waits_for_its_second_attempt(here: Stage, job: Any, name: str) -> None:
    """A Device on which the first attempt of a job has failed."""
    await here.make_device(name)
    reference = {"name": job["metadata"]["name"], "namespace": "default", "uid": job["metadata"]["uid"]}
    state = state_of(msgspec.convert(job["spec"], FlashJobSpec))
    claim = {"job": reference, "uuid": name, "state": state, "attempt": 2, "notBefore": "2020-01-01T00:00:00Z"}
    last = {"job": reference, "outcome": "timed-out", "message": "it took too long", "time": "2020-01-01T00:00:00Z"}
    await here.change(f"{DEVICES}/{name}/status", {"status": {"claim": claim, "lastFlash": last}})


async def test_a_job_whose_secret_is_gone_holds_no_device_that_others_wait_for(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        first = await here.make_job("first", "one", firmwarePullSecret="gone")
        await waits_for_its_second_attempt(here, first, "one")
        await here.make_job("second", "one", version="2.0.0", paused=True)
        async with here.operating():
            await here.shown(lambda status: condition(status, "Accepted")["reason"] == "SecretMissing", "first")

            async def freed() -> bool:
                return "claim" not in (await here.api("GET", f"{DEVICES}/one")).body["status"]

            await eventually(freed)
            last = (await here.api("GET", f"{DEVICES}/one")).body["status"]["lastFlash"]
            assert (last["outcome"], last["message"]) == ("timed-out", "it took too long")
            await here.change(f"{JOBS}/second", {"spec": {"paused": False}})
            await here.shown(lambda status: status["phase"] == "Completed", "second")
            status = await here.shown(lambda status: of(status, "one")["message"] == "waits for a Secret", "first")
            assert status["phase"] == "InProgress"
        assert here.flashed == {"one": 1}


async def test_a_claim_that_still_has_a_pod_is_kept_though_the_secret_is_gone(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        first = await here.make_job("first", "one", firmwarePullSecret="gone")
        await waits_for_its_second_attempt(here, first, "one")
        labels = {"app": "first", "uuid": "one", Mark.JOB_UID.value: first["metadata"]["uid"]}
        metadata = {"name": "first-flashing-pod-one", "labels": labels, "annotations": {Mark.DEVICE.value: "one"}}
        spec = {"containers": [{"name": "flash-container", "image": "registry.example/flasher"}]}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        await here.api.made("/api/v1/namespaces/default/pods", pod)
        async with here.operating():
            await here.shown(lambda status: condition(status, "Accepted")["reason"] == "SecretMissing", "first")
            passes = here.passes()
            await until(lambda: here.passes() > passes + 2)
            assert "claim" in (await here.api("GET", f"{DEVICES}/one")).body["status"]


async def test_a_paused_job_for_a_device_that_nobody_has_discovered_waits_without_end(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        at = {"hostEndpoint": "192.0.2.9", "discoveryTimeoutSeconds": 0, "ttlSecondsAfterFinished": 0}
        await here.make_job("job", "on-my-desk", paused=True, **at)
        async with here.operating():
            status = await here.shown(lambda status: status["phase"])
            assert (status["phase"], condition(status, "Reconciling")["reason"]) == ("InProgress", "Paused")
            assert of(status, "on-my-desk")["message"] == "paused"
            await here.quiet()
            assert not (await here.api("GET", DEVICES)).body["items"]
            await here.change(f"{JOBS}/job", {"spec": {"paused": False, "ttlSecondsAfterFinished": None}})
            await here.shown(lambda status: status["phase"] == "Completed")
