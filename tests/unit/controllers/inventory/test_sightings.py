"""What an Instance tells: spellings, placeholders and nonsense of discovery handlers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.api.instance import Instance, InstanceSpec
from edgewright.controllers.inventory.sightings import canonical_serial, sighting_of
from edgewright.runtime.objects import Key, ObjectMeta
from tests.unit.controllers.inventory.fleet import BEFORE, CERTIFICATE, instance, sighting


def test_the_published_properties_are_read() -> None:
    seen = sighting("u1", PROTOCOL="smp-udp")
    assert (seen.instance, seen.uid, seen.since) == (Key("default", "http-u1"), "u1", BEFORE)
    assert (seen.configuration, seen.endpoint, seen.type) == ("http", "10.0.0.7", "esp32s3")
    assert (seen.application, seen.version, seen.protocol) == ("thermo", "1.0.0", "smp-udp")
    assert seen.serials == ()
    assert seen.certificate == ""


@pytest.mark.parametrize("endpoint", ["", "   ", "x" * 600], ids=["missing", "blank", "too long"])
def test_an_instance_without_an_address_is_nothing_to_flash(endpoint: str) -> None:
    assert sighting_of(instance(HOST_ENDPOINT=endpoint)) is None


@pytest.mark.parametrize(
    ("told", "kept", "place"),
    [
        (" 10.0.0.5 ", "10.0.0.5", "10.0.0.5"),
        ("http://10.0.0.5", "http://10.0.0.5", "10.0.0.5"),
        ("10.0.0.5:80", "10.0.0.5:80", "10.0.0.5"),
        ("::ffff:10.0.0.5", "::ffff:10.0.0.5", "10.0.0.5"),
        ("Board.example:8080", "board.example:8080", "board.example:8080"),
        ("/dev/ttyUSB0", "/dev/ttyusb0", "/dev/ttyusb0"),
    ],
)
def test_an_endpoint_is_kept_as_told_and_compared_in_one_spelling(told: str, kept: str, place: str) -> None:
    seen = sighting(HOST_ENDPOINT=told)
    assert (seen.endpoint, seen.place) == (kept, place)


@pytest.mark.parametrize(
    ("properties", "serials"),
    [
        ({"SERIAL": "A-17"}, ("a-17",)),
        ({"serial_number": " a-17 "}, ("a-17",)),
        ({"MAC": "7C:DF:A1:02:03:04"}, ("7c:df:a1:02:03:04",)),
        ({"Mac_Address": "7c-df-a1-02-03-04"}, ("7c:df:a1:02:03:04",)),
        ({"MAC": "7cdf.a102.0304"}, ("7c:df:a1:02:03:04",)),
        ({"MAC": "7CDFA1020304"}, ("7c:df:a1:02:03:04",)),
        ({"SERIAL": "123456789012"}, ("123456789012",)),
        ({"ID": "x", "SERIAL": "y", "MAC_ADDRESS": "z"}, ("y", "z", "x")),
        ({"DEVICE_ID": "same", "ID": "SAME"}, ("same",)),
        ({"SERIAL": "unknown", "DEVICE_ID": "d9"}, ("d9",)),
        ({"SERIAL": "Unknown"}, ()),
        ({"SERIAL": "N/A"}, ()),
        ({"SERIAL": "0000"}, ()),
        ({"SERIAL": "---"}, ()),
        ({"MAC": "00:00:00:00:00:00"}, ()),
        ({"MAC": "FF:FF:FF:FF:FF:FF"}, ()),
        ({"SERIAL": "ff"}, ("ff",)),
        ({"SERIAL": "x" * 300}, ()),
        ({"SERIAL": "0" * 200 + "x"}, ("0" * 200 + "x",)),
    ],
)
def test_what_identifies_the_hardware_has_one_spelling_and_is_no_placeholder(
    properties: dict[str, str], serials: tuple[str, ...]
) -> None:
    assert sighting(**properties).serials == serials


@pytest.mark.parametrize(
    ("text", "certificate"),
    [
        (CERTIFICATE, CERTIFICATE),
        (CERTIFICATE.upper(), CERTIFICATE),
        (f"sha256:{CERTIFICATE}", CERTIFICATE),
        (":".join(["AB"] * 32), CERTIFICATE),
        ("ab" * 20, ""),
        ("no fingerprint", ""),
    ],
)
def test_a_fingerprint_has_one_spelling(text: str, certificate: str) -> None:
    assert sighting(CERTIFICATE_FINGERPRINT=text).certificate == certificate


def test_an_instance_without_a_configuration_does_not_pass_for_a_device_of_people() -> None:
    assert sighting(configuration="", name="lonely").configuration == "lonely"


@pytest.mark.parametrize(
    ("known", "contradicts"),
    [("", False), ("S-1", False), ("7C-DF-A1-02-03-04", False), ("s-2", True)],
    ids=["has none", "the same", "the other one that it tells", "another"],
)
def test_another_serial_is_another_device(known: str, contradicts: bool) -> None:
    assert sighting(SERIAL="s-1", MAC="7c:df:a1:02:03:04").contradicts(known) is contradicts
    assert not sighting().contradicts(known)


@given(st.dictionaries(st.sampled_from(["HOST_ENDPOINT", "MAC", "SERIAL", "ID", "FINGERPRINT", "DEVICE"]), st.text()))
def test_whatever_a_device_says_is_read(properties: dict[str, str]) -> None:
    spec = InstanceSpec(configuration_name="c", broker_properties=properties)
    seen = sighting_of(Instance(metadata=ObjectMeta(name="n", namespace="d", uid="u"), spec=spec))
    if seen is not None:
        assert seen.endpoint
        assert all(serial == canonical_serial(serial) for serial in seen.serials)
