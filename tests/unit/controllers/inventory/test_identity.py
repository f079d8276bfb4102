"""Which Device an Instance shows: the clues in their order, what speaks against them, and names for new Devices."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.api.device import Device, DeviceStatus
from edgewright.controllers.inventory.identity import (
    Clue,
    Recognised,
    Undecided,
    Unknown,
    Verdict,
    is_same,
    names_for,
    recognise,
)
from edgewright.controllers.inventory.sightings import Sighting
from tests.unit.controllers.inventory.fleet import (
    CERTIFICATE,
    CLAIM,
    NOW,
    KnownFleet,
    ago,
    device,
    flashed,
    sighting,
)

PATIENCE = 600.0
CHANGED = DeviceStatus(application="lamp", last_flash=flashed())
"""Of a Device whose last flash gave it another application."""


def verdict(seen: Sighting, *devices: Device, living: tuple[Sighting, ...] = ()) -> Verdict:
    return recognise(seen, KnownFleet(devices, living), now=NOW, patience=PATIENCE)


def clue(seen: Sighting, *devices: Device, living: tuple[Sighting, ...] = ()) -> str:
    found = verdict(seen, *devices, living=living)
    match found:
        case Recognised(known, by):
            return f"{known.metadata.name} by {by}"
        case Undecided(name):
            return f"perhaps {name}"
        case Unknown():
            return "new"


@pytest.mark.parametrize(
    ("seen", "known", "expected"),
    [
        (sighting(), (), "new"),
        (sighting(SERIAL="S1"), (device(serial="s1", endpoint="10.9.9.9"),), "one by serial"),
        (sighting(SERIAL="S1", configuration="usb"), (device(serial="S1"),), "one by serial"),
        (sighting(MAC="AA:BB:CC:DD:EE:0F"), (device(serial="aa-bb-cc-dd-ee-0f", endpoint=""),), "one by serial"),
        (sighting(SERIAL="s2"), (device(serial="s1"),), "new"),
        (
            sighting("u1"),
            (device(endpoint="10.9.9.9", status=DeviceStatus(instances=("u0", "u1"))),),
            "one by instance",
        ),
        (
            sighting("u1", SERIAL="s2"),
            (device(serial="s1", status=DeviceStatus(instances=("u1",))),),
            "new",
        ),
        (
            sighting("u1", SERIAL="s1"),
            (device("one", status=DeviceStatus(instances=("u1",))), device("two", serial="s1", endpoint="")),
            "two by serial",
        ),
        (
            sighting(FINGERPRINT=CERTIFICATE),
            (device(endpoint="10.9.9.9", status=DeviceStatus(certificate=CERTIFICATE)),),
            "one by certificate",
        ),
        (
            sighting(FINGERPRINT=CERTIFICATE, SERIAL="s2"),
            (device(serial="s1", endpoint="10.9.9.9", status=DeviceStatus(certificate=CERTIFICATE)),),
            "new",
        ),
        (sighting("u9"), (device(),), "one by endpoint"),
        (sighting("u9", SERIAL="s1"), (device(),), "one by endpoint"),
        (sighting("u9"), (device(serial="s1"),), "one by endpoint"),
        (sighting("u9"), (device(endpoint="10.0.0.8"),), "new"),
        (sighting("u9", configuration="other"), (device(),), "new"),
        (sighting("u9", configuration="other"), (device(configuration=""),), "one by endpoint"),
        (sighting("u9", SERIAL="s2"), (device(configuration="", serial="s1"),), "new"),
        (sighting("u9", HOST_ENDPOINT="Board.Local"), (device(endpoint="board.local"),), "one by endpoint"),
        (sighting("u9"), (device(configuration="", endpoint="10.0.0.7:80"),), "one by endpoint"),
        (sighting("u9", HOST_ENDPOINT="http://10.0.0.7:80/"), (device(),), "one by endpoint"),
        (sighting("u9", HOST_ENDPOINT="10.0.0.7:8080"), (device(),), "new"),
    ],
    ids=[
        "nothing is known",
        "serial at another endpoint",
        "serial under another Configuration",
        "MAC in another spelling",
        "another serial at the same endpoint",
        "an Instance that it has had",
        "an Instance that it has had, with another serial",
        "a serial counts more than an Instance",
        "certificate",
        "certificate with another serial",
        "endpoint in its Configuration: the uid is new",
        "a serial is learnt",
        "a serial is not told",
        "another endpoint",
        "the endpoint in another network",
        "a Device that people wrote",
        "a Device that people wrote, with another serial",
        "endpoint in another spelling",
        "endpoint with the usual port",
        "endpoint as a URL",
        "another port",
    ],
)
def test_a_device_is_recognised_by_the_strongest_clue(seen: Sighting, known: tuple[Device, ...], expected: str) -> None:
    assert clue(seen, *known) == expected


NEW_APPLICATION = sighting("u9", configuration="lamps", APPLICATION_TYPE="Lamp")


@pytest.mark.parametrize(
    ("known", "living", "expected"),
    [
        (device(status=CHANGED), (), "one by application"),
        (device(status=CHANGED), (NEW_APPLICATION,), "one by application"),
        (device(status=CHANGED), (sighting("u1"),), "perhaps one"),
        (device(status=CHANGED, endpoint="10.0.0.8"), (), "new"),
        (device(status=DeviceStatus(application="lamp")), (), "new"),
        (device(status=DeviceStatus(application="pump", last_flash=flashed())), (), "new"),
        (device(status=DeviceStatus(application="thermo", claim=CLAIM)), (), "perhaps one"),
        (device(status=DeviceStatus(application="thermo", claim=CLAIM)), (sighting("u1"),), "perhaps one"),
        (
            device(status=DeviceStatus(application="lamp", last_flash=flashed(seconds_ago=PATIENCE + 1))),
            (sighting("u1"),),
            "new",
        ),
        (
            device(status=DeviceStatus(application="lamp", last_flash=flashed(seconds_ago=9999))),
            (),
            "one by application",
        ),
    ],
    ids=[
        "its last flash gave it that application",
        "only the new Instance is left",
        "the Instance of the old application is still there",
        "another endpoint",
        "it was never flashed",
        "its last flash gave it another application",
        "it is being flashed",
        "it is being flashed and still found as it was",
        "both are found long after the flash: they are two",
        "it was unavailable for long",
    ],
)
def test_a_flash_that_changes_the_application_does_not_make_another_device(
    known: Device, living: tuple[Sighting, ...], expected: str
) -> None:
    assert clue(NEW_APPLICATION, known, living=living) == expected


def test_a_device_that_tells_another_serial_is_not_taken_for_one_that_was_flashed() -> None:
    seen = sighting("u9", configuration="lamps", APPLICATION_TYPE="lamp", SERIAL="s2")
    assert clue(seen, device(serial="s1", status=CHANGED)) == "new"
    assert clue(seen, device(serial="s1", status=DeviceStatus(claim=CLAIM))) == "new"


def test_an_instance_that_tells_no_application_is_not_recognised_by_it() -> None:
    seen = sighting("u9", configuration="lamps", APPLICATION_TYPE="")
    assert clue(seen, device(status=DeviceStatus(last_flash=flashed()))) == "new"


def test_the_wait_for_the_old_instance_has_an_end() -> None:
    assert verdict(NEW_APPLICATION, device(status=CHANGED), living=(sighting("u1"),)) == Undecided(
        "one", ago(10) + timedelta(seconds=PATIENCE)
    )


def test_of_several_devices_the_oldest_counts_and_the_others_are_named() -> None:
    older, newer = device("z", created=ago(500)), device("a", created=ago(100))
    for devices in ((older, newer), (newer, older)):
        assert verdict(sighting("u9"), *devices) == Recognised(older, Clue.ENDPOINT, ("a",))
    both = [replace_status(each) for each in (older, newer)]
    assert verdict(NEW_APPLICATION, *both) == Recognised(both[0], Clue.APPLICATION, ("a",))


def replace_status(known: Device) -> Device:
    return device(known.metadata.name, created=known.metadata.creation_timestamp, status=CHANGED)


@pytest.mark.parametrize(
    ("seen", "known", "same"),
    [
        (sighting(), device(), True),
        (sighting(), device(endpoint="10.0.0.8"), False),
        (sighting(), device(configuration="other"), False),
        (sighting(), device(configuration=""), True),
        (sighting(SERIAL="s1"), device(serial="S1", endpoint="10.0.0.8"), True),
        (sighting(SERIAL="s1"), device(serial="s2"), False),
        (sighting("u1"), device(endpoint="", status=DeviceStatus(instances=("u1",))), True),
        (sighting(FINGERPRINT=CERTIFICATE), device(endpoint="", status=DeviceStatus(certificate=CERTIFICATE)), True),
    ],
    ids=["endpoint", "other", "network", "people's", "serial", "other serial", "instance", "certificate"],
)
def test_a_device_that_the_cache_did_not_have_is_compared_by_itself(seen: Sighting, known: Device, same: bool) -> None:
    assert is_same(seen, known) is same


@pytest.mark.parametrize(
    ("seen", "first", "second"),
    [
        (sighting(MAC="7C:DF:A1:02:03:04"), "esp32s3-7cdfa1020304", r"esp32s3-7cdfa1020304-[0-9a-f]{16}"),
        (sighting(SERIAL="A/17", DEVICE=""), "device-a-17", r"device-a-17-[0-9a-f]{16}"),
        (sighting(SERIAL="s" * 80), r"esp32s3-s+-[0-9a-f]{8}", r"esp32s3-s+-[0-9a-f]{16}"),
        (sighting(configuration="Http.Devices"), r"http-devices-[0-9a-f]{8}", r"http-devices-[0-9a-f]{16}"),
        (sighting(configuration="c" * 80), r"c{54}-[0-9a-f]{8}", r"c{46}-[0-9a-f]{16}"),
    ],
    ids=["MAC", "serial", "long serial", "endpoint", "long Configuration"],
)
def test_a_new_device_has_a_readable_name(seen: Sighting, first: str, second: str) -> None:
    names = names_for(seen)
    assert re.fullmatch(first, names[0])
    assert re.fullmatch(second, names[1])


def test_the_name_depends_on_what_identifies_the_device_and_on_nothing_else() -> None:
    seen = sighting("u1")
    assert names_for(replace(seen, uid="u2", since=NOW, version="9", application="x")) == names_for(seen)
    assert names_for(replace(seen, endpoint="10.0.0.8")) != names_for(seen)
    assert names_for(replace(seen, configuration="https")) != names_for(seen)


@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=63), st.text(max_size=100))
def test_a_name_is_always_a_dns_label(serial: str, configuration: str, kind: str, endpoint: str) -> None:
    seen = replace(sighting(), configuration=configuration, type=kind, endpoint=endpoint)
    for each in (seen, replace(seen, serials=(serial,))):
        names = names_for(each)
        assert names[0] != names[1]
        assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name) for name in names), names


def test_all_spellings_of_an_endpoint_make_one_name() -> None:
    """Two Instances that are looked at in the same moment both find no Device: only the name tells that it is one."""
    spellings = ("10.0.0.7", "10.0.0.7:80", "http://10.0.0.7", "::ffff:10.0.0.7")
    seen = [sighting(f"u{number}", HOST_ENDPOINT=told) for number, told in enumerate(spellings)]
    assert len({names_for(each) for each in seen}) == 1
    made = device(endpoint="10.0.0.7:80")
    assert all(is_same(each, made) for each in seen)
