"""Pods whose Node is gone are removed after a while, and no others."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from edgewright.local.controllers import orphans
from edgewright.local.controllers.orphans import QUARANTINE
from edgewright.runtime import Manager, VirtualClock
from tests.unit.local.controllers.miniature import NODE, POD, Miniature, controlled, miniature, settled, until

RUNNING: Any = {"spec": {"nodeName": "gone"}, "status": {"phase": "Running"}}


def with_orphans(server: Miniature, clock: VirtualClock) -> Any:
    def add(manager: Manager) -> None:
        orphans.add(manager, clock=clock)

    return controlled(server, add, clock=clock)


async def test_a_pod_whose_node_stays_away_is_said_to_have_failed_and_removed() -> None:
    clock = VirtualClock(datetime(2026, 1, 1, tzinfo=UTC))
    async with miniature() as server:
        server.make(NODE, "here")
        server.make(POD, "stays", spec={"nodeName": "here"}, status={"phase": "Running"})
        server.make(POD, "waits", spec={}, status={"phase": "Pending"})
        server.make(POD, "orphan", metadata={"finalizers": ["example.io/hold"]}, **RUNNING)
        server.make(POD, "done", spec={"nodeName": "gone"}, status={"phase": "Succeeded"})
        async with with_orphans(server, clock):
            await settled(server)
            await clock.advance(QUARANTINE - 1)
            await settled(server)
            assert len(server.all(POD)) == 4
            assert server.writes == []
            await clock.advance(1)
            await until(lambda: len(server.all(POD)) == 3)
            await settled(server)
            assert sorted(key.name for key in server.all(POD)) == ["orphan", "stays", "waits"]
            held = server.get(POD, "orphan") or {}
            assert held["metadata"]["deletionTimestamp"]
            assert held["status"]["phase"] == "Failed"
            assert [each["reason"] for each in held["status"]["conditions"]] == ["DeletionByPodGC"]


async def test_a_pod_whose_node_comes_back_in_time_is_left_alone() -> None:
    clock = VirtualClock(datetime(2026, 1, 1, tzinfo=UTC))
    async with miniature() as server:
        server.make(POD, "orphan", **RUNNING)
        async with with_orphans(server, clock):
            await settled(server)
            await clock.advance(QUARANTINE - 1)
            server.make(NODE, "gone")
            await settled(server)
            await clock.advance(QUARANTINE)
            await settled(server)
            assert server.writes == []
            server.delete(NODE, "gone")
            await settled(server)
            await clock.advance(QUARANTINE - 1)
            await settled(server)
            assert server.writes == []
            await clock.advance(1)
            await until(lambda: not server.all(POD))


async def test_a_pod_made_again_has_its_own_time() -> None:
    clock = VirtualClock(datetime(2026, 1, 1, tzinfo=UTC))
    async with miniature() as server:
        server.make(POD, "orphan", **RUNNING)
        async with with_orphans(server, clock):
            await settled(server)
            await clock.advance(QUARANTINE - 1)
            server.delete(POD, "orphan")
            server.make(POD, "orphan", **RUNNING)
            await settled(server)
            await clock.advance(2)
            await settled(server)
            assert server.writes == []
            await clock.advance(QUARANTINE)
            await until(lambda: not server.all(POD))
