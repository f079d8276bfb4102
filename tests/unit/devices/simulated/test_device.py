"""One simulated device: its HTTP, its updates good and bad, its faults, and what its journal says of them."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import socket
from collections.abc import Callable

import pytest

from edgewright.devices.simulated.certificates import server_pair
from edgewright.devices.simulated.device import SLOT_SIZE, Times
from edgewright.devices.simulated.firmware import esp_image
from edgewright.devices.simulated.journal import Did
from tests.harness import wait_until_async
from tests.unit.devices.simulated.pod import (
    ADDRESS,
    IMAGE,
    STEADY,
    Pod,
    fleet_for,
    get,
    info,
    post,
    send,
    server_tls,
    story,
    until,
    update,
)

GOOD = [Did.ASKED, Did.DIALLED, Did.WRITING, Did.WRITTEN, Did.REBOOTED]


async def test_it_says_what_it_is_and_nothing_more() -> None:
    async with fleet_for(device="esp32s3", application="door", version="1.0") as fleet:
        status, headers, body = await get(fleet[1], "/info")
    assert (status, headers["content-type"]) == (200, "application/json")
    assert json.loads(body) == {"device": "esp32s3", "application": "door", "version": "1.0"}


async def test_those_that_are_to_count_their_restarts_next_to_it() -> None:
    async with Pod() as pod, fleet_for(pod, count=2, tells_boot={2}) as fleet:
        await update(fleet[1])
        await update(fleet[2])
        said = {"device": "esp32", "application": "thermometer", "version": "2.0.0"}
        assert (await info(fleet[1]), await info(fleet[2])) == (said, {**said, "boot": 2})
    async with fleet_for(tells_boot=True) as fleet:
        assert (await info(fleet[1]))["boot"] == 1


async def test_it_shows_its_certificate() -> None:
    async with fleet_for() as fleet:
        status, _, body = await get(fleet[1], "/onboard")
        assert (status, body) == (200, fleet[1].certificate)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/", "", 404),
        ("POST", "/info", "", 405),
        ("GET", "/update", "", 405),
        ("POST", "/update", "", 400),
        ("POST", "/update", "hello", 400),
        ("POST", "/update", "ip: example.com", 400),
    ],
)
async def test_what_it_does_not_understand_changes_nothing(method: str, path: str, body: str, status: int) -> None:
    async with fleet_for() as fleet:
        answer = await (get(fleet[1], path) if method == "GET" else post(fleet[1], path, body))
        assert answer[0] == status
        assert len(fleet[1].journal) == 0


async def test_it_fetches_its_firmware_restarts_and_runs_it() -> None:
    async with Pod() as pod, fleet_for(pod) as fleet:
        device = fleet[1]
        await update(device)
        assert story(device) == GOOD
        assert pod.certificates == [device.certificate]
        assert pod.peers == [device.address]
        assert pod.versions == ["TLSv1.2"]
        assert await info(device) == {"device": "esp32", "application": "thermometer", "version": "2.0.0"}
        assert device.boots == 2
        assert device.running.sha256 == hashlib.sha256(IMAGE).hexdigest()
        assert device.journal.written == (device.running.sha256,)
        assert device.other is not None
        assert device.other.version == "0.1.0"


async def test_however_fast_it_lives_its_restart_takes_long_enough_to_be_seen() -> None:
    async with Pod() as pod, fleet_for(pod, times=Times(scale=0.001)) as fleet:
        await update(fleet[1])
        (written,), (rebooted,) = (list(fleet[1].journal.of(did)) for did in (Did.WRITTEN, Did.REBOOTED))
        assert rebooted.at - written.at >= Times().least_booting


async def test_before_it_restarts_it_answers_with_the_old_version_and_then_not_at_all() -> None:
    async with Pod() as pod, fleet_for(pod, times=STEADY) as fleet:
        device = fleet[1]
        await update(device, wait=False)
        await until(device, Did.WRITTEN)
        assert (await info(device))["version"] == "0.1.0"
        await wait_until_async(lambda: not device.present, what="it restarts", interval=0.001)
        with pytest.raises(ConnectionError):
            await info(device)
        await wait_until_async(lambda: device.present, what="it is back")
        assert (await info(device))["version"] == "2.0.0"


async def test_a_restart_ends_the_connections_that_are_open() -> None:
    async with Pod() as pod, fleet_for(pod) as fleet:
        host, _, port = fleet[1].endpoint.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /info HTTP/1.1\r\n\r\nGET /info HTTP/1.1\r\n\r\n")
        for _ in range(2):
            head = await reader.readuntil(b"\r\n\r\n")
            assert b"keep-alive" in head
            await reader.readuntil(b"}")
        await update(fleet[1])
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def test_another_application_in_the_firmware_is_another_application_of_the_device() -> None:
    async with Pod(esp_image(version="1", project="door")) as pod, fleet_for(pod) as fleet:
        await update(fleet[1])
        assert (await info(fleet[1]))["application"] == "door"


async def test_it_dials_until_somebody_listens() -> None:
    async with Pod() as pod:
        port = pod.port
    async with fleet_for(pod) as fleet:
        await update(fleet[1], wait=False)
        await until(fleet[1], Did.ASKED)
        late = await asyncio.start_server(lambda _, writer: writer.close(), ADDRESS, port, ssl=server_tls())
        await wait_until_async(lambda: not fleet[1].busy, what="the update is over")
        late.close()
        assert story(fleet[1]) == [Did.ASKED, Did.DIALLED, Did.TURNED_AWAY]


async def test_it_gives_up_where_nobody_listens_and_keeps_what_it_runs() -> None:
    async with fleet_for() as fleet:
        await update(fleet[1])
        assert story(fleet[1]) == [Did.ASKED, Did.GAVE_UP]
        assert fleet[1].boots == 1


async def test_it_trusts_no_certificate_but_the_one_that_it_pins() -> None:
    async with Pod(tls=server_tls(server_pair())) as pod, fleet_for(pod) as fleet:
        await update(fleet[1])
        assert story(fleet[1]) == [Did.ASKED, Did.GAVE_UP]
        assert "certificate verify failed" in next(iter(fleet[1].journal.of(Did.GAVE_UP))).detail


async def test_it_trusts_no_certificate_of_another_name() -> None:
    other = server_pair(name="somebody-else")
    async with Pod(tls=server_tls(other)) as pod, fleet_for(pod, pinned=other.certificate) as fleet:
        await update(fleet[1])
        assert story(fleet[1]) == [Did.ASKED, Did.GAVE_UP]


def end_of_file(writer: asyncio.StreamWriter) -> None:
    writer.transport._ssl_protocol._transport.close()  # type: ignore[attr-defined]  # past TLS, which would say goodbye


def reset(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


@pytest.mark.parametrize("ends", [end_of_file, reset])
async def test_a_transfer_that_does_not_end_cleanly_is_not_taken(ends: Callable[[asyncio.StreamWriter], None]) -> None:
    async with Pod(ends=ends) as pod, fleet_for(pod) as fleet:
        await update(fleet[1])
        assert story(fleet[1])[-1] is Did.CUT
        assert fleet[1].running.version == "0.1.0"
        assert fleet[1].other is None


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (IMAGE[:-1], "ends before its checksum and hash"),
        (IMAGE[:5000] + b"?" + IMAGE[5001:], "checksum is wrong"),
        (esp_image(version="1", project="p", chip="esp32s3"), "for the chip"),
        (b"#!/bin/sh" * 10, "no firmware"),
        (IMAGE + bytes(SLOT_SIZE), "no room"),
    ],
    ids=["short", "changed", "another chip", "something else", "too large"],
)
async def test_what_is_no_firmware_for_it_is_not_taken(content: bytes, why: str) -> None:
    async with Pod(content) as pod, fleet_for(pod) as fleet:
        await update(fleet[1])
        assert story(fleet[1]) == [Did.ASKED, Did.DIALLED, Did.WRITING, Did.DAMAGED]
        assert why in fleet[1].journal.of(Did.DAMAGED)[0].detail
        assert (await info(fleet[1]))["version"] == "0.1.0"


async def test_two_that_write_it_at_once_ruin_both_and_the_journal_says_so() -> None:
    hold = asyncio.Event()
    async with Pod(hold=hold) as pod, fleet_for(pod) as fleet:
        await update(fleet[1], wait=False)
        await update(fleet[1], wait=False)
        await until(fleet[1], Did.WRITING, times=2)
        hold.set()
        await wait_until_async(lambda: not fleet[1].busy, what="both are over")
        assert fleet[1].journal.written_by_two_at_once
        assert fleet[1].journal.count(Did.DAMAGED) == 2
        assert fleet[1].running.version == "0.1.0"


async def test_one_after_the_other_is_fine() -> None:
    async with Pod() as pod, fleet_for(pod) as fleet:
        await update(fleet[1])
        await update(fleet[1])
        assert story(fleet[1]) == GOOD * 2
        assert not fleet[1].journal.written_by_two_at_once
        assert fleet[1].boots == 3


async def test_a_restart_ends_another_update_that_is_under_way() -> None:
    async with Pod() as pod, fleet_for(pod, times=STEADY) as fleet:
        await update(fleet[1], wait=False)
        await until(fleet[1], Did.WRITTEN)
        pod.content = b""  # so that the second is never taken, however fast it is
        await update(fleet[1])
        assert fleet[1].journal.count(Did.REBOOTED) == 1
        assert fleet[1].running.version == "2.0.0"


async def test_it_can_be_unplugged_while_it_writes_and_plugged_in_again() -> None:
    hold = asyncio.Event()
    async with Pod(hold=hold) as pod, fleet_for(pod) as fleet:
        await update(fleet[1], wait=False)
        await until(fleet[1], Did.WRITING)
        await fleet[1].vanish()
        assert not fleet[1].present
        await fleet[1].come_back()
        assert story(fleet[1])[-2:] == [Did.VANISHED, Did.RETURNED]
        assert await info(fleet[1]) == {"device": "esp32", "application": "thermometer", "version": "0.1.0"}
        assert fleet[1].boots == 2
        hold.set()
        await update(fleet[1])
        assert fleet[1].running.version == "2.0.0"


async def test_power_for_a_device_that_has_it_changes_nothing() -> None:
    async with fleet_for() as fleet:
        endpoint = fleet[1].endpoint
        await fleet[1].start()
        assert fleet[1].endpoint == endpoint
        assert fleet[1].boots == 1


async def test_a_device_whose_port_is_taken_while_it_restarts_waits_for_it() -> None:
    async with Pod() as pod, fleet_for(pod, times=STEADY) as fleet:
        device = fleet[1]
        host, _, port = device.endpoint.partition(":")
        await update(device, wait=False)
        await until(device, Did.WRITTEN)
        await wait_until_async(lambda: not device.present, what="it restarts", interval=0.001)
        with socket.create_server((host, int(port))):
            await until(device, Did.REBOOTED)
            assert not device.present
        await wait_until_async(lambda: not device.busy, what="it has its port again")
        assert (await info(device))["version"] == "2.0.0"


# --- faults ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0, 50, 99])
async def test_a_device_that_drops_transfers_does_so_at_that_share(share: int) -> None:
    async with Pod() as pod, fleet_for(pod, f"drop-transfer:{share}=1") as fleet:
        await update(fleet[1])
        assert story(fleet[1]) == [Did.ASKED, Did.DIALLED, Did.WRITING, Did.CUT]
        came = int(fleet[1].journal.of(Did.CUT)[0].detail.split()[1])
        assert len(IMAGE) * share // 100 <= came <= len(IMAGE) * share // 100 + 16_384


async def test_a_fault_that_is_shown_once_is_not_shown_again() -> None:
    async with Pod() as pod, fleet_for(pod, "drop-transfer:once=1") as fleet:
        await update(fleet[1])
        await update(fleet[1])
        assert story(fleet[1]) == [Did.ASKED, Did.DIALLED, Did.WRITING, Did.CUT, *GOOD]


@pytest.mark.parametrize(
    ("fault", "version", "application"),
    [
        ("wrong-version=1", "0.0.0-wrong", "thermometer"),
        ("wrong-version:7=1", "7", "thermometer"),
        ("same-version=1", "0.1.0", "thermometer"),
        ("change-application:door=1", "2.0.0", "door"),
    ],
)
async def test_it_may_say_something_else_than_it_runs(fault: str, version: str, application: str) -> None:
    async with Pod() as pod, fleet_for(pod, fault) as fleet:
        await update(fleet[1])
        assert await info(fleet[1]) == {
            "device": "esp32",
            "application": application,
            "version": version,
        }
        assert fleet[1].running.sha256 == hashlib.sha256(IMAGE).hexdigest()


async def test_firmware_that_cannot_boot_is_given_up_for_the_old_one() -> None:
    async with Pod() as pod, fleet_for(pod, "boot-loop=1") as fleet:
        await update(fleet[1])
        assert story(fleet[1]) == [*GOOD, Did.REVERTED]
        assert fleet[1].boots == 3
        assert await info(fleet[1]) == {"device": "esp32", "application": "thermometer", "version": "0.1.0"}


async def test_firmware_that_fails_later_answers_for_a_moment() -> None:
    async with Pod() as pod, fleet_for(pod, "boot-loop:60=1") as fleet:
        await update(fleet[1], wait=False)
        await until(fleet[1], Did.REBOOTED)
        await wait_until_async(lambda: fleet[1].present, what="the new firmware answers", interval=0.001)
        assert (await info(fleet[1]))["version"] == "2.0.0"
        await wait_until_async(lambda: not fleet[1].busy, what="it has gone back")
        assert (await info(fleet[1]))["version"] == "0.1.0"


async def test_firmware_may_fail_when_it_is_told_to() -> None:
    async with Pod() as pod, fleet_for(pod) as fleet:
        await update(fleet[1])
        assert (await info(fleet[1]))["version"] == "2.0.0"
        await fleet[1].crash()
        assert story(fleet[1]) == [*GOOD, Did.REVERTED]
        assert fleet[1].boots == 3
        assert (await info(fleet[1]))["version"] == "0.1.0"


async def test_memory_that_damages_what_is_written_keeps_the_old_firmware() -> None:
    async with Pod() as pod, fleet_for(pod, "corrupt=1") as fleet:
        await update(fleet[1])
        assert story(fleet[1])[-1] is Did.DAMAGED
        assert (await info(fleet[1]))["version"] == "0.1.0"


async def test_a_device_that_vanishes_after_a_flash_never_comes_back() -> None:
    async with Pod() as pod, fleet_for(pod, "vanish=1") as fleet:
        await update(fleet[1])
        assert story(fleet[1]) == [Did.ASKED, Did.DIALLED, Did.WRITING, Did.WRITTEN, Did.VANISHED]
        assert not fleet[1].present


async def test_a_device_that_vanishes_when_it_is_asked_fetches_nothing() -> None:
    async with Pod() as pod, fleet_for(pod, "vanish:before=1") as fleet:
        await update(fleet[1])
        assert story(fleet[1]) == [Did.ASKED, Did.VANISHED]
        assert not fleet[1].present


@pytest.mark.parametrize(("fault", "version"), [("vanish:once=1", "2.0.0"), ("vanish:before:once=1", "0.1.0")])
async def test_a_device_that_vanishes_once_returns_after_a_while(fault: str, version: str) -> None:
    async with Pod() as pod, fleet_for(pod, fault) as fleet:
        await update(fleet[1])
        assert story(fleet[1])[-2:] == [Did.VANISHED, Did.RETURNED]
        assert (await info(fleet[1]))["version"] == version


async def test_a_slow_device_takes_its_time() -> None:
    # 64 KiB at 1 KiB a second, 200 times as fast: a third of a second.
    async with Pod() as pod, fleet_for(pod, "slow:1024=1") as fleet:
        await update(fleet[1])
        entries = {entry.did: entry.at for entry in fleet[1].journal}
        assert entries[Did.WRITTEN] - entries[Did.WRITING] > 0.3
        assert fleet[1].running.version == "2.0.0"


# --- HTTP that is none -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ("hello\r\n\r\n", 400),
        ("GET /info HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400),
        ("POST /update HTTP/1.1\r\nContent-Length: 999999\r\n\r\n", 400),
        ("GET /" + "x" * 9000, 431),
        ("GET /info HTTP/1.0\r\n\r\n", 200),
    ],
    ids=["no request", "negative length", "long body", "long head", "HTTP/1.0"],
)
async def test_what_is_not_http_is_answered_and_ended(request_: str, status: int) -> None:
    async with fleet_for() as fleet:
        assert (await send(fleet[1], request_))[0] == status


async def test_a_request_in_pieces_is_one_request() -> None:
    async with fleet_for() as fleet:
        host, _, port = fleet[1].endpoint.partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        for piece in (b"POST /upd", b"ate HTTP/1.1\r\nConnection: close\r\nContent-Le", b"ngth: 5\r\n\r\nhe", b"llo"):
            writer.write(piece)
            await writer.drain()
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()
        await writer.wait_closed()
