"""The light HTTP client: whole and streamed answers, kept connections, limits, and every way a server can misbehave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from edgewright.devices.http import Origin, Session, TooLong, origin_of, request

HELLO = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Name: Value\r\n\r\nhello"


class Server:
    """Answers each request on a connection with the next of its answers; None closes the connection."""

    def __init__(self, answers: Sequence[bytes | None]) -> None:
        self.answers = list(answers)
        self.requests: list[bytes] = []
        self.connections = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(
                    (int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:")), 0
                )
                self.requests.append(head + await reader.readexactly(length))
                answer = self.answers.pop(0)
                if answer is None:
                    return
                writer.write(answer)
                if b"Connection: close" in answer or b"Content-Length" not in answer:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(*answers: bytes | None) -> AsyncIterator[Server]:
    server = Server(answers)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    server.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    async with listener:
        yield server


async def test_an_answer_is_read_whole() -> None:
    async with serving(HELLO) as server:
        answer = await request("GET", f"{server.url}/info?a=b", headers={"X-Mine": "1"})
    assert (answer.status, answer.headers["x-name"], answer.body) == (200, "Value", b"hello")
    head = server.requests[0].decode()
    assert head.startswith("GET /info?a=b HTTP/1.1\r\n")
    assert f"\r\nHost: {server.url[7:]}\r\n" in head
    assert "\r\nX-Mine: 1\r\n" in head
    assert "Content-Length" not in head


async def test_a_body_is_sent_with_its_length() -> None:
    async with serving(HELLO) as server:
        await request("POST", f"{server.url}/update", headers={"Content-Type": "text/plain"}, body=b"ip: 10.0.0.1")
    assert b"\r\nContent-Length: 12\r\n" in server.requests[0]
    assert server.requests[0].endswith(b"\r\n\r\nip: 10.0.0.1")


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", b"abcde"),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", b"until the end"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
    ],
    ids=["chunked", "until the end", "none"],
)
async def test_bodies_of_every_form_are_read(answer: bytes, body: bytes) -> None:
    async with serving(answer) as server:
        assert (await request("GET", server.url)).body == body


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (None, "without an answer"),
        (b"SSH-2.0-OpenSSH\r\n\r\nContent-Length", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\nhello", "in the middle"),
        (HELLO + HELLO, "nobody asked for"),
    ],
    ids=["closes", "other protocol", "cut", "two answers"],
)
async def test_a_server_that_does_not_answer_properly_is_an_os_error(answer: bytes | None, says: str) -> None:
    async with serving(answer) as server:
        with pytest.raises(OSError, match=says):
            await request("GET", server.url)


async def test_nobody_listening_is_an_os_error() -> None:
    async with serving() as server:
        pass
    with pytest.raises(OSError, match="Connect"):
        await request("GET", server.url)


async def test_a_silent_server_is_given_up_within_the_time_named() -> None:
    async with serving(b"Content-Length: this is no end of a head") as server:
        with pytest.raises(TimeoutError, match=r"within 0\.05 s"):
            await request("GET", server.url, timeout=0.05)


async def test_a_session_gives_up_a_server_that_stops_in_mid_answer() -> None:
    async with serving(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello") as server, Session(idle=0.05) as session:
        with pytest.raises(TimeoutError, match="says nothing"):
            await session.request("GET", server.url)


async def test_a_connect_that_takes_too_long_is_given_up() -> None:
    async with Session(connect=0) as session:
        with pytest.raises(TimeoutError, match="does not answer within 0 s"):
            await session.request("GET", "http://127.0.0.1:1/")


async def test_no_more_is_read_than_allowed() -> None:
    async with serving(HELLO) as server:
        with pytest.raises(TooLong, match="longer than 4 bytes"):
            await request("GET", server.url, limit=4)


async def test_a_session_asks_again_on_the_same_connection() -> None:
    async with serving(HELLO, HELLO) as server, Session() as session:
        for _ in range(2):
            assert (await session.request("GET", server.url)).body == b"hello"
    assert server.connections == 1


async def test_a_kept_connection_that_went_stale_is_replaced() -> None:
    async with serving(HELLO, None, HELLO) as server, Session() as session:
        for _ in range(2):
            assert (await session.request("GET", server.url)).body == b"hello"
    assert server.connections == 2


async def test_what_may_change_something_is_never_sent_on_a_kept_connection() -> None:
    async with serving(HELLO, None) as server, Session() as session:
        await session.request("GET", server.url)
        with pytest.raises(OSError, match="without an answer"):
            await session.request("POST", server.url, body=b"once")
    assert [request.split()[0] for request in server.requests] == [b"GET", b"POST"]
    assert server.connections == 2


async def test_a_connection_is_not_used_again_after_an_answer_that_was_not_read() -> None:
    async with serving(HELLO, HELLO) as server, Session() as session:
        async with session.open("GET", server.url) as incoming:
            assert incoming.status == 200
        assert (await session.request("GET", server.url)).body == b"hello"
    assert server.connections == 2


@pytest.mark.parametrize(
    ("url", "origin", "authority"),
    [
        ("http://Host.example/x", Origin("http", "host.example", 80), "host.example"),
        ("https://host.example:8443", Origin("https", "host.example", 8443), "host.example:8443"),
        ("http://[::1]:81/", Origin("http", "::1", 81), "[::1]:81"),
    ],
)
def test_a_url_names_a_server(url: str, origin: Origin, authority: str) -> None:
    assert origin_of(url) == origin
    assert origin.authority == authority


@pytest.mark.parametrize(
    "url", ["", "ftp://host/", "http://", "http://h:x/", "http://h:99999/", "http://h/a b", "http://h\\@i/", "//h/"]
)
def test_what_is_no_url_is_an_os_error(url: str) -> None:
    with pytest.raises(OSError, match="is no"):
        origin_of(url)


@pytest.mark.parametrize("url", ["http://a..b/", "http://" + "a" * 70 + ".example/"])
async def test_a_host_that_cannot_be_a_name_is_an_os_error(url: str) -> None:
    with pytest.raises(OSError, match="is no host name"):
        await request("GET", url)


@pytest.mark.parametrize(
    ("url", "headers"),
    [("http://127.0.0.1:1/ä", {}), ("http://127.0.0.1:1/", {"A": "b\r\nC: d"}), ("http://127.0.0.1:1/", {"A": "ä"})],
    ids=["url", "line break", "header"],
)
async def test_nothing_is_sent_that_http_does_not_allow(url: str, headers: dict[str, str]) -> None:
    with pytest.raises(OSError, match="does not allow"):
        await request("GET", url, headers=headers)
