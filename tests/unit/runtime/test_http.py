"""The HTTP client on real sockets: what it reuses, what it gives up, how it waits, and how it goes through a proxy."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from edgewright.runtime.clock import settle
from edgewright.runtime.fence import make_socket
from edgewright.runtime.http import Address, Connection, Pool, StaleError
from tests.harness.certificates import Authority
from tests.unit.runtime.fakeserver import until

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
REQUEST = b"GET /x HTTP/1.1\r\nHost: test\r\n\r\n"


def plain_socket(family: int, kind: int, protocol: int) -> socket.socket:
    return make_socket(family, kind, protocol, fence=None)


class Server:
    """A raw server on loopback: a test says what each connection gets to read; it counts connections."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.connections = 0
        self.heads: list[bytes] = []
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def read_head(self, reader: asyncio.StreamReader) -> bytes:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        return head

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._handler(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.transport.abort()

    @asynccontextmanager
    async def running(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await settle()  # asyncio closes an aborted socket some turns of the loop later


def pool_for(port: int, *, size: int = 4, proxy: str | None = None, tls: ssl.SSLContext | None = None) -> Pool:
    address = Address(host="127.0.0.1", port=port, secure=tls is not None, proxy=proxy)
    return Pool(address, size=size, tls=lambda: tls, make_socket=plain_socket)


async def ask(pool: Pool, request: bytes = REQUEST) -> bytes:
    connection = await pool.take()
    try:
        return (await connection.exchange(request)).body
    finally:
        pool.give_back(connection)


def answering(*bodies: bytes, close: bool = False) -> Server:
    """A server whose connections give these answers in turn, for ever, or close after the first."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            for body in bodies:
                await server.read_head(reader)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                if close:
                    await writer.drain()
                    return

    server = Server(handler)
    return server


def saying(*answers: bytes) -> Server:
    """A server that says the n-th of these on its n-th connection (the last one for ever) and then only listens."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answer = answers[min(server.connections, len(answers)) - 1]
        await server.read_head(reader)
        writer.write(answer)
        await reader.read()

    server = Server(handler)
    return server


async def test_one_connection_serves_one_request_after_the_other() -> None:
    async with answering(b"a", b"b").running() as server:
        pool = pool_for(server.port)
        assert [await ask(pool), await ask(pool), await ask(pool)] == [b"a", b"b", b"a"]
        assert server.connections == 1
        await pool.close()


async def test_no_more_connections_are_opened_than_the_pool_has_places() -> None:
    async with answering(b"a").running() as server:
        pool = pool_for(server.port, size=3)
        assert await asyncio.gather(*(ask(pool) for _ in range(20))) == [b"a"] * 20
        assert server.connections == 3
        await pool.close()


async def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    async with answering(b"a", close=True).running() as server:
        pool = pool_for(server.port, size=1)
        assert await ask(pool) == b"a"
        connection = await pool.take()
        pool.give_back(connection)
        await until(lambda: not connection.usable)
        assert await ask(pool) == b"a"
        await pool.close()


async def test_a_cut_in_mid_answer_is_an_error_and_the_next_request_gets_a_new_connection() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read_head(reader)
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n" + (b"half" if server.connections == 1 else b"the whole")
        )
        await writer.drain()

    server = Server(handler)
    async with server.running():
        pool = pool_for(server.port)
        with pytest.raises(ConnectionError):
            await ask(pool)
        assert await ask(pool) == b"the whole"
        await pool.close()


async def test_an_answer_that_is_not_http_is_an_error_that_says_so() -> None:
    async with saying(b"220 smtp.example ESMTP\r\n\r\n").running() as server:
        pool = pool_for(server.port)
        with pytest.raises(ConnectionError, match="not HTTP"):
            await ask(pool)
        await pool.close()


async def test_bytes_that_nobody_asked_for_end_the_connection() -> None:
    real, fake = (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n" + body for body in (b"real", b"fake"))
    async with saying(real + fake).running() as server:
        pool = pool_for(server.port)
        assert await ask(pool) == b"real"
        assert await ask(pool) == b"real"
        assert server.connections == 2
        await pool.close()


async def test_a_request_that_is_given_up_leaves_nothing_for_the_next_one() -> None:
    release = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read_head(reader)
        if server.connections == 1:
            await release.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % server.connections)
        await reader.read()

    server = Server(handler)
    async with server.running():
        pool = pool_for(server.port, size=1)
        asking = asyncio.create_task(ask(pool))
        await until(lambda: server.connections == 1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        release.set()
        assert await ask(pool) == b"2"
        await pool.close()


async def test_a_place_is_free_again_after_a_connection_that_could_not_be_opened() -> None:
    pool = pool_for(1, size=1)
    for _ in range(3):
        with pytest.raises(OSError, match="Connect call failed"):
            await ask(pool)


async def test_the_check_runs_before_the_first_byte_is_sent() -> None:
    def refuse() -> None:
        raise RuntimeError("not now")

    async with answering(b"a").running() as server:
        pool = pool_for(server.port)
        connection = await pool.take()
        with pytest.raises(RuntimeError, match="not now"):
            await connection.exchange(REQUEST, refuse)
        pool.give_back(connection)
        assert server.heads == []
        assert await ask(pool) == b"a"
        await pool.close()


async def test_a_stream_gives_what_arrives_and_ends_with_the_answer() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read_head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        await writer.drain()
        await first.wait()
        writer.write(b"3\r\ntwo\r\n0\r\n\r\n")
        await reader.read()

    first = asyncio.Event()
    server = Server(handler)
    async with server.running():
        pool = pool_for(server.port)
        connection = await pool.take()
        answer, stream = await connection.stream(REQUEST)
        assert answer.status == 200
        assert stream is not None
        assert await stream.read(5) == b"one"
        first.set()
        assert await stream.read(5) == b"two"
        assert await stream.read(5) == b""
        await pool.close()


async def test_a_stream_that_brings_nothing_for_too_long_times_out() -> None:
    async with saying(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").running() as server:
        pool = pool_for(server.port)
        connection = await pool.take()
        _, stream = await connection.stream(REQUEST)
        assert stream is not None
        with pytest.raises(TimeoutError):
            await stream.read(0.02)
        await pool.close()


async def test_a_stream_that_is_refused_gives_the_whole_error_instead() -> None:
    async with saying(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno").running() as server:
        pool = pool_for(server.port)
        connection = await pool.take()
        answer, stream = await connection.stream(REQUEST)
        assert (answer.status, answer.body, stream) == (403, b"no", None)
        await pool.close()


async def test_a_stream_that_nobody_reads_makes_the_server_wait() -> None:
    sent = 0

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await server.read_head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(64):
            writer.write(b"x" * (1 << 20))
            await writer.drain()
            sent += 1
        writer.close()
        await writer.wait_closed()  # what is still to be sent is not cut off

    server = Server(handler)
    async with server.running():
        pool = pool_for(server.port)
        connection = await pool.take()
        _, stream = await connection.stream(REQUEST)
        assert stream is not None
        before = -1
        while sent != before:  # until the server cannot send any more
            before = sent
            await asyncio.sleep(0.05)
        assert sent < 32
        total = 0
        while part := await stream.read(5):
            total += len(part)
        assert total == 64 << 20
        await pool.close()


class ConnectProxy:
    """A proxy that opens tunnels to whoever knows its password, or reads along where there is no tunnel."""

    def __init__(self, wants: bytes | None = None) -> None:
        self.wants = wants
        self.server = Server(self._handle)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await self.server.read_head(reader)
        if self.wants is not None and self.wants not in head:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            return
        if not head.startswith(b"CONNECT "):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nproxy")
            await reader.read()
            return
        port = int(head.split(b" ")[1].rpartition(b":")[2])
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        there = asyncio.create_task(_pipe(reader, far_writer))
        back = asyncio.create_task(_pipe(far_reader, writer))
        try:
            await asyncio.wait([there, back], return_when=asyncio.FIRST_COMPLETED)
        finally:
            there.cancel()
            back.cancel()
            far_writer.transport.abort()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)


def contexts(directory: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The two sides of TLS for 127.0.0.1."""
    authority = Authority()
    (directory / "ca.crt").write_bytes(authority.certificate)
    serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    serving.load_cert_chain(*authority.server("server", names=[], addresses=["127.0.0.1"]).write(directory, "serving"))
    return serving, ssl.create_default_context(cafile=str(directory / "ca.crt"))


async def test_a_secure_server_is_reached_through_a_tunnel(tmp_path: Path) -> None:
    serving, trusting = contexts(tmp_path)
    proxy = ConnectProxy(wants=b"Proxy-Authorization: Basic bWU6cEBzcw==")  # me:p@ss
    async with answering(b"far").running(serving) as server, proxy.server.running():
        pool = pool_for(server.port, proxy=f"http://me:p%40ss@127.0.0.1:{proxy.server.port}", tls=trusting)
        assert [await ask(pool), await ask(pool)] == [b"far", b"far"]
        assert server.connections == proxy.server.connections == 1
        assert proxy.server.heads[0].startswith(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n" % server.port)
        await pool.close()


async def test_a_proxy_that_refuses_the_tunnel_says_why(tmp_path: Path) -> None:
    _, trusting = contexts(tmp_path)
    proxy = ConnectProxy(wants=b"secret")
    async with proxy.server.running():
        pool = pool_for(1, proxy=f"http://127.0.0.1:{proxy.server.port}", tls=trusting)
        with pytest.raises(ConnectionRefusedError, match="407"):
            await ask(pool)
        await pool.close()


async def test_a_secure_proxy_is_spoken_to_in_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serving, trusting = contexts(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.crt"))  # who may speak as a proxy is the system's to say
    proxy = ConnectProxy()
    async with answering(b"far").running(serving) as server, proxy.server.running(serving):
        pool = pool_for(server.port, proxy=f"https://127.0.0.1:{proxy.server.port}", tls=trusting)
        assert await ask(pool) == b"far"
        await pool.close()


async def test_a_plain_server_is_asked_for_by_its_whole_address_at_a_proxy() -> None:
    proxy = ConnectProxy()
    async with proxy.server.running():
        pool = pool_for(7, proxy=f"http://127.0.0.1:{proxy.server.port}")
        address = Address(host="127.0.0.1", port=7, secure=False, proxy="http://x")
        assert address.target_prefix == "http://127.0.0.1:7"
        assert await ask(pool) == b"proxy"
        await pool.close()


@pytest.mark.parametrize(("host", "authority"), [("::1", "[::1]:6443"), ("kube.example", "kube.example:6443")])
def test_an_address_is_written_as_http_writes_it(host: str, authority: str) -> None:
    assert Address(host=host, port=6443, secure=True).authority == authority


async def test_a_connection_opened_with_a_certificate_that_was_replaced_is_not_used_again(tmp_path: Path) -> None:
    serving, first = contexts(tmp_path)
    second = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    current = first
    async with answering(b"a").running(serving) as server:
        address = Address(host="127.0.0.1", port=server.port, secure=True)
        pool = Pool(address, size=4, tls=lambda: current, make_socket=plain_socket)
        await ask(pool)
        current = second
        await ask(pool)
        assert server.connections == 2
        under_way = await pool.take()
        current = first  # replaced while a request is under way
        pool.give_back(under_way)
        await ask(pool)
        assert server.connections == 3
        await pool.close()


async def test_an_opening_that_is_given_up_at_any_step_leaves_no_descriptor_behind(tmp_path: Path) -> None:
    """A descriptor that asyncio still thinks in use would fail every later connection that gets its number."""
    serving, trusting = contexts(tmp_path)
    async with answering(b"a").running(serving) as server:
        for steps in range(40):
            pool = pool_for(server.port, tls=trusting)
            opening = asyncio.create_task(pool.take())
            for _ in range(steps):
                await asyncio.sleep(0)
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
            again = pool_for(server.port, tls=trusting)
            assert await ask(again) == b"a", steps
            await pool.close()
            await again.close()
        await settle()


async def test_a_closed_connection_refuses_requests() -> None:
    with pytest.raises(ConnectionResetError):
        await Connection().exchange(REQUEST)


async def test_a_connection_that_went_stale_is_told_from_one_that_broke() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await server.read_head(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
        await server.read_head(reader)  # the second request is read, and not answered

    server = Server(handler)
    async with server.running():
        pool = pool_for(server.port)
        assert await ask(pool) == b"a"
        with pytest.raises(StaleError):
            await ask(pool)
        await pool.close()
