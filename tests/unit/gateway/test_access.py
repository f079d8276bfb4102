"""Logs of, and commands in, a workload on a device: API server, gateway and agent together."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from edgewright.agent import Agent
from edgewright.agent.settings import load
from edgewright.api.edgeaccess import (
    KEPT_SECONDS,
    AccessStatus,
    EdgeExecRequest,
    EdgeLogRequest,
    ExecRequestSpec,
    LogRequestSpec,
)
from edgewright.api.edgedevice import EdgeDevice
from edgewright.api.edgeworkload import EdgeWorkload
from edgewright.cli.cluster import Place
from edgewright.cli.edge import files_of
from edgewright.cli.edge_access import answer_to
from edgewright.cli.failure import Failed
from edgewright.gateway.gateway import Gateway
from edgewright.runtime.client import Client
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.config import Config
from edgewright.runtime.errors import Invalid
from edgewright.runtime.events import Event
from edgewright.runtime.objects import ObjectMeta
from tests.harness.waiting import wait_until_async
from tests.unit.containers.fake_podman import FakePodman
from tests.unit.controllers.flashjob.harness import plane
from tests.unit.gateway.stage import NAMESPACE, devices_of, gateway_of, registration_of
from tests.unit.runtime.fakeserver import running

LINES = [("2026-01-01T00:00:00Z", "one"), ("2026-01-01T00:00:01Z", "two"), ("2026-01-01T00:00:02Z", "three")]


@dataclass
class Stage:
    """What runs: a gateway, and a device `box` with workload `web`."""

    config: Config
    client: Client
    gateway: Gateway
    podman: FakePodman

    @property
    def place(self) -> Place:
        return Place(settings=dataclasses.replace(self.config, namespace=NAMESPACE))

    async def logs(self, device: str = "box", **spec: Any) -> AccessStatus:
        metadata = ObjectMeta(name="logs-1", namespace=NAMESPACE)
        wanted = LogRequestSpec(**{"device": device, "workload": "web"} | spec)
        return await answer_to(self.client, self.place, EdgeLogRequest(metadata=metadata, spec=wanted))

    async def execute(self, *command: str, **spec: Any) -> AccessStatus:
        metadata = ObjectMeta(name="exec-1", namespace=NAMESPACE)
        wanted = ExecRequestSpec(**{"device": "box", "workload": "web", "command": command} | spec)
        return await answer_to(self.client, self.place, EdgeExecRequest(metadata=metadata, spec=wanted))

    async def events(self) -> dict[str, str]:
        return {each.reason: each.message for each in (await self.client.of(Event).list(NAMESPACE)).items}


@asynccontextmanager
async def staged(directory: Path, **settings: bool) -> AsyncIterator[Stage]:
    async with AsyncExitStack() as stack:
        config = await stack.enter_async_context(plane(directory))
        client = await stack.enter_async_context(Client(config))
        gateway = await stack.enter_async_context(gateway_of(config))
        podman = await stack.enter_async_context(FakePodman())
        ca, registration = await registration_of(client)
        files = files_of(
            ca, registration, server=f"127.0.0.1:{gateway.port}", server_name="", device_id="box", target_namespace=""
        )
        lines = {"state-dir": '"state"', "firewall": '"none"', "podman-socket": f'"{podman.socket}"'}
        lines |= {name.replace("_", "-"): str(value).lower() for name, value in settings.items()}
        files["config.toml"] += "".join(f"{name} = {value}\n" for name, value in lines.items()).encode()
        folder = directory / "box"
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_bytes(content)
        body = {
            "apiVersion": EdgeWorkload.kind.api_version,
            "kind": "EdgeWorkload",
            "metadata": {"name": "web", "namespace": NAMESPACE},
            "spec": {"type": "pod", "device": "box", "pod": {"spec": {"containers": [{"name": "a", "image": "a"}]}}},
        }
        await client.raw(EdgeWorkload.kind).create(body)
        podman.images.add("a")
        podman.lines["web-a"] = LINES
        await stack.enter_async_context(running(Agent(load(folder / "config.toml")).run()))
        await wait_until_async(lambda: "web" in podman.pods, what="the workload runs")
        yield Stage(config, client, gateway, podman)


async def test_the_last_lines_of_a_workload_come_back_at_once_and_are_told(tmp_path: Path) -> None:
    async with staged(tmp_path, remote_logs=True) as stage:
        loop = asyncio.get_running_loop()
        began = loop.time()
        found = await stage.logs(tail_lines=2)
        assert (found.output, found.truncated) == ("two\nthree\n", False)
        assert loop.time() - began < 25, "a device that waits for news is let go"
        assert (await stage.client.of(EdgeLogRequest).list(NAMESPACE)).items == []

        async def told() -> bool:
            return "the logs of web are read" in (await stage.events()).get("LogsRequested", "")

        await wait_until_async(told, what="an Event tells of it")
        with pytest.raises(Failed, match="no container 'b': it has a"):
            await stage.logs(container="b")
        with pytest.raises(Failed, match="the device has no workload 'other'"):
            await stage.logs(workload="other")
        with pytest.raises(Failed, match="no EdgeDevice"):
            await stage.logs("nobody")
        with pytest.raises(Failed, match="this device does not allow it: its settings have no remote-exec = true"):
            await stage.execute("id")


async def test_a_command_runs_where_the_device_allows_it_and_is_told(tmp_path: Path) -> None:
    async with staged(tmp_path, remote_exec=True) as stage:
        stage.podman.commands["web-a"] = (3, b"said\n")
        found = await stage.execute("sh", "-c", "echo said; exit 3")
        assert (found.output, found.exit_code) == ("said\n", 3)
        assert stage.podman.executed == [("web-a", ["sh", "-c", "echo said; exit 3"])]

        async def told() -> bool:
            return "sh -c 'echo said; exit 3'" in (await stage.events()).get("CommandRequested", "")

        await wait_until_async(told, what="an Event tells of it")
        with pytest.raises(Failed, match="its settings have no remote-logs = true"):
            await stage.logs()
        stage.podman.commands["web-a"] = (0, b"x" * 100_000)
        found = await stage.execute("yes")
        assert (found.truncated, len(found.output)) == (True, 60_000)


async def test_a_request_is_handed_out_once_and_to_its_device_only(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        config = await stack.enter_async_context(plane(tmp_path))
        client = await stack.enter_async_context(Client(config))
        first = await stack.enter_async_context(gateway_of(config))
        second = await stack.enter_async_context(gateway_of(config))
        mine, other = await devices_of(tmp_path, first, client, ["mine", "other"])
        for device in (mine, other):
            assert (await device.register()).code == 200
        api = client.of(EdgeExecRequest)
        spec = ExecRequestSpec(device="mine", workload="web", command=("id",))
        made = await api.create(EdgeExecRequest(metadata=ObjectMeta(name="x", namespace=NAMESPACE), spec=spec))
        with pytest.raises(Invalid, match="make another request instead"):
            await client.raw(EdgeExecRequest.kind).patch(made.key, {"spec": {"command": ["rm"]}})

        async def commands(device: Any, gateway: Gateway, agent: str) -> Any:
            device.port = gateway.port
            answer = await device.request("GET", f"control/{device.name}/in", headers={"User-Agent": agent})
            return None if answer.body is None else answer.body["content"]["command"]

        ours = "edgewright-agent/1"

        async def seen() -> bool:
            return all(each.manager.cache(EdgeExecRequest).get(made.key) is not None for each in (first, second))

        await wait_until_async(seen, what="both replicas know it")
        assert await commands(mine, first, "yggdrasil/0.2") is None, "published agents get none"
        assert await commands(other, first, ours) is None
        got = await asyncio.gather(*(commands(mine, gateway, ours) for gateway in (first, second)))
        assert sorted(map(str, got)) == ["None", "exec"]
        report = {"request": "x", "command": "exec", "output": "lies"}
        body = {"type": "event", "message_id": "1", "directive": "access", "content": report}
        await other.request("POST", "control/other/out", json.dumps(body).encode())
        assert (await api.get(made.key)).status.phase == "Taken", "the answer of another device is left alone"
        await mine.request("POST", "control/mine/out", json.dumps(body).encode())
        assert (await api.get(made.key)).status.output == "lies"
        assert (await mine.request("POST", "control/mine/out", b"null")).code == 200


class LaterClock(SystemClock):
    """A clock that is some minutes ahead."""

    def now(self) -> Any:
        return super().now() + timedelta(seconds=KEPT_SECONDS + 1)


async def test_what_nobody_came_back_for_is_removed(tmp_path: Path) -> None:
    async with plane(tmp_path) as config, Client(config) as client, gateway_of(config) as gateway:
        await client.of(EdgeDevice).create(EdgeDevice(metadata=ObjectMeta(name="a", namespace=NAMESPACE)))
        spec = LogRequestSpec(device="a", workload="web")
        made = await client.of(EdgeLogRequest).create(
            EdgeLogRequest(metadata=ObjectMeta(name="x", namespace=NAMESPACE), spec=spec)
        )
        cache = gateway.manager.cache(EdgeLogRequest)
        await wait_until_async(lambda: cache.get(made.key) is not None, what="the gateway knows it")
        await gateway.access.sweep()
        assert len((await client.of(EdgeLogRequest).list(NAMESPACE)).items) == 1
        gateway.access._clock = LaterClock()
        await gateway.access.sweep()
        assert (await client.of(EdgeLogRequest).list(NAMESPACE)).items == []
