"""Exchanges about patches of the three kinds, and server-side apply of built-in kinds."""

from __future__ import annotations

from typing import Any

from tests.cluster.differential.bodies import LEASES, MAPS, PARTIAL, PODS, SERVICES, named, pod, service
from tests.cluster.differential.exchange import (
    APPLY,
    JSON,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Body,
    Exchange,
    exchange,
    made,
    patch,
)

_MAP = made(
    MAPS,
    named("a", data={"k": "v", "l": "w"}, metadata={"labels": {"x": "y"}}),
    keep={"rv": "metadata.resourceVersion"},
)
_AT = f"{MAPS}/a"


def _operations(*operations: dict[str, Any]) -> Exchange:
    return exchange(_MAP, patch(_AT, list(operations), JSON_PATCH))


def _op(operation: str, path: str, **more: Any) -> dict[str, Any]:
    return {"op": operation, "path": path, **more}


JSON_PATCHES: dict[str, Exchange] = {
    "add": _operations(_op("add", "/data/m", value="n")),
    "add a whole map": _operations(_op("add", "/binaryData", value={"b": "aGk="})),
    "replace": _operations(_op("replace", "/data/k", value="z")),
    "remove": _operations(_op("remove", "/data/k")),
    "move": _operations(_op("move", "/data/m", **{"from": "/data/k"})),
    "copy": _operations(_op("copy", "/data/m", **{"from": "/data/k"})),
    "test": _operations(_op("test", "/data/k", value="v"), _op("remove", "/data/k")),
    "a test that fails": _operations(_op("test", "/data/k", value="other"), _op("remove", "/data/k")),
    "a test of what is not there": _operations(_op("test", "/data/none", value="v")),
    "remove what is not there": _operations(_op("remove", "/data/none")),
    "replace what is not there": _operations(_op("replace", "/data/none", value="x")),
    "add below what is not there": _operations(_op("add", "/binaryData/x", value="aGk=")),
    "move from nowhere": _operations(_op("move", "/data/m", **{"from": "/data/none"})),
    "an escaped name": _operations(_op("add", "/metadata/labels/example.com~1a", value="b")),
    "to the end of a list": exchange(
        made(MAPS, named("a", metadata={"finalizers": ["example.com/a"]})),
        patch(_AT, [_op("add", "/metadata/finalizers/-", value="example.com/b")], JSON_PATCH),
        patch(_AT, [_op("add", "/metadata/finalizers/0", value="example.com/c")], JSON_PATCH),
        patch(_AT, [_op("add", "/metadata/finalizers/9", value="example.com/d")], JSON_PATCH),
        patch(_AT, [_op("remove", "/metadata/finalizers/0")], JSON_PATCH),
    ),
    "an unknown operation": _operations(_op("increase", "/data/k", value="1")),
    "no operation": _operations({"path": "/data/k"}),
    "no path": _operations({"op": "remove"}),
    "none": _operations(),
    "what is no list": exchange(_MAP, patch(_AT, {"op": "add"}, JSON_PATCH)),
    "what is no JSON": exchange(_MAP, patch(_AT, "[{", JSON_PATCH)),
    "a bad result": _operations(_op("add", "/data/a b", value="c")),
    "a wrong type": _operations(_op("replace", "/data", value="text")),
    "another name": _operations(_op("replace", "/metadata/name", value="b")),
    "too many": exchange(_MAP, patch(_AT, [_op("test", "/data/k", value="v")] * 10001, JSON_PATCH)),
    "an unknown field": _operations(_op("add", "/colour", value="red")),
}

MERGE_PATCHES: dict[str, Exchange] = {
    "a field": exchange(_MAP, patch(_AT, {"data": {"k": "z", "m": "n"}})),
    "a field away": exchange(_MAP, patch(_AT, {"data": {"k": None}})),
    "a whole map away": exchange(_MAP, patch(_AT, {"data": None, "metadata": {"labels": None}})),
    "nothing": exchange(_MAP, patch(_AT, {})),
    "what is so already": exchange(_MAP, patch(_AT, {"data": {"k": "v"}})),
    "what is not there": exchange(patch(_AT, {"data": {"k": "v"}})),
    "with the version it has": exchange(
        _MAP, patch(_AT, {"metadata": {"resourceVersion": "{rv}"}, "data": {"k": "z"}})
    ),
    "with an old version": exchange(
        _MAP,
        patch(_AT, {"data": {"x": "y"}}, compared=False),
        patch(_AT, {"metadata": {"resourceVersion": "{rv}"}, "data": {"k": "z"}}),
    ),
    "with another uid": exchange(_MAP, patch(_AT, {"metadata": {"uid": "11111111-2222-3333-4444-555555555555"}})),
    "with another name": exchange(_MAP, patch(_AT, {"metadata": {"name": "b"}})),
    "with another kind": exchange(_MAP, patch(_AT, {"kind": "Namespace"})),
    "with another namespace": exchange(_MAP, patch(_AT, {"metadata": {"namespace": "other"}})),
    "a wrong type": exchange(_MAP, patch(_AT, {"data": "text"})),
    "a number for a text": exchange(_MAP, patch(_AT, {"data": {"k": 5}})),
    "what is no JSON": exchange(_MAP, patch(_AT, "{")),
    "what is no object": exchange(_MAP, patch(_AT, [1])),
    "an empty body": exchange(_MAP, patch(_AT, "")),
    "a bad result": exchange(_MAP, patch(_AT, {"data": {"a b": "c"}})),
    "unknown fields, strictly": exchange(_MAP, patch(f"{_AT}?fieldValidation=Strict", {"colour": "red"})),
    "unknown fields": exchange(_MAP, patch(_AT, {"colour": "red"})),
    "fields twice, strictly": exchange(
        _MAP, patch(f"{_AT}?fieldValidation=Strict", '{"data":{"k":"1"},"data":{"k":"2"}}')
    ),
    "a dry run": exchange(_MAP, patch(f"{_AT}?dryRun=All", {"data": {"k": "z"}})),
    "a manager": exchange(_MAP, patch(f"{_AT}?fieldManager=me", {"data": {"k": "z"}})),
    "by force": exchange(_MAP, patch(f"{_AT}?force=true", {"data": {"k": "z"}})),
    "answered as metadata": exchange(_MAP, patch(_AT, {"data": {"k": "z"}}, accept=PARTIAL)),
    "an unknown kind of patch": exchange(_MAP, patch(_AT, {"data": {}}, "application/odd-patch+json")),
    "plain JSON": exchange(_MAP, patch(_AT, {"data": {}}, JSON)),
    "with a charset": exchange(_MAP, patch(_AT, {"data": {"k": "z"}}, f"{MERGE}; charset=utf-8")),
    "a collection": exchange(patch(MAPS, {"data": {}})),
    "the data of an immutable one": exchange(
        made(MAPS, named("a", data={"k": "v"}, immutable=True)), patch(_AT, {"data": {"k": "z"}})
    ),
}

_CONTAINERS = [
    {"name": "one", "image": "i1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
    {"name": "two", "image": "i2", "ports": [{"containerPort": 80, "name": "web"}]},
]
_POD = made(PODS, pod("a", containers=_CONTAINERS, tolerations=[{"key": "x", "operator": "Exists"}]))
_TEMPLATES = "/api/v1/namespaces/{ns}/podtemplates"
_TEMPLATE = made(
    _TEMPLATES,
    named(
        "a",
        template={
            "spec": {
                "containers": _CONTAINERS,
                "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}],
                "nodeSelector": {"a": "b"},
            }
        },
    ),
)


def _strategic(body: Body, path: str = f"{_TEMPLATES}/a") -> Exchange:
    return exchange(_TEMPLATE, patch(path, body, STRATEGIC))


def _spec(**spec: Any) -> dict[str, Any]:
    return {"template": {"spec": spec}}


STRATEGIC_PATCHES: dict[str, Exchange] = {
    "a map": exchange(_MAP, patch(_AT, {"data": {"k": "z", "l": None}}, STRATEGIC)),
    "an element by its key": _strategic(_spec(containers=[{"name": "two", "image": "new"}])),
    "a new element": _strategic(_spec(containers=[{"name": "three", "image": "i3"}])),
    "an element away": _strategic(_spec(containers=[{"name": "one", "$patch": "delete"}])),
    "a list replaced": _strategic(_spec(containers=[{"$patch": "replace"}, {"name": "only", "image": "i"}])),
    "a map replaced": _strategic(_spec(nodeSelector={"$patch": "replace", "c": "d"})),
    "a map away": _strategic(_spec(nodeSelector={"$patch": "delete"})),
    "an element of an element": _strategic(
        _spec(containers=[{"name": "one", "env": [{"name": "B", "$patch": "delete"}, {"name": "C", "value": "3"}]}])
    ),
    "an order": _strategic({"template": {"spec": {"$setElementOrder/containers": [{"name": "two"}, {"name": "one"}]}}}),
    "an order with a change": _strategic(
        {
            "template": {
                "spec": {
                    "$setElementOrder/containers": [{"name": "two"}, {"name": "one"}],
                    "containers": [{"name": "one", "image": "new"}],
                }
            }
        }
    ),
    "other keys kept no more": _strategic(
        _spec(volumes=[{"name": "v", "$retainKeys": ["name", "secret"], "secret": {"secretName": "s"}}])
    ),
    "a simple list": exchange(
        made(MAPS, named("a", metadata={"finalizers": ["example.com/a"]})),
        patch(_AT, {"metadata": {"finalizers": ["example.com/b"]}}, STRATEGIC),
        patch(_AT, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}, STRATEGIC),
    ),
    "a wrong type": _strategic(_spec(containers="text")),
    "what is no JSON": _strategic("{"),
    "a list": _strategic([1]),
    "nothing": _strategic({}),
    "the image of a Pod": exchange(
        _POD, patch(f"{PODS}/a", {"spec": {"containers": [{"name": "two", "image": "new"}]}}, STRATEGIC)
    ),
    "a toleration more": exchange(
        _POD,
        patch(
            f"{PODS}/a",
            {"spec": {"tolerations": [{"key": "x", "operator": "Exists"}, {"key": "y", "operator": "Exists"}]}},
            STRATEGIC,
        ),
    ),
    "a port of a Service": exchange(
        made(SERVICES, service("a", ports=[{"port": 80, "name": "a"}, {"port": 81, "name": "b"}])),
        patch(f"{SERVICES}/a", {"spec": {"ports": [{"port": 81, "targetPort": 9}]}}, STRATEGIC),
        patch(f"{SERVICES}/a", {"spec": {"ports": [{"port": 80, "$patch": "delete"}]}}, STRATEGIC),
    ),
}


def _applied(obj: dict[str, Any], query: str = "fieldManager=me", path: str = _AT, kind: str = "ConfigMap") -> Any:
    api = "coordination.k8s.io/v1" if kind == "Lease" else "v1"
    return patch(f"{path}?{query}", {"apiVersion": api, "kind": kind, **obj}, APPLY)


APPLIES: dict[str, Exchange] = {
    "a new object": exchange(_applied(named("a", data={"k": "v"}))),
    "the same again": exchange(_applied(named("a", data={"k": "v"})), _applied(named("a", data={"k": "v"}))),
    "a field less": exchange(_applied(named("a", data={"k": "v", "l": "w"})), _applied(named("a", data={"k": "v"}))),
    "a field of another": exchange(_MAP, _applied(named("a", data={"k": "mine"}))),
    "a field of another, by force": exchange(
        _MAP, _applied(named("a", data={"k": "mine"}), "fieldManager=me&force=true")
    ),
    "the same value as another": exchange(_MAP, _applied(named("a", data={"k": "v"}))),
    "two managers": exchange(
        _applied(named("a", data={"k": "v"})),
        _applied(named("a", data={"l": "w"}), "fieldManager=you"),
        _applied(named("a", data={}), "fieldManager=me"),
    ),
    "without a manager": exchange(_applied(named("a"), "")),
    "without a kind": exchange(patch(f"{_AT}?fieldManager=me", {"metadata": {"name": "a"}}, APPLY)),
    "another kind": exchange(_applied(named("a"), kind="Secret")),
    "another name": exchange(_applied(named("b"))),
    "with managed fields": exchange(_applied(named("a", metadata={"managedFields": [{"manager": "x"}]}))),
    "with a uid": exchange(_applied(named("a", metadata={"uid": "11111111-2222-3333-4444-555555555555"}))),
    "with an old version": exchange(_MAP, _applied(named("a", metadata={"resourceVersion": "1"}))),
    "as YAML": exchange(
        patch(f"{_AT}?fieldManager=me", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n", APPLY)
    ),
    "what is no YAML": exchange(patch(f"{_AT}?fieldManager=me", "a: [", APPLY)),
    "a dry run": exchange(_applied(named("a", data={"k": "v"}), "fieldManager=me&dryRun=All")),
    "a Pod": exchange(
        patch(
            f"{PODS}/a?fieldManager=me", {"apiVersion": "v1", "kind": "Pod", **pod("a", containers=_CONTAINERS)}, APPLY
        )
    ),
    "an element of a Pod of another": exchange(
        _POD,
        patch(
            f"{PODS}/a?fieldManager=me",
            {"apiVersion": "v1", "kind": "Pod", **named("a", spec={"containers": [{"name": "two", "image": "mine"}]})},
            APPLY,
        ),
    ),
    "the status of a Pod": exchange(
        _POD,
        patch(
            f"{PODS}/a/status?fieldManager=me",
            {
                "apiVersion": "v1",
                "kind": "Pod",
                **named("a", status={"conditions": [{"type": "Ready", "status": "True"}]}),
            },
            APPLY,
        ),
    ),
    "a Lease": exchange(_applied(named("a", spec={"holderIdentity": "me"}), path=f"{LEASES}/a", kind="Lease")),
}

OWN_FAULTS: dict[str, Exchange] = {
    "a strategic patch of an element without its key": _strategic(_spec(containers=[{"image": "new"}])),
    "a strategic patch with an unknown directive": _strategic(_spec(containers=[{"name": "one", "$patch": "odd"}])),
    "apply an unknown field": exchange(_applied({**named("a"), "colour": "red"})),
    "apply a wrong type": exchange(_applied(named("a", data="text"))),
    "apply an element twice": exchange(
        patch(
            f"{PODS}/a?fieldManager=me",
            {"apiVersion": "v1", "kind": "Pod", **pod("a", containers=[_CONTAINERS[0], _CONTAINERS[0]])},
            APPLY,
        )
    ),
}
