"""The directory of one control plane: made, and removed, kept for a person to read, or swept up after a kill -9.

Each `ControlPlane` has one. As long as its process lives it holds a lock on a file in there, so that the next one can
tell what was left behind from what is in use; what was kept on purpose has no such file and is never touched.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_IN_USE = "in-use"


def _lock(path: Path) -> int | None:
    """An open file that is locked by us, or None where a living process has it or nobody any more."""
    try:
        file = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        return None
    return file


def sweep(base: Path) -> None:
    """Removes the directories whose processes are gone without having removed or kept them."""
    for mark in base.glob(f"*/{_IN_USE}"):
        lock = _lock(mark)
        if lock is None:
            continue
        if mark.exists():  # else it was kept or removed while we looked
            shutil.rmtree(mark.parent)
        os.close(lock)


class Workspace:
    """A fresh directory that nobody but us can read: there are private keys in it."""

    def __init__(self, base: Path) -> None:
        base.mkdir(parents=True, exist_ok=True)
        sweep(base)
        self.path = Path(tempfile.mkdtemp(prefix="cluster-", dir=base))
        mark = self.path / f"{_IN_USE}.new"
        mark.touch()
        self._lock = _lock(mark)
        mark.rename(self.path / _IN_USE)  # only now that it is locked may a sweep see it

    def release(self, *, keep: bool) -> None:
        """Removes the directory, or leaves it for good; a second call does nothing."""
        if self._lock is None:
            return
        if keep:
            (self.path / _IN_USE).unlink()
        else:
            shutil.rmtree(self.path)
        os.close(self._lock)
        self._lock = None
