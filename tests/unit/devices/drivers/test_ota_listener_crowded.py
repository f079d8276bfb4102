"""Strangers that hold all places at the door, and a device that comes from the same address as they do."""

from __future__ import annotations

import contextlib
import socket
import time
from dataclasses import replace

from edgewright.api.flash_pod import OTA_PORT
from edgewright.devices.drivers.ota_listener import MAX_PER_ADDRESS
from tests.unit.devices.drivers.conftest import Keys
from tests.unit.devices.drivers.test_ota_server import CONTENT, HIDDEN, PATIENT, Scene


async def test_silent_strangers_from_the_address_that_hides_the_device_do_not_keep_it_out(keys: Keys) -> None:
    """As behind a LoadBalancer that shows its own address for all: the device tries again every few seconds."""
    scene = Scene(keys, replace(PATIENT, courtesy=0.0, introduction=60.0, dial=20.0, spared=0.3))

    def calls() -> bytes:
        with contextlib.ExitStack() as stack:
            for _ in range(MAX_PER_ADDRESS):
                place = (scene.around.address, OTA_PORT)
                stack.enter_context(socket.create_connection(place, timeout=60, source_address=(HIDDEN, 0)))
            until = time.monotonic() + 15
            while time.monotonic() < until:
                with contextlib.suppress(OSError):
                    return scene.take_and_restart(HIDDEN)
            return b""

    async with scene.flashed_by(calls) as brought:
        assert brought.took == [CONTENT]
