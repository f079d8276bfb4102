"""Objects: paths, keys, and what goes to the server."""

from __future__ import annotations

import pytest

from edgewright.runtime.objects import Key, Kind, ObjectMeta, OwnerReference, owner_reference
from tests.unit.runtime.fakeserver import Widget, WidgetSpec, typed, widget

POD = Kind(group="", version="v1", kind="Pod", plural="pods")
NODE = Kind(group="", version="v1", kind="Node", plural="nodes", namespaced=False)


@pytest.mark.parametrize(
    ("kind", "arguments", "path"),
    [
        (POD, (), "/api/v1/pods"),
        (POD, ("a",), "/api/v1/namespaces/a/pods"),
        (POD, ("a", "x"), "/api/v1/namespaces/a/pods/x"),
        (POD, ("a", "x", "log"), "/api/v1/namespaces/a/pods/x/log"),
        (NODE, ("a", "x"), "/api/v1/nodes/x"),
        (NODE, (None,), "/api/v1/nodes"),
        (Widget.kind, ("a", "x", "status"), "/apis/example.dev/v1/namespaces/a/widgets/x/status"),
    ],
    ids=["core, all", "core, namespace", "core, one", "subresource", "cluster-scoped", "cluster-scoped, all", "group"],
)
def test_the_path_of_a_kind(kind: Kind, arguments: tuple[str, ...], path: str) -> None:
    assert kind.path(*arguments) == path


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../secrets/x"])
def test_a_name_that_would_leave_its_collection_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a name of a Pod"):
        POD.path("a", name)


def test_kinds_say_their_names() -> None:
    assert (POD.api_version, POD.resource, str(POD)) == ("v1", "pods", "pods")
    assert (Widget.kind.api_version, str(Widget.kind)) == ("example.dev/v1", "widgets.example.dev")


def test_a_key_is_written_as_people_write_it() -> None:
    assert str(Key("a", "b")) == "a/b"
    assert str(Key("", "node-1")) == "node-1"


def test_an_object_goes_to_the_server_with_its_kind_and_without_defaults() -> None:
    raw = Widget(metadata=ObjectMeta(name="x", namespace="a"), spec=WidgetSpec(size=3)).to_raw()
    assert raw == {
        "apiVersion": "example.dev/v1",
        "kind": "Widget",
        "metadata": {"name": "x", "namespace": "a"},
        "spec": {"size": 3},
    }


def test_an_object_is_deleting_while_finalizers_hold_it() -> None:
    raw = widget("x", 1)
    assert not typed(raw).deleting
    raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert typed(raw).deleting
    assert typed(raw).key == Key("default", "x")


def test_fields_that_we_do_not_use_are_not_kept() -> None:
    raw = widget("x", 1)
    raw["metadata"]["managedFields"] = [{"manager": "kubectl"}]
    assert "managedFields" not in typed(raw).to_raw()["metadata"]


@pytest.mark.parametrize("controller", [True, False], ids=["controlling", "plain"])
def test_an_owner_reference_names_the_owner_and_does_not_hold_it_back(controller: bool) -> None:
    assert owner_reference(typed(widget("x", 1, uid="u")), controller=controller) == OwnerReference(
        api_version="example.dev/v1", kind="Widget", name="x", uid="u", controller=True if controller else None
    )


def test_an_owner_can_be_held_back_by_what_it_controls() -> None:
    owner = typed(widget("x", 1, uid="u"))
    held = owner_reference(owner, blocking=True)
    assert held.block_owner_deletion
    child = widget("y", 2)
    assert typed(child).controller is None
    child["metadata"]["ownerReferences"] = [owner_reference(owner, controller=False).to_raw(), held.to_raw()]
    assert typed(child).controller == held
