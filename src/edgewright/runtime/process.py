"""What a program with thousands of clients asks of its own process before it serves: open files, memory and pauses.

`edgewright up` and `edgewright gateway` call `prepare` before the loop runs and `settle` once everything stands.
Nothing here is needed for a right answer: it is about how many clients one process can have, and what they cost.
"""

from __future__ import annotations

import contextlib
import gc
import resource
import sys
from asyncio import sslproto
from typing import Final

# Of what comes in, so much is read at once. asyncio would keep 256 KiB for each end of each TLS connection, for as long
# as it is open: a thousand watches would hold a quarter of a gigabyte.
_TLS_BUFFER: Final = 32 * 1024
# Requests leave few cycles behind. With Python's own thresholds the collector would look at every object that is kept
# some times a second under load, and everybody waits meanwhile.
_GARBAGE_THRESHOLDS: Final = (10_000, 20, 100)
# The thread that writes to the disk needs the interpreter for moments only, and everybody who writes waits for it.
_SWITCH_SECONDS: Final = 0.001


def prepare() -> None:
    """As many open files as the system allows, small buffers, and no collection of garbage while it starts."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # where the system has more to say about it, the limit stays
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    sslproto.SSLProtocol.max_size = _TLS_BUFFER
    sys.setswitchinterval(_SWITCH_SECONDS)
    gc.disable()


def settle() -> None:
    """After `prepare`: what is there now stays, and the garbage collector need not look at it again."""
    if gc.isenabled():
        return
    gc.freeze()
    gc.set_threshold(*_GARBAGE_THRESHOLDS)
    gc.enable()
