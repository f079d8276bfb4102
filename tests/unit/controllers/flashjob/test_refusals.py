"""A server that refuses a request of either loop: told under the reason that the original published for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edgewright.api import Device, FlashJob, Pod
from edgewright.api.flashjob import FIRST_FINALIZER
from edgewright.runtime.clock import SystemClock, VirtualClock
from edgewright.runtime.errors import ApiError, Forbidden, InternalError
from tests.unit.controllers.flashjob.behind import D1, Behind, behind, made_pod, made_service, quiet, refuse
from tests.unit.controllers.flashjob.harness import Stage
from tests.unit.controllers.flashjob.jobs_stage import JOBS, eventually, flash_job
from tests.unit.controllers.flashjob.jobs_stage import Stage as JobsStage
from tests.unit.controllers.flashjob.jobs_stage import stage as jobs_stage
from tests.unit.controllers.flashjob.legacy.test_takeover_loop import left_behind

POD, SERVICE = "/pods/job-flashing-pod-d1", "/services/job-service-d1"


# --- the loop for Devices -------------------------------------------------------------------------------------------


async def claimed(on: Stage, operator: Behind, **spec: Any) -> tuple[FlashJob, Device]:
    """A device that a job has just claimed."""
    job = await on.job("job", "d1", **spec)
    device = await on.claim(job, await on.device("d1"))
    operator.sees(job, device)
    return job, device


def going(job: FlashJob) -> FlashJob:
    """The job as it is while it is being deleted."""
    metadata = msgspec.structs.replace(
        job.metadata, deletion_timestamp=SystemClock().now(), resource_version=f"{job.metadata.resource_version}0"
    )
    return msgspec.structs.replace(job, metadata=metadata)


async def just_claimed(on: Stage, operator: Behind) -> None:
    await claimed(on, operator)


async def dialled(on: Stage, operator: Behind) -> None:
    await claimed(on, operator, exposure="None")


async def paused(on: Stage, operator: Behind) -> None:
    await claimed(on, operator, paused=True)


async def without_its_job(on: Stage, operator: Behind) -> None:
    job = await on.job("job", "d1")
    operator.sees(await on.claim(job, await on.device("d1")))


async def without_its_device(on: Stage, operator: Behind) -> None:
    job = await on.job("job", "d1")
    operator.sees(job, await made_pod(on, job, await on.claim(job, await on.device("d1"))))


async def with_a_service(on: Stage, operator: Behind, **spec: Any) -> FlashJob:
    job, device = await claimed(on, operator, **spec)
    operator.sees(await made_service(on, job, device))
    return job


async def with_no_address_for_long(on: Stage, operator: Behind) -> None:
    await with_a_service(on, operator)
    assert isinstance(operator.context.clock, VirtualClock)
    await operator.context.clock.advance(3600)


async def paused_with_a_service(on: Stage, operator: Behind) -> None:
    await with_a_service(on, operator, paused=True)


async def deleted_with_a_service(on: Stage, operator: Behind) -> None:
    operator.sees(going(await with_a_service(on, operator)))


async def deleted_with_a_pod(on: Stage, operator: Behind) -> None:
    job, device = await claimed(on, operator)
    operator.sees(going(job), await made_pod(on, job, device))


async def with_a_pod_that_never_started(on: Stage, operator: Behind) -> None:
    job, device = await claimed(on, operator)
    operator.sees(await made_pod(on, job, device))
    assert isinstance(operator.context.clock, VirtualClock)
    await operator.context.clock.advance(3600)


async def with_a_pod_that_ended(on: Stage, operator: Behind) -> None:
    job, device = await claimed(on, operator)
    pod = await made_pod(on, job, device)
    ended = await on.client.of(Pod).patch(pod.key, {"status": {"phase": "Failed"}}, subresource="status")
    operator.sees(ended)


@pytest.mark.parametrize(
    ("reason", "method", "path", "scene"),
    [
        pytest.param("FetchFailed", "GET", "/devices/d1", without_its_device, id="a Device is read"),
        pytest.param("FetchFailed", "GET", "/flashjobs/job", without_its_job, id="a FlashJob is read"),
        pytest.param("PodFetchFailed", "GET", POD, paused, id="a Pod is read"),
        pytest.param("ServiceFetchFailed", "GET", SERVICE, with_no_address_for_long, id="a Service is read"),
        pytest.param("StatusUpdateFailed", "PATCH", "/devices/d1/status", paused, id="a Device is written"),
        pytest.param("PodDeletionFailed", "DELETE", POD, deleted_with_a_pod, id="a Pod goes with its job"),
        pytest.param("PodDeletionFailed", "PATCH", POD, with_a_pod_that_never_started, id="a Pod is given up"),
        pytest.param("PodCleanupFailed", "DELETE", POD, with_a_pod_that_ended, id="a Pod has ended"),
        pytest.param("PodCleanupFailed", "PATCH", POD, with_a_pod_that_ended, id="a Pod is let go"),
        pytest.param("ServiceDeletionFailed", "DELETE", SERVICE, deleted_with_a_service, id="a Service with its job"),
        pytest.param("ServiceCleanupFailed", "DELETE", SERVICE, paused_with_a_service, id="a Service of no use"),
    ],
)
async def test_what_is_refused_for_a_device_is_told_and_tried_again(
    tmp_path: Path, reason: str, method: str, path: str, scene: Callable[[Stage, Behind], Awaitable[object]]
) -> None:
    async with quiet(tmp_path) as (config, on), behind(config, VirtualClock(SystemClock().now())) as operator:
        await scene(on, operator)
        refuse(operator.client, method, path, InternalError)
        with pytest.raises(InternalError):
            await operator.flashes.reconcile(D1)
        assert [said[:2] for said in operator.heard.said if said[1] != "PodFailed"] == [("Warning", reason)]
        assert "not you" in operator.heard.said[-1][2]


@pytest.mark.parametrize(
    ("reason", "path", "scene"),
    [("ServiceCreationFailed", "/services", just_claimed), ("PodCreationFailed", "/pods", dialled)],
    ids=["service", "pod"],
)
async def test_what_will_never_be_made_fails_the_attempt_and_is_told_as_that_too(
    tmp_path: Path, reason: str, path: str, scene: Callable[[Stage, Behind], Awaitable[object]]
) -> None:
    async with quiet(tmp_path) as (config, on), behind(config) as operator:
        await scene(on, operator)
        refuse(operator.client, "POST", path)
        await operator.flashes.reconcile(D1)
        assert [said[1] for said in operator.heard.said] == [reason, "PodFailed"]
        claim = (await on.status("d1")).claim
        assert claim is not None
        assert claim.attempt == 2


@pytest.mark.parametrize(
    ("reason", "path", "scene"),
    [("ServiceCreationFailed", "/services", just_claimed), ("PodCreationFailed", "/pods", dialled)],
    ids=["service", "pod"],
)
@pytest.mark.parametrize(
    ("refusal", "message"),
    [
        (Forbidden, 'services "job-service-d1" is forbidden: exceeded quota: five'),
        (InternalError, "no node port is left"),
    ],
    ids=["a quota", "a server that fails"],
)
async def test_what_cannot_be_made_for_now_gives_its_place_to_others_and_uses_up_no_attempt(
    tmp_path: Path,
    reason: str,
    path: str,
    scene: Callable[[Stage, Behind], Awaitable[object]],
    refusal: type[ApiError],
    message: str,
) -> None:
    clock = VirtualClock(SystemClock().now())
    async with quiet(tmp_path) as (config, on), behind(config, clock) as operator:
        await scene(on, operator)
        refuse(operator.client, "POST", path, refusal, message)
        await operator.flashes.reconcile(D1)
        assert [said[:2] for said in operator.heard.said] == [("Warning", reason)]
        status = await on.status("d1")
        claim = status.claim
        assert claim is not None
        assert (claim.attempt, claim.waits, status.records) == (1, 1, ())
        assert claim.waits_for.endswith(f"cannot be created: {message}")
        assert claim.not_before is not None
        assert claim.not_before > clock.now()


# --- the loop over FlashJobs ----------------------------------------------------------------------------------------


async def told(here: JobsStage, reason: str) -> list[str]:
    """What the events with this reason say."""
    events = (await here.api("GET", "/api/v1/namespaces/default/events")).body["items"]
    return [event["message"] for event in events if event["reason"] == reason]


async def a_job(here: JobsStage) -> None:
    await here.make_job("job", "one")


async def a_job_that_expires(here: JobsStage) -> None:
    await here.make_job("job", "one", ttlSecondsAfterFinished=0)


async def a_job_with_a_finalizer(here: JobsStage) -> None:
    job = flash_job("job", "one", paused=True)
    job["metadata"]["finalizers"] = [FIRST_FINALIZER]
    await here.api.made(JOBS, job)


async def one_that_the_original_ended(here: JobsStage) -> None:
    pod = await left_behind(here, "second")
    await here.change(f"{pod}/status", {"status": {"phase": "Succeeded"}})


async def one_that_is_deleted(here: JobsStage) -> None:
    await left_behind(here, "second")
    await here.api("DELETE", f"{JOBS}/job")


LEFT_POD, LEFT_SERVICE = "/pods/job-flashing-pod-one", "/services/job-service-one"


@pytest.mark.parametrize(
    ("reason", "method", "path", "scene"),
    [
        pytest.param("PodFetchFailed", "GET", "/pods", a_job_with_a_finalizer, id="the original's Pods are read"),
        pytest.param("ServiceFetchFailed", "GET", "/services", a_job_with_a_finalizer, id="its Services are read"),
        pytest.param("FinalizerError", "PATCH", "/flashjobs/job", a_job, id="the finalizer is put on"),
        pytest.param(
            "FinalizerRemovalFailed", "PATCH", "/flashjobs/job", a_job_with_a_finalizer, id="the finalizer is taken off"
        ),
        pytest.param("StatusUpdateFailed", "PATCH", "/flashjobs/job/status", a_job, id="the status is written"),
        pytest.param("StatusUpdateFailed", "PATCH", "/devices/one/status", a_job, id="a device is claimed"),
        pytest.param("DeletionFailed", "DELETE", "/flashjobs/job", a_job_that_expires, id="an expired job is deleted"),
        pytest.param("PodCleanupFailed", "DELETE", LEFT_POD, one_that_the_original_ended, id="a Pod left over"),
        pytest.param("ServiceCleanupFailed", "DELETE", LEFT_SERVICE, one_that_the_original_ended, id="a Service left"),
        pytest.param("PodDeletionFailed", "DELETE", LEFT_POD, one_that_is_deleted, id="a Pod left over by a job"),
        pytest.param("ServiceDeletionFailed", "DELETE", LEFT_SERVICE, one_that_is_deleted, id="a Service of a job"),
    ],
)
async def test_what_is_refused_for_a_job_is_told(
    tmp_path: Path, reason: str, method: str, path: str, scene: Callable[[JobsStage], Awaitable[None]]
) -> None:
    reading = method == "GET"
    async with jobs_stage(tmp_path) as here:
        await here.make_device("one")
        if not reading:
            await scene(here)
        async with here.operating() as context:
            if reading:  # the lists of the caches are not refused
                for cache in (context.jobs, context.devices.cache, context.pods.cache, context.services.cache):
                    await cache.wait_synced()
            refuse(context.client, method, path)
            if reading:
                await scene(here)
            (message,) = set(await eventually(lambda: told(here, reason)))
            assert "not you" in message


async def test_a_job_that_is_blocked_by_a_secret_that_may_not_be_read_warns(tmp_path: Path) -> None:
    async with jobs_stage(tmp_path) as here:
        await here.make_device("one")
        await here.make_job("job", "one", firmwarePullSecret="pull")
        async with here.operating() as context:
            refuse(context.client, "GET", "/secrets/pull", Forbidden)

            async def told() -> set[str] | None:
                events = (await here.api("GET", "/api/v1/namespaces/default/events")).body["items"]
                return {event["type"] for event in events if event["reason"] == "SecretUnreadable"} or None

            assert await eventually(told) == {"Warning"}
