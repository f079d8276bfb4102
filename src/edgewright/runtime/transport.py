"""Sends requests to one API server and turns what comes back into bytes or a typed error.

`client` builds requests on it; nobody else uses it. It holds the connection pools, adds credentials, honours
Retry-After, puts a time limit on everything, and, where it has a fence, lets nothing through once the lease behind it
is over. It knows nothing of kinds and decodes nothing but error bodies.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import weakref
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol
from urllib.parse import urlencode

import aiohttp
import yarl
from aiohttp.abc import AbstractStreamWriter
from multidict import CIMultiDict

from edgewright import __version__
from edgewright.runtime.backoff import delay
from edgewright.runtime.clock import Clock, SystemClock
from edgewright.runtime.config import Config, ConfigError
from edgewright.runtime.errors import (
    ApiError,
    LeaseLost,
    NoCredentials,
    ServiceUnavailable,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    error_for,
    status_from,
)

# A watch on which not even a bookmark (one a minute) arrives for this long is taken for dead and resumed.
WATCH_IDLE_SECONDS = 150.0
_CONNECT_SECONDS = 10.0
_LARGEST_RETRY_AFTER = 30.0
# Identity: compressing costs both sides more than a cluster's network does.
_HEADERS = CIMultiDict(
    {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": f"edgewright/{__version__}"}
)
_CLOSING_TURNS = 100


class Fence(Protocol):
    """Says how long this process may go on sending requests: the lease, where there is one."""

    def remaining(self) -> float:
        """Seconds until the deadline; zero or less when it has passed."""


class Transport:
    """The connections to one API server."""

    def __init__(
        self,
        config: Config,
        *,
        connections: int = 16,
        timeout: float = 30.0,
        retries: int = 5,
        fence: Fence | None = None,
        clock: Clock | None = None,
        on_answer: Callable[[str, str], None] | None = None,
    ) -> None:
        self.config = config
        self.connections = connections
        self.fence = fence
        self.on_answer = on_answer
        self._timeout = timeout
        self._retries = retries
        self._clock = clock or SystemClock()
        self._requests: aiohttp.ClientSession | None = None
        self._streams: aiohttp.ClientSession | None = None
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._prefix = config.server.rstrip("/")
        self._options: dict[str, Any] = {"proxy": config.proxy} if config.proxy else {}
        if config.tls_server_name:
            self._options["server_hostname"] = config.tls_server_name

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float | None = None,
    ) -> bytes:
        """Sends one request and returns the body of a 2xx answer; anything else is raised as a typed error.

        429 and 503 with Retry-After were not carried out, so they are sent again after that time; a 401 once, with
        fresh credentials. A request that broke off is not repeated: it may have happened.
        """
        limit = timeout or self._timeout
        refreshed = False
        for attempt in range(self._retries + 1):
            try:
                return await self._send_once(method, path, query, body, content_type, limit)
            except Unauthorized:
                self.config.credentials.refused()
                if refreshed or attempt == self._retries:
                    raise
                refreshed = True
            except (TooManyRequests, ServiceUnavailable) as error:
                if attempt == self._retries or error.retry_after is None:
                    raise
                growing = delay(attempt + 1, base=0.5, cap=_LARGEST_RETRY_AFTER)
                await self._clock.sleep(max(growing, min(error.retry_after, _LARGEST_RETRY_AFTER)))
        raise AssertionError("unreachable: the last attempt returns or raises")

    @asynccontextmanager
    async def stream(
        self, path: str, query: Mapping[str, str], *, seconds: float
    ) -> AsyncIterator[aiohttp.StreamReader]:
        """Opens a long answer (a watch) and gives its body; it ends after `seconds` at the latest."""
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=_CONNECT_SECONDS, sock_read=WATCH_IDLE_SECONDS)
        described = f"GET {path}"
        headers = await self._headers()
        try:
            async with self._stream_session().get(
                self._url(path, query), headers=headers, timeout=timeout, allow_redirects=False, **self._options
            ) as response:
                self._count("WATCH", str(response.status))
                if response.status != 200:
                    error = _error(response, await response.read(), described)
                    if isinstance(error, Unauthorized):
                        self.config.credentials.refused()
                    raise error
                try:
                    yield response.content
                finally:
                    # Left in mid-stream: ended at once, because nobody waits for the farewell that TLS would exchange.
                    if response.connection is not None and response.connection.transport is not None:
                        response.connection.transport.abort()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unreachable(f"{described} at {self._prefix}: {_describe(error)}") from error

    async def close(self) -> None:
        """Closes every connection."""
        for session in (self._requests, self._streams):
            if session is not None:
                await session.close()
        self._requests = self._streams = None
        await self._end_farewells()

    async def _end_farewells(self) -> None:
        """Ends connections that were given up in mid-request and would wait for a silent server's TLS farewell."""
        for each in self._open_sockets():
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for _ in range(_CLOSING_TURNS):
            if not self._open_sockets():
                return
            await asyncio.sleep(0)  # asyncio closes a socket some turns of the loop after it has ended

    def _open_sockets(self) -> list[socket.socket]:
        return [each for each in self._sockets if each.fileno() >= 0]

    async def _send_once(  # noqa: PLR0917 - one caller, above
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: bytes | None,
        content_type: str,
        limit: float,
    ) -> bytes:
        headers = await self._headers()
        if body is not None:
            headers["Content-Type"] = content_type
        if self.fence is not None:
            # The answer must be here before another process may take over: afterwards it would mean nothing.
            limit = min(limit, _remaining(self.fence))
        described = f"{method} {path}"
        try:
            async with self._request_session().request(
                method,
                self._url(path, query),
                data=body,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=limit, sock_connect=_CONNECT_SECONDS),
                allow_redirects=False,  # API servers do not redirect; followed, a write could come back as a read
                **self._options,
            ) as response:
                answer = await response.read()
                self._count(method, str(response.status))
                if response.status < 300:
                    return answer
                raise _error(response, answer, described)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._count(method, "<error>")
            if self.fence is not None and self.fence.remaining() <= 0:
                raise LeaseLost(f"{described}: the lease ended before the answer came; it may have happened") from error
            raise Unreachable(f"{described} at {self._prefix}: {_describe(error)}") from error

    async def _headers(self) -> CIMultiDict[str]:
        headers = _HEADERS.copy()
        try:
            headers.extend(await self.config.credentials.headers())
        except ConfigError as error:  # a token file or a plugin that fails for a while ends a request, not the program
            raise NoCredentials(str(error)) from error
        return headers

    def _url(self, path: str, query: Mapping[str, str] | None) -> yarl.URL:
        return yarl.URL(f"{self._prefix}{path}?{urlencode(query)}" if query else self._prefix + path, encoded=True)

    def _request_session(self) -> aiohttp.ClientSession:
        if self._requests is None:
            self._requests = self._session(self.connections, self.fence)
        return self._requests

    def _stream_session(self) -> aiohttp.ClientSession:
        # A pool of its own: watches hold their connections for minutes and must not starve requests.
        if self._streams is None:
            self._streams = self._session(0, None)
        return self._streams

    def _session(self, connections: int, fence: Fence | None) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=connections,
            ssl=self.config.tls if self.config.tls is not None else True,
            socket_factory=_socket_factory(fence, self._sockets),
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            request_class=aiohttp.ClientRequest if fence is None else _fenced_request(fence),
            auto_decompress=False,
            trust_env=False,
        )

    def _count(self, method: str, code: str) -> None:
        if self.on_answer is not None:
            self.on_answer(method, code)


def _error(response: aiohttp.ClientResponse, body: bytes, described: str) -> ApiError:
    """The typed error in an answer that is not 2xx."""
    status = status_from(response.status, body)
    seconds = response.headers.get("Retry-After", "")
    retry_after = float(seconds) if seconds.isdecimal() else None
    return error_for(status, request=described, retry_after=retry_after)


def _describe(error: BaseException) -> str:
    """What went wrong below HTTP, in words; some of these exceptions have no text of their own."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__


def _remaining(fence: Fence) -> float:
    """The time left to send, or LeaseLost."""
    left = fence.remaining()
    if left <= 0:
        raise LeaseLost("the lease is not held any more: nothing is sent")
    return left


def _socket_factory(fence: Fence | None, known: weakref.WeakSet[socket.socket]) -> Callable[[Any], socket.socket]:
    def make(address: Any) -> socket.socket:
        family, kind, protocol = address[:3]
        made: socket.socket
        if fence is None:
            made = socket.socket(family, kind, protocol)
        else:
            made = _FencedSocket(family, kind, protocol, fence=fence)
            # Closed, it forgets what the network has not taken yet, instead of sending it whenever the network can.
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        known.add(made)
        made.setblocking(False)
        # A peer that is gone without a word (a machine that lost power) is noticed within half a minute.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
            if hasattr(socket, option):
                made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
        return made

    return make


class _FencedSocket(socket.socket):
    """A socket that sends nothing after the deadline: the last thing that runs before the system call.

    A process can be stopped between any two instructions and continued minutes later. What it had checked further up is
    worth nothing then, so the check stands here too, where the gap is a microsecond.
    """

    def __init__(self, family: int, kind: int, protocol: int, *, fence: Fence) -> None:
        super().__init__(family, kind, protocol)
        self._fence = fence

    def send(self, *args: Any) -> int:
        """Sends, unless the deadline has passed."""
        self._check()
        return super().send(*args)

    def sendmsg(self, *args: Any) -> int:
        """Sends, unless the deadline has passed."""
        self._check()
        return super().sendmsg(*args)

    def _check(self) -> None:
        if self._fence.remaining() <= 0:
            raise ConnectionAbortedError("the lease is over: nothing more is sent")


def _fenced_request(fence: Fence) -> type[aiohttp.ClientRequest]:
    """A request class that asks the fence after the connection was had and before the first byte is written."""

    class FencedRequest(aiohttp.ClientRequest):
        async def send(self, conn: Any) -> aiohttp.ClientResponse:
            _remaining(fence)
            return await super().send(conn)

        async def write_bytes(self, writer: AbstractStreamWriter, conn: Any, content_length: int | None = None) -> None:
            # aiohttp writes a body in a task of its own, a turn of the loop after `send`; the headers go with it.
            if fence.remaining() <= 0:
                conn.protocol.set_exception(LeaseLost("the lease is not held any more: nothing is sent"))
                conn.close()
                return
            await super().write_bytes(writer, conn, content_length)

    return FencedRequest
