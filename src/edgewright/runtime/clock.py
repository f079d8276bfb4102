"""The one clock: wall time, elapsed time, sleeping, timers and timeouts.

Everything in the runtime that waits or compares times does so through a `Clock` that is passed in, so that a test can
own time (`VirtualClock`). Elapsed time comes from a clock that runs on while the machine is suspended: a leader that
slept must know that its lease is over.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Protocol

# Linux: runs on in suspend, unlike CLOCK_MONOTONIC. Elsewhere the monotonic clock is the best there is.
_ELAPSED_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class Timer(Protocol):
    """A call that is due later; it can be taken back."""

    def cancel(self) -> None:
        """Makes sure that the call does not happen (harmless when it has)."""


class Clock(Protocol):
    """What the runtime knows of time."""

    def now(self) -> datetime:
        """The wall time, in UTC."""

    def elapsed(self) -> float:
        """Seconds since some fixed moment; never goes back, runs on in suspend."""

    async def sleep(self, seconds: float) -> None:
        """Waits for that long."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Calls `callback` in the event loop after that long."""

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        """Raises TimeoutError in the block that is still running after that long; None means no limit."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """The wall time, in UTC."""
        return datetime.now(UTC)

    def elapsed(self) -> float:
        """Seconds of CLOCK_BOOTTIME."""
        return time.clock_gettime(_ELAPSED_CLOCK)

    async def sleep(self, seconds: float) -> None:
        """Waits for that long."""
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Calls `callback` in the running event loop after that long."""
        return asyncio.get_running_loop().call_later(seconds, callback)

    def timeout(self, seconds: float | None) -> AbstractAsyncContextManager[object]:
        """Raises TimeoutError in the block that is still running after that long."""
        return asyncio.timeout(seconds)


class _VirtualTimer:
    """A callback in a VirtualClock's future."""

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class VirtualClock:
    """A clock that stands still until a test moves it with `advance`."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._start = start
        self._elapsed = 0.0
        self._order = itertools.count()
        self._timers: list[tuple[float, int, _VirtualTimer]] = []

    def now(self) -> datetime:
        """The virtual wall time."""
        return self._start + timedelta(seconds=self._elapsed)

    def elapsed(self) -> float:
        """The virtual seconds since the clock was made."""
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        """Waits until the test has advanced the clock by that much."""
        woken = asyncio.Event()
        timer = self.call_later(seconds, woken.set)
        try:
            await woken.wait()
        finally:
            timer.cancel()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Calls `callback` when the test has advanced the clock by that much."""
        timer = _VirtualTimer(callback)
        heapq.heappush(self._timers, (self._elapsed + max(0.0, seconds), next(self._order), timer))
        return timer

    @asynccontextmanager
    async def timeout(self, seconds: float | None) -> AsyncIterator[None]:
        """Raises TimeoutError in the block when the clock has been advanced by that much meanwhile."""
        async with asyncio.timeout(None) as scope:
            expire = lambda: scope.reschedule(asyncio.get_running_loop().time())  # noqa: E731 - named for the reader
            timer = None if seconds is None else self.call_later(seconds, expire)
            try:
                yield
            finally:
                if timer is not None:
                    timer.cancel()

    async def advance(self, seconds: float) -> None:
        """Moves time forward, firing every timer on the way in order and letting what it woke run."""
        target = self._elapsed + seconds
        await settle()
        while self._timers and self._timers[0][0] <= target:
            when, _, timer = heapq.heappop(self._timers)
            self._elapsed = max(self._elapsed, when)
            if timer.callback is not None:
                timer.callback()
                await settle()
        self._elapsed = target
        await settle()


async def settle(rounds: int = 20) -> None:
    """Lets every task that can run without time or I/O do so."""
    for _ in range(rounds):
        await asyncio.sleep(0)
