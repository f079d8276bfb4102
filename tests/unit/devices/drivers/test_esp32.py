"""ESP32 secure OTA: the device is told to come, is known by its certificate, and gets its firmware."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from edgewright.api.flash_pod import OTA_PORT, Outcome
from edgewright.devices.attestation import AttestationClient
from edgewright.devices.drivers import ota_listener
from edgewright.devices.drivers.driver import Ended, Identity, Image
from edgewright.devices.drivers.esp32 import Esp32
from edgewright.devices.drivers.esp_device import Timing
from edgewright.devices.simulated.attestation import AttestationService
from edgewright.devices.simulated.certificates import server_pair
from edgewright.devices.simulated.firmware import esp_image
from edgewright.devices.timescale import TIME_SCALE
from tests.unit.devices.drivers.conftest import Keys
from tests.unit.devices.drivers.scripted import (
    CERTIFICATE,
    QUICK,
    Around,
    Dialling,
    Page,
    Scripted,
    dial,
    info,
    page,
    trusting,
)

CONTENT = esp_image(version="0.2.0", project="thermometer", size=400_000)
IMAGE = Image(content=CONTENT, digest="sha256:1")
DEVICE = Identity(device="esp32", application="thermometer", version="0.1.0", certificate=CERTIFICATE)


@contextlib.asynccontextmanager
async def device(update: Page) -> AsyncIterator[Scripted]:
    async with Scripted({"/info": info(), "/onboard": page(200, CERTIFICATE), "/update": update}).running() as scripted:
        yield scripted


async def flash(
    update: Page, around: Around, *, known: Identity = DEVICE, image: Image = IMAGE, timing: Timing = QUICK
) -> None:
    async with device(update) as scripted:
        await Esp32(timing=timing).flash(image, scripted.endpoint, known, around.surroundings)


async def ending(update: Page, around: Around, *, known: Identity = DEVICE) -> Ended:
    with pytest.raises(Ended) as caught:
        await flash(update, around, known=known)
    return caught.value


async def test_a_device_is_asked_for_what_it_is_and_for_its_certificate() -> None:
    async with device(page(200)) as scripted:
        assert await Esp32(timing=QUICK).inspect(scripted.endpoint) == DEVICE


async def test_the_image_is_checked_for_the_devices_chip() -> None:
    facts = Esp32(timing=QUICK).check(IMAGE, DEVICE)
    assert facts.version == "0.2.0"
    with pytest.raises(Ended) as caught:
        Esp32(timing=QUICK).check(IMAGE, Identity(device="esp32s3"))
    assert caught.value.outcome is Outcome.INCOMPATIBLE


async def test_the_device_that_dials_gets_the_whole_firmware_and_a_proper_end(keys: Keys) -> None:
    around = Around(keys.server)
    calls = Dialling(lambda: dial(around.address, trusting(keys.pem)))
    await flash(calls.ordered, around)
    await calls.ended()
    assert calls.took == [CONTENT]
    assert calls.order == f"ip: {around.address}".encode()
    assert around.written == 1
    assert around.progress[-1] == (len(CONTENT), len(CONTENT))
    assert around.lines[-1] == "the device has everything"


async def test_a_device_that_leaves_without_the_goodbye_of_tls_has_everything_too(keys: Keys) -> None:
    around = Around(keys.server)
    calls = Dialling(lambda: dial(around.address, trusting(keys.pem), polite=False))
    await flash(calls.ordered, around)
    await calls.ended()
    assert calls.took == [CONTENT]
    assert around.lines[-1] == "the device has everything"


async def test_the_published_firmwares_end_is_enough_though_it_keeps_the_connection(keys: Keys) -> None:
    """It says goodbye by TLS, and its socket dies with the restart some seconds later."""
    around = Around(keys.server)
    released = asyncio.Event()

    def firmware() -> bytes:
        with (
            socket.create_connection((around.address, OTA_PORT), timeout=60) as raw,
            trusting(keys.pem).wrap_socket(raw, server_hostname="ota-agent", suppress_ragged_eofs=False) as line,
        ):
            line.sendall(CERTIFICATE[:300])
            line.sendall(CERTIFICATE[300:])
            received = b""
            while data := line.recv(64 << 10):
                received += data
            plain = line.unwrap()  # TLS is over, TCP is not
            asyncio.run_coroutine_threadsafe(released.wait(), loop).result(10)
            plain.close()
            return received

    loop = asyncio.get_running_loop()
    calls = Dialling(firmware)
    await flash(calls.ordered, around)
    released.set()
    await calls.ended()
    assert calls.took == [CONTENT]


async def test_a_device_that_takes_everything_and_says_nothing_is_left_to_the_proof(keys: Keys) -> None:
    around = Around(keys.server)
    flashed = asyncio.Event()
    small = Image(content=esp_image(version="0.2.0", project="thermometer", size=4_000), digest="sha256:2")

    def silent() -> bytes:
        with (
            socket.create_connection((around.address, OTA_PORT), timeout=60) as raw,
            trusting(keys.pem).wrap_socket(raw, server_hostname="ota-agent") as line,
        ):
            line.sendall(CERTIFICATE)
            asyncio.run_coroutine_threadsafe(flashed.wait(), loop).result(10)
        return b""

    loop = asyncio.get_running_loop()
    calls = Dialling(silent)
    await flash(calls.ordered, around, image=small, timing=replace(QUICK, farewell=0.1))
    flashed.set()
    await calls.ended()
    assert "did not say" in around.lines[-1]


async def test_a_device_that_was_cut_off_and_dials_again_is_served_again(keys: Keys) -> None:
    around = Around(keys.server)
    context = trusting(keys.pem)
    calls = Dialling(lambda: dial(around.address, context, most=100_000), lambda: dial(around.address, context))
    await flash(calls.ordered, around)
    await calls.ended()
    assert calls.took[1] == CONTENT
    assert any("was cut" in line for line in around.lines)
    assert around.written == 2


async def test_a_transfer_that_is_cut_for_good_fails_and_says_where(keys: Keys) -> None:
    around = Around(keys.server)
    ended = await ending(
        Dialling(lambda: dial(around.address, trusting(keys.pem), most=100_000)).ordered,
        around,
    )
    assert ended.outcome is Outcome.FAILED
    assert "the transfer was cut" in ended.message
    assert "did not dial again" in ended.message


async def test_a_device_that_takes_nothing_is_cut_off(keys: Keys) -> None:
    around = Around(keys.server)
    over = asyncio.Event()
    large = Image(content=bytes(16 << 20), digest="sha256:3")

    def deaf() -> bytes:
        with (
            socket.create_connection((around.address, OTA_PORT), timeout=60) as raw,
            trusting(keys.pem).wrap_socket(raw, server_hostname="ota-agent") as line,
        ):
            line.sendall(CERTIFICATE)
            asyncio.run_coroutine_threadsafe(over.wait(), loop).result(10)
        return b""

    loop = asyncio.get_running_loop()
    calls = Dialling(deaf)
    with pytest.raises(Ended) as caught:
        await flash(calls.ordered, around, image=large)
    over.set()
    await calls.ended()
    assert "took nothing for 0.5 s" in caught.value.message


async def test_a_device_that_says_goodbye_in_mid_transfer_has_been_cut(keys: Keys) -> None:
    """As the published firmware does when it cannot write its flash: it closes TLS and keeps the connection."""
    around = Around(keys.server)
    over = asyncio.Event()
    large = Image(content=bytes(16 << 20), digest="sha256:3")

    def giving_up() -> bytes:
        with (
            socket.create_connection((around.address, OTA_PORT), timeout=60) as raw,
            trusting(keys.pem).wrap_socket(raw, server_hostname="ota-agent") as line,
        ):
            line.sendall(CERTIFICATE)
            line.recv(1000)
            line.setblocking(False)
            with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLError):
                line.unwrap()
            asyncio.run_coroutine_threadsafe(over.wait(), loop).result(10)
        return b""

    loop = asyncio.get_running_loop()
    calls = Dialling(giving_up)
    with pytest.raises(Ended) as caught:
        await flash(calls.ordered, around, image=large)
    over.set()
    await calls.ended()
    assert "closed it properly" in caught.value.message


async def test_strangers_get_nothing_and_do_not_use_up_the_attempt(keys: Keys) -> None:
    around = Around(keys.server)
    context = trusting(keys.pem)
    other = b"\x30\x82\x03\x00" + bytes(768)

    def plain_text() -> bytes:
        with socket.create_connection((around.address, OTA_PORT), timeout=60) as raw:
            raw.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return raw.recv(1)

    def silent() -> bytes:
        with socket.create_connection((around.address, OTA_PORT), timeout=60) as raw:
            return raw.recv(1)

    def hanging_up() -> bytes:
        with (
            socket.create_connection((around.address, OTA_PORT), timeout=60) as raw,
            context.wrap_socket(raw, server_hostname="ota-agent") as line,
        ):
            line.sendall(CERTIFICATE[:3])
            line.unwrap()
        return b""

    calls = Dialling(
        silent,
        plain_text,
        hanging_up,
        lambda: dial(around.address, context, shows=other),
        lambda: dial(around.address, context, shows=b"not a certificate"),
        lambda: dial(around.address, context),
    )
    await flash(calls.ordered, around)
    await calls.ended()
    assert [took == CONTENT for took in calls.took] == [False] * 5 + [True]
    turned_away = "\n".join(line for line in around.lines if "turned away" in line)
    for reason in ("did not introduce itself", "no TLS connection", "hung up", "not the one", "no certificate in DER"):
        assert reason in turned_away


async def test_slow_strangers_do_not_keep_the_device_waiting(keys: Keys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ota_listener, "MAX_CALLERS", 2)
    around = Around(keys.server)
    context = trusting(keys.pem)

    def crowd() -> bytes:
        with contextlib.ExitStack() as stack:
            for number in range(4):
                raw = socket.create_connection((around.address, OTA_PORT), timeout=60, source_address=("127.0.0.9", 0))
                stack.enter_context(raw)
                if number > 1:
                    with contextlib.suppress(ConnectionResetError):
                        assert raw.recv(1) == b""
            return dial(around.address, context, source="127.0.0.1")

    calls = Dialling(crowd)
    await flash(calls.ordered, around)
    await calls.ended()
    assert calls.took == [CONTENT]
    assert sum("too many callers" in line for line in around.lines) == 2


async def test_a_stranger_that_dials_many_times_leaves_room_for_a_device_whose_address_is_hidden(keys: Keys) -> None:
    """As behind a LoadBalancer that shows its own address instead of the device's."""
    around = Around(keys.server)
    context = trusting(keys.pem)

    def crowd() -> bytes:
        with contextlib.ExitStack() as stack:
            for _ in range(80):
                raw = socket.create_connection((around.address, OTA_PORT), timeout=60, source_address=("127.0.0.9", 0))
                stack.enter_context(raw)
            return dial(around.address, context, source="127.0.0.10")

    calls = Dialling(crowd)
    await flash(calls.ordered, around, timing=replace(QUICK, introduction=20.0))
    await calls.ended()
    assert calls.took == [CONTENT]


async def test_the_service_is_asked_once_however_often_the_device_dials(keys: Keys) -> None:
    asked: list[bytes] = []

    async def attest(certificate: bytes) -> None:
        asked.append(certificate)

    around = Around(keys.server, attest=attest)
    context = trusting(keys.pem)
    calls = Dialling(lambda: dial(around.address, context, most=100_000), lambda: dial(around.address, context))
    await flash(calls.ordered, around)
    await calls.ended()
    assert calls.took[-1] == CONTENT
    assert asked == [CERTIFICATE]


def test_a_flood_of_strangers_does_not_fill_the_log(keys: Keys) -> None:
    lines: list[str] = []
    quiet = ota_listener.Door(
        "127.0.0.9",
        OTA_PORT,
        tls=keys.server,
        certificate=CERTIFICATE,
        own={"192.0.2.7"},
        patience=1.0,
        courtesy=1.0,
        spared=1.0,
        log=lines.append,
    )
    for number in range(5000):
        quiet._turn_away(f"192.0.2.{number % 256}", "it is a stranger")
    assert (quiet.turned_away, len(lines) < 25) == (5000, True)
    assert "4096" in lines[-1]


async def test_only_one_connection_gets_the_firmware_though_many_show_the_certificate(
    keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ota_listener, "MAX_WAITING", 1)
    around = Around(keys.server)
    context = trusting(keys.pem)
    loop = asyncio.get_running_loop()
    attesting, crowded = asyncio.Event(), asyncio.Event()

    async def attest(_certificate: bytes) -> None:
        attesting.set()
        await crowded.wait()

    def copies() -> bytes:
        asyncio.run_coroutine_threadsafe(attesting.wait(), loop).result(10)
        with contextlib.ExitStack() as stack:
            for _ in range(2):
                raw = stack.enter_context(socket.create_connection((around.address, OTA_PORT), timeout=60))
                line = stack.enter_context(context.wrap_socket(raw, server_hostname="ota-agent"))
                line.sendall(CERTIFICATE)
            with contextlib.suppress(OSError):
                assert line.recv(1) == b""  # the second copy is turned away
            loop.call_soon_threadsafe(crowded.set)
        return b""

    around = Around(keys.server, attest=attest)
    other = Dialling(copies)
    calls = Dialling(lambda: dial(around.address, context))

    def update(body: bytes) -> tuple[int, bytes]:
        other.ordered(body)
        return calls.ordered(body)

    await flash(update, around)
    await other.ended()
    await calls.ended()
    assert calls.took == [CONTENT]
    assert any("wait already" in line for line in around.lines)


async def test_a_device_that_the_service_refuses_gets_nothing(keys: Keys) -> None:
    async with AttestationService(set()) as service:
        around = Around(keys.server, attest=AttestationClient(service.url).attest)
        calls = Dialling(lambda: dial(around.address, trusting(keys.pem)))
        ended = await ending(calls.ordered, around)
        await calls.ended()
    assert ended.outcome is Outcome.REFUSED
    assert calls.took == [b""]
    assert around.written == 0


async def test_a_device_that_pins_another_certificate_never_comes_and_the_message_says_why(keys: Keys) -> None:
    around = Around(keys.server)
    calls = Dialling(lambda: dial(around.address, trusting(server_pair().certificate)))
    async with device(calls.ordered) as scripted:
        driver = Esp32(timing=replace(QUICK, dial=0.5))
        with pytest.raises(Ended) as caught:
            await driver.flash(IMAGE, scripted.endpoint, DEVICE, around.surroundings)
        await calls.ended()
    assert caught.value.outcome is Outcome.UNREACHABLE
    assert "1 other calls" in caught.value.message
    assert "no TLS connection" in caught.value.message


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        pytest.param(404, Outcome.REFUSED, id="no such page"),
        pytest.param(403, Outcome.REFUSED, id="forbidden"),
        pytest.param(408, Outcome.FAILED, id="it was slow"),
        pytest.param(500, Outcome.FAILED, id="it has trouble"),
    ],
)
async def test_a_device_that_says_no_to_the_order_is_believed(keys: Keys, status: int, outcome: Outcome) -> None:
    ended = await ending(page(status), Around(keys.server))
    assert ended.outcome is outcome
    assert f"HTTP {status}" in ended.message


async def test_a_device_whose_answer_to_the_order_is_lost_may_still_come(keys: Keys) -> None:
    around = Around(keys.server)
    calls = Dialling(lambda: dial(around.address, trusting(keys.pem)))

    def lost(body: bytes) -> tuple[int, bytes]:
        calls.ordered(body)
        return 0, b""

    await flash(lost, around)
    await calls.ended()
    assert calls.took == [CONTENT]


async def test_a_device_that_neither_answers_the_order_nor_comes_is_unreachable_soon(keys: Keys) -> None:
    ended = await ending(page(0), Around(keys.server))
    assert ended.outcome is Outcome.UNREACHABLE
    assert "did not within 0.3 s" in ended.message


async def test_a_device_that_is_gone_takes_no_order(keys: Keys) -> None:
    async with device(page(200)) as scripted:
        endpoint = scripted.endpoint
    with pytest.raises(Ended) as caught:
        await Esp32(timing=QUICK).flash(IMAGE, endpoint, DEVICE, Around(keys.server).surroundings)
    assert caught.value.outcome is Outcome.UNREACHABLE


async def test_without_a_key_or_an_address_nothing_is_ordered(keys: Keys) -> None:
    for around in (Around(None), Around(keys.server, listen=""), Around(keys.server, external_address="")):
        async with device(page(200)) as scripted:
            with pytest.raises(Ended) as caught:
                await Esp32(timing=QUICK).flash(IMAGE, scripted.endpoint, DEVICE, around.surroundings)
            assert caught.value.outcome is Outcome.FAILED
            assert scripted.requests == []


async def test_an_address_that_is_taken_is_a_failure_with_its_name(keys: Keys) -> None:
    around = Around(keys.server)
    taken = await asyncio.start_server(lambda _reader, writer: writer.close(), around.address, OTA_PORT)
    async with taken:
        ended = await ending(page(200), around)
    assert ended.outcome is Outcome.FAILED
    assert f"cannot listen on {around.address}:4433" in ended.message


async def test_a_device_without_a_certificate_is_refused(keys: Keys) -> None:
    ended = await ending(page(200), Around(keys.server), known=replace(DEVICE, certificate=b""))
    assert ended.outcome is Outcome.REFUSED
    assert "esp32-plain" in ended.message


async def test_the_log_says_what_could_not_be_compared_and_what_may_not_fit(keys: Keys) -> None:
    around = Around(keys.server, external_address="a-long-name.example")
    await ending(page(404), around, known=replace(DEVICE, device="toaster"))
    assert any("'toaster' is not known" in line for line in around.lines)
    assert any("may be too long" in line for line in around.lines)


def test_a_driver_lives_as_fast_as_its_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TIME_SCALE, "never")
    with pytest.raises(ValueError, match=TIME_SCALE):
        Esp32()
