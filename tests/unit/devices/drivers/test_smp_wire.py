"""The wires to SMP devices: addresses, framing, and what is dropped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from smp import packet
from smpclient.requests.os_management import EchoWrite

from edgewright.api.flash_pod import Outcome
from edgewright.devices.drivers.driver import Ended
from edgewright.devices.drivers.smp_session import Session, Silent, Timing
from edgewright.devices.drivers.smp_wire import Datagrams, SerialOnTcp, Wire, _Arrivals, place_of


@pytest.mark.parametrize(
    ("endpoint", "port", "expected"),
    [
        ("192.0.2.7", 1337, ("192.0.2.7", 1337)),
        (" 192.0.2.7:99 ", 1337, ("192.0.2.7", 99)),
        ("board.example:2000", None, ("board.example", 2000)),
        ("2001:db8::7", 1337, ("2001:db8::7", 1337)),
        ("[2001:db8::7]", 1337, ("2001:db8::7", 1337)),
        ("[2001:db8::7]:99", None, ("2001:db8::7", 99)),
    ],
)
def test_an_endpoint_is_a_host_and_a_port(endpoint: str, port: int | None, expected: tuple[str, int]) -> None:
    assert place_of(endpoint, port=port) == expected


@pytest.mark.parametrize("endpoint", ["", "192.0.2.7", "192.0.2.7:", "h:0", "h:65536", "h:x", ":5", "2001:db8::7"])
def test_an_endpoint_that_says_too_little_is_unreachable(endpoint: str) -> None:
    with pytest.raises(Ended, match="host:port") as ended:
        place_of(endpoint)
    assert ended.value.outcome is Outcome.UNREACHABLE


@asynccontextmanager
async def line(*, says: bytes) -> AsyncIterator[SerialOnTcp]:
    """An open line on which somebody says that, and then hangs up."""

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(says)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        wire = SerialOnTcp(*server.sockets[0].getsockname())
        await wire.connect("", 5)
        try:
            yield wire
        finally:
            await wire.disconnect()


REQUEST = EchoWrite(d="x" * 300)
MESSAGE = bytes(REQUEST.BYTES)
LINES = list(packet.encode(MESSAGE, line_length=64))


@pytest.mark.parametrize(
    "noise",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"I: booting\r\n", id="a console"),
        pytest.param(LINES[0] + LINES[2], id="a message that lacks a line"),
        pytest.param(LINES[1], id="the end of a message"),
        pytest.param(b"\x06\x09!\n", id="a line that is no base64"),
        pytest.param(b"\x06\x09\n", id="an empty line"),
        pytest.param(next(iter(packet.encode(b"hello"))).replace(b"Wxs", b"Wxt"), id="a wrong checksum"),
        pytest.param(b"x" * 70000 + b"\n", id="a line without an end"),
        pytest.param(b"prompt> ", id="a prompt on the same line"),
    ],
)
async def test_noise_on_a_line_does_no_harm(noise: bytes) -> None:
    async with line(says=noise + b"".join(LINES)) as wire:
        assert await wire.receive() == MESSAGE
        assert len(wire.console) <= 4096
        with pytest.raises(ConnectionResetError):
            await wire.receive()


@pytest.mark.parametrize("wire", [SerialOnTcp("127.0.0.1", 1), Datagrams("127.0.0.1", 1)], ids=["line", "datagrams"])
async def test_a_wire_that_is_not_open_says_so(wire: Wire) -> None:
    with pytest.raises(ConnectionResetError, match="not open"):
        await wire.send(MESSAGE)
    await wire.disconnect()  # closing what is not open does no harm


@pytest.mark.parametrize(
    ("wire", "buffer", "size"),
    [
        (SerialOnTcp("h", 1), 384, 380),
        (SerialOnTcp("h", 1), 10, 160),
        (Datagrams("h", 1), 384, 384),
        (Datagrams("h", 1), 8192, 1452),
    ],
)
def test_a_message_fits_into_the_buffer_of_the_device(wire: Wire, buffer: int, size: int) -> None:
    assert wire.mtu == 256
    wire.initialize(buffer)
    assert wire.max_unencoded_size == size
    for _ in range(10):
        wire.shrink()
    assert wire.max_unencoded_size == 160


async def test_a_host_that_does_not_answer_is_silent_in_time() -> None:
    class Nowhere(Datagrams):
        async def _open(self) -> None:
            await asyncio.Event().wait()

    with pytest.raises(Silent, match="no connection within"):
        async with Session(Nowhere("h", 1), Timing(connect=0.01)):
            pass


async def test_datagrams_that_nobody_waits_for_are_not_kept_without_end() -> None:
    wire = Datagrams("192.0.2.7", 1337)
    arrivals = _Arrivals(wire._arrived)
    for _ in range(1000):
        arrivals.datagram_received(MESSAGE, ("192.0.2.7", 1337))
        arrivals.error_received(ConnectionRefusedError())
    assert wire._arrived.qsize() == 64
    assert await wire.receive() == MESSAGE
