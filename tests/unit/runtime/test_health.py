"""Health: what the pages say, over real HTTP on loopback, and what the listener does not put up with."""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from edgewright.runtime import health
from edgewright.runtime.health import Health, Limits, Listener, ListenError, Verdict, serve, summary
from edgewright.runtime.metrics import Metrics

LOOPBACK = "127.0.0.1"


@asynccontextmanager
async def listening(pages: list[web.RouteDef], *, limits: Limits = health.DEFAULT_LIMITS) -> AsyncIterator[Listener]:
    listener = await serve(pages, host=LOOPBACK, port=0, limits=limits)
    try:
        yield listener
    finally:
        await listener.close()


async def ask(listener: Listener, path: str, method: str = "GET") -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"http://{LOOPBACK}:{listener.port}{path}") as answer,
    ):
        return answer.status, await answer.text()


async def talk(listener: Listener, sent: bytes) -> bytes:
    """Send bytes as they are, and read until the other side closes."""
    reader, writer = await asyncio.open_connection(LOOPBACK, listener.port)
    try:
        writer.write(sent)
        async with asyncio.timeout(180):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(180):
        while not happened():  # noqa: ASYNC110 - nothing tells a client what the server holds
            await asyncio.sleep(0.005)


def broken() -> str | None:
    raise RuntimeError("no connection to https://me:hunter2@server")


async def test_a_program_without_checks_is_alive_and_ready() -> None:
    async with listening(Health().pages()) as listener:
        for path in ("/healthz", "/livez", "/readyz"):
            assert await ask(listener, path) == (200, "ok")


async def test_a_failing_readiness_check_is_named_and_does_not_kill_the_program() -> None:
    pages = Health()
    synced = False
    pages.add_readiness("lease", lambda: None)
    pages.add_readiness("cache pods", lambda: None if synced else "the first list\nhas not come")
    async with listening(pages.pages()) as listener:
        assert await ask(listener, "/readyz") == (503, "[-]cache pods failed: the first list has not come\n")
        assert await ask(listener, "/livez") == (200, "ok")
        synced = True
        assert await ask(listener, "/readyz") == (200, "ok")


async def test_verbose_lists_every_check_as_kubernetes_does() -> None:
    pages = Health()
    pages.add_readiness("lease", lambda: None)
    pages.add_readiness("server", lambda: "unreachable")
    async with listening(pages.pages()) as listener:
        assert await ask(listener, "/readyz?verbose") == (
            503,
            "[+]lease ok\n[-]server failed: unreachable\nreadyz check failed\n",
        )
        assert await ask(listener, "/livez?verbose") == (200, "livez check passed\n")


async def test_one_check_can_be_asked_for_by_name() -> None:
    pages = Health()
    pages.add_readiness("lease", lambda: None)
    pages.add_readiness("server", lambda: "unreachable")
    async with listening(pages.pages()) as listener:
        assert await ask(listener, "/readyz/lease") == (200, "ok")
        assert (await ask(listener, "/readyz/server"))[0] == 503
        assert (await ask(listener, "/readyz/nothing"))[0] == 404


async def test_a_check_that_raises_has_failed_and_shows_no_secret() -> None:
    pages = Health()
    pages.add_readiness("server", broken)
    assert pages.ready() == [Verdict("server", "RuntimeError: no connection to https://***@server")]
    assert pages.alive() == []
    async with listening(pages.pages()) as listener:
        status, text = await ask(listener, "/readyz")
    assert status == 503
    assert "hunter2" not in text


def test_a_check_of_the_same_name_is_refused() -> None:
    pages = Health()
    pages.add_readiness("loop", lambda: None)
    with pytest.raises(ValueError, match="a check named 'loop' already"):
        pages.add_readiness("loop", lambda: None)


@pytest.mark.parametrize(
    ("verdicts", "verbose", "expected"),
    [
        pytest.param([], False, (200, "ok"), id="none"),
        pytest.param([Verdict("a", None)], False, (200, "ok"), id="fine"),
        pytest.param([Verdict("a", "")], False, (503, "[-]a failed: \n"), id="an-empty-reason-is-a-failure"),
        pytest.param([Verdict("a", None)], True, (200, "[+]a ok\nlivez check passed\n"), id="verbose"),
    ],
)
def test_the_summary(verdicts: list[Verdict], verbose: bool, expected: tuple[int, str]) -> None:
    assert summary("livez", verdicts, verbose=verbose) == expected


async def test_metrics_are_served_with_their_content_type() -> None:
    metrics = Metrics()
    metrics.for_queue("flashjob").added()
    async with (
        listening(health.metrics_page(metrics)) as listener,
        aiohttp.ClientSession() as session,
        session.get(f"http://{LOOPBACK}:{listener.port}/metrics") as answer,
    ):
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert 'workqueue_adds_total{name="flashjob"} 1.0\n' in await answer.text()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["/readyz", "/nothing"])
async def test_only_get_and_head_are_allowed(method: str, path: str) -> None:
    async with listening(Health().pages()) as listener:
        assert await ask(listener, path, method) == (405, "only GET and HEAD\n")


async def test_head_has_the_status_and_no_body() -> None:
    async with listening(Health().pages()) as listener:
        assert await ask(listener, "/readyz", "HEAD") == (200, "")


async def test_another_page_is_not_found() -> None:
    async with listening(Health().pages()) as listener:
        assert (await ask(listener, "/"))[0] == 404
        assert (await ask(listener, "/metrics"))[0] == 404


async def test_a_page_that_fails_tells_strangers_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def page(_request: web.Request) -> web.Response:
        raise RuntimeError("inner detail")

    async with listening([web.get("/x", page)]) as listener:
        assert await ask(listener, "/x") == (500, "internal error\n")
    assert [record.getMessage() for record in caplog.records] == ["health page failed"]


async def test_a_connection_serves_one_request() -> None:
    async with listening(Health().pages()) as listener:
        request = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
        answer = await talk(listener, request + request)
    assert answer.count(b"HTTP/1.1 200") == 1
    assert b"connection: close" in answer.lower()


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Slow: ", id="half-a-header"),
        pytest.param(b"GET /li", id="half-a-line"),
    ],
)
async def test_a_slow_client_is_cut(sent: bytes) -> None:
    async with listening(Health().pages(), limits=Limits(seconds=0.2)) as listener:
        begun = time.monotonic()
        assert await talk(listener, sent) == b""
        assert time.monotonic() - begun > 0.1
        assert await ask(listener, "/livez") == (200, "ok")


async def test_a_client_that_goes_on_dripping_is_cut_all_the_same() -> None:
    async with listening(Health().pages(), limits=Limits(seconds=0.3)) as listener:
        reader, writer = await asyncio.open_connection(LOOPBACK, listener.port)
        end = asyncio.create_task(reader.read())
        writer.write(b"GET /livez HTTP/1.1\r\n")
        async with asyncio.timeout(180):
            while not end.done():
                writer.write(b"X: y\r\n")
                await asyncio.wait([end], timeout=0.02)
        assert isinstance(end.exception(), ConnectionResetError) or end.result() == b""
        writer.close()


async def test_a_client_that_does_not_read_is_cut() -> None:
    async def page(_request: web.Request) -> web.Response:
        return web.Response(body=bytes(64 << 20))

    async with listening([web.get("/big", page)], limits=Limits(seconds=0.3)) as listener:
        reader, writer = await asyncio.open_connection(LOOPBACK, listener.port, limit=1024)
        writer.write(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await reader.readexactly(1) == b"H"
        await until(lambda: listener.connections == 0)
        writer.transport.abort()


async def test_a_body_is_not_read() -> None:
    async with listening(Health().pages(), limits=Limits(seconds=600)) as listener:
        answer = await talk(listener, b"POST /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\nabc")
    assert answer.startswith(b"HTTP/1.1 405")


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", id="long-line"),
        pytest.param(b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 20_000 + b"\r\n\r\n", id="long-header"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 200 + b"\r\n", id="many-headers"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\r\n\r\n", id="tls"),
    ],
)
async def test_what_is_too_much_or_no_http_is_refused_without_a_line_in_the_log(
    sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(Health().pages()) as listener:
        answer = await talk(listener, sent)
    assert answer.startswith((b"HTTP/1.1 400", b"HTTP/1.0 400"))
    assert caplog.records == []


async def test_connections_beyond_the_limit_are_closed_at_once() -> None:
    async with listening(Health().pages(), limits=Limits(connections=2)) as listener:
        held = [await asyncio.open_connection(LOOPBACK, listener.port) for _ in range(2)]
        await until(lambda: listener.connections == 2)
        assert await talk(listener, b"") == b""
        for _, writer in held:
            writer.close()
        await until(lambda: listener.connections == 0)
        assert await ask(listener, "/livez") == (200, "ok")


async def test_closing_waits_for_nothing_that_is_under_way() -> None:
    started = asyncio.Event()

    async def page(_request: web.Request) -> web.Response:
        started.set()
        await asyncio.Event().wait()
        raise AssertionError

    listener = await serve([web.get("/hangs", page)], host=LOOPBACK, port=0, limits=Limits(seconds=600))
    _, idle = await asyncio.open_connection(LOOPBACK, listener.port)
    hanging, writer = await asyncio.open_connection(LOOPBACK, listener.port)
    writer.write(b"GET /hangs HTTP/1.1\r\nHost: x\r\n\r\n")
    await started.wait()
    async with asyncio.timeout(180):
        await listener.close()
    assert await hanging.read() == b""
    await listener.close()
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncio.open_connection(LOOPBACK, listener.port)
    idle.close()
    writer.close()


async def test_closing_does_not_wait_for_a_client_that_does_not_read() -> None:
    async def page(_request: web.Request) -> web.Response:
        return web.Response(body=bytes(64 << 20))

    async with listening([web.get("/big", page)]) as listener:
        reader, writer = await asyncio.open_connection(LOOPBACK, listener.port, limit=1024)
        writer.write(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await reader.readexactly(1) == b"H"
    received = 0
    try:
        while part := await reader.read(1 << 20):
            received += len(part)
    except ConnectionResetError:
        pass
    assert received < 64 << 20
    writer.close()


async def test_a_port_in_use_is_one_sentence() -> None:
    async with listening(Health().pages()) as listener:
        with pytest.raises(ListenError) as raised:
            await serve([], host=LOOPBACK, port=listener.port)
    sentence = f"cannot listen on 127.0.0.1:{listener.port}: another program listens there already"
    assert str(raised.value) == sentence


@pytest.mark.parametrize(
    ("host", "port", "words"),
    [
        pytest.param(LOOPBACK, 70_000, "from 0 to 65535", id="no-such-port"),
        pytest.param("192.0.2.1", 0, "does not have that address", id="not-our-address"),
        pytest.param("no such host", 0, "no such host", id="no-such-host"),
    ],
)
async def test_an_address_that_cannot_be_used_is_one_sentence(host: str, port: int, words: str) -> None:
    with pytest.raises(ListenError, match=words):
        await serve([], host=host, port=port)


async def test_no_port_is_off() -> None:
    assert await serve(Health().pages(), port=None) is None


async def test_without_a_host_every_address_is_served_on_one_port() -> None:
    listener = await serve(Health().pages(), port=0)
    try:
        assert listener.port > 0
        assert await ask(listener, "/livez") == (200, "ok")
    finally:
        await listener.close()


async def test_without_ipv6_the_listener_takes_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: False)
    listener = await serve(Health().pages(), port=0)
    try:
        assert await ask(listener, "/livez") == (200, "ok")
    finally:
        await listener.close()


async def test_where_ipv6_is_switched_off_the_listener_takes_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    create = socket.create_server

    def without_ipv6(address: tuple[str, int], **settings: Any) -> socket.socket:
        if settings.get("family") == socket.AF_INET6:
            raise OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address")
        return create(address, **settings)

    monkeypatch.setattr(socket, "has_dualstack_ipv6", lambda: True)
    monkeypatch.setattr(socket, "create_server", without_ipv6)
    listener = await serve(Health().pages(), port=0)
    try:
        assert await ask(listener, "/livez") == (200, "ok")
    finally:
        await listener.close()


async def test_a_port_in_use_is_named_without_a_host_too() -> None:
    listener = await serve(Health().pages(), port=0)
    try:
        with pytest.raises(ListenError, match=rf"^cannot listen on \*:{listener.port}: another program"):
            await serve([], port=listener.port)
    finally:
        await listener.close()


async def test_a_start_that_fails_gives_the_port_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async with listening([]) as listener:
        port = listener.port

    async def fails(_runner: web.AppRunner) -> None:
        raise RuntimeError("not today")

    with monkeypatch.context() as broken_runner:
        broken_runner.setattr(web.AppRunner, "setup", fails)
        with pytest.raises(RuntimeError, match="not today"):
            await serve([], host=LOOPBACK, port=port)
    await (await serve([], host=LOOPBACK, port=port)).close()
