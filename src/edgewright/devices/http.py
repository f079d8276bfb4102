"""HTTP for devices, attestation services and registries: by URL, plain or TLS, whole or streamed answers.

A thin use of `runtime.http`, with limits for servers that nobody trusts. Drivers call `request`; what asks one server
several times holds a `Session`, which keeps its connections. Whatever goes wrong is an OSError with a sentence. It
retries nothing (but a kept connection that had gone stale), follows no redirect, keeps no cookie, and reads no more of
an answer than the caller allows.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeVar
from urllib.parse import urlsplit

from edgewright.runtime.http import Connection, StaleError, Stream, connect
from edgewright.runtime.http_parser import Answer

__all__ = ["Answer", "Incoming", "Origin", "Session", "TooLong", "origin_of", "request"]

CONNECT_SECONDS: Final = 10.0
IDLE_SECONDS: Final = 30.0
MAX_BODY: Final = 1 << 20

T = TypeVar("T")


class TooLong(OSError):
    """The body of an answer is longer than the caller allows."""


class Origin(NamedTuple):
    """A server as HTTP tells servers apart."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """Host and port as HTTP writes them; the port is left out where it is the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


_PORTS: Final = {"http": 80, "https": 443}


def origin_of(url: str) -> Origin:
    """The server that a URL names; OSError where it names none, or is not http or https."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise OSError(f"{url[:200]!r} is no URL: {error}") from None
    if parts.scheme not in _PORTS or not host or "\\" in url or any(ord(letter) <= 32 for letter in url):
        raise OSError(f"{url[:200]!r} is no http or https URL")
    return Origin(parts.scheme, host, _PORTS[parts.scheme] if port is None else port)


async def request(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    tls: ssl.SSLContext | None = None,
    limit: int = MAX_BODY,
    timeout: float = CONNECT_SECONDS,
) -> Answer:
    """Asks once on a connection of its own, all within `timeout` seconds; OSError whatever goes wrong."""
    once = {"Connection": "close", **(headers or {})}
    try:
        async with asyncio.timeout(timeout), Session(tls=tls) as session:
            return await session.request(method, url, headers=once, body=body, limit=limit)
    except TimeoutError:
        raise TimeoutError(f"no answer from {origin_of(url).authority} within {timeout:g} s") from None


@dataclass(frozen=True, kw_only=True)
class Incoming:
    """The head of an answer, whose body is read by the caller."""

    status: int
    headers: dict[str, str]
    """Their names are in lower case."""
    _stream: Stream
    _idle: float

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives; OSError where it breaks off."""
        while data := await _patiently(self._stream.read(self._idle), self._idle):
            yield data

    async def read(self, limit: int) -> bytes:
        """The whole body; TooLong where it is longer than `limit` bytes."""
        parts, size = [], 0
        async for chunk in self.chunks():
            size += len(chunk)
            if size > limit:
                raise TooLong(f"the answer is longer than {limit} bytes")
            parts.append(chunk)
        return b"".join(parts)


class Session:
    """Connections to one or several servers; one that has answered is used again."""

    def __init__(
        self, *, tls: ssl.SSLContext | None = None, connect: float = CONNECT_SECONDS, idle: float = IDLE_SECONDS
    ) -> None:
        """`tls` is for https; without it the system's authorities are trusted, or those in SSL_CERT_FILE."""
        self._tls = tls
        self._connect_seconds = connect
        self._idle_seconds = idle
        self._kept: dict[Origin, Connection] = {}

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        limit: int = MAX_BODY,
    ) -> Answer:
        """Asks and reads the whole answer."""
        async with self.open(method, url, headers=headers, body=body) as incoming:
            return Answer(incoming.status, incoming.headers, await incoming.read(limit))

    @asynccontextmanager
    async def open(
        self, method: str, url: str, *, headers: Mapping[str, str] | None = None, body: bytes = b""
    ) -> AsyncIterator[Incoming]:
        """Asks and gives the head of the answer; what of the body was not read at the end is dropped."""
        origin = origin_of(url)
        wire = _request_head(method, url, origin, headers or {}, body)
        # Nobody knows whether a server acted before it closed a kept connection: only what changes nothing goes there.
        connection = self._kept.pop(origin, None) if method == "GET" else None
        if connection is not None and connection.usable:
            try:
                answer, stream = await self._ask(connection, wire)
            except StaleError:
                connection = None
        else:
            connection = None
        if connection is None:
            connection = await self._connect(origin)
            answer, stream = await self._ask(connection, wire)
        try:
            yield Incoming(status=answer.status, headers=answer.headers, _stream=stream, _idle=self._idle_seconds)
        finally:
            if stream.read_whole and connection.usable and origin not in self._kept:
                self._kept[origin] = connection
            else:
                connection.abort()

    async def close(self) -> None:
        """Ends the connections that were kept."""
        for connection in self._kept.values():
            connection.abort()
        self._kept.clear()
        await asyncio.sleep(0)  # asyncio closes an aborted socket in the next turn of the loop

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _ask(self, connection: Connection, wire: bytes) -> tuple[Answer, Stream]:
        return await _patiently(connection.open(wire), self._idle_seconds)

    async def _connect(self, origin: Origin) -> Connection:
        context = None
        if origin.scheme == "https":
            self._tls = context = self._tls or ssl.create_default_context()
        name = origin.host if context is not None else None
        try:
            async with asyncio.timeout(self._connect_seconds):
                return await connect(origin.host, origin.port, tls=context, server_name=name)
        except TimeoutError:
            raise TimeoutError(f"{origin.authority} does not answer within {self._connect_seconds:g} s") from None
        except UnicodeError:  # by the encoding of international names
            raise OSError(f"{origin.host[:200]!r} is no host name") from None


async def _patiently(doing: Coroutine[Any, Any, T], seconds: float) -> T:
    try:
        async with asyncio.timeout(seconds):
            return await doing
    except TimeoutError:
        raise TimeoutError(f"the server says nothing for {seconds:g} s") from None


def _request_head(method: str, url: str, origin: Origin, headers: Mapping[str, str], body: bytes) -> bytes:
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = {"Host": origin.authority, "User-Agent": "edgewright", "Accept": "*/*", **headers}
    if body or method not in {"GET", "DELETE"}:
        lines["Content-Length"] = str(len(body))
    head = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in lines.items())]
    if any(not line.isascii() or not line.isprintable() for line in head):  # a line break would begin another header
        raise OSError(f"the question to {url[:200]!r} has a character that HTTP does not allow")
    return "\r\n".join([*head, "", ""]).encode("ascii") + body
