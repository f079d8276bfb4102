"""HTTP/1.1 over a Unix socket: a connection for each request, whole or streamed bodies, limits on time and size.

`podman` is its only caller. Whatever goes wrong below HTTP is `PodmanUnavailable` with a sentence; the status of an
answer is for the caller to judge. It retries nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from edgewright.containers.errors import PodmanUnavailable
from edgewright.runtime.http_parser import Answer, AnswerParser

CONNECT_SECONDS: Final = 5.0
MAX_BODY: Final = 16 << 20
"""The longest answer that is read; a list of a thousand pods is a tenth of it."""
_CHUNK: Final = 64 << 10


class Incoming:
    """The head of an answer, whose body is read by the caller."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self.status = 0
        self._reader = reader
        self._ended = False
        self._body: list[bytes] = []
        self._parser = AnswerParser(self._on_head, self._body.append, self._on_end)

    async def head(self) -> None:
        """Waits until the head of the answer is here."""
        while not self.status:
            await self._feed()

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives."""
        while True:
            if self._body:
                data = b"".join(self._body)
                self._body.clear()
                yield data
            elif self._ended:
                return
            else:
                await self._feed()

    async def read(self, limit: int) -> bytes:
        """The whole body; a longer one than `limit` bytes is not read to its end."""
        parts, size = [], 0
        async for chunk in self.chunks():
            size += len(chunk)
            if size > limit:
                raise ConnectionError(f"its answer is longer than {limit} bytes")
            parts.append(chunk)
        return b"".join(parts)

    async def _feed(self) -> None:
        data = await self._reader.read(_CHUNK)
        try:
            if data:
                self._parser.feed(data)
                return
            self._parser.end()
        except ValueError as error:
            raise ConnectionError(f"its answer is not HTTP: {error}" if data else str(error)) from None
        if not self.status:
            raise ConnectionError("it closed the connection without an answer")

    def _on_head(self, status: int, headers: dict[str, str], keep_alive: bool) -> None:
        del headers, keep_alive  # every connection is closed after its answer
        self.status = status

    def _on_end(self) -> None:
        self._ended = True


class Socket:
    """The way to a server that listens on a Unix socket."""

    def __init__(self, path: Path) -> None:
        self.path = path

    async def request(
        self,
        method: str,
        target: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | AsyncIterable[bytes] = b"",
        timeout: float,
        limit: int = MAX_BODY,
    ) -> Answer:
        """Asks and reads the whole answer, all within `timeout` seconds."""
        async with self.open(method, target, headers=headers, body=body, timeout=timeout) as incoming:
            return Answer(incoming.status, {}, await incoming.read(limit))

    @asynccontextmanager
    async def open(
        self,
        method: str,
        target: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | AsyncIterable[bytes] = b"",
        timeout: float | None,
    ) -> AsyncIterator[Incoming]:
        """Asks and gives the head of the answer; the whole exchange takes at most `timeout` seconds, if any."""
        writer: asyncio.StreamWriter | None = None
        try:
            async with asyncio.timeout(timeout):
                async with asyncio.timeout(CONNECT_SECONDS):
                    reader, writer = await asyncio.open_unix_connection(str(self.path))
                await _send(writer, _head(method, target, headers or {}, body), body)
                incoming = Incoming(reader)
                await incoming.head()
                yield incoming
        except TimeoutError:
            raise PodmanUnavailable(f"podman at {self.path} did not answer in time") from None
        except OSError as error:
            raise PodmanUnavailable(f"podman at {self.path} cannot be reached: {error.strerror or error}") from error
        finally:
            if writer is not None:
                writer.transport.abort()
                await asyncio.sleep(0)  # asyncio closes an aborted socket in the next turn of the loop


def _head(method: str, target: str, headers: Mapping[str, str], body: bytes | AsyncIterable[bytes]) -> bytes:
    lines = {"Host": "podman", "User-Agent": "edgewright", "Connection": "close", **headers}
    if not isinstance(body, bytes):
        lines["Transfer-Encoding"] = "chunked"
    elif body or method == "POST":
        lines["Content-Length"] = str(len(body))
    text = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in lines.items()), "", ""]
    return "\r\n".join(text).encode("latin-1")


async def _send(writer: asyncio.StreamWriter, head: bytes, body: bytes | AsyncIterable[bytes]) -> None:
    writer.write(head)
    if isinstance(body, bytes):
        writer.write(body)
    else:
        async for part in body:
            if part:
                writer.write(b"%x\r\n%b\r\n" % (len(part), part))
                await writer.drain()
        writer.write(b"0\r\n\r\n")
    await writer.drain()
