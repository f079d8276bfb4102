"""ESP32 plain OTA: raw bytes to a port of the device."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import TypeAlias

import pytest

from edgewright.api.flash_pod import Outcome
from edgewright.devices.drivers.driver import Ended, Facts, Identity, Image
from edgewright.devices.drivers.esp32_plain import Esp32Plain
from edgewright.devices.simulated.firmware import esp_image
from tests.unit.devices.drivers.scripted import QUICK, Around, Page, Scripted, info, own_address, page

CONTENT = esp_image(version="0.2.0", project="thermometer", size=300_000)
IMAGE = Image(content=CONTENT, digest="sha256:1")
DEVICE = Identity(device="esp32", application="thermometer", version="0.1.0")
PORT = 3333

Taker: TypeAlias = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def device(take: Taker, *, update: Page | None = None) -> AsyncIterator[Scripted]:
    """A device that listens as plain OTA does; `take` gets every connection."""
    address = own_address()
    pages = {"/info": info(), "/update": update or page(200)}
    tasks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(task) if (task := asyncio.current_task()) else None
        try:
            await take(reader, writer)
        finally:
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)

    server = await asyncio.start_server(accept, address, PORT, limit=4096)
    async with server, Scripted(pages).running(address, 8080) as scripted:
        yield scripted
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_device_gets_every_byte_and_then_the_end() -> None:
    took: list[bytes] = []

    async def take(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        took.append(await reader.read())

    around = Around(None, external_address="192.0.2.7")
    async with device(take) as scripted:
        driver = Esp32Plain(timing=QUICK)
        assert await driver.inspect(scripted.endpoint) == DEVICE
        assert driver.check(IMAGE, DEVICE).version == "0.2.0"
        await driver.flash(IMAGE, scripted.endpoint, DEVICE, around.surroundings)
        assert scripted.requests[-1] == ("POST /update", b"ip: 192.0.2.7")
    assert took == [CONTENT]
    assert around.written == 1
    assert around.progress[-1] == (len(CONTENT), len(CONTENT))
    assert around.lines == ["the device has everything"]


async def test_firmware_without_the_order_page_is_sent_to_its_port_all_the_same() -> None:
    took: list[bytes] = []

    async def take(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        took.append(await reader.read())

    around = Around(None)
    async with device(take, update=page(404)) as scripted:
        known = replace(DEVICE, device="toaster")
        await Esp32Plain(timing=QUICK).flash(IMAGE, scripted.endpoint, known, around.surroundings)
    assert took == [CONTENT]
    assert any("HTTP 404" in line for line in around.lines)
    assert any("'toaster' is not known" in line for line in around.lines)


async def test_a_device_that_breaks_off_has_been_cut() -> None:
    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1000)
        writer.transport.abort()

    async with device(take) as scripted:
        with pytest.raises(Ended) as caught:
            await Esp32Plain(timing=QUICK).flash(IMAGE, scripted.endpoint, DEVICE, Around(None).surroundings)
    assert caught.value.outcome is Outcome.FAILED
    assert "the transfer was cut at" in caught.value.message


async def test_a_device_that_takes_nothing_is_given_up() -> None:
    over = asyncio.Event()

    async def take(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await over.wait()

    async with device(take) as scripted:
        large = Image(content=bytes(16 << 20), digest="sha256:2")
        with pytest.raises(Ended) as caught:
            await Esp32Plain(timing=QUICK).flash(large, scripted.endpoint, DEVICE, Around(None).surroundings)
        over.set()
    assert "took nothing for 0.5 s" in caught.value.message


async def test_a_device_that_does_not_hang_up_is_left_to_the_proof() -> None:
    over = asyncio.Event()

    async def take(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()
        await over.wait()

    around = Around(None)
    async with device(take) as scripted:
        driver = Esp32Plain(timing=replace(QUICK, farewell=0.1))
        await driver.flash(IMAGE, scripted.endpoint, DEVICE, around.surroundings)
        over.set()
    assert around.lines[-1].endswith("did not hang up")


async def test_a_device_that_does_not_listen_is_unreachable() -> None:
    async with Scripted({"/update": page(200)}).running(own_address(), 8080) as scripted:
        with pytest.raises(Ended) as caught:
            await Esp32Plain(timing=QUICK).flash(IMAGE, scripted.endpoint, DEVICE, Around(None).surroundings)
        endpoint = scripted.endpoint
    assert caught.value.outcome is Outcome.UNREACHABLE
    assert "port 3333" in caught.value.message
    with pytest.raises(Ended) as gone:
        await Esp32Plain(timing=QUICK).flash(IMAGE, endpoint, DEVICE, Around(None).surroundings)
    assert gone.value.outcome is Outcome.UNREACHABLE


async def test_the_restart_is_watched_as_with_secure_ota() -> None:
    async with Scripted({"/info": info("0.2.0")}).running() as scripted:
        driver = Esp32Plain(timing=QUICK)
        after = await driver.verify(scripted.endpoint, DEVICE, "0.2.0", Facts(), Around(None).surroundings)
    assert (after.version, after.boots) == ("0.2.0", "+1")
