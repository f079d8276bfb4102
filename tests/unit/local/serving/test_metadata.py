"""What may be in an object's metadata, and what a change of it may not change."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from edgewright.local import builtin, names
from edgewright.local.errors import Refusal
from edgewright.local.served import Served
from edgewright.local.serving import metadata

NOW = datetime(2026, 1, 2, 3, 4, 5, 678, UTC)
SERVED = {each.kind.plural: each for each in builtin.served()}
CONFIG_MAPS, NODES = SERVED["configmaps"], SERVED["nodes"]
GOOD = {"name": "a", "namespace": "default"}


def created(about: dict[str, Any], served: Served = CONFIG_MAPS) -> list[tuple[str, str]]:
    """The faults of a new object's metadata: field and reason."""
    return [(each.field, each.reason) for each in metadata.created_faults({"metadata": about}, served)]


INVALID, REQUIRED, LONG = "FieldValueInvalid", "FieldValueRequired", "FieldValueTooLong"
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}


@pytest.mark.parametrize(
    ("about", "found"),
    [
        pytest.param({}, [], id="nothing special"),
        pytest.param({"name": "A"}, [("metadata.name", INVALID)], id="a name in capitals"),
        pytest.param({"name": ""}, [("metadata.name", REQUIRED)], id="no name"),
        pytest.param({"name": "a" * 254}, [("metadata.name", INVALID)], id="a long name"),
        pytest.param({"generateName": "a-"}, [], id="a beginning that ends in a dash"),
        pytest.param({"generateName": "_"}, [("metadata.generateName", INVALID)], id="a beginning of no name"),
        pytest.param({"namespace": "a.b"}, [("metadata.namespace", INVALID)], id="a namespace with a dot"),
        pytest.param({"namespace": ""}, [("metadata.namespace", REQUIRED)], id="no namespace"),
        pytest.param({"labels": {"a/b": "c", "d": ""}}, [], id="labels"),
        pytest.param({"labels": {"a b": "c"}}, [("metadata.labels", INVALID)], id="a label with a space"),
        pytest.param({"labels": {"a": "b c"}}, [("metadata.labels", INVALID)], id="a value with a space"),
        pytest.param({"annotations": {"A.B/c": "any thing"}}, [], id="annotations"),
        pytest.param({"annotations": {"a b": ""}}, [("metadata.annotations", INVALID)], id="a name with a space"),
        pytest.param({"annotations": {"a": "x" * 262_144}}, [("metadata.annotations", LONG)], id="long annotations"),
        pytest.param({"ownerReferences": [OWNER]}, [], id="an owner"),
        pytest.param(
            {"ownerReferences": [{**OWNER, "apiVersion": ""}]},
            [("metadata.ownerReferences.apiVersion", INVALID)],
            id="an owner of no version",
        ),
        pytest.param(
            {"ownerReferences": [{"apiVersion": "v1"}]},
            [(f"metadata.ownerReferences.{name}", INVALID) for name in ("kind", "name", "uid")],
            id="an owner of no name",
        ),
        pytest.param(
            {"ownerReferences": [{**OWNER, "kind": "Event"}]},
            [("metadata.ownerReferences", INVALID)],
            id="an event as an owner",
        ),
        pytest.param(
            {"ownerReferences": [{**OWNER, "controller": True}, {**OWNER, "controller": False}]}, [], id="a controller"
        ),
        pytest.param(
            {"ownerReferences": [{**OWNER, "controller": True}, {**OWNER, "controller": True}]},
            [("metadata.ownerReferences", INVALID)],
            id="two controllers",
        ),
        pytest.param({"finalizers": ["example.com/x", "orphan"]}, [], id="finalizers"),
        pytest.param(
            {"finalizers": ["a b"]},
            [("metadata.finalizers", INVALID), ("metadata.finalizers[0]", INVALID)],
            id="a finalizer with a space",
        ),
        pytest.param(
            {"finalizers": ["orphan", "foregroundDeletion"]},
            [("metadata.finalizers", INVALID)],
            id="finalizers that exclude each other",
        ),
    ],
)
def test_the_metadata_of_a_new_object(about: dict[str, Any], found: list[tuple[str, str]]) -> None:
    assert sorted(set(created({**GOOD, **about}))) == sorted(found)


def test_an_object_of_the_whole_cluster_is_in_no_namespace_whatever_it_says() -> None:
    obj = {"metadata": dict(GOOD)}
    metadata.prepare_create(obj, NODES, "", NOW)
    assert "namespace" not in obj["metadata"]
    assert created(obj["metadata"], NODES) == []


def test_a_new_object_gets_what_only_the_server_can_say() -> None:
    obj: dict[str, Any] = {"metadata": {"name": "a", "uid": "mine", "deletionTimestamp": "x", "selfLink": "y"}}
    metadata.wipe(obj)
    metadata.prepare_create(obj, SERVED["pods"], "default", NOW)
    about = obj["metadata"]
    assert about.pop("uid") not in ("", "mine")
    assert about == {**GOOD, "creationTimestamp": "2026-01-02T03:04:05Z", "generation": 1}


def test_an_object_without_metadata_gets_some() -> None:
    obj: dict[str, Any] = {"metadata": None}
    metadata.prepare_create(obj, CONFIG_MAPS, "default", NOW)
    assert obj["metadata"]["namespace"] == "default"


OLD = {**GOOD, "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 3}


@pytest.mark.parametrize(
    "going", [{}, {"deletionTimestamp": "2026-01-01T00:00:01Z", "deletionGracePeriodSeconds": 0}], ids=["", "going"]
)
def test_a_change_may_leave_out_what_it_cannot_change(going: dict[str, Any]) -> None:
    obj: dict[str, Any] = {"metadata": {"name": "a"}}
    old: dict[str, Any] = {"metadata": {**OLD, **going}}
    metadata.prepare_update(obj, old, CONFIG_MAPS, "default")
    assert obj == old
    assert metadata.updated_faults(obj, old, CONFIG_MAPS) == []


@pytest.mark.parametrize("changed", [{"uid": "other"}, {"name": "b"}, {"deletionTimestamp": "2027-01-01T00:00:00Z"}])
def test_a_change_of_what_must_stay_is_refused(changed: dict[str, Any]) -> None:
    found = metadata.updated_faults({"metadata": {**OLD, **changed}}, {"metadata": dict(OLD)}, CONFIG_MAPS)
    assert [each.field for each in found] == [f"metadata.{name}" for name in changed]


def test_what_is_going_gets_no_new_finalizers() -> None:
    old = {**OLD, "deletionTimestamp": "2026-01-01T00:00:01Z", "finalizers": ["x/y", "x/z"]}
    assert metadata.updated_faults({"metadata": {**old, "finalizers": ["x/y"]}}, {"metadata": old}, CONFIG_MAPS) == []
    found = metadata.updated_faults({"metadata": {**old, "finalizers": ["x/y", "x/a"]}}, {"metadata": old}, CONFIG_MAPS)
    assert [(each.field, each.reason) for each in found] == [("metadata.finalizers", "FieldValueForbidden")]
    assert '"x/a"' in found[0].message


@pytest.mark.parametrize(
    ("said", "message"), [("b", r"\(b\) does not match the name on the URL \(a\)"), ("", "name must be provided")]
)
def test_a_body_must_have_the_name_of_its_path(said: str, message: str) -> None:
    metadata.match_name({"metadata": {"name": "a"}}, "a")
    with pytest.raises(Refusal, match=message):
        metadata.match_name({"metadata": {"name": said}}, "a")


def test_a_generated_name_is_never_longer_than_a_name_may_be() -> None:
    assert len(names.generated("x" * 300)) == 63
