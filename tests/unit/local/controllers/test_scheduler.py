"""The scheduler binds Pods, says why it cannot, and looks again when a Node changes in a way that matters."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from edgewright.local.controllers import scheduler
from edgewright.local.controllers.resources import Node, Pod
from edgewright.runtime import Change, Manager, VirtualClock
from tests.unit.local.controllers.miniature import EVENT, NODE, POD, Miniature, controlled, miniature, settled, until

READY = {"conditions": [{"type": "Ready", "status": "True"}]}
NEW: Any = {"spec": {"schedulerName": "default-scheduler"}, "status": {"phase": "Pending"}}


def add(manager: Manager) -> None:
    scheduler.add(manager, recorder=manager.recorder)


def node_of(server: Miniature, name: str) -> str:
    found = server.get(POD, name)
    assert found is not None
    return str(found["spec"].get("nodeName", ""))


def told(server: Miniature) -> list[tuple[str, str]]:
    return [(event["reason"], event["message"]) for event in server.all(EVENT).values()]


async def test_pods_are_spread_over_the_nodes_that_are_ready() -> None:
    async with miniature() as server:
        for name in ("a", "b"):
            server.make(NODE, name, status=READY)
        server.make(NODE, "down")
        server.make(POD, "there", spec={"nodeName": "a"}, status={"phase": "Running"})
        server.make(POD, "done", spec={"nodeName": "b"}, status={"phase": "Succeeded"})
        async with controlled(server, add):
            for name in ("one", "two", "three"):
                server.make(POD, name, **NEW)
            await until(lambda: all(node_of(server, name) for name in ("one", "two", "three")))
            nodes = sorted(node_of(server, name) for name in ("one", "two", "three"))
            assert nodes == ["a", "b", "b"]
            await until(lambda: len(told(server)) == 3)
            assert told(server)[0][1].startswith("Successfully assigned default/")


async def test_a_pod_that_fits_nowhere_is_told_once_and_bound_when_a_node_is_ready() -> None:
    async with miniature() as server:
        server.make(NODE, "a")
        server.make(POD, "one", **NEW)
        async with controlled(server, add):
            await until(lambda: told(server))
            why = "0/1 nodes are available: 1 node(s) were not ready."
            assert told(server) == [("FailedScheduling", why)]
            await until(lambda: (server.get(POD, "one") or {})["status"].get("conditions"))
            (condition,) = (server.get(POD, "one") or {})["status"]["conditions"]
            assert (condition["type"], condition["status"], condition["reason"], condition["message"]) == (
                "PodScheduled",
                "False",
                "Unschedulable",
                why,
            )
            await settled(server)
            writes = len(server.writes)
            server.make(NODE, "a", metadata={"annotations": {"heart": "beats"}})
            await settled(server)
            assert len(server.writes) == writes
            server.make(NODE, "a", status=READY)
            await until(lambda: node_of(server, "one") == "a")


async def test_a_binding_that_the_server_refuses_is_tried_again() -> None:
    async with miniature() as server:
        server.make(NODE, "a", status=READY)
        path = "/api/v1/namespaces/default/pods/one/binding"
        server.refuse("POST", path, 409, "Conflict")
        server.refuse("POST", path, 500, "InternalError")
        server.make(POD, "one", **NEW)
        async with controlled(server, add):
            await until(lambda: node_of(server, "one") == "a")


async def test_a_pod_that_is_gone_when_it_is_bound_is_no_failure() -> None:
    async with miniature() as server:
        server.make(NODE, "a", status=READY)
        path = "/api/v1/namespaces/default/pods/one/binding"
        server.refuse("POST", path, 404, "NotFound")
        server.make(POD, "one", **NEW)
        async with controlled(server, add):
            await until(lambda: ("POST", path) in server.asked)
            await settled(server)
            assert server.asked.count(("POST", path)) == 1


THEN = datetime(2025, 1, 1, tzinfo=UTC)


def pod(*conditions: Any) -> Pod:
    return msgspec.convert({"metadata": {"generation": 1}, "status": {"conditions": list(conditions)}}, Pod)


FALSE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "why",
    "lastTransitionTime": "2025-01-01T00:00:00Z",
    "observedGeneration": 1,
}


def test_a_condition_that_says_it_already_is_not_written_again() -> None:
    assert scheduler.unschedulable(pod(FALSE), "why", clock=VirtualClock()) is None


@pytest.mark.parametrize(
    ("known", "since"),
    [((), VirtualClock().now()), ((FALSE,), THEN), (({**FALSE, "status": "True"},), VirtualClock().now())],
    ids=["none", "another reason", "another status"],
)
def test_a_condition_keeps_the_time_of_its_status(known: Any, since: datetime) -> None:
    other = {"type": "Other", "status": "True"}
    found = scheduler.unschedulable(pod(other, *known), "another why", clock=VirtualClock())
    assert found is not None
    assert [each.type for each in found] == ["Other", "PodScheduled"]
    assert (found[1].message, found[1].last_transition_time) == ("another why", since)


def test_a_node_that_comes_or_goes_matters_and_a_heartbeat_does_not() -> None:
    node = msgspec.convert({"status": READY}, Node)
    beat = msgspec.convert({"metadata": {"resourceVersion": "2"}, "status": READY}, Node)
    assert scheduler.matters(Change(None, node))
    assert scheduler.matters(Change(node, None))
    assert not scheduler.matters(Change(node, beat))
    assert scheduler.matters(Change(node, Node()))
