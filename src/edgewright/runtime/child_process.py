"""The end of a child process that was called off: killed, reaped, and its pipes closed.

Everything that runs a program and may give up on it calls this. `wait` alone returns before the pipes are closed: what
is left of the child then holds descriptors until the garbage collector finds it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Coroutine
from typing import Any, Final

_PIPES_WITHIN: Final = 5.0
"""So long the pipes may stay open after the kill: a descendant that got away may hold them."""
_REAPED_WITHIN: Final = 60.0
"""So long it may take until a killed child is reaped: on a busy machine longer than the pipes are waited for."""


async def end_child(process: asyncio.subprocess.Process, *, group: bool) -> None:
    """Kills a child, with the group that it leads where it has one of its own, and lets its pipes close.

    Who calls it is often cancelled, and may be once more meanwhile: the child is reaped all the same.
    """
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            if group:
                os.killpg(process.pid, signal.SIGKILL)  # our child, not reaped: the pid is its own
            else:
                process.kill()
    await to_the_end(_closed(process))


async def _closed(process: asyncio.subprocess.Process) -> None:
    """Waits for the pipes, and then for the end, where that is not known yet.

    Not the other way round: a `wait` that is begun before the child has ended waits for its pipes, too.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_PIPES_WITHIN):
            await process.communicate()
    if process.returncode is None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_REAPED_WITHIN):
                await process.wait()


async def to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Carries out to its end what must not stay half done; a cancellation of who waits for it comes afterwards."""
    task = asyncio.ensure_future(work)
    called_off: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            called_off = error
    if called_off is not None:
        raise called_off
    task.result()
