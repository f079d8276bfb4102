"""ESP32 plain OTA: raw bytes to a TCP port of the device, which anybody on its network could send or change as well.

The flasher calls it for protocol esp32-plain, and only where the job allows that nothing protects the transfer. As
with secure OTA the device writes the slot that it does not run, so that a transfer that is cut does no harm.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar, Final

from edgewright.api.flash_pod import Outcome
from edgewright.api.flash_pod import Protocol as ProtocolName
from edgewright.api.protocols import TRAITS, Traits
from edgewright.devices.drivers.driver import NOTHING, Ended, Facts, Handover, Identity, Image, Surroundings
from edgewright.devices.drivers.esp_device import (
    Timing,
    host_of,
    inspect_device,
    order_update,
    until_it_leaves,
    watch_reboot,
)
from edgewright.devices.firmware.esp import check_esp_image, chip_of
from edgewright.devices.timescale import time_scale

PLAIN_PORT: Final = 3333
"""Where a device with plain OTA listens."""
_PART: Final = 16 << 10


class Esp32Plain:
    """The driver for ESP32 devices with plain OTA."""

    protocol: ClassVar[str] = ProtocolName.ESP32_PLAIN
    traits: ClassVar[Traits] = TRAITS[ProtocolName.ESP32_PLAIN]

    def __init__(self, *, timing: Timing | None = None, port: int = PLAIN_PORT) -> None:
        """`timing` is by default that of real devices, scaled as EDGEWRIGHT_TIME_SCALE says."""
        self._timing = Timing().scaled(time_scale()) if timing is None else timing
        self._port = port

    async def inspect(self, endpoint: str) -> Identity:
        """Asks the device what it is; it has no certificate."""
        return await inspect_device(endpoint, self._timing)

    def check(self, image: Image, device: Identity) -> Facts:
        """Reads the image and compares its chip with the device's."""
        return check_esp_image(image.content, device.device)

    async def flash(self, image: Image, endpoint: str, device: Identity, around: Surroundings) -> Handover:
        """Sends the image to the device; it restarts by itself when it has all of it."""
        if chip_of(device.device) is None:
            around.log(f"the device type {device.device!r} is not known here: the image's chip was not compared")
        await self._order(endpoint, around)
        reader, writer = await self._connect(host_of(endpoint), endpoint)
        try:
            around.written()
            await self._send(reader, writer, image.content, around)
            return Handover()
        finally:
            writer.transport.abort()
            await asyncio.sleep(0)  # asyncio closes an aborted socket in the next turn of the loop

    async def verify(
        self,
        endpoint: str,
        before: Identity,
        wanted: str,
        facts: Facts,
        around: Surroundings,
        *,
        handover: Handover = NOTHING,  # noqa: ARG002 - it is asked, and goes away only then
    ) -> Identity:
        """Watches the device restart and settle; where it never restarts, what it said last, with `boots` as before."""
        return await watch_reboot(endpoint, before, wanted, facts, around, timing=self._timing)

    async def until_it_leaves(self, endpoint: str, device: Identity) -> None:
        """Returns when the device goes away or answers otherwise than this; a short absence is seen too."""
        await until_it_leaves(endpoint, device, timing=self._timing)

    async def _order(self, endpoint: str, around: Surroundings) -> None:
        """Has the device open its port: the published firmware listens when it is told to, other firmware always."""
        try:
            answer = await order_update(endpoint, around.external_address, self._timing)
        except OSError as error:
            raise Ended(Outcome.UNREACHABLE, f"the device at {endpoint} took no order to update: {error}") from error
        if not 200 <= answer.status < 300:
            around.log(f"the device answered the order to update with HTTP {answer.status}; trying its port anyway")

    async def _connect(self, host: str, endpoint: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        problem: OSError | None = None
        for _ in range(self._timing.tries):
            try:
                async with asyncio.timeout(self._timing.ask):
                    return await asyncio.open_connection(host, self._port)
            except OSError as error:
                problem = error
            await asyncio.sleep(self._timing.poll)
        raise Ended(
            Outcome.UNREACHABLE,
            f"the device at {endpoint} takes no firmware on port {self._port}: {problem or 'no answer'}",
        ) from problem

    async def _send(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, content: bytes, around: Surroundings
    ) -> None:
        sent = 0
        try:
            for start in range(0, len(content), _PART):
                writer.write(content[start : start + _PART])
                async with asyncio.timeout(self._timing.stall):
                    await writer.drain()
                sent = min(start + _PART, len(content))
                around.progress(sent, len(content))
            writer.write_eof()
            await self._farewell(reader, around)
        except OSError as error:
            reason = str(error) or f"the device took nothing for {self._timing.stall:g} s"
            text = f"the transfer was cut at {100 * sent // len(content)} %: {reason}"
            raise Ended(Outcome.FAILED, text) from error

    async def _farewell(self, reader: asyncio.StreamReader, around: Surroundings) -> None:
        """Waits until the device hangs up, which it does when it has everything."""
        try:
            async with asyncio.timeout(self._timing.farewell):
                while await reader.read(_PART):
                    pass
        except TimeoutError:
            around.log("the device has been sent everything, but did not hang up")
        else:
            around.log("the device has everything")
