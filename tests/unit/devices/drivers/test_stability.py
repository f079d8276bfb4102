"""For how long a device must report its new version before that is believed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgewright.api.flash_pod import Outcome
from edgewright.devices.drivers.driver import Facts, Identity, Image
from edgewright.devices.drivers.esp32 import Esp32
from edgewright.devices.drivers.esp_device import RebootWatch, Timing
from edgewright.devices.flasher.proof import prove
from edgewright.devices.flasher.verification import SETTLING
from edgewright.devices.simulated.device import Times
from edgewright.devices.simulated.faults import parse_fault
from edgewright.devices.simulated.firmware import esp_image
from edgewright.devices.simulated.fleet import Fleet
from tests.unit.devices.drivers.conftest import Keys
from tests.unit.devices.drivers.scripted import Around

OLD = Identity(device="esp32", application="thermometer", version="0.1.0")
NEW = replace(OLD, version="0.2.0")
IMAGE = Image(content=esp_image(version="0.2.0", project="thermometer"), digest="sha256:1")
BOOT = 3.0


def believed(timing: Timing, answers: float) -> Identity:
    """What is believed of a device whose new firmware answers for so many seconds and then goes back for good."""
    watch = RebootWatch(OLD, "0.2.0", Facts(), timing=timing, now=0.0)
    for step in range(1000):
        now = step * timing.poll
        if now < answers:
            settled = watch.heard(NEW, now)
        elif now < answers + BOOT:
            watch.missed(refused=False)
            settled = None
        else:
            settled = watch.heard(OLD, now)
        if settled is not None:
            return settled
    raise AssertionError("nothing was ever believed")


@pytest.mark.parametrize("answers", [0.5, 2.5, 5.0, 9.0])
def test_firmware_that_answers_until_a_watchdog_bites_and_goes_back_is_not_believed(answers: float) -> None:
    assert believed(Timing(), answers).version == "0.1.0"


def test_two_seconds_would_have_believed_it() -> None:
    assert believed(replace(Timing(), hold=2.0), 2.5).version == "0.2.0"


def test_at_the_end_of_its_time_a_device_next_to_a_foreign_flasher_can_still_be_watched_for_so_long() -> None:
    timing = Timing()
    assert timing.hold + timing.steady * timing.poll + timing.glance < SETTLING


async def test_a_simulated_device_that_answers_for_five_seconds_and_goes_back_has_reverted(keys: Keys) -> None:
    scale = 0.05
    around = Around(keys.server)
    own = around.address.replace("127.46.", "127.32.")
    driver = Esp32(timing=Timing().scaled(scale))
    faults = [parse_fault("boot-loop:5=1")]
    async with Fleet(
        count=1, pinned=keys.pem, faults=faults, times=Times(scale=scale), first_address=own, port=0, tells_boot=False
    ) as fleet:
        endpoint = fleet[1].endpoint
        before = await driver.inspect(endpoint)
        facts = driver.check(IMAGE, before)
        handover = await driver.flash(IMAGE, endpoint, before, around.surroundings)
        after = await driver.verify(endpoint, before, "0.2.0", facts, around.surroundings, handover=handover)
    assert prove(before, after, "0.2.0", facts).outcome is Outcome.REVERTED


async def test_the_certificate_is_the_one_that_the_device_shows_after_its_flash(keys: Keys) -> None:
    around = Around(keys.server)
    own = around.address.replace("127.46.", "127.32.")
    driver = Esp32(timing=Timing().scaled(0.01))
    async with Fleet(count=1, pinned=keys.pem, times=Times(scale=0.01), first_address=own, port=0) as fleet:
        device = fleet[1]
        before = await driver.inspect(device.endpoint)
        facts = driver.check(IMAGE, before)
        handover = await driver.flash(IMAGE, device.endpoint, before, around.surroundings)
        device.certificate = b"\x30\x82\x03\x00" + bytes(768)
        after = await driver.verify(device.endpoint, before, "0.2.0", facts, around.surroundings, handover=handover)
    assert before.certificate != after.certificate == device.certificate
