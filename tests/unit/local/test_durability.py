"""Writers are killed at random moments: what was acknowledged is there, and revisions never go back."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from edgewright.local.history import StoreKey
from edgewright.local.store import Store
from edgewright.runtime.clock import SystemClock
from tests.harness import repetition

PROGRAM = Path(__file__).with_name("writer_program.py")


def acknowledged_until_killed(directory: Path, lines: int) -> list[tuple[int, StoreKey]]:
    """What the writers printed before they were killed, some time after so many lines."""
    said = []
    with subprocess.Popen([sys.executable, str(PROGRAM), str(directory)], stdout=subprocess.PIPE) as writers:
        assert writers.stdout is not None
        for number, line in enumerate(writers.stdout):
            said.append(line)
            if number == lines:
                writers.kill()
    # A line is written by one call to the pipe: the last may be cut off only by the kill, and is not counted then.
    words = [line.decode().split() for line in said if line.endswith(b"\n")]
    return [(int(revision), StoreKey("things", namespace, name)) for revision, namespace, name in words]


@pytest.mark.repeated
async def test_every_acknowledged_write_survives_kill_9(tmp_path: Path) -> None:
    newest, acknowledged = 0, dict[StoreKey, int]()
    chance = random.Random(repetition.seed())
    for _ in range(repetition.times(5, 40)):
        said = acknowledged_until_killed(tmp_path, chance.randrange(20, 600))
        assert len(said) >= 20
        assert min(revision for revision, _ in said) > newest
        acknowledged |= {key: revision for revision, key in said}
        store = await Store.open(tmp_path, clock=SystemClock())
        try:
            found = {each.key: each.revision for each in store.list("things").items}
            assert acknowledged.items() <= found.items()
            assert store.revision >= max(acknowledged.values())
            history = await store.changes(None, None, 0, store.revision, -1)
            assert [each.revision for each in history] == list(range(1, store.revision + 1))
            newest = store.revision
        finally:
            await store.close()
