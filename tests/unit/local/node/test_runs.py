"""What a node notes of containers that podman runs: how they ended is asked for until podman says it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from edgewright.containers.errors import PodmanUnavailable
from edgewright.local.node import runs
from edgewright.local.node.folders import PODMAN, Exit, NodeFolder, PodRecord, State
from edgewright.local.node.processes import Identity
from edgewright.runtime.objects import Key
from tests.harness.waiting import wait_until_async

ENDED = State(boot="now", shim=Identity(pid=1, start=-1), main=Identity(pid=1, start=-1), container="c1")


class Forgetful:
    """A podman that first knows nothing of a container that is being removed."""

    def __init__(self) -> None:
        self.asked = 0
        self.removed: list[str] = []

    async def end_of(self, _state: State) -> Exit:
        await asyncio.sleep(0)
        self.asked += 1
        if self.asked < 3:
            raise PodmanUnavailable("it does not exist in database: no such container")
        return Exit(code=137, finished=1, lost=True)

    async def remove_container(self, state: State) -> None:
        self.removed.append(state.container)


async def test_podman_is_asked_again_how_a_container_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "_ASK_AGAIN_SECONDS", 0)
    podman: Any = Forgetful()
    folder = NodeFolder(tmp_path)
    passes: Any = None

    def changed(_key: Key) -> None:  # the next pass comes as soon as it can
        asyncio.get_running_loop().call_soon(passes)

    addresses: Any = None
    made = runs.Runs(folder, addresses, boot="now", changed=changed, podman=podman)
    record = PodRecord(uid="u", namespace="n", name="p", boot="now", taken_in=datetime.now(UTC), runtime=PODMAN)
    place = folder.pod("u")
    place.take_in(record)
    run = runs.Run(record, place)
    attempt = place.attempt("main", 0)
    attempt.prepare({"step": 0, "image": "i"})
    attempt.begin(ENDED)

    def look() -> None:
        made.attempts(run)

    passes = look
    look()
    await wait_until_async(lambda: podman.removed == ["c1"], what="its end is known", timeout=30)
    (found,) = made.attempts(run)["main"]
    assert found.end is not None
    assert (found.end.code, podman.asked) == (137, 3)
