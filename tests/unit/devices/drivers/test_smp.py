"""The SMP drivers against a board of our own; tests/e2e has the same on boards that others wrote."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from edgewright.api.flash_pod import Outcome
from edgewright.api.protocols import Traits
from edgewright.devices.drivers.catalogue import driver_for
from edgewright.devices.drivers.driver import Ended, Facts, Identity, Image, Surroundings
from edgewright.devices.drivers.smp import SmpTcp, SmpUdp
from edgewright.devices.drivers.smp_session import Timing
from edgewright.devices.drivers.smp_wire import Wire
from tests.harness.waiting import wait_until_async
from tests.unit.devices.drivers.smp_board import IMAGES, OS, READ, RESET, STATE, UPLOAD, WRITE, Program, SmpBoard
from tests.unit.devices.firmware.mcuboot_images import image

QUICK = Timing(
    connect=5, answer=0.2, tries=2, upload_tries=4, erase=0.2, poll=0.002, boot=0.02, restart=1.0, stable=2, hold=0.02
)
CONTENT = image(program=bytes(3000))
IMAGE = Image(content=CONTENT, digest="sha256:0")
BUILD = SmpTcp(timing=QUICK).check(IMAGE, Identity()).build
OLD = (b"\1" * 32).hex()


@dataclass
class Seen:
    """What a driver said meanwhile."""

    lines: list[str] = field(default_factory=list)
    sent: list[tuple[int, int]] = field(default_factory=list)
    written: int = 0

    def around(self) -> Surroundings:
        def written() -> None:
            self.written += 1

        return Surroundings(log=self.lines.append, progress=lambda *of: self.sent.append(of), written=written)


async def all_verbs(driver: SmpTcp | SmpUdp, endpoint: str, seen: Seen) -> Identity:
    """In the flasher's order, with its time limit."""
    async with asyncio.timeout(180):
        before = await driver.inspect(endpoint)
        facts = driver.check(IMAGE, before)
        handover = await driver.flash(IMAGE, endpoint, before, seen.around())
        return await driver.verify(endpoint, before, facts.version, facts, seen.around(), handover=handover)


def flashed(board: SmpBoard, seen: Seen) -> AbstractAsyncContextManager[Identity]:
    @asynccontextmanager
    async def run() -> AsyncIterator[Identity]:
        async with board.on_tcp() as endpoint:
            yield await all_verbs(SmpTcp(timing=QUICK), endpoint, seen)

    return run()


async def outcome_of(board: SmpBoard, seen: Seen | None = None) -> tuple[Outcome, str]:
    """How a flash ends that does not go well."""
    with pytest.raises(Ended) as ended:
        async with flashed(board, seen or Seen()):
            pass
    return ended.value.outcome, ended.value.message


@pytest.mark.parametrize("way", ["smp-tcp", "smp-udp"])
async def test_an_image_is_given_tried_and_confirmed(way: str) -> None:
    board, seen = SmpBoard(), Seen()
    driver = SmpUdp(timing=QUICK) if way == "smp-udp" else SmpTcp(timing=QUICK)
    async with board.on_udp() if way == "smp-udp" else board.on_tcp() as endpoint:
        before = await driver.inspect(endpoint)
        assert before == Identity(device="board/soc", version="0.0.0", build=OLD)
        after = await all_verbs(driver, endpoint, seen)
    assert (after.version, after.build) == ("1.2.3.4", BUILD)
    assert after.boots != before.boots
    assert board.received == CONTENT
    assert board.confirmed
    assert board.starts == 1
    assert seen.sent[-1] == (len(CONTENT), len(CONTENT))
    assert seen.written == 1
    assert max(board.sizes) <= 256


@pytest.mark.parametrize("name", ["smp-udp", "smp-tcp"])
def test_the_drivers_are_found_by_their_names(name: str) -> None:
    driver = driver_for(name)
    assert driver.protocol == name
    assert driver.traits == Traits(safe_to_interrupt=True)


async def test_a_board_that_tells_neither_its_hardware_nor_its_buffer_is_flashed_too() -> None:
    async with flashed(SmpBoard(platform=None, buffer=None), Seen()) as after:
        assert (after.device, after.build) == ("", BUILD)


@pytest.mark.parametrize("place", ["127.0.0.1:1", "127.0.0.1"], ids=["nobody listens", "no port"])
async def test_a_board_that_is_not_there_is_unreachable(place: str) -> None:
    with pytest.raises(Ended) as ended:
        await SmpTcp(timing=QUICK).inspect(place)
    assert ended.value.outcome is Outcome.UNREACHABLE


async def test_a_board_that_does_not_answer_is_unreachable() -> None:
    async with SmpBoard(lose=lambda *_: True).on_udp() as endpoint:
        with pytest.raises(Ended, match="does not answer") as ended:
            await SmpUdp(timing=QUICK).inspect(endpoint)
    assert ended.value.outcome is Outcome.UNREACHABLE


async def test_a_port_that_nobody_listens_on_is_unreachable_at_once() -> None:
    async with SmpBoard().on_udp() as endpoint:
        pass
    with pytest.raises(Ended, match="refused") as ended:
        await SmpUdp(timing=QUICK).inspect(endpoint)
    assert ended.value.outcome is Outcome.UNREACHABLE


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        pytest.param({"rc": 8}, Outcome.INCOMPATIBLE, id="no slots"),
        pytest.param({"rc": 2}, Outcome.FAILED, id="no memory"),
        pytest.param({"what": "ever"}, Outcome.FAILED, id="no SMP"),
        pytest.param({"rc": 11}, Outcome.REFUSED, id="not for us"),
    ],
)
async def test_a_board_that_does_not_tell_its_slots_cannot_be_inspected(
    answer: dict[str, Any], outcome: Outcome
) -> None:
    found, _ = await outcome_of(SmpBoard(deny={(READ, IMAGES, STATE): answer}))
    assert found is outcome


async def test_a_board_with_empty_slots_has_no_version() -> None:
    async with SmpBoard(deny={(READ, IMAGES, STATE): {"images": []}}).on_tcp() as endpoint:
        assert await SmpTcp(timing=QUICK).inspect(endpoint) == Identity(device="board/soc")


async def test_a_damaged_image_is_not_sent() -> None:
    with pytest.raises(Ended) as ended:
        SmpTcp(timing=QUICK).check(Image(content=CONTENT[:-1], digest=""), Identity())
    assert ended.value.outcome is Outcome.CORRUPT


async def test_what_is_lost_on_the_way_is_sent_again() -> None:
    lost: list[int] = []

    def every_fifth(_group: int, _command: int, _size: int) -> bool:
        lost.append(1)
        return len(lost) % 5 == 4

    board = SmpBoard(lose=every_fifth)
    async with flashed(board, Seen()) as after:
        assert after.build == BUILD
    assert board.received == CONTENT


async def test_messages_that_a_line_always_loses_are_made_smaller() -> None:
    board = SmpBoard(buffer=2048, lose=lambda group, command, size: size > 300)
    async with flashed(board, Seen()) as after:
        assert after.build == BUILD
    assert 200 < max(board.sizes) <= 300


async def test_an_upload_that_never_gets_through_ends() -> None:
    outcome, message = await outcome_of(SmpBoard(lose=lambda group, command, _: (group, command) == (IMAGES, UPLOAD)))
    assert outcome is Outcome.UNREACHABLE
    assert "did not take the image: it does not answer after 0 of" in message


@pytest.mark.parametrize(
    ("answer", "outcome", "told"),
    [
        pytest.param({"err": {"group": 1, "rc": 30}}, Outcome.INCOMPATIBLE, "TOO_LARGE", id="too large"),
        pytest.param({"err": {"group": 1, "rc": 27}}, Outcome.REFUSED, "NEWER", id="older than what runs"),
        pytest.param({"err": {"group": 1, "rc": 12}}, Outcome.FAILED, "FLASH_WRITE_FAILED", id="broken flash"),
        pytest.param({"rc": 9}, Outcome.CORRUPT, "ECORRUPT", id="corrupt by an old server"),
        pytest.param({"rc": 99}, Outcome.FAILED, "error 99", id="an error that SMP does not have"),
        pytest.param({"off": 0}, Outcome.FAILED, "wants byte 0 after 0", id="no progress"),
        pytest.param({"off": 9999}, Outcome.FAILED, "wants byte 9999", id="further than the end"),
        pytest.param({"match": True}, Outcome.FAILED, "does not say how far", id="no offset"),
    ],
)
async def test_a_board_that_will_not_take_the_image_says_why(
    answer: dict[str, Any], outcome: Outcome, told: str
) -> None:
    found, message = await outcome_of(SmpBoard(deny={(WRITE, IMAGES, UPLOAD): answer}))
    assert found is outcome
    assert told in message


async def test_a_board_that_received_something_else_is_not_restarted() -> None:
    board = SmpBoard(mismatch=True)
    assert (await outcome_of(board))[0] is Outcome.CORRUPT
    assert board.starts == 0


async def test_a_board_that_lost_the_image_after_taking_it_is_not_restarted() -> None:
    board = SmpBoard(deny={(WRITE, IMAGES, UPLOAD): {"off": len(CONTENT)}})
    assert (await outcome_of(board))[0] is Outcome.CORRUPT
    assert board.starts == 0


async def test_a_trial_that_is_refused_ends_it() -> None:
    board = SmpBoard(deny={(WRITE, IMAGES, STATE): {"rc": 11}})
    assert await outcome_of(board) == (Outcome.REFUSED, "the device will not try the image: EACCESSDENIED")
    assert board.starts == 0


async def test_a_device_that_goes_back_is_reverted() -> None:
    board, seen = SmpBoard(crashes=1), Seen()
    outcome, message = await outcome_of(board, seen)
    assert outcome is Outcome.REVERTED
    assert "went back to 0.0.0" in message
    assert seen.written == 1
    assert board.primary.build.hex() == OLD


async def test_an_image_that_the_bootloader_refuses_is_corrupt() -> None:
    outcome, message = await outcome_of(SmpBoard(refuses=True))
    assert outcome is Outcome.CORRUPT
    assert "bootloader refused" in message


async def test_a_bootloader_without_a_trial_just_starts_the_image() -> None:
    board, seen = SmpBoard(no_trial=True), Seen()
    async with flashed(board, seen) as after:
        assert after.build == BUILD
    assert any("has no trial" in line for line in seen.lines)


async def test_a_bootloader_without_a_trial_that_prefers_the_old_image_is_noticed() -> None:
    board = SmpBoard(no_trial=True, crashes=1)
    assert (await outcome_of(board))[0] is Outcome.REVERTED


async def test_a_device_that_takes_its_time_to_start_is_waited_for() -> None:
    async with flashed(SmpBoard(starts_late=3), Seen()) as after:
        assert after.build == BUILD


async def test_an_order_to_restart_that_was_lost_is_given_again() -> None:
    board, seen = SmpBoard(deaf_to_restarts=1), Seen()
    async with flashed(board, seen) as after:
        assert after.build == BUILD
    assert board.starts == 1
    assert any("told again" in line for line in seen.lines)


async def test_the_answer_to_the_order_to_restart_may_be_lost() -> None:
    board = SmpBoard()

    def gone_before_it_answered(group: int, command: int, _size: int) -> bool:
        if (group, command) != (OS, RESET):
            return False
        board.restart()
        return True

    board.lose = gone_before_it_answered
    async with flashed(board, Seen()) as after:
        assert after.build == BUILD
    assert board.starts == 1


async def test_an_old_server_that_answers_with_a_code_of_success_restarts() -> None:
    board = SmpBoard(deny={(WRITE, OS, RESET): {"rc": 0}})
    async with board.on_tcp() as endpoint:
        driver = SmpTcp(timing=QUICK)
        await driver.flash(IMAGE, endpoint, Identity(), Surroundings())
    assert board.asked[-1] == (WRITE, OS, RESET)


async def test_a_restart_that_is_refused_ends_it() -> None:
    outcome, message = await outcome_of(SmpBoard(deny={(WRITE, OS, RESET): {"rc": 10}}))
    assert (outcome, message) == (Outcome.FAILED, "the device will not restart: EBUSY")


async def test_the_very_bytes_that_run_are_not_sent_and_a_restart_is_seen() -> None:
    board, seen = SmpBoard(primary=Program("1.2.3.4", bytes.fromhex(BUILD))), Seen()
    async with flashed(board, seen) as after:
        assert (after.build, after.boots) == (BUILD, "+1")
    assert board.received == b""
    assert board.starts == 1


async def test_the_very_bytes_on_trial_are_confirmed_before_the_restart() -> None:
    board = SmpBoard(primary=Program("1.2.3.4", bytes.fromhex(BUILD)), secondary=Program("0", b"\2" * 32))
    board.confirmed = False
    async with flashed(board, Seen()) as after:
        assert after.build == BUILD
    assert board.confirmed


PATIENT = replace(QUICK, answer=10)


async def test_a_restart_that_nobody_saw_is_not_claimed() -> None:
    board = SmpBoard(primary=Program("1.2.3.4", bytes.fromhex(BUILD)))
    async with board.on_udp() as endpoint:
        after = await all_verbs(SmpUdp(timing=PATIENT), endpoint, Seen())
    assert after.boots == ""


async def test_a_line_that_is_hung_up_is_no_restart_of_the_device() -> None:
    board, driver = SmpBoard(primary=Program("1.2.3.4", bytes.fromhex(BUILD)), prints=False), SmpTcp(timing=PATIENT)
    async with board.on_tcp() as endpoint:
        before = await driver.inspect(endpoint)
        facts = driver.check(IMAGE, before)
        handover = await driver.flash(IMAGE, endpoint, before, Surroundings())
        board.hang_up = 2
        async with asyncio.timeout(180):
            after = await driver.verify(endpoint, before, facts.version, facts, Surroundings(), handover=handover)
    assert board.hang_up == 0
    assert after.boots == ""


async def test_a_port_that_is_closed_for_a_while_is_a_restart() -> None:
    board, driver = SmpBoard(primary=Program("1.2.3.4", bytes.fromhex(BUILD))), SmpUdp(timing=PATIENT)
    async with board.on_udp() as endpoint:
        before = await driver.inspect(endpoint)
        facts = driver.check(IMAGE, before)
        handover = await driver.flash(IMAGE, endpoint, before, Surroundings())
    opened: list[str] = []
    wire = driver._wire

    def counted(endpoint: str) -> Wire:
        opened.append(endpoint)
        return wire(endpoint)

    driver._wire = counted
    watching = asyncio.create_task(
        driver.verify(endpoint, before, facts.version, facts, Surroundings(), handover=handover)
    )
    await wait_until_async(lambda: len(opened) > 1, what="the device was found to be away")
    async with board.on_udp(port=int(endpoint.rpartition(":")[2])), asyncio.timeout(180):
        assert (await watching).boots == "+1"


async def test_an_image_that_is_there_already_is_not_sent_again() -> None:
    board, seen = SmpBoard(secondary=Program("1.2.3.4", bytes.fromhex(BUILD)), pending=True), Seen()
    async with flashed(board, seen) as after:
        assert after.build == BUILD
    assert board.received == b""


async def test_an_image_on_trial_is_left_before_another_is_sent() -> None:
    board = SmpBoard(primary=Program("7", b"\2" * 32), secondary=Program("0", b"\1" * 32), confirmed=False)
    board.starts_late = 1
    seen = Seen()
    async with flashed(board, seen) as after:
        assert after.build == BUILD
    assert board.starts == 2
    assert any("which nobody confirmed" in line for line in seen.lines)


async def test_an_image_on_trial_that_cannot_be_left_is_not_overwritten() -> None:
    board = SmpBoard(
        primary=Program("7", b"\2" * 32), secondary=Program("0", b"\1" * 32), confirmed=False, deaf_to_restarts=1
    )
    outcome, message = await outcome_of(board)
    assert outcome is Outcome.FAILED
    assert "did not leave it at a restart" in message
    assert board.received == b""


async def test_a_device_that_will_not_keep_the_image_ends_it() -> None:
    outcome, message = await outcome_of(SmpBoard(forgets_confirmation=True))
    assert outcome is Outcome.FAILED
    assert "stays on trial" in message


async def test_an_image_that_says_another_version_is_not_confirmed() -> None:
    board, driver = SmpBoard(), SmpTcp(timing=QUICK)
    async with board.on_tcp() as endpoint:
        before = await driver.inspect(endpoint)
        handover = await driver.flash(IMAGE, endpoint, before, Surroundings())
        after = await driver.verify(
            endpoint, before, "2.0.0", Facts(version="2.0.0", build=BUILD), Surroundings(), handover=handover
        )
    assert after.version == "1.2.3.4"
    assert not board.confirmed


async def asked(board: SmpBoard, times: int) -> None:
    """Waits until the board was asked so often again."""
    goal = len(board.asked) + times
    await wait_until_async(lambda: len(board.asked) >= goal, what="the board is asked")


@pytest.mark.parametrize("build", ["", BUILD], ids=["image not known", "image known"])
async def test_what_somebody_else_flashes_is_waited_for_and_confirmed(build: str) -> None:
    board, driver = SmpBoard(), SmpTcp(timing=QUICK)
    async with board.on_tcp() as endpoint:
        before = await driver.inspect(endpoint)
        facts = Facts(version="1.2.3.4", build=build)
        watching = asyncio.create_task(driver.verify(endpoint, before, "1.2.3.4", facts, Surroundings()))
        await asked(board, 5)  # it runs the old image, and that is no reason to give up
        board.secondary, board.pending = Program("1.2.3.4", bytes.fromhex(BUILD)), True
        board.restart()
        async with asyncio.timeout(180):
            after = await watching
    assert after.build == BUILD
    assert board.confirmed


async def test_half_an_answer_of_a_starting_device_is_no_reason_to_give_up() -> None:
    board, driver = SmpBoard(), SmpTcp(timing=QUICK)
    async with board.on_tcp() as endpoint:
        before = await driver.inspect(endpoint)
        handover = await driver.flash(IMAGE, endpoint, before, Surroundings())
        board.deny = {(READ, IMAGES, STATE): {"what": "ever"}}
        facts = driver.check(IMAGE, before)
        watching = asyncio.create_task(
            driver.verify(endpoint, before, facts.version, facts, Surroundings(), handover=handover)
        )
        await asked(board, 3)
        board.deny = {}
        async with asyncio.timeout(180):
            assert (await watching).build == BUILD


def test_waits_are_scaled_and_counts_are_not() -> None:
    scaled = Timing().scaled(0.5)
    assert (scaled.boot, scaled.restart, scaled.poll) == (1.5, 5.0, 0.125)
    assert (scaled.tries, scaled.answer) == (Timing().tries, Timing().answer)


async def test_nothing_is_said_on_a_line_while_a_device_starts() -> None:
    board, driver = SmpBoard(), SmpTcp(timing=replace(QUICK, boot=60))
    async with board.on_tcp() as endpoint:
        before = await driver.inspect(endpoint)
        handover = await driver.flash(IMAGE, endpoint, before, Surroundings())
        facts = driver.check(IMAGE, before)
        count = len(board.asked)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await driver.verify(endpoint, before, facts.version, facts, Surroundings(), handover=handover)
    assert len(board.asked) == count


async def test_a_line_that_is_hung_up_while_a_device_starts_is_dialled_again() -> None:
    board, driver = SmpBoard(), SmpTcp(timing=QUICK)
    async with board.on_tcp() as endpoint:
        before = await driver.inspect(endpoint)
        handover = await driver.flash(IMAGE, endpoint, before, Surroundings())
        facts = driver.check(IMAGE, before)
        board.hang_up = 2
        async with asyncio.timeout(180):
            assert (
                await driver.verify(endpoint, before, facts.version, facts, Surroundings(), handover=handover)
            ).build == BUILD
    assert board.hang_up == 0
