"""ESP32 secure OTA: the device is told an address, dials it over TLS, shows its certificate and gets the firmware.

The flasher calls it for protocol esp32. On the wire it is what the published firmware expects. It gives the firmware
only to who shows the certificate of /onboard and is recognised by the attestation service, where there is one, and to
one at a time (see `ota_server`); the device writes the slot that it does not run, so that a transfer that is cut does
no harm.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import ClassVar, Final

from edgewright.api.flash_pod import OTA_PORT, Outcome
from edgewright.api.flash_pod import Protocol as ProtocolName
from edgewright.api.protocols import TRAITS, Traits
from edgewright.devices.drivers.driver import NOTHING, Ended, Facts, Handover, Identity, Image, Surroundings
from edgewright.devices.drivers.esp_device import (
    Timing,
    addresses_of,
    ask_certificate,
    inspect_device,
    order_update,
    until_it_leaves,
    watch_reboot,
)
from edgewright.devices.drivers.ota_listener import Door
from edgewright.devices.drivers.ota_server import Serving
from edgewright.devices.firmware.esp import check_esp_image, chip_of
from edgewright.devices.timescale import time_scale

MAX_ADDRESS: Final = 16
"""The published firmware has no room for a longer address."""


class Esp32:
    """The driver for ESP32 devices with secure OTA."""

    protocol: ClassVar[str] = ProtocolName.ESP32
    traits: ClassVar[Traits] = TRAITS[ProtocolName.ESP32]

    def __init__(self, *, timing: Timing | None = None, port: int = OTA_PORT) -> None:
        """`timing` is by default that of real devices, scaled as EDGEWRIGHT_TIME_SCALE says."""
        self._timing = Timing().scaled(time_scale()) if timing is None else timing
        self._port = port

    async def inspect(self, endpoint: str) -> Identity:
        """Asks the device what it is, and for its certificate."""
        said = await inspect_device(endpoint, self._timing)
        return replace(said, certificate=await ask_certificate(endpoint, self._timing))

    def check(self, image: Image, device: Identity) -> Facts:
        """Reads the image and compares its chip with the device's."""
        return check_esp_image(image.content, device.device)

    async def flash(self, image: Image, endpoint: str, device: Identity, around: Surroundings) -> Handover:
        """Has the device fetch the image; it restarts by itself when it has all of it."""
        if around.tls is None or not around.listen or not around.external_address:
            raise Ended(Outcome.FAILED, "the device has to dial in, but there is no address or no key for that")
        if not device.certificate:
            raise Ended(
                Outcome.REFUSED,
                "the device shows no certificate at /onboard, so that it cannot be told from a stranger; firmware with "
                "plain OTA is flashed by the protocol esp32-plain",
            )
        if chip_of(device.device) is None:
            around.log(f"the device type {device.device!r} is not known here: the image's chip was not compared")
        if len(around.external_address) > MAX_ADDRESS:
            around.log(f"the address {around.external_address} may be too long for the device's firmware")
        door = Door(
            around.listen,
            self._port,
            tls=around.tls,
            certificate=device.certificate,
            own=await addresses_of(endpoint, self._timing),
            patience=self._timing.introduction,
            courtesy=self._timing.courtesy,
            spared=self._timing.spared,
            log=around.log,
        )
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(door)
            except OSError as error:
                raise Ended(Outcome.FAILED, f"cannot listen on {around.listen}:{self._port}: {error}") from error
            patience = await self._order(endpoint, around)
            serving = Serving(door, image.content, endpoint, device, around, timing=self._timing)
            return Handover(left=await serving.until_taken(patience))

    async def verify(
        self,
        endpoint: str,
        before: Identity,
        wanted: str,
        facts: Facts,
        around: Surroundings,
        *,
        handover: Handover = NOTHING,
    ) -> Identity:
        """Watches the device restart and settle; where it never restarts, what it said last, with `boots` as before.

        The certificate is asked for again: published firmware makes it from what is in the device's flash, so that by
        the one from before nobody would know the device any more.
        """
        after = await watch_reboot(endpoint, before, wanted, facts, around, timing=self._timing, left=handover.left)
        with suppress(Ended):  # it has just answered, and what it runs does not hang on this
            after = replace(after, certificate=await ask_certificate(endpoint, self._timing) or after.certificate)
        return after

    async def until_it_leaves(self, endpoint: str, device: Identity) -> None:
        """Returns when the device goes away or answers otherwise than this; a short absence is seen too."""
        await until_it_leaves(endpoint, device, timing=self._timing)

    async def _order(self, endpoint: str, around: Surroundings) -> float:
        """Tells the device to come, and gives the seconds that it may take to do so."""
        around.log(f"telling the device to fetch its firmware from {around.external_address}")
        try:
            answer = await order_update(endpoint, around.external_address, self._timing)
        except ConnectionRefusedError as error:
            raise Ended(Outcome.UNREACHABLE, f"the device at {endpoint} took no order to update: {error}") from error
        except OSError as error:
            # The order may have arrived though the answer did not: then the device comes soon.
            around.log(f"the device did not answer the order to update ({error}); waiting whether it comes")
            return self._timing.redial
        if 200 <= answer.status < 300:
            return self._timing.dial
        later = answer.status >= 500 or answer.status in {408, 429}
        raise Ended(
            Outcome.FAILED if later else Outcome.REFUSED,
            f"the device at {endpoint} answered the order to update with HTTP {answer.status}",
        )
