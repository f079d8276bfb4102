"""Both loops at work on an API server of ours, with a node that does what the test says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from edgewright.api import FlashJob, Pod, Service
from edgewright.api.device import Mark
from edgewright.api.flash_pod import Outcome, Report, Role, Variable
from edgewright.api.flashjob import FINALIZER
from edgewright.controllers.flashjob.context import Context
from edgewright.controllers.flashjob.device_loop import add_flashes
from edgewright.controllers.flashjob.job_loop import add_jobs
from edgewright.controllers.flashjob.legacy.takeover import Takeover
from edgewright.runtime.client import Client
from edgewright.runtime.errors import NotFound
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key, Kind
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.flashjob.harness import GOOD, QUICK, Stage, operating, plane, stage

SECRET = Kind(group="", version="v1", kind="Secret", plural="secrets")
SETTINGS = replace(QUICK, timing=replace(QUICK.timing, status_every=0.02))
CUT = Report(outcome=Outcome.FAILED, message="the transfer broke off", written=True)


def both(manager: Manager, context: Context) -> None:
    """Adds both loops, as the operator does."""
    takeover = Takeover(context)
    add_jobs(manager, context, takeover)
    add_flashes(manager, context, predecessor=takeover)


async def tls_secret(client: Client) -> None:
    metadata = {"name": "ota-agent-tls", "namespace": "default"}
    data = {"tls.crt": "Yw==", "tls.key": "aw=="}
    await client.raw(SECRET).create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})


async def found(on: Stage, name: str) -> FlashJob:
    return await on.client.of(FlashJob).get(Key("default", name))


def over(on: Stage, name: str, phase: str = "Completed") -> Callable[[], Awaitable[bool]]:
    """Whether the job has ended so and nothing is left of it."""

    async def look() -> bool:
        job = await found(on, name)
        return job.status.phase == phase and not job.metadata.finalizers

    return look


async def ended(on: Stage, name: str, phase: str = "Completed") -> FlashJob:
    await wait_until_async(over(on, name, phase), what=f"{name} is {phase}", timeout=120)
    return await found(on, name)


async def test_a_job_flashes_its_devices_a_few_at_a_time_and_tries_again_what_failed(tmp_path: Path) -> None:
    names = [f"d{number}" for number in range(6)]

    def once_cut(pod: Pod) -> Report:
        first = pod.metadata.annotations[Mark.ATTEMPT] == "1"
        return CUT if first and pod.metadata.annotations[Mark.DEVICE] in {"d1", "d4"} else GOOD

    async with plane(tmp_path) as config, stage(config, ending=once_cut) as on:
        await tls_secret(on.client)
        for name in names:
            await on.device(name)
        await on.job("job", *names, max_concurrent=2)
        async with operating(config, settings=SETTINGS, add=both):
            job = await ended(on, "job")
            await on.settled(*names)
        assert job.status.completed_uuids == tuple(names)
        assert [each.attempts for each in job.status.devices] == [1, 2, 1, 1, 2, 1]
        assert job.status.digest == GOOD.digest
        assert len(on.node.ran) == 8
        assert on.node.most_services <= 2
        assert set(on.node.most_pods.values()) == {1}


async def test_a_job_that_is_deleted_in_mid_flash_ends_its_pods_and_leaves_nothing(tmp_path: Path) -> None:
    async with plane(tmp_path) as config, stage(config, ending=lambda _: None, bound=True) as on:
        await tls_secret(on.client)
        await on.device("d1")
        await on.job("job", "d1")
        async with operating(config, settings=SETTINGS, add=both):
            await wait_until_async(lambda: bool(on.node.ran), what="the Pod runs")
            await on.client.of(FlashJob).delete(Key("default", "job"))

            async def gone() -> bool:
                try:
                    await found(on, "job")
                except NotFound:
                    return True
                return False

            await wait_until_async(gone, what="the job is gone", timeout=120)
            await on.settled("d1")
        assert len(on.node.ran) == 1


async def test_a_device_that_the_original_flashed_is_checked_by_a_pod_of_ours(tmp_path: Path) -> None:
    async with plane(tmp_path) as config, stage(config) as on:
        await tls_secret(on.client)
        await on.device("d1")
        labels = {"app": "job", "uuid": "d1"}
        container = {"name": "flash-container", "image": "registry.example/flasher"}
        metadata = {"name": "job-flashing-pod-d1", "namespace": "default", "labels": labels}
        left = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}
        await on.client.raw(Pod.kind).create(left)
        spec = {"type": "LoadBalancer", "selector": labels, "ports": [{"port": 4433}]}
        metadata = {"name": "job-service-d1", "namespace": "default", "labels": labels}
        left = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
        await on.client.raw(Service.kind).create(left)
        job = await on.job("job", "d1")
        await on.client.of(FlashJob).patch(job.key, {"metadata": {"finalizers": [FINALIZER]}})
        async with operating(config, settings=SETTINGS, add=both):
            job = await ended(on, "job")
            await on.settled("d1")
        assert [each.attempts for each in job.status.devices] == [1]
        (ours,) = (pod for pod in on.node.ran if Mark.DEVICE in pod.metadata.annotations)
        (flasher,) = ours.spec.containers
        assert {each.name: each.value for each in flasher.env}[Variable.ROLE] == Role.CHECK


@pytest.mark.untraced
async def test_a_job_ends_the_same_wherever_the_operator_dies(tmp_path: Path) -> None:
    async with plane(tmp_path) as config, stage(config) as on:
        await tls_secret(on.client)
        await on.device("whole")
        await on.job("whole", "whole")
        async with operating(config, settings=SETTINGS, add=both) as operator:
            await ended(on, "whole")
            await on.settled("whole")
            writes = len(operator.mortal.writes)
        assert writes >= 10
        for at in range(1, writes + 1):
            for after in (False, True):
                name = f"cut-{at}-{'after' if after else 'before'}"
                await on.device(name)
                await on.job(name, name)
                async with operating(config, settings=SETTINGS, add=both, at=at, after=after) as operator:
                    died = asyncio.create_task(operator.mortal.died.wait())
                    finished = asyncio.create_task(ended(on, name))  # where fewer status writes were needed this time
                    await asyncio.wait([died, finished], return_when=asyncio.FIRST_COMPLETED)
                    for task in (died, finished):
                        task.cancel()
                    await asyncio.gather(died, finished, return_exceptions=True)
                async with operating(config, settings=SETTINGS, add=both):
                    job = await ended(on, name)
                    await on.settled(name)
                assert (job.status.phase, job.status.completed_uuids) == ("Completed", (name,))
                runs = [pod for pod in on.node.ran if pod.metadata.annotations[Mark.DEVICE] == name]
                assert len(runs) == 1, (name, operator.mortal.writes)
                assert len((await on.status(name)).records) == 1
