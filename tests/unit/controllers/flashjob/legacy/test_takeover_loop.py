"""Jobs that the original operator left half done, and an original that still runs."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from edgewright.api.flashjob import FINALIZER, FIRST_FINALIZER
from edgewright.controllers.flashjob.legacy.original import ORIGINAL_LEASE
from edgewright.runtime.lease import Lease
from tests.unit.controllers.flashjob.jobs_stage import (
    DEVICES,
    JOBS,
    QUICK,
    Stage,
    condition,
    eventually,
    flash_job,
    stage,
)
from tests.unit.runtime.fakeserver import until

PODS = "/api/v1/namespaces/default/pods"
SERVICES = "/api/v1/namespaces/default/services"
LEASES = Lease.kind.path("default")

VERSIONS = {
    "first": ("job-flashing-pod", "job-service", {"app": "job"}, FIRST_FINALIZER),
    "in between": ("job-flashing-pod-one", "job-service", {"app": "job"}, FINALIZER),
    "second": ("job-flashing-pod-one", "job-service-one", {"app": "job", "uuid": "one"}, FINALIZER),
}


async def left_behind(here: Stage, version: str, **spec: Any) -> str:
    """A job with what one version of the original made for it; the path of its Pod."""
    job = flash_job("job", "one", **spec)
    job["metadata"]["finalizers"] = [VERSIONS[version][3]]
    await here.api.made(JOBS, job)
    return await make_leftovers(here, version)


async def make_leftovers(here: Stage, version: str) -> str:
    """What one version of the original makes for a device; the path of its Pod."""
    pod, service, labels, _ = VERSIONS[version]
    metadata = {"labels": labels}
    container = {"name": "flash-container", "image": "registry.example/flasher"}
    made = {"apiVersion": "v1", "kind": "Pod", "metadata": {**metadata, "name": pod}}
    await here.api.made(PODS, {**made, "spec": {"containers": [container]}})
    ports = {"type": "LoadBalancer", "selector": labels, "ports": [{"port": 4433}]}
    made = {"apiVersion": "v1", "kind": "Service", "metadata": {**metadata, "name": service}, "spec": ports}
    await here.api.made(SERVICES, made)
    return f"{PODS}/{pod}"


async def nothing_left(here: Stage) -> bool:
    listed = [(await here.api("GET", path)).body["items"] for path in (PODS, SERVICES)]
    return not any(listed)


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_pod_of_the_original_is_awaited_and_then_the_device_is_checked(tmp_path: Path, version: str) -> None:
    async with stage(tmp_path) as here:
        await here.make_device("one")
        here.flashing = False
        pod = await left_behind(here, version)
        async with here.operating():
            status = await here.shown(lambda status: status["devices"][0]["state"] == "Flashing")
            assert "of the original operator is flashing it" in status["devices"][0]["message"]
            assert "claim" not in (await here.api("GET", f"{DEVICES}/one")).body.get("status", {})
            await here.change(f"{pod}/status", {"status": {"phase": "Succeeded"}})

            async def claim() -> Any:
                return (await here.api("GET", f"{DEVICES}/one")).body.get("status", {}).get("claim")

            assert (await eventually(claim))["check"] is True
            await here.gone(pod)
            here.flashing = True
            await here.shown(lambda status: status["phase"] == "Completed")
            await eventually(lambda: nothing_left(here))

            async def let_go() -> bool:
                return not (await here.job())["metadata"].get("finalizers")

            await eventually(let_go)
        assert here.flashed == {"one": 1}


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_job_of_the_original_that_is_deleted_goes_with_what_it_left(tmp_path: Path, version: str) -> None:
    async with stage(tmp_path) as here:
        await here.make_device("one")
        await left_behind(here, version)
        await here.api("DELETE", f"{JOBS}/job")
        async with here.operating():
            await here.gone(f"{JOBS}/job")
        assert await nothing_left(here)
        assert not here.flashed


async def test_a_pod_of_the_original_that_never_ends_is_ended(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.make_device("one")
        pod = await left_behind(here, "second", timeoutSeconds=1)
        async with here.operating():
            await here.gone(pod)
            await here.shown(lambda status: status["phase"] == "Completed")
        assert here.flashed == {"one": 1}


async def claim_of(here: Stage, name: str = "one") -> Any:
    return (await here.api("GET", f"{DEVICES}/{name}")).body.get("status", {}).get("claim")


async def test_that_there_was_a_pod_which_never_ends_is_written_down_before_it_is_ended(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.make_device("one")
        here.flashing = False
        pod = await left_behind(here, "second", timeoutSeconds=1)
        async with here.operating():
            await here.gone(pod)
            assert (await claim_of(here))["check"] is True


async def test_a_service_without_a_pod_goes_before_its_device_is_claimed(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.make_device("one")
        here.flashing = False
        pod = await left_behind(here, "second")
        await here.api("DELETE", pod)
        async with here.operating():
            await eventually(lambda: nothing_left(here))
            claim = await eventually(lambda: claim_of(here))
            assert "check" not in claim


async def test_what_the_original_counted_as_done_is_checked(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        for name in ("one", "two"):
            await here.make_device(name)
        here.flashing = False
        await here.make_job("job", "one", "two", maxConcurrent=1)
        await here.change(f"{JOBS}/job/status", {"status": {"phase": "InProgress", "completedUUIDs": ["two"]}})
        async with here.operating():
            claim = await eventually(lambda: claim_of(here, "one"))
            assert "check" not in claim
            # Our status takes the place of the original's, and what that said is still known.
            await here.shown(lambda status: status["observedTime"] and "completedUUIDs" not in status)
            assert await claim_of(here, "two") is None
            await here.change(f"{JOBS}/job", {"spec": {"uuid": ["two"]}})
            await here.change(f"{DEVICES}/one/status", {"status": {"claim": None}})
            claim = await eventually(lambda: claim_of(here, "two"))
            assert claim["check"] is True


# --- what is lost meanwhile -----------------------------------------------------------------------------------------


async def in_mid_takeover(here: Stage) -> None:
    """The original's Pod had ended, its device is claimed, and what it left is gone."""
    await here.make_device("one")
    here.flashing = False
    pod = await left_behind(here, "second")
    await here.change(f"{pod}/status", {"status": {"phase": "Succeeded"}})
    async with here.operating():
        await here.gone(pod)
        await eventually(lambda: nothing_left(here))
        assert (await claim_of(here))["check"] is True


async def give_back(here: Stage) -> None:
    """Frees the claim, as the loop for Devices does when its job is paused."""
    await here.change(f"{DEVICES}/one/status", {"status": {"claim": None}})


async def test_a_device_that_the_original_had_is_checked_though_the_job_was_paused_meanwhile(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await in_mid_takeover(here)
        await here.change(f"{JOBS}/job", {"spec": {"paused": True}})
        await give_back(here)
        async with here.operating():
            await here.shown(lambda status: status["devices"][0]["message"] == "paused")
            await here.change(f"{JOBS}/job", {"spec": {"paused": False}})
            assert (await eventually(lambda: claim_of(here)))["check"] is True


async def test_a_device_that_the_original_had_is_checked_though_all_that_was_known_of_it_is_lost(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path) as here:
        await in_mid_takeover(here)
        await here.change(f"{DEVICES}/one/status", {"status": None})
        await here.change(f"{JOBS}/job/status", {"status": None})
        async with here.operating():
            assert (await eventually(lambda: claim_of(here)))["check"] is True


async def test_a_device_that_the_original_had_for_another_firmware_is_flashed(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await in_mid_takeover(here)
        await here.change(f"{JOBS}/job", {"spec": {"firmware": "registry.example/esp32:another"}})
        await give_back(here)
        async with here.operating():
            assert "check" not in await eventually(lambda: claim_of(here))


@pytest.mark.parametrize(
    "spec", [{"firmware": "fsdsdsd"}, {"uuid": ["nobody"], "discoveryTimeoutSeconds": 0}], ids=["refused", "not found"]
)
async def test_nothing_is_left_for_a_job_that_cannot_go_on(tmp_path: Path, spec: dict[str, Any]) -> None:
    async with stage(tmp_path) as here:
        await here.make_device("one")
        job = {**flash_job("job", "one"), "metadata": {"name": "job", "finalizers": [FIRST_FINALIZER]}}
        job["spec"] |= spec
        await here.api.made(JOBS, job)
        pod = await make_leftovers(here, "first")
        await here.change(f"{pod}/status", {"status": {"phase": "Failed"}})
        async with here.operating():
            await eventually(lambda: nothing_left(here))
            await here.shown(lambda status: status["phase"] == "Failed")

            async def let_go() -> bool:
                return not (await here.job())["metadata"].get("finalizers")

            await eventually(let_go)
        assert not here.flashed


async def test_a_finalizer_that_nothing_stands_behind_is_taken_off(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        job = flash_job("job", "one", paused=True)
        job["metadata"]["finalizers"] = [FIRST_FINALIZER, "example.com/somebody-elses"]
        await here.api.made(JOBS, job)
        async with here.operating():

            async def finalizers() -> bool:
                return bool((await here.job())["metadata"]["finalizers"] == ["example.com/somebody-elses"])

            await eventually(finalizers)


async def the_original_runs(here: Stage) -> None:
    """Makes the Lease of an original that has just renewed it."""
    spec = {
        "holderIdentity": "operator-controller-manager-0",
        "leaseDurationSeconds": 15,
        "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": ORIGINAL_LEASE}}
    await here.api.made(LEASES, {**lease, "spec": spec})


async def the_original_stops(here: Stage) -> None:
    await here.api("DELETE", f"{LEASES}/{ORIGINAL_LEASE}")


async def test_nothing_is_claimed_while_the_original_runs(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.make_device("one")
        await the_original_runs(here)
        await here.make_job("job", "one")
        async with here.operating():
            status = await here.shown(lambda status: status["phase"] == "InProgress")
            assert "kubectl -n default scale deployment operator-controller-manager --replicas=0" in status["message"]
            assert not (await here.job())["metadata"].get("finalizers")
            await the_original_stops(here)
            await here.shown(lambda status: status["phase"] == "Completed")


async def test_what_a_running_original_counts_as_done_is_left_in_the_status_that_it_goes_by(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        for name in ("one", "two"):
            await here.make_device(name)
        here.flashing = False
        await the_original_runs(here)
        await here.make_job("job", "one", "two")
        await here.change(f"{JOBS}/job/status", {"status": {"phase": "InProgress", "completedUUIDs": ["two"]}})
        async with here.operating():
            status = await here.shown(lambda status: condition(status, "Reconciling"))
            assert status["completedUUIDs"] == ["two"]  # without it, the original would flash it again
            await the_original_stops(here)
            await here.shown(lambda status: "completedUUIDs" not in status)
            claim = await eventually(lambda: claim_of(here, "two"))
            assert claim["check"] is True


async def test_what_the_original_makes_while_both_run_is_left_to_it_and_found_when_it_stops(tmp_path: Path) -> None:
    async with stage(tmp_path) as here:
        await here.make_device("one")
        await the_original_runs(here)
        job = flash_job("job", "one")
        job["metadata"]["finalizers"] = [FINALIZER]
        await here.api.made(JOBS, job)
        async with here.operating():
            await here.shown(lambda status: condition(status, "Reconciling")["reason"] == "OriginalOperatorRuns")
            assert (await here.job())["metadata"]["finalizers"] == [FINALIZER]
            pod = await make_leftovers(here, "second")
            await here.change(f"{pod}/status", {"status": {"phase": "Succeeded"}})
            passes = here.passes()
            await until(lambda: here.passes() > passes + 2)
            assert (await here.api("GET", pod)).code == 200
            await the_original_stops(here)
            await here.gone(pod)
            await here.shown(lambda status: status["phase"] == "Completed")
        assert here.flashed == {"one": 1}


async def test_an_original_that_comes_back_is_seen_before_the_next_device_and_its_end_soon_after(
    tmp_path: Path,
) -> None:
    timing = replace(QUICK, recheck=3600)
    async with stage(tmp_path, timing=timing) as here:
        for name in ("one", "two"):
            await here.make_device(name)
        here.flashing = False
        await here.make_job("job", "one", "two", maxConcurrent=1)
        async with here.operating() as context:
            await eventually(lambda: claim_of(here, "one"))
            await the_original_runs(here)
            looked = here.requests["GET"]

            async def looked_again() -> bool:
                await here.change(f"{JOBS}/job", {"metadata": {"labels": {"touched": str(here.passes())}}})
                return here.requests["GET"] > looked + 1  # the first may have been under way before

            await eventually(looked_again)
            claimed = context.device("one")
            assert claimed is not None
            await here.finish(context, claimed)
            await here.shown(lambda status: condition(status, "Reconciling")["reason"] == "OriginalOperatorRuns")
            assert await claim_of(here, "two") is None
            here.flashing = True
            await the_original_stops(here)
            await here.shown(lambda status: status["phase"] == "Completed")
