"""Logs on their way to syslog: what a line looks like, what waits, and what a restart repeats."""

from __future__ import annotations

import asyncio
import random
import re
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from edgewright.agent.events import Events
from edgewright.agent.state import State
from edgewright.agent.surroundings import Surroundings
from edgewright.agent.syslog import Queue, Syslog, address_of, instant, line_of, wanted
from edgewright.api.edge_protocol import (
    DeviceConfiguration,
    DeviceConfigurationMessage,
    HeartbeatConfiguration,
    LogsCollection,
    SyslogConfiguration,
    Workload,
)
from edgewright.containers import Podman
from tests.harness.waiting import wait_until_async
from tests.unit.agent.test_agent import HastyClock
from tests.unit.containers.fake_podman import FakePodman


class Receiver:
    """A syslog server: every line that it got."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.port = 0
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()
        await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        with suppress(ConnectionError):
            while line := await reader.readline():
                self.lines.append(line.decode().rstrip("\n"))


def configured(
    port: int, *, protocol: str = "tcp", kilobytes: int = 12, follow: bool = True
) -> DeviceConfigurationMessage:
    server = SyslogConfiguration(address=f"127.0.0.1:{port}", protocol=protocol)
    target = LogsCollection(kind="syslog", buffer_size=kilobytes, syslog_config=server)
    return DeviceConfigurationMessage(
        configuration=DeviceConfiguration(heartbeat=HeartbeatConfiguration(), log_collection={"site": target}),
        workloads=(Workload(name="web", log_collection="site" if follow else ""), Workload(name="quiet")),
    )


class Stage:
    def __init__(self, podman: FakePodman, receiver: Receiver, folder: Path) -> None:
        self.podman, self.receiver, self.folder = podman, receiver, folder
        self.events = Events()
        self.configuration = DeviceConfigurationMessage()
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        around = Surroundings(
            device="dev-1",
            podman=Podman(self.podman.socket),
            state=State(self.folder),
            events=self.events,
            clock=HastyClock(),
            rng=random.Random(1),
        )
        self.task = asyncio.create_task(Syslog(around).run(lambda: self.configuration))

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            with suppress(asyncio.CancelledError):
                await self.task

    def prints(self, text: str, second: int) -> None:
        self.podman.lines.setdefault("web-c", []).append((f"2026-01-01T00:00:{second:02}.5Z", text))

    @property
    def said(self) -> list[str]:
        return [line.rpartition(": ")[2] for line in self.receiver.lines]


@asynccontextmanager
async def stage(tmp_path: Path) -> AsyncIterator[Stage]:
    async with FakePodman() as podman:
        receiver = Receiver()
        await receiver.start()
        podman.add_pod("web", labels={"edgewright.dev/device": "dev-1"})
        podman.pods["web"]["Containers"].append({"Id": "c", "Names": "web-c", "Status": "running"})
        podman.add_pod("quiet", labels={"edgewright.dev/device": "dev-1"})
        on = Stage(podman, receiver, tmp_path)
        try:
            yield on
        finally:
            await on.stop()
            await receiver.stop()
            podman.lines.clear()


async def test_lines_reach_the_server_as_published_agents_send_them_and_a_restart_repeats_none(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        on.configuration = configured(on.receiver.port)
        on.prints("one", 1)
        on.start()
        await wait_until_async(lambda: on.said == ["one"], what="a line")
        assert re.fullmatch(r"<6>2026-01-01T00:00:01Z dev-1 web\[\d+\]: c: one", on.receiver.lines[0])
        on.prints("two", 2)
        await wait_until_async(lambda: on.said == ["one", "two"], what="two lines")
        await on.stop()
        on.prints("three", 3)
        on.start()
        await wait_until_async(lambda: on.said == ["one", "two", "three"], what="the third, and no repetition")
        assert on.podman.since[-1] == "2026-01-01T00:00:02.5Z"
        on.configuration = configured(on.receiver.port, follow=False)
        note = on.folder / "syslog.json"
        await wait_until_async(lambda: note.read_text() == "{}", what="it is not followed any more")
        on.prints("four", 4)
        on.configuration = DeviceConfigurationMessage()
        await on.stop()
        assert "four" not in on.said


async def test_a_server_that_is_unavailable_at_the_start_or_goes_away_later_gets_the_lines_when_it_is_back(
    tmp_path: Path,
) -> None:
    async with stage(tmp_path) as on:
        await on.receiver.stop()
        on.configuration = configured(on.receiver.port)
        on.prints("one", 1)
        on.start()
        await wait_until_async(lambda: "syslog site" in on.events.problems, what="it is missed")
        await on.receiver.start()
        await wait_until_async(lambda: on.said == ["one"], what="the line")
        await wait_until_async(lambda: on.events.problems == {}, what="all is well")
        await on.receiver.stop()
        for number in range(2, 30):
            on.prints(f"n{number}", number)
        await wait_until_async(lambda: "syslog site" in on.events.problems, what="it is missed again")
        await on.receiver.start()
        await wait_until_async(lambda: "n29" in on.said, what="the last line")


async def test_what_does_not_fit_is_dropped_and_counted(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        await on.receiver.stop()
        on.configuration = configured(on.receiver.port, kilobytes=1)
        for number in range(50):
            on.prints("x" * 90 + str(number), number)
        on.start()
        await wait_until_async(lambda: "syslog site" in on.events.problems, what="it is missed")
        await wait_until_async(lambda: on.podman.since, what="the container is followed")
        await on.receiver.start()
        await wait_until_async(lambda: any(line.endswith("x49") for line in on.said), what="the newest line")
        (dropped,) = [line for line in on.said if "dropped" in line]
        assert int(dropped.split()[0]) > 30


async def test_datagrams_are_sent_where_the_server_takes_those(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
            server.bind(("127.0.0.1", 0))
            server.settimeout(60)
            on.configuration = configured(server.getsockname()[1], protocol="UDP")
            on.prints("one", 1)
            on.start()
            assert (await asyncio.to_thread(server.recv, 1000)).endswith(b"c: one")


async def test_podman_that_is_unavailable_is_waited_for(tmp_path: Path) -> None:
    async with stage(tmp_path) as on:
        await on.podman.stop()
        on.configuration = configured(on.receiver.port)
        on.prints("one", 1)
        on.start()
        await asyncio.sleep(0)
        await on.podman.start()
        await wait_until_async(lambda: on.said == ["one"], what="the line")


def test_the_queue_keeps_the_newest() -> None:
    gone: list[int] = []
    queue = Queue(10)
    for number in range(4):
        queue.add(b"four", lambda number=number: gone.append(number))  # type: ignore[misc]
    assert (gone, queue.dropped, queue.first()) == ([0, 1], 2, b"four")
    queue.take()
    queue.take()
    assert queue.first() is None
    assert not queue.news.is_set()


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("1970-01-01T00:00:01Z", (1, 0)),
        ("1970-01-01T00:00:01.1Z", (1, 100_000_000)),
        ("1970-01-01T01:00:01.12+01:00", (1, 120_000_000)),
        ("yesterday", (0, 0)),
        ("xZ", (0, 0)),
    ],
)
def test_times_are_compared_as_times(time: str, expected: tuple[int, int]) -> None:
    assert instant(time) == expected


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("h:1514", ("h", 1514, False)),
        ("h", ("h", 514, False)),
        ("[::1]:9", ("::1", 9, False)),
        ("[::1]", ("::1", 514, False)),
    ],
)
def test_the_address_of_a_server(address: str, expected: tuple[str, int, bool]) -> None:
    server = SyslogConfiguration(address=address, protocol="tcp")
    assert address_of(LogsCollection(kind="syslog", syslog_config=server)) == expected


def test_a_line_is_cut_and_has_no_null_in_it() -> None:
    line = line_of(time="xZ", device="d", workload="w", pid=1, container="c", text=b"a\0" + b"x" * 9000)
    assert line.startswith(b"<6>1970-01-01T00:00:00Z d w[1]: c: a x")
    assert len(line) < 8300


def test_a_workload_with_an_unknown_target_is_not_followed() -> None:
    assert wanted(configured(1)) == {"web": "site"}
    assert wanted(DeviceConfigurationMessage(workloads=(Workload(name="web", log_collection="site"),))) == {}
