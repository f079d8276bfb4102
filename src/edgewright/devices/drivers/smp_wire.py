"""The two ways in which SMP messages reach a device here: datagrams, and a serial line that is served on TCP.

Sessions with SMP devices send and receive through these; smpclient creates and reads the messages. An answer that
belongs to an earlier request is dropped here, and so is what a console prints between messages.
Nothing is sent twice here.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import struct
from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import Final

from smp import packet
from smp.exceptions import SMPException
from smp.header import Header
from smpclient.transport import SMPTransport

from edgewright.api.flash_pod import Outcome
from edgewright.devices.drivers.driver import Ended

SMP_PORT: Final = 1337
"""Where Zephyr's SMP server listens for datagrams."""

_LINE: Final = 128
"""Characters on one line of the serial framing, by convention."""
_FRAMING: Final = 4
"""Bytes of a serial frame besides the message, in the same buffer of the device: its length and its checksum."""
_UNKNOWN_BUFFER: Final = 256
"""What every server has room for, where a device does not tell."""
_SMALLEST: Final = 160
"""No message is made smaller than this: the first of an upload carries two hashes' worth besides the content."""
_DATAGRAM: Final = 1500 - 48
"""What fits into one packet on any Ethernet, over IPv6 too."""
_MARKS: Final = (packet.START_DELIMITER, packet.CONTINUE_DELIMITER)
_MAX_CONSOLE: Final = 4096
_MAX_LINE: Final = 65536
_MAX_ARRIVED: Final = 64
"""Datagrams that are kept until somebody asks for them: anybody can send more in the device's name."""


def place_of(endpoint: str, *, port: int | None = None) -> tuple[str, int]:
    """Host and port of an endpoint (host, host:port, [IPv6]:port); Ended where it names no port and none is usual."""
    host, separator, number = endpoint.strip().rpartition(":")
    if not separator or _is_ipv6(endpoint.strip()):
        host, number = endpoint.strip(), ""
    host = host.removeprefix("[").removesuffix("]")
    if not number and port is not None and host:
        return host, port
    if not (host and number.isascii() and number.isdigit() and 0 < int(number) < 65536):
        raise Ended(Outcome.UNREACHABLE, f"{endpoint!r} does not say where the device is: it must be host:port")
    return host, int(number)


class Wire(SMPTransport, ABC):
    """A way to a device: a transport of smpclient's that is open between `open` and `disconnect`."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.console = bytearray()
        """The last of what the device printed besides messages."""
        self._largest = _UNKNOWN_BUFFER

    async def connect(self, address: str, timeout_s: float) -> None:  # noqa: ARG002 - smpclient's signature
        """Opens the way to the device, to the place that it was made for; OSError where that fails."""
        async with asyncio.timeout(timeout_s):
            await self._open()

    async def send_and_receive(self, data: bytes) -> bytes:
        """Sends a request and gives the answer to it; answers to earlier ones are dropped."""
        await self.send(data)
        while not _answers(data, frame := await self.receive()):
            pass
        return frame

    def initialize(self, smp_server_transport_buffer_size: int) -> None:
        """Takes the size of the device's buffer, which one message must fit into."""
        self._largest = max(_SMALLEST, self._fitting(smp_server_transport_buffer_size))

    @property
    def mtu(self) -> int:
        """The size of the largest message."""
        return self._largest

    @property
    def max_unencoded_size(self) -> int:
        """The same: messages are measured before they are framed."""
        return self._largest

    def shrink(self) -> None:
        """Makes the largest message half as large, for lines that lose some of long ones."""
        self._largest = max(_SMALLEST, self._largest // 2)

    async def listen(self, seconds: float) -> None:
        """Says nothing for so long, where a device that is starting must not be spoken to."""

    @abstractmethod
    async def _open(self) -> None:
        """Opens the way to the device."""

    @abstractmethod
    def _fitting(self, buffer: int) -> int:
        """The largest message for a device whose buffer has that size."""


class SerialOnTcp(Wire):
    """SMP's serial framing on a TCP connection, as ser2net (raw mode) and QEMU serve a serial line."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._unread = bytearray()

    async def _open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self.host, self.port)
        self._unread.clear()

    async def disconnect(self) -> None:
        """Closes the connection."""
        if self._writer is not None:
            self._writer.close()
            with contextlib.suppress(OSError):  # it was broken: closed all the same
                await self._writer.wait_closed()
            self._reader = self._writer = None

    async def send(self, data: bytes) -> None:
        """Sends one message, as so many lines as it needs."""
        if self._writer is None:
            raise ConnectionResetError("the connection is not open")
        self._writer.write(b"".join(packet.encode(data, line_length=_LINE)))
        await self._writer.drain()

    async def receive(self) -> bytes:
        """Waits for the next whole message; one that is damaged is dropped: whoever asked asks again."""
        decoder: Generator[None, bytes, bytes] | None = None
        while True:
            line = await self._framed_line()
            if line.startswith(packet.START_DELIMITER):
                decoder = packet.decode()
                next(decoder)
            if decoder is None:  # the rest of one whose beginning was lost
                continue
            try:
                decoder.send(line)
            except StopIteration as done:
                return bytes(done.value)
            except (SMPException, ValueError, struct.error):
                decoder = None

    async def listen(self, seconds: float) -> None:
        """Only listens for so long: a bootloader may take what arrives for a call to recovery."""
        try:
            async with asyncio.timeout(seconds):
                while True:
                    await self.receive()
        except TimeoutError:
            pass

    def _fitting(self, buffer: int) -> int:
        return buffer - _FRAMING

    async def _framed_line(self) -> bytes:
        """The next line that belongs to a message; others are the console's."""
        while True:
            line = await self._line()
            starts = [
                at for mark in (packet.START_DELIMITER, packet.CONTINUE_DELIMITER) if (at := line.find(mark)) >= 0
            ]
            begin = min(starts, default=len(line))
            self.console += line[:begin]
            del self.console[:-_MAX_CONSOLE]
            if starts:
                return line[begin:].rstrip(b"\r\n") + packet.END_DELIMITER

    async def _line(self) -> bytes:
        while (end := self._unread.find(b"\n")) < 0:
            more = await self._reader.read(4096) if self._reader is not None else b""
            if not more:
                raise ConnectionResetError("the connection was closed by whoever serves the serial line")
            self._unread += more
            if len(self._unread) > _MAX_LINE:
                self._unread.clear()
        line = bytes(self._unread[: end + 1])
        del self._unread[: end + 1]
        return line


class Datagrams(Wire):
    """SMP messages as datagrams, one each."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self._arrived: asyncio.Queue[bytes | Exception] = asyncio.Queue(_MAX_ARRIVED)
        self._transport: asyncio.DatagramTransport | None = None

    async def _open(self) -> None:
        self._transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: _Arrivals(self._arrived), remote_addr=(self.host, self.port)
        )

    async def disconnect(self) -> None:
        """Closes the socket."""
        if self._transport is not None:
            self._transport.close()
            self._transport = None

    async def send(self, data: bytes) -> None:
        """Sends one message; what arrived before it is no longer needed."""
        if self._transport is None:
            raise ConnectionResetError("the socket is not open")
        while not self._arrived.empty():
            self._arrived.get_nowait()
        self._transport.sendto(data)

    async def receive(self) -> bytes:
        """Waits for the next whole message; OSError where the network says that nobody is there."""
        while True:
            arrived = await self._arrived.get()
            if isinstance(arrived, Exception):
                raise arrived
            if _is_whole(arrived):
                return arrived

    def _fitting(self, buffer: int) -> int:
        return min(buffer, _DATAGRAM)


class _Arrivals(asyncio.DatagramProtocol):
    """Puts what arrives where it is waited for."""

    def __init__(self, arrived: asyncio.Queue[bytes | Exception]) -> None:
        self._arrived = arrived

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:  # noqa: ARG002 - asyncio's signature
        self._put(data)

    def error_received(self, exc: Exception) -> None:
        self._put(exc)

    def _put(self, arrived: bytes | Exception) -> None:
        with contextlib.suppress(asyncio.QueueFull):  # lost, as datagrams may be
            self._arrived.put_nowait(arrived)


def _is_ipv6(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).version == 6
    except ValueError:
        return False


def _is_whole(message: bytes) -> bool:
    return len(message) >= Header.SIZE and len(message) == Header.SIZE + int.from_bytes(message[2:4], "big")


def _answers(request: bytes, message: bytes) -> bool:
    """Whether the message is whole and says the request's group, sequence number and command, as an answer."""
    same = _is_whole(message) and message[4:8] == request[4:8]
    return same and message[0] & 7 == (request[0] & 7) + 1
