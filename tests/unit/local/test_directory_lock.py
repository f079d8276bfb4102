"""One process at a time, and a moment of patience with a copy of the lock that is about to be closed."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from edgewright.local.directory_lock import Taken, lock


def test_a_lock_has_one_holder(tmp_path: Path) -> None:
    held = lock(tmp_path / "lock")
    with pytest.raises(Taken, match="lock"):
        lock(tmp_path / "lock", patience=0)
    os.close(held)
    os.close(lock(tmp_path / "lock", patience=0))


def test_a_copy_that_a_new_child_is_about_to_close_is_waited_for(tmp_path: Path) -> None:
    """What a child has between the wake-up of its spawner and its own exec: the same lock by another descriptor."""
    held = lock(tmp_path / "lock")
    copy = os.dup(held)
    os.close(held)
    closing = threading.Timer(0.05, os.close, [copy])
    closing.start()
    os.close(lock(tmp_path / "lock", patience=30))
    closing.join()


def test_a_lock_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        lock(tmp_path / "nowhere" / "lock")
