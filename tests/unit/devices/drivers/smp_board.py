"""A board that speaks SMP, with two slots and a bootloader that swaps them, on a TCP or a UDP port of loopback.

It behaves as Zephyr under MCUboot does (tests/e2e shows that on the real one), and has the faults that a test orders.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

import cbor2
from smp import packet

from edgewright.devices.firmware.mcuboot import BadImage, read_mcuboot_image

IMAGES, OS = 1, 0
STATE, UPLOAD = 0, 1
RESET, PARAMETERS, INFO = 5, 6, 7
READ, WRITE = 0, 2


@dataclass
class Program:
    """An image in a slot."""

    version: str
    build: bytes


@dataclass
class SmpBoard:
    """The board; its fields are its state and its faults."""

    primary: Program = field(default_factory=lambda: Program("0.0.0", b"\1" * 32))
    secondary: Program | None = None
    pending: bool = False
    confirmed: bool = True
    buffer: int | None = 256
    """None: it does not tell."""
    platform: str | None = "board/soc"
    no_trial: bool = False
    refuses: bool = False
    """The bootloader throws away what it should start."""
    crashes: int = 0
    """So many programs restart by themselves before they answer."""
    starts_late: int = 0
    """It does not answer so many requests after a restart."""
    deaf_to_restarts: int = 0
    forgets_confirmation: bool = False
    mismatch: bool = False
    prints: bool = True
    """Its console shares the line."""
    hang_up: int = 0
    """So many connections are closed as soon as they are there."""
    lose: Callable[[int, int, int], bool] = lambda _group, _command, _size: False
    """Which requests are lost on the way: by group, command and size of the message."""
    deny: dict[tuple[int, int, int], dict[str, Any]] = field(default_factory=dict)
    """What it answers instead, by operation, group and command."""

    starts: int = 0
    received: bytes = b""
    asked: list[tuple[int, int, int]] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    _length: int = 0
    _late: int = 0
    print_line: Callable[[bytes], None] = lambda _line: None

    def answer(self, request: bytes) -> bytes | None:
        """The answer to one message; None where there is none."""
        operation, group, command = request[0] & 7, int.from_bytes(request[4:6], "big"), request[7]
        if self.lose(group, command, len(request)):
            return None
        if self._late:
            self._late -= 1
            return None
        self.asked.append((operation, group, command))
        self.sizes.append(len(request))
        content = cast(dict[str, Any], cbor2.loads(request[8:]))
        denied = self.deny.get((operation, group, command))
        body = cbor2.dumps(self._do(operation, group, command, content) if denied is None else denied)
        head = bytes([(request[0] & 0xF8) | operation + 1, 0]) + len(body).to_bytes(2, "big") + request[4:8]
        return head + body

    def restart(self) -> None:
        """What the bootloader does, and a program that does not stay up."""
        self.starts += 1
        self._late = self.starts_late
        if self.prints:
            self.print_line(b"*** Booting MCUboot ***\r\n")
        if self.secondary is not None and (self.pending or self.no_trial):
            self.pending = False
            if self.refuses:
                self.secondary = None
            else:
                self._swap(confirmed=self.no_trial)
                if self.crashes:
                    self.crashes -= 1
                    self.restart()
        elif not self.confirmed:
            self._swap(confirmed=True)

    def _swap(self, *, confirmed: bool) -> None:
        assert self.secondary is not None
        self.primary, self.secondary = self.secondary, self.primary
        self.confirmed = confirmed

    def _do(self, operation: int, group: int, command: int, content: dict[str, Any]) -> dict[str, Any]:
        match operation, group, command:
            case (0, 1, 0):
                return {"images": self._states(), "splitStatus": 0}
            case (2, 1, 0):
                return self._set_state(content)
            case (2, 1, 1):
                return self._upload(content)
            case (2, 0, 5):
                if self.deaf_to_restarts:
                    self.deaf_to_restarts -= 1
                else:
                    asyncio.get_running_loop().call_soon(self.restart)
                return {}
            case (0, 0, 6) if self.buffer is not None:
                return {"buf_size": self.buffer, "buf_count": 4}
            case (0, 0, 7) if self.platform is not None:
                return {"output": self.platform}
        return {"rc": 8}

    def _states(self) -> list[dict[str, Any]]:
        states: list[dict[str, Any]] = [
            {
                "slot": 0,
                "version": self.primary.version,
                "hash": self.primary.build,
                "active": True,
                "confirmed": self.confirmed,
            },
            {"image": 1, "slot": 0, "version": "9.9.9", "hash": b"\7" * 32, "active": True},
        ]
        if self.secondary is not None:
            other = self.secondary
            states.insert(
                1, {"slot": 1, "version": other.version, "hash": other.build, "pending": self.pending, "active": False}
            )
        return states

    def _set_state(self, content: dict[str, Any]) -> dict[str, Any]:
        if self.no_trial:
            return {"rc": 8}
        if content.get("confirm"):
            self.confirmed = not self.forgets_confirmation
        elif self.secondary is None or content["hash"] != self.secondary.build:
            return {"err": {"group": 1, "rc": 3}}
        elif self.pending:
            return {"err": {"group": 1, "rc": 28}}
        else:
            self.pending = True
        return {"images": self._states()}

    def _upload(self, content: dict[str, Any]) -> dict[str, Any]:
        if not self.confirmed:
            return {"err": {"group": 1, "rc": 9}}
        if content["off"] == 0:
            self._length, self.received, self.secondary = content["len"], b"", None
        if content["off"] == len(self.received):
            self.received += content["data"]
        answer: dict[str, Any] = {"off": len(self.received)}
        if len(self.received) == self._length:
            if self.mismatch:
                answer["match"] = False
            try:
                read = read_mcuboot_image(self.received)
                self.secondary = Program(read.version, bytes.fromhex(read.build))
            except BadImage:
                self.secondary = None
        return answer

    @asynccontextmanager
    async def on_tcp(self) -> AsyncIterator[str]:
        """Its serial line on a TCP port."""
        writers: set[asyncio.StreamWriter] = set()
        serving: set[asyncio.Task[None]] = set()

        backlog = bytearray()

        def printed(line: bytes) -> None:
            backlog.extend(line)
            for writer in writers:
                writer.write(line)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if self.hang_up:
                self.hang_up -= 1
                writer.close()
                return
            writers.add(writer)
            serving.add(cast("asyncio.Task[None]", asyncio.current_task()))
            writer.write(backlog)  # whoever serves the line kept what was printed while nobody listened
            backlog.clear()
            decoder = packet.decode()
            next(decoder)
            try:
                while line := await reader.readline():
                    try:
                        decoder.send(line)
                    except StopIteration as whole:
                        decoder = packet.decode()
                        next(decoder)
                        if (answer := self.answer(whole.value)) is not None:
                            writer.write(b"log: " + b"".join(packet.encode(answer, line_length=64)))
            finally:
                writers.discard(writer)
                writer.close()

        self.print_line = printed
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        try:
            yield "127.0.0.1:{1}".format(*server.sockets[0].getsockname())
        finally:
            server.close()
            for writer in tuple(writers):
                writer.close()
            await server.wait_closed()
            await asyncio.gather(*serving, return_exceptions=True)

    @asynccontextmanager
    async def on_udp(self, *, port: int = 0) -> AsyncIterator[str]:
        """Its UDP port."""
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: _Served(self), local_addr=("127.0.0.1", port)
        )
        try:
            yield "127.0.0.1:{1}".format(*transport.get_extra_info("sockname"))
        finally:
            transport.close()


class _Served(asyncio.DatagramProtocol):
    def __init__(self, board: SmpBoard) -> None:
        self._board = board

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if (answer := self._board.answer(data)) is not None:
            self._transport.sendto(b"\1\0\0\0\0\0\0\0", addr)  # of an earlier request: to be dropped
            self._transport.sendto(answer[:9], addr)  # damaged: to be dropped too
            self._transport.sendto(answer, addr)
