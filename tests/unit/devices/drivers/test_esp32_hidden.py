"""ESP32 secure OTA with a simulated device whose address a LoadBalancer hides, as most do."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from edgewright.api.flash_pod import OTA_PORT, Outcome
from edgewright.devices.drivers.driver import Ended, Image
from edgewright.devices.drivers.esp32 import Esp32
from edgewright.devices.drivers.esp_device import Timing
from edgewright.devices.flasher.proof import Verdict, prove
from edgewright.devices.simulated.device import Times
from edgewright.devices.simulated.faults import parse_fault
from edgewright.devices.simulated.firmware import esp_image
from edgewright.devices.simulated.fleet import Fleet
from edgewright.local.node.forwarding import Backend, Bind, Forwarder, Route
from edgewright.runtime.objects import Key
from tests.unit.devices.drivers.conftest import Keys
from tests.unit.devices.drivers.scripted import Around, own_address

IMAGE = Image(content=esp_image(version="0.2.0", project="thermometer", size=300_000), digest="sha256:1")
SCALE = 0.03


@contextlib.asynccontextmanager
async def load_balancer(pod: str) -> AsyncIterator[str]:
    """An address at which the Pod is found, and where all come from one other address."""
    address = own_address()
    forwarder = Forwarder()
    route = Route((Backend(pod, OTA_PORT),))
    assert await forwarder.offer(Key("default", "service"), {Bind("TCP", address, OTA_PORT): route}) == {}
    try:
        yield address
    finally:
        await forwarder.close()


async def flashed(keys: Keys, fault: str, *, tells_boot: bool) -> Verdict:
    """What is proven of one device with this fault, as the flasher goes about it."""
    pod = own_address()
    async with load_balancer(pod) as external:
        around = Around(keys.server, listen=pod, external_address=external)
        own = around.address.replace("127.46.", "127.32.")
        driver = Esp32(timing=Timing().scaled(SCALE))
        faults = [parse_fault(f"{fault}=1")] if fault else []
        times = Times(scale=SCALE)
        async with Fleet(
            count=1, pinned=keys.pem, faults=faults, times=times, first_address=own, port=0, tells_boot=tells_boot
        ) as fleet:
            endpoint = fleet[1].endpoint
            before = await driver.inspect(endpoint)
            facts = driver.check(IMAGE, before)
            try:
                async with asyncio.timeout(180):
                    handover = await driver.flash(IMAGE, endpoint, before, around.surroundings)
                    after = await driver.verify(
                        endpoint, before, "0.2.0", facts, around.surroundings, handover=handover
                    )
            except Ended as ended:
                return Verdict(ended.outcome, ended.message)
        assert any("who shows its certificate, dialled in from 127.0.0.1" in line for line in around.lines)
        return prove(before, after, "0.2.0", facts)


@pytest.mark.parametrize("tells_boot", [True, False], ids=["counts boots", "as published"])
@pytest.mark.parametrize(
    ("fault", "outcome", "says"),
    [
        pytest.param("", Outcome.SUCCEEDED, "reports 0.2.0 after a restart", id="none"),
        pytest.param("slow:1000000", Outcome.SUCCEEDED, "reports 0.2.0 after a restart", id="slow"),
        pytest.param("drop-transfer:50", Outcome.FAILED, "did not dial again", id="dropped"),
        pytest.param("boot-loop:3", Outcome.REVERTED, "runs 0.1.0 again", id="boot loop"),
        pytest.param("same-version", Outcome.REVERTED, "runs 0.1.0 again", id="the old version string"),
    ],
)
async def test_a_device_whose_address_is_hidden_is_judged_as_any_other(
    keys: Keys, fault: str, outcome: Outcome, says: str, tells_boot: bool
) -> None:
    verdict = await flashed(keys, fault, tells_boot=tells_boot)
    assert (verdict.outcome, says in verdict.message) == (outcome, True), verdict.message
