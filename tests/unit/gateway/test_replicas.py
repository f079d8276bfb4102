"""Three replicas behind one address: devices that move between them, one that is killed, and changes that all tell."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path

from edgewright.api.capabilities import EDGE
from edgewright.api.edgedevice import EdgeDevice
from edgewright.api.edgeheartbeatshard import EdgeHeartbeatShard, last_heard
from edgewright.controllers.operator import add_controllers
from edgewright.controllers.settings import Settings, Timing
from edgewright.gateway.gateway import Gateway
from edgewright.runtime.client import Client
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.flashjob.harness import plane
from tests.unit.gateway.stage import NAMESPACE, devices_of, settings
from tests.unit.gateway.test_workflows import staged
from tests.unit.runtime.fakeserver import running

NAMES = [f"device-{number}" for number in range(6)]
QUICK = Settings(claim_buckets=False, timing=Timing(recheck=0.2, offline_after=20.0, online_every=0.1))


async def test_killing_a_replica_changes_no_device_and_loses_no_more_than_one_interval(tmp_path: Path) -> None:
    async with plane(tmp_path) as config, Client(config) as client, AsyncExitStack() as stack:
        gateways = [Gateway(Client(config), settings(heard_every=0.1, replica=f"g{number}")) for number in range(3)]
        stacks = [AsyncExitStack() for _ in gateways]
        for each, own in zip(gateways, stacks, strict=True):
            await own.enter_async_context(each.serving())
            stack.push_async_callback(own.aclose)
        manager = Manager(Client(config))
        add_controllers(manager, QUICK, capabilities=[EDGE])
        await stack.enter_async_context(running(manager.run()))
        devices = await devices_of(tmp_path, gateways[0], client, NAMES)
        for device in devices:
            assert (await device.register()).code == 200

        async def all_heard(living: list[Gateway]) -> datetime:
            """Each device tells another replica how it is; gives when that began."""
            begun = datetime.now(UTC).replace(microsecond=0)
            for number, device in enumerate(devices):
                device.port = living[number % len(living)].port
                assert (await device.heartbeat()).code == 200
            return begun

        async def written(since: datetime) -> bool:
            heard = last_heard((await client.of(EdgeHeartbeatShard).list(NAMESPACE)).items)
            return all(heard.get(Key(NAMESPACE, name), since.min.replace(tzinfo=UTC)) >= since for name in NAMES)

        async def shown() -> dict[str, str]:
            found = (await client.of(EdgeDevice).list(NAMESPACE)).items
            return {
                each.metadata.name: next((c.status for c in each.status.conditions if c.type == "Ready"), "")
                for each in found
            }

        for _ in range(3):  # they move on with each round
            gateways.append(gateways.pop(0))
            begun = await all_heard(gateways)
            await wait_until_async(lambda begun=begun: written(begun), what="all were heard")  # type: ignore[misc]

        async def well() -> bool:
            return await shown() == dict.fromkeys(NAMES, "True")

        await wait_until_async(well, what="all are ready")
        versions = await _versions(client)
        killed = gateways[0]
        killed.heard.write = _nothing  # type: ignore[method-assign]  # a power cut writes nothing
        index = next(number for number, each in enumerate(stacks) if killed.heard.replica == f"g{number}")
        await stacks[index].aclose()
        begun = await all_heard(gateways[1:])
        await wait_until_async(lambda: written(begun), what="all were heard by the others")
        assert await shown() == dict.fromkeys(NAMES, "True")
        assert await _versions(client) == versions  # not one write to an EdgeDevice


async def _nothing() -> None:
    return


async def _versions(client: Client) -> dict[str, str]:
    return {
        each.metadata.name: each.metadata.resource_version
        for each in (await client.of(EdgeDevice).list(NAMESPACE)).items
    }


async def test_an_agent_that_waits_hears_of_a_change_at_once_and_of_none_when_its_time_is_over(tmp_path: Path) -> None:
    async with staged(tmp_path, "one", "two") as stage:
        device, other = stage.devices
        known = {}
        for each in stage.devices:
            await each.heartbeat()
            await stage.gateway._server._configurations.of(await stage.object(each.name))
            known[each.name] = (await each.configuration()).headers["Etag"]
        answer = await device.configuration(**{"If-None-Match": known["one"], "Prefer": "wait=1"})
        assert (answer.code, answer.headers["Etag"]) == (304, known["one"])
        waits = {"If-None-Match": known["one"], "Prefer": "respond-async, wait=120"}
        waiting = asyncio.create_task(device.configuration(**waits))
        await wait_until_async(lambda: stage.gateway._server._configurations.waiting == 1, what="the agent waits")
        await stage.apply("EdgeWorkload", "theirs", {"device": "two"})
        await stage.until({"theirs": "Deploying"}, "two")
        assert not waiting.done()  # what does not concern it does not wake it
        await stage.apply("EdgeWorkload", "ours", {"device": "one"})
        answer = await waiting
        assert answer.code == 200
        assert [each["name"] for each in answer.content["workloads"]] == ["ours"]
        assert (await other.configuration(**{"If-None-Match": known["two"], "Prefer": "wait=120"})).code == 200
