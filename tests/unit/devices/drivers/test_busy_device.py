"""A device that has no time for questions while it takes its firmware has not restarted."""

from __future__ import annotations

from dataclasses import replace

from edgewright.devices.drivers.driver import Facts
from tests.harness.waiting import wait_until
from tests.unit.devices.drivers.conftest import Keys
from tests.unit.devices.drivers.scripted import info
from tests.unit.devices.drivers.test_ota_server import COPY, DEVICE, HIDDEN, LARGE, PATIENT, Scene


async def test_a_silence_during_a_transfer_that_was_cut_is_no_restart(keys: Keys) -> None:
    """Somebody with a copy of its certificate came first, so that the device is being watched when its turn comes."""
    scene = Scene(keys, replace(PATIENT, courtesy=0.0, leave=0.1, redial=0.3, late=0.3, reboot=0.3), LARGE)
    pages, asked = scene.device.pages, []

    def no_time(body: bytes) -> tuple[int, bytes]:
        asked.append(body)
        return 0, b""

    def calls() -> bytes:
        assert scene.dial(COPY) == LARGE.content
        with scene.copy(HIDDEN):
            scene.until(f"dialled in from {HIDDEN}")
            pages["/info"] = no_time
            wait_until(lambda: len(asked) > 1, what="the device is asked while it takes its firmware")
            pages["/info"] = info()
        return b""

    async with scene.flashed_by(calls):
        after = await scene.driver.verify(
            scene.device.endpoint, DEVICE, "0.1.0", Facts(), scene.around.surroundings, handover=scene.handover
        )
    assert after.boots == DEVICE.boots
