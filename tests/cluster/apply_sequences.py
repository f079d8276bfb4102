"""Sequences of writes whose owners are compared with the real server: those that people thought of, and random walks.

`test_local_apply` writes them step by step; `apply_steps` has the verbs. Nothing here touches a server.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from edgewright.local.apply import apply
from tests.cluster.apply_steps import (
    CONFIG,
    EVENT,
    SERVICE,
    TEMPLATE,
    WIDGET,
    Raw,
    Step,
    Subject,
    applied,
    create,
    data,
    last_applied,
    part,
    patch,
    pods,
    scaled,
    spec,
    update,
)
from tests.harness import repetition

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
