"""Asks a container one probe's question: a connection, a request, or a command next to the program.

`probes` calls it and minds the time. A command runs as the container's user, in its environment and with its root; it
gets one second or what the probe says, and is killed after that.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from edgewright.local.node.folders import AttemptFolder
from edgewright.local.node.podman_runtime import PodmanRuntime
from edgewright.local.node.probes import ProbeTarget, ask_http, ask_tcp
from edgewright.local.node.processes import Identity, open_process
from edgewright.local.node.runs import Runs
from edgewright.runtime.child_process import end_child
from edgewright.runtime.objects import RawObject

CONTAINER_EXEC = Path(__file__).with_name("container_exec.py")
_MAX_OUTPUT = 1024


def enter_command(folder: AttemptFolder, main: Identity, command: Sequence[str]) -> list[str]:
    """The program that runs a command next to a container's own."""
    order = json.dumps({"order": str(folder.path / "order.json"), "pid": main.pid, "command": list(command)})
    return [sys.executable, "-I", "-S", "-B", str(CONTAINER_EXEC), order]


class Asker:
    """Carries out probes."""

    def __init__(self, runs: Runs, podman: PodmanRuntime | None = None) -> None:
        self._runs = runs
        self._podman = podman

    async def ask(self, asked: ProbeTarget, probe: RawObject) -> str | None:
        """None where the container is well, else what is wrong."""
        if probe.get("tcpSocket"):
            return await ask_tcp(asked.record.address, asked.container, probe)
        if probe.get("httpGet"):
            return await ask_http(asked.record.address, asked.container, probe)
        if probe.get("exec"):
            return await self._run(asked, probe["exec"].get("command") or [])
        return f"probes of the kind {', '.join(probe)} are not supported by this node"

    async def _run(self, asked: ProbeTarget, command: list[str]) -> str | None:
        """Runs a command next to the container's program; None where it ended well."""
        attempt = asked.attempt
        run = self._runs.get(asked.pod.uid)
        main = attempt.state.main if attempt.state else None
        if run is None or main is None or not command:
            return "there is nothing to run"
        fd = open_process(main)
        if attempt.state is not None and attempt.state.container and self._podman is not None and fd is not None:
            os.close(fd)
            return await self._podman.execute(attempt.state.container, command)
        if fd is None:
            return "the container has ended"
        os.close(fd)
        folder = run.folder.attempt(asked.container["name"], attempt.number)
        process = await asyncio.create_subprocess_exec(
            *enter_command(folder, main, command),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
            env={}, start_new_session=True,
        )  # fmt: skip
        try:
            output, _ = await process.communicate()
        except asyncio.CancelledError:
            await end_child(process, group=True)
            raise
        return None if process.returncode == 0 else output[:_MAX_OUTPUT].decode("utf-8", "replace").strip()
