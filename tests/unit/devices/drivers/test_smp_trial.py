"""How long an image is on trial before a board is told to keep it, and what a flash leaves that is called off."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

import pytest

from edgewright.api.flash_pod import Outcome
from edgewright.devices.drivers.driver import Ended, Identity
from edgewright.devices.drivers.smp import SmpTcp, SmpUdp
from edgewright.devices.drivers.smp_session import Timing
from tests.unit.devices.drivers.smp_board import IMAGES, READ, STATE, Program, SmpBoard
from tests.unit.devices.drivers.test_smp import BUILD, CONTENT, IMAGE, OLD, QUICK, Seen, all_verbs

PATIENT = replace(QUICK, hold=0.3, answer=5.0)


@dataclass
class Crashing(SmpBoard):
    """A board whose new program answers for a while, and then crashes."""

    answers: int = 5

    def answer(self, request: bytes) -> bytes | None:
        told = super().answer(request)
        if self.primary.build.hex() == BUILD and self.asked and self.asked[-1] == (READ, IMAGES, STATE):
            self.answers -= 1
            if not self.answers:
                asyncio.get_running_loop().call_soon(self.restart)
        return told


@pytest.mark.parametrize("way", ["smp-tcp", "smp-udp"])
async def test_an_image_that_answers_for_a_moment_is_not_kept_and_the_board_goes_back(way: str) -> None:
    board, seen = Crashing(), Seen()
    driver = SmpUdp(timing=PATIENT) if way == "smp-udp" else SmpTcp(timing=PATIENT)
    async with board.on_udp() if way == "smp-udp" else board.on_tcp() as endpoint:
        with pytest.raises(Ended) as ended:
            await all_verbs(driver, endpoint, seen)
    assert ended.value.outcome is Outcome.REVERTED
    assert (board.primary.build.hex(), board.confirmed) == (OLD, True)
    assert not any("told to keep it" in line for line in seen.lines)


async def test_an_image_is_watched_as_long_where_the_bootloader_has_no_trial() -> None:
    board = SmpBoard(no_trial=True)
    async with board.on_tcp() as endpoint:
        begin = asyncio.get_running_loop().time()
        assert (await all_verbs(SmpTcp(timing=PATIENT), endpoint, Seen())).build == BUILD
    assert asyncio.get_running_loop().time() - begin >= PATIENT.hold


async def test_a_lost_answer_of_a_board_that_runs_the_image_does_not_begin_its_trial_again() -> None:
    asked: list[int] = []

    def lost(_group: int, _command: int, _size: int) -> bool:
        on_trial = board.primary.build.hex() == BUILD
        asked.extend([1] * on_trial)
        return on_trial and len(asked) % 4 == 0

    board = SmpBoard(lose=lost)
    async with board.on_udp() as endpoint:
        after = await all_verbs(SmpUdp(timing=replace(QUICK, hold=0.5, answer=0.1, poll=0.01)), endpoint, Seen())
    assert after.build == BUILD


async def test_the_very_bytes_on_trial_are_kept_only_when_they_stay_up() -> None:
    board = Crashing(primary=Program("1.2.3.4", bytes.fromhex(BUILD)), secondary=Program("0", b"\1" * 32))
    board.confirmed = False
    async with board.on_tcp() as endpoint:
        with pytest.raises(Ended, match="went back to 0") as ended:
            await all_verbs(SmpTcp(timing=PATIENT), endpoint, Seen())
    assert ended.value.outcome is Outcome.REVERTED
    assert board.primary.build.hex() == OLD


def test_a_trial_outlasts_the_watchdogs_of_a_board_and_is_scaled_with_it() -> None:
    assert Timing().hold >= 10
    assert Timing().scaled(0.5).hold == Timing().hold / 2


@pytest.mark.parametrize("held", ["other slot", "running"])
async def test_an_image_that_is_there_already_counts_as_sent_before_the_board_is_told_anything(held: str) -> None:
    """Else a stop would end the run between the order to try the image and the restart, and leave the order there."""
    there = Program("1.2.3.4", bytes.fromhex(BUILD))
    board, seen = SmpBoard(secondary=there) if held == "other slot" else SmpBoard(primary=there), Seen()
    async with board.on_tcp() as endpoint:
        await SmpTcp(timing=QUICK).flash(IMAGE, endpoint, Identity(), seen.around())
    assert seen.sent == [(len(CONTENT), len(CONTENT))]


async def test_a_board_is_not_made_to_leave_its_trial_before_that_counts_as_written() -> None:
    board = SmpBoard(primary=Program("7", b"\2" * 32), secondary=Program("0", b"\1" * 32), confirmed=False)
    seen = Seen()

    def called_off() -> None:
        raise Ended(Outcome.CANCELLED, "called off")

    around = replace(seen.around(), written=called_off)
    async with board.on_tcp() as endpoint:
        with pytest.raises(Ended, match="called off"):
            await SmpTcp(timing=QUICK).flash(IMAGE, endpoint, Identity(), around)
    assert board.starts == 0
