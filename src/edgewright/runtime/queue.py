"""The queue between caches and workers: keys, not changes.

A key that is added many times before a worker takes it is worked on once; a key that is added while it is worked on
is worked on exactly once more afterwards, never by two workers at a time. Keys wait by priority (what a first list
brings goes behind what happens now, and still gets every eighth turn), then in the order in which they came. It holds
no objects and does no I/O.
"""

from __future__ import annotations

import asyncio
from collections import deque
from enum import IntEnum
from typing import Protocol

from edgewright.runtime.backoff import delay
from edgewright.runtime.clock import Clock, Timer
from edgewright.runtime.objects import Key

# Every so many turns the lower priority goes first, so that a busy fleet cannot starve it.
_FAIR_TURN = 8


class Priority(IntEnum):
    """Who goes first."""

    NORMAL = 0
    LOW = 1


class QueueClosed(Exception):
    """There is nothing more to take: the queue has been closed."""


class QueueObserver(Protocol):
    """Hears what happens, for the metrics."""

    def added(self) -> None:
        """A key was added."""

    def taken(self, waited: float) -> None:
        """A worker took a key that had waited so many seconds."""

    def done(self, worked: float) -> None:
        """A worker is done with a key after so many seconds."""

    def retried(self) -> None:
        """A key was added again after a failure."""


class TokenBucket:
    """Lets `burst` calls through at once and `rate` a second on the long run."""

    def __init__(self, *, rate: float, burst: int, clock: Clock) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._clock = clock
        self._tokens = float(burst)
        self._counted_at = clock.elapsed()

    def reserve(self) -> float:
        """Takes a token and says how long to wait until it is there."""
        now = self._clock.elapsed()
        self._tokens = min(self._burst, self._tokens + (now - self._counted_at) * self._rate)
        self._counted_at = now
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._rate)


class Queue:
    """A de-duplicating queue of keys with one worker per key."""

    def __init__(
        self,
        *,
        clock: Clock,
        base: float = 0.005,
        cap: float = 1000.0,
        retries_per_second: float = 50.0,
        retry_burst: int = 500,
        observer: QueueObserver | None = None,
    ) -> None:
        self._clock = clock
        self._base = base
        self._cap = cap
        # client-go's 10 a second after a burst of 100 would need 40 s to get over an outage that met 500 keys.
        self._bucket = TokenBucket(rate=retries_per_second, burst=retry_burst, clock=clock)
        self._observer = observer
        self._lines: dict[Priority, deque[Key]] = {priority: deque() for priority in Priority}
        self._waiting: dict[Key, Priority] = {}  # to be worked on: in a line, or again once its worker is done
        self._since: dict[Key, float] = {}  # when each waiting key was added
        self._working: dict[Key, float] = {}  # since when a worker has it
        self._timers: dict[Key, tuple[float, Timer]] = {}
        self._failures: dict[Key, int] = {}
        self._takers: deque[asyncio.Future[None]] = deque()
        self._turns = 0
        self._closed = False

    def __len__(self) -> int:
        """How many keys a worker could take now."""
        return sum(1 for key in self._waiting if key not in self._working) if self._working else len(self._waiting)

    @property
    def working(self) -> dict[Key, float]:
        """The keys that workers have, and since when."""
        return dict(self._working)

    def add(self, key: Key, priority: Priority = Priority.NORMAL) -> None:
        """Asks for one more pass over the key; asking twice before it starts is asking once."""
        if self._closed:
            return
        known = self._waiting.get(key)
        if known is not None and known <= priority:
            return
        self._waiting[key] = priority
        if known is None:
            self._since[key] = self._clock.elapsed()
            if self._observer is not None:
                self._observer.added()
        if key not in self._working:
            # Moving up leaves the old place in the slower line behind; `_pop` passes over it.
            self._lines[priority].append(key)
            self._wake_one()

    def add_after(self, key: Key, seconds: float) -> None:
        """Asks for a pass after that time; of several such wishes the earliest counts."""
        if self._closed:
            return
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.elapsed() + seconds
        known = self._timers.get(key)
        if known is not None:
            if known[0] <= due:
                return
            known[1].cancel()
        self._timers[key] = (due, self._clock.call_later(seconds, lambda: self._due(key)))

    def retry(self, key: Key) -> float:
        """Asks for a pass after a failure: later each time, and many failing keys together at a bounded rate."""
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        wait = max(delay(failures, base=self._base, cap=self._cap), self._bucket.reserve())
        if self._observer is not None:
            self._observer.retried()
        self.add_after(key, wait)
        return wait

    def forget(self, key: Key) -> None:
        """The key went well: its next failure is the first again."""
        self._failures.pop(key, None)

    def failures(self, key: Key) -> int:
        """How many times in a row the key has failed."""
        return self._failures.get(key, 0)

    async def get(self) -> Key:
        """The next key; the caller must call `done` with it. QueueClosed once the queue is closed."""
        while True:
            if self._closed:
                raise QueueClosed
            key = self._pop()
            if key is not None:
                return key
            taker: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._takers.append(taker)
            try:
                await taker
            except asyncio.CancelledError:
                if taker.done() and not taker.cancelled():
                    self._wake_one()  # the call that woke this worker is passed on to another
                raise

    def done(self, key: Key) -> None:
        """The worker is done with the key; if it was added meanwhile, it gets back in line."""
        started = self._working.pop(key)
        if self._observer is not None:
            self._observer.done(self._clock.elapsed() - started)
        if key in self._waiting and not self._closed:
            self._lines[self._waiting[key]].append(key)
            self._wake_one()

    def close(self) -> None:
        """Nothing is given out any more; workers finish what they have."""
        self._closed = True
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        while self._takers:
            self._wake_one()

    def _due(self, key: Key) -> None:
        del self._timers[key]
        self.add(key)

    def _pop(self) -> Key | None:
        self._turns += 1
        order = (Priority.LOW, Priority.NORMAL) if self._turns % _FAIR_TURN == 0 else (Priority.NORMAL, Priority.LOW)
        for priority in order:
            line = self._lines[priority]
            while line:
                key = line.popleft()
                if self._waiting.get(key) == priority and key not in self._working:
                    del self._waiting[key]
                    now = self._working[key] = self._clock.elapsed()
                    since = self._since.pop(key)
                    if self._observer is not None:
                        self._observer.taken(now - since)
                    return key
        return None

    def _wake_one(self) -> None:
        while self._takers:
            taker = self._takers.popleft()
            if not taker.done():
                taker.set_result(None)
                return
