"""Server-side apply and the record of who owns what end as on the real server: both see the same writes, and agree.

Each write is made on the real server, and worked out by ours on the object that the real server had before it. Before
each write all entries are made old, so that it shows which of them got a new time.
"""

from __future__ import annotations

import functools
import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias

import pytest

from edgewright.local import builtin, custom
from edgewright.local.apply import apply, scale
from edgewright.local.apply import compile as compiled
from edgewright.local.apply.fieldtypes import FieldType
from edgewright.local.errors import Refusal
from edgewright.local.patch import merge_patch
from edgewright.runtime.objects import Kind
from tests.harness import ControlPlane, RequestError, repetition, wait_until

Raw: TypeAlias = dict[str, Any]
OLD, NOW = "2020-01-01T00:00:00Z", datetime(2100, 1, 1, tzinfo=UTC)
APPLY, MERGE = "application/apply-patch+yaml", "application/merge-patch+json"
GROUP = "local-apply.example.io"
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}

SPEC: Raw = {
    "type": "object",
    "properties": {
        "size": NUMBER,
        "text": TEXT,
        "amount": {"x-kubernetes-int-or-string": True},
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name", "port"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {
                    "name": TEXT,
                    "port": {**NUMBER, "default": 80},
                    "value": TEXT,
                    "more": {"type": "object", "properties": {"a": TEXT, "b": TEXT}},
                },
            },
        },
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": TEXT},
        "whole": {"type": "array", "items": NUMBER},
        "map": {"type": "object", "additionalProperties": TEXT},
        "atom": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": TEXT},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "deep": {"type": "object", "properties": {"one": {"type": "object", "properties": {"x": TEXT, "y": TEXT}}}},
        "given": {**TEXT, "default": "by the schema"},
    },
}
STATUS: Raw = {"type": "object", "properties": {"phase": TEXT, "ready": NUMBER}}


def version(name: str, *, stored: bool) -> Raw:
    """A version of the custom kind; both have the same schema."""
    schema = {"type": "object", "properties": {"spec": SPEC, "status": STATUS}}
    return {
        "name": name,
        "served": True,
        "storage": stored,
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.ready"},
        },
        "schema": {"openAPIV3Schema": schema},
    }


CRD: Raw = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"widgets.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
        "versions": [version("v1", stored=True), version("v2", stored=False)],
    },
}


@dataclass(frozen=True)
class Subject:
    """A kind to write objects of."""

    kind: Kind
    status: bool = False
    unowned: tuple[str, ...] = ()
    """Fields of a spec that the real server fills in after it has recorded who owns what."""


CONFIG = Subject(Kind(group="", version="v1", kind="ConfigMap", plural="configmaps"))
TEMPLATE = Subject(Kind(group="", version="v1", kind="PodTemplate", plural="podtemplates"))
SERVICE = Subject(
    Kind(group="", version="v1", kind="Service", plural="services"),
    status=True,
    unowned=("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"),
)
EVENT = Subject(Kind(group="", version="v1", kind="Event", plural="events"))
WIDGET = Subject(Kind(group=GROUP, version="v1", kind="Widget", plural="widgets"), status=True)
WIDGET_2 = Subject(Kind(group=GROUP, version="v2", kind="Widget", plural="widgets"), status=True)


@dataclass(frozen=True)
class Step:
    """A write by a manager."""

    verb: str
    body: Raw
    manager: str
    force: bool = False
    subresource: str = ""
    version: str = ""
    entries: Callable[[list[Raw]], Any] | None = field(default=None)
    """What a client sends as managedFields."""


def create(body: Raw, manager: str = "maker", **more: Any) -> Step:
    return Step("create", body, manager, **more)


def update(body: Raw, manager: str = "updater", **more: Any) -> Step:
    return Step("update", body, manager, **more)


def patch(body: Raw, manager: str = "patcher", **more: Any) -> Step:
    return Step("patch", body, manager, **more)


def scaled(replicas: int, manager: str = "scaler", **more: Any) -> Step:
    """A patch of the scale, which is one of the object's size."""
    return Step("patch", {"spec": {"replicas": replicas}}, manager, subresource="scale", **more)


def applied(body: Raw, manager: str = "applier", **more: Any) -> Step:
    return Step("apply", body, manager, **more)


def spec(**fields: Any) -> Raw:
    return {"spec": fields}


def data(**fields: Any) -> Raw:
    return {"data": fields}


def pods(**fields: Any) -> Raw:
    return {"template": {"spec": fields}}


def part(name: str, **fields: Any) -> Raw:
    return {"name": name, **fields}


def last_applied(body: Raw) -> Raw:
    """A body as client-side apply sends it."""
    inner = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, **body}
    text = json.dumps(inner, separators=(",", ":")) + "\n"
    return {**body, "metadata": {"annotations": {apply.LAST_APPLIED: text}}}


ONE = {"name": "a", "image": "x"}
TWO = {"name": "b", "image": "y", "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]}

SEQUENCES: dict[str, tuple[Subject, list[Step]]] = {
    "a plain create": (CONFIG, [create(data(a="1", b="2"))]),
    "a create with all of metadata": (
        CONFIG,
        [create({"metadata": {"labels": {"l": "1"}, "annotations": {"x": "y"}, "finalizers": ["example.com/a"]}})],
    ),
    "a create of nothing": (CONFIG, [create({})]),
    "an empty map": (CONFIG, [create({"data": {}, "metadata": {"labels": {}}}), patch({"data": {}})]),
    "an update by another": (CONFIG, [create(data(a="1", b="2")), update(data(a="9"))]),
    "an update by the same": (CONFIG, [create(data(a="1")), update(data(a="9", c="3"), "maker")]),
    "an update that changes nothing": (CONFIG, [create(data(a="1")), update({})]),
    "a removal by another": (CONFIG, [create(data(a="1", b="2")), patch(data(a=None)), patch({"data": None})]),
    "everything taken": (CONFIG, [create(data(a="1")), update(data(a="2")), patch(data(a="3"))]),
    "finalizers": (
        CONFIG,
        [
            create({"metadata": {"finalizers": ["example.com/a"]}}),
            patch({"metadata": {"finalizers": ["example.com/a", "example.com/b"]}}),
            patch({"metadata": {"finalizers": ["example.com/b"]}}, "other"),
            applied({"metadata": {"finalizers": ["example.com/c"]}}),
            patch({"metadata": {"finalizers": None}}, "cleaner"),
        ],
    ),
    "eleven updaters": (
        CONFIG,
        [create(data(a="0")), *(patch(data(**{f"k{n:02}": "1"}), f"patcher-{n:02}") for n in range(12))],
    ),
    "managedFields reset": (
        CONFIG,
        [create(data(a="1")), update(data(a="2"), entries=lambda _: [{}]), update(data(a="3")), applied(data(a="4"))],
    ),
    "managedFields emptied": (CONFIG, [create(data(a="1")), update({}, entries=lambda _: []), update(data(b="1"))]),
    "managedFields written by a client": (
        CONFIG,
        [
            create(data(a="1")),
            update(data(b="2"), entries=lambda found: [{**found[0], "manager": "renamed"}]),
            update({}, entries=lambda found: [{**found[0], "operation": "Other"}]),
            update({}, entries=lambda found: [{**found[0], "apiVersion": ""}]),
            update({}, entries=lambda found: [{**found[0], "fieldsType": "FieldsV9"}]),
            update(data(b="3"), entries=lambda found: [{**found[0], "fieldsV1": {"f:data": {"f:b": {}, 'v:"x"': {}}}}]),
        ],
    ),
    "applied to nothing": (CONFIG, [applied(data(a="1"))]),
    "applied twice": (CONFIG, [applied(data(a="1")), applied(data(a="1"))]),
    "applied with less": (CONFIG, [applied(data(a="1", b="2")), applied(data(b="2")), applied({})]),
    "applied by two, the same": (CONFIG, [applied(data(a="1")), applied(data(a="1"), "second"), applied({})]),
    "applied by two, in conflict": (CONFIG, [applied(data(a="1")), applied(data(a="2"), "second")]),
    "applied by force": (CONFIG, [applied(data(a="1")), applied(data(a="2"), "second", force=True), applied(data())]),
    "a conflict with an updater": (CONFIG, [create(data(a="1", b="2")), applied(data(a="9", b="8"))]),
    "a conflict with several": (
        CONFIG,
        [create(data(a="1", b="2")), patch(data(c="3")), applied(data(a="9", b="8", c="7"))],
    ),
    "an applied field taken by an updater": (
        CONFIG,
        [applied(data(a="1", b="1")), update(data(a="2")), applied(data(a="1", b="1")), applied(data(b="1"))],
    ),
    "an applied field that an updater shares stays": (
        CONFIG,
        [create(data(a="1")), applied(data(a="1", b="1")), applied(data(b="2"))],
    ),
    "null applied": (CONFIG, [applied({"data": {"a": "1"}}), applied({"data": {"a": None}}), applied({"data": None})]),
    "managedFields applied": (
        CONFIG,
        [
            applied({"data": {"a": "1"}, "metadata": {"managedFields": []}}),
            applied({"data": {"a": "1"}, "metadata": {"managedFields": None}}),
            applied({"data": {"a": "1"}, "metadata": {"managedFields": [{"manager": "x"}]}}),
        ],
    ),
    "an unknown field applied": (CONFIG, [applied({"wrong": 1}), applied({"data": {"a": "1"}, "other": {}})]),
    "a wrong type applied": (
        CONFIG,
        [
            applied({"data": {"a": 1}}),
            applied({"data": "x"}),
            applied({"data": ["x"]}),
            applied({"data": {"a": {"b": [1.5, True, None]}}}),
            applied({"immutable": "x"}),
        ],
    ),
    "another kind applied": (CONFIG, [applied({"kind": "Secret"}), applied({"apiVersion": "v2"})]),
    "kubectl takes over from client-side apply": (
        CONFIG,
        [
            create(last_applied(data(a="1", b="2")), "kubectl-client-side-apply"),
            applied(data(a="9", b="2"), "kubectl"),
            applied(data(a="9"), "kubectl"),
        ],
    ),
    "kubectl takes over what is still as applied": (
        CONFIG,
        [
            create(last_applied(data(a="1", b="2")), "kubectl-client-side-apply"),
            patch(data(b="3")),
            applied(data(a="9", b="9"), "kubectl"),
            applied(data(a="9"), "kubectl"),
        ],
    ),
    "another manager does not take over": (
        CONFIG,
        [create(last_applied(data(a="1")), "kubectl-client-side-apply"), applied(data(a="9"), "other")],
    ),
    "kubectl with an annotation of another version": (
        CONFIG,
        [
            create(
                {"data": {"a": "1"}, "metadata": {"annotations": {apply.LAST_APPLIED: '{"apiVersion":"v0"}'}}},
            ),
            applied(data(a="2"), "kubectl"),
            applied({"data": {"a": "1"}, "metadata": {"annotations": {"x": "<y>"}}}, "kubectl"),
        ],
    ),
    "containers": (TEMPLATE, [create(pods(containers=[ONE, TWO]))]),
    "containers by two appliers": (
        TEMPLATE,
        [
            applied(pods(containers=[ONE])),
            applied(pods(containers=[TWO]), "second"),
            applied(pods(containers=[{**ONE, "env": [{"name": "E", "value": "1"}]}])),
            applied(pods(containers=[ONE])),
            applied(pods(containers=[{**TWO, "ports": [{"containerPort": 80}]}]), "second"),
            applied({"metadata": {"labels": {"l": "1"}}}, "second"),
        ],
    ),
    "order of containers": (
        TEMPLATE,
        [
            create(pods(containers=[{"name": name, "image": "x"} for name in "abcd"])),
            applied(pods(containers=[{"name": name, "image": "x"} for name in "dzb"])),
            applied(pods(containers=[{"name": name, "image": "x"} for name in "yabx"]), "second"),
        ],
    ),
    "a container twice": (TEMPLATE, [applied(pods(containers=[ONE, ONE])), applied(pods(containers=[{"image": "x"}]))]),
    "ports that are live twice": (
        TEMPLATE,
        [
            create(pods(containers=[{**ONE, "env": [{"name": "E", "value": "1"}, {"name": "E", "value": "2"}]}])),
            patch(pods(containers=[{**ONE, "env": [{"name": "E", "value": "2"}, {"name": "E", "value": "3"}]}])),
            applied(pods(containers=[{"name": "a", "env": [{"name": "F", "value": "1"}]}])),
            applied(pods(containers=[{"name": "a", "env": [{"name": "E", "value": "9"}]}]), force=True),
            patch(pods(containers=[{**ONE, "env": [{"name": "E", "value": "4"}]}])),
        ],
    ),
    "resources and quantities": (
        TEMPLATE,
        [
            applied(pods(containers=[{**ONE, "resources": {"limits": {"cpu": "1000m", "memory": "1Gi"}}}])),
            applied(pods(containers=[{**ONE, "resources": {"limits": {"cpu": 1}}}])),
            applied(pods(containers=[{**ONE, "resources": {"limits": {"cpu": "2"}}}]), "second"),
        ],
    ),
    "volumes and atomic lists": (
        TEMPLATE,
        [
            create(pods(containers=[ONE], volumes=[{"name": "v", "emptyDir": {}}], tolerations=[{"key": "k"}])),
            applied(pods(tolerations=[{"key": "l"}], volumes=[{"name": "w", "emptyDir": {"medium": "Memory"}}])),
            applied(pods(tolerations=[{"key": "l"}]), force=True),
            applied(pods(nodeSelector={"a": "b"}), force=True),
        ],
    ),
    "a service": (
        SERVICE,
        [
            create(spec(ports=[{"port": 80}], selector={"a": "b"})),
            patch(spec(selector={"a": "c", "d": "e"})),
            applied(spec(ports=[{"port": 80, "name": "x"}, {"port": 443, "name": "y"}]), force=True),
            applied(spec(ports=[{"port": 443, "name": "y", "protocol": "TCP"}])),
        ],
    ),
    "a service applied": (SERVICE, [applied(spec(ports=[{"port": 80}])), applied(spec(ports=[{"port": 81}]))]),
    "an event": (
        EVENT,
        [
            create({"reason": "R", "message": "m", "type": "Normal", "count": 1}),
            patch({"count": 2, "lastTimestamp": "2026-01-01T00:00:00Z"}),
            patch({"lastTimestamp": None}),
        ],
    ),
    "a widget": (WIDGET, [create(spec(size=1, parts=[part("a"), part("b", port=81)], tags=["x", "y"], whole=[1, 2]))]),
    "a widget updated": (
        WIDGET,
        [
            create(spec(size=1, parts=[part("a", value="1"), part("b")], tags=["x", "y"], map={"k": "v"})),
            patch(spec(size=2, tags=["y", "z"], map={"k": None, "l": "w"})),
            patch(spec(parts=[part("a", value="2"), part("c")], whole=[1])),
            update(spec(whole=[1, 2], atom={"a": "b"}, amount="10%")),
            update(spec(atom={"a": "b", "c": "d"}, amount=3, free={"x": {"y": [1]}})),
        ],
    ),
    "a widget applied": (
        WIDGET,
        [
            applied(spec(size=1, parts=[part("a", value="1"), part("b", more={"a": "1"})], tags=["x", "y"])),
            applied(spec(parts=[part("b", port=80, more={"b": "2"})], tags=["z"], map={"m": "n"}), "second"),
            applied(spec(parts=[part("a")], tags=["y"])),
            applied(spec(), "second"),
            applied({}, "applier"),
        ],
    ),
    "a widget with conflicts": (
        WIDGET,
        [
            applied(spec(size=1, parts=[part("a", value="1")], atom={"a": "1"}, whole=[1])),
            applied(spec(size=2, parts=[part("a", value="2")], atom={"b": "1"}, whole=[2]), "second"),
            applied(spec(size=2, parts=[part("a", value="2")], atom={"b": "1"}, whole=[2]), "second", force=True),
            applied(spec(parts=[part("a")])),
        ],
    ),
    "free fields": (
        WIDGET,
        [
            applied(spec(free={"a": {"b": 1, "c": [1, 2]}, "d": "e"})),
            applied(spec(free={"a": {"x": 2}}), "second"),
            applied(spec(free={"a": {"b": 2}})),
            applied(spec(free={"a": "now text"}), force=True),
            patch(spec(free={"a": {"again": True}})),
        ],
    ),
    "empty things applied": (
        WIDGET,
        [
            applied(spec(map={}, parts=[], tags=[], whole=[], deep={})),
            applied(spec(map={"a": "1"}, parts=[part("a")], deep={"one": {}})),
            applied(spec(parts=[], deep={"one": {"x": "1"}})),
            applied(spec(deep={"one": {"y": "1"}}), "second"),
            applied(spec(deep={})),
        ],
    ),
    "sets in another order": (
        WIDGET,
        [
            create(spec(tags=["a", "b", "c", "d"])),
            applied(spec(tags=["d", "b", "x"])),
            applied(spec(tags=["c", "x"])),
            applied(spec(tags=["a", "a"])),
        ],
    ),
    "a field of the schema's default": (
        WIDGET,
        [
            applied(spec(size=1)),
            applied(spec(size=1, given="mine")),
            applied(spec(size=1)),
            applied(spec(given="x"), "b"),
        ],
    ),
    "the status apart": (
        WIDGET,
        [
            create(spec(size=1) | {"status": {"phase": "x"}}),
            patch({"status": {"phase": "Ready"}}, "controller", subresource="status"),
            update({"status": {"ready": 1}} | spec(size=9), "controller", subresource="status"),
            applied({"status": {"ready": 2}}, "applier", subresource="status"),
            applied({"status": {"ready": 2}}, "applier", subresource="status", force=True),
            applied({"status": {"phase": "Gone"}} | spec(size=1)),
            patch({"status": {"phase": None}, "metadata": {"labels": {"a": "b"}}}, "controller", subresource="status"),
        ],
    ),
    "before the first apply": (
        WIDGET,
        [
            create(spec(size=1, map={"a": "1"})),
            update({}, entries=lambda _: [{}]),
            applied(spec(size=1, map={"b": "2"})),
            applied(spec(size=2)),
        ],
    ),
    "two versions": (
        WIDGET,
        [
            create(spec(size=1)),
            patch(spec(size=2), version="v2"),
            applied(spec(size=2, text="x"), version="v2"),
            applied(spec(text="x")),
            patch(spec(text="y"), "maker", version="v2"),
        ],
    ),
    "scaled": (
        WIDGET,
        [
            create(spec(size=1, text="x")),
            scaled(1),
            scaled(2),
            scaled(3),
            scaled(4, "maker"),
            applied(spec(size=5), force=True),
            scaled(6),
            applied(spec(size=6)),
        ],
    ),
    "keys only": (
        WIDGET,
        [
            applied(spec(parts=[part("a", port=1), part("a", port=2), part("a")])),
            applied(spec(parts=[part("a", port=2)])),
            applied(spec(parts=[{"port": 2}])),
            applied(spec(parts=[part("a", port=2), part("a", port=2)])),
            applied(spec(parts=[None])),
            applied(spec(parts=["x"])),
        ],
    ),
}


def drawn(draw: random.Random, *, nulls: bool) -> Raw:
    """A body of a widget at random."""

    def some(names: str) -> list[str]:
        return draw.sample(names, draw.randint(0, len(names)))

    def piece(name: str) -> Raw:
        found: Raw = {"name": name}
        if draw.random() < 0.5:
            found["port"] = draw.choice([80, 81])
        if draw.random() < 0.5:
            found["value"] = draw.choice("xy")
        if draw.random() < 0.3:
            found["more"] = {key: draw.choice("xy") for key in some("ab")}
        return found

    makers: dict[str, Callable[[], Any]] = {
        "size": lambda: draw.randint(0, 2),
        "amount": lambda: draw.choice([1, "1", "10%"]),
        "parts": lambda: [piece(name) for name in some("abcd")],
        "tags": lambda: some("abcde"),
        "whole": lambda: [draw.randint(0, 1)],
        "map": lambda: {key: draw.choice("xy") for key in (some("abc") or ["a"])},
        "atom": lambda: {key: draw.choice("xy") for key in some("ab")},
        "free": lambda: {key: draw.choice([1, "x", {"n": 1}, [1], {"n": {"m": 2}}]) for key in some("abc")},
        "deep": lambda: {"one": dict.fromkeys(some("xy"), "x")},
    }
    fields = {}
    for name in draw.sample(list(makers), draw.randint(1, 5)):
        fields[name] = None if nulls and draw.random() < 0.2 else makers[name]()
    body = spec(**fields)
    if draw.random() < 0.3:
        body["metadata"] = {"labels": {key: draw.choice("xy") for key in some("ab")}}
    return body


def drawn_template(draw: random.Random, *, nulls: bool) -> Raw:
    """A body of a PodTemplate at random; a merge patch replaces whole lists."""

    def some(names: str) -> list[str]:
        return draw.sample(names, draw.randint(0, len(names)))

    def container(name: str) -> Raw:
        found: Raw = {"name": name, "image": draw.choice("xy")}
        makers: dict[str, Callable[[], Any]] = {
            "env": lambda: [{"name": each, "value": draw.choice("12")} for each in some("EFG")],
            "ports": lambda: [
                {"containerPort": port, **draw.choice([{}, {"protocol": "TCP"}, {"protocol": "UDP"}])}
                for port in draw.sample([80, 81], draw.randint(0, 2))
            ],
            "args": lambda: some("ab"),
            "resources": lambda: {"limits": dict.fromkeys(draw.sample(["cpu", "memory"], 1), draw.choice(["1", "2"]))},
            "livenessProbe": lambda: {"exec": {"command": ["x"]}, "periodSeconds": draw.randint(1, 2)},
        }
        return found | {each: makers[each]() for each in draw.sample(list(makers), draw.randint(0, 3))}

    body: Raw = {"containers": [container(name) for name in (some("abc") or ["a"])]}
    if draw.random() < 0.5:
        body["volumes"] = [{"name": name, "emptyDir": {}} for name in some("vw")]
    if draw.random() < 0.5:
        body["nodeSelector"] = None if nulls else {key: draw.choice("xy") for key in some("ab")}
    if draw.random() < 0.5:
        body["tolerations"] = [{"key": draw.choice("kl"), "operator": "Exists"}]
    if draw.random() < 0.5:
        body["securityContext"] = {"runAsUser": draw.randint(1, 2)}
    return pods(**body)


def walk(seed: int, draw_body: Callable[..., Raw]) -> list[Step]:
    """Writes of an object at random, of which appliers may be refused."""
    draw = random.Random(seed)
    steps = [create(draw_body(draw, nulls=False))]
    for _ in range(10):
        manager = draw.choice(["one", "two", "three"])
        if draw.random() < 0.3:
            steps.append(patch(draw_body(draw, nulls=True), manager))
        else:
            steps.append(applied(draw_body(draw, nulls=False), manager, force=draw.random() < 0.7))
    return steps


WALKS = repetition.numbers(6, 100)
SEQUENCES |= {f"widget walk {seed}": (WIDGET, walk(seed, drawn)) for seed in WALKS}
SEQUENCES |= {f"template walk {seed}": (TEMPLATE, walk(seed, drawn_template)) for seed in WALKS}


@dataclass(frozen=True)
class World:
    """The real server and where objects are made."""

    cluster: ControlPlane
    namespace: str

    def collection(self, kind: Kind) -> str:
        return kind.path(self.namespace)


@functools.cache
def fields_of(kind: Kind) -> FieldType:
    """The fields of a kind as ours serves it."""
    served = [*builtin.served(), *custom.served(CRD)]
    (schema,) = (each.schema for each in served if each.kind == kind)
    return compiled(schema, builtin.definitions())


@pytest.fixture(scope="module")
def world(cluster: ControlPlane) -> Iterator[World]:
    crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    cluster.request("POST", crd, CRD)
    for each in ("v1", "v2"):
        path = f"/apis/{GROUP}/{each}/widgets"
        wait_until(functools.partial(cluster.exists, path), what=f"the real server serves {path}")
    namespace = cluster.create_namespace("apply")
    yield World(cluster, namespace)
    cluster.request("DELETE", f"/api/v1/namespaces/{namespace}")
    cluster.request("DELETE", f"{crd}/widgets.{GROUP}")


def sent(world: World, method: str, path: str, body: Any, **settings: Any) -> Raw:
    """The answer of the real server: an object, or the Status of a refusal."""
    try:
        answer: Raw = world.cluster.request(method, path, body, **settings)
    except RequestError as error:
        answer = json.loads(error.answer)
    return answer


def aged(world: World, path: str, live: Raw) -> Raw:
    """The object with old times. The real server ignores a change of times only, so entries go first and come back."""
    entries = live["metadata"].get("managedFields")
    if not entries:
        return live
    old = [{**entry, "time": OLD} if "time" in entry else entry for entry in entries]
    bare = {**live, "metadata": {**live["metadata"], "managedFields": [{}]}}
    answer: Raw = world.cluster.request("PUT", path, bare)
    answer["metadata"]["managedFields"] = old
    stored: Raw = world.cluster.request("PUT", path, answer)
    return stored


def essence(obj: Raw) -> Raw:
    """An object without what differs from write to write, and with times as old or new."""
    ignored = ("resourceVersion", "generation", "uid", "creationTimestamp", "managedFields")
    if obj["kind"] == "Service":
        # Each dry run is given another address.
        spec = {name: value for name, value in obj["spec"].items() if name not in ("clusterIP", "clusterIPs")}
        obj = {**obj, "spec": spec}
    metadata = {name: value for name, value in obj["metadata"].items() if name not in ignored}
    entries = [dict(entry) for entry in obj["metadata"].get("managedFields", [])]
    for entry in entries:
        if "time" in entry:
            entry["time"] = "old" if entry["time"] == OLD else "new"
    return {**obj, "metadata": {**metadata, "managedFields": entries}}


def refusal_essence(status: Raw) -> Raw:
    """A refusal without the order of its causes, which the real server draws by lot."""
    causes = sorted((c["field"], c["message"], c["reason"]) for c in (status.get("details") or {}).get("causes", ()))
    return {"code": status["code"], "reason": status.get("reason", ""), "message": status["message"], "causes": causes}


def nulls(value: Any, path: str = "") -> Iterator[str]:
    """Where there is a null in the fields of an object."""
    if value is None:
        yield path
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from nulls(inner, f"{path}.{name}" if path else name)


def body_of(step: Step, kind: Kind, live: Raw | None, namespace: str) -> Raw:
    """What a step sends."""
    if step.verb == "update":
        assert live is not None
        body = merge_patch(live, step.body)
        body["apiVersion"] = kind.api_version
        entries = live["metadata"].get("managedFields", [])
        if step.entries is not None:
            body["metadata"]["managedFields"] = step.entries(entries)
        return body
    if step.verb == "patch":
        return step.body
    body = {"apiVersion": kind.api_version, "kind": kind.kind, **step.body}
    body["metadata"] = {"name": "one", **step.body.get("metadata", {})}
    if kind.kind == "Event":
        body["involvedObject"] = {"namespace": namespace}
    return body


@pytest.mark.repeated
@pytest.mark.parametrize("name", SEQUENCES)
def test_a_sequence_of_writes_leaves_the_same_owners_as_on_the_real_server(world: World, name: str) -> None:
    subject, steps = SEQUENCES[name]
    path = f"{world.collection(subject.kind)}/one"
    live: Raw | None = None
    try:
        for step in steps:
            live = _step(world, subject, step, live)
    finally:
        unheld = {"metadata": {"finalizers": None}}
        sent(world, "PATCH", path, unheld, content_type=MERGE)
        sent(world, "DELETE", f"{path}?gracePeriodSeconds=0", {"propagationPolicy": "Background"})


def _step(world: World, subject: Subject, step: Step, live: Raw | None) -> Raw | None:
    kind = subject.kind
    if step.version:
        kind = Kind(group=kind.group, version=step.version, kind=kind.kind, plural=kind.plural)
    collection = world.collection(kind)
    whole = f"{collection}/one"
    if live is not None:
        live = aged(world, whole, world.cluster.request("GET", whole))
    path = f"{whole}/{step.subresource}" if step.subresource else whole
    body = body_of(step, kind, live, world.namespace)
    query = f"?fieldManager={step.manager}&fieldValidation=Ignore" + ("&force=true" if step.force else "")
    mine = _applied(world, subject, kind, step, live, body, path) if step.verb == "apply" else None
    match step.verb:
        case "create":
            real = sent(world, "POST", collection + query, body)
        case "update":
            real = sent(world, "PUT", path + query, body)
        case "patch":
            real = sent(world, "PATCH", path + query, body, content_type=MERGE)
        case _:
            real = sent(world, "PATCH", path + query, body, content_type=APPLY)
    if isinstance(mine, Refusal):
        assert refusal_essence(mine.status()) == refusal_essence(real)
        return live
    if real["kind"] == "Status":
        # What we merged is refused as the real server refuses what it merged itself.
        assert mine is not None, real
        if mine["kind"] == "Nulls":
            assert mine["paths"] == sorted(re.findall(r'([\w.]+): Invalid value: "null"', real["message"])), real
            return live
        assert (mine["kind"], mine.get("reason"), mine.get("message")) == ("Status", real["reason"], real["message"])
        return live
    if step.subresource == "scale":
        real = world.cluster.request("GET", whole)
    if mine is None:
        mine = _recorded(world, subject, kind, step, live, body, real)
    assert essence(mine) == essence(real)
    return real


def _reset(subject: Subject, step: Step) -> list[tuple[str, ...]]:
    if step.subresource:
        return [("metadata",), ("spec",)] if subject.kind.group == GROUP else [("spec",)]
    return [("status",)] if subject.status else []


def _recorded(world: World, subject: Subject, kind: Kind, step: Step, live: Raw | None, body: Raw, real: Raw) -> Raw:
    """The real result with the entries that we give it."""
    new = json.loads(json.dumps(real))
    new["metadata"].pop("managedFields", None)
    if step.verb != "patch" and "managedFields" in body["metadata"]:
        new["metadata"]["managedFields"] = body["metadata"]["managedFields"]
    if live is None:
        for name in subject.unowned:
            new["spec"].pop(name, None)
    if step.subresource == "scale":
        assert live is not None
        entries = scale.record_scale(
            live["metadata"].get("managedFields", []),
            before=live["spec"]["size"],
            after=real["spec"]["size"],
            path=("spec", "size"),
            manager=step.manager,
            api_version=kind.api_version,
            now=NOW,
        )
        return {**real, "metadata": {**real["metadata"], "managedFields": entries}}
    entries = apply.record(
        live,
        new,
        fields_of(kind),
        manager=step.manager,
        api_version=kind.api_version,
        subresource=step.subresource,
        now=NOW,
        reset=_reset(subject, step),
    )
    return {**real, "metadata": {**real["metadata"], "managedFields": entries}}


def _applied(
    world: World, subject: Subject, kind: Kind, step: Step, live: Raw | None, body: Raw, path: str
) -> Raw | Refusal:
    """What we make of an apply, as the real server would store it."""
    try:
        merged = apply.merge(
            live,
            body,
            fields_of(kind),
            kind=kind,
            name="one",
            manager=step.manager,
            force=step.force,
            subresource=step.subresource,
            now=NOW,
            reset=_reset(subject, step),
        )
    except Refusal as refusal:
        return refusal
    found = [path for path in sorted(nulls(merged.get("spec", {}), "spec")) if not path.startswith("spec.free.")]
    if kind.group and found:
        # The real server leaves a null where a custom object's map or list has lost all that was applied, and then
        # refuses its own result. An update with the same null would lose it and pass, so it tells nothing here.
        return {"kind": "Nulls", "paths": found}
    entries = merged["metadata"].pop("managedFields", [])
    if live is None:
        stored = sent(world, "POST", world.collection(kind) + "?dryRun=All&fieldValidation=Ignore", merged)
    else:
        stored = sent(world, "PUT", f"{path}?dryRun=All&fieldValidation=Ignore", merged)
    if stored["kind"] == "Status":
        return stored
    stored["metadata"]["managedFields"] = entries
    if live is not None:
        apply.keep_times(live, stored)
    return stored
