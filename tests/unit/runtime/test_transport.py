"""The transport: retries, credentials, time limits, and the fence, down to the bytes on the wire."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

import pytest

from edgewright.runtime import errors
from edgewright.runtime.clock import VirtualClock, settle
from edgewright.runtime.config import Config
from edgewright.runtime.credentials import CredentialsError
from edgewright.runtime.errors import (
    ApiError,
    LeaseLost,
    NoCredentials,
    ServiceUnavailable,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from edgewright.runtime.fence import FencedSocket
from edgewright.runtime.transport import Transport
from tests.unit.runtime.fakeserver import (
    FakeServer,
    Json,
    Raw,
    Watch,
    fake_server,
    refusal,
    running,
    socket_server,
    until,
)

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def never(server: FakeServer) -> Callable[[object], Awaitable[Json]]:
    """An answer that does not come before the server closes."""

    async def wait(_: object) -> Json:
        await server.closing.wait()
        return Json({})

    return wait


class Rotating:
    """Credentials that are new after each refusal, or cannot be had."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.generation = 1
        self.problem = problem

    async def headers(self) -> Mapping[str, str]:
        if self.problem is not None:
            raise self.problem
        return {"Authorization": f"Bearer token-{self.generation}"}

    def refused(self) -> None:
        self.generation += 1


class Flips:
    """A fence that is open for so many questions and shut from then on."""

    def __init__(self, after: int) -> None:
        self.left = after
        self.asked = 0

    def remaining(self) -> float:
        self.asked += 1
        self.left -= 1
        return 10.0 if self.left >= 0 else 0.0


def transport_to(server: FakeServer, **settings: Any) -> Transport:
    return Transport(server.config, **settings)


async def in_virtual_time(clock: VirtualClock, work: Awaitable[Any]) -> Any:
    """Awaits something that sleeps on a virtual clock."""
    task = asyncio.ensure_future(work)
    await until(task.done, clock=clock)
    return await task


async def test_a_request_carries_what_it_should() -> None:
    counted: list[tuple[str, str]] = []
    async with fake_server() as server:
        config = Config(server=f"{server.url}/", credentials=Rotating())
        server.on("POST /x", Raw(b"answer", 201))
        transport = Transport(config, on_answer=lambda *answer: counted.append(answer))
        answer = await transport.request("POST", "/x", query={"a": "b c&d"}, body=b"{}", content_type="text/x")
        await transport.close()
        await transport.close()
        assert answer == b"answer"
        (asked,) = server.asked
        assert (asked.query, asked.body) == ({"a": "b c&d"}, b"{}")
        assert asked.headers["Content-Type"] == "text/x"
        assert asked.headers["Authorization"] == "Bearer token-1"
        assert asked.headers["Accept-Encoding"] == "identity"
        assert asked.headers["User-Agent"].startswith("edgewright/")
    assert counted == [("POST", "201")]


@pytest.mark.parametrize("code", [429, 503])
async def test_a_server_that_asks_to_come_back_later_is_asked_again_then(code: int) -> None:
    clock = VirtualClock()
    async with fake_server() as server:
        server.on("GET /x", refusal(code, retry_after="7"), refusal(code, retry_after="7"), Json({}))
        transport = transport_to(server, clock=clock)
        async with running(transport.request("GET", "/x")) as task:
            await until(lambda: len(server.asked) == 1)
            await until(lambda: clock._timers)
            await clock.advance(6.9)
            assert len(server.asked) == 1
            await clock.advance(0.2)
            await until(lambda: len(server.asked) == 2)
            await in_virtual_time(clock, asyncio.shield(task))
        assert len(server.asked) == 3
        assert clock.elapsed() >= 14
        await transport.close()


@pytest.mark.parametrize(
    ("answer", "expected", "requests"),
    [
        (refusal(429, retry_after="0"), TooManyRequests, 3),
        (refusal(503, retry_after="1"), ServiceUnavailable, 3),
        (refusal(429), TooManyRequests, 1),
        (refusal(503), ServiceUnavailable, 1),
        (refusal(429, retry_after="Wed, 21 Oct 2026 07:28:00 GMT"), TooManyRequests, 1),
        (refusal(429, retry_after="\u00b2"), TooManyRequests, 1),
        (refusal(500, retry_after="1"), errors.InternalError, 1),
        (refusal(404), errors.NotFound, 1),
        (Raw(b"<html>", 502), ApiError, 1),
        (Raw(b"", 302, {"Location": "/elsewhere"}), ApiError, 1),
    ],
    ids=[
        *("429", "503", "429 without a time", "503 without a time", "a date", "no number", "500", "404", "a page"),
        "a redirect",
    ],
)
async def test_what_is_repeated_and_how_often(answer: Json, expected: type[ApiError], requests: int) -> None:
    clock = VirtualClock()
    async with fake_server() as server:
        server.on("PUT /x", answer)
        transport = transport_to(server, retries=2, clock=clock)
        with pytest.raises(expected) as caught:
            await in_virtual_time(clock, transport.request("PUT", "/x", body=b"{}"))
        assert type(caught.value) is expected
        assert len(server.asked) == requests
        assert caught.value.code == answer.status
        await transport.close()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_write_that_is_redirected_was_not_carried_out(status: int) -> None:
    async with fake_server() as server:
        server.on("POST /x", Raw(b"", status, {"Location": "/login"}))
        server.on("GET /login", Json({}))
        server.on("POST /login", Json({}))
        transport = transport_to(server)
        with pytest.raises(ApiError, match=f"POST /x: {status}"):
            await transport.request("POST", "/x", body=b"{}")
        assert len(server.asked) == 1
        await transport.close()


async def test_a_long_retry_after_is_cut_to_half_a_minute() -> None:
    clock = VirtualClock()
    async with fake_server() as server:
        server.on("GET /x", refusal(429, retry_after="9" * 30), Json({}))
        transport = transport_to(server, clock=clock)
        await in_virtual_time(clock, transport.request("GET", "/x"))
        assert 30 <= clock.elapsed() < 32
        await transport.close()


@pytest.mark.parametrize("again", [200, 401], ids=["then accepted", "refused again"])
async def test_a_refused_token_is_replaced_once(again: int) -> None:
    credentials = Rotating()
    async with fake_server() as server:
        server.on("GET /x", refusal(401), Json({}, again))
        transport = Transport(Config(server=server.url, credentials=credentials))
        if again == 200:
            await transport.request("GET", "/x")
        else:
            with pytest.raises(Unauthorized):
                await transport.request("GET", "/x")
        assert [asked.headers["Authorization"] for asked in server.asked] == ["Bearer token-1", "Bearer token-2"]
        await transport.close()


async def test_credentials_that_cannot_be_had_end_the_request_with_an_error_of_ours() -> None:
    async with fake_server() as server:
        transport = Transport(Config(server=server.url, credentials=Rotating(CredentialsError("user x: no token"))))
        with pytest.raises(NoCredentials, match="user x: no token"):
            await transport.request("GET", "/x")
        with pytest.raises(NoCredentials):
            async with transport.stream("/x", {}, seconds=5):
                pass
        assert server.asked == []
        await transport.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"no HTTP at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnot a size\r\nxx\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
        b"HTTP/1.1 200",
    ],
    ids=["hangs up", "garbage", "too short", "wrong chunk", "cut chunk", "cut head"],
)
async def test_an_answer_that_breaks_off_is_unreachable_and_not_repeated(answer: bytes) -> None:
    counted: list[tuple[str, str]] = []
    async with socket_server(answer) as server:
        transport = Transport(Config(server=server.url), on_answer=lambda *each: counted.append(each))
        with pytest.raises(Unreachable, match="PATCH /x at http://127"):
            await transport.request("PATCH", "/x", body=b"{}")
        await transport.close()
        assert server.connections == 1
    assert counted == [("PATCH", "<error>")]


@pytest.mark.parametrize(
    "body",
    [b"not a size\r\nxx\r\n", b"5\r\nab", b"3\r\nabc\r\nzz\r\n"],
    ids=["wrong chunk", "cut chunk", "second chunk wrong"],
)
async def test_a_stream_that_breaks_off_is_unreachable(body: bytes) -> None:
    async with socket_server(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body) as server:
        transport = Transport(Config(server=server.url))

        async def read() -> None:
            async with transport.stream("/x", {"watch": "true"}, seconds=5) as content:
                async for _ in content:
                    pass

        with pytest.raises(Unreachable):
            await read()
        await transport.close()


async def test_nobody_listening_is_unreachable_and_named() -> None:
    async with socket_server(OK) as server:
        url = server.url
    transport = Transport(Config(server=url))
    with pytest.raises(Unreachable, match=url):
        await transport.request("GET", "/x")
    await transport.close()


async def test_a_server_that_does_not_answer_is_given_up() -> None:
    async with fake_server() as server:
        server.on("GET /x", never(server))
        transport = transport_to(server)
        with pytest.raises(Unreachable, match="no answer in time"):
            await transport.request("GET", "/x", timeout=0.05)
        with pytest.raises(Unreachable, match="no answer in time"):
            async with transport.stream("/x", {}, seconds=0.05):
                pass
        await transport.close()


async def test_a_stream_that_is_refused_raises_and_drops_the_token() -> None:
    credentials, counted = Rotating(), list[tuple[str, str]]()
    async with fake_server() as server:
        server.on("GET /x", refusal(401), refusal(403), Watch(b"data", end="close"))
        config = Config(server=server.url, credentials=credentials)
        transport = Transport(config, on_answer=lambda *answer: counted.append(answer))
        for expected in (Unauthorized, errors.Forbidden):
            with pytest.raises(expected):
                async with transport.stream("/x", {}, seconds=5):
                    pass
        async with transport.stream("/x", {}, seconds=5) as content:
            assert b"".join([part async for part in content]) == b"\ndata"
        await transport.close()
        assert [asked.headers["Authorization"][-1] for asked in server.asked] == ["1", "2", "2"]
    assert counted == [("WATCH", "401"), ("WATCH", "403"), ("WATCH", "200")]


async def test_a_plain_server_is_asked_through_the_proxy() -> None:
    async with fake_server() as proxy:
        proxy.on("GET /x", Json({"through": "proxy"}))
        transport = Transport(Config(server="http://server.invalid:80", proxy=proxy.url))
        assert await transport.request("GET", "/x") == b'{"through":"proxy"}'
        await transport.close()


# --- the fence -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [None, b"{}"], ids=["without a body", "with a body"])
async def test_nothing_is_sent_and_nothing_is_opened_once_the_fence_is_shut(body: bytes | None) -> None:
    async with socket_server(OK) as server:
        transport = Transport(Config(server=server.url), fence=Flips(0))
        with pytest.raises(LeaseLost):
            await transport.request("PATCH", "/x", body=body)
        await transport.close()
        assert (server.connections, server.received) == (0, b"")


async def questions(body: bytes | None) -> int:
    """How many times a request that goes well asks the fence."""
    fence = Flips(1000)
    async with socket_server(OK) as server:
        transport = Transport(Config(server=server.url), fence=fence)
        assert await transport.request("PATCH", "/x", body=body) == b"{}"
        await transport.close()
        assert server.received.startswith(b"PATCH /x")
    return fence.asked


@pytest.mark.parametrize("body", [None, b"{}", b"x" * 200_000], ids=["without a body", "small", "large"])
async def test_a_fence_that_shuts_at_any_question_lets_no_whole_request_out(body: bytes | None) -> None:
    asked = await questions(body)
    assert asked >= 3, "once before, once with the connection, once at the socket"
    for number in range(asked):
        async with socket_server(OK) as server:
            transport = Transport(Config(server=server.url), fence=Flips(number), timeout=5)
            with pytest.raises((LeaseLost, Unreachable)):
                await transport.request("PATCH", "/x", body=body)
            await transport.close()
            # A large body leaves in several pieces; of a small request not one byte does.
            assert len(server.received) < len(body or b"") or server.received == b""


async def test_an_idle_connection_does_not_get_around_the_fence() -> None:
    fence = Flips(1000)
    async with socket_server(OK, OK) as server:
        transport = Transport(Config(server=server.url), fence=fence)
        await transport.request("PATCH", "/x", body=b"{}")
        sent = server.received
        for number in (1, 2, 3):
            fence.left = number - 1
            with pytest.raises((LeaseLost, Unreachable)):
                await transport.request("PATCH", "/x", body=b"{}")
        await transport.close()
        assert server.received == sent


class Gate:
    """A fence that a test opens and shuts."""

    left = 10.0

    def remaining(self) -> float:
        return self.left


@pytest.mark.parametrize("alarm", ["free", "used by the program"])
@pytest.mark.parametrize("method", ["send", "sendmsg"])
async def test_the_socket_itself_refuses(method: str, alarm: str) -> None:
    before = signal.signal(signal.SIGALRM, signal.SIG_DFL if alarm == "free" else signal.SIG_IGN)
    gate = Gate()
    try:
        async with socket_server(OK) as server:
            port = int(server.url.rpartition(":")[2])
            with FencedSocket(socket.AF_INET, socket.SOCK_STREAM, 0, fence=gate) as made:
                made.setblocking(False)
                await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", port))
                send: Callable[[Any], int] = getattr(made, method)
                data: Any = b"x" if method == "send" else [b"x"]
                assert send(data) == 1
                gate.left = 0.0
                with pytest.raises(ConnectionAbortedError):
                    send(data)
            await until(lambda: server.received)
            assert server.received == b"x"
    finally:
        signal.signal(signal.SIGALRM, before)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0), "no alarm is left behind"


async def test_a_transport_that_is_closed_in_mid_request_ends_it() -> None:
    async with fake_server() as server:
        server.on("GET /x", never(server))
        transport = transport_to(server)
        task = asyncio.create_task(transport.request("GET", "/x"))
        await until(lambda: server.asked)
        await transport.close()
        with pytest.raises(Unreachable):
            await task


async def test_a_transport_that_is_closed_while_a_stream_is_read_ends_it() -> None:
    async with fake_server() as server:
        server.on("GET /x", Watch(b"data"))
        transport = transport_to(server)

        async def read() -> None:
            async with transport.stream("/x", {}, seconds=60) as content:
                await anext(content)
                await transport.close()
                async for _ in content:
                    pass

        with pytest.raises(Unreachable):
            await read()


async def test_a_request_under_a_fence_ends_with_the_lease() -> None:
    class Short:
        def remaining(self) -> float:
            return 0.05

    async with fake_server() as server:
        server.on("GET /x", never(server))
        transport = transport_to(server, fence=Short())
        with pytest.raises(Unreachable, match="no answer in time"):
            await transport.request("GET", "/x")
        await transport.close()


async def test_a_fence_that_shuts_while_waiting_to_retry_stops_the_retry() -> None:
    clock = VirtualClock()
    fence = Flips(1000)
    async with fake_server() as server:
        server.on("PUT /x", refusal(429, retry_after="5"))
        transport = transport_to(server, fence=fence, clock=clock)
        async with asyncio.timeout(180):
            task = asyncio.create_task(transport.request("PUT", "/x", body=b"{}"))
            await until(lambda: len(server.asked) == 1 and clock._timers)
            fence.left = 0
            await clock.advance(10)
            with pytest.raises(LeaseLost):
                await task
        assert len(server.asked) == 1
        await transport.close()


@pytest.mark.parametrize(("method", "connections"), [("GET", 2), ("PATCH", 1)])
async def test_only_a_read_is_sent_again_when_its_connection_had_gone_stale(method: str, connections: int) -> None:
    opened = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal opened
        opened += 1
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        with suppress(asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")  # the second request on a connection is read, and not answered
        writer.transport.abort()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listener:
        transport = Transport(Config(server=f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"))
        assert await transport.request("GET", "/x") == b"{}"
        if method == "GET":
            assert await transport.request(method, "/x") == b"{}"
        else:
            with pytest.raises(Unreachable):
                await transport.request(method, "/x", body=b"")
        assert opened == connections
        await transport.close()
        await settle()
