"""A directory that belongs to one process at a time: the store's, the node's, and the command's that runs a node.

The lock goes with the process, however that ends. It is asked for with a moment of patience: a process that dies just
after it has started a child leaves that child with a copy of the lock for an instant, since Linux lets a spawner go on
(and die) before the new program has closed what it must not inherit.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import Final

_PATIENCE: Final = 1.0
_PAUSE: Final = 0.01


class Taken(Exception):
    """Another process has the lock."""


def lock(file: Path, *, patience: float = _PATIENCE) -> int:
    """Locks a file for this process, making it where there is none; closing what it gives back unlocks it."""
    handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    until = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                os.close(handle)
                raise Taken(str(file)) from None
            time.sleep(_PAUSE)
        except BaseException:
            os.close(handle)
            raise
        else:
            return handle
