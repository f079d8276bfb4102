"""A revocation at two replicas of the gateway, on both API servers: void within 5 seconds, also for who waits for news.

The time is that from the acknowledged write until the device was refused.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import aiohttp

from edgewright.api.edge_protocol import PREFIX
from edgewright.api.edgedevicesignedrequest import EdgeDeviceSignedRequest
from edgewright.runtime.client import Client
from tests.cluster.edge.edge_stage import device_of, free_port, gateway_program, install, until_listening
from tests.cluster.edge.test_edge_access import typed
from tests.cluster.edge.test_edge_scenarios import release
from tests.cluster.support import connected, eventually
from tests.harness import ApiServer
from tests.unit.gateway.stage import Device

LIMIT = 5.0
BEAT = b'{"type":"data","message_id":"1","directive":"heartbeat","content":{"status":"up"}}'


@dataclass
class Replica:
    """One gateway: where devices dial in, and where its metrics are."""

    port: int
    metrics: int

    async def waiting(self) -> int:
        """How many devices wait for news at it."""
        async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{self.metrics}/metrics") as found:
            shown = re.search(r"^edgewright_gateway_waiting (\d+)", await found.text(), flags=re.MULTILINE)
        return int(shown[1]) if shown else 0


@dataclass
class Stage:
    client: Client
    replicas: list[Replica]
    devices: list[Device]


@asynccontextmanager
async def staged(server: ApiServer, namespace: str, directory: Path, *names: str) -> AsyncIterator[Stage]:
    await asyncio.to_thread(install, server)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(asyncio.to_thread, release, server, namespace)
        replicas = []
        for number in range(2):
            own = directory / f"gateway-{number}"
            own.mkdir()
            metrics = free_port()
            program, port = gateway_program(server, namespace, own, "--metrics-port", str(metrics))
            program.start()
            stack.callback(program.stop)
            await until_listening(port)
            replicas.append(Replica(port, metrics))
        client = await stack.enter_async_context(connected(server))
        devices = [await device_of(directory, client, namespace, replicas[0].port, name) for name in names]
        for device in devices:
            assert (await device.register()).code == 200
        yield Stage(client, replicas, devices)


async def refused_at(device: Device, replica: Replica) -> float:
    """When the next heartbeat is refused, on a connection that was open before; by the monotonic clock."""
    url = f"https://127.0.0.1:{replica.port}{PREFIX}/data/{device.name}/out"
    headers = {"Content-Type": "application/json"}
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=device.tls(), limit=1)) as session:

        async def refused() -> bool:
            async with session.post(url, data=BEAT, headers=headers) as answer:
                assert answer.status in {200, 403}
                assert await answer.read() == b""
                return answer.status == 403

        assert not await refused()
        await eventually(refused, what=f"{device.name} is refused")
        return time.monotonic()


async def let_go_at(device: Device, replica: Replica) -> float:
    """When a question that waits for news is refused."""
    url = f"https://127.0.0.1:{replica.port}{PREFIX}/data/{device.name}/in"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=device.tls())) as session:
        async with session.get(url) as answer:
            tag = answer.headers["ETag"]
        async with session.get(url, headers={"If-None-Match": tag, "Prefer": "wait=300"}) as answer:
            assert (answer.status, await answer.read()) == (403, b"")
            return time.monotonic()


@asynccontextmanager
async def revoking(stage: Stage, device: Device) -> AsyncIterator[list[float]]:
    """The device asks both replicas while the block revokes it; gives when each refused it."""
    tasks = [
        asyncio.create_task(asked(device, replica)) for asked in (refused_at, let_go_at) for replica in stage.replicas
    ]

    async def all_wait() -> bool:
        return [await each.waiting() for each in stage.replicas] == [1, 1]

    times: list[float] = []
    try:
        await eventually(all_wait, what="a question waits at each replica")
        yield times
        times += await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_revocation_counts_within_5_seconds_at_every_replica_also_for_who_waits(
    api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    async with staged(api_server, namespace, tmp_path, "written", "typed") as stage:
        written, by_command = stage.devices
        record = {
            "apiVersion": EdgeDeviceSignedRequest.kind.api_version,
            "kind": EdgeDeviceSignedRequest.kind.kind,
            "metadata": {"name": written.name, "namespace": namespace},
            "spec": {"targetNamespace": namespace, "revokedBefore": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"},
        }
        async with revoking(stage, written) as times:
            await stage.client.raw(EdgeDeviceSignedRequest.kind).create(record)
            acknowledged = time.monotonic()
        print("refused after", [round(each - acknowledged, 3) for each in times])
        assert max(times) - acknowledged <= LIMIT
        # The command's write is acknowledged a moment before the command ends.
        async with revoking(stage, by_command) as times:
            code, said = await typed(api_server.kubeconfig, namespace, "revoke", by_command.name)
            ended = time.monotonic()
        assert (code, "are void" in said) == (0, True)
        print("refused after", [round(each - ended, 3) for each in times])
        assert max(times) - ended <= LIMIT
        for replica in stage.replicas:
            for device in stage.devices:
                device.port = replica.port
                assert (await device.post("registration", device.registration())).code == 403
                assert (await device.control()).code == 403
