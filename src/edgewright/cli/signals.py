"""Running until somebody says stop: what the commands that serve have in common.

The first SIGINT or SIGTERM asks for a clean end, the second ends the process at once: nothing that was acknowledged is
lost by that either.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

_Given = TypeVar("_Given")


@contextmanager
def stop_on_signals() -> Iterator[asyncio.Event]:
    """The event that is set by the first SIGINT or SIGTERM; needs a running loop in the main thread."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    signals = (signal.SIGINT, signal.SIGTERM)
    before = {number: signal.getsignal(number) for number in signals}

    def first() -> None:
        stop.set()
        for number in signals:
            loop.remove_signal_handler(number)
            # The kernel's own way, which also ends a process that hangs.
            signal.signal(number, signal.SIG_DFL)

    for number in signals:
        loop.add_signal_handler(number, first)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            if not stop.is_set():
                loop.remove_signal_handler(number)
                signal.signal(number, handler)


async def before(stop: asyncio.Event, work: Coroutine[Any, Any, _Given]) -> _Given | None:
    """What the work gives; None where a signal came first: the work is called off then, and has ended."""
    working = asyncio.create_task(work)
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.gather(working, stopping, return_exceptions=True)
