"""Which changes of others count, and which fields are theirs."""

from __future__ import annotations

from typing import Any

import pytest

from edgewright.controllers.chart.drift import changed_paths, left_alone, scaled_by_others, surely_same, with_ignored
from edgewright.controllers.chart.policy import Ignored

HPA = {"manager": "kube-controller-manager", "subresource": "scale", "fieldsV1": {"f:spec": {"f:replicas": {}}}}


def deployment(replicas: int | None, **more: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"template": {"containers": [{"image": "a"}]}}
    if replicas is not None:
        spec["replicas"] = replicas
    return {"kind": "Deployment", "metadata": {"name": "shop", **more}, "spec": spec}


def test_the_replicas_of_an_autoscaler_are_its_own() -> None:
    live = deployment(5, managedFields=[HPA])
    assert with_ignored(deployment(1), live, ())["spec"]["replicas"] == 5
    assert with_ignored(deployment(1), deployment(5), ())["spec"]["replicas"] == 1
    assert "replicas" not in with_ignored(deployment(None), live, ())["spec"]


def test_only_an_autoscaler_scales_with_right() -> None:
    assert scaled_by_others({"metadata": {"managedFields": [HPA]}})
    assert not scaled_by_others({"metadata": {"managedFields": [{**HPA, "manager": "kubectl"}]}})
    assert not scaled_by_others({"metadata": {}})


@pytest.mark.parametrize(
    ("path", "live", "wanted"),
    [
        ("/spec/replicas", deployment(7), deployment(7)),
        ("/spec/replicas", deployment(None), deployment(None)),
        ("/spec/nothing/there", deployment(2), deployment(1)),
        ("/spec/template/containers/4/image", deployment(2), deployment(1)),
    ],
)
def test_an_ignored_field_is_left_as_it_is(path: str, live: dict[str, Any], wanted: dict[str, Any]) -> None:
    given = deployment(1)
    assert with_ignored(given, live, [Ignored(paths=(path,))]) == wanted
    assert given == deployment(1)


def test_an_ignored_item_of_a_list_is_left_as_it_is() -> None:
    live = deployment(1)
    live["spec"]["template"]["containers"] = [{"image": "b"}]
    found = with_ignored(deployment(1), live, [Ignored(paths=("/spec/template/containers/0",))])
    assert found["spec"]["template"]["containers"] == [{"image": "b"}]


def test_the_changed_fields_are_named() -> None:
    live = deployment(5, labels={"a/b": "c", "more": "x"}, uid="1", resourceVersion="9")
    applied = deployment(1, labels={"a/b": "d"}, uid="1", resourceVersion="10")
    assert changed_paths(live, applied) == ("/metadata/labels/a~1b", "/metadata/labels/more", "/spec/replicas")
    assert changed_paths(live, {**live, "status": {"x": 1}}) == ()
    assert changed_paths({**live, "spec": {"a": [1]}}, {**live, "spec": {"a": [1, 2]}}) == ("/spec/a",)


PORT = 'k:{"port":80,"protocol":"TCP"}'
FIELDS: dict[str, Any] = {"f:spec": {"f:ports": {PORT: {".": {}, "f:port": {}}}, "f:tags": {'v:"a"': {}}}}


def service(fields: dict[str, Any] | None = None, *, by: str = "helm", **spec: Any) -> dict[str, Any]:
    """A Service as the server has it."""
    managed = {"manager": by, "operation": "Apply", "fieldsV1": FIELDS if fields is None else fields}
    ports = [{"port": 80, "protocol": "TCP"}]
    return {"metadata": {"managedFields": [managed]}, "spec": {"clusterIP": "x", "ports": ports, "tags": ["a"], **spec}}


WANTED = {"spec": {"ports": [{"port": 80}], "tags": ["a"]}}


def test_what_is_there_as_it_was_applied_needs_no_dry_run() -> None:
    assert surely_same(WANTED, service(), manager="helm")


@pytest.mark.parametrize(
    ("wanted", "live"),
    [
        (WANTED, service(ports=[{"port": 81}])),
        (WANTED, service(ports=[])),
        (WANTED, service(ports=[{"port": True}])),
        (WANTED, service(tags={"a": "b"})),
        (WANTED, service(ports="x")),
        ({"spec": {"ports": [{"port": 1}]}}, service({}, ports=[{"port": True}])),
        ({"spec": {"clusterIP": None}}, service({}, clusterIP=None)),
        (WANTED, service(by="kubectl")),
        (WANTED, service({"f:spec": {"f:clusterIP": {}}})),
        (WANTED, service({"f:spec": {"f:tags": {'v:"b"': {}}}})),
        (WANTED, service({"f:spec": {"f:ports": {'k:{"port":81}': {}}}})),
        (WANTED, service({"f:spec": {"f:ports": {"i:0": {}}}})),
        (WANTED, service({"f:spec": {"f:ports": {PORT: {"f:port": {}, "f:name": {}}}}})),
        (WANTED, {"metadata": {}, "spec": WANTED["spec"]}),
    ],
)
def test_whatever_may_have_changed_needs_a_dry_run(wanted: dict[str, Any], live: dict[str, Any]) -> None:
    assert not surely_same(wanted, live, manager="helm")


def test_an_object_may_be_marked_to_be_left_alone() -> None:
    assert left_alone({"metadata": {"annotations": {"edgewright.dev/drift": "off"}}})
    assert not left_alone({"metadata": {}})
