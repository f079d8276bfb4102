"""Who belongs to whom, whom a change concerns, and what becomes of an object by how its owners stand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from edgewright.local.controllers.ownership import FOREGROUND, ORPHAN, Delete, Graph, Keep, Owner, Strip, decide
from edgewright.runtime import Kind, ObjectMeta, OwnerReference

KIND = Kind(group="", version="v1", kind="ConfigMap", plural="configmaps")
THEN = datetime(2026, 1, 1, tzinfo=UTC)


def reference(uid: str, *, name: str = "", block: bool | None = None, kind: str = "ConfigMap") -> OwnerReference:
    return OwnerReference(api_version="v1", kind=kind, name=name or uid, uid=uid, block_owner_deletion=block)


def meta(uid: str, *owners: OwnerReference, namespace: str = "ns", **rest: Any) -> ObjectMeta:
    return ObjectMeta(name=uid, uid=uid, namespace=namespace, owner_references=owners, **rest)


@pytest.fixture
def graph() -> Graph:
    return Graph()


def test_an_owner_that_was_never_seen_is_to_be_looked_at(graph: Graph) -> None:
    assert graph.put(KIND, meta("child", reference("owner"))) == {"owner"}
    owner = graph.get("owner")
    assert owner is not None
    assert not owner.seen
    assert graph.unseen() == ["owner"]


def test_an_owner_that_comes_after_its_dependents_settles_them(graph: Graph) -> None:
    graph.put(KIND, meta("child", reference("owner")))
    assert graph.put(KIND, meta("owner")) == set()
    child = graph.get("child")
    assert child is not None
    assert graph.settled(child)
    assert graph.unseen() == []


@pytest.mark.parametrize(
    "wrong",
    [reference("owner", name="other"), reference("owner", kind="Secret")],
    ids=["another name", "another kind"],
)
@pytest.mark.parametrize("owner_first", [True, False])
def test_a_reference_with_the_right_uid_and_wrong_coordinates_is_looked_at(
    graph: Graph, wrong: OwnerReference, owner_first: bool
) -> None:
    if owner_first:
        graph.put(KIND, meta("owner"))
        assert graph.put(KIND, meta("child", wrong)) == {"child"}
    else:
        graph.put(KIND, meta("child", wrong))
        assert graph.put(KIND, meta("owner")) == {"child"}
    child = graph.get("child")
    assert child is not None
    assert not graph.settled(child)


def test_an_owner_in_another_namespace_is_not_meant(graph: Graph) -> None:
    graph.put(KIND, meta("owner", namespace="other"))
    assert graph.put(KIND, meta("child", reference("owner"))) == {"child"}


def test_when_an_owner_goes_its_dependents_are_looked_at(graph: Graph) -> None:
    graph.put(KIND, meta("owner"))
    graph.put(KIND, meta("a", reference("owner")))
    graph.put(KIND, meta("b", reference("owner")))
    assert graph.remove("owner") == {"a", "b"}
    assert graph.remove("owner") == set()
    assert graph.remove("a") == set()


def test_an_owner_that_waits_is_looked_at_when_a_dependent_goes_or_lets_go(graph: Graph) -> None:
    graph.put(KIND, meta("owner"))
    for uid in ("a", "b", "c"):
        graph.put(KIND, meta(uid, reference("owner", block=True)))
    waiting = meta("owner", deletion_timestamp=THEN, finalizers=(FOREGROUND,))
    assert graph.put(KIND, waiting) == {"owner", "a", "b", "c"}
    assert graph.put(KIND, waiting) == set()
    assert graph.remove("a") == {"owner"}
    assert graph.put(KIND, meta("b")) == {"owner"}
    assert "owner" in graph.put(KIND, meta("c", reference("owner", block=False)))
    assert graph.put(KIND, meta("late", reference("owner"))) == {"late"}


def test_an_owner_that_leaves_its_dependents_behind_is_looked_at(graph: Graph) -> None:
    graph.put(KIND, meta("child", reference("owner")))
    graph.put(KIND, meta("owner"))
    assert "owner" in graph.put(KIND, meta("owner", deletion_timestamp=THEN, finalizers=(ORPHAN,)))
    owner = graph.get("owner")
    assert owner is not None
    assert not graph.settled(owner)


def test_what_nobody_refers_to_any_more_is_forgotten(graph: Graph) -> None:
    graph.put(KIND, meta("child", reference("owner")))
    graph.put(KIND, meta("child"))
    assert len(graph) == 1


def test_a_kind_that_is_not_served_any_more_leaves_its_references_open(graph: Graph) -> None:
    graph.put(KIND, meta("owner"))
    graph.put(KIND, meta("child", reference("owner")))
    graph.forget("owner")
    graph.forget("nothing")
    assert graph.unseen() == ["owner"]
    graph.forget("child")
    assert len(graph) == 0


S, W, A, U = Owner.SOLID, Owner.WAITING, Owner.ABSENT, Owner.UNKNOWN


@pytest.mark.parametrize(
    ("owners", "settings", "action"),
    [
        ({}, {}, Keep()),
        ({"a": S}, {}, Keep()),
        ({"a": S, "b": A, "c": W}, {}, Strip(frozenset({"b", "c"}))),
        ({"a": A}, {}, Delete("Background")),
        ({"a": A, "b": A}, {"finalizers": [ORPHAN]}, Delete("Orphan")),
        ({"a": A}, {"finalizers": [FOREGROUND]}, Delete("Foreground")),
        ({"a": W}, {}, Delete("Background")),
        ({"a": W}, {"has_dependents": True}, Delete("Foreground")),
        ({"a": W, "b": A}, {"has_dependents": True, "in_circle": True}, Delete("Foreground", unblock=True)),
        ({"a": U, "b": A}, {}, Keep()),
        ({"a": U, "b": S, "c": A}, {}, Keep()),
    ],
)
def test_what_becomes_of_an_object(owners: dict[str, Owner], settings: Any, action: object) -> None:
    asked = {"finalizers": [], "has_dependents": False, "in_circle": False, **settings}
    assert decide(owners, **asked) == action
