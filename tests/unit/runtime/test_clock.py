"""The clock: the virtual one moves only when told, the system's never goes back."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from edgewright.runtime.clock import Clock, SystemClock, VirtualClock, settle


async def test_a_virtual_sleep_ends_when_the_clock_is_moved_and_not_before() -> None:
    clock = VirtualClock()
    sleeper = asyncio.create_task(clock.sleep(10))
    await clock.advance(9.9)
    assert not sleeper.done()
    await clock.advance(0.1)
    assert sleeper.done()
    assert clock.elapsed() == 10
    assert clock.now() == datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=10)


async def test_virtual_timers_fire_in_the_order_in_which_they_are_due() -> None:
    clock = VirtualClock()
    fired: list[tuple[str, float]] = []

    def note(name: str) -> None:
        fired.append((name, clock.elapsed()))

    for name, seconds in (("late", 3.0), ("early", 1.0), ("also early", 1.0), ("past", -5.0)):
        clock.call_later(seconds, partial(note, name))
    clock.call_later(2.0, lambda: fired.append(("taken back", 0))).cancel()
    await clock.advance(3)
    assert fired == [("past", 0.0), ("early", 1.0), ("also early", 1.0), ("late", 3.0)]


async def test_a_virtual_timer_may_set_another_that_is_due_in_the_same_advance() -> None:
    clock = VirtualClock()
    fired: list[float] = []

    def set_another() -> None:
        clock.call_later(1, lambda: fired.append(clock.elapsed()))

    clock.call_later(1, set_another)
    await clock.advance(5)
    assert fired == [2.0]


async def test_a_virtual_timeout_ends_its_block_when_the_clock_has_moved() -> None:
    clock = VirtualClock()

    async def work() -> str:
        async with clock.timeout(5):
            await clock.sleep(10)
        return "finished"

    task = asyncio.create_task(work())
    await clock.advance(5)
    with pytest.raises(TimeoutError):
        await task


@pytest.mark.parametrize("clock", [SystemClock(), VirtualClock()], ids=["system", "virtual"])
@pytest.mark.parametrize("seconds", [None, 60.0], ids=["no limit", "a limit"])
async def test_a_block_that_ends_in_time_is_left_alone(clock: Clock, seconds: float | None) -> None:
    async with clock.timeout(seconds):
        await settle()


async def test_the_system_clock_times_out_sleeps_and_calls_later() -> None:
    clock = SystemClock()
    with pytest.raises(TimeoutError):
        async with clock.timeout(0.001):
            await asyncio.Event().wait()
    before = clock.elapsed()
    called = asyncio.Event()
    clock.call_later(0.001, called.set)
    await called.wait()
    await clock.sleep(0)
    assert clock.elapsed() > before
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(seconds=5)


async def test_a_virtual_sleep_that_is_cancelled_leaves_nothing_behind() -> None:
    clock = VirtualClock()
    sleeper = asyncio.create_task(clock.sleep(1))
    await settle()
    sleeper.cancel()
    await asyncio.gather(sleeper, return_exceptions=True)
    await clock.advance(2)
    assert sleeper.cancelled()
