"""The door at which a device calls for its firmware: it lets in the one that shows the right certificate.

The ESP32 driver opens it before it tells the device where to dial. Anybody may dial: callers are heard side by side, a
limited number for a limited time, so that strangers cannot use up the attempt. It never sends firmware.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from edgewright.devices.drivers.esp_device import NotUnderstood, certificate_length
from edgewright.devices.drivers.tls_stream import TlsStream

MOST_CALLERS: Final = 64
"""How many are heard at once; so many more from the device's own address, where that can be seen."""
MOST_FROM_ONE: Final = 8
"""How many from one other address: a LoadBalancer may hide the device's, and one stranger must leave it room."""

MOST_WAITING: Final = 4
"""How many with the right certificate may wait while one is served: one that was cut off dials again."""

MOST_TOLD: Final = 10
"""How many that were turned away are told one by one: more would fill the log, and the report of the flash."""


@dataclass(frozen=True, kw_only=True)
class Caller:
    """The device, known by its certificate."""

    stream: TlsStream
    address: str


class Door:
    """Listens while its `async with` block runs; `next_caller` gives those that showed the certificate."""

    def __init__(
        self,
        address: str,
        port: int,
        *,
        tls: ssl.SSLContext,
        certificate: bytes,
        device_host: str,
        patience: float,
        log: Callable[[str], None],
    ) -> None:
        """`patience` is how long a caller may take to introduce itself."""
        self._address, self._port = address, port
        self._tls = tls
        self._certificate = certificate
        self._device_host = device_host
        self._patience = patience
        self._log = log
        self._calls: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._heard: Counter[str] = Counter()
        self._known: asyncio.Queue[Caller] = asyncio.Queue()
        self._server: asyncio.Server | None = None
        self.turned_away = 0
        """How many callers were not the device."""
        self.last_reason = ""
        """Why the last one was turned away."""

    async def __aenter__(self) -> Self:
        """Begins to listen; OSError where that cannot be."""
        self._server = await asyncio.start_server(self._called, self._address, self._port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None  # noqa: S101 - entered before
        self._server.close()
        writers = list(self._calls.values())
        for task in list(self._calls):
            task.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        while not self._known.empty():
            self._known.get_nowait().stream.abort()
        for writer in writers:
            writer.transport.abort()
        await self._server.wait_closed()
        await asyncio.sleep(0)  # asyncio closes an aborted socket in the next turn of the loop

    async def next_caller(self, seconds: float) -> Caller | None:
        """The next caller that is the device; None where none came within that time."""
        try:
            async with asyncio.timeout(seconds):
                return await self._known.get()
        except TimeoutError:
            return None

    def _called(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = str((writer.get_extra_info("peername") or ("an unknown address",))[0])
        own = address == self._device_host
        if self._heard[address] >= (MOST_CALLERS if own else MOST_FROM_ONE) or (
            not own and len(self._calls) >= MOST_CALLERS
        ):
            self._turn_away(address, "too many callers at once")
            writer.transport.abort()
            return
        task = asyncio.create_task(self._hear(reader, writer, address))
        self._calls[task] = writer
        self._heard[address] += 1

        def over(done: asyncio.Task[None]) -> None:
            self._calls.pop(done, None)
            self._heard[address] -= 1
            if not self._heard[address]:
                del self._heard[address]

        task.add_done_callback(over)

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str) -> None:
        stream = TlsStream(reader, writer, self._tls)
        try:
            async with asyncio.timeout(self._patience):
                await stream.handshake()
                shown = await _read_certificate(stream)
        except TimeoutError:
            reason = f"it did not introduce itself within {self._patience:g} s"
        except ssl.SSLError as error:
            reason = f"no TLS connection came about ({error.reason or error})"
        except (OSError, NotUnderstood) as error:
            reason = str(error) or type(error).__name__
        else:
            if shown == self._certificate and self._known.qsize() < MOST_WAITING:
                self._known.put_nowait(Caller(stream=stream, address=address))
                return
            reason = "its certificate is not the one that the device shows at /onboard"
            if shown == self._certificate:
                reason = "others with the device's certificate wait already"
        self._turn_away(address, reason)
        stream.abort()

    def _turn_away(self, address: str, reason: str) -> None:
        self.turned_away += 1
        self.last_reason = f"{address}: {reason}"
        count = self.turned_away
        if count <= MOST_TOLD:
            self._log(f"a caller was turned away: {self.last_reason}")
        elif count & (count - 1) == 0:  # from here on whenever they are twice as many
            self._log(f"{count} callers were turned away, the last: {self.last_reason}")


async def _read_certificate(stream: TlsStream) -> bytes:
    """The first bytes of a caller, as many as the certificate says that it has."""
    received = b""
    while (length := certificate_length(received)) is None or len(received) < length:
        # Up to where the length stands first, so that nothing after the certificate is read with it.
        data = await stream.read((5 if length is None else length) - len(received))
        if not data:
            raise NotUnderstood("it hung up before its certificate was here")
        received += data
    return received
