"""`edgewright edge logs` and `edge exec` on a real kube-apiserver: who may what is decided there."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from edgewright.api.capabilities import Rule
from tests.cluster.edge.edge_stage import account
from tests.cluster.edge.test_edge_scenarios import NAME, staged
from tests.cluster.support import eventually
from tests.harness import ControlPlane, wait_until_async
from tests.unit.gateway.stage import Device

READER = (
    Rule(groups=("management.project-flotta.io",), resources=("edgedevices",), verbs=("get",), why="names the device"),
    Rule(
        groups=("edgewright.dev",), resources=("edgelogrequests",), verbs=("get", "create", "delete"), why="reads logs"
    ),
)


async def typed(kubeconfig: Path, namespace: str, *words: str) -> tuple[int, str]:
    """The exit code of a command, and what it printed, in one line."""
    program = str(Path(sys.executable).parent / "edgewright")
    process = await asyncio.create_subprocess_exec(
        program,
        *("edge", *words[:1], "--kubeconfig", str(kubeconfig), "-n", namespace, *words[1:]),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode or 0, " ".join(output.decode().split())


async def answer(device: Device, output: str) -> dict[str, Any]:
    """Does what an agent of ours does, until it is asked once; what it was asked."""
    headers = {"User-Agent": "edgewright-agent/1"}

    async def asked() -> Any:
        return (await device.request("GET", f"control/{NAME}/in", headers=headers)).body

    content: dict[str, Any] = (await wait_until_async(asked, what="the device is asked"))["content"]
    report = {"request": content["arguments"]["request"], "command": content["command"], "output": output}
    body = {"type": "event", "message_id": "1", "directive": "access", "content": report | {"exit_code": 3}}
    assert (await device.request("POST", f"control/{NAME}/out", json.dumps(body).encode())).code == 200
    return content


async def test_who_may_read_logs_may_not_run_commands_and_each_is_told(
    cluster: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    async with staged(cluster, namespace, tmp_path) as stage:
        assert (await stage.device.register()).code == 200
        assert (await stage.device.heartbeat()).code == 200
        reader = await asyncio.to_thread(account, cluster, namespace, "reader", READER, everywhere=False)
        asked, (code, said) = await asyncio.gather(
            answer(stage.device, "one\ntwo\n"), typed(reader, namespace, "logs", NAME, "web", "--tail", "2")
        )
        assert (code, said) == (0, "one two")
        assert (asked["command"], asked["arguments"]["lines"], asked["arguments"]["workload"]) == ("logs", "2", "web")
        code, said = await typed(reader, namespace, "exec", NAME, "web", "--", "id")
        assert code == 1
        assert "edgeexecrequests" in said
        assert "forbidden" in said.lower()
        # Whoever may do everything may do this too; the command's exit code is the program's.
        asked, (code, said) = await asyncio.gather(
            answer(stage.device, "root"), typed(cluster.kubeconfig, namespace, "exec", NAME, "web", "--", "id", "-u")
        )
        assert (code, said, json.loads(asked["arguments"]["command"])) == (3, "root", ["id", "-u"])
        left = await asyncio.to_thread(stage.kubectl, "get", "edgelogrequests,edgeexecrequests", "-o", "name")
        assert left.strip() == ""

        async def told() -> bool:
            events = await asyncio.to_thread(stage.kubectl, "get", "events")
            return "LogsRequested" in events and "id -u" in events

        await eventually(told, what="Events tell of both")
