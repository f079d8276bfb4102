"""Gateway and operator together, on an API server of ours: the three workflows of the document, and how they end."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from edgewright.api.capabilities import EDGE
from edgewright.api.edgedevice import EdgeDevice
from edgewright.api.edgeworkload import EdgeDeployment, EdgeWorkload
from edgewright.controllers.operator import add_controllers
from edgewright.controllers.settings import Settings, Timing
from edgewright.gateway.gateway import Gateway
from edgewright.gateway.objects import Secret
from edgewright.runtime.client import Client
from edgewright.runtime.config import Config
from edgewright.runtime.errors import NotFound
from edgewright.runtime.events import Event
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key
from tests.harness.waiting import wait_until_async
from tests.unit.controllers.flashjob.harness import Mortal, plane
from tests.unit.gateway.stage import NAMESPACE, Device, devices_of, gateway_of, secret
from tests.unit.runtime.fakeserver import running

QUICK = Settings(timing=Timing(recheck=0.2, disconnect_grace=5.0))
POD = {"containers": [{"name": "nginx", "image": "docker.io/nginx:1.14.2", "ports": [{"hostPort": 9090}]}]}


@dataclass
class Stage:
    """Everything that runs, and one device."""

    config: Config
    client: Client
    gateway: Gateway
    operator: Mortal
    devices: list[Device] = field(default_factory=list)

    async def object(self, name: str = "one") -> EdgeDevice:
        return await self.client.of(EdgeDevice).get(Key(NAMESPACE, name))

    async def apply(self, kind: str, name: str, spec: dict[str, Any], **metadata: Any) -> None:
        plural = {"EdgeWorkload": EdgeWorkload, "EdgeDeployment": EdgeDeployment}[kind]
        body = {
            "apiVersion": "management.project-flotta.io/v1alpha1",
            "kind": kind,
            "metadata": {"name": name, "namespace": NAMESPACE, **metadata},
            "spec": {"type": "pod", "pod": {"spec": POD}, **spec},
        }
        await self.client.raw(plural.kind).create(body)

    async def phases(self, name: str = "one") -> dict[str, str]:
        """The workloads of a device, by name."""
        status = (await self.object(name)).status
        assert status.workloads == status.deployments
        return {each.name: each.phase for each in status.workloads}

    async def until(self, phases: dict[str, str], name: str = "one") -> None:
        async def are() -> bool:
            return await self.phases(name) == phases

        await wait_until_async(are, what=f"device {name} has {phases}")


@asynccontextmanager
async def staged(directory: Path, *names: str, settings: Settings = QUICK, **given: Any) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        config = await stack.enter_async_context(plane(directory))
        client = await stack.enter_async_context(Client(config))
        gateway = await stack.enter_async_context(gateway_of(config, **given))
        manager = Manager(Client(config))
        mortal = Mortal(manager.client)
        add_controllers(manager, settings, capabilities=[EDGE])
        await stack.enter_async_context(running(manager.run()))
        stage = Stage(config, client, gateway, mortal)
        stage.devices = await devices_of(directory, gateway, client, names or ["one"])
        for device in stage.devices:
            assert (await device.register()).code == 200
        yield stage


async def test_a_matching_workload_is_deployed_runs_and_is_removed_when_it_no_longer_matches(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        (device,) = stage.devices
        await stage.apply("EdgeDeployment", "nginx", {"deviceSelector": {"matchLabels": {"foo": "bar"}}})
        api = stage.client.of(EdgeDevice)
        await api.patch(Key(NAMESPACE, "one"), {"metadata": {"labels": {"foo": "bar"}}})
        await stage.until({"nginx": "Deploying"})
        configuration = (await device.configuration()).content
        (workload,) = configuration["workloads"]
        assert (workload["name"], workload["namespace"]) == ("nginx", NAMESPACE)
        assert yaml.safe_load(workload["specification"]) == POD
        answer = await device.heartbeat(workloads=[{"name": "nginx", "status": "Running"}])
        assert answer.code == 200
        assert await stage.phases() == {"nginx": "Running"}
        assert (await stage.object()).metadata.labels["workload/nginx"] == "true"

        async def ready() -> bool:
            found = await stage.client.of(EdgeDeployment).get(Key(NAMESPACE, "nginx"))
            return found.status.progress == "1/1" and any(
                each.type == "Ready" and each.status == "True" for each in found.status.conditions
            )

        await wait_until_async(ready, what="the workload says that it runs")
        await api.patch(Key(NAMESPACE, "one"), {"metadata": {"labels": {"foo": None}}})
        await stage.until({})
        assert (await device.configuration()).content.get("workloads") in (None, [])
        assert "workload/nginx" not in (await stage.object()).metadata.labels


async def test_a_missing_secret_leaves_out_only_the_workload_that_needs_it(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        (device,) = stage.devices
        needs = {"containers": [{"name": "a", "image": "a", "envFrom": [{"secretRef": {"name": "words"}}]}]}
        await stage.apply("EdgeWorkload", "needy", {"device": "one", "pod": {"spec": needs}})
        await stage.apply("EdgeWorkload", "plain", {"device": "one"})
        await stage.until({"needy": "Deploying", "plain": "Deploying"})
        assert [each["name"] for each in (await device.configuration()).content["workloads"]] == ["plain"]

        async def told() -> bool:
            entries = {each.name: each.message for each in (await stage.object()).status.workloads}
            return entries == {"needy": "Secret words is missing", "plain": ""}

        await wait_until_async(told, what="the device says what is missing")

        async def shown() -> bool:
            found = await stage.client.of(EdgeWorkload).get(Key(NAMESPACE, "needy"))
            return any(
                each.type == "Ready" and each.reason == "LeftOut" and "Secret words is missing" in each.message
                for each in found.status.conditions
            )

        await wait_until_async(shown, what="the workload says what is missing")
        await stage.client.raw(Secret.kind).create(secret("words", hello="world"))
        content = (await device.configuration()).content
        assert [each["name"] for each in content["workloads"]] == ["needy", "plain"]
        assert content["secrets"] == [{"name": "words", "data": '{"hello":"d29ybGQ="}'}]


async def test_a_workload_that_is_deleted_is_gone_once_no_device_refers_to_it(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        await stage.apply("EdgeWorkload", "nginx", {"device": "one"})
        await stage.until({"nginx": "Deploying"})
        await stage.client.of(EdgeWorkload).delete(Key(NAMESPACE, "nginx"))
        await stage.until({})

        async def gone() -> bool:
            try:
                await stage.client.of(EdgeWorkload).get(Key(NAMESPACE, "nginx"))
            except NotFound:
                return True
            return False

        await wait_until_async(gone, what="the workload is gone")


async def test_a_device_that_is_deleted_as_soon_as_it_has_its_certificate_is_told_to_disconnect(tmp_path: Path) -> None:
    async with staged(tmp_path, "one") as stage:
        (device,) = stage.devices
        await stage.client.of(EdgeDevice).delete(Key(NAMESPACE, "one"))

        async def told() -> bool:
            await device.configuration()
            answer = await device.control()
            return answer.code == 200 and bool(answer.body) and answer.body["content"]["command"] == "disconnect"

        await wait_until_async(told, what="it is told to disconnect", timeout=60)


async def test_a_device_that_is_deleted_is_told_to_remove_its_workloads_and_to_disconnect(tmp_path: Path) -> None:
    async with staged(tmp_path, settings=Settings(timing=Timing(recheck=0.2))) as stage:
        (device,) = stage.devices
        await stage.apply("EdgeWorkload", "nginx", {"device": "one"})
        await stage.until({"nginx": "Deploying"})
        await device.heartbeat()
        assert (await device.control()).body is None
        await stage.client.of(EdgeDevice).delete(Key(NAMESPACE, "one"))

        async def emptied() -> bool:
            return not (await device.configuration()).content.get("workloads")

        await wait_until_async(emptied, what="the device is sent no workloads")

        async def told() -> Any:
            return (await device.control()).body

        message = await wait_until_async(told, what="the device is told to disconnect")
        assert (message["type"], message["content"]) == ("command", {"command": "disconnect", "arguments": {}})

        async def gone() -> bool:
            return (await device.configuration()).code == 404

        await wait_until_async(gone, what="the EdgeDevice is gone")
        # Its record stays: a device that did not hear it is told again, and does not come back by itself.
        assert (await device.control()).content["command"] == "disconnect"
        assert (await device.register()).code == 403
        assert (await device.enrol()).code == 403


async def test_events_of_a_device_become_events(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        (device,) = stage.devices
        await device.heartbeat(events=[{"type": "warn", "reason": "Failed", "message": "no such image"}])

        async def found() -> bool:
            events = (await stage.client.of(Event).list(NAMESPACE)).items
            return any(
                (each.type, each.reason, each.message, each.involved_object.name)
                == ("Warning", "Failed", "no such image", "one")
                for each in events
            )

        await wait_until_async(found, what="the event is there")


async def test_events_of_ours_tell_of_conditions_that_changed_and_of_nothing_else(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        (device,) = stage.devices

        async def told(name: str) -> list[tuple[str, str, int]]:
            events = (await stage.client.of(Event).list(NAMESPACE)).items
            about = [each for each in events if each.involved_object.name == name]
            return sorted((each.involved_object.kind, each.reason, each.count or 0) for each in about)

        async def runs_and_is_told(name: str) -> bool:
            for _ in range(3):
                await device.heartbeat(workloads=[{"name": each, "status": "Running"} for each in await stage.phases()])
            return any(reason == "Running" for _, reason, _ in await told(name))

        # Events are sent in their order: what is told of one workload is told when the next has come to its end.
        for name in ("first", "second"):
            await stage.apply("EdgeWorkload", name, {"device": "one"})
            await wait_until_async(functools.partial(runs_and_is_told, name), what=f"{name} runs")
        before = await told("first")
        assert {reason for _, reason, _ in before} == {"Valid", "Deploying", "Running"}
        await stage.client.of(EdgeWorkload).patch(Key(NAMESPACE, "first"), {"metadata": {"annotations": {"look": ""}}})
        await stage.apply("EdgeWorkload", "third", {"device": "one"})
        await wait_until_async(functools.partial(runs_and_is_told, "third"), what="the third runs")
        assert await told("first") == before


async def test_a_heartbeat_that_tells_nothing_new_writes_nothing(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        (device,) = stage.devices
        await device.heartbeat()

        async def settled() -> bool:
            found = await stage.object()
            return bool(found.metadata.labels) and any(
                (each.type, each.status) == ("Ready", "True") for each in found.status.conditions
            )

        await wait_until_async(settled, what="the labels and the conditions are there")
        before = await stage.object()
        for _ in range(3):
            assert (await device.heartbeat()).code == 200
        assert (await stage.object()).metadata.resource_version == before.metadata.resource_version
