"""The whole operator dies before or after any of its writes, in turn: the next one brings the job to the same end.

On the real API server, and on ours in this process. Which writes there are is not assumed: they are counted, kind by
kind, in a job at which nobody dies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from edgewright.api import Device, FlashJob, FlashJobPhase, Instance, InstanceSpec, Pod
from edgewright.api.flash_pod import Outcome, Report
from edgewright.api.flashjob import TLS_SECRET
from edgewright.cli.instance_registration import SECRET, install_instances
from edgewright.cli.operator_options import install_kinds
from edgewright.controllers.flashjob import job_loop
from edgewright.controllers.operator import add_controllers
from edgewright.controllers.settings import Settings, Timing
from edgewright.local.custom import Definitions
from edgewright.runtime import Client, Config, Key, Manager, ObjectMeta, config
from edgewright.runtime.clock import SystemClock
from tests.harness import ControlPlane
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.flashjob.harness import GOOD, Mortal, Stage, stage
from tests.unit.local.serving.inprocess import serving
from tests.unit.runtime.fakeserver import running

SETTINGS = Settings(
    timing=Timing(
        status_every=0.02,
        first_backoff=0.02,
        longest_backoff=0.1,
        start_grace=5.0,
        grace=1,
        recheck=0.1,
        original_every=0.1,
    )
)
CUT = Report(outcome=Outcome.FAILED, message="the transfer broke off", written=True)
ATTEMPTS = ["1", "2"]
LEAST_WRITES = 20
"""Of the inventory 2, for each attempt Service, Pod, what came of it and three to clean up, 2 claims, 4 of the job."""

both_sides = pytest.mark.parametrize("after", [False, True], ids=["before", "after"])


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes over a job follow each other as they come: there is only one."""
    monkeypatch.setattr(job_loop, "PASS_EVERY", 0.01)


def at_first_cut(pod: Pod) -> Report:
    """The first attempt fails, all others go well."""
    return CUT if pod.metadata.annotations["edgewright.dev/attempt"] == "1" else GOOD


@asynccontextmanager
async def operator(server: Config, namespace: str) -> AsyncIterator[Mortal]:
    """A process of the operator with all its controllers, which dies when it was armed."""
    manager = Manager(Client(server), namespaces=[namespace])
    mortal = Mortal(manager.client)
    add_controllers(manager, SETTINGS)
    async with running(manager.run()):
        yield mortal


async def discovered(on: Stage, endpoint: str, number: int) -> str:
    """Makes the Instance of a device that nobody knows yet, as Akri does; its uid."""
    properties = {"HOST_ENDPOINT": endpoint, "DEVICE": "esp32", "APPLICATION_TYPE": "lamp", "VERSION": "1.0"}
    spec = InstanceSpec(
        configuration_name="lamps",
        cdi_name="akri.sh/lamps",
        capacity=1,
        nodes=("edge",),
        broker_properties=properties,
    )
    made = Instance(metadata=ObjectMeta(name=f"lamps-{number}", namespace=on.namespace), spec=spec)
    return (await on.client.of(Instance).create(made)).metadata.uid


async def is_over(on: Stage, job: Key) -> bool:
    """Whether the job has ended and nothing that was made for it is left."""
    found = await on.client.of(FlashJob).get(job)
    if found.status.completion_time is None or found.metadata.finalizers:
        return False
    claims = [device.status.claim for device in (await on.client.of(Device).list()).items]
    mine = [claim for claim in claims if claim is not None and claim.job.namespace == on.namespace]
    return not (mine or await on.pods() or await on.services())


def what(method: str, path: str) -> str:
    """A write without the names in it: POST pods, PATCH devices/status."""
    parts = path.partition("?")[0].split("/")
    plural = next((part for part in parts if part in {"devices", "pods", "services", "flashjobs"}), path)
    return f"{method} {plural}{'/status' if parts[-1] == 'status' else ''}"


@both_sides
async def test_a_crash_at_any_write_of_the_operator_changes_nothing(tmp_path: Path, after: bool) -> None:
    async with serving(tmp_path) as api, running(Definitions(api.store, api.kinds, clock=SystemClock()).run()):
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        await api.made("/api/v1/namespaces/default/serviceaccounts", account)
        await die_at_every_write(Config(server=api.url, tls=api.tls), "default", after=after)


@both_sides
async def test_a_crash_at_any_write_of_the_operator_changes_nothing_on_the_real_server(
    cluster: ControlPlane, namespace: str, after: bool
) -> None:
    await die_at_every_write(config.load(kubeconfig=cluster.kubeconfig), namespace, after=after)


async def die_at_every_write(server: Config, namespace: str, *, after: bool) -> None:
    """A job for each write: an operator dies at it; the next one brings it to its end, and has then a job to die at.

    So each operator begins in the middle of a job, with caches of its own.
    """
    async with stage(server, namespace=namespace, ending=at_first_cut) as on:
        await install_kinds(on.client)
        await install_instances(on.client)
        pair = {"tls.crt": "a", "tls.key": "b"}
        secret = {"metadata": {"name": TLS_SECRET, "namespace": namespace}, "stringData": pair}
        await on.client.raw(SECRET).create({"apiVersion": "v1", "kind": "Secret", **secret})
        async with operator(server, namespace) as mortal:
            begun = await begin(on, 0, after=after)
            await until_over(on, begun.key, "and nobody died")
            await as_it_must_be(on, begun)
            kinds = Counter(what(*write) for write in mortal.writes)
        assert kinds.total() >= LEAST_WRITES
        outlived: Counter[str] = Counter()
        points = [(kind, at) for kind, times in kinds.items() for at in range(1, times + 1)]
        when = ""
        for number, (kind, at) in enumerate(points, start=1):
            async with operator(server, namespace) as mortal:
                await until_over(on, begun.key, when)
                await as_it_must_be(on, begun)
                on.node.ran.clear()
                mortal.arm(at, after=after, counts=lambda method, path, kind=kind: what(method, path) == kind)  # type: ignore[misc]
                begun = await begin(on, number, after=after)
                when = f"after a death at {kind} number {at}"
                await until_over(on, begun.key, f"or dead at {kind} number {at}", mortal)
                outlived[kind] += not mortal.died.is_set()
        async with operator(server, namespace):
            await until_over(on, begun.key, when)
            await as_it_must_be(on, begun)
        # How often something is changed depends on how fast the machine is; what is made and deleted does not.
        assert all(kind.startswith("PATCH") and times < kinds[kind] for kind, times in outlived.items() if times)
        assert set(on.node.most_pods.values()) == {1}


async def begin(on: Stage, number: int, *, after: bool) -> FlashJob:
    """Makes a job for a device that nobody knows yet."""
    # Devices are remembered where they are: those of the two sides are on one server.
    endpoint = f"203.0.113.{number + 1}" if after else f"198.51.100.{number + 1}"
    return await on.job(f"job-{number}", await discovered(on, endpoint, number))


async def until_over(on: Stage, job: Key, when: str, mortal: Mortal | None = None) -> None:
    """Waits until the job is over, or the operator dead."""

    async def over() -> bool:
        return (mortal is not None and mortal.died.is_set()) or await is_over(on, job)

    await wait_until_async(over, what=f"{job} is over, {when}", interval=0.05)


async def as_it_must_be(on: Stage, job: FlashJob) -> None:
    """Checks that a job has flashed its device once an attempt, and says so."""
    status = (await on.client.of(FlashJob).get(job.key)).status
    assert (status.phase, status.completed_uuids) == (FlashJobPhase.COMPLETED, tuple(job.spec.uuids))
    (shown,) = status.devices
    device = await on.status(shown.device)
    (record,) = device.records
    assert (record.outcome, record.attempts, record.digest) == (Outcome.SUCCEEDED, len(ATTEMPTS), GOOD.digest)
    assert device.instances == tuple(job.spec.uuids)
    assert [pod.metadata.annotations["edgewright.dev/attempt"] for pod in on.node.ran] == ATTEMPTS
