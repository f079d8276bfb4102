"""Zephyr and MCUboot, which others wrote, flashed by our drivers on boards in QEMU."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

import pytest
from smpclient.requests.os_management import ResetWrite

from edgewright.api.flash_pod import Outcome
from edgewright.devices.drivers.driver import Driver, Ended, Facts, Identity, Image, Surroundings
from edgewright.devices.drivers.smp import SmpTcp, SmpUdp
from edgewright.devices.drivers.smp_session import Timing
from edgewright.devices.drivers.smp_wire import SerialOnTcp
from tests.e2e.zephyr import Board
from tests.e2e.zephyr_firmware import (
    MICROBIT,
    damaged,
    image_of,
    pretend_encrypted,
    program_of,
    program_that_restarts_at_once,
    signed,
)
from tests.harness.waiting import wait_until_async

RESTART = ResetWrite().BYTES


@dataclass
class Seen:
    """What a driver said meanwhile."""

    lines: list[str] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)
    written: bool = False

    def around(self) -> Surroundings:
        return Surroundings(
            log=self.lines.append, progress=lambda sent, _: self.sent.append(sent), written=self._on_written
        )

    def _on_written(self) -> None:
        self.written = True


def firmware(content: bytes) -> Image:
    return Image(content=content, digest="sha256:0")


async def awake(driver: Driver, board: str) -> Identity:
    """What the board says of itself, once it has started."""

    async def asked() -> Identity | None:
        try:
            return await driver.inspect(board)
        except Ended:
            return None

    return await wait_until_async(asked, what="the board answers")


async def flash(driver: Driver, board: str, content: bytes, seen: Seen, *, facts: Facts | None = None) -> Identity:
    """All four verbs, in the flasher's order."""
    before = await awake(driver, board)
    image = firmware(content)
    facts = facts or driver.check(image, before)
    handover = await driver.flash(image, board, before, seen.around())
    return await driver.verify(board, before, facts.version, facts, seen.around(), handover=handover)


async def started(board: Board) -> None:
    """Waits until the board prints what it prints when it has started."""
    wire = SerialOnTcp("127.0.0.1", board.port)
    await wire.connect("", 3)
    try:
        while b"build time" not in wire.console:
            await wire.listen(0.1)
    finally:
        await wire.disconnect()


async def test_a_good_image_is_tried_confirmed_and_stays(microbit_board: Board) -> None:
    driver, seen, endpoint = SmpTcp(), Seen(), microbit_board.endpoint
    content = image_of(program_of(signed(MICROBIT)), "1.2.3+4")
    after = await flash(driver, endpoint, content, seen)
    assert (after.device, after.version) == ("qemu_cortex_m0/nrf51822", "1.2.3.4")
    assert any("told to keep it" in line for line in seen.lines)

    microbit_board.reset()
    assert (await awake(driver, endpoint)).build == after.build

    # The same bytes again: nothing is sent, and a restart is seen all the same.
    again = Seen()
    assert (await flash(driver, endpoint, content, again)).boots != ""
    assert again.sent == [len(content)]


async def test_an_image_that_does_not_stay_up_is_reverted_and_reported_so(microbit_board: Board) -> None:
    driver, seen, endpoint = SmpTcp(), Seen(), microbit_board.endpoint
    before = await awake(driver, endpoint)
    with pytest.raises(Ended) as ended:
        await flash(driver, endpoint, image_of(program_that_restarts_at_once(), "6.6.6"), seen)
    assert ended.value.outcome is Outcome.REVERTED
    assert "0.0.0" in ended.value.message
    assert seen.written
    assert (await awake(driver, endpoint)).build == before.build


async def test_an_image_on_trial_that_nobody_confirmed_is_left_before_another_is_flashed(microbit_board: Board) -> None:
    driver, endpoint = SmpTcp(), microbit_board.endpoint
    before = await awake(driver, endpoint)
    content = image_of(program_of(signed(MICROBIT)), "1.0.0")
    await driver.flash(firmware(content), endpoint, before, Surroundings())  # and then the flasher is killed
    on_trial = driver.check(firmware(content), before).build

    await started(microbit_board)
    assert (await driver.inspect(endpoint)).build == on_trial

    seen = Seen()
    with pytest.raises(Ended) as ended:
        await flash(SmpTcp(), endpoint, image_of(program_that_restarts_at_once(), "6.6.6"), seen)
    assert ended.value.outcome is Outcome.REVERTED
    assert any("which nobody confirmed" in line for line in seen.lines)
    assert (await awake(driver, endpoint)).build == before.build


async def test_a_damaged_image_is_refused_before_it_is_sent(microbit_board: Board) -> None:
    driver, endpoint, seen = SmpTcp(), microbit_board.endpoint, Seen()
    with pytest.raises(Ended) as ended:
        await flash(driver, endpoint, damaged(signed(MICROBIT)), seen)
    assert ended.value.outcome is Outcome.CORRUPT
    assert not seen.written


async def test_a_damaged_image_that_only_the_bootloader_knows_is_refused_by_it(microbit_board: Board) -> None:
    driver, endpoint, seen = SmpTcp(), microbit_board.endpoint, Seen()
    before = await awake(driver, endpoint)
    content = pretend_encrypted(damaged(image_of(program_that_restarts_at_once(), "6.6.6")))
    with pytest.raises(Ended) as ended:
        await flash(driver, endpoint, content, seen)
    assert ended.value.outcome is Outcome.CORRUPT
    assert "bootloader refused" in ended.value.message
    assert seen.written
    assert (await awake(driver, endpoint)).build == before.build


class _Gateway(asyncio.DatagramProtocol):
    """Answers each datagram with what the board answers on its serial line; one at a time, others are lost."""

    def __init__(self, wire: SerialOnTcp) -> None:
        self._wire = wire
        self._task: asyncio.Task[None] | None = None
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._carry(data, addr))

    async def _carry(self, data: bytes, addr: tuple[str, int]) -> None:
        assert self._transport is not None
        try:
            async with asyncio.timeout(2):
                self._transport.sendto(await self._wire.send_and_receive(data), addr)
        except TimeoutError:
            return
        if data[4:6] + data[7:8] == RESTART[4:6] + RESTART[7:8]:
            await self._wire.listen(3)  # a board has no network while it starts

    async def end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        assert self._transport is not None
        self._transport.close()
        await self._wire.disconnect()


@asynccontextmanager
async def on_udp(board: Board) -> AsyncIterator[str]:
    """The board's endpoint on UDP: a gateway that takes datagrams to its serial line and back."""
    wire = SerialOnTcp("127.0.0.1", board.port)
    await wire.connect("", 3)
    transport, gateway = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: _Gateway(wire), local_addr=("127.0.0.1", 0)
    )
    try:
        host, port = transport.get_extra_info("sockname")
        yield f"{host}:{port}"
    finally:
        await gateway.end()


async def test_the_same_board_is_flashed_over_udp(microbit_board: Board) -> None:
    async with on_udp(microbit_board) as endpoint:
        # A serial line takes a little less than the buffer that the board tells: the first message is lost, and shrunk.
        driver, seen = SmpUdp(timing=Timing(erase=2)), Seen()
        before = await awake(driver, endpoint)
        assert (before.device, before.version) == ("qemu_cortex_m0/nrf51822", "0.0.0")
        with pytest.raises(Ended) as ended:
            await flash(driver, endpoint, image_of(program_that_restarts_at_once(), "6.6.6"), seen)
    assert ended.value.outcome is Outcome.REVERTED
