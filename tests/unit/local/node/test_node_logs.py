"""Logs: read whole, from the end, from a time, while they are turned over, and served as a kubelet does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from edgewright.local.access.authentication import User
from edgewright.local.access.entrance import Entrance
from edgewright.local.node import shim
from edgewright.local.node.logfiles import LogReader, Wanted, last_lines, parse, selected, shown
from edgewright.local.node.logserver import Found, LogServer, NoLog, wanted_from
from edgewright.local.node.node import may_use
from edgewright.runtime.clock import SystemClock
from tests.unit.local.node import fakeapi
from tests.unit.local.node.fakeapi import FakeApi

LINES = [
    b"2026-01-01T00:00:01.000000000Z stdout F one",
    b"2026-01-01T00:00:02.000000000Z stdout P tw",
    b"2026-01-01T00:00:02.000000000Z stdout F o",
    b"2026-01-01T00:00:03.000000000Z stderr F three",
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.write_bytes(b"\n".join([*LINES, b""]))
    return path


def text(path: Path, **wanted: object) -> bytes:
    settings = Wanted(**wanted)  # type: ignore[arg-type]
    with LogReader(path) as reader:
        return b"".join(shown(selected(reader.entries(), settings), timestamps=settings.timestamps))


def test_a_log_is_shown_without_what_the_runtime_added(log: Path) -> None:
    assert text(log) == b"one\ntwo\nthree\n"
    assert text(log, tail=2) == b"two\nthree\n"
    assert text(log, tail=0) == b""
    assert text(log, since="2026-01-01T00:00:02.5") == b"three\n"
    assert text(log, tail=2, timestamps=True) == (
        b"2026-01-01T00:00:02.000000000Z two\n2026-01-01T00:00:03.000000000Z three\n"
    )


def test_a_line_that_is_cut_off_is_left_out(log: Path) -> None:
    assert parse(b"2026 stdout") is None
    assert parse(b"2026 stdout X text") is None
    with log.open("ab") as file:
        file.write(b"nonsense\n2026-01-01T00:00:04.0Z stdout P half\n2026-01-01T00:")
    assert text(log, tail=1) == b"half"


def test_a_log_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert text(tmp_path / "log") == b""
    assert last_lines(tmp_path / "log", lines=5, limit=10) == ""


def test_the_last_lines_are_cut_to_the_last_bytes(log: Path) -> None:
    assert last_lines(log, lines=2, limit=100) == "two\nthree\n"
    assert last_lines(log, lines=2, limit=4) == "ree\n"


def test_a_reader_follows_a_log_over_its_turning_over(tmp_path: Path) -> None:
    path = tmp_path / "log"
    writer = shim.Log(str(path), 1000)
    seen: list[bytes] = []
    with LogReader(path) as reader:
        for number in range(200):
            writer.take("stdout", f"{number}\n".encode())
            if number % 7 == 0:
                seen += [entry.text for entry in reader.entries()]
        seen += [entry.text for entry in reader.entries()]
    writer.close()
    assert seen == [str(number).encode() for number in range(200)]
    with LogReader(path) as again:
        kept = [entry.text for entry in again.entries()]
    assert kept == seen[-len(kept) :]
    assert len(kept) > 20


def test_a_reader_waits_for_a_log_that_is_not_there_yet(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with LogReader(path) as reader:
        assert list(reader.entries()) == []
        path.write_bytes(LINES[0] + b"\n")
        assert [entry.text for entry in reader.entries()] == [b"one"]


NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_the_options_of_a_request() -> None:
    assert wanted_from({}, now=NOW) == Wanted()
    query = {"tailLines": "3", "limitBytes": "9", "timestamps": "true", "sinceSeconds": "60"}
    since = "2025-12-31T23:59:00.000000000Z"
    assert wanted_from(query, now=NOW) == Wanted(tail=3, limit=9, timestamps=True, since=since)
    assert wanted_from({"sinceTime": "2026-01-01T01:00:00+01:00"}, now=NOW).since == "2026-01-01T00:00:00.000000000Z"


@pytest.mark.parametrize("query", [{"tailLines": "-1"}, {"limitBytes": "0"}, {"sinceSeconds": "x"}, {"sinceTime": "?"}])
def test_a_wrong_option_is_said(query: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        wanted_from(query, now=NOW)


Get = Callable[[str], Coroutine[None, None, tuple[int, bytes]]]


@asynccontextmanager
async def served(find: Callable[[str, str, str, bool], Found | NoLog]) -> AsyncIterator[Get]:
    server = LogServer(find, tls=None, host="127.0.0.1", port=0, clock=SystemClock())
    await server.start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{server.port}") as session:

        async def get(path: str) -> tuple[int, bytes]:
            async with session.get(path) as answer:
                return answer.status, await answer.read()

        try:
            yield get
        finally:
            await server.close()


async def test_logs_are_served_by_name(log: Path) -> None:
    asked = []

    def find(*what: object) -> Found | NoLog:
        asked.append(what)
        return Found(log, lambda: False) if what[1] == "pod" else NoLog("there is none", status=404)

    async with served(find) as get:
        assert await get("/healthz") == (200, b"ok")
        assert await get("/containerLogs/ns/pod/main") == (200, b"one\ntwo\nthree\n")
        assert await get("/containerLogs/ns/pod/main?limitBytes=5&follow=true") == (200, b"one\nt")
        assert await get("/containerLogs/ns/pod/main?follow=1&previous=true") == (200, b"one\ntwo\nthree\n")
        assert await get("/containerLogs/ns/other/main") == (404, b"there is none")
        assert (await get("/containerLogs/ns/pod/main?tailLines=no"))[0] == 400
    assert asked[0] == ("ns", "pod", "main", False)
    assert asked[2] == ("ns", "pod", "main", True)


async def test_a_follower_hears_what_comes_until_the_container_ends(log: Path) -> None:
    state = {"running": True}

    async def go_on() -> None:
        with log.open("ab") as file:
            file.write(b"2026-01-01T00:00:09.0Z stdout F more\n")
        state["running"] = False

    async with served(lambda *_: Found(log, lambda: state["running"])) as get:
        following = asyncio.create_task(get("/containerLogs/ns/pod/main?follow=true&tailLines=1"))
        await asyncio.sleep(0)
        await go_on()
        status, said = await following
        assert status == 200
        assert said in {b"more\n", b"three\nmore\n"}, "the tail is counted from when the request came"


async def test_a_server_that_was_not_started_can_be_closed() -> None:
    await LogServer(lambda *_: NoLog(""), tls=None, host="127.0.0.1", port=0, clock=SystemClock()).close()


async def test_a_certificate_that_is_trusted_reads_no_logs_unless_its_user_may(tmp_path: Path, log: Path) -> None:
    entrance = Entrance(tmp_path / "data", host="127.0.0.1", clock=SystemClock())
    asked = []

    async def may(user: User, part: str) -> bool:
        assert part == "log"
        asked.append(user.name)
        return "system:masters" in user.groups

    server = LogServer(
        lambda *_: Found(log, lambda: False),
        tls=entrance.node_logs("edge"),
        host="127.0.0.1",
        port=0,
        clock=SystemClock(),
        may=may,
    )
    await server.start()
    try:
        async with aiohttp.ClientSession(f"https://127.0.0.1:{server.port}") as session:
            for tls, status in ((entrance.logs_client, 200), (entrance.node("other"), 403)):
                async with session.get("/containerLogs/ns/pod/main", ssl=tls) as answer:
                    assert answer.status == status
    finally:
        await server.close()
    assert asked == ["kube-apiserver-kubelet-client", "system:node:other"]


class Reviews(FakeApi):
    """An API server that lets `reader` read logs."""

    def _post(self, path: str, body: Any) -> dict[str, Any]:
        assert path == "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        assert body["spec"]["resourceAttributes"]["name"] == "edge"
        return {**body, "status": {"allowed": body["spec"]["user"] == "reader"}}


async def test_the_api_server_says_who_may_use() -> None:
    client = Reviews().client()
    assert await may_use(client, "edge", User(name="reader"))
    assert not await may_use(client, "edge", User(name="other"))
    assert await may_use(client, "edge", User(name="admin", groups=("system:masters",)))


async def test_who_cannot_be_asked_about_reads_nothing() -> None:
    api = FakeApi()
    api.failures.append(("POST", "/subjectaccessreviews", fakeapi.refusal(403, "Forbidden")))
    assert not await may_use(api.client(), "edge", User(name="reader"))


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("2026-01-01T12:00:00.123456789Z", "2026-01-01T12:00:00.123456789Z"),
        ("2026-01-01T12:00:00.123456789+00:00", "2026-01-01T12:00:00.123456789Z"),
        ("2026-01-01T12:00:00.123456789+02:00", "2026-01-01T10:00:00.123456789Z"),
        ("2026-01-01T22:30:00.1-03:30", "2026-01-02T02:00:00.1Z"),
        ("", ""),
    ],
)
def test_the_times_of_podman_are_read_in_utc(written: str, read: str) -> None:
    entry = parse(f"{written} stdout F text".encode())
    assert entry is not None
    assert entry.time == read
