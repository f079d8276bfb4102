"""Many devices at once: who is who, what attestation knows, what a fleet refuses to be, and what it costs."""

from __future__ import annotations

import asyncio
import ipaddress
import resource
import socket
import subprocess
import sys
from typing import Any

import pytest

from edgewright.devices.simulated import fleet as fleets
from edgewright.devices.simulated.faults import BadFault, FaultKind
from edgewright.devices.simulated.fleet import NETWORK, Fleet
from edgewright.devices.simulated.journal import Did
from tests.unit.devices.simulated.pod import Pod, fleet_for, info, pair, story, update

THOUSAND = """
import asyncio, sys
from edgewright.devices.simulated.certificates import server_pair
from edgewright.devices.simulated.fleet import Fleet

async def main():
    async with Fleet(count=1000, pinned=server_pair().certificate, port=0) as fleet:
        assert sum(device.present for device in fleet) == 1000
        with open("/proc/self/statm") as file:
            print(int(file.read().split()[1]) * 4096 // 2**20)

asyncio.run(main())
"""


async def test_each_device_has_an_address_and_a_certificate_of_its_own() -> None:
    async with fleet_for(count=3, first_address="127.32.7.255") as fleet:
        assert [device.address for device in fleet] == ["127.32.7.255", "127.32.8.0", "127.32.8.1"]
        assert len({device.certificate for device in fleet}) == len(fleet) == 3
        assert [device.number for device in fleet] == [1, 2, 3]
        for device in fleet:
            assert (await info(device))["version"] == "0.1.0"
            assert fleet.at(device.endpoint) is device


def test_a_device_at_the_usual_port_has_no_port_in_its_endpoint() -> None:
    fleet = Fleet(count=1, pinned=pair().certificate)
    assert fleet[1].endpoint == "127.32.0.1"


def test_devices_may_live_on_a_lan_and_then_nowhere_else() -> None:
    lan = ipaddress.IPv4Network("192.0.2.0/29")
    fleet = Fleet(count=2, pinned=pair().certificate, first_address="192.0.2.6", network=lan)
    assert [device.endpoint for device in fleet] == ["192.0.2.6", "192.0.2.7"]
    with pytest.raises(ValueError, match=r"not all in 192\.0\.2\.0/29"):
        Fleet(count=3, pinned=pair().certificate, first_address="192.0.2.6", network=lan)


def test_a_fleet_that_is_started_again_is_known_again() -> None:
    one, again, other = (fleet_for(count=2, seed=seed) for seed in (1, 1, 2))
    assert [device.certificate for device in one] == [device.certificate for device in again]
    assert not one.known_certificates & other.known_certificates


async def test_attestation_knows_all_but_those_that_have_the_fault() -> None:
    async with fleet_for(None, "refuse-attestation=2", count=3) as fleet:
        assert fleet.unknown_certificates == {fleet[2].certificate}
        assert fleet.known_certificates == {fleet[1].certificate, fleet[3].certificate}
        assert [fleet.recognises(device.certificate) for device in fleet] == [True, False, True]
        assert [story(device) for device in fleet] == [[Did.ATTESTED], [Did.NOT_ATTESTED], [Did.ATTESTED]]
        assert not fleet.recognises(b"a stranger's")


def test_attestation_may_refuse_a_device_once() -> None:
    fleet = fleet_for(None, "refuse-attestation:once=1")
    assert fleet[1].has(FaultKind.REFUSE_ATTESTATION)
    assert [fleet.recognises(fleet[1].certificate) for _ in range(3)] == [False, True, True]
    assert not fleet.unknown_certificates


async def test_many_are_flashed_side_by_side() -> None:
    async with Pod() as pod, fleet_for(pod, count=20) as fleet:
        await asyncio.gather(*(update(device) for device in fleet))
        assert {device.running.version for device in fleet} == {"2.0.0"}
        assert sorted(pod.peers) == sorted(device.address for device in fleet)


async def test_whoever_wants_to_know_is_told_of_every_device() -> None:
    told: list[tuple[int, Did]] = []
    async with (
        Pod() as pod,
        fleet_for(pod, count=2, told=lambda device, entry: told.append((device.number, entry.did))) as fleet,
    ):
        await update(fleet[2])
    assert told[0] == (2, Did.ASKED)
    assert told[-1] == (2, Did.REBOOTED)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"count": 0}, "1 to 10000 devices, not 0"),
        ({"count": 10_001}, "1 to 10000 devices"),
        ({"device": "toaster"}, "'toaster' is no type of device that can be simulated; known: esp32,"),
        ({"first_address": "127.0.0.1"}, "not all in 127.32.0.0/16"),
        ({"first_address": "127.32.255.255", "count": 2}, "not all in 127.32.0.0/16"),
        ({"first_address": "here"}, "'here' does not appear to be|Expected 4 octets"),
        ({"pinned": "no PEM"}, "no certificate in it"),
    ],
    ids=["none", "too many", "type", "elsewhere", "beyond the end", "no address", "no certificate"],
)
def test_a_fleet_that_cannot_be_is_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        fleet_for(**settings)


def test_a_fault_of_nobody_is_refused() -> None:
    with pytest.raises(BadFault):
        fleet_for(None, "corrupt=2")


@pytest.mark.parametrize("number", [0, 2, -1])
def test_there_is_no_device_next_to_those_that_there_are(number: int) -> None:
    with pytest.raises(IndexError, match=f"no device {number} in a fleet of 1"):
        fleet_for()[number]


def test_there_is_nobody_at_another_endpoint() -> None:
    with pytest.raises(KeyError):
        fleet_for().at("127.32.9.9")


async def test_where_one_cannot_start_none_runs() -> None:
    with socket.socket() as taken:
        taken.bind(("127.32.3.2", 0))
        taken.listen()
        fleet = fleet_for(count=2, first_address="127.32.3.1", port=taken.getsockname()[1])
        with pytest.raises(OSError, match="in use"):
            await fleet.__aenter__()
        assert not any(device.present for device in fleet)


def test_devices_live_apart_from_what_the_control_plane_uses() -> None:
    planes = [*range(128, 192), 60, 96, 0]
    assert int(str(NETWORK.network_address).split(".")[1]) not in planes


def test_a_fleet_may_open_the_files_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: asked.append(limits))
    for count in (10, 3000, 9000):
        fleets._allow_files(count)
    assert asked == [(3000, 4096), (4096, 4096)]


@pytest.mark.untraced
def test_a_thousand_devices_need_less_than_300_megabytes() -> None:
    done = subprocess.run([sys.executable, "-c", THOUSAND], capture_output=True, text=True, timeout=60, check=True)
    assert int(done.stdout) < 150, "at rest it is a fraction, so that there is room for transfers"
