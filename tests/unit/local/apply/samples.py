"""A schema with a field of each sort, and objects of it at random, for the tests of patches and of apply."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from edgewright.local.apply import FieldType
from edgewright.local.apply import compile as compiled
from edgewright.runtime.objects import Kind

REF: Final = "#/components/schemas/"
TEXT: Final = {"type": "string"}
NUMBER: Final = {"type": "integer"}

PART: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "name": {**TEXT, "default": ""},
        "port": {**NUMBER, "default": 80},
        "value": TEXT,
        "flag": {"type": "boolean"},
        "parts": {
            "type": "array",
            "items": {"$ref": REF + "test.Part"},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    },
}
SPEC: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["parts"],
    "properties": {
        "size": NUMBER,
        "text": TEXT,
        "when": {"type": "string", "format": "date-time"},
        "on": {"type": "boolean"},
        "amount": {"x-kubernetes-int-or-string": True},
        "quantity": {"$ref": REF + "io.k8s.apimachinery.pkg.api.resource.Quantity"},
        "raw": {"$ref": REF + "io.k8s.apimachinery.pkg.runtime.RawExtension"},
        "parts": {
            "type": "array",
            "items": {"allOf": [{"$ref": REF + "test.Part"}], "default": {}},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name", "port"],
            "x-kubernetes-patch-strategy": "merge,retainKeys",
            "x-kubernetes-patch-merge-key": "name",
        },
        "tags": {
            "type": "array",
            "items": TEXT,
            "x-kubernetes-list-type": "set",
            "x-kubernetes-patch-strategy": "merge",
        },
        "loose": {"type": "array", "items": TEXT, "x-kubernetes-patch-strategy": "merge"},
        "hosts": {
            "type": "array",
            "items": {"type": "object", "properties": {"ip": TEXT, "names": {"type": "array", "items": TEXT}}},
            "x-kubernetes-patch-strategy": "merge",
            "x-kubernetes-patch-merge-key": "ip",
        },
        "keyless": {
            "type": "array",
            "items": {"type": "object", "properties": {"a": TEXT}},
            "x-kubernetes-patch-strategy": "merge",
        },
        "whole": {"type": "array", "items": NUMBER},
        "map": {"type": "object", "additionalProperties": TEXT},
        "atom": {"type": "object", "additionalProperties": TEXT, "x-kubernetes-map-type": "atomic"},
        "swap": {"allOf": [{"$ref": REF + "test.Part"}], "x-kubernetes-patch-strategy": "replace"},
        "part": {"allOf": [{"$ref": REF + "test.Part"}], "x-kubernetes-map-type": "atomic"},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "half": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"known": TEXT}},
        "closed": {"type": "object", "additionalProperties": False, "properties": {"a": TEXT}},
        "open": {"type": "object", "additionalProperties": True},
        "lost": {"$ref": REF + "nobody.knows"},
        "deep": {"type": "object", "properties": {"one": {"type": "object", "properties": {"x": TEXT, "y": TEXT}}}},
    },
}
META: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("name", "namespace", "uid", "resourceVersion", "generateName"), TEXT),
        "generation": NUMBER,
        "labels": {"type": "object", "additionalProperties": TEXT},
        "annotations": {"type": "object", "additionalProperties": TEXT},
        "finalizers": SPEC["properties"]["tags"],
        "managedFields": {"type": "array", "items": {"type": "object"}},
    },
}
DEFINITIONS: Final[dict[str, dict[str, Any]]] = {
    "test.Part": PART,
    "test.Spec": SPEC,
    "test.Meta": META,
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"oneOf": [TEXT, {"type": "number"}]},
    "io.k8s.apimachinery.pkg.runtime.RawExtension": {"type": "object"},
}
_STATUS: Final = {"type": "object", "properties": {"phase": TEXT}}
CUSTOM: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "apiVersion": TEXT,
        "kind": TEXT,
        "metadata": {"$ref": REF + "test.Meta"},
        "spec": SPEC,
        "status": _STATUS,
    },
}
BUILTIN: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "apiVersion": TEXT,
        "kind": TEXT,
        "metadata": {"allOf": [{"$ref": REF + "test.Meta"}], "default": {}},
        "spec": {"allOf": [{"$ref": REF + "test.Spec"}], "default": {}},
        "status": _STATUS,
        "note": {**TEXT, "default": ""},
    },
}
KIND: Final = Kind(group="example.io", version="v1", kind="Thing", plural="things")


def custom() -> FieldType:
    """The fields of the kind as one of a CustomResourceDefinition."""
    return compiled(CUSTOM, DEFINITIONS)


def builtin() -> FieldType:
    """The fields of the kind as a built-in one."""
    return compiled(BUILTIN, DEFINITIONS)


def thing(spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """An object of the kind."""
    body: dict[str, Any] = {"apiVersion": "example.io/v1", "kind": "Thing", "metadata": {"name": "one", **metadata}}
    if spec is not None:
        body["spec"] = spec
    return body


_words = st.sampled_from("abc")
_values = st.sampled_from(["x", "y", 1])


def specs() -> st.SearchStrategy[dict[str, Any]]:
    """Specs as people apply them: lists without doubles, and nothing empty."""
    part = st.fixed_dictionaries(
        {"name": _words}, optional={"port": st.sampled_from([80, 81]), "value": st.sampled_from("xy")}
    )
    texts = st.dictionaries(_words, st.sampled_from("xy"), min_size=1, max_size=3)
    free = st.recursive(
        _values, lambda inner: st.dictionaries(_words, inner, min_size=1, max_size=2) | st.lists(inner, max_size=2)
    )
    one = st.dictionaries(st.sampled_from("xy"), _words, min_size=1)
    return st.fixed_dictionaries(
        {"size": st.integers(0, 2)},
        optional={
            "amount": _values,
            "parts": st.lists(
                part, min_size=1, max_size=3, unique_by=lambda found: (found["name"], found.get("port", 80))
            ),
            "tags": st.lists(_words, min_size=1, unique=True),
            "whole": st.lists(st.integers(0, 1), max_size=2),
            "map": texts,
            "atom": texts,
            "free": st.dictionaries(_words, free, min_size=1, max_size=2),
            "deep": st.fixed_dictionaries({"one": one}),
        },
    )
