"""Sends the lines that workloads print to the syslog servers that the configuration names.

`Agent` runs it. Each container is followed through podman, each target has a short queue and a connection of its own: a
server that is unavailable is waited for while the queue holds the newest lines, and what had to be dropped is counted
in a line of its own. How far each container was read is kept on the disk, so that a restart repeats and loses little.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec

from edgewright.agent.manifest import DEVICE_LABEL
from edgewright.agent.surroundings import Surroundings
from edgewright.agent.uploads import workloads_by_name
from edgewright.api.edge_protocol import DeviceConfigurationMessage, LogsCollection, SyslogConfiguration
from edgewright.containers import ContainersError
from edgewright.runtime.backoff import Backoff

_NOTE: Final = "syslog"
_LOOK: Final = 5.0
_CONNECT: Final = 10.0
_DEFAULT_KILOBYTES: Final = 12
_MAX_LINE: Final = 8192
_PORT: Final = 514
_TIME: Final = re.compile(r"([^.Z+]+)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)")


@dataclass(frozen=True)
class Followed:
    """A container whose lines go to a target."""

    container: str
    workload: str
    target: str


def targets_of(configuration: DeviceConfigurationMessage) -> dict[str, LogsCollection]:
    """The syslog servers that a configuration names."""
    device = configuration.configuration
    found = device.log_collection if device is not None else {}
    return {name: each for name, each in found.items() if each.kind == "syslog" and each.syslog_config is not None}


def wanted(configuration: DeviceConfigurationMessage) -> dict[str, str]:
    """The target of each workload whose logs are collected."""
    targets = targets_of(configuration)
    named = workloads_by_name(configuration.workloads)
    return {name: each.log_collection for name, each in named.items() if each.log_collection in targets}


def instant(time: str) -> tuple[int, int]:
    """Seconds and nanoseconds of a time in podman's words; the beginning of time where it is none."""
    found = _TIME.fullmatch(time)
    try:
        seconds = int(datetime.fromisoformat(found[1] + found[3]).timestamp()) if found else 0
    except ValueError:
        return 0, 0
    return seconds, int((found[2] or "").ljust(9, "0")[:9]) if found else 0


def line_of(*, time: str, device: str, workload: str, pid: int, container: str, text: bytes) -> bytes:
    """A line as published agents send it."""
    body = text[:_MAX_LINE].decode(errors="replace").replace("\0", " ")
    moment = datetime.fromtimestamp(instant(time)[0], UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"<6>{moment} {device} {workload}[{pid}]: {container}: {body}\n".encode()


def address_of(target: LogsCollection) -> tuple[str, int, bool]:
    """Host, port and whether it is UDP."""
    server = target.syslog_config or SyslogConfiguration()
    host, colon, port = server.address.rpartition(":")
    if not colon or server.address.endswith("]"):
        host, port = server.address, str(_PORT)
    return host.strip("[]"), int(port) if port.isdecimal() else _PORT, server.protocol.lower() == "udp"


class Queue:
    """The lines that wait for a server: the newest, as many as fit."""

    def __init__(self, limit: int) -> None:
        """`limit` in bytes."""
        self._limit = limit
        self._lines: deque[tuple[bytes, Callable[[], None]]] = deque()
        self._size = 0
        self.dropped = 0
        self.news = asyncio.Event()

    def add(self, line: bytes, sent: Callable[[], None]) -> None:
        """Appends a line; the oldest go where there is no room. `sent` is called when the line is gone either way."""
        self._lines.append((line, sent))
        self._size += len(line)
        while self._size > self._limit and len(self._lines) > 1:
            self.take()
            self.dropped += 1
        self.news.set()

    def first(self) -> bytes | None:
        """The oldest line; None where there is none."""
        return self._lines[0][0] if self._lines else None

    def take(self) -> None:
        """The oldest line is done with."""
        line, sent = self._lines.popleft()
        self._size -= len(line)
        sent()
        if not self._lines:
            self.news.clear()


class Syslog:
    """The logs of this device's workloads, on their way."""

    def __init__(self, around: Surroundings) -> None:
        self._device = around.device
        self._podman = around.podman
        self._state = around.state
        self._events = around.events
        self._clock = around.clock
        self._rng = around.rng
        self._positions = _positions(around.state.note(_NOTE))
        self._saved = dict(self._positions)
        self._queues: dict[str, tuple[LogsCollection, Queue, asyncio.Task[None]]] = {}
        self._followers: dict[Followed, asyncio.Task[None]] = {}

    async def run(self, configuration: Callable[[], DeviceConfigurationMessage]) -> None:
        """Follows what is to be followed, until it is cancelled."""
        try:
            while True:
                await self._arrange(configuration())
                self._save()
                await self._clock.sleep(_LOOK)
        finally:
            tasks = [*self._followers.values(), *(task for _, _, task in self._queues.values())]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._save()

    async def _arrange(self, configuration: DeviceConfigurationMessage) -> None:
        targets, workloads = targets_of(configuration), wanted(configuration)
        for name in [name for name, (known, _, _) in self._queues.items() if targets.get(name) != known]:
            _, _, task = self._queues.pop(name)
            task.cancel()
            self._events.solved(_concern(name))
        for name, target in targets.items():
            if name not in self._queues:
                queue = Queue((target.buffer_size or _DEFAULT_KILOBYTES) * 1024)
                self._queues[name] = (target, queue, asyncio.create_task(self._send(name, target, queue)))
        there = await self._containers(workloads) if workloads else set()
        if there is None:
            return  # podman is unavailable: told by the pass over workloads
        for followed in [each for each, task in self._followers.items() if each not in there or task.done()]:
            self._followers.pop(followed).cancel()
        for followed in there - self._followers.keys():
            self._followers[followed] = asyncio.create_task(self._follow(followed))
        if not workloads:
            self._positions.clear()

    async def _containers(self, workloads: Mapping[str, str]) -> set[Followed] | None:
        try:
            pods = await self._podman.pods(label=f"{DEVICE_LABEL}={self._device}")
        except ContainersError:
            return None
        found = {
            Followed(each.name, pod.name, workloads[pod.name])
            for pod in pods
            if pod.name in workloads
            for each in pod.workers
        }
        for name in self._positions.keys() - {each.container for each in found}:
            del self._positions[name]
        return found

    async def _follow(self, followed: Followed) -> None:
        """Reads the lines of one container until it ends; `_arrange` begins again where that was too early."""
        prefix = f"{followed.workload}-"
        container = followed.container.removeprefix(prefix)
        last = self._positions.get(followed.container, "")
        with suppress(ContainersError):
            async with aclosing(self._podman.logs(followed.container, since=last)) as lines:
                async for time, text in lines:
                    if instant(time) <= instant(last) or followed.target not in self._queues:
                        continue
                    last = time
                    _, queue, _ = self._queues[followed.target]
                    line = line_of(
                        time=time,
                        device=self._device,
                        workload=followed.workload,
                        pid=os.getpid(),
                        container=container,
                        text=text,
                    )
                    queue.add(line, lambda time=time: self._note(followed.container, time))  # type: ignore[misc]

    def _note(self, container: str, time: str) -> None:
        self._positions[container] = time

    def _save(self) -> None:
        if self._positions == self._saved:
            return
        with suppress(OSError):  # a full disk is told of by the pass over workloads, and costs some repeated lines
            self._state.keep_note(_NOTE, msgspec.json.encode(self._positions))
            self._saved = dict(self._positions)

    async def _send(self, name: str, target: LogsCollection, queue: Queue) -> None:
        backoff = Backoff(base=1.0, cap=60.0, jitter=0.5, rng=self._rng)
        while True:
            await queue.news.wait()
            try:
                await self._talk(name, target, queue, backoff)
            except (OSError, ValueError) as error:
                words = getattr(error, "strerror", None) or str(error) or type(error).__name__
                self._events.problem(_concern(name), reason="SyslogUnavailable", message=f"logs to {name}: {words}")
                await self._clock.sleep(backoff.next())

    async def _talk(self, name: str, target: LogsCollection, queue: Queue, backoff: Backoff) -> None:
        host, port, udp = address_of(target)
        async with asyncio.timeout(_CONNECT):
            writer = await (_datagrams(host, port) if udp else _stream(host, port))
        try:
            while True:
                if queue.dropped:
                    text = f"{queue.dropped} lines were dropped while the server was unavailable".encode()
                    time = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
                    await writer.send(
                        line_of(
                            time=time, device=self._device, workload="agent", pid=os.getpid(), container=name, text=text
                        )
                    )
                    queue.dropped = 0
                while (line := queue.first()) is not None:
                    await writer.send(line)
                    queue.take()
                    backoff.reset()
                    self._events.solved(_concern(name), reason="SyslogWorks", message=f"logs to {name}: sent again")
                await queue.news.wait()
        finally:
            writer.close()


class _Stream:
    """A connection to a server by TCP; a server that went away is noticed before the next line is lost."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def send(self, line: bytes) -> None:
        if self._reader.at_eof():
            raise ConnectionResetError("the server closed the connection")
        self._writer.write(line)
        async with asyncio.timeout(_CONNECT):
            await self._writer.drain()
        await asyncio.sleep(0)

    def close(self) -> None:
        self._writer.transport.abort()


async def _stream(host: str, port: int) -> _Stream:
    return _Stream(*await asyncio.open_connection(host, port))


class _Datagrams:
    """Datagrams to a server by UDP: what is lost on the way is lost."""

    def __init__(self, made: socket.socket) -> None:
        self._socket = made

    async def send(self, line: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self._socket, line.rstrip(b"\n"))

    def close(self) -> None:
        self._socket.close()


async def _datagrams(host: str, port: int) -> _Datagrams:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    family, kind, protocol, _, address = found[0]
    made = socket.socket(family, kind, protocol)
    try:
        made.setblocking(False)
        await loop.sock_connect(made, address)
    except BaseException:
        made.close()
        raise
    return _Datagrams(made)


def _concern(target: str) -> str:
    return f"syslog {target}"


def _positions(content: bytes | None) -> dict[str, str]:
    try:
        return msgspec.json.decode(content, type=dict[str, str]) if content else {}
    except msgspec.MsgspecError:
        return {}
