"""The loop for Devices on both API servers: a flash is carried through, whatever write a crash falls on."""

from __future__ import annotations

import pytest

from edgewright.api import FlashJob, Pod
from edgewright.api.flash_pod import Outcome, Report
from edgewright.cli.operator_options import install_kinds
from edgewright.runtime import Client, LeaseSettings, config
from tests.harness import ApiServer
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.flashjob.harness import (
    GOOD,
    Ending,
    activating,
    operating,
    stage,
)

CUT = Report(outcome=Outcome.FAILED, message="the transfer broke off", written=True)


def at_first_cut(pod: Pod) -> Report:
    """The first attempt fails, all others go well."""
    return CUT if pod.metadata.annotations["edgewright.dev/attempt"] == "1" else GOOD


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("ending", "writes", "attempts"),
    [
        pytest.param(lambda _: GOOD, 6, 1, id="good at once"),
        pytest.param(at_first_cut, 12, 2, id="good at the second try"),
    ],
)
async def test_a_crash_at_any_write_changes_nothing_and_no_attempt_runs_twice(
    api_server: ApiServer, namespace: str, ending: Ending, writes: int, attempts: int, after: bool
) -> None:
    server = config.load(kubeconfig=api_server.kubeconfig)
    async with Client(server) as client:
        await install_kinds(client)
    async with activating(server), stage(server, namespace=namespace, ending=ending) as on:
        for at in range(1, writes + 1):
            name = f"{namespace}-{at}"
            on.node.ran.clear()
            await on.claim(await on.job(f"job-{at}", name), await on.device(name))
            async with operating(server, at=at, after=after) as operator:
                await wait_until_async(operator.mortal.died.is_set, what=f"the operator died at write {at}")
            async with operating(server):
                await on.settled(name)
            (record,) = (await on.status(name)).records
            assert (record.outcome, record.attempts) == (Outcome.SUCCEEDED, attempts)
            assert len(on.node.ran) == attempts
        assert set(on.node.most_pods.values()) == {1}


async def test_a_leader_carries_many_devices_through_with_six_writes_each(
    api_server: ApiServer, namespace: str
) -> None:
    server = config.load(kubeconfig=api_server.kubeconfig)
    async with Client(server) as client:
        await install_kinds(client)
    names = [f"{namespace}-{number}" for number in range(20)]
    async with stage(server, namespace=namespace) as on:
        job = await on.job("job", *names)
        for name in names:
            await on.claim(job, await on.device(name))
        lease = LeaseSettings(name="flashes", namespace=namespace)
        async with operating(server, lease=lease) as operator:
            await on.settled(*names)
            own = [path for _, path in operator.mortal.writes if namespace in path and "/leases/" not in path]
        assert len(own) == 6 * len(names)
        assert len(on.node.ran) == len(names)


async def test_a_job_that_is_deleted_in_mid_flash_leaves_nothing(api_server: ApiServer, namespace: str) -> None:
    server = config.load(kubeconfig=api_server.kubeconfig)
    async with Client(server) as client:
        await install_kinds(client)
    name = f"{namespace}-1"
    async with stage(server, namespace=namespace, bound=True, ending=lambda _: None) as on:
        job = await on.job("job", name)
        await on.claim(job, await on.device(name))
        async with operating(server):
            await wait_until_async(lambda: on.node.ran, what="the Pod runs")
            await on.client.of(FlashJob).delete(job.key, propagation="Background")
            await on.settled(name)
        last = (await on.status(name)).last_flash
        assert last is not None
        assert last.outcome == Outcome.FAILED
