"""A cluster that is lost and restored from its objects: all agents come back with what they have, and none is wiped."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from edgewright.api.capabilities import EDGE
from edgewright.api.edgedevice import EdgeDevice
from edgewright.api.edgedevicesignedrequest import EdgeDeviceSignedRequest
from edgewright.api.edgeworkload import EdgeWorkload
from edgewright.controllers.operator import add_controllers
from edgewright.gateway.objects import Secret
from edgewright.runtime.client import Client
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.flashjob.harness import plane
from tests.unit.gateway.stage import NAMESPACE, Device, devices_of, gateway_of
from tests.unit.gateway.test_workflows import QUICK, staged
from tests.unit.runtime.fakeserver import running

KINDS = (Secret, EdgeDeviceSignedRequest, EdgeDevice, EdgeWorkload)
"""In the order in which the page on backups restores them."""
NAMES = [f"device-{number}" for number in range(4)]
WORKLOADS = [{"name": "w", "status": "Running"}]


def as_applied(found: dict[str, Any]) -> dict[str, Any]:
    """An object of a backup as it is written again: without its status, and as another one."""
    made_by_the_server = {"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"}
    metadata = {name: value for name, value in found["metadata"].items() if name not in made_by_the_server}
    return {name: value for name, value in found.items() if name != "status"} | {"metadata": metadata}


async def test_a_restored_cluster_keeps_its_fleet_also_the_device_that_is_newer_than_the_backup(tmp_path: Path) -> None:
    async with staged(tmp_path / "lost", *NAMES) as lost:
        await lost.apply("EdgeWorkload", "w", {"deviceSelector": {}})
        for name in NAMES:
            await lost.until({"w": "Deploying"}, name)
        for device in lost.devices:
            assert (await device.heartbeat(workloads=WORKLOADS)).code == 200
        backup = {
            each.kind: [as_applied(found) for found in (await lost.client.raw(each.kind).list(NAMESPACE)).items]
            for each in KINDS
        }
        (late,) = await devices_of(tmp_path, lost.gateway, lost.client, ["late"])
        assert (await late.register()).code == 200
        assert (await late.heartbeat()).code == 200

    async with AsyncExitStack() as stack:
        config = await stack.enter_async_context(plane(tmp_path / "restored"))
        client = await stack.enter_async_context(Client(config))
        for kind, objects in backup.items():
            for each in objects:
                await client.raw(kind).create(each)
        gateway = await stack.enter_async_context(gateway_of(config))
        manager = Manager(Client(config))
        add_controllers(manager, QUICK, capabilities=[EDGE])
        await stack.enter_async_context(running(manager.run()))
        for device in (*lost.devices, late):
            device.port = gateway.port

        for device in lost.devices:  # each with the certificate that it had

            async def runs(device: Device = device) -> bool:
                content = (await device.configuration()).content
                assert (await device.heartbeat(workloads=WORKLOADS)).code == 200
                assert (await device.control()).body is None, "nobody is told to go"
                found = await client.of(EdgeDevice).get(Key(NAMESPACE, device.name))
                shown = [(each.name, each.phase) for each in found.status.workloads]
                return [each["name"] for each in content["workloads"] or ()] == ["w"] and shown == [("w", "Running")]

            await wait_until_async(runs, what=f"{device.name} has its workload, and its EdgeDevice says so")
        # Of this one the backup knows nothing: it is told nothing, and comes in with the certificate that it has.
        assert (await late.control()).code == 404
        assert (await late.register_again()).code == 200
        assert (await late.heartbeat()).code == 200
