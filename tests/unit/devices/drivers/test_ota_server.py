"""Who gets the firmware where several show the device's certificate, which anybody can copy from its /onboard."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace

import pytest

from edgewright.api.flash_pod import OTA_PORT, Outcome
from edgewright.devices.drivers import esp_device
from edgewright.devices.drivers.driver import NOTHING, Ended, Facts, Identity, Image
from edgewright.devices.drivers.esp32 import Esp32
from edgewright.devices.drivers.esp_device import Timing, addresses_of, until_it_leaves
from edgewright.devices.simulated.firmware import esp_image
from tests.unit.devices.drivers.conftest import Keys
from tests.unit.devices.drivers.scripted import (
    CERTIFICATE,
    QUICK,
    Around,
    Dialling,
    Scripted,
    dial,
    info,
    own_address,
    page,
    trusting,
)

CONTENT = esp_image(version="0.2.0", project="thermometer", size=200_000)
IMAGE = Image(content=CONTENT, digest="sha256:1")
LARGE = Image(content=bytes(4 << 20), digest="sha256:2")
"""More than a connection holds whose other end reads nothing."""
DEVICE = Identity(device="esp32", application="thermometer", version="0.1.0", certificate=CERTIFICATE)
OWN, HIDDEN, COPY = "127.0.0.1", "127.0.0.10", "127.0.0.9"
"""The device's own address, the one behind which a NAT hides it, and that of somebody with a copy."""
PATIENT = replace(QUICK, stall=30.0, farewell=10.0, introduction=10.0, leave=10.0, late=10.0, turn=30.0)
"""So long that nothing but what a test is about can end it."""


def copy_from(address: str, around: Around, context: ssl.SSLContext) -> ssl.SSLSocket:
    """Calls with a copy of the certificate, and reads nothing."""
    raw = socket.create_connection((around.address, OTA_PORT), timeout=60, source_address=(address, 0))
    try:
        line = context.wrap_socket(raw, server_hostname="ota-agent")
    except BaseException:
        raw.close()
        raise
    line.sendall(CERTIFICATE)
    return line


@dataclass
class Scene:
    """A device at its own address, a flash of it, and the calls that follow the order to update."""

    keys: Keys
    timing: Timing
    image: Image = IMAGE

    def __post_init__(self) -> None:
        self.around = Around(self.keys.server)
        self.context = trusting(self.keys.pem)
        self.loop = asyncio.get_running_loop()
        self.driver = Esp32(timing=self.timing)
        self.handover = NOTHING
        self.device = Scripted({"/info": info(), "/onboard": page(200, CERTIFICATE)})

    def copy(self, address: str = COPY) -> ssl.SSLSocket:
        return copy_from(address, self.around, self.context)

    def dial(self, source: str, **more: int) -> bytes:
        return dial(self.around.address, self.context, source=source, **more)  # type: ignore[arg-type] # its settings

    def until(self, line: str) -> None:
        """Waits in the thread of a call for a line of the log."""
        asyncio.run_coroutine_threadsafe(self.around.until(line), self.loop).result(20)

    def restart(self) -> None:
        """The device runs its new firmware, as whoever asks it sees."""
        self.loop.call_soon_threadsafe(self.device.pages.__setitem__, "/info", info("0.2.0"))

    def take_and_restart(self, source: str) -> bytes:
        """The device takes the firmware from that address, and restarts with it."""
        taken = self.dial(source)
        self.restart()
        return taken

    @contextlib.asynccontextmanager
    async def flashed_by(self, *calls: Callable[[], bytes]) -> AsyncIterator[Dialling]:
        """Flashes the device, which answers until the end of the block; gives what each call brought."""
        dialling = Dialling(*calls)
        self.device.pages["/update"] = dialling.ordered
        async with self.device.running(OWN):
            async with asyncio.timeout(120):
                self.handover = await self.driver.flash(
                    self.image, self.device.endpoint, DEVICE, self.around.surroundings
                )
            await dialling.ended()
            yield dialling

    def dialled_in(self, address: str) -> int:
        return sum(line.endswith(f"dialled in from {address}") for line in self.around.lines)


async def test_a_copy_that_calls_first_waits_for_the_device_itself(keys: Keys) -> None:
    scene = Scene(keys, replace(PATIENT, courtesy=20.0))

    def calls() -> bytes:
        with scene.copy() as copy:
            taken = scene.dial(OWN)
            with contextlib.suppress(OSError):
                assert copy.recv(1) == b""
        return taken

    async with scene.flashed_by(calls) as brought:
        assert brought.took == [CONTENT]
    assert (scene.dialled_in(OWN), scene.dialled_in(COPY)) == (1, 0)


@pytest.mark.parametrize("reads", [False, True], ids=["it never reads", "it reads some"])
async def test_a_copy_that_is_being_served_is_cut_off_when_the_device_itself_calls(keys: Keys, reads: bool) -> None:
    scene = Scene(keys, replace(PATIENT, courtesy=0.0), LARGE)

    def calls() -> bytes:
        with scene.copy() as copy:
            scene.until(f"dialled in from {COPY}")
            if reads:
                copy.recv(1000)
            return scene.dial(OWN)

    async with scene.flashed_by(calls) as brought:
        assert brought.took == [LARGE.content]
    assert "the transfer was cut: the device itself dials in from its own address" in scene.around.lines


async def test_a_copy_that_took_everything_is_no_end_while_the_device_can_still_call(keys: Keys) -> None:
    scene = Scene(keys, replace(PATIENT, courtesy=0.0))

    def calls() -> bytes:
        assert scene.dial(COPY) == CONTENT
        return scene.dial(OWN)

    async with scene.flashed_by(calls) as brought:
        assert brought.took == [CONTENT]
    assert scene.dialled_in(OWN) == 1


async def test_a_copy_that_hangs_up_does_not_end_the_attempt_before_the_device_can_call(keys: Keys) -> None:
    scene = Scene(keys, replace(PATIENT, courtesy=0.0, redial=0.01), LARGE)

    def calls() -> bytes:
        scene.dial(COPY, most=1000)
        scene.until("the transfer was cut")
        return scene.dial(OWN)

    async with scene.flashed_by(calls) as brought:
        assert brought.took == [LARGE.content]


async def test_a_device_behind_a_nat_is_served_after_the_courtesy(keys: Keys) -> None:
    scene = Scene(keys, replace(PATIENT, courtesy=0.3))
    before = scene.loop.time()
    async with scene.flashed_by(lambda: scene.take_and_restart(HIDDEN)) as brought:
        assert brought.took == [CONTENT]
        assert scene.loop.time() - before >= 0.3
        after = await scene.driver.verify(
            scene.device.endpoint, DEVICE, "0.2.0", Facts(), scene.around.surroundings, handover=scene.handover
        )
    assert (after.version, after.certificate) == ("0.2.0", CERTIFICATE)
    assert scene.dialled_in(HIDDEN) == 1


async def test_a_restart_that_is_over_before_anybody_asks_again_was_seen(keys: Keys) -> None:
    """The firmware has the version of the one before, so that nothing but its absence tells of the restart."""
    scene = Scene(keys, PATIENT)
    address = own_address()
    scene.device.pages["/update"] = (calls := Dialling(lambda: scene.dial(HIDDEN))).ordered
    await scene.device.appear(address, 8080)
    endpoint = scene.device.endpoint

    async def restart() -> None:
        await scene.around.until("the device has everything")
        await scene.device.vanish()

    restarting = asyncio.create_task(restart())
    try:
        handover = await scene.driver.flash(IMAGE, endpoint, DEVICE, scene.around.surroundings)
        await restarting
        await calls.ended()
        await scene.device.appear(address, 8080)
        after = await scene.driver.verify(
            endpoint, DEVICE, "0.1.0", Facts(), scene.around.surroundings, handover=handover
        )
    finally:
        await scene.device.vanish()
    assert (after.version, after.boots) == ("0.1.0", "+1")


async def test_a_device_behind_a_nat_gets_its_turn_after_a_copy_that_took_everything(keys: Keys) -> None:
    scene = Scene(keys, replace(PATIENT, courtesy=0.0, leave=0.2))

    def calls() -> bytes:
        assert scene.dial(COPY) == CONTENT
        return scene.take_and_restart(HIDDEN)

    async with scene.flashed_by(calls) as brought:
        assert brought.took == [CONTENT]
    assert "the device does not restart with it, and another with its certificate waits" in scene.around.lines


@pytest.mark.parametrize(
    ("timing", "says"),
    [
        pytest.param(replace(PATIENT, courtesy=0.0, stall=1.0), "took nothing for 1 s", id="it takes nothing"),
        pytest.param(replace(PATIENT, courtesy=0.0, turn=0.3), "has had 0.3 s, and others", id="it takes its time"),
    ],
)
async def test_a_copy_that_is_slow_costs_a_device_behind_a_nat_only_time(keys: Keys, timing: Timing, says: str) -> None:
    scene = Scene(keys, timing, LARGE)

    def calls() -> bytes:
        with scene.copy():
            scene.until(f"dialled in from {COPY}")
            return scene.take_and_restart(HIDDEN)

    async with scene.flashed_by(calls) as brought:
        assert brought.took == [LARGE.content]
    assert any(says in line for line in scene.around.lines)


async def test_sixty_four_copies_from_many_addresses_do_not_keep_the_device_out(keys: Keys) -> None:
    scene = Scene(keys, PATIENT, LARGE)

    def calls() -> bytes:
        with contextlib.ExitStack() as stack:
            for number in range(64):
                stack.enter_context(scene.copy(f"127.0.1.{number % 16}"))
            return scene.dial(OWN)

    async with scene.flashed_by(calls) as brought:
        assert brought.took == [LARGE.content]
    assert scene.dialled_in(OWN) == 1


async def test_many_copies_from_one_address_leave_a_device_behind_a_nat_its_turn(keys: Keys) -> None:
    scene = Scene(keys, replace(PATIENT, courtesy=0.0, stall=1.0), LARGE)

    def calls() -> bytes:
        with contextlib.ExitStack() as stack:
            with scene.copy():
                scene.until(f"dialled in from {COPY}")
                for _ in range(12):
                    with contextlib.suppress(OSError):
                        stack.enter_context(scene.copy())
                scene.until("wait already")
                device = stack.enter_context(scene.copy(HIDDEN))
            received = b""
            while data := device.recv(1 << 20):
                received += data
            scene.restart()
            return received

    async with scene.flashed_by(calls) as brought:
        assert brought.took == [LARGE.content]
    assert scene.dialled_in(COPY) <= 3  # of nine that came before it: it had no turn yet


async def test_a_transfer_to_a_hidden_device_that_is_cut_for_good_fails(keys: Keys) -> None:
    scene = Scene(keys, QUICK, LARGE)
    with pytest.raises(Ended, match="did not dial again") as caught:
        async with scene.flashed_by(lambda: scene.dial(HIDDEN, most=1000)):
            pass
    assert caught.value.outcome is Outcome.FAILED


async def test_a_hidden_device_that_has_everything_and_stays_is_left_to_the_proof(keys: Keys) -> None:
    scene = Scene(keys, QUICK)
    async with scene.flashed_by(lambda: scene.dial(HIDDEN)) as brought:
        assert brought.took == [CONTENT]
        after = await scene.driver.verify(
            scene.device.endpoint, DEVICE, "0.2.0", Facts(), scene.around.surroundings, handover=scene.handover
        )
    assert after == DEVICE


async def test_an_attestation_that_is_called_off_hangs_up(keys: Keys) -> None:
    asked = asyncio.Event()

    async def attest(_certificate: bytes) -> None:
        asked.set()
        await asyncio.Event().wait()

    scene = Scene(keys, PATIENT)
    scene.around = Around(keys.server, attest=attest)
    scene.device.pages["/update"] = (calls := Dialling(lambda: scene.dial(OWN))).ordered
    async with scene.device.running(OWN):
        flashing = asyncio.create_task(
            scene.driver.flash(IMAGE, scene.device.endpoint, DEVICE, scene.around.surroundings)
        )
        await asked.wait()
        flashing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await flashing
        await calls.ended()
    assert calls.took[0] in {b"", b"ConnectionResetError", b"SSLEOFError"}


class TestTheDevicesAddresses:
    @pytest.mark.parametrize(
        ("endpoint", "addresses"),
        [
            ("192.0.2.7", {"192.0.2.7"}),
            ("192.0.2.7:8080", {"192.0.2.7"}),
            ("2001:DB8:0::1", {"2001:db8::1"}),
            ("[2001:db8::1]:80", {"2001:db8::1"}),
        ],
    )
    async def test_an_address_is_itself(self, endpoint: str, addresses: set[str]) -> None:
        assert await addresses_of(endpoint, QUICK) == addresses

    async def test_a_name_is_what_it_stands_for_and_one_that_stands_for_nothing_is_nobody(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def resolve(host: str, _port: None, **_: int) -> list[tuple[int, int, int, str, tuple[str, int]]]:
            if host != "board.example":
                raise socket.gaierror("no such name")
            return [(2, 1, 6, "", (address, 0)) for address in ("192.0.2.7", "192.0.2.8")]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
        assert await addresses_of("board.example:80", QUICK) == {"192.0.2.7", "192.0.2.8"}
        assert await addresses_of("nobody.example", QUICK) == frozenset()


async def test_a_device_leaves_when_it_does_not_answer_or_answers_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[Identity | Exception] = [
        DEVICE,
        OSError(24, "too many open files"),
        esp_device.NotUnderstood("it answers oddly"),
        TimeoutError("silent"),
        DEVICE,
        TimeoutError("silent"),
        TimeoutError("silent"),
    ]

    async def ask(endpoint: str, *, timeout: float) -> Identity:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(esp_device, "ask_info", ask)
    await until_it_leaves("192.0.2.7", DEVICE, timing=QUICK)
    assert answers == []
    answers += [DEVICE, replace(DEVICE, version="0.2.0"), DEVICE]
    await until_it_leaves("192.0.2.7", DEVICE, timing=QUICK)
    assert answers == [DEVICE]
