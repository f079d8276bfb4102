"""Pruning and defaulting are compared with the real API server: the same objects in, the same objects stored."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from edgewright.local import schema
from tests.harness import ControlPlane, RequestError

TEXT = {"type": "string"}
SPEC: dict[str, Any] = {
    "type": "object",
    "default": {},
    "properties": {
        "size": {"type": "integer", "default": 3},
        "note": {"type": "string", "nullable": True, "default": "none"},
        "maybe": {"type": "string", "nullable": True},
        "name": TEXT,
        "outer": {"type": "object", "default": {"a": "x"}, "properties": {"a": TEXT, "b": {**TEXT, "default": "y"}}},
        "free": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {"known": {"type": "object", "properties": {"a": TEXT}}},
        },
        "rows": {
            "type": "array",
            "x-kubernetes-preserve-unknown-fields": True,
            "items": {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": TEXT}}}},
        },
        "slots": {
            "type": "array",
            "items": {"type": "object", "properties": {"n": {"type": "integer", "default": 1}, "m": TEXT}},
        },
        "grid": {"type": "array", "items": {"type": "array", "items": {"type": "object", "properties": {"a": TEXT}}}},
        "numbers": {"type": "array", "items": {"type": "integer", "default": 7}},
        "labels": {"type": "object", "additionalProperties": TEXT},
        "things": {
            "type": "object",
            "additionalProperties": {"type": "object", "properties": {"n": {"type": "integer", "default": 2}}},
        },
        "pod": {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"data": TEXT}},
    },
}
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"spec": SPEC}}
GROUP = "local-schema.example.io"
POD = {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "x", "labels": {"a": "b"}}}

BODIES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "an empty spec": {"spec": {}},
    "a null spec": {"spec": None},
    "an unknown root field": {"other": 1, "spec": {}},
    "an unknown root object": {"other": {"deep": [1]}},
    "known scalars": {"spec": {"size": 1, "note": "n", "name": "m"}},
    "unknown scalars": {"spec": {"wrong": 1, "size": 2, "also": None}},
    "an unknown object": {"spec": {"wrong": {"a": {"b": 1}}}},
    "a null with a default": {"spec": {"size": None}},
    "a null without a default": {"spec": {"name": None}},
    "a nullable null": {"spec": {"maybe": None}},
    "a nullable null with a default": {"spec": {"note": None}},
    "a null object with a default": {"spec": {"outer": None}},
    "an empty object with defaults below": {"spec": {"outer": {}}},
    "half an object": {"spec": {"outer": {"b": "z", "c": 1}}},
    "an open object": {"spec": {"free": {"x": {"y": None}, "known": {"a": "1", "b": 2}}}},
    "an empty open object": {"spec": {"free": {}}},
    "an open list": {"spec": {"rows": [{"x": 1, "a": {"b": "", "c": {}}}, {}]}},
    "a list of objects": {"spec": {"slots": [{}, {"n": 5}, {"n": None, "m": None, "o": 1}]}},
    "an empty list": {"spec": {"slots": []}},
    "a null list": {"spec": {"slots": None}},
    "a list of lists": {"spec": {"grid": [[{"a": "1", "b": 2}], []]}},
    "a null in a list with a default": {"spec": {"numbers": [None, 1]}},
    "a map": {"spec": {"labels": {"a": "b", "": "c"}}},
    "a null in a map": {"spec": {"labels": {"a": None, "b": "c"}}},
    "a map of objects": {"spec": {"things": {"a": {}, "b": {"n": 1, "o": 2}, "c": None}}},
    "an embedded object": {"spec": {"pod": {**POD, "data": "d"}}},
    "an embedded object with unknown fields": {"spec": {"pod": {**POD, "data": "d", "spec": {"x": 1}}}},
    "many unknown fields": {"a": 1, "spec": {"z": 1, "y": 2, "slots": [{"o": 1}, {"o": 2}], "outer": {"q": []}}},
}


@pytest.fixture(scope="module")
def path(cluster: ControlPlane) -> Iterator[str]:
    """Where the kind of these tests is served."""
    name = f"samples.{GROUP}"
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}
    names = {"kind": "Sample", "plural": "samples", "singular": "sample", "listKind": "SampleList"}
    spec = {"group": GROUP, "scope": "Cluster", "names": names, "versions": [version]}
    crd = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name}}
    cluster.kubectl("apply", "--server-side", "-f", "-", input=json.dumps({**crd, "spec": spec}))
    cluster.until_served(name)
    yield f"/apis/{GROUP}/v1/samples"
    cluster.request("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_the_object_is_stored_as_on_the_real_server(cluster: ControlPlane, path: str, body: dict[str, Any]) -> None:
    compiled = schema.compile(SCHEMA)
    sent = {"apiVersion": f"{GROUP}/v1", "kind": "Sample", "metadata": {"generateName": "s-"}, **body}
    stored = cluster.request("POST", f"{path}?fieldValidation=Ignore", sent)
    ours, dropped = compiled.prune(compiled.default(sent))
    assert {**ours, "metadata": stored["metadata"]} == stored
    assert dropped == named_by_the_real_server(cluster, path, sent)


def named_by_the_real_server(cluster: ControlPlane, path: str, sent: dict[str, Any]) -> list[str]:
    """The unknown fields that a strict request is refused for."""
    try:
        cluster.request("POST", f"{path}?fieldValidation=Strict&dryRun=All", sent)
    except RequestError as refused:
        return re.findall(r'unknown field "([^"]+)"', json.loads(refused.answer)["message"])
    return []
