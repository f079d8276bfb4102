"""What the agent does when somebody wants the logs of a workload, or to run a command in it: only where it is allowed.

The poll loop puts commands in, one loop answers them one after another. Only workloads of the device's own
configuration are looked into, never another pod of the machine; both are off unless the device's settings allow them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from edgewright.agent.settings import Settings
from edgewright.api.edge_protocol import AccessReport, Command, CommandContent, DeviceConfigurationMessage
from edgewright.containers import Container, ContainersError, Podman
from edgewright.runtime import logs

_log = logs.get("agent.access")

_WAITING: Final = 10
_MAX_OUTPUT: Final = 60_000
_MAX_SECONDS: Final = 120.0
_MAX_LINES: Final = 10_000


class Access:
    """The requests that this device has been given."""

    def __init__(
        self, settings: Settings, podman: Podman, configuration: Callable[[], DeviceConfigurationMessage]
    ) -> None:
        self._settings = settings
        self._podman = podman
        self._configuration = configuration
        self._waiting: asyncio.Queue[CommandContent] = asyncio.Queue(_WAITING)

    def put(self, command: CommandContent) -> None:
        """Takes a request; one too many is dropped, and whoever asked hears nothing."""
        try:
            self._waiting.put_nowait(command)
        except asyncio.QueueFull:
            _log.warning("too many requests wait already: this one is dropped", command=command.command)

    async def next_answer(self) -> AccessReport:
        """The answer to the next request."""
        return await self.answer(await self._waiting.get())

    async def answer(self, command: CommandContent) -> AccessReport:
        """Does what is asked, where that is allowed."""
        given = command.arguments
        report = AccessReport(request=given.get("request", ""), command=command.command)
        try:
            self._demand_allowed(command.command)
            seconds = min(_number(given, "timeout"), _MAX_SECONDS)
            async with asyncio.timeout(seconds):
                container = await self._container(given.get("workload", ""), given.get("container", ""))
                if command.command == Command.LOGS:
                    lines = min(int(_number(given, "lines")), _MAX_LINES)
                    text, more = await self._podman.last_lines(container, lines, limit=_MAX_OUTPUT)
                    return _with_output(report, text, more=more)
                words = msgspec.json.decode(given.get("command", ""), type=list[str])
                _log.info("a command is run for a request", request=report.request, container=container)
                done = await self._podman.execute(container, words, limit=_MAX_OUTPUT)
                report = msgspec.structs.replace(report, exit_code=done.exit_code)
                return _with_output(report, done.output, more=done.truncated)
        except TimeoutError:
            return msgspec.structs.replace(report, error="it took too long")
        except (_NotDone, ContainersError, msgspec.MsgspecError) as error:
            return msgspec.structs.replace(report, error=str(error))

    def _demand_allowed(self, command: str) -> None:
        allowed = self._settings.remote_logs if command == Command.LOGS else self._settings.remote_exec
        if not allowed:
            name = "remote-logs" if command == Command.LOGS else "remote-exec"
            raise _NotDone(f"this device does not allow it: its settings have no {name} = true")

    async def _container(self, workload: str, container: str) -> str:
        """The name of a container of one of the device's own workloads."""
        if workload not in {each.name for each in self._configuration().workloads or ()}:
            raise _NotDone(f"the device has no workload {workload!r}")
        pod = await self._podman.pod(workload)
        found: tuple[Container, ...] = () if pod is None else pod.workers
        names = [each.name for each in found]
        if not names:
            raise _NotDone(f"workload {workload} has no container now")
        if not container:
            return names[0]
        wanted = f"{workload}-{container}"
        if wanted not in names:
            known = ", ".join(sorted(each.removeprefix(f"{workload}-") for each in names))
            raise _NotDone(f"workload {workload} has no container {container!r}: it has {known}")
        return wanted


class _NotDone(Exception):
    """What is asked for is not done; the sentence says why."""


def _with_output(report: AccessReport, output: bytes, *, more: bool) -> AccessReport:
    return msgspec.structs.replace(report, output=output.decode(errors="replace"), truncated=more)


def _number(given: dict[str, str], name: str) -> float:
    text = given.get(name, "")
    if not text.isdecimal() or len(text) > 6:
        raise _NotDone(f"{name} is not a number")
    return float(text)
