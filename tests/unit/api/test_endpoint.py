"""The addresses of devices: what is one, and where no device may be."""

from __future__ import annotations

from ipaddress import ip_address
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.api.endpoint import (
    USUAL_PORTS,
    BadEndpoint,
    Endpoint,
    endpoint_problem,
    normalize_endpoint,
    parse_endpoint,
    problem_with,
)
from edgewright.devices.drivers.esp_device import url_of
from edgewright.devices.drivers.smp_wire import SMP_PORT

GOOD = [
    ("192.0.2.1", Endpoint("192.0.2.1")),
    ("192.0.2.1:8080", Endpoint("192.0.2.1", 8080)),
    (" 192.0.2.1 ", Endpoint("192.0.2.1")),
    ("http://192.0.2.1", Endpoint("192.0.2.1")),
    ("HTTP://192.0.2.1:81/", Endpoint("192.0.2.1", 81)),
    ("tcp://board.example:3333", Endpoint("board.example", 3333)),
    ("2001:db8::1", Endpoint("2001:db8::1")),
    ("[2001:db8::1]", Endpoint("2001:db8::1")),
    ("[2001:db8::1]:1337", Endpoint("2001:db8::1", 1337)),
    ("board", Endpoint("board")),
    ("board-7.site.example.", Endpoint("board-7.site.example.")),
    ("esp_32.local:80", Endpoint("esp_32.local", 80)),
]


@pytest.mark.parametrize(("text", "endpoint"), GOOD, ids=[text for text, _ in GOOD])
def test_an_address_is_read_as_people_write_it(text: str, endpoint: Endpoint) -> None:
    assert parse_endpoint(text) == endpoint


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "http://",
        "https://192.0.2.1",
        "http://192.0.2.1/info",
        "not an address",
        "192.0.2",
        "192.0.2.256",
        "1.2.3.4.5",
        "0x7f000001",
        "0x7f.1",
        "0XA9FEA9FE:80",
        "192.0.2.1:0",
        "192.0.2.1:65536",
        "192.0.2.1:x",
        "192.0.2.1:",
        "192.0.2.1:٣",
        "[2001:db8::1",
        "[2001:db8::1]80",
        "[192.0.2.1]:80",
        "[board]",
        "2001:db8::zz",
        "-board",
        "board..example",
        "a" * 64,
        "/dev/ttyUSB0",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(BadEndpoint):
        parse_endpoint(text)


@given(st.text(max_size=40))
def test_any_text_is_an_endpoint_or_refused_and_what_was_read_reads_the_same_again(text: str) -> None:
    try:
        endpoint = parse_endpoint(text)
    except BadEndpoint:
        return
    assert parse_endpoint(str(endpoint)) == endpoint


@pytest.mark.parametrize("text", ["0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255", "::ffff:224.0.0.1"])
@pytest.mark.parametrize("local", [True, False], ids=["local", "cluster"])
def test_no_device_is_anywhere_at_such_an_address(text: str, local: bool) -> None:
    problem = problem_with(Endpoint(text), local=local)
    assert problem is not None
    assert text in problem


@pytest.mark.parametrize(
    "text",
    ["127.0.0.1", "127.32.0.9", "::1", "169.254.169.254", "fe80::1", "::ffff:127.0.0.1", "localhost", "x.localhost."],
)
def test_a_device_is_on_this_machine_only_where_devices_may_be(text: str) -> None:
    assert problem_with(Endpoint(text), local=False) is not None
    assert problem_with(Endpoint(text), local=True) is None


@pytest.mark.parametrize(
    "text",
    [
        "::ffff:169.254.169.254",
        "::ffff:0:169.254.169.254",
        "::169.254.169.254",
        "64:ff9b::169.254.169.254",
        "64:ff9b::127.0.0.1",
        "2002:a9fe:a9fe::1",
        "2002:7f00:1::",
        "2001:0:a9fe:a9fe::",
        "2001:0:4136:e378:8000:63bf:5601:5601",
        "100.100.100.200",
        "fd00:ec2::254",
        "64:ff9b::100.100.100.200",
    ],
)
def test_an_ipv6_form_of_an_address_that_is_refused_is_refused(text: str) -> None:
    assert problem_with(Endpoint(text), local=False) is not None


@pytest.mark.parametrize("text", ["64:ff9b::224.0.0.1", "2002::1", "64:ff9b:1::192.0.2.1", "64:ff9b::"])
@pytest.mark.parametrize("local", [True, False], ids=["local", "cluster"])
def test_a_form_that_leads_to_no_device_is_refused_everywhere(text: str, local: bool) -> None:
    assert problem_with(Endpoint(text), local=local) is not None


@pytest.mark.parametrize("text", ["64:ff9b::192.0.2.1", "2002:c000:201::1", "::ffff:192.0.2.1"])
def test_a_form_of_an_address_that_a_device_may_have_is_one(text: str) -> None:
    assert problem_with(Endpoint(text), local=False) is None


@pytest.mark.parametrize("text", ["192.0.2.1", "10.1.2.3:80", "2001:db8::1", "fd00::1", "board.example"])
def test_any_other_address_may_be_a_device(text: str) -> None:
    assert endpoint_problem(text, local=False) is None


def test_a_text_that_is_no_address_is_a_problem_too() -> None:
    assert endpoint_problem("no address", local=True) == "'no address' is neither an IP address nor a host name"


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", " http://192.0.2.1/", True),
        ("Board.example.", "board.example", True),
        ("2001:DB8:0::1", "[2001:db8::1]", True),
        ("192.0.2.1", "192.0.2.1:80", True),
        ("192.0.2.1", "http://192.0.2.1:80/", True),
        ("192.0.2.1", "udp://192.0.2.1:1337", True),
        ("2001:db8::1", "[2001:db8::1]:80", True),
        ("board.example", "BOARD.example.:80", True),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("192.0.2.1:8080", "[::ffff:c000:201]:8080", True),
        ("192.0.2.1", "192.0.2.1:8080", False),
        ("192.0.2.1:1", "192.0.2.1:2", False),
        ("192.0.2.1", "192.0.2.2", False),
    ],
)
def test_an_address_has_one_spelling(one: str, other: str, same: bool) -> None:
    assert (normalize_endpoint(one) == normalize_endpoint(other)) is same


def test_an_ipv4_address_that_is_written_as_ipv6_is_that_ipv4_address() -> None:
    assert Endpoint("::ffff:192.0.2.1").address == ip_address("192.0.2.1")
    assert Endpoint("2001:db8::1").address == ip_address("2001:db8::1")
    assert Endpoint("board.example").address is None


def test_what_is_no_address_has_no_spelling() -> None:
    assert normalize_endpoint("not an address") == ""


def test_the_usual_ports_are_those_of_the_drivers() -> None:
    asked = urlsplit(url_of("192.0.2.1", "/info"))
    assert (asked.scheme, asked.port) == ("http", None)
    assert {80, SMP_PORT} == USUAL_PORTS
