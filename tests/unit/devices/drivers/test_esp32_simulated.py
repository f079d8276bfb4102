"""ESP32 secure OTA with a simulated device at the other end, through its restart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgewright.devices.drivers.driver import Image
from edgewright.devices.drivers.esp32 import Esp32
from edgewright.devices.simulated.device import Times
from edgewright.devices.simulated.faults import parse_fault
from edgewright.devices.simulated.firmware import esp_image
from edgewright.devices.simulated.fleet import Fleet
from edgewright.devices.simulated.journal import Did
from tests.unit.devices.drivers.conftest import Keys
from tests.unit.devices.drivers.scripted import QUICK, Around

# A simulated device answers, dials and introduces itself when the machine lets it.
PATIENT = replace(QUICK, ask=60.0, onboard=60.0, dial=60.0, introduction=60.0, turn=60.0)
IMAGE = Image(content=esp_image(version="0.2.0", project="thermometer", size=400_000), digest="sha256:1")


@pytest.mark.parametrize(
    ("fault", "version", "restarted"),
    [
        pytest.param("", "0.2.0", True, id="none"),
        pytest.param("slow:1000000", "0.2.0", True, id="slow"),
        pytest.param("wrong-version:9.9", "9.9", True, id="wrong version"),
        pytest.param("boot-loop", "0.1.0", True, id="boot loop and revert"),
        pytest.param("same-version", "0.1.0", True, id="the same version string again"),
        pytest.param("corrupt", "0.1.0", False, id="a damaged slot"),
    ],
)
@pytest.mark.parametrize("tells_boot", [True, False], ids=["counts boots", "as published"])
async def test_a_simulated_device_is_flashed_and_watched(
    keys: Keys, fault: str, version: str, restarted: bool, tells_boot: bool
) -> None:
    around = Around(keys.server)
    own = around.address.replace("127.46.", "127.32.")
    faults = [parse_fault(f"{fault}=1")] if fault else []
    times = Times(scale=0.02, booting=8.0)
    driver = Esp32(timing=replace(PATIENT, reboot=10.0 if restarted else 0.5, settle=0.2))
    async with Fleet(
        count=1, pinned=keys.pem, faults=faults, times=times, first_address=own, port=0, tells_boot=tells_boot
    ) as fleet:
        endpoint = fleet[1].endpoint
        before = await driver.inspect(endpoint)
        facts = driver.check(IMAGE, before)
        handover = await driver.flash(IMAGE, endpoint, before, around.surroundings)
        after = await driver.verify(endpoint, before, "0.2.0", facts, around.surroundings, handover=handover)
    assert after.version == version
    assert (after.boots != before.boots) is restarted
    assert after.certificate == before.certificate != b""


async def test_a_device_that_takes_long_for_what_was_sent_is_not_cut_off(keys: Keys) -> None:
    around = Around(keys.server)
    own = around.address.replace("127.46.", "127.32.")
    image = Image(content=esp_image(version="0.2.0", project="thermometer", size=512 << 10), digest="sha256:1")
    driver = Esp32(timing=replace(PATIENT, stall=3.0, farewell=0.8))
    async with Fleet(
        count=1,
        pinned=keys.pem,
        faults=[parse_fault("slow:5000=1")],
        times=Times(scale=0.02),
        first_address=own,
        port=0,
    ) as fleet:
        before = await driver.inspect(fleet[1].endpoint)
        await driver.flash(image, fleet[1].endpoint, before, around.surroundings)
        assert around.lines[-1] == "the device has everything"
        assert fleet[1].journal.count(Did.CUT) == 0
