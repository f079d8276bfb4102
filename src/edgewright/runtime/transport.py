"""Sends requests to one API server and turns what comes back into bytes or a typed error.

`client` builds requests on it; nobody else uses it. It holds the connection pools, adds credentials, honours
Retry-After, puts a time limit on everything, and, where it has a fence, lets nothing through once the lease behind it
is over. It knows nothing of kinds and decodes nothing but error bodies.
"""

from __future__ import annotations

import asyncio
import os
import random
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache, partial
from urllib.parse import quote, urlencode, urlsplit

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
from edgewright.runtime.fence import Fence, demand, make_socket
from edgewright.runtime.http import Address, Pool, StaleError, Stream
from edgewright.runtime.http_parser import Answer
from edgewright.runtime.tls import current

# A watch on which not even a bookmark (one per minute) arrives for this long is taken for dead and resumed.
WATCH_IDLE_SECONDS = 150.0
_LARGEST_RETRY_AFTER = 30.0
_MANY = 1 << 16


class StaleConnection(Unreachable):
    """The connection had been used before, and broke before anything of this answer came."""


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
        self._prefix = config.server.rstrip("/")
        self._address = _address(config)
        self._base_path = urlsplit(self._prefix).path
        # Identity: compressing costs both sides more than a cluster's network does.
        self._head = (
            f" HTTP/1.1\r\nHost: {self._address.authority}\r\nUser-Agent: edgewright/{__version__}\r\n"
            "Accept: application/json\r\nAccept-Encoding: identity\r\n"
        )
        self._requests: Pool | None = None
        self._streams: Pool | None = None

    def fenced(self, fence: Fence, *, connections: int) -> Transport:
        """One to the same server with the same settings, but with connections of its own behind a fence."""
        return Transport(
            self.config,
            connections=connections,
            timeout=self._timeout,
            retries=self._retries,
            fence=fence,
            clock=self._clock,
            on_answer=self.on_answer,
        )

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
        """Sends one request and returns the body of a 2xx answer; anything else is raised as a typed error."""
        answer = await self.exchange(method, path, query=query, body=body, content_type=content_type, timeout=timeout)
        return answer.body

    async def exchange(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
        timeout: float | None = None,
    ) -> Answer:
        """The same, with the status and the headers of the 2xx answer: for who must tell 201 from 200.

        429 and 503 with Retry-After were not carried out, so they are sent again after that time; a 401 once, with
        fresh credentials. A write that broke off is not repeated, because it may have happened; a GET on a connection
        that had gone stale is, once.
        """
        limit = timeout or self._timeout
        refreshed = renewed = False
        for attempt in range(self._retries + 1):
            try:
                return await self._send_once(method, path, query, body, content_type, limit)
            except Unauthorized:
                self.config.credentials.refused()
                if refreshed or attempt == self._retries:
                    raise
                refreshed = True
            except StaleConnection:
                if method != "GET" or renewed or attempt == self._retries:
                    raise
                renewed = True
            except (TooManyRequests, ServiceUnavailable) as error:
                if attempt == self._retries or error.retry_after is None:
                    raise
                # Spread, so that many who were refused together do not come back together, time after time.
                growing = delay(attempt + 1, base=0.5, cap=_LARGEST_RETRY_AFTER) * random.uniform(1.0, 1.5)  # noqa: S311
                await self._clock.sleep(max(growing, min(error.retry_after, _LARGEST_RETRY_AFTER)))
        raise AssertionError("unreachable: the last attempt returns or raises")

    @asynccontextmanager
    async def stream(
        self, path: str, query: Mapping[str, str], *, seconds: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """Opens a long answer (a watch) and gives its body in parts; it ends after `seconds` at the latest."""
        described = f"GET {path}"
        request = await self._request("GET", path, query, None, "")
        if self._streams is None:
            # A pool of its own: watches hold their connections for minutes and must not starve requests.
            self._streams = self._pool(_MANY, None)
        pool = self._streams
        connection = None
        try:
            async with asyncio.timeout(seconds):
                connection = await pool.take()
                async with asyncio.timeout(self._timeout):
                    answer, stream = await connection.stream(request)
                self._count("WATCH", str(answer.status))
                if stream is None:
                    error = _error(answer, described)
                    if isinstance(error, Unauthorized):
                        self.config.credentials.refused()
                    raise error
                yield _parts(stream)
        except (TimeoutError, OSError) as error:
            raise Unreachable(f"{described} at {self._prefix}: {_describe(error)}") from error
        finally:
            if connection is not None:
                connection.abort()
                pool.give_back(connection)

    async def close(self) -> None:
        """Closes every connection."""
        for pool in (self._requests, self._streams):
            if pool is not None:
                await pool.close()
        self._requests = self._streams = None

    async def _send_once(  # noqa: PLR0917 - one caller, above
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: bytes | None,
        content_type: str,
        limit: float,
    ) -> Answer:
        request = await self._request(method, path, query, body, content_type)
        fence = self.fence
        if fence is not None:
            # The answer must be here before another process may take over: afterwards it would mean nothing.
            limit = min(limit, demand(fence))
        if self._requests is None:
            self._requests = self._pool(self.connections, fence)
        pool = self._requests
        try:
            async with asyncio.timeout(limit):
                connection = await pool.take()
                try:
                    answer = await connection.exchange(request, None if fence is None else partial(demand, fence))
                finally:
                    pool.give_back(connection)
        except (TimeoutError, OSError) as error:
            self._count(method, "<error>")
            described = f"{method} {path}"
            if fence is not None and fence.remaining() <= 0:
                raise LeaseLost(f"{described}: the lease ended before the answer came; it may have happened") from error
            cls = StaleConnection if isinstance(error, StaleError) else Unreachable
            raise cls(f"{described} at {self._prefix}: {_describe(error)}") from error
        self._count(method, str(answer.status))
        if answer.status < 300:
            return answer
        raise _error(answer, f"{method} {path}")

    async def _request(
        self, method: str, path: str, query: Mapping[str, str] | None, body: bytes | None, content_type: str
    ) -> bytes:
        """The bytes of one request."""
        target = self._address.target_prefix + quote(self._base_path + path, safe="/:@!$&'()*+,;=-._~")
        if query:
            target += _encode(tuple(query.items()))
        try:
            credentials = await self.config.credentials.headers()
        except ConfigError as error:  # a token file or a plugin that fails for a while ends a request, not the program
            raise NoCredentials(str(error)) from error
        lines = "".join(f"{name}: {_header(value)}\r\n" for name, value in credentials.items())
        if body is None:
            return f"{method} {target}{self._head}{lines}\r\n".encode("latin-1")
        about = f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        return f"{method} {target}{self._head}{lines}{about}\r\n".encode("latin-1") + body

    def _pool(self, size: int, fence: Fence | None) -> Pool:
        return Pool(self._address, size=size, tls=self._tls, make_socket=partial(make_socket, fence=fence))

    def _tls(self) -> ssl.SSLContext | None:
        return None if self.config.tls is None else current(self.config.tls)

    def _count(self, method: str, code: str) -> None:
        if self.on_answer is not None:
            self.on_answer(method, code)


def _address(config: Config) -> Address:
    parts = urlsplit(config.server)
    secure = parts.scheme == "https"
    return Address(
        host=parts.hostname or "",
        port=parts.port or (443 if secure else 80),
        secure=secure,
        server_name=config.tls_server_name,
        proxy=config.proxy,
    )


@lru_cache(maxsize=256)
def _encode(query: tuple[tuple[str, str], ...]) -> str:
    return f"?{urlencode(query)}"


def _header(value: str) -> str:
    """The value of a header; a line break in it would begin another one."""
    if "\r" in value or "\n" in value:
        raise NoCredentials("the credentials hold a line break, which cannot be sent")
    return value


async def _parts(stream: Stream) -> AsyncIterator[bytes]:
    while part := await stream.read(WATCH_IDLE_SECONDS):
        yield part


def _error(answer: Answer, described: str) -> ApiError:
    """The typed error in an answer that is not 2xx."""
    seconds = answer.headers.get("retry-after", "")
    retry_after = float(seconds) if seconds.isdecimal() else None
    return error_for(status_from(answer.status, answer.body), request=described, retry_after=retry_after)


def _describe(error: BaseException) -> str:
    """What went wrong below HTTP, in words; some of these exceptions have no text of their own."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ConnectionError) and error.errno:
        return os.strerror(error.errno)  # asyncio's own text is about sockets
    return str(error) or type(error).__name__
