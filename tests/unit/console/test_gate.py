"""Host names, origins and limits: decisions on headers and numbers."""

from __future__ import annotations

import pytest

from edgewright.console.gate import Gate, check_same_origin, host_name, is_loopback, origin_problem
from edgewright.console.limits import Limits, Rates, Streams
from edgewright.console.problems import Refusal
from edgewright.runtime.clock import VirtualClock


@pytest.mark.parametrize(
    ("host", "name"),
    [("a:80", "a"), ("[::1]:80", "::1"), ("A", "a"), ("", ""), ("[::1", "")],
)
def test_the_name_in_a_host_header(host: str, name: str) -> None:
    assert host_name(host) == name


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("a", False)],
)
def test_only_this_machine_reaches_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "none"}, True),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Host": "a:1", "Origin": "http://a:1"}, True),
        ({"Host": "a:1", "Origin": "http://b:1"}, False),
        ({"Host": "a:1", "Origin": "null"}, False),
        ({"Host": "a:1"}, True),
    ],
)
def test_a_page_of_another_site_may_not_use_a_cookie(headers: dict[str, str], allowed: bool) -> None:
    if allowed:
        check_same_origin(headers, scheme="http")
        return
    with pytest.raises(Refusal, match="another site"):
        check_same_origin(headers, scheme="http")


@pytest.mark.parametrize(
    ("origin", "problem"),
    [
        ("https://portal.example.com", ""),
        ("http://127.0.0.1:3000", ""),
        ("*", "is every origin: name each one"),
        ("null", "is not an origin, such as https://portal.example.com"),
        ("https://portal.example.com/", "is not an origin, such as https://portal.example.com"),
        ("https://Portal.example.com", "is not an origin, such as https://portal.example.com"),
        ("https://me@portal.example.com", "is not an origin, such as https://portal.example.com"),
        ("https://a:port", "is not an origin"),
        ("https://[a", "is not an origin"),
    ],
)
def test_an_origin_is_exactly_one(origin: str, problem: str) -> None:
    assert origin_problem(origin) == problem


def test_who_is_not_allowed_gets_no_header() -> None:
    assert Gate(loopback=True).cors({"Origin": "https://a"}) == {}
    assert Gate(loopback=True, origins=frozenset({"https://b"})).cors({"Origin": "https://a"}) == {"Vary": "Origin"}


async def test_a_bucket_fills_with_time_and_is_forgotten_in_the_end() -> None:
    clock = VirtualClock()
    rates = Rates(Limits(writes_per_second=1, burst_seconds=1), clock)
    rates.take("a", writes=True)
    with pytest.raises(Refusal, match="more than 1 writes per second"):
        rates.take("a", writes=True)
    rates.take("a", writes=False)
    await clock.advance(1)
    rates.take("a", writes=True)
    for number in range(5000):
        rates.take(str(number), writes=True)
    rates.take("a", writes=True)


def test_all_streams_together_have_a_limit() -> None:
    streams = Streams(Limits(streams=1))
    with streams.opened("a"), pytest.raises(Refusal, match="too many streams"), streams.opened("b"):
        raise AssertionError("unreachable")
    with streams.opened("b"):
        pass
