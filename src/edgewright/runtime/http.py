"""A small HTTP/1.1 client for one server: pooled connections, one request at a time on each, whole or streamed answers.

`transport` uses it for the API server, `devices.http` for devices and registries. It exists because it was measured
(`bench/http_clients.py`): for the short JSON requests of an operator it needs a third of the CPU time of aiohttp's
client, which decides whether we are ahead of Go, and it lets the fence be asked directly before the bytes go out. It
knows nothing of Kubernetes, retries nothing, follows no redirect, and keeps no cookie.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from base64 import b64encode
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from edgewright.runtime.happy_eyeballs import MakeSocket, dial, plain_socket
from edgewright.runtime.http_parser import Answer, AnswerParser

CONNECT_SECONDS = 10.0
# An idle connection that is older is not used again: servers close theirs after a minute and a half.
_IDLE_SECONDS = 60.0
# A stream that nobody reads is not read from the network either beyond this.
_STREAM_BUFFER = 1 << 20
_CLOSED = "the server closed the connection"


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a server is, and how to get there."""

    host: str
    port: int
    secure: bool
    server_name: str | None = None
    proxy: str | None = None

    @property
    def authority(self) -> str:
        """Host and port as HTTP writes them."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def target_prefix(self) -> str:
        """What stands before the path in a request line: a proxy without a tunnel wants the whole address."""
        return f"http://{self.authority}" if self.proxy and not self.secure else ""


class StaleError(ConnectionResetError):
    """A connection that had been used before broke before anything of the answer came: it had gone stale meanwhile."""


class Connection(asyncio.Protocol):
    """One connection to the server; it is used by one request at a time."""

    def __init__(self) -> None:
        self._parser = AnswerParser(self._on_head, self._on_body, self._on_end)
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[Answer] | None = None
        self._stream: Stream | None = None
        self._status = 0
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._idle_since = 0.0
        self._reusable = True
        self._served = 0
        self._answering = False
        self._whole_errors = True
        self._streamed = False
        self._latest: Stream | None = None
        self._full = False
        self._drained: asyncio.Future[None] | None = None

    # --- for the caller ----------------------------------------------------------------------------------------------

    @property
    def usable(self) -> bool:
        """Whether another request can be sent on it."""
        transport = self._transport
        fresh = time.monotonic() - self._idle_since < _IDLE_SECONDS
        return self._reusable and transport is not None and not transport.is_closing() and fresh

    @property
    def transport(self) -> asyncio.Transport:
        """What it is carried by."""
        if self._transport is None:
            raise ConnectionResetError(_CLOSED)
        return self._transport

    async def exchange(
        self, request: bytes, check: Callable[[], object] | None = None, *, body: Iterable[bytes] = ()
    ) -> Answer:
        """Sends a request and waits for the whole answer; `check`, called directly before the sending, may raise.

        The pieces of a `body` are asked for at the pace of the network, so that a large one is never whole in memory.
        """
        transport = self.transport
        if transport.is_closing():
            raise ConnectionResetError(_CLOSED)
        if check is not None:
            check()
        waiter: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiter = waiter
        transport.write(request)
        try:
            await self._send(transport, body, waiter)
            return await waiter
        except BaseException:
            self.abort()  # the rest of the answer would be taken for the next one's
            raise

    async def _send(self, transport: asyncio.Transport, body: Iterable[bytes], waiter: asyncio.Future[Answer]) -> None:
        """Writes a body; it ends early where the server has answered or the connection broke."""
        for piece in body:
            if waiter.done():
                return
            transport.write(piece)
            if self._full:
                self._drained = asyncio.get_running_loop().create_future()
                await self._drained

    async def stream(self, request: bytes) -> tuple[Answer, Stream | None]:
        """Sends a request and waits for the head of the answer; with 200 its body follows as a stream."""
        self._stream = stream = Stream(self)
        answer = await self.exchange(request)
        return answer, stream if self._streamed else None

    async def open(self, request: bytes) -> tuple[Answer, Stream]:
        """Sends a request and waits for the head of the answer; its body follows as a stream, whatever it says."""
        self._whole_errors = False
        self._stream = stream = Stream(self)
        return await self.exchange(request), stream

    def abort(self) -> None:
        """Ends the connection at once, without the farewell that TLS would exchange."""
        self._reusable = False
        if self._transport is not None:
            self._transport.abort()

    def pause(self, paused: bool) -> None:
        """Stops or goes on reading from the network."""
        if self._transport is not None and not self._transport.is_closing():
            if paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    # --- for asyncio -------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        self._transport = transport  # type: ignore[assignment]  # a stream transport: that is what we connect with
        self._idle_since = time.monotonic()

    def pause_writing(self) -> None:
        """What was written waits to be sent."""
        self._full = True

    def resume_writing(self) -> None:
        """More may be written."""
        self._full = False
        drained, self._drained = self._drained, None
        if drained is not None and not drained.done():
            drained.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Something of an answer is here."""
        try:
            self._parser.feed(data)
        except ValueError as error:
            self._fail(ConnectionError(f"the answer is not HTTP: {error}"))
            self.abort()

    def eof_received(self) -> None:
        """The server has said all that it will say."""
        try:
            self._parser.end()
        except ValueError as error:
            self._fail(ConnectionError(str(error)))

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is over."""
        self._reusable = False
        self.resume_writing()
        stale = self._served > 0 and not self._answering
        closed = _CLOSED if self._answering else f"{_CLOSED} without an answer"
        self._fail(StaleError("it had been closed meanwhile") if stale else exc or ConnectionResetError(closed))

    # --- for the parser ----------------------------------------------------------------------------------------------

    def _on_head(self, status: int, headers: dict[str, str], keep_alive: bool) -> None:
        if self._waiter is None:
            error = "an answer follows that nobody asked for"
            if self._latest is not None:
                self._latest.spoil(ConnectionError(f"the answer is not HTTP: {error}"))
            raise ValueError(error)
        self._status, self._headers = status, headers
        self._answering = True
        self._reusable = self._reusable and keep_alive
        if self._stream is not None:
            if status == 200 or not self._whole_errors:
                self._streamed = True
                self._resolve(Answer(status, headers, b""))
            else:
                self._stream = None  # an error: its body is read whole

    def _on_body(self, data: bytes) -> None:
        if self._stream is not None:
            self._stream.feed(data)
        else:
            self._body.append(data)

    def _on_end(self) -> None:
        self._idle_since = time.monotonic()
        self._served += 1
        self._answering = False
        if self._stream is not None:
            self._latest, self._stream = self._stream, None
            self._latest.finish(None)
            return
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._body = []
        self._resolve(Answer(self._status, self._headers, body))

    def _resolve(self, answer: Answer) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(answer)

    def _fail(self, error: Exception) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_exception(error)
        if self._stream is not None:
            self._stream.finish(error)


class Stream:
    """The body of an answer as it arrives; it ends with StopAsyncIteration, or with what broke it."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._paused = False
        self._ended = False
        self._error: Exception | None = None
        self._news = asyncio.Event()

    def feed(self, data: bytes) -> None:
        """Takes a part from the network; when too much lies here unread, the network has to wait."""
        self._chunks.append(data)
        self._size += len(data)
        self._news.set()
        if self._size > _STREAM_BUFFER and not self._paused:
            self._paused = True
            self._connection.pause(True)

    @property
    def read_whole(self) -> bool:
        """Whether the answer has ended well, and all of it was read."""
        return self._ended and self._error is None and not self._chunks

    def finish(self, error: Exception | None) -> None:
        """Nothing more will come; only the first word on it counts."""
        if not self._ended:
            self._ended = True
            self._error = error
            self._news.set()

    def spoil(self, error: Exception) -> None:
        """What came after the end shows that the answer cannot be trusted."""
        self._error = self._error or error

    async def read(self, idle: float) -> bytes:
        """All that is here, waiting up to `idle` seconds for something; empty at the end of the answer."""
        if not self._chunks and not self._ended:
            self._news.clear()
            async with asyncio.timeout(idle):
                await self._news.wait()
        if not self._chunks:
            if self._error is not None:
                raise self._error
            return b""
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        self._size = 0
        if self._paused:
            self._paused = False
            self._connection.pause(False)
        return data


class Pool:
    """At most so many connections to one server; those that are idle are used again, the last one first."""

    def __init__(
        self,
        address: Address,
        *,
        size: int,
        tls: Callable[[], ssl.SSLContext | None],
        make_socket: MakeSocket,
    ) -> None:
        self._address = address
        self._tls = tls
        self._make_socket = make_socket
        self._places = asyncio.Semaphore(size)
        # Each with the context that it was opened with: a client certificate that was replaced is not used any more.
        self._idle: list[tuple[Connection, ssl.SSLContext | None]] = []
        self._busy: dict[Connection, ssl.SSLContext | None] = {}

    async def take(self) -> Connection:
        """A connection for one request; it must be given back."""
        await self._places.acquire()
        try:
            context = self._tls() if self._address.secure else None
            connection = self._reuse(context) or await self._open(context)
        except BaseException:
            self._places.release()
            raise
        self._busy[connection] = context
        return connection

    def _reuse(self, context: ssl.SSLContext | None) -> Connection | None:
        while self._idle:
            connection, opened_with = self._idle.pop()
            if connection.usable and opened_with is context:
                return connection
            connection.abort()
        return None

    def give_back(self, connection: Connection) -> None:
        """The request is done; the connection is kept where it can be used again."""
        opened_with = self._busy.pop(connection)
        if connection.usable:
            self._idle.append((connection, opened_with))
        else:
            connection.abort()
        self._places.release()

    async def close(self) -> None:
        """Ends every connection."""
        for connection in [*self._busy, *(idle for idle, _ in self._idle)]:
            connection.abort()
        self._idle.clear()
        await asyncio.sleep(0)  # asyncio closes an aborted socket in the next turn of the loop

    async def _open(self, context: ssl.SSLContext | None) -> Connection:
        address = self._address
        name = (address.server_name or address.host) if context is not None else None
        async with asyncio.timeout(CONNECT_SECONDS):
            if not address.proxy:
                return await self._connect(address.host, address.port, context, name)
            proxy = urlsplit(address.proxy)
            host, secure = proxy.hostname or "", proxy.scheme == "https"
            tls, port = (ssl.create_default_context(), 443) if secure else (None, 80)
            to_proxy = await self._connect(host, proxy.port or port, tls, host if secure else None)
            if context is None:
                return to_proxy  # the proxy reads along
            try:
                await _dig(to_proxy, _tunnel_request(address.authority, proxy))
            except BaseException:
                to_proxy.abort()
                raise
            return await _secured(to_proxy.transport, context, name)

    async def _connect(self, host: str, port: int, tls: ssl.SSLContext | None, name: str | None) -> Connection:
        return await connect(host, port, tls=tls, server_name=name, make_socket=self._make_socket)


async def connect(
    host: str,
    port: int,
    *,
    tls: ssl.SSLContext | None = None,
    server_name: str | None = None,
    make_socket: MakeSocket = plain_socket,
) -> Connection:
    """A connection to whichever address of the host answers first; `server_name` is whom TLS must prove."""
    sock = await dial(host, port, make_socket=make_socket)
    try:
        transport, connection = await asyncio.get_running_loop().create_connection(Connection, sock=sock)
    except BaseException:
        sock.close()
        raise
    return connection if tls is None else await _secured(transport, tls, server_name)


def _tunnel_request(authority: str, proxy: SplitResult) -> bytes:
    request = f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n"
    if proxy.username is not None:
        userinfo = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        request += f"Proxy-Authorization: Basic {b64encode(userinfo.encode()).decode()}\r\n"
    return f"{request}\r\n".encode()


async def _dig(to_proxy: Connection, request: bytes) -> None:
    """Has the proxy lead what follows to the server."""
    answer, _ = await to_proxy.stream(request)
    if answer.status != 200:
        raise ConnectionRefusedError(f"the proxy refused the tunnel with {answer.status}")


async def _secured(inside: asyncio.Transport, context: ssl.SSLContext, name: str | None) -> Connection:
    """A secure connection over one that stands.

    Not in one step with the connecting: asyncio, cancelled between the two, forgets the transport that it has made,
    and refuses every later connection that gets the same file descriptor.
    """
    connection = Connection()
    try:
        transport = await asyncio.get_running_loop().start_tls(inside, connection, context, server_hostname=name)
        if transport is None:
            raise ConnectionResetError("the connection was closed before it was secure")
    except BaseException:
        inside.abort()
        raise
    connection.connection_made(transport)
    return connection
