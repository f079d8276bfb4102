"""The queue, by example and against a simple model of it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from edgewright.runtime.clock import VirtualClock, settle
from edgewright.runtime.objects import Key
from edgewright.runtime.queue import Priority, Queue, QueueClosed, TokenBucket

A, B, C = Key("ns", "a"), Key("ns", "b"), Key("ns", "c")


class Ear:
    """Notes what the queue tells its observer."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, float]] = []

    def added(self) -> None:
        self.heard.append(("added", 0))

    def taken(self, waited: float) -> None:
        self.heard.append(("taken", waited))

    def done(self, worked: float) -> None:
        self.heard.append(("done", worked))

    def retried(self) -> None:
        self.heard.append(("retried", 0))


async def taken(queue: Queue) -> Key:
    """What is there to take, now."""
    async with asyncio.timeout(180):
        return await queue.get()


async def test_keys_come_in_the_order_in_which_they_were_added_and_once() -> None:
    queue = Queue(clock=VirtualClock())
    for key in (A, B, A, C, A):
        queue.add(key)
    assert len(queue) == 3
    assert [await taken(queue) for _ in range(3)] == [A, B, C]
    assert len(queue) == 0


async def test_a_key_added_while_it_is_worked_on_gets_exactly_one_more_pass() -> None:
    queue = Queue(clock=VirtualClock())
    queue.add(A)
    await taken(queue)
    for _ in range(5):
        queue.add(A)
    waiting = asyncio.create_task(queue.get())
    await settle()
    assert not waiting.done(), "two workers on one key"
    assert len(queue) == 0
    queue.done(A)
    assert await waiting == A
    queue.done(A)
    assert len(queue) == 0


async def test_normal_keys_go_before_low_ones_and_low_ones_get_every_eighth_turn() -> None:
    queue = Queue(clock=VirtualClock())
    low = [Key("low", str(number)) for number in range(3)]
    normal = [Key("normal", str(number)) for number in range(20)]
    for key in low:
        queue.add(key, Priority.LOW)
    for key in normal:
        queue.add(key)
    order = [await taken(queue) for _ in range(23)]
    assert [place for place, key in enumerate(order) if key.namespace == "low"] == [7, 15, 22]
    assert [key for key in order if key.namespace == "normal"] == normal


async def test_a_waiting_low_key_moves_up_when_something_happens_to_it() -> None:
    queue = Queue(clock=VirtualClock())
    for key in (A, B, C):
        queue.add(key, Priority.LOW)
    queue.add(C)
    assert len(queue) == 3
    assert [await taken(queue) for _ in range(3)] == [C, A, B]


async def test_a_normal_key_does_not_move_down() -> None:
    queue = Queue(clock=VirtualClock())
    queue.add(A)
    queue.add(B)
    queue.add(A, Priority.LOW)
    assert [await taken(queue) for _ in range(2)] == [A, B]


@pytest.mark.parametrize("wishes", [(5.0, 2.0), (2.0, 5.0), (2.0,)], ids=["later first", "earlier first", "one"])
async def test_of_several_wishes_for_later_the_earliest_counts(wishes: tuple[float, ...]) -> None:
    clock = VirtualClock()
    queue = Queue(clock=clock)
    for seconds in wishes:
        queue.add_after(A, seconds)
    await clock.advance(1.9)
    assert len(queue) == 0
    await clock.advance(0.1)
    assert await taken(queue) == A
    queue.done(A)
    await clock.advance(100)
    assert len(queue) == 0


@pytest.mark.parametrize("seconds", [0.0, -1.0])
async def test_after_no_time_is_now(seconds: float) -> None:
    queue = Queue(clock=VirtualClock())
    queue.add_after(A, seconds)
    assert await taken(queue) == A


async def test_failures_wait_longer_each_time_and_forgetting_starts_over() -> None:
    clock = VirtualClock()
    queue = Queue(clock=clock, base=1.0, cap=5.0)
    assert [queue.retry(A) for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
    assert queue.failures(A) == 5
    assert queue.failures(B) == 0
    queue.forget(A)
    queue.forget(B)
    assert queue.failures(A) == 0
    assert queue.retry(A) == 1.0
    await clock.advance(1.0)
    assert await taken(queue) == A


async def test_many_failing_keys_together_come_back_at_a_bounded_rate() -> None:
    clock = VirtualClock()
    queue = Queue(clock=clock, base=0.005, retries_per_second=10, retry_burst=100)
    waits = [queue.retry(Key("", str(number))) for number in range(150)]
    assert waits[:100] == [0.005] * 100
    assert waits[100:] == pytest.approx([number / 10 for number in range(1, 51)])
    await clock.advance(2.0)
    assert len(queue) == 120


async def test_a_bucket_fills_up_to_its_burst_and_no_further() -> None:
    clock = VirtualClock()
    bucket = TokenBucket(rate=2.0, burst=3, clock=clock)
    assert [bucket.reserve() for _ in range(5)] == [0, 0, 0, 0.5, 1.0]
    await clock.advance(1.0)
    assert bucket.reserve() == 0.5
    await clock.advance(1000)
    assert [bucket.reserve() for _ in range(4)] == [0, 0, 0, 0.5]


async def test_closing_wakes_those_who_wait_and_takes_nothing_more() -> None:
    clock = VirtualClock()
    queue = Queue(clock=clock)
    queue.add(A)
    held = await taken(queue)
    queue.add_after(B, 1.0)
    waiting = [asyncio.create_task(queue.get()) for _ in range(3)]
    await settle()
    queue.close()
    assert [type(each) for each in await asyncio.gather(*waiting, return_exceptions=True)] == [QueueClosed] * 3
    queue.add(A)
    queue.add(C)
    queue.add_after(C, 1.0)
    queue.retry(A)
    await clock.advance(10)
    queue.done(held)
    assert len(queue) == 0
    assert queue.working == {}
    with pytest.raises(QueueClosed):
        await queue.get()


async def test_a_key_that_was_added_again_is_not_given_out_after_the_close() -> None:
    queue = Queue(clock=VirtualClock())
    queue.add(A)
    await taken(queue)
    queue.add(A)
    queue.close()
    queue.done(A)
    with pytest.raises(QueueClosed):
        await queue.get()


async def test_a_worker_that_is_cancelled_as_it_is_woken_passes_the_key_on() -> None:
    queue = Queue(clock=VirtualClock())
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await settle()
    queue.add(A)  # wakes the first …
    first.cancel()  # … which never runs
    async with asyncio.timeout(180):
        assert await second == A
    assert first.cancelled()


async def test_a_worker_that_was_cancelled_while_it_waited_is_passed_over() -> None:
    queue = Queue(clock=VirtualClock())
    first, second = asyncio.create_task(queue.get()), asyncio.create_task(queue.get())
    await settle()
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    queue.add(A)
    async with asyncio.timeout(180):
        assert await second == A


async def test_the_observer_hears_adds_waits_work_and_retries() -> None:
    clock, ear = VirtualClock(), Ear()
    queue = Queue(clock=clock, base=1.0, observer=ear)
    queue.add(A, Priority.LOW)
    queue.add(A)
    await clock.advance(2)
    await taken(queue)
    assert queue.working == {A: 2.0}
    await clock.advance(3)
    queue.retry(A)
    queue.done(A)
    await clock.advance(1)
    assert ear.heard == [("added", 0), ("taken", 2.0), ("retried", 0), ("done", 3.0), ("added", 0)]


KEYS = [Key("", letter) for letter in "abcd"]


class QueueModel(RuleBasedStateMachine):
    """The queue against two sets, some due times and a count of turns."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = VirtualClock()
        self.queue = Queue(clock=self.clock, base=1.0, cap=8.0, retries_per_second=1000, retry_burst=1000)
        self.waiting: dict[Key, Priority] = {}
        self.working: set[Key] = set()
        self.due: dict[Key, float] = {}
        self.failures: dict[Key, int] = {}
        self.low_turns_missed = 0
        self.closed = False

    def teardown(self) -> None:
        self.loop.close()

    def _add(self, key: Key, priority: Priority) -> None:
        self.waiting[key] = min(priority, self.waiting.get(key, priority))

    def _later(self, key: Key, seconds: float) -> None:
        self.due[key] = min(self.due.get(key, float("inf")), self.clock.elapsed() + seconds)

    def _takeable(self) -> set[Key]:
        return set() if self.closed else self.waiting.keys() - self.working

    @rule(key=st.sampled_from(KEYS), priority=st.sampled_from(Priority))
    def add(self, key: Key, priority: Priority) -> None:
        self.queue.add(key, priority)
        if not self.closed:
            self._add(key, priority)

    @rule(key=st.sampled_from(KEYS), seconds=st.integers(1, 10))
    def add_after(self, key: Key, seconds: int) -> None:
        self.queue.add_after(key, seconds)
        if not self.closed:
            self._later(key, seconds)

    @rule(key=st.sampled_from(KEYS))
    def retry(self, key: Key) -> None:
        self.failures[key] = self.failures.get(key, 0) + 1
        expected = min(8.0, 2.0 ** (self.failures[key] - 1))
        assert self.queue.retry(key) == expected
        if not self.closed:
            self._later(key, expected)

    @rule(key=st.sampled_from(KEYS))
    def forget(self, key: Key) -> None:
        self.queue.forget(key)
        self.failures.pop(key, None)

    @rule(seconds=st.integers(1, 6))
    def wait(self, seconds: int) -> None:
        self.loop.run_until_complete(self.clock.advance(seconds))
        for key in [key for key, due in self.due.items() if due <= self.clock.elapsed()]:
            del self.due[key]
            self._add(key, Priority.NORMAL)

    @rule()
    def get(self) -> None:
        async def try_to_get() -> Key | None:
            task = asyncio.create_task(self.queue.get())
            await settle(3)
            if not task.done():
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                return await task
            return None

        takeable = self._takeable()
        if self.closed:
            with pytest.raises(QueueClosed):
                self.loop.run_until_complete(try_to_get())
            return
        key = self.loop.run_until_complete(try_to_get())
        assert (key in takeable) if takeable else (key is None)
        if key is None:
            return
        lows = {each for each in takeable if self.waiting[each] == Priority.LOW}
        if key in lows or not lows:
            self.low_turns_missed = 0
        else:
            self.low_turns_missed += 1
            assert self.low_turns_missed < 8, "a low key was starved"
        del self.waiting[key]
        self.working.add(key)

    @precondition(lambda self: self.working)
    @rule(data=st.data())
    def done(self, data: Any) -> None:
        key = data.draw(st.sampled_from(sorted(self.working)))
        self.queue.done(key)
        self.working.remove(key)

    @precondition(lambda self: not self.closed)
    @rule(sure=st.integers(0, 19))
    def close(self, sure: int) -> None:
        if sure == 0:
            self.queue.close()
            self.closed = True
            self.due.clear()

    @invariant()
    def agrees(self) -> None:
        assert set(self.queue.working) == self.working
        if not self.closed:
            assert len(self.queue) == len(self._takeable())
        for key in KEYS:
            assert self.queue.failures(key) == self.failures.get(key, 0)


TestQueueModel = QueueModel.TestCase
