"""A Namespace that is being deleted is emptied, Pods first, says what is in the way, and goes."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import msgspec
import pytest

from edgewright.local.controllers import ServedKinds, namespaces
from edgewright.local.controllers.namespaces import Findings, report, updated
from edgewright.local.controllers.resources import Namespace
from edgewright.runtime import Change, Condition, Kind, Manager
from tests.unit.local.controllers.miniature import (
    CONFIG_MAP,
    NAMESPACE,
    POD,
    SERVICE,
    WIDGET,
    Miniature,
    controlled,
    miniature,
    until,
)

WIDGETS = Kind(group="example.dev", version="v1", kind="Widget", plural="widgets")
NOW, THEN = datetime(2026, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("findings", "told"),
    [
        (Findings(), {}),
        (
            Findings(remaining={CONFIG_MAP: 2, WIDGETS: 1}),
            {
                "NamespaceContentRemaining": (
                    "SomeResourcesRemain",
                    (
                        "Some resources are remaining: configmaps. has 2 resource instances, "
                        "widgets.example.dev has 1 resource instances"
                    ),
                )
            },
        ),
        (
            Findings(finalizers=Counter({"b": 1, "a": 2})),
            {
                "NamespaceFinalizersRemaining": (
                    "SomeFinalizersRemain",
                    (
                        "Some content in the namespace has finalizers remaining: "
                        "a in 2 resource instances, b in 1 resource instances"
                    ),
                )
            },
        ),
        (
            Findings(faults=["y", "x"]),
            {
                "NamespaceDeletionContentFailure": (
                    "ContentDeletionFailed",
                    "Failed to delete all resource types, 2 remaining: x, y",
                )
            },
        ),
        (
            Findings(undiscovered="no answer"),
            {"NamespaceDeletionDiscoveryFailure": ("DiscoveryFailed", "no answer")},
        ),
    ],
    ids=["nothing", "content", "finalizers", "faults", "discovery"],
)
def test_what_is_in_the_way_is_told(findings: Findings, told: dict[str, tuple[str, str]]) -> None:
    assert report(findings) == told


def test_conditions_change_only_where_something_changed() -> None:
    other = Condition(type="Other", status="True")
    first = updated([other], {}, THEN)
    assert first is not None
    assert [each.status for each in first] == ["True", *["False"] * 5]
    assert updated(first, {}, NOW) is None
    second = updated(first, {"NamespaceContentRemaining": ("SomeResourcesRemain", "one")}, NOW)
    assert second is not None
    changed = [(each.type, each.last_transition_time) for each in second if each not in first]
    assert changed == [("NamespaceContentRemaining", NOW)]
    third = updated(second, {"NamespaceContentRemaining": ("SomeResourcesRemain", "two")}, THEN)
    assert third is not None
    assert [each.last_transition_time for each in third if each.message == "two"] == [NOW]


class _Stage:
    def __init__(self, server: Miniature) -> None:
        self.server = server
        self.kinds: ServedKinds | None = None

    def add(self, manager: Manager) -> None:
        self.kinds = ServedKinds(manager.client, given=lambda: self.server.kinds)
        namespaces.add(manager, kinds=self.kinds)

    def conditions(self) -> dict[str, str]:
        found = self.server.get(NAMESPACE, "ns") or {"status": {}}
        return {each["type"]: each["message"] for each in found["status"].get("conditions", ())}


async def test_a_namespace_goes_with_its_content_pods_first() -> None:
    async with miniature() as server:
        stage = _Stage(server)
        server.kinds.append(WIDGET)
        server.make(NAMESPACE, "ns")
        server.make(CONFIG_MAP, "other", "stays")
        server.make(CONFIG_MAP, "a", "ns")
        server.make(WIDGET, "w", "ns", metadata={"finalizers": ["test/hold"]})
        server.make(POD, "p", "ns", metadata={"finalizers": ["test/hold"]})
        async with controlled(server, stage.add):
            server.delete(NAMESPACE, "ns")
            await until(lambda: "pods. has 1" in stage.conditions().get("NamespaceContentRemaining", ""))
            assert "deletionTimestamp" in (server.get(POD, "p", "ns") or {})["metadata"]
            assert server.get(CONFIG_MAP, "a", "ns") is not None
            server.make(POD, "p", "ns", metadata={"finalizers": []})
            await until(lambda: "widgets.example.dev has 1" in stage.conditions()["NamespaceContentRemaining"])
            assert server.get(CONFIG_MAP, "a", "ns") is None
            assert stage.conditions()["NamespaceFinalizersRemaining"].endswith("test/hold in 1 resource instances")
            server.make(WIDGET, "w", "ns", metadata={"finalizers": []})
            await until(lambda: server.get(NAMESPACE, "ns") is None)
            assert server.get(CONFIG_MAP, "other", "stays") is not None


async def test_what_cannot_be_deleted_is_told_and_tried_again() -> None:
    async with miniature() as server:
        stage = _Stage(server)
        server.make(NAMESPACE, "ns")
        server.make(CONFIG_MAP, "a", "ns")
        server.make(SERVICE, "s", "ns")
        server.refuse("DELETE", "/api/v1/namespaces/ns/configmaps", 500, "InternalError", times=2)
        server.refuse("DELETE", "/api/v1/namespaces/ns/services", 405, "MethodNotAllowed", times=100)
        server.refuse("GET", "/api/v1/namespaces/ns/events", 404, "NotFound", times=100)
        async with controlled(server, stage.add):
            server.delete(NAMESPACE, "ns")
            await until(lambda: "1 remaining" in stage.conditions().get("NamespaceDeletionContentFailure", ""))
            await until(lambda: server.get(NAMESPACE, "ns") is None)
            assert ("DELETE", "/api/v1/namespaces/ns/services/s") in server.asked


async def test_while_not_all_kinds_are_known_a_namespace_stays() -> None:
    async with miniature() as server:
        stage = _Stage(server)
        server.make(NAMESPACE, "ns")
        async with controlled(server, stage.add):
            assert stage.kinds is not None
            stage.kinds.problem = "the group example.dev does not answer"
            server.delete(NAMESPACE, "ns")
            await until(lambda: "example.dev" in stage.conditions().get("NamespaceDeletionDiscoveryFailure", ""))
            assert server.get(NAMESPACE, "ns") is not None
            stage.kinds.problem = ""
            stage.kinds.changed()
            await until(lambda: server.get(NAMESPACE, "ns") is None)


def test_only_the_begin_of_a_deletion_and_its_going_on_matter() -> None:
    def namespace(**fields: object) -> Namespace:
        return msgspec.convert(fields, Namespace)

    going = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert not namespaces.begins(Change(None, namespace()))
    assert namespaces.begins(Change(None, namespace(**going)))
    assert namespaces.begins(Change(namespace(), namespace(**going)))
    assert not namespaces.begins(Change(namespace(**going), namespace(**going, status={"phase": "Terminating"})))
    assert namespaces.begins(Change(namespace(**going), namespace(**going, spec={"finalizers": ["kubernetes"]})))
    assert not namespaces.begins(Change(namespace(**going), None))


async def test_a_namespace_that_others_hold_keeps_their_finalizers() -> None:
    async with miniature() as server:
        stage = _Stage(server)
        server.make(NAMESPACE, "ns", spec={"finalizers": ["kubernetes", "test/other"]})
        async with controlled(server, stage.add):
            server.delete(NAMESPACE, "ns")
            await until(lambda: (server.get(NAMESPACE, "ns") or {})["spec"]["finalizers"] == ["test/other"])
