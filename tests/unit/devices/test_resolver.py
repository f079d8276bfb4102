"""From a name to an address: what may be dialled, which of several is, and that nothing else is."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, ClassVar

import pytest

from edgewright.api.endpoint import Endpoint
from edgewright.api.flash_pod import Outcome
from edgewright.api.protocols import Traits
from edgewright.devices import resolver
from edgewright.devices.drivers.driver import Ended, Facts, Identity, Image, Surroundings
from edgewright.devices.resolver import pinned, resolve


def names(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Makes every name have these addresses."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 0)) for each in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)


@pytest.mark.parametrize(
    ("addresses", "like", "dialled"),
    [
        (["192.0.2.7"], "", "192.0.2.7:81"),
        (["169.254.169.254", "192.0.2.7"], "", "192.0.2.7:81"),
        (["64:ff9b::a9fe:a9fe", "2001:db8::7"], "", "[2001:db8::7]:81"),
        (["2001:db8::7", "192.0.2.7"], "", "[2001:db8::7]:81"),
        (["2001:db8::7", "192.0.2.7"], "192.0.2.200", "192.0.2.7:81"),
        (["192.0.2.7", "2001:db8::7"], "2001:db8::1", "[2001:db8::7]:81"),
        (["192.0.2.7"], "2001:db8::1", "192.0.2.7:81"),
        (["192.0.2.7"], "flasher.example", "192.0.2.7:81"),
    ],
)
async def test_a_name_becomes_the_first_address_that_a_device_may_have(
    addresses: list[str], like: str, dialled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names(monkeypatch, *addresses)
    assert str(await resolve(Endpoint("door.example", 81), local=False, like=like)) == dialled


@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "127.0.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "fe80::1%eth0",
        "::ffff:169.254.169.254",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "2002:a9fe:a9fe::1",
        "2001:0:a9fe:a9fe::",
        "fd00:ec2::254",
    ],
)
async def test_a_name_that_leads_where_no_device_may_be_is_refused(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names(monkeypatch, address)
    with pytest.raises(OSError, match=r"door\.example leads nowhere"):
        await resolve(Endpoint("door.example"), local=False)


async def test_an_address_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("it was looked up"))
    assert await resolve(Endpoint("192.0.2.7", 81), local=False) == Endpoint("192.0.2.7", 81)


class Recording:
    """A driver that notes what it is told to dial."""

    protocol: ClassVar[str] = "recording"
    traits: ClassVar[Traits] = Traits()

    def __init__(self) -> None:
        self.dialled: list[str] = []

    def check(self, image: Image, device: Identity) -> Facts:
        return Facts(version=image.label_version)

    async def inspect(self, endpoint: str) -> Identity:
        self.dialled.append(endpoint)
        return Identity(version="1")

    async def flash(self, _image: Image, endpoint: str, *_: Any) -> None:
        self.dialled.append(endpoint)

    async def verify(self, endpoint: str, *_: Any, **__: Any) -> None:
        self.dialled.append(endpoint)

    async def until_it_leaves(self, endpoint: str, *_: Any) -> None:
        self.dialled.append(endpoint)


async def test_every_verb_of_a_driver_dials_the_address_that_was_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    recording, identity, around = Recording(), Identity(), Surroundings()
    driver: Any = pinned(recording, local=False)  # type: ignore[arg-type]  # it notes and gives nothing
    image = Image(digest="", content=b"", label_version="2")
    assert (driver.protocol, driver.traits) == ("recording", recording.traits)
    assert driver.check(image, identity) == Facts(version="2")
    names(monkeypatch, "192.0.2.1")
    assert await driver.inspect("door.example:81") == Identity(version="1")
    names(monkeypatch, "192.0.2.2")
    await driver.flash(image, "door.example:81", identity, around)
    names(monkeypatch, "192.0.2.3")
    await driver.verify("door.example:81", identity, "2", Facts(), around)
    names(monkeypatch, "192.0.2.4")
    await driver.until_it_leaves("door.example:81", identity)
    assert recording.dialled == [f"192.0.2.{number}:81" for number in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("endpoint", "outcome", "said"),
    [
        ("door.example", Outcome.UNREACHABLE, "169.254.169.254 is a link-local address"),
        ("0xa9fea9fe", Outcome.FAILED, "looks like an IP address and is none"),
    ],
)
async def test_a_driver_is_not_told_of_what_it_must_not_dial(
    endpoint: str, outcome: Outcome, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    names(monkeypatch, "169.254.169.254")
    recording = Recording()
    with pytest.raises(Ended) as ended:
        await pinned(recording, local=False).inspect(endpoint)  # type: ignore[arg-type]  # as above
    assert ended.value.outcome is outcome
    assert said in ended.value.message
    assert recording.dialled == []


async def test_a_resolver_that_gives_no_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_name: str) -> list[str]:
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(resolver, "_addresses", never)
    monkeypatch.setattr(resolver, "LOOKUP_SECONDS", 0.01)
    with pytest.raises(Ended, match="not resolved within"):
        await pinned(Recording(), local=False).inspect("door.example")  # type: ignore[arg-type]  # as above
