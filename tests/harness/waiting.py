"""The one way in which the harness and the tests wait: until a condition holds, or until it is too late.

Used by every part of the harness and by tests, synchronous and asynchronous. It never swallows an exception of the
condition: what may fail while something starts up is the condition's own business.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar, overload

T = TypeVar("T")

PATIENCE = 180.0
"""Seconds that are enough for anything on a machine that has much else to do; only a test that fails waits so long."""

_FIRST, _GROWTH, _LAST = 0.02, 1.2, 0.1
"""The pauses between two looks, where the caller names none: they grow to the last one within a second."""


class WaitError(AssertionError):
    """A condition did not come true in time."""

    def __init__(self, what: str, timeout: float) -> None:
        super().__init__(f"waited {timeout:g} s in vain: {what}")


def wait_until(
    condition: Callable[[], T | None], *, timeout: float = PATIENCE, what: str, interval: float | None = None
) -> T:
    """Calls the condition until it returns something true, and returns that."""
    deadline = time.monotonic() + timeout
    for pause in _pauses(interval):
        if found := condition():
            return found
        if time.monotonic() > deadline:
            break
        time.sleep(pause)
    raise WaitError(what, timeout)


@overload
async def wait_until_async(
    condition: Callable[[], Awaitable[T | None]], *, timeout: float = ..., what: str, interval: float | None = ...
) -> T: ...
@overload
async def wait_until_async(
    condition: Callable[[], T | None], *, timeout: float = ..., what: str, interval: float | None = ...
) -> T: ...
async def wait_until_async(
    condition: Callable[[], T | Awaitable[T | None] | None],
    *,
    timeout: float = PATIENCE,
    what: str,
    interval: float | None = None,
) -> T:
    """The same for an asynchronous test: the event loop goes on between the calls, and the condition may await."""
    deadline = time.monotonic() + timeout
    for pause in _pauses(interval):
        answer = condition()
        if found := await answer if isinstance(answer, Awaitable) else answer:
            return found
        if time.monotonic() > deadline:
            break
        await asyncio.sleep(pause)
    raise WaitError(what, timeout)


def _pauses(interval: float | None) -> Iterator[float]:
    """How long to wait after each look: it may be a request, and who waits long need not ask 50 times a second."""
    pause = _FIRST if interval is None else interval
    while True:
        yield pause
        if interval is None:
            pause = min(pause * _GROWTH, _LAST)
