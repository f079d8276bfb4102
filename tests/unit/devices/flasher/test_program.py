"""The frame of a run: time limit, stop, progress, and that nothing ends without a report."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from edgewright.api.flash_pod import (
    EXIT_CODES,
    INSPECTED_EXIT_CODE,
    NOTE_FOLDER_VARIABLE,
    Outcome,
    Role,
    Variable,
    decode_report,
)
from edgewright.devices.drivers.driver import NOTHING, Ended, Facts, Handover, Identity, Surroundings
from edgewright.devices.flasher.environment import Order
from edgewright.devices.flasher.steps import Equipment
from edgewright.runtime.clock import settle
from tests.unit.devices.flasher.fakes import AFTER, Bench, FakeDriver, Interruptible, forever


async def half(around: Surroundings) -> None:
    around.written()
    around.progress(40, 100)
    await forever()


async def never_dials(_around: Surroundings) -> None:
    await forever()


@pytest.mark.parametrize(
    ("bench", "waits_for", "written"),
    [
        pytest.param(Bench(image=None), "the firmware registry.example/team/firmware:0.2.0", False, id="registry"),
        pytest.param(Bench(driver=FakeDriver(on_flash=never_dials)), "to take the firmware", False, id="never-dials"),
        pytest.param(Bench(driver=FakeDriver(on_flash=half)), "to take the firmware", True, id="half-sent"),
        pytest.param(Bench(driver=FakeDriver(after=None)), "to restart and report 0.2.0", True, id="never-comes-back"),
    ],
)
async def test_a_run_that_takes_too_long_says_what_it_waited_for(bench: Bench, waits_for: str, written: bool) -> None:
    task = bench.start()
    await settle()
    await bench.clock.advance(59)
    assert not task.done()
    await bench.clock.advance(1)
    assert await task == EXIT_CODES[Outcome.TIMED_OUT]
    assert f"longer than 60 s, waiting for {waits_for}" in bench.report.message.replace("the device ", "")
    assert (bench.report.written, bench.report.seconds) == (written, 60.0)


async def test_a_progress_line_is_said_every_second_and_the_report_keeps_the_last() -> None:
    bench = Bench(driver=FakeDriver(on_flash=half))
    task = bench.start()
    await bench.until("flash")
    said = len(bench.said)
    await bench.clock.advance(5)
    assert bench.said[said:] == [f"40 % of 100 bytes sent, {second} s" for second in range(1, 6)]
    await bench.clock.advance(55)
    await task
    assert sum("bytes sent" in line for line in bench.report.log) == 1


@pytest.mark.parametrize(
    "bench",
    [Bench(image=None), Bench(driver=FakeDriver(on_flash=never_dials))],
    ids=["pulling", "waiting-for-the-device"],
)
async def test_a_stop_before_anything_is_written_cancels_at_once(bench: Bench) -> None:
    task = bench.start()
    await settle()
    bench.stop.ask()
    bench.stop.ask()
    assert await task == EXIT_CODES[Outcome.CANCELLED]
    assert (bench.report.outcome, bench.report.written) == (Outcome.CANCELLED, False)


async def test_a_stop_that_came_while_the_program_started_is_not_lost() -> None:
    bench = Bench()
    bench.stop.ask()
    assert await bench.run() == EXIT_CODES[Outcome.CANCELLED]
    assert bench.driver.done == []


async def test_a_stop_while_writing_waits_for_the_end_of_the_flash() -> None:
    go_on = asyncio.Event()

    async def slowly(around: Surroundings) -> None:
        around.written()
        await go_on.wait()

    bench = Bench(driver=FakeDriver(on_flash=slowly))
    task = bench.start()
    await bench.until("flash")
    bench.stop.ask()
    bench.stop.ask()
    await settle()
    assert not task.done()
    go_on.set()
    assert await task == 0
    assert bench.report.outcome is Outcome.SUCCEEDED
    assert sum("it goes on" in line for line in bench.said) == 1


async def test_a_stop_while_sending_ends_it_where_the_driver_says_that_this_does_no_harm() -> None:
    bench = Bench(driver=Interruptible(on_flash=half))
    task = bench.start()
    await bench.until("flash")
    bench.stop.ask()
    assert await task == EXIT_CODES[Outcome.CANCELLED]
    assert (bench.report.written, bench.report.version_after) == (True, "0.1.0")


async def test_a_stop_when_the_last_byte_is_out_waits_for_what_the_device_makes_of_it() -> None:
    go_on = asyncio.Event()

    async def takes_leave(around: Surroundings) -> None:
        around.written()
        around.progress(100, 100)
        await go_on.wait()

    bench = Bench(driver=Interruptible(on_flash=takes_leave))
    task = bench.start()
    await bench.until("flash")
    bench.stop.ask()
    await settle()
    assert not task.done()
    go_on.set()
    assert await task == 0


async def test_a_stop_after_the_sending_waits_for_the_proof_whatever_the_driver() -> None:
    bench = Bench(driver=Interruptible(after=None))
    task = bench.start()
    await bench.until("verify")
    bench.stop.ask()
    await settle()
    assert not task.done()
    await bench.clock.advance(60)
    assert await task == EXIT_CODES[Outcome.TIMED_OUT]


async def test_a_driver_that_is_about_to_write_is_kept_from_it_by_a_stop_in_that_moment() -> None:
    sent: list[str] = []
    bench = Bench()

    async def writes(around: Surroundings) -> None:
        bench.stop.ask()
        around.written()
        sent.append("firmware")

    bench.driver = FakeDriver(on_flash=writes)
    assert await bench.run() == EXIT_CODES[Outcome.CANCELLED]
    assert sent == []
    assert not bench.report.written


async def test_a_flash_that_does_not_let_go_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgewright.devices.flasher.program.LETTING_GO", 0.01)
    release = asyncio.Event()

    async def clings(_around: Surroundings) -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    bench = Bench(driver=FakeDriver(on_flash=clings))
    task = bench.start()
    await bench.until("flash")
    bench.stop.ask()
    assert await task == EXIT_CODES[Outcome.CANCELLED]
    release.set()
    await settle()


async def test_a_killed_flasher_has_told_that_the_device_was_being_written() -> None:
    bench = Bench(driver=FakeDriver(after=None))
    task = bench.start()
    await bench.until("verify")
    (interim,) = bench.saved
    told = decode_report(interim.decode())
    assert told is not None
    assert (told.outcome, told.written, told.version_before) == (Outcome.FAILED, True, "0.1.0")
    assert "ended from outside" in told.message
    await bench.clock.advance(60)
    await task


async def test_a_wrong_environment_is_a_report_with_the_variables_name() -> None:
    bench = Bench()
    assert await bench.run(environment={Variable.FIRMWARE: "fsdsdsd"}) == 1
    assert "FIRMWARE: 'fsdsdsd' names no image" in bench.report.message


@pytest.mark.parametrize("role", [Role.FLASH, Role.VERIFY, Role.INSPECT])
async def test_an_unexpected_error_is_a_report_and_not_only_a_traceback(
    role: Role, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(_self: Bench, _order: Order, _log: Callable[[str], None]) -> Equipment:
        raise ZeroDivisionError("password=hunter2secret42")

    monkeypatch.setattr(Bench, "equip", breaks)
    bench = Bench()
    assert await bench.run(role) == (INSPECTED_EXIT_CODE if role is Role.INSPECT else 1)
    assert bench.report.outcome is Outcome.FAILED
    assert "ZeroDivisionError" in bench.report.message
    assert "hunter2" not in "".join((*bench.said, bench.saved[-1].decode()))


@pytest.mark.parametrize("role", [Role.FLASH, Role.VERIFY])
async def test_something_inside_that_is_cancelled_and_nobody_meant_is_a_report_too(role: Role, tmp_path: Path) -> None:
    class Torn(FakeDriver):
        async def inspect(self, endpoint: str) -> Identity:
            raise asyncio.CancelledError

    bench = Bench(driver=Torn())
    assert await bench.run(role, {NOTE_FOLDER_VARIABLE: str(tmp_path)}) == EXIT_CODES[Outcome.FAILED]
    assert "the flasher itself broke off, waiting for the device's answer" in bench.report.message


async def test_whoever_runs_it_can_still_cancel_it() -> None:
    bench = Bench(image=None)
    task = bench.start()
    await bench.until("inspect")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert bench.saved == []


async def test_missing_equipment_is_told_as_its_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(_self: Bench, _order: Order, _log: Callable[[str], None]) -> Equipment:
        raise Ended(Outcome.REFUSED, "there is no key")

    monkeypatch.setattr(Bench, "equip", refuses)
    bench = Bench()
    assert await bench.run() == EXIT_CODES[Outcome.REFUSED]
    assert bench.report.message == "there is no key"


class AnswersInTheLastMoment(FakeDriver):
    """Its device has answered when the time is up, before the driver hears that."""

    async def verify(
        self,
        endpoint: str,
        before: Identity,
        wanted: str,
        facts: Facts,
        around: Surroundings,
        *,
        handover: Handover = NOTHING,
    ) -> Identity:
        self.done.append("verify")
        try:
            await forever()
        except asyncio.CancelledError:
            return AFTER
        raise AssertionError


async def test_a_proof_in_the_moment_in_which_the_time_is_up_counts() -> None:
    bench = Bench(driver=AnswersInTheLastMoment())
    task = bench.start()
    await bench.until("verify")
    await bench.clock.advance(60)
    assert await task == 0
    assert bench.report.outcome is Outcome.SUCCEEDED
