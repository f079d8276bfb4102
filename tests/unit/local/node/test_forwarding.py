"""Connections go to those who serve: with half-close, back-pressure and limits, whatever changes meanwhile."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from edgewright.local.node.forwarding import Backend, Bind, Forwarder, Limits, Route
from edgewright.runtime import Key

ONE, TWO = Key("ns", "one"), Key("ns", "two")
HERE = "127.60.77.1"
MINE, OTHERS = ipaddress.IPv4Network("127.60.77.10/32"), ipaddress.IPv4Network("127.60.77.20/32")


def free_port(address: str = HERE, kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind((address, 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def bind() -> Bind:
    return Bind("TCP", HERE, free_port())


@asynccontextmanager
async def forwarding(**limits: Any) -> AsyncIterator[Forwarder]:
    forwarder = Forwarder(limits=Limits(**limits))
    try:
        yield forwarder
    finally:
        await forwarder.close()


class Pod:
    """Somebody who serves: says its name, then repeats what it hears, and says goodbye after the other's end."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.backend = Backend("", 0)
        self.open = 0
        self.held = asyncio.Event()
        self.held.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        try:
            writer.write(f"{self.name}:".encode())
            await self.held.wait()
            while chunk := await reader.read(1 << 16):
                writer.write(chunk)
                await writer.drain()
            writer.write(b":bye")
            await writer.drain()
        except ConnectionError:
            pass
        finally:
            self.open -= 1
            writer.close()


@asynccontextmanager
async def pod(name: str = "pod") -> AsyncIterator[Pod]:
    made = Pod(name)
    server = await asyncio.start_server(made.serve, "127.60.77.2", 0)
    made.backend = Backend(*server.sockets[0].getsockname())
    try:
        yield made
    finally:
        made.held.set()
        server.close()
        await server.wait_closed()
        await until(lambda: made.open == 0)


async def until(condition: Any) -> None:
    async with asyncio.timeout(180):
        while not condition():  # noqa: ASYNC110 - nobody tells when it may be true
            await asyncio.sleep(0.002)


@asynccontextmanager
async def dialled(bind: Bind, source: str = "") -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    local = (source, 0) if source else None
    reader, writer = await asyncio.open_connection(bind.address, bind.port, local_addr=local)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def said(bind: Bind, source: str = "") -> bytes:
    """What a whole conversation brings; nothing where the other side hangs up."""
    async with dialled(bind, source) as (reader, writer):
        try:
            writer.write(b"hello")
            writer.write_eof()
            return await reader.read()
        except OSError:
            return b""


async def test_each_direction_ends_on_its_own(bind: Bind) -> None:
    async with pod() as served, forwarding() as forwarder:
        assert await forwarder.offer(ONE, {bind: Route((served.backend,))}) == {}
        assert await said(bind) == b"pod:hello:bye"
        await until(lambda: forwarder.live == 0)
        assert forwarder.counts == {"forwarded": 1}


async def test_connections_go_to_each_in_turn_and_past_one_who_cannot_be_reached(bind: Bind) -> None:
    async with pod("a") as a, pod("b") as b, forwarding() as forwarder:
        nobody = Backend("127.60.77.3", free_port("127.60.77.3"))
        await forwarder.offer(ONE, {bind: Route((a.backend, nobody, b.backend))})
        answers = [(await said(bind)).split(b":")[0] for _ in range(6)]
        assert sorted(answers) == [b"a", b"a", b"b", b"b", b"b", b"b"]


async def test_a_connection_goes_to_the_service_whose_range_holds_the_peer(
    bind: Bind, caplog: pytest.LogCaptureFixture
) -> None:
    async with pod("a") as a, pod("b") as b, forwarding() as forwarder:
        await forwarder.offer(ONE, {bind: Route((a.backend,), (MINE,))})
        await forwarder.offer(TWO, {bind: Route((b.backend,), (OTHERS,))})
        assert await said(bind, "127.60.77.10") == b"a:hello:bye"
        assert await said(bind, "127.60.77.20") == b"b:hello:bye"
        assert await said(bind, "127.60.77.30") == b""
        assert forwarder.counts["refused"] == 1
        assert "connection refused: not in loadBalancerSourceRanges" in caplog.text
        await forwarder.offer(ONE, {})
        assert await said(bind, "127.60.77.10") == b""
        assert await said(bind, "127.60.77.20") == b"b:hello:bye"


async def test_a_change_leaves_connections_under_way_and_the_listener_alone(bind: Bind) -> None:
    async with pod("old") as old, pod("new") as new, forwarding() as forwarder:
        await forwarder.offer(ONE, {bind: Route((old.backend,))})
        async with dialled(bind) as (reader, writer):
            assert await reader.readexactly(4) == b"old:"
            await forwarder.offer(ONE, {bind: Route((new.backend,))})
            assert (await said(bind)).startswith(b"new:")
            await forwarder.offer(ONE, {})
            assert forwarder.binds == set()
            writer.write(b"still")
            assert await reader.readexactly(5) == b"still"
            with pytest.raises(ConnectionError):
                await asyncio.open_connection(bind.address, bind.port)


async def test_without_anybody_who_serves_a_connection_is_closed_at_once(bind: Bind) -> None:
    async with forwarding(connect_seconds=1) as forwarder:
        await forwarder.offer(ONE, {bind: Route(())})
        assert await said(bind) == b""
        assert forwarder.counts == {"no-endpoint": 1}
        await forwarder.offer(ONE, {bind: Route((Backend("127.60.77.3", free_port("127.60.77.3")),))})
        assert await said(bind) == b""
        assert forwarder.counts["unreachable"] == 1


async def test_one_who_does_not_read_is_not_sent_more_than_buffers_hold(bind: Bind) -> None:
    async with pod() as served, forwarding() as forwarder:
        served.held.clear()
        await forwarder.offer(ONE, {bind: Route((served.backend,))})
        async with dialled(bind) as (reader, writer):
            assert await reader.readexactly(4) == b"pod:"
            sent = await _written_until_nobody_reads(writer)
            assert sent < 64 << 20
            served.held.set()
            received = 0
            while received < sent:
                received += len(await reader.read(1 << 20))
            assert received == sent


async def _written_until_nobody_reads(writer: asyncio.StreamWriter) -> int:
    """How much can be written until all buffers on the way are full."""
    sent = 0
    try:
        while sent < 64 << 20:
            writer.write(bytes(1 << 16))
            sent += 1 << 16
            async with asyncio.timeout(0.3):
                await writer.drain()
    except TimeoutError:
        pass
    return sent


@pytest.mark.parametrize("limits", [{"connections": 2}, {"connections_each": 2}], ids=["at all", "at one"])
async def test_more_connections_than_allowed_are_closed(bind: Bind, limits: Any) -> None:
    async with pod() as served, forwarding(**limits) as forwarder:
        await forwarder.offer(ONE, {bind: Route((served.backend,))})
        async with dialled(bind) as (one, _), dialled(bind) as (two, _):
            assert await one.readexactly(4) == await two.readexactly(4) == b"pod:"
            assert await said(bind) == b""
            assert forwarder.counts["too-many"] == 1
        await until(lambda: forwarder.live == 0)
        assert await said(bind) == b"pod:hello:bye"


async def test_a_connection_on_which_nothing_moves_is_closed(bind: Bind) -> None:
    async with pod() as served, forwarding(idle_seconds=0.1) as forwarder:
        await forwarder.offer(ONE, {bind: Route((served.backend,))})
        async with dialled(bind) as (reader, _):
            assert await reader.readexactly(4) == b"pod:"
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
        await until(lambda: forwarder.live == 0)
        assert forwarder.counts["idle"] == 1


async def test_a_reset_is_passed_on(bind: Bind) -> None:
    async with pod() as served, forwarding() as forwarder:
        await forwarder.offer(ONE, {bind: Route((served.backend,))})
        async with dialled(bind) as (reader, writer):
            assert await reader.readexactly(4) == b"pod:"
            connection: socket.socket = writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        await until(lambda: served.open == 0 and forwarder.live == 0)
        assert forwarder.counts["broken"] == 1


async def test_what_cannot_be_listened_on_is_told_and_tried_again() -> None:
    with socket.socket() as taken:
        taken.bind((HERE, 0))
        taken.listen()
        bind = Bind("TCP", HERE, taken.getsockname()[1])
        elsewhere = Bind("TCP", "203.0.113.1", 80)
        async with pod() as served, forwarding() as forwarder:
            routes = {bind: Route((served.backend,)), elsewhere: Route((served.backend,))}
            faults = await forwarder.offer(ONE, routes)
            assert faults.keys() == {bind, elsewhere}
            assert "in use" in faults[bind]
            taken.close()
            assert (await forwarder.offer(ONE, {bind: routes[bind]})) == {}
            assert await said(bind) == b"pod:hello:bye"
    assert str(bind).endswith("/TCP")


async def test_closing_ends_everything(bind: Bind) -> None:
    outcomes: list[str] = []
    async with pod() as served:
        forwarder = Forwarder(count=outcomes.append)
        await forwarder.offer(ONE, {bind: Route((served.backend,))})
        async with dialled(bind) as (reader, _):
            assert await reader.readexactly(4) == b"pod:"
            await forwarder.close()
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await reader.readexactly(1)
        assert await forwarder.offer(TWO, {bind: Route((served.backend,))}) == {}
        assert forwarder.binds == set()
    assert outcomes == ["forwarded"]


async def test_what_is_offered_while_it_closes_is_not_listened_for(bind: Bind) -> None:
    forwarder = Forwarder()
    offering = asyncio.create_task(forwarder.offer(ONE, {bind: Route(())}))
    await asyncio.sleep(0)
    await forwarder.close()
    assert await offering == {}
    assert forwarder.binds == set()


class Echo(asyncio.DatagramProtocol):
    """Answers every datagram."""

    def __init__(self) -> None:
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.transport.sendto(b"heard " + data, addr)


class Ear(asyncio.DatagramProtocol):
    """Collects datagrams."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.heard.append(data)


@asynccontextmanager
async def echo() -> AsyncIterator[Backend]:
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(Echo, local_addr=("127.60.77.2", 0))
    try:
        yield Backend(*transport.get_extra_info("sockname"))
    finally:
        transport.close()
        await asyncio.sleep(0)


@asynccontextmanager
async def speaking(bind: Bind, source: str = "127.60.77.10") -> AsyncIterator[tuple[asyncio.DatagramTransport, Ear]]:
    loop = asyncio.get_running_loop()
    transport, ear = await loop.create_datagram_endpoint(
        Ear, local_addr=(source, 0), remote_addr=(bind.address, bind.port)
    )
    try:
        yield transport, ear
    finally:
        transport.close()
        await asyncio.sleep(0)


async def test_datagrams_are_forwarded_and_answers_come_back() -> None:
    bind = Bind("UDP", HERE, free_port(kind=socket.SOCK_DGRAM))
    async with echo() as backend, forwarding(connections_each=1) as forwarder:
        assert await forwarder.offer(ONE, {bind: Route((backend,), (MINE, OTHERS))}) == {}
        async with (
            speaking(bind) as (mouth, ear),
            speaking(bind, "127.60.77.30") as (stranger, strange_ear),
        ):
            mouth.sendto(b"one")
            mouth.sendto(b"two")
            await until(lambda: ear.heard == [b"heard one", b"heard two"])
            mouth.sendto(b"three")
            await until(lambda: len(ear.heard) == 3)
            async with speaking(bind, "127.60.77.20") as (second, _):
                second.sendto(b"one too many")
                await until(lambda: forwarder.counts["too-many"] == 1)
            assert forwarder.counts["forwarded"] == 1
            stranger.sendto(b"let me in")
            await until(lambda: forwarder.counts["too-many"] == 2)
            assert strange_ear.heard == []
        await forwarder.offer(ONE, {})
        await asyncio.sleep(0)


async def test_datagrams_of_strangers_and_for_nobody_are_dropped() -> None:
    bind = Bind("UDP", HERE, free_port(kind=socket.SOCK_DGRAM))
    async with forwarding() as forwarder:
        await forwarder.offer(ONE, {bind: Route((), (MINE,))})
        async with speaking(bind) as (mouth, _), speaking(bind, "127.60.77.30") as (stranger, _):
            mouth.sendto(b"hello")
            await until(lambda: forwarder.counts["no-endpoint"] == 1)
            stranger.sendto(b"hello")
            await until(lambda: forwarder.counts["refused"] == 1)
    await asyncio.sleep(0)


async def test_a_silent_peer_is_forgotten_and_one_without_a_listener_is_routed_again() -> None:
    bind = Bind("UDP", HERE, free_port(kind=socket.SOCK_DGRAM))
    nobody = Backend("127.60.77.3", free_port("127.60.77.3", socket.SOCK_DGRAM))
    async with echo() as backend, forwarding(datagram_idle_seconds=0.05) as forwarder:
        await forwarder.offer(ONE, {bind: Route((nobody,))})
        async with speaking(bind) as (mouth, ear):
            mouth.sendto(b"lost")
            await until(lambda: forwarder.counts["forwarded"] == 1)
            await forwarder.offer(ONE, {bind: Route((backend,))})

            async def heard() -> None:
                while not ear.heard:
                    mouth.sendto(b"again")
                    await asyncio.sleep(0.02)

            async with asyncio.timeout(180):
                await heard()
            before = forwarder.counts["forwarded"]
            listener = forwarder._listeners[bind]._datagrams
            await until(lambda: listener is not None and not listener._peers)
            mouth.sendto(b"again")
            await until(lambda: forwarder.counts["forwarded"] == before + 1)
            await until(lambda: ear.heard[-1] == b"heard again")
    await asyncio.sleep(0)
