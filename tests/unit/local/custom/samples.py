"""A definition with something of everything, as it is in the store, for the tests of custom kinds and documents."""

from __future__ import annotations

import copy
from typing import Any

GROUP = "probe.example.io"
TEXT = {"type": "string"}
SPEC: dict[str, Any] = {
    "type": "object",
    "description": "the spec",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "format": "int32", "minimum": 1, "default": 3},
        "color": {"type": "string", "enum": ["red", "blue"], "nullable": True},
        "flag": {"type": "boolean"},
        "replicas": {"type": "integer"},
        "any": {"x-kubernetes-preserve-unknown-fields": True},
        "either": {"x-kubernetes-int-or-string": True},
        "short": {"x-kubernetes-int-or-string": True, "anyOf": [{"maxLength": 3}]},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": TEXT}},
        "inner": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
        "inners": {
            "type": "array",
            "items": {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {"data": TEXT}},
        },
        "named": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
            },
        },
        "labels": {"type": "object", "additionalProperties": {**TEXT, "nullable": True}},
        "rows": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {"k": TEXT}},
        },
    },
}
SCHEMA: dict[str, Any] = {
    "description": "A widget",
    "type": "object",
    "required": ["spec"],
    "properties": {
        "metadata": {"type": "object"},
        "spec": SPEC,
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"selector": TEXT}},
    },
}
SCALE = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".status.selector",
}
NAMES = {
    "plural": "widgets",
    "singular": "widget",
    "kind": "Widget",
    "listKind": "WidgetList",
    "shortNames": ["wd"],
    "categories": ["all"],
}
OLDER: dict[str, Any] = {
    "type": "object",
    "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer", "default": 7}, "old": TEXT}}},
}


def widgets(**changed: Any) -> dict[str, Any]:
    """The definition of widgets, established: v1 is stored, v1beta1 is deprecated, v2 is not served."""
    versions = [
        {
            "name": "v1",
            "served": True,
            "storage": True,
            "subresources": {"status": {}, "scale": SCALE},
            "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
            "selectableFields": [{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.flag"}, {"jsonPath": ".spec.size"}],
            "schema": {"openAPIV3Schema": SCHEMA},
        },
        {
            "name": "v1beta1",
            "served": True,
            "storage": False,
            "deprecated": True,
            "schema": {"openAPIV3Schema": OLDER},
        },
        {"name": "v2", "served": False, "storage": False, "schema": {"openAPIV3Schema": {"type": "object"}}},
    ]
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{GROUP}", "uid": "1", "generation": 1},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": NAMES,
            "versions": versions,
            "conversion": {"strategy": "None"},
        },
        "status": {
            "conditions": [
                {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts", "message": "no conflicts found"},
                {"type": "Established", "status": "True"},
            ],
            "acceptedNames": NAMES,
            "storedVersions": ["v1"],
        },
    }
    return copy.deepcopy({**crd, **changed})


def gadgets() -> dict[str, Any]:
    """A definition with nothing special, of the same group and for the whole cluster."""
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}
    version = {"name": "v1", "served": True, "storage": True}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    crd = widgets()
    crd["metadata"] |= {"name": f"gadgets.{GROUP}", "uid": "2"}
    crd["spec"] |= {
        "names": names,
        "scope": "Cluster",
        "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
    }
    crd["status"]["acceptedNames"] = names
    return crd
