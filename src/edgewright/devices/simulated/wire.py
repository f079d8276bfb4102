"""The two ends of a simulated device's network: a tiny HTTP server, and TLS that tells a clean end from a cut.

`device` is the only caller. The HTTP is what the published firmware has: three paths, short bodies, one request after
the other. The TLS is done by hand because asyncio's own hides how a connection ended, and on that hangs whether a
device may take its firmware.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from typing import Final, TypeVar

from edgewright.devices.simulated.certificates import OTA_AGENT, first_certificate

T = TypeVar("T")

_MAX_REQUEST: Final = 8 * 1024
_CHUNK: Final = 16 * 1024
# So little of what was sent lies in the kernel unread that a slow device is felt by whoever sends.
_NARROW: Final = 8 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """What a device answers to one request."""

    status: HTTPStatus = HTTPStatus.OK
    body: bytes = b""
    content_type: str = "text/plain"


class HttpConnection(asyncio.Protocol):
    """One connection to a device's HTTP server."""

    def __init__(self, answer: Callable[[str, str, bytes, str], Reply], open_ones: set[asyncio.Transport]) -> None:
        """`answer` gets method, path, body and the peer's address."""
        self._answer = answer
        self._open_ones = open_ones
        self._received = b""
        self._peer = ""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remembers the connection, so that a reboot can end it."""
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - for the type checker
        self._transport = transport
        self._peer = transport.get_extra_info("peername")[0]
        self._open_ones.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why does not matter
        """Forgets it."""
        if self._transport is not None:
            self._open_ones.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        """Answers every request that is complete."""
        self._received += data
        while self._transport is not None and not self._transport.is_closing() and self._one():
            pass

    def _one(self) -> bool:
        """Answers the next request; whether there was one."""
        head, gap, rest = self._received.partition(b"\r\n\r\n")
        if not gap:
            if len(self._received) > _MAX_REQUEST:
                self._send(Reply(status=HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE), close=True)
            return False
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split(" ")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = headers.get("content-length", "0")
        if len(words) != 3 or not length.isdecimal() or int(length) > _MAX_REQUEST:
            self._send(Reply(status=HTTPStatus.BAD_REQUEST), close=True)
            return False
        if len(rest) < int(length):
            return False
        self._received = rest[int(length) :]
        close = headers.get("connection", "").lower() == "close" or words[2] == "HTTP/1.0"
        self._send(self._answer(words[0], words[1], rest[: int(length)], self._peer), close=close)
        return True

    def _send(self, reply: Reply, *, close: bool) -> None:
        assert self._transport is not None  # noqa: S101 - for the type checker
        head = (
            f"HTTP/1.1 {reply.status.value} {reply.status.phrase}\r\n"
            f"Content-Type: {reply.content_type}\r\n"
            f"Content-Length: {len(reply.body)}\r\n"
            f"{'Connection: close' if close else 'Connection: keep-alive'}\r\n\r\n"
        )
        self._transport.write(head.encode("latin-1") + reply.body)
        if close:
            self._transport.close()


class Cut(ConnectionError):
    """The connection ended in another way than TLS ends it."""


def pinning(pem: str) -> ssl.SSLContext:
    """What a device trusts: this certificate, and no other. TLS 1.2, as the published firmware speaks."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    # The certificate may be one that somebody else has signed: it is trusted itself, not its signer.
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=first_certificate(pem))
    return context


class DialledIn:
    """A TLS connection from a device to a flash Pod: after `connect`, an async context manager that hangs up."""

    def __init__(self, context: ssl.SSLContext, *, source: str, host: str, port: int, narrow: bool = False) -> None:
        """`source` is the device's own address; `narrow`: little is taken in before it is read."""
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=OTA_AGENT)
        self._source, self._target, self._narrow = source, (host, port), narrow
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def connect(self) -> None:
        """Connects and shakes hands; OSError (ssl.SSLError is one) where that fails."""
        line = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            line.setblocking(False)
            if self._narrow:
                line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _NARROW)
            line.bind((self._source, 0))
            await asyncio.get_running_loop().sock_connect(line, self._target)
            self._reader, self._writer = await asyncio.open_connection(sock=line, limit=_CHUNK)
        except BaseException:
            line.close()
            raise
        try:
            await self._through(self._tls.do_handshake)
        except BaseException:
            await self._hang_up(abort=True)
            raise

    async def __aenter__(self) -> DialledIn:
        """The connection, which is connected."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Hangs up; cleanly by TLS only where nothing went wrong in the block."""
        if error is None:
            with contextlib.suppress(ssl.SSLError, OSError):
                self._tls.unwrap()
            with contextlib.suppress(OSError):
                await self._flush()
        await self._hang_up(abort=error is not None)

    async def send(self, data: bytes) -> None:
        """Sends all of it."""
        while data:
            sent = await self._through(lambda data=data: self._tls.write(data))  # type: ignore[misc]
            data = data[sent:]

    async def receive(self) -> bytes:
        """The next bytes; nothing where the other end has closed cleanly, Cut where it has not."""
        try:
            return await self._through(lambda: self._tls.read(_CHUNK))
        except ssl.SSLZeroReturnError:
            return b""

    async def _through(self, step: Callable[[], T]) -> T:
        """Does a step of TLS, and carries for it what goes out and comes in."""
        while True:
            try:
                done = step()
            except ssl.SSLWantReadError:
                await self._flush()
                data = await self._reader.read(_CHUNK)
                if not data:
                    raise Cut("the connection ended without a word") from None
                self._incoming.write(data)
            except ssl.SSLError:
                await self._flush()  # the alert that tells the other end why
                raise
            else:
                await self._flush()
                return done

    async def _flush(self) -> None:
        if data := self._outgoing.read():
            self._writer.write(data)
            await self._writer.drain()

    async def _hang_up(self, *, abort: bool = False) -> None:
        if abort:
            self._writer.transport.abort()
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
