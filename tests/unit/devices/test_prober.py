"""The prober: what comes of asking a device, whatever the device does, and how many are asked at once."""

from __future__ import annotations

import asyncio
import hashlib
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from edgewright.api.probe import Silent, Told, Unaskable
from edgewright.devices import prober
from edgewright.devices.drivers.driver import Identity
from edgewright.devices.prober import Prober, probe
from edgewright.devices.simulated.certificates import server_pair
from edgewright.devices.simulated.device import Slot
from edgewright.devices.simulated.fleet import Fleet
from edgewright.devices.timescale import TIME_SCALE
from edgewright.runtime.clock import VirtualClock
from tests.unit.devices.drivers.scripted import CERTIFICATE, Scripted, info, own_address, page
from tests.unit.runtime.fakeserver import until


@pytest.fixture(autouse=True)
def _devices_live_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TIME_SCALE, "0.02")


class Pretended:
    """A driver whose devices do what the test says."""

    def __init__(self, inspect: Callable[[str], Any]) -> None:
        self._inspect = inspect

    async def inspect(self, endpoint: str) -> Identity:
        said = self._inspect(endpoint)
        identity: Identity = await said if asyncio.iscoroutine(said) else said
        return identity


def pretend(monkeypatch: pytest.MonkeyPatch, inspect: Callable[[str], Any]) -> None:
    monkeypatch.setattr(prober, "driver_for", lambda _: Pretended(inspect))


def resolve(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Makes every name have these addresses."""
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 0)) for each in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)


async def test_a_device_tells_what_it_runs_and_later_what_it_runs_then_and_that_it_is_gone() -> None:
    address = "127.32.250.1"
    pinned = server_pair().certificate
    async with Fleet(count=1, pinned=pinned, first_address=address, port=0, tells_boot=True) as fleet:
        device = fleet[1]
        certificate = hashlib.sha256(device.certificate).hexdigest()
        told = await probe("", device.endpoint, local=True)
        assert told == Told(
            type="esp32", application="thermometer", version="0.1.0", certificate=certificate, boots="1"
        )
        device.running = Slot(version="0.9.9", application="lamp")
        told = await probe("esp32", device.endpoint, local=True)
        assert isinstance(told, Told)
        assert (told.version, told.application) == ("0.9.9", "lamp")
        plain = await probe("esp32-plain", device.endpoint, local=True)
        assert isinstance(plain, Told)
        assert (plain.version, plain.certificate) == ("0.9.9", "")
        await device.vanish()
        gone = await probe("", device.endpoint, local=True)
        assert isinstance(gone, Silent)
        assert f"the device at {device.endpoint} does not answer" in gone.reason
        assert not list(device.journal.written)


async def test_a_device_is_only_read_from() -> None:
    async with Scripted({"/info": info(), "/onboard": page(200, CERTIFICATE)}).running(own_address()) as device:
        assert isinstance(await probe("", device.endpoint, local=True), Told)
        assert [each for each, _ in device.requests] == ["GET /info", "GET /onboard"]


async def test_a_device_that_cannot_be_understood_is_silent_and_why_is_said() -> None:
    async with Scripted({"/info": page(200, b"<html>")}).running(own_address()) as device:
        answer = await probe("", device.endpoint, local=True)
        assert isinstance(answer, Silent)
        assert "cannot be understood" in answer.reason


async def test_a_device_that_takes_the_question_and_never_answers_is_not_waited_for_long() -> None:
    with socket.create_server((own_address(), 0)) as listening:
        host, port = listening.getsockname()
        answer = await probe("", f"{host}:{port}", seconds=0.05, local=True)
    assert answer == Silent(f"the device at {host}:{port} gave no answer within 0.05 s")


@pytest.mark.parametrize(
    ("protocol", "endpoint", "said"),
    [
        ("", "", "it is empty"),
        ("", "not an address", "neither an IP address nor a host name"),
        ("", "127.0.0.1", "is a loopback address"),
        ("", "localhost", "is the flash Pod itself"),
        ("", "[::1]:80", "is a loopback address"),
        ("", "169.254.169.254", "is a link-local address"),
        ("", "[fe80::1]", "is a link-local address"),
        ("", "224.0.0.1", "is a multicast address"),
        ("morse", "192.0.2.1", "there is no driver for the protocol 'morse'"),
    ],
)
async def test_what_must_not_or_cannot_be_asked_is_not(
    protocol: str, endpoint: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not protocol:
        pretend(monkeypatch, lambda _: pytest.fail("it was asked"))
    answer = await probe(protocol, endpoint)
    assert isinstance(answer, Unaskable)
    assert said in answer.reason


async def test_a_driver_that_cannot_be_made_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TIME_SCALE, "fast")
    answer = await probe("", "192.0.2.1")
    assert isinstance(answer, Unaskable)
    assert TIME_SCALE in answer.reason


async def test_whatever_a_driver_raises_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: str) -> Identity:
        raise ZeroDivisionError

    pretend(monkeypatch, broken)
    assert await probe("", "192.0.2.1") == Silent("the device at 192.0.2.1 could not be asked: ZeroDivisionError")


async def test_what_a_device_says_is_cut_to_what_a_device_can_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    chatter = Identity(device="d" * 300, application=" a\x00b\n ", version="v" * 300, build="b" * 300)
    pretend(monkeypatch, lambda _: chatter)
    assert await probe("", "192.0.2.1") == Told(type="d" * 63, application="ab", version="v" * 256, build="b" * 256)


async def test_a_name_is_asked_at_the_address_that_was_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def inspect(endpoint: str) -> Identity:
        asked.append(endpoint)
        return Identity(version="1")

    pretend(monkeypatch, inspect)
    resolve(monkeypatch, "127.0.0.1", "192.0.2.7")
    assert await probe("", "door.example:8080") == Told(version="1")
    assert await probe("", "door.example", local=True) == Told(version="1")
    resolve(monkeypatch, "2001:db8::7")
    assert await probe("", "door.example:8080") == Told(version="1")
    assert asked == ["192.0.2.7:8080", "127.0.0.1", "[2001:db8::7]:8080"]


@pytest.mark.parametrize(
    ("addresses", "said"),
    [
        (("169.254.169.254", "127.0.0.1"), "door.example leads nowhere: 127.0.0.1 is a loopback address"),
        ((), "door.example leads nowhere: it has no address"),
    ],
)
async def test_a_name_that_leads_where_no_device_may_be_is_not_asked(
    addresses: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch, lambda _: pytest.fail("it was asked"))
    resolve(monkeypatch, *addresses)
    answer = await probe("", "door.example")
    assert isinstance(answer, Silent)
    assert said in answer.reason


@pytest.mark.parametrize("error", [socket.gaierror(-2, "Name or service not known"), UnicodeError("label too long")])
async def test_a_name_that_nobody_knows_is_silent(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    answer = await probe("", "door.example")
    assert isinstance(answer, Silent)
    assert str(error) in answer.reason


@pytest.mark.parametrize("ended", [True, False], ids=["the loop has ended", "the loop goes on"])
def test_a_resolver_that_does_not_answer_holds_up_nobody(ended: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()

    def slow(*_: object, **__: object) -> list[object]:
        answers.wait(60)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", slow)

    def finish() -> None:
        answers.set()
        for thread in threading.enumerate():
            if thread.name == "address of door.example":
                assert thread.daemon, "the end of the process does not wait for it"
                thread.join(60)

    async def ask() -> object:
        answer = await probe("", "door.example", seconds=0.05)
        if not ended:
            finish()
            await asyncio.sleep(0)
        return answer

    answer = asyncio.run(ask())
    finish()
    assert answer == Silent("the device at door.example gave no answer within 0.05 s")


async def test_only_so_many_are_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    there, most, gate = 0, 0, asyncio.Event()

    async def inspect(endpoint: str) -> Identity:
        nonlocal there, most
        there += 1
        most = max(most, there)
        await gate.wait()
        there -= 1
        return Identity(version=endpoint)

    pretend(monkeypatch, inspect)
    asks = Prober(at_once=3, a_second=1e6, seconds=60)
    asked = [asyncio.create_task(asks.ask("", f"192.0.2.{number}")) for number in range(1, 11)]
    async with asyncio.timeout(180):
        await until(lambda: there == 3)
        gate.set()
        assert await asyncio.gather(*asked) == [Told(version=f"192.0.2.{number}") for number in range(1, 11)]
    assert most == 3


async def test_only_so_many_are_begun_with_in_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = VirtualClock()
    begun: list[float] = []

    def inspect(_: str) -> Identity:
        begun.append(round(clock.elapsed(), 3))
        return Identity(version="1")

    pretend(monkeypatch, inspect)
    asks = Prober(a_second=10, clock=clock)
    asked = [asyncio.create_task(asks.ask("", "192.0.2.1")) for _ in range(4)]
    for _ in range(10):
        await clock.advance(0.1)
    assert begun == [0.0, 0.1, 0.2, 0.3]
    await clock.advance(10)
    asked += [asyncio.create_task(asks.ask("", "192.0.2.1")) for _ in range(2)]
    for _ in range(3):
        await clock.advance(0.1)
    assert begun[4:] == [11.0, 11.1], "what was not used is not saved up"
    await asyncio.gather(*asked)
