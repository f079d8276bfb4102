"""An ESP32 as its HTTP server shows it: what it says, its certificate, and when it has restarted for good."""

from __future__ import annotations

import asyncio
import errno
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.api.flash_pod import Outcome
from edgewright.devices.drivers import esp_device
from edgewright.devices.drivers.driver import Ended, Facts, Identity
from edgewright.devices.drivers.esp_device import (
    MAX_CERTIFICATE,
    NotUnderstood,
    RebootWatch,
    Timing,
    ask_certificate,
    certificate_length,
    host_of,
    inspect_device,
    parse_info,
    url_of,
    watch_reboot,
)
from tests.unit.devices.drivers.scripted import CERTIFICATE, QUICK, Around, Page, Scripted, info, own_address, page

OLD = Identity(device="esp32", application="thermometer", version="1.0")
NEW = replace(OLD, version="2.0")
TIMING = Timing(steady=3, hold=2.0, settle=8.0, reboot=60.0)


def watch(before: Identity = OLD, *, build: str = "") -> RebootWatch:
    return RebootWatch(before, "2.0", Facts(build=build), timing=TIMING, now=0.0)


def settles_at(seen: RebootWatch, said: Identity, start: float) -> tuple[float, Identity]:
    """When the watch believes an answer that is given every second from `start` on."""
    for second in range(100):
        if (settled := seen.heard(said, start + second)) is not None:
            return start + second, settled
    raise AssertionError("it never settled")


class TestWhatItSays:
    def test_the_published_answer_is_understood(self) -> None:
        body = b'{"device": "esp32s3", "application": "thermometer", "version": "0.2.0"}'
        assert parse_info(body) == Identity(device="esp32s3", application="thermometer", version="0.2.0")

    def test_a_build_and_a_boot_counter_are_used_where_they_are(self) -> None:
        said = parse_info(b'{"version": 2, "build": "AB12", "boot": 7, "heap": [1]}')
        assert (said.version, said.build, said.boots) == ("2", "ab12", "7")

    def test_what_a_device_says_cannot_disturb_a_log(self) -> None:
        said = parse_info(b'{"version": "1.0\\n\\u001b[2J", "device": "' + b"x" * 1000 + b'"}')
        assert said.version == "1.0[2J"
        assert len(said.device) == 256

    @pytest.mark.parametrize(
        "body",
        [
            b"",
            b"hello",
            b"[]",
            b"{}",
            b'{"version": null}',
            b'{"version": "1", "device": 5}',
            b'{"version": "\xff"}',
            b'{"x":' + b"[" * 9000,
        ],
        ids=["empty", "no JSON", "a list", "no version", "null", "a number for a name", "no UTF-8", "very deep"],
    )
    def test_anything_else_is_not_understood(self, body: bytes) -> None:
        with pytest.raises(NotUnderstood, match="/info"):
            parse_info(body)


class TestItsCertificate:
    @pytest.mark.parametrize(
        ("beginning", "length"),
        [
            (b"", None),
            (b"\x30", None),
            (b"\x30\x05", 7),
            (b"\x30\x81", None),
            (b"\x30\x81\xc8", 203),
            (b"\x30\x82\x03", None),
            (b"\x30\x82\x03\x00more", 772),
        ],
    )
    def test_its_length_stands_at_its_beginning(self, beginning: bytes, length: int | None) -> None:
        assert certificate_length(beginning) == length

    @pytest.mark.parametrize(
        "beginning",
        [b"-----BEGIN", b"\x30\x80\x00", b"\x30\x84\x00\x00\x03\x00", b"\x30\x82\x40\x01", b"\x30\x83\xff\xff\xff"],
        ids=["PEM", "no length", "a length of four bytes", "a byte too long", "much too long"],
    )
    def test_what_is_none_is_seen_at_once(self, beginning: bytes) -> None:
        with pytest.raises(NotUnderstood):
            certificate_length(beginning)

    @given(st.binary(max_size=8))
    def test_no_bytes_ask_for_more_than_is_allowed(self, beginning: bytes) -> None:
        try:
            length = certificate_length(beginning)
        except NotUnderstood:
            return
        assert length is None or 2 <= length <= MAX_CERTIFICATE

    async def test_it_is_asked_for(self) -> None:
        async with Scripted({"/onboard": page(200, CERTIFICATE)}).running() as scripted:
            assert await ask_certificate(scripted.endpoint, QUICK) == CERTIFICATE

    async def test_firmware_without_the_page_has_none(self) -> None:
        async with Scripted({}).running() as scripted:
            assert await ask_certificate(scripted.endpoint, QUICK) == b""

    @pytest.mark.parametrize(
        ("status", "body", "outcome"),
        [
            pytest.param(500, b"", Outcome.FAILED, id="it could not make one"),
            pytest.param(200, CERTIFICATE[:-1], Outcome.FAILED, id="cut off"),
            pytest.param(200, b"hello", Outcome.FAILED, id="something else"),
            pytest.param(200, bytes(MAX_CERTIFICATE + 1), Outcome.UNREACHABLE, id="endless"),
            pytest.param(0, b"", Outcome.UNREACHABLE, id="no answer"),
        ],
    )
    async def test_a_page_without_a_certificate_ends_it(self, status: int, body: bytes, outcome: Outcome) -> None:
        async with Scripted({"/onboard": page(status, body)}).running() as scripted:
            with pytest.raises(Ended) as caught:
                await ask_certificate(scripted.endpoint, QUICK)
        assert caught.value.outcome is outcome


class TestInspecting:
    async def test_a_device_that_misses_the_first_question_is_asked_again(self) -> None:
        answers = iter([page(0), info("1.0")])

        def next_answer(body: bytes) -> tuple[int, bytes]:
            return next(answers)(body)

        async with Scripted({"/info": next_answer}).running() as scripted:
            assert await inspect_device(scripted.endpoint, QUICK) == OLD

    @pytest.mark.parametrize(
        ("status", "outcome"), [(0, Outcome.UNREACHABLE), (404, Outcome.FAILED), (200, Outcome.FAILED)]
    )
    async def test_a_device_that_gives_no_good_answer_ends_it(self, status: int, outcome: Outcome) -> None:
        async with Scripted({"/info": page(status, b"hello")}).running() as scripted:
            with pytest.raises(Ended) as caught:
                await inspect_device(scripted.endpoint, QUICK)
            assert len(scripted.requests) == QUICK.tries
        assert caught.value.outcome is outcome
        assert scripted.endpoint in caught.value.message

    @pytest.mark.parametrize("endpoint", ["", "host/path", "user@host", "a b", "host:99999", "[::1"])
    async def test_an_endpoint_that_is_no_address_is_unreachable(self, endpoint: str) -> None:
        with pytest.raises(Ended) as caught:
            await inspect_device(endpoint, QUICK)
        assert caught.value.outcome is Outcome.UNREACHABLE

    @pytest.mark.parametrize(
        ("endpoint", "host"),
        [
            ("192.0.2.1", "192.0.2.1"),
            ("192.0.2.1:8080", "192.0.2.1"),
            ("board.example", "board.example"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]:80", "2001:db8::1"),
        ],
    )
    def test_the_host_is_the_endpoint_without_its_port(self, endpoint: str, host: str) -> None:
        assert host_of(endpoint) == host

    @pytest.mark.parametrize(
        ("endpoint", "url"),
        [
            ("192.0.2.1:8080", "http://192.0.2.1:8080/info"),
            ("2001:db8::1", "http://[2001:db8::1]/info"),
            ("[2001:db8::1]:8080", "http://[2001:db8::1]:8080/info"),
        ],
    )
    def test_a_page_has_the_endpoint_in_its_url(self, endpoint: str, url: str) -> None:
        assert url_of(endpoint, "/info") == url


class TestTheRestart:
    def test_the_wanted_version_is_believed_when_it_stays(self) -> None:
        when, settled = settles_at(watch(), NEW, 5)
        assert when == 5 + TIMING.hold
        assert settled == replace(NEW, boots="+1")

    def test_another_version_is_believed_later(self) -> None:
        when, settled = settles_at(watch(), replace(OLD, version="9.9"), 5)
        assert when == 5 + TIMING.settle
        assert settled.version == "9.9"

    def test_the_wanted_version_of_another_build_is_not_the_wanted_one(self) -> None:
        when, _ = settles_at(watch(build="aa"), replace(NEW, build="bb"), 5)
        assert when == 5 + TIMING.settle
        when, _ = settles_at(watch(build="aa"), replace(NEW, build="aa"), 5)
        assert when == 5 + TIMING.hold

    def test_a_device_that_goes_on_as_before_is_given_up_and_counts_as_not_restarted(self) -> None:
        seen = watch()
        when, settled = settles_at(seen, OLD, 0)
        assert when == TIMING.reboot
        assert settled.boots == OLD.boots
        assert not seen.rebooted

    def test_the_same_version_after_a_refusal_is_a_restart(self) -> None:
        seen = watch()
        assert seen.heard(OLD, 1) is None
        seen.missed(refused=True)
        when, settled = settles_at(seen, OLD, 5)
        assert when == 5 + TIMING.settle
        assert settled.boots == "+1"

    def test_one_lost_packet_is_no_restart_and_two_in_a_row_are(self) -> None:
        seen = watch()
        for second in range(10):
            seen.missed(refused=False)
            assert seen.heard(OLD, second) is None
        assert not seen.rebooted
        seen.missed(refused=False)
        seen.missed(refused=False)
        seen.heard(OLD, 11)
        assert seen.rebooted

    def test_a_device_that_counts_its_boots_is_believed_more_than_silence(self) -> None:
        counting = replace(OLD, boots="7")
        seen = watch(counting)
        seen.missed(refused=True)
        seen.heard(counting, 1)
        assert not seen.rebooted
        _, settled = settles_at(seen, replace(counting, boots="8"), 2)
        assert settled.boots == "8"

    def test_new_firmware_that_counts_from_the_same_number_has_restarted_too(self) -> None:
        _, settled = settles_at(watch(replace(OLD, boots="1")), replace(NEW, boots="1"), 0)
        assert settled.boots == "1+1"

    def test_a_device_that_shows_the_new_version_and_goes_back_has_restarted_and_runs_the_old(self) -> None:
        seen = watch()
        assert seen.heard(NEW, 1) is None
        assert seen.heard(NEW, 2) is None
        _, settled = settles_at(seen, OLD, 3)
        assert settled == replace(OLD, boots="+1")

    def test_an_answer_that_is_not_understood_begins_the_count_again(self) -> None:
        seen = watch()
        seen.heard(NEW, 1)
        seen.confused()
        when, _ = settles_at(seen, NEW, 2)
        assert when == 2 + TIMING.hold

    def test_the_certificate_is_kept(self) -> None:
        _, settled = settles_at(watch(replace(OLD, certificate=CERTIFICATE)), NEW, 0)
        assert settled.certificate == CERTIFICATE

    @given(
        st.lists(
            st.sampled_from([OLD, NEW, replace(OLD, version="9.9"), "refused", "lost", "odd"]), min_size=1, max_size=60
        )
    )
    def test_what_is_believed_was_said_three_times_in_a_row(self, events: list[Identity | str]) -> None:
        seen = RebootWatch(OLD, "2.0", Facts(), timing=replace(TIMING, hold=0, settle=0), now=0.0)
        for second, event in enumerate(events, start=1):
            if isinstance(event, Identity):
                settled = seen.heard(event, second)
                if settled is not None:
                    same = [each == event for each in events[max(0, second - 3) : second]]
                    assert same == [True] * 3 or not seen.rebooted
                    return
            elif event == "odd":
                seen.confused()
            else:
                seen.missed(refused=event == "refused")

    async def test_a_device_is_watched_through_its_restart(self) -> None:
        device = Scripted({"/info": info("1.0")})
        around = Around(None)
        address = own_address()
        await device.appear(address, 8080)
        watching = asyncio.create_task(
            watch_reboot(device.endpoint, OLD, "2.0", Facts(), around.surroundings, timing=replace(QUICK, reboot=30.0))
        )
        await around.until("waiting for the device to restart")
        await device.vanish()
        await around.until("the device is unavailable")
        device.pages["/info"] = page(500)
        await device.appear(address, 8080)
        await around.until("the device answers oddly: it answers /info with HTTP 500")
        device.pages["/info"] = info("2.0")
        try:
            assert await watching == replace(NEW, boots="+1")
        finally:
            await device.vanish()
        assert around.lines[-1] == "the device reports 2.0"

    @pytest.mark.parametrize(
        "trouble",
        [page(0), page(200, b"x" * (32 << 10))],
        ids=["it hung up on one question", "an answer without end"],
    )
    async def test_one_answer_that_went_wrong_is_no_restart(self, trouble: Page) -> None:
        answers = iter([info("1.0"), trouble])

        def next_answer(body: bytes) -> tuple[int, bytes]:
            return next(answers, info("1.0"))(body)

        device = Scripted({"/info": next_answer})
        around = Around(None)
        async with device.running():
            told = await watch_reboot(device.endpoint, OLD, "1.0", Facts(), around.surroundings, timing=QUICK)
        assert told == OLD
        assert "no reboot was seen" in around.lines[-1]

    @pytest.mark.parametrize(
        ("error", "restarts"),
        [
            pytest.param(ConnectionRefusedError(errno.ECONNREFUSED, "refused"), True, id="nobody listens there"),
            pytest.param(TimeoutError("silent"), True, id="silence"),
            pytest.param(OSError(errno.EHOSTUNREACH, "no route to host"), True, id="no such host"),
            pytest.param(
                OSError(errno.ENETUNREACH, "network is unreachable"), False, id="our own network is unavailable"
            ),
            pytest.param(OSError(errno.EMFILE, "too many open files"), False, id="our own machine is out of files"),
        ],
    )
    async def test_trouble_of_our_own_machine_is_no_restart_of_the_device(
        self, error: OSError, restarts: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = 0

        async def ask(endpoint: str, *, timeout: float) -> Identity:
            nonlocal asked
            asked += 1
            if asked in {2, 3}:
                raise error
            return OLD

        monkeypatch.setattr(esp_device, "ask_info", ask)
        told = await watch_reboot("192.0.2.1", OLD, "1.0", Facts(), Around(None).surroundings, timing=QUICK)
        assert (told.boots != OLD.boots) is restarts

    @pytest.mark.parametrize(
        ("now", "another"),
        [("esp32s3", True), ("ESP32", False), ("thermometer-board", False), ("", False)],
        ids=["another chip", "written in another way", "no chip that is known", "it does not say"],
    )
    async def test_a_device_of_another_kind_at_the_same_address_proves_nothing(self, now: str, another: bool) -> None:
        async with Scripted({"/info": info("2.0", device=now)}).running() as device:
            watching = watch_reboot(device.endpoint, OLD, "2.0", Facts(), Around(None).surroundings, timing=QUICK)
            if not another:
                assert (await watching).version == "2.0"
                return
            with pytest.raises(Ended, match="is a esp32s3, and the one before was a esp32") as caught:
                await watching
        assert caught.value.outcome is Outcome.FAILED

    async def test_the_log_says_that_no_restart_was_seen(self) -> None:
        around = Around(None)
        async with Scripted({"/info": info("1.0")}).running() as device:
            told = await watch_reboot(device.endpoint, OLD, "2.0", Facts(), around.surroundings, timing=QUICK)
        assert told == OLD
        assert "no reboot was seen" in around.lines[-1]


class TestTiming:
    def test_real_time_changes_nothing(self) -> None:
        assert Timing().scaled(1.0) == Timing()

    def test_a_fast_fleet_is_asked_more_often_but_the_network_keeps_its_seconds(self) -> None:
        fast = Timing().scaled(0.001)
        assert fast.poll == 0.05
        assert fast.ask == Timing().ask
        assert fast.reboot < Timing().reboot
