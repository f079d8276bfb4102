"""A changed workload reaches simulated agents batch by batch: gateway and operator, on an API server of ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from edgewright.api.capabilities import EDGE
from edgewright.api.edgedevice import EdgeDevice
from edgewright.api.edgeworkload import EdgeWorkload
from edgewright.api.edgeworkloadrevision import EdgeWorkloadRevision
from edgewright.controllers.operator import add_controllers
from edgewright.controllers.settings import Settings, Timing
from edgewright.devices.simulated.edge_agents import EdgeAgent
from edgewright.gateway.gateway import Gateway
from edgewright.runtime.client import Client
from edgewright.runtime.config import Config
from edgewright.runtime.errors import Conflict
from edgewright.runtime.events import Event
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.flashjob.harness import Mortal, plane
from tests.unit.gateway.stage import NAMESPACE, devices_of, gateway_of
from tests.unit.gateway.test_many_agents import agents_of
from tests.unit.runtime.fakeserver import running

KEY = Key(NAMESPACE, "shop")
CANARY = {"name": "canary", "size": 1, "soakSeconds": 0}
HALF = {"name": "half", "size": "50%", "soakSeconds": 0}
REST = {"name": "everybody", "soakSeconds": 0}
QUICK = Settings(timing=Timing(recheck=0.2))


def spec_of(image: str, **rollout: Any) -> dict[str, Any]:
    """The spec of the workload, in this version."""
    return {
        "type": "pod",
        "deviceSelector": {},
        "pod": {"spec": {"containers": [{"name": "a", "image": image}]}},
        "rollout": {"batches": [CANARY, HALF, REST], **rollout},
    }


@asynccontextmanager
async def operator(config: Config, *, at: int = 0, after: bool = False) -> AsyncIterator[Mortal]:
    """One process of the operator; it dies at its write number `at`."""
    manager = Manager(Client(config))
    mortal = Mortal(manager.client, at=at, after=after)
    add_controllers(manager, QUICK, capabilities=[EDGE])
    async with running(manager.run()):
        yield mortal


@dataclass
class Stage:
    """What runs."""

    config: Config
    client: Client
    gateway: Gateway
    agents: list[EdgeAgent]

    async def create(self, image: str, **rollout: Any) -> None:
        body = {
            "apiVersion": EdgeWorkload.kind.api_version,
            "kind": "EdgeWorkload",
            "metadata": {"name": KEY.name, "namespace": NAMESPACE},
            "spec": spec_of(image, **rollout),
        }
        await self.client.raw(EdgeWorkload.kind).create(body)

    async def change(self, image: str, **rollout: Any) -> None:
        await self.client.of(EdgeWorkload).patch(KEY, {"spec": spec_of(image, **rollout)})

    def having(self, image: str) -> int:
        """How many agents were sent this image last."""
        return sum(f"image: {image}\n" in each.specifications.get(KEY.name, "") for each in self.agents)

    async def until_having(self, image: str, count: int) -> None:
        await wait_until_async(lambda: self.having(image) == count, what=f"{count} agents have {image}", timeout=120)

    async def workload(self) -> EdgeWorkload:
        return await self.client.of(EdgeWorkload).get(KEY)

    async def until_phase(self, phase: str, number: int) -> str:
        """Waits until the rollout of this version is there; its message."""

        async def shown() -> str:
            rollout = (await self.workload()).status.rollout
            reached = rollout is not None and (rollout.phase, rollout.number) == (phase, number)
            return rollout.message if rollout is not None and reached else ""

        return await wait_until_async(shown, what=f"the rollout is {phase}", timeout=120)


@asynccontextmanager
async def staged(directory: Path, count: int, *, broken: str = "") -> AsyncIterator[Stage]:
    """A gateway and so many agents; the operator is the test's own."""
    async with AsyncExitStack() as stack:
        config = await stack.enter_async_context(plane(directory))
        client = await stack.enter_async_context(Client(config))
        gateway = await stack.enter_async_context(gateway_of(config))
        agents, _ = await stack.enter_async_context(agents_of(client, gateway, count, broken=broken))
        yield Stage(config, client, gateway, agents)


async def test_a_change_reaches_the_canary_then_half_then_everybody(tmp_path: Path) -> None:
    async with staged(tmp_path, 8) as stage, operator(stage.config):
        await stage.create("one")
        await stage.until_having("one", 8)
        await stage.until_phase("Completed", 1)
        await stage.change("two", batches=[CANARY | {"gate": {"approval": "manual"}}, HALF, REST])
        await stage.until_phase("Waiting", 2)
        assert (stage.having("two"), stage.having("one")) == (1, 7)
        await stage.change("two", batches=[CANARY, HALF, REST])
        await stage.until_having("two", 8)
        await stage.until_phase("Completed", 2)
        found = await stage.workload()
        ready = {each.type: (each.status, each.reason) for each in found.status.conditions}
        assert ready["RolledOut"] == ("True", "Completed")

        async def told() -> list[str]:
            events = (await stage.client.of(Event).list(NAMESPACE)).items
            opened = [each.message for each in events if each.reason == "BatchOpened"]
            return opened if len(opened) >= 3 else []

        opened = " ".join(await wait_until_async(told, what="each batch is told of"))
        assert "batch canary: version 2" in opened
        assert "batch half: version 2" in opened
        assert "goes to all the rest" in opened
        # Each device says which version it has applied, and older ones are forgotten.
        (kept,) = (await stage.client.of(EdgeWorkloadRevision).list(NAMESPACE)).items
        devices = (await stage.client.of(EdgeDevice).list(NAMESPACE)).items
        assert {each.revision for device in devices for each in device.status.workloads} == {kept.spec.hash}


async def test_a_version_that_fails_pauses_with_a_reason_until_somebody_goes_on_or_back(tmp_path: Path) -> None:
    async with staged(tmp_path, 6, broken="image: bad") as stage, operator(stage.config):
        await stage.create("one")
        await stage.until_having("one", 6)
        await stage.change("bad")
        message = await stage.until_phase("Paused", 2)
        assert "1 of 1 devices of batch canary failed" in message
        assert ": simulated failure" in message
        assert (stage.having("bad"), stage.having("one")) == (1, 5)

        async def warned() -> list[Event]:
            events = (await stage.client.of(Event).list(NAMESPACE)).items
            return [each for each in events if (each.type, each.reason) == ("Warning", "RolloutStopped")]

        (event, *_) = await wait_until_async(warned, what="an Event says why")
        assert "simulated failure" in event.message
        found = await stage.workload()
        conditions = {each.type: (each.status, each.reason) for each in found.status.conditions}
        assert conditions["RolledOut"] == ("False", "RolloutStopped")
        assert conditions["Stalled"] == ("True", "RolloutStopped")
        # Somebody accepts that: it goes on, and stops with the next batch.
        await stage.change("bad", resumeRequest="anyway")
        await stage.until_having("bad", 4)
        await stage.until_phase("Paused", 2)
        assert stage.having("one") == 2
        # The former version written back is everywhere at once.
        await stage.change("one", resumeRequest="anyway")
        await stage.until_having("one", 6)
        await stage.until_phase("Completed", 1)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_an_operator_that_dies_at_any_write_and_a_wiped_status_reach_the_same_end(
    tmp_path: Path, after: bool
) -> None:
    async with staged(tmp_path, 4) as stage:
        async with operator(stage.config):
            await stage.create("v0")
            await stage.until_phase("Completed", 1)
            await stage.until_having("v0", 4)
        for at in range(1, 7):
            await stage.change(f"v{at}")
            async with operator(stage.config, at=at, after=after) as mortal:
                # Writes may be fewer than that: then it has arrived instead.
                done = asyncio.create_task(stage.until_phase("Completed", at + 1))
                died = asyncio.create_task(mortal.died.wait())
                await asyncio.wait([done, died], return_when=asyncio.FIRST_COMPLETED)
                for task in (done, died):
                    task.cancel()
                await asyncio.gather(done, died, return_exceptions=True)
            await wipe(stage.client)
            async with operator(stage.config):
                await stage.until_having(f"v{at}", 4)
                await stage.until_phase("Completed", at + 1)
        numbers = [each.spec.number for each in (await stage.client.of(EdgeWorkloadRevision).list(NAMESPACE)).items]
        assert numbers == [7]


async def wipe(client: Client) -> None:
    """Empties the status of the workload and of every device."""
    for kind, keys in (
        (EdgeWorkload, [KEY]),
        (EdgeDevice, [each.key for each in (await client.of(EdgeDevice).list(NAMESPACE)).items]),
    ):
        for key in keys:

            async def wiped(kind: Any = kind, key: Key = key) -> bool:
                try:
                    await client.raw(kind.kind).patch(key, {"status": None}, subresource="status")
                except Conflict:
                    return False
                return True

            await wait_until_async(wiped, what=f"the status of {key} is wiped")


async def test_a_gateway_that_starts_again_sends_each_device_its_own_version(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        config = await stack.enter_async_context(plane(tmp_path))
        client = await stack.enter_async_context(Client(config))
        stage = Stage(config, client, None, [])  # type: ignore[arg-type]
        versions: list[dict[str, str]] = []
        async with gateway_of(config) as gateway, operator(config):
            devices = await devices_of(tmp_path, gateway, client, ["a", "b", "c"])
            for device in devices:
                assert (await device.register()).code == 200
            await stage.create("one")
            await stage.until_phase("Completed", 1)
            await stage.change("two")

            async def one_has_it() -> bool:
                found = [(await each.configuration()).content["workloads"][0]["specification"] for each in devices]
                versions.append(dict(zip(["a", "b", "c"], found, strict=True)))
                return sum("image: two" in each for each in found) == 1

            await wait_until_async(one_has_it, what="the canary has it")
        before = versions[-1]
        async with gateway_of(config) as gateway:  # without an operator
            for device in devices:
                device.port = gateway.port
                assert (await device.configuration()).content["workloads"][0]["specification"] == before[device.name]
            # Without a rollout in the spec a change is everywhere at once, and needs no operator.
            await client.of(EdgeWorkload).patch(KEY, {"spec": {"rollout": None}})

            async def everywhere() -> bool:
                found = [(await each.configuration()).content["workloads"][0]["specification"] for each in devices]
                return all("image: two" in each for each in found)

            await wait_until_async(everywhere, what="all have it")
