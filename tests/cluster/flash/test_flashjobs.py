"""The loop over FlashJobs on both API servers: published samples, bad input, what is shown, and how large it gets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edgewright.api import CUSTOM_KINDS, FlashJob, custom_resource_definition
from edgewright.api.device import Device, FlashRecord
from edgewright.api.flash_pod import Outcome
from edgewright.api.flashjob import MAX_DEVICES, DeviceState
from edgewright.api.manifests import render
from edgewright.controllers.flashjob.context import Context
from edgewright.controllers.flashjob.job_loop import add_jobs
from edgewright.controllers.flashjob.legacy.takeover import Takeover
from edgewright.controllers.flashjob.progress import DeviceStanding
from edgewright.controllers.flashjob.status import status_of
from edgewright.controllers.settings import Settings
from edgewright.runtime import Client, Manager, config
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.objects import Key, ObjectMeta, RawObject
from tests.harness import ApiServer
from tests.unit.controllers.flashjob.jobs_stage import QUICK, Flashing, condition, device, eventually, flash_job
from tests.unit.runtime.fakeserver import running

SAMPLES = sorted((Path(__file__).parents[3] / "config" / "samples").rglob("*flashjob*.yaml"))


@pytest.fixture(scope="module", autouse=True)
def our_kinds(api_server: ApiServer) -> None:
    """Our CRDs as they follow from the structs, served."""
    for kind in CUSTOM_KINDS:
        crd = render(custom_resource_definition(kind))
        api_server.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", input=crd)
        api_server.until_served(kind.kind.resource)


@pytest.fixture
def devices(api_server: ApiServer) -> Iterator[Callable[..., RawObject]]:
    """Makes Devices, which have no namespace; they go afterwards."""
    made: list[str] = []

    def make(name: str, **spec: Any) -> RawObject:
        made.append(name)
        created: RawObject = api_server.request("POST", Device.kind.path(), device(name, **spec))
        return created

    yield make
    for name in made:
        api_server.request("DELETE", Device.kind.path(name=name))


class Operating(Flashing):
    """The loop at work in one namespace, and a look at what it shows."""

    def __init__(self, api_server: ApiServer, namespace: str) -> None:
        super().__init__()
        self.api_server = api_server
        self.namespace = namespace

    async def make(self, name: str, *uuids: str, **spec: Any) -> None:
        """Makes a FlashJob."""
        body = flash_job(name, *uuids, **spec)
        body["metadata"]["namespace"] = self.namespace
        await asyncio.to_thread(self.api_server.request, "POST", FlashJob.kind.path(self.namespace), body)

    async def job(self, name: str) -> RawObject:
        """A FlashJob as the server has it."""
        path = FlashJob.kind.path(self.namespace, name)
        found: RawObject = await asyncio.to_thread(self.api_server.request, "GET", path)
        return found

    async def shown(self, name: str, holds: Callable[[RawObject], object]) -> RawObject:
        """The status of a job, as soon as something holds for it."""

        async def look() -> RawObject | None:
            status = (await self.job(name)).get("status", {})
            try:
                return status if holds(status) else None
            except (KeyError, IndexError, StopIteration):
                return None

        return await eventually(look, seconds=60)


@asynccontextmanager
async def operating(api_server: ApiServer, namespace: str) -> AsyncIterator[Operating]:
    """Runs the loop, and somebody who ends what it claims."""
    clock = SystemClock()
    manager = Manager(Client(config.load(kubeconfig=api_server.kubeconfig)), namespaces=[namespace], clock=clock)
    context = Context(manager, Settings(timing=QUICK), clock)
    add_jobs(manager, context, Takeover(context))
    operator = Operating(api_server, namespace)
    async with running(manager.run()), running(operator.flash(context)):
        try:
            yield operator
        finally:
            manager.stop()


def tls_secret(api_server: ApiServer, namespace: str) -> None:
    """The Secret that flash Pods of devices that dial back need."""
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ota-agent-tls"}}
    body = {**secret, "stringData": {"tls.crt": "c", "tls.key": "k"}}
    api_server.request("POST", f"/api/v1/namespaces/{namespace}/secrets", body)


async def test_a_job_runs_to_its_end_and_the_list_says_so(
    api_server: ApiServer, namespace: str, devices: Callable[..., RawObject]
) -> None:
    tls_secret(api_server, namespace)
    names = [f"{namespace}-{number}" for number in range(5)]
    for name in names:
        devices(name)
    async with operating(api_server, namespace) as operator:
        operator.outcomes[names[4]] = FlashRecord(outcome=Outcome.REVERTED, message="it went back")
        await operator.make("job", *names, maxConcurrent=2)
        status = await operator.shown("job", lambda status: status["phase"] == "Failed")
    assert status["completedUUIDs"] == names[:4]
    assert operator.flashed == dict.fromkeys(names, 1)
    assert operator.most <= 2
    headings, line = api_server.kubectl("get", "flashjobs", "-n", namespace).stdout.splitlines()
    assert headings.split() == ["NAME", "PHASE", "DONE", "FAILED", "VERSION", "AGE"]
    assert line.split()[:5] == ["job", "Failed", "4/5", "1", "1.0.0"]


async def test_a_wiped_status_and_a_restart_flash_nothing(
    api_server: ApiServer, namespace: str, devices: Callable[..., RawObject]
) -> None:
    tls_secret(api_server, namespace)
    devices(namespace)
    async with operating(api_server, namespace) as operator:
        await operator.make("a", namespace, version="1.0.0")
        await operator.shown("a", lambda status: status["phase"] == "Completed")
        second = FlashRecord(outcome=Outcome.SUCCEEDED, version="2.0.0", digest="sha256:" + "b" * 64)
        operator.outcomes[namespace] = second
        await operator.make("b", namespace, version="2.0.0")
        await operator.shown("b", lambda status: status["phase"] == "Completed")
        before = await operator.shown("a", lambda status: status["devices"][0]["superseded"])
    patch = ("--subresource=status", "--type=json", "-p", '[{"op": "remove", "path": "/status"}]')
    api_server.kubectl("patch", "flashjob", "a", "-n", namespace, *patch)
    async with operating(api_server, namespace) as operator:
        after = await operator.shown("a", lambda status: status["phase"] == "Completed")
        assert (after["devices"], after["completionTime"]) == (before["devices"], before["completionTime"])
        assert not operator.flashed


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
async def test_a_published_sample_is_accepted_as_it_is(api_server: ApiServer, path: Path) -> None:
    api_server.kubectl("apply", "-f", str(path))
    try:
        async with operating(api_server, "default") as operator:
            status = await operator.shown("flashjob", lambda status: status["phase"])
            assert condition(status, "Accepted")["status"] == "True"
            assert {each["message"] for each in status["devices"]} == {"waiting to be discovered"}
            stored = await operator.job("flashjob")
            assert stored["metadata"]["generation"] == 1
            assert "finalizers" not in stored["metadata"]
    finally:
        await asyncio.to_thread(api_server.kubectl, "delete", "flashjobs", "--all", "-n", "default")


@pytest.mark.parametrize(
    ("spec", "reason", "field"),
    [
        ({"firmware": "fsdsdsd"}, "InvalidFirmware", "spec.firmware"),
        ({"uuid": ["a", "a"]}, "DuplicateDevices", "spec.uuid"),
        ({"uuid": ["a", "b"], "hostEndpoint": "192.0.2.1"}, "InvalidEndpoint", "spec.hostEndpoint"),
        ({"hostEndpoint": "127.0.0.1"}, "InvalidEndpoint", "spec.hostEndpoint"),
        ({"hostEndpoint": "169.254.1.1"}, "InvalidEndpoint", "spec.hostEndpoint"),
        ({"hostEndpoint": "no address"}, "InvalidEndpoint", "spec.hostEndpoint"),
        ({"externalIP": "somewhere"}, "InvalidAddress", "spec.externalIP"),
        (
            {"podTemplate": {"securityContext": {"privileged": True}}},
            "SecurityContextLoosened",
            "spec.podTemplate.securityContext.privileged",
        ),
        ({"firmwarePullSecret": "nowhere"}, "SecretMissing", "spec.firmwarePullSecret"),
        ({}, "SecretMissing", "spec.tlsSecretName"),
    ],
    ids=[
        "firmware",
        "duplicates",
        "one endpoint for two",
        "loopback",
        "link-local",
        "no address",
        "external address",
        "security context",
        "pull secret",
        "no key",
    ],
)
async def test_bad_input_is_a_condition_with_the_field_and_nothing_is_left(
    api_server: ApiServer,
    namespace: str,
    devices: Callable[..., RawObject],
    spec: dict[str, Any],
    reason: str,
    field: str,
) -> None:
    if "firmwarePullSecret" in spec:
        tls_secret(api_server, namespace)
    devices(namespace)
    async with operating(api_server, namespace) as operator:
        await operator.make("job", namespace, **spec)
        status = await operator.shown("job", lambda status: condition(status, "Accepted")["status"] == "False")
        said = condition(status, "Accepted")
        assert (said["reason"], said["message"].partition(":")[0]) == (reason, field)
        assert "finalizers" not in (await operator.job("job"))["metadata"]
    assert "claim" not in api_server.request("GET", Device.kind.path(name=namespace)).get("status", {})
    assert not operator.flashed


async def test_a_job_of_five_thousand_devices_stays_under_a_mebibyte(api_server: ApiServer, namespace: str) -> None:
    uuids = [f"d95c7c2d-7dc5-427b-9bf7-{number:012}" for number in range(MAX_DEVICES)]
    body = flash_job("job", *uuids)
    body["metadata"]["namespace"] = namespace
    await asyncio.to_thread(api_server.kubectl, "apply", "-f", "-", input=json.dumps(body))
    now = datetime.now(UTC).replace(microsecond=0)
    async with Client(config.load(kubeconfig=api_server.kubeconfig)) as client:
        api = client.of(FlashJob)
        for done in (0, 2500, MAX_DEVICES):
            job = await api.get(Key(namespace, "job"))
            standings = [_standing(uuid, done=number < done, now=now) for number, uuid in enumerate(uuids)]
            await api.write_status(job, status_of(job, standings, observed=now, now=now))
        stored = await client.get_path(FlashJob.kind.path(namespace, "job"))
    shown = msgspec.json.decode(stored)
    assert shown["metadata"]["managedFields"]
    assert len(shown["status"]["completedUUIDs"]) == MAX_DEVICES
    assert (len(shown["status"]["devices"]), shown["status"]["devicesOmitted"]) == (500, 4500)
    assert len(stored) < 1 << 20


def _standing(uuid: str, *, done: bool, now: datetime) -> DeviceStanding:
    return DeviceStanding(
        uuid=uuid,
        state=DeviceState.DONE if done else DeviceState.WAITING,
        device=Device(metadata=ObjectMeta(name=f"esp32s3-{uuid}")),
        record=FlashRecord(outcome=Outcome.SUCCEEDED, version="1.0.0", attempts=1, time=now) if done else None,
        outcome=Outcome.SUCCEEDED if done else "",
        message="flashed and proven: it reports version 1.0.0 after a reboot" if done else "waiting for a free slot",
        time=now,
    )
