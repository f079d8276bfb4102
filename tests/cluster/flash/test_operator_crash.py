"""The whole operator dies before or after any of its writes, in turn: the next one brings the job to the same end."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

import pytest

from edgewright.api import Device, FlashJob, FlashJobPhase, Instance, InstanceSpec, Pod
from edgewright.api.flashing import Outcome, Report
from edgewright.api.flashjob import TLS_SECRET
from edgewright.api.instance import instance_crd
from edgewright.controllers.operator import add_all
from edgewright.controllers.settings import Settings, Timing
from edgewright.runtime import Client, Config, Key, Kind, Manager, ObjectMeta
from edgewright.runtime.definitions import install
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.flashjob.harness import GOOD, Mortal, Stage, plane, stage
from tests.unit.runtime.fakeserver import running

SETTINGS = Settings(
    timing=Timing(status_every=0.02, first_backoff=0.02, longest_backoff=0.1, start_grace=5.0, grace=1, recheck=0.1)
)
SECRET = Kind(group="", version="v1", kind="Secret", plural="secrets")
CUT = Report(outcome=Outcome.FAILED, message="the transfer broke off", written=True)
ATTEMPTS = ["1", "2"]
LEAST_WRITES = 20
"""Of the inventory 2, for each attempt Service, Pod, what came of it and three to clean up, 2 claims, 4 of the job."""


def at_first_cut(pod: Pod) -> Report:
    """The first attempt fails, all others go well."""
    return CUT if pod.metadata.annotations["edgewright.dev/attempt"] == "1" else GOOD


@asynccontextmanager
async def operator(config: Config, *, at: int = 0, after: bool = False) -> AsyncIterator[Mortal]:
    """A process of the operator with all its controllers; it dies at its write number `at`, where there is one."""
    manager = Manager(Client(config))
    mortal = Mortal(manager.client, at=at, after=after)
    add_all(manager, SETTINGS)
    async with running(manager.run()):
        yield mortal


async def discovered(on: Stage, number: int) -> str:
    """Makes the Instance of a device that nobody knows yet, as Akri does; its uid."""
    properties = {"HOST_ENDPOINT": f"192.0.2.{number}", "DEVICE": "esp32", "APPLICATION_TYPE": "lamp", "VERSION": "1.0"}
    spec = InstanceSpec(
        configuration_name="lamps", cdi_name="akri.sh/lamps", capacity=1, nodes=("edge",), broker_properties=properties
    )
    made = Instance(metadata=ObjectMeta(name=f"lamps-{number}", namespace=on.namespace), spec=spec)
    return (await on.client.of(Instance).create(made)).metadata.uid


async def is_over(on: Stage, job: Key) -> bool:
    """Whether the job has ended and nothing that was made for it is left."""
    found = await on.client.of(FlashJob).get(job)
    if found.status.completion_time is None or found.metadata.finalizers:
        return False
    claims = [device.status.claim for device in (await on.client.of(Device).list()).items]
    return not (any(claims) or await on.pods() or await on.services())


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_crash_at_any_write_of_the_operator_changes_nothing(tmp_path: Path, after: bool) -> None:
    async with plane(tmp_path) as config, stage(config, ending=at_first_cut) as on:
        await install(on.client, instance_crd())
        secret = {
            "metadata": {"name": TLS_SECRET, "namespace": on.namespace},
            "stringData": {"tls.crt": "a", "tls.key": "b"},
        }
        await on.client.raw(SECRET).create({"apiVersion": "v1", "kind": "Secret", **secret})
        for at in count(1):
            on.node.ran.clear()
            job = await on.job(f"job-{at}", await discovered(on, at))

            async def over(key: Key = job.key) -> bool:
                return await is_over(on, key)

            async with operator(config, at=at, after=after) as mortal:

                async def over_or_dead(mortal: Mortal = mortal) -> bool:
                    return mortal.died.is_set() or await over()

                await wait_until_async(over_or_dead, what=f"the operator died at write {at}", interval=0.05)
            async with operator(config):
                await wait_until_async(over, what=f"{job.key} is over, after a death at write {at}", interval=0.05)
            await as_it_must_be(on, job)
            if not mortal.died.is_set():
                break
        assert at > LEAST_WRITES
        assert set(on.node.most_pods.values()) == {1}


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
