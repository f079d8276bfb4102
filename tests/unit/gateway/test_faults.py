"""Operator and gateway that die at any of their writes, and others that go on: the end is the same."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from edgewright.api.capabilities import EDGE
from edgewright.api.edgedevice import EdgeDevice
from edgewright.api.edgeworkload import EdgeWorkload
from edgewright.controllers.operator import add_controllers
from edgewright.controllers.settings import Settings, Timing
from edgewright.gateway.gateway import Gateway
from edgewright.runtime.client import Client
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.flashjob.harness import Mortal, plane
from tests.unit.gateway.stage import NAMESPACE, devices_of, settings
from tests.unit.runtime.fakeserver import running

QUICK = Settings(claim_buckets=False, timing=Timing(recheck=0.2))
POD = {"containers": [{"name": "a", "image": "a"}]}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", [1, 2, 3, 4])
async def test_an_operator_that_dies_at_a_write_is_replaced_without_a_trace(
    tmp_path: Path, at: int, after: bool
) -> None:
    async with plane(tmp_path) as config, Client(config) as client:
        gateway = Gateway(Client(config), settings())
        async with gateway.serving():
            (device,) = await devices_of(tmp_path, gateway, client, ["one"])
            await device.register()
            body = {
                "apiVersion": EdgeWorkload.kind.api_version,
                "kind": "EdgeWorkload",
                "metadata": {"name": "w", "namespace": NAMESPACE},
                "spec": {"type": "pod", "device": "one", "pod": {"spec": POD}},
            }
            await client.raw(EdgeWorkload.kind).create(body)
            manager = Manager(Client(config))
            mortal = Mortal(manager.client, at=at, after=after)
            add_controllers(manager, QUICK, capabilities=[EDGE])
            async with running(manager.run()):
                await wait_until_async(mortal.died.is_set, what="the operator has died")
            manager = Manager(Client(config))
            add_controllers(manager, QUICK, capabilities=[EDGE])
            async with running(manager.run()):

                async def settled() -> bool:
                    await device.heartbeat(workloads=[{"name": "w", "status": "Running"}])
                    found = await client.of(EdgeDevice).get(Key(NAMESPACE, "one"))
                    workload = await client.of(EdgeWorkload).get(Key(NAMESPACE, "w"))
                    return (
                        [each.phase for each in found.status.workloads] == ["Running"]
                        and found.metadata.labels.get("workload/w") == "true"
                        and workload.status.progress == "1/1"
                        and bool(workload.metadata.finalizers)
                    )

                await wait_until_async(settled, what="everything is as it should be")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("at", [1, 2])
async def test_a_gateway_that_dies_while_a_device_registers_loses_nothing(tmp_path: Path, at: int, after: bool) -> None:
    async with plane(tmp_path) as config, Client(config) as client:
        first = Gateway(Client(config), settings())
        async with first.serving():
            (device,) = await devices_of(tmp_path, first, client, ["one"])
            mortal = Mortal(first.manager.client, at=at, after=after)
            trying = asyncio.create_task(device.register())
            await wait_until_async(mortal.died.is_set, what="the gateway has died")
            trying.cancel()
            await asyncio.gather(trying, return_exceptions=True)
        second = Gateway(Client(config), settings())
        async with second.serving():
            device.port = second.port
            assert (await device.register()).code == 200
            assert (await device.heartbeat()).code == 200
            found = await client.of(EdgeDevice).get(Key(NAMESPACE, "one"))
            assert found.status.hardware is not None
            assert [each.type for each in found.status.conditions if each.status == "True"] == ["Registered", "Online"]


async def test_a_status_that_is_wiped_comes_back(tmp_path: Path) -> None:
    async with plane(tmp_path) as config, Client(config) as client:
        gateway = Gateway(Client(config), settings())
        manager = Manager(Client(config))
        add_controllers(manager, QUICK, capabilities=[EDGE])
        async with gateway.serving(), running(manager.run()):
            (device,) = await devices_of(tmp_path, gateway, client, ["one"])
            await device.register()
            body = {
                "apiVersion": EdgeWorkload.kind.api_version,
                "kind": "EdgeWorkload",
                "metadata": {"name": "w", "namespace": NAMESPACE},
                "spec": {"type": "pod", "device": "one", "pod": {"spec": POD}},
            }
            await client.raw(EdgeWorkload.kind).create(body)

            async def runs() -> bool:
                await device.heartbeat(workloads=[{"name": "w", "status": "Running"}])
                found = await client.of(EdgeDevice).get(Key(NAMESPACE, "one"))
                return [each.phase for each in found.status.workloads] == ["Running"]

            await wait_until_async(runs, what="the workload runs")
            assert [each["name"] for each in (await device.configuration()).content["workloads"]] == ["w"]
            wipe = [{"op": "replace", "path": "/status", "value": {}}]
            await client.of(EdgeDevice).patch(Key(NAMESPACE, "one"), wipe, subresource="status")
            # What the device is to run does not depend on any status.
            assert [each["name"] for each in (await device.configuration()).content["workloads"]] == ["w"]
            await wait_until_async(runs, what="the workload runs again")
