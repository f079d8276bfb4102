"""Which address a Service gets: an own loopback address, or a shared one where no connection could be meant for two."""

from __future__ import annotations

import ipaddress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.local.node.pool import ANYWHERE, LOOPBACK, Claim, Pool, ranges_of
from edgewright.runtime import Key

A, B = "192.0.2.1", "192.0.2.2"


def claim(name: str, *ranges: str, port: int = 4433, protocol: str = "TCP", **rest: Any) -> Claim:
    settings = {"age": (name, name), **rest}
    return Claim(key=Key("ns", name), ports=frozenset({(protocol, port)}), ranges=ranges_of(ranges), **settings)


def given_out(pool: Pool, *claims: Claim) -> dict[str, str | None]:
    """Who gets what, one after the other."""
    held: dict[str, list[Claim]] = {}
    result: dict[str, str | None] = {}
    for each in claims:
        address = pool.choose(each, lambda address: held.get(address, []))
        result[each.key.name] = address
        if address:
            held.setdefault(address, []).append(each)
    return result


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ([claim("a"), claim("b"), claim("c")], [A, B, None]),
        ([claim("a", "10.0.0.1/32"), claim("b", "10.0.0.2/32"), claim("c", "10.0.0.3/32")], [A, A, A]),
        ([claim("a", "10.0.0.0/8"), claim("b", "10.1.0.0/16"), claim("c", "10.1.2.0/24")], [A, B, None]),
        ([claim("a"), claim("b", port=80), claim("c", protocol="UDP")], [A, A, A]),
        ([claim("a", wanted=B), claim("b", wanted=B), claim("c")], [B, None, A]),
        ([claim("a", wanted="203.0.113.9")], [A]),
        ([claim("a"), claim("b", held=A, age=("0", "b"))], [A, A]),
        ([claim("a"), claim("b", held=A)], [A, B]),
    ],
    ids=[
        "everybody: one each",
        "different peers share",
        "overlapping ranges do not",
        "other ports share",
        "an address that is asked for",
        "one that is not in the pool",
        "the older one keeps what it has",
        "the younger one makes way",
    ],
)
def test_who_gets_which_of_two_addresses(claims: list[Claim], expected: list[str | None]) -> None:
    assert list(given_out(Pool([A, B]), *claims).values()) == expected


def test_on_loopback_each_has_its_own_and_gets_the_same_again() -> None:
    pool = Pool()
    claims = [claim(f"s{number}", f"10.0.0.{number}/32") for number in range(100)]
    found = given_out(pool, *claims)
    assert len(set(found.values())) == 100
    assert all(ipaddress.IPv4Address(each or "") in ipaddress.IPv4Network(LOOPBACK) for each in found.values())
    assert given_out(pool, claims[7]) == {"s7": found["s7"]}


def test_a_loopback_pool_that_is_used_up_says_so() -> None:
    pool = Pool(loopback="127.60.0.0/30")
    found = given_out(pool, claim("a"), claim("b"), claim("c"))
    assert sorted(each or "" for each in found.values()) == ["", "127.60.0.1", "127.60.0.2"]


def test_a_loopback_address_that_is_held_stays() -> None:
    assert given_out(Pool(), claim("a", held="127.60.9.9")) == {"a": "127.60.9.9"}
    assert given_out(Pool(), claim("a", held="192.0.2.77"))["a"] != "192.0.2.77"


@pytest.mark.parametrize(
    ("pool", "address", "inside"),
    [
        (Pool(), "127.60.0.1", True),
        (Pool(), "127.61.0.1", False),
        (Pool(), "", False),
        (Pool([A]), A, True),
        (Pool([A]), "127.60.0.1", False),
    ],
)
def test_what_a_pool_can_give(pool: Pool, address: str, inside: bool) -> None:
    assert (address in pool) is inside


def test_an_address_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        Pool(["nonsense"])


@pytest.mark.parametrize(
    ("texts", "networks"),
    [
        ([], (ANYWHERE,)),
        (["10.0.0.1/32", " 10.1.0.7/16"], (ipaddress.ip_network("10.0.0.1/32"), ipaddress.ip_network("10.1.0.0/16"))),
        (["fd00::/8", "nonsense"], ()),
    ],
    ids=["none", "some", "nothing that we serve"],
)
def test_source_ranges(texts: list[str], networks: object) -> None:
    assert ranges_of(texts) == networks


ranges = st.sets(st.sampled_from(["10.0.0.0/8", "10.1.0.0/16", "10.2.0.0/16", "10.1.1.1/32", "10.2.2.2/32"]))


@given(st.lists(st.tuples(ranges, st.sampled_from([80, 4433]))), st.integers(1, 3))
def test_no_connection_is_ever_meant_for_two_services(wishes: list[tuple[set[str], int]], size: int) -> None:
    pool = Pool([f"192.0.2.{number}" for number in range(1, size + 1)])
    claims = [claim(f"s{n}", *sorted(texts), port=port) for n, (texts, port) in enumerate(wishes)]
    found = given_out(pool, *claims)
    for one in claims:
        for other in claims:
            if one is not other and found[one.key.name] and found[one.key.name] == found[other.key.name]:
                assert not one.clashes(other)
