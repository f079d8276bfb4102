"""The agent dies before one of its writes while the real gateway and operator serve it, and comes to the same end.

They run on an embedded API server in this process, the agent is a process of its own. `test_crash` goes through every
write at a gateway that answers from memory; here it is the whole way from the EdgeWorkload to its status.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edgewright.api.capabilities import EDGE
from edgewright.api.edgedevice import EdgeDevice
from edgewright.api.edgeworkload import EdgeWorkload
from edgewright.controllers.operator import add_controllers
from edgewright.gateway.certificates import Issued
from edgewright.gateway.gateway import Gateway
from edgewright.gateway.objects import ConfigMap, Secret
from edgewright.runtime.client import Client
from edgewright.runtime.errors import NotFound
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key
from tests.harness import repetition
from tests.harness.waiting import wait_until_async
from tests.unit.agent import mortal_agent
from tests.unit.containers.fake_podman import FakePodman
from tests.unit.controllers.flashjob.harness import plane
from tests.unit.gateway.stage import NAMESPACE, gateway_of, registration_of, secret
from tests.unit.gateway.test_workflows import QUICK
from tests.unit.runtime.fakeserver import running

ID = "dev-1"
KEY = Key(NAMESPACE, ID)
FORK = multiprocessing.get_context("forkserver")
FORK.set_forkserver_preload(["tests.unit.agent.mortal_agent"])
WRITES = 18
"""So many writes an agent has at least until it is settled: `test_crash` counts them."""
PLACE = {"BUCKET_HOST": "h", "BUCKET_PORT": "1", "BUCKET_NAME": "b"}
SETTINGS = {
    "heartbeat": {"periodSeconds": 1},
    "storage": {"s3": {"secretName": "keys", "configMapName": "place"}},
}


class Stage:
    """What outlives the agents: API server, gateway, operator and podman."""

    def __init__(self, client: Client, podman: FakePodman, folder: Path, config: Path) -> None:
        self.client, self.podman, self.config = client, podman, config
        self.state = config.parent / "state"
        self.bucket = folder / "bucket"
        self.bucket.mkdir()

    async def object(self) -> EdgeDevice | None:
        """The EdgeDevice, once registration has created it."""
        try:
            return await self.client.of(EdgeDevice).get(KEY)
        except NotFound:
            return None

    async def settled(self) -> bool:
        """Whether the device runs what it must, its data is in the bucket, and the API server knows."""
        found = await self.object()
        if found is None:
            return False
        phases = {each.name: each.phase for each in found.status.workloads}
        ledgers = "".join(path.read_text() for path in (self.state / "uploads").glob("[!.]*.json"))
        return (
            phases == {"a": "Running", "b": "Running"}
            and (self.bucket / "a_one").exists()
            and '"a/one"' in ledgers
            and {path.stem for path in (self.state / "versions").glob("[!.]*.json")} == {"a", "b"}
        )

    async def run(self, last: int) -> bool:
        """Runs an agent until it dies before its Nth write (False) or all is settled (True)."""
        process = FORK.Process(target=mortal_agent.run, args=(str(self.config), last, str(self.bucket)), daemon=True)
        process.start()

        async def over() -> bool:
            return not process.is_alive() or await self.settled()

        try:
            await wait_until_async(over, what=f"death {last}, or the end", timeout=180)
            return process.is_alive()
        finally:
            process.kill()
            await asyncio.to_thread(process.join)


def write_config(folder: Path, certificates: tuple[Issued, Issued], gateway: Gateway, podman: FakePodman) -> Path:
    """The settings of an agent with the registration certificate, as a bundle holds them."""
    ca, registration = certificates
    folder.mkdir()
    (folder / "ca.pem").write_bytes(ca.certificate)
    (folder / "cert.pem").write_bytes(registration.certificate)
    (folder / "key.pem").write_bytes(registration.key)
    settings: dict[str, Any] = {
        "server": f"127.0.0.1:{gateway.port}",
        "client-id": ID,
        "cert-file": "cert.pem",
        "key-file": "key.pem",
        "ca-root": [str(folder / "ca.pem")],
        "state-dir": "state",
        "poll-seconds": 0.3,
        "long-poll-seconds": 0,
        "data-seconds": 0.3,
        "podman-socket": str(podman.socket),
        "firewall": "none",
        "probation-seconds": 0.2,
    }
    config = folder / "config.toml"
    config.write_text("".join(f"{name} = {msgspec.json.encode(value).decode()}\n" for name, value in settings.items()))
    return config


def workload(name: str, **more: Any) -> dict[str, Any]:
    containers = [{"name": "main", "image": "docker.io/library/busybox"}]
    return {
        "apiVersion": EdgeWorkload.kind.api_version,
        "kind": "EdgeWorkload",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"type": "pod", "device": ID, "pod": {"spec": {"containers": containers}}, **more},
    }


@asynccontextmanager
async def staged() -> AsyncIterator[Stage]:
    memory = Path("/dev/shm")  # a kill loses nothing that was written, so no disk is the subject here
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        folder = Path(name)
        async with AsyncExitStack() as stack:
            config = await stack.enter_async_context(plane(folder / "api"))
            client = await stack.enter_async_context(Client(config))
            gateway = await stack.enter_async_context(gateway_of(config))
            manager = Manager(Client(config))
            add_controllers(manager, QUICK, capabilities=[EDGE])
            await stack.enter_async_context(running(manager.run()))
            podman = await stack.enter_async_context(FakePodman())
            place = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "place", "namespace": NAMESPACE}}
            await client.raw(ConfigMap.kind).create(place | {"data": PLACE})
            keys = secret("keys", AWS_ACCESS_KEY_ID="id", AWS_SECRET_ACCESS_KEY="words")
            await client.raw(Secret.kind).create(keys)
            certificates = await registration_of(client)
            yield Stage(client, podman, folder, write_config(folder / "agent", certificates, gateway, podman))


@pytest.mark.repeated
@pytest.mark.parametrize("seed", repetition.numbers(3, 20))
async def test_an_agent_killed_while_the_real_gateway_serves_it_comes_to_the_same_end(seed: int) -> None:
    last = random.Random(seed).randint(1, WRITES)
    async with staged() as on:
        volume = on.state / "volumes" / "a" / "out"
        volume.mkdir(parents=True)
        (volume / "one").write_text("1")
        await on.client.raw(EdgeWorkload.kind).create(
            workload("a", data={"egress": [{"source": "out", "target": "a"}]})
        )
        await on.client.raw(EdgeWorkload.kind).create(workload("b"))

        async def configured() -> None:
            await wait_until_async(on.object, what="the device is registered", timeout=180)
            await on.client.of(EdgeDevice).patch(KEY, {"spec": SETTINGS})

        configuring = asyncio.create_task(configured())
        assert not await on.run(last), f"it died before write {last}"
        assert set(on.podman.pods) <= {"a", "b"}
        assert await on.run(0)
        await configuring
        assert set(on.podman.pods) == {"a", "b"}
        assert on.podman.asked.count("POST play/kube") == 2, "each workload was started once"
        assert [each.metadata.name for each in (await on.client.of(EdgeDevice).list(NAMESPACE)).items] == [ID]
        assert [path.name for path in on.state.rglob(".*") if path.is_file()] == []
