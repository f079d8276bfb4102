"""What a client cannot do to the server: send for ever, send too much, never ask, or have it fail in silence."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from yarl import URL

from edgewright.local.history import Expired
from edgewright.local.serving import bodies, listener, server
from tests.harness.waiting import wait_until_async
from tests.unit.local.serving.inprocess import Api, config_map, serving

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@asynccontextmanager
async def connected(
    api: Api, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection on which a test says what it wants, as the administrator unless it brings its own context."""
    url = URL(api.url)
    reader, writer = await asyncio.open_connection(url.host, url.port, ssl=tls or api.tls)
    try:
        yield reader, writer
    finally:
        writer.close()
        with suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()


def stranger(api: Api) -> AbstractAsyncContextManager[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection of somebody without a certificate."""
    anybody = ssl.create_default_context()
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    return connected(api, anybody)


def head(method: str, path: str, *lines: str) -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *lines, "", ""]).encode()


async def answered(reader: asyncio.StreamReader) -> int:
    """The status of the next answer."""
    return int((await asyncio.wait_for(reader.readline(), 60)).split()[1])


async def test_a_body_that_does_not_come_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_BODY_SECONDS", 0.05)
    async with serving(tmp_path) as api, connected(api) as (reader, writer):
        writer.write(head("POST", CONFIG_MAPS, "Content-Type: application/json", "Content-Length: 100") + b"{")
        assert await answered(reader) == 408


async def test_a_body_that_says_or_turns_out_to_be_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "LARGEST_BODY", 1000)
    async with serving(tmp_path) as api:
        async with connected(api) as (reader, writer):
            writer.write(head("POST", CONFIG_MAPS, "Content-Length: 100000000000"))
            assert await answered(reader) == 413
        async with connected(api) as (reader, writer):
            writer.write(head("POST", CONFIG_MAPS, "Transfer-Encoding: chunked") + b"7D0\r\n" + b" " * 2000 + b"\r\n")
            assert await answered(reader) == 413


async def test_a_connection_that_asks_nothing_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(tmp_path) as api:
        monkeypatch.setattr(listener, "_FIRST_REQUEST_SECONDS", 0.05)
        async with connected(api) as (reader, _):
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await asyncio.wait_for(reader.readexactly(1), 60)
        assert (await api("GET", "/version")).code == 200  # the one that has asked before is still there


async def test_a_connection_too_many_is_closed_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as api:
        assert (await api("GET", "/version")).code == 200
        monkeypatch.setattr(listener, "MAX_CONNECTIONS", 1)
        with pytest.raises(ConnectionError):
            async with connected(api) as (reader, _):
                await reader.readexactly(1)
        assert (await api("GET", "/version")).code == 200


async def test_who_is_not_known_gets_one_answer_per_connection(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, stranger(api) as (reader, writer):
        writer.write(head("GET", "/livez"))
        assert await answered(reader) == 200
        await asyncio.wait_for(reader.read(), 60)  # to the end, which comes with the answer


async def test_the_oldest_stranger_gives_way_and_those_who_are_known_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as api:
        monkeypatch.setattr(listener, "MAX_STRANGERS", 1)
        async with connected(api) as (known, asking), stranger(api) as (oldest, _), stranger(api) as (newest, writer):
            with suppress(ConnectionError):
                assert await asyncio.wait_for(oldest.read(), 60) == b""
            writer.write(head("GET", "/livez"))
            assert await answered(newest) == 200
            asking.write(head("GET", "/version"))
            assert await answered(known) == 200


async def test_a_handshake_that_is_never_begun_gives_way_to_a_newer_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as api:
        monkeypatch.setattr(listener, "MAX_HANDSHAKES", 1)
        host, port = "127.0.0.1", int(api.url.rpartition(":")[2])
        silent, closing = await asyncio.open_connection(host, port)
        async with connected(api) as (reader, writer):
            writer.write(head("GET", "/version"))
            assert await answered(reader) == 200
        with suppress(ConnectionError):
            assert await asyncio.wait_for(silent.read(), 60) == b""
        closing.close()


async def test_what_is_not_http_is_refused_and_not_written_to_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path) as api, connected(api) as (reader, writer):
        writer.write(b"\x16\x03 hello\r\n\r\n")
        assert await answered(reader) == 400
    assert caplog.records == []


async def test_a_fault_of_the_server_is_told_as_one_and_written_to_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: Any) -> Any:
        raise LookupError("something of ours")

    async with serving(tmp_path) as api:
        monkeypatch.setattr(api.store, "get", broken)
        answer = await api("GET", f"{CONFIG_MAPS}/a")
        assert (answer.code, answer.body["reason"]) == (500, "InternalError")
        assert "something of ours" not in json.dumps(answer.body)
    assert any("something of ours" in str(each.exc_info) for each in caplog.records)


async def test_one_watch_too_many_is_told_to_come_back_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_WATCHES", 1)
    async with serving(tmp_path) as api:
        await api.made(CONFIG_MAPS, config_map("a"))
        path = f"{CONFIG_MAPS}?watch=1"
        async with api.session.get(api.url + path, ssl=api.tls) as open_one:
            await open_one.content.readline()
            refused = await api("GET", path)
            assert (refused.code, refused.body["reason"]) == (429, "TooManyRequests")
            assert int(refused.headers["Retry-After"]) > 0

        async def free() -> bool:
            async with api.session.get(api.url + path, ssl=api.tls) as again:
                return again.status == 200

        await wait_until_async(free, what="the place of the watch that ended is free")


async def test_a_watcher_that_does_not_read_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_READ_SECONDS", 0.1)
    async with serving(tmp_path) as api:
        await api.made(CONFIG_MAPS, config_map("a", x="y" * 500_000))
        async with connected(api) as (reader, writer):
            writer.write(head("GET", f"{CONFIG_MAPS}?watch=1"))
            await asyncio.wait_for(reader.readline(), 60)

            async def cut() -> bool:
                patch = {"data": {"n": str(api.store.revision)}}
                await api("PATCH", f"{CONFIG_MAPS}/a", patch, media="application/merge-patch+json")
                return not api.store.history._subscriptions

            await wait_until_async(cut, what="the watch is over")


async def test_a_watch_of_a_history_that_is_lost_meanwhile_ends_with_410(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path) as api:
        await api.made(CONFIG_MAPS, config_map("a"))

        async def lost(*_: Any) -> Any:
            raise Expired("too old resource version")

        async with api.session.get(f"{api.url}{CONFIG_MAPS}?watch=1", ssl=api.tls) as response:
            await response.content.readline()
            subscription = next(iter(api.store.history._subscriptions))  # the only watch
            monkeypatch.setattr(type(subscription), "__anext__", lost)
            await api.made(CONFIG_MAPS, config_map("b"))
            lines = [json.loads(line) async for line in response.content]
        assert [each["type"] for each in lines] == ["ADDED", "ERROR"]
        assert lines[-1]["object"]["code"] == 410
