"""TLS over an accepted connection, step by step: handshake, reading, sending, and a farewell whose end can be seen.

The ESP32 driver uses it since the protocol has no acknowledgement: how a device ends the connection is all that it
says of a transfer, and asyncio's own TLS does not tell. It never listens, and knows nothing of devices.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import sys
from collections.abc import Callable
from enum import Enum
from typing import Final, TypeVar

T = TypeVar("T")

_CHUNK: Final = 16 << 10


class End(Enum):
    """How the other side ended the connection."""

    CLOSED = "closed it properly"
    LEFT = "closed it without a word"
    BROKEN = "broke it off"


class TlsStream:
    """The server's side of one TLS connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext) -> None:
        self._reader = reader
        self._writer = writer
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)

    async def handshake(self) -> None:
        """Makes it a TLS connection; OSError (of which ssl.SSLError is one) where the other side does not agree."""
        await self._through(self._tls.do_handshake)

    async def read(self, most: int) -> bytes:
        """Some bytes, `most` at most; empty when the other side has closed properly, OSError when it just went."""
        try:
            return await self._through(lambda: self._tls.read(most))
        except ssl.SSLZeroReturnError:
            return b""

    async def send(self, data: bytes) -> None:
        """Sends all of it: returns when the machine's network has taken most."""
        self._tls.write(data)
        await self._flush()

    async def say_goodbye(self) -> None:
        """Tells the other side that nothing follows; what it still says is to be read with `ended`."""
        with contextlib.suppress(ssl.SSLError):  # it wants the other side's goodbye at once; ours is written by then
            self._tls.unwrap()
        await self._flush()

    async def ended(self) -> End:
        """Waits until the other side ends the connection, and says how; what it sends before that is dropped."""
        try:
            while await self.read(_CHUNK):
                pass
        except ssl.SSLEOFError:
            return End.LEFT
        except OSError:
            return End.BROKEN
        return End.CLOSED

    def unsent(self) -> int:
        """How many bytes of what was sent have not arrived yet: `abort` would take some of them back."""
        waiting = self._writer.transport.get_write_buffer_size()
        # The socket is closed, or the system does not tell.
        with contextlib.suppress(OSError, ValueError, ImportError):
            import fcntl  # noqa: PLC0415 - Windows has neither, and imports this to ask devices
            import termios  # noqa: PLC0415

            on_their_way = fcntl.ioctl(self._writer.get_extra_info("socket").fileno(), termios.TIOCOUTQ, bytes(4))
            waiting += int.from_bytes(on_their_way, sys.byteorder)
        return waiting

    def abort(self) -> None:
        """Ends the connection at once."""
        self._writer.transport.abort()

    async def _through(self, step: Callable[[], T]) -> T:
        while True:
            try:
                result = step()
            except ssl.SSLWantReadError:
                await self._flush()
                data = await self._reader.read(_CHUNK)
                if data:
                    self._incoming.write(data)
                else:
                    self._incoming.write_eof()
            except ssl.SSLError:
                await self._flush()  # the alert that tells the other side why
                raise
            else:
                await self._flush()
                return result

    async def _flush(self) -> None:
        if self._outgoing.pending:
            self._writer.write(self._outgoing.read())
            await self._writer.drain()
