"""Simulated agents while gateways, operator and API server fail at random moments: the end is that of no failure.

Two gateways, an operator and an embedded API server run in this process, and workloads change meanwhile. In the end
every agent has each workload once in its newest version, and every status says so.
"""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from edgewright.api.capabilities import EDGE
from edgewright.api.edgedevice import EdgeDevice
from edgewright.api.edgeworkload import EdgeWorkload
from edgewright.controllers.operator import add_controllers
from edgewright.devices.simulated.edge_agents import EdgeAgent
from edgewright.gateway.gateway import Gateway
from edgewright.runtime.client import Client
from edgewright.runtime.config import Config
from edgewright.runtime.errors import AlreadyExists, NotFound
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key
from tests.harness import repetition
from tests.harness.proxy import Proxy
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.flashjob.harness import Mortal, plane
from tests.unit.gateway.stage import NAMESPACE, settings
from tests.unit.gateway.test_many_agents import agents_of
from tests.unit.gateway.test_replicas import QUICK
from tests.unit.runtime.fakeserver import running

AGENTS = 2
"""At each gateway."""
STEPS = 8
NAMES = ("one", "two", "three")


class Replica:
    """A gateway that can be killed; the next one listens where it did."""

    def __init__(self, config: Config, name: str) -> None:
        self._config, self._name = config, name
        self._stack = AsyncExitStack()
        self._port = 0

    async def start(self) -> None:
        """Starts it; what the one before it had in memory is gone."""
        self.gateway = Gateway(Client(self._config), settings(port=self._port, heard_every=0.2, replica=self._name))
        self._mortal = Mortal(self.gateway.manager.client)
        await self._stack.enter_async_context(self.gateway.serving())
        self._port = self.gateway.port

    async def lose(self, seconds: float) -> None:
        """Kills it, so that it answers and writes nothing more, and starts it again after so long."""
        self._mortal.died.set()
        self.gateway.heard.write = _nothing  # type: ignore[method-assign]
        assert self.gateway._listener is not None
        for each in self.gateway._listener._http.connections:
            if each.transport is not None:
                each.transport.abort()
        await self._stack.aclose()
        await asyncio.sleep(seconds)
        await self.start()

    async def close(self) -> None:
        """Ends it."""
        await self._stack.aclose()


async def _nothing() -> None:
    return


class Site:
    """What runs, and what may fail."""

    def __init__(self, client: Client, config: Config, proxy: Proxy, replicas: list[Replica]) -> None:
        self.client, self._config, self._proxy, self.replicas = client, config, proxy, replicas
        self.wanted: dict[str, str] = {}
        """The image of each workload that there is."""
        self.lose_gateway = [each.lose for each in replicas]
        self._operator = AsyncExitStack()

    async def start_operator(self) -> None:
        """Starts it; one that was killed is another process and remembers nothing."""
        manager = Manager(Client(self._config))
        add_controllers(manager, QUICK, capabilities=[EDGE])
        await self._operator.enter_async_context(running(manager.run()))

    async def stop_operator(self) -> None:
        """Ends it wherever it is."""
        await self._operator.aclose()

    async def write(self, name: str, image: str) -> None:
        """Makes a workload, or its next version."""
        self.wanted[name] = image
        pod = {"spec": {"containers": [{"name": "a", "image": image}]}}
        body = {
            "apiVersion": EdgeWorkload.kind.api_version,
            "kind": "EdgeWorkload",
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"type": "pod", "deviceSelector": {}, "pod": pod},
        }

        async def written() -> bool:
            try:
                await self.client.raw(EdgeWorkload.kind).create(body)
            except AlreadyExists:
                try:
                    found = await self.client.of(EdgeWorkload).patch(Key(NAMESPACE, name), {"spec": {"pod": pod}})
                except NotFound:
                    return False
                return not found.deleting  # one that goes comes back as another
            return True

        await wait_until_async(written, what=f"workload {name} is written")

    async def remove(self, name: str) -> None:
        """Deletes a workload, where there is one."""
        if self.wanted.pop(name, None) is not None:
            await self.client.of(EdgeWorkload).delete(Key(NAMESPACE, name))

    async def lose_api_server(self, seconds: float) -> None:
        """The API server is away for so long."""
        self._proxy.refuse()
        self._proxy.cut()
        await asyncio.sleep(seconds)
        self._proxy.accept()

    async def lose_operator(self, seconds: float) -> None:
        """The operator is away for so long."""
        await self.stop_operator()
        await asyncio.sleep(seconds)
        await self.start_operator()


@asynccontextmanager
async def sited(directory: Path) -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        direct = await stack.enter_async_context(plane(directory))
        client = await stack.enter_async_context(Client(direct))
        host, _, port = direct.server.removeprefix("https://").rpartition(":")
        proxy = stack.enter_context(Proxy(host, int(port)))
        config = dataclasses.replace(direct, server=proxy.url)
        replicas = [Replica(config, f"g{number}") for number in range(2)]
        for each in replicas:
            await each.start()
            stack.push_async_callback(each.close)
        made = Site(client, config, proxy, replicas)
        await made.start_operator()
        stack.push_async_callback(made.stop_operator)
        yield made


@pytest.mark.repeated
@pytest.mark.parametrize("seed", repetition.numbers(3, 500))
async def test_whatever_fails_no_workload_is_lost_or_doubled_and_no_status_is_wrong(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgewright.devices.simulated.edge_agents._RETRY", 0.1)
    chance = random.Random(seed)
    async with sited(tmp_path) as site, AsyncExitStack() as stack:
        agents: list[EdgeAgent] = []
        for number, replica in enumerate(site.replicas):
            fleet = agents_of(site.client, replica.gateway, AGENTS, prefix=f"of-{number}")
            agents += (await stack.enter_async_context(fleet))[0]
        for step in range(STEPS):
            name, seconds = chance.choice(NAMES), chance.uniform(0.0, 0.3)
            fault = chance.choice([site.lose_api_server, *site.lose_gateway, site.lose_operator])
            change = site.remove(name) if chance.random() < 0.3 else site.write(name, f"image-{step}")
            await asyncio.gather(fault(seconds), change)

        async def as_if_nothing_had_failed() -> bool:
            return await faults(site, agents) == []

        try:
            await wait_until_async(as_if_nothing_had_failed, what="all is as it must be", timeout=120)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}: {await faults(site, agents)}") from None


async def faults(site: Site, agents: list[EdgeAgent]) -> list[str]:
    """What is not as it must be: what an agent has, what its EdgeDevice says, and what the workloads say."""
    found = []
    for agent in agents:
        images = {name: text.partition("image: ")[2].split()[0] for name, text in agent.specifications.items()}
        if images != site.wanted:
            found.append(f"{agent.name} has {images}, not {site.wanted}")
    devices = (await site.client.of(EdgeDevice).list(NAMESPACE)).items
    if sorted(each.metadata.name for each in devices) != sorted(each.name for each in agents):
        found.append(f"there are {[each.metadata.name for each in devices]}")
    for device in devices:
        phases = [(each.name, each.phase) for each in device.status.workloads]
        if sorted(phases) != sorted((name, "Running") for name in site.wanted):
            found.append(f"{device.metadata.name} says {phases}, not {site.wanted}")
        wrong = [each.type for each in device.status.conditions if each.status != "True"]
        if wrong:
            found.append(f"{device.metadata.name} is not {wrong}")
    everywhere = f"{len(agents)}/{len(agents)}"
    workloads = (await site.client.of(EdgeWorkload).list(NAMESPACE)).items
    told = {each.metadata.name: each.status.progress for each in workloads}
    if told != dict.fromkeys(site.wanted, everywhere):
        found.append(f"workloads are at {told}")
    return found
