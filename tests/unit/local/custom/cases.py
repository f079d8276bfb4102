"""Definitions, good ones and wrong ones, for the tests of the rules of CustomResourceDefinition.

The unit tests compare with what the real API server said of them when `refusals.json` was recorded; the tests on the
real one send them again.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from edgewright.local import field_errors, names
from edgewright.local.custom import definition_rules
from edgewright.local.served import Write

GROUP = "local-crds.example.io"
TEXT = {"type": "string"}
OBJECT: dict[str, Any] = {"type": "object"}
Case = dict[str, Any]


def version(name: str = "v1", schema: Any = None, **further: Any) -> dict[str, Any]:
    """A version that is served; the first one is stored."""
    root = {"openAPIV3Schema": OBJECT if schema is None else schema}
    return {"name": name, "served": True, "storage": name == "v1", "schema": root, **further}


def crd(*versions: dict[str, Any], name: str = f"things.{GROUP}", annotations: Any = None, **spec: Any) -> Case:
    """A definition that is good but for what is said."""
    kind = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    metadata: dict[str, Any] = {"name": name}
    if annotations:
        metadata["annotations"] = annotations
    whole = {"group": GROUP, "scope": "Namespaced", "names": kind, "versions": list(versions) or [version()], **spec}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {field: value for field, value in whole.items() if value is not None},
    }


def kind_names(**changed: Any) -> dict[str, Any]:
    """The names of a definition, some of them changed."""
    return {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList", **changed}


def field(schema: Any, **root: Any) -> Case:
    """A definition whose field spec.x has this schema."""
    return crd(version(schema={**OBJECT, "properties": {"spec": {**OBJECT, "properties": {"x": schema}}}, **root}))


def rows(keys: Any = ("k",), items: Any = None, **further: Any) -> dict[str, Any]:
    """A list whose items have keys."""
    item = {**OBJECT, "required": ["k"], "properties": {"k": TEXT}} if items is None else items
    listed = {"type": "array", "x-kubernetes-list-type": "map", "items": item, **further}
    return {**listed, "x-kubernetes-list-map-keys": list(keys)} if keys else listed


SCALE = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
TWO = {**OBJECT, "properties": {"spec": OBJECT}}

CASES: dict[str, Case] = {
    "nothing wrong": crd(),
    "another name": crd(name=f"others.{GROUP}"),
    "no group": crd(group=""),
    "a group without a dot": crd(group="example", name="things.example"),
    "a group that is no domain": crd(group="Example.io", name="things.Example.io"),
    "no scope": crd(scope=""),
    "an unknown scope": crd(scope="Global"),
    "no versions": crd(versions=[]),
    "no schema": crd({"name": "v1", "served": True, "storage": True}),
    "no schema in one of two": crd(version(), {"name": "v2", "served": True, "storage": False}),
    "a version's name": crd(version("V_1", storage=True)),
    "two versions of a name": crd(version(), version(storage=False)),
    "no storage version": crd(version(storage=False)),
    "two storage versions": crd(version(), version("v2", storage=True)),
    "no plural": crd(names=kind_names(plural=""), name=f".{GROUP}"),
    "no kind": crd(names={"plural": "things"}),
    "a plural with capitals": crd(names=kind_names(plural="Things"), name=f"Things.{GROUP}"),
    "a singular with a dot": crd(names=kind_names(singular="a.b")),
    "a kind with an underscore": crd(names=kind_names(kind="Thing_1")),
    "kind and list kind alike": crd(names=kind_names(listKind="Thing")),
    "short names and categories": crd(names=kind_names(shortNames=["ok", "NO", "a_b"], categories=["all", "A B"])),
    "preserveUnknownFields": crd(preserveUnknownFields=True),
    "a protected group": crd(group="things.k8s.io", name="things.things.k8s.io"),
    "a protected group, approved": crd(
        group="things.k8s.io",
        name="things.things.k8s.io",
        annotations={"api-approved.kubernetes.io": "https://github.com/kubernetes/kubernetes/pull/1"},
    ),
    "a protected group, badly approved": crd(
        group="things.k8s.io", name="things.things.k8s.io", annotations={"api-approved.kubernetes.io": "yes"}
    ),
    "a protected group, unapproved": crd(
        group="things.k8s.io",
        name="things.things.k8s.io",
        annotations={"api-approved.kubernetes.io": "unapproved, for tests"},
    ),
    "a conversion strategy": crd(conversion={"strategy": "Magic"}),
    "no conversion strategy": crd(conversion={"strategy": ""}),
    "a webhook without the strategy": crd(
        conversion={"strategy": "None", "webhook": {"conversionReviewVersions": ["v1"]}}
    ),
    "a deprecation warning": crd(version(deprecationWarning="old")),
    "an empty deprecation warning": crd(version(deprecated=True, deprecationWarning="")),
    "a long deprecation warning": crd(version(deprecated=True, deprecationWarning="x" * 257)),
    "an unprintable deprecation warning": crd(version(deprecated=True, deprecationWarning="a\nb")),
    # columns, subresources, selectable fields
    "a column without anything": crd(version(additionalPrinterColumns=[{"name": "", "type": "", "jsonPath": ""}])),
    "a column's type": crd(version(additionalPrinterColumns=[{"name": "A", "type": "text", "jsonPath": ".a"}])),
    "a column's format": crd(
        version(additionalPrinterColumns=[{"name": "A", "type": "string", "format": "x", "jsonPath": ".a"}])
    ),
    "a column's path": crd(version(additionalPrinterColumns=[{"name": "A", "type": "string", "jsonPath": "spec"}])),
    "columns in one of two versions": crd(
        version(additionalPrinterColumns=[{"name": "A", "type": "text", "jsonPath": ".a"}]), version("v2", TWO)
    ),
    "scale without paths": crd(version(subresources={"scale": {"specReplicasPath": "", "statusReplicasPath": ""}})),
    "scale with wrong paths": crd(
        version(
            subresources={
                "scale": {"specReplicasPath": ".status.x", "statusReplicasPath": ".spec.x", "labelSelectorPath": ".x"}
            }
        )
    ),
    "scale with paths that are none": crd(
        version(subresources={"scale": {**SCALE, "specReplicasPath": "x", "labelSelectorPath": "y"}})
    ),
    "good subresources": crd(version(subresources={"status": {}, "scale": SCALE})),
    "selectable fields": crd(
        version(
            schema={**OBJECT, "properties": {"a": TEXT, "b": OBJECT, "c": {"type": "array", "items": TEXT}}},
            selectableFields=[{"jsonPath": ".a"}, {"jsonPath": ".a"}, {"jsonPath": ".b"}, {"jsonPath": ".c"}],
        )
    ),
    "an empty selectable field": crd(version(selectableFields=[{"jsonPath": ""}])),
    "a selectable field of metadata": crd(
        version(
            schema={**OBJECT, "properties": {"metadata": {**OBJECT, "properties": {"name": TEXT}}}},
            selectableFields=[{"jsonPath": ".metadata.name"}],
        )
    ),
    "too many selectable fields": crd(
        version(
            schema={**OBJECT, "properties": {f"f{n}": TEXT for n in range(9)}},
            selectableFields=[{"jsonPath": f".f{n}"} for n in range(9)],
        )
    ),
    # the schema's structure
    "no type at the root": crd(version(schema={"properties": {}})),
    "another type at the root": crd(version(schema=TEXT)),
    "nullable at the root": crd(version(schema={**OBJECT, "nullable": True})),
    "additionalProperties at the root": crd(version(schema={**OBJECT, "additionalProperties": TEXT})),
    "no type in a field": field({"description": "x"}),
    "no type in items": field({"type": "array", "items": {}}),
    "no items": field({"type": "array"}),
    "an unknown type": field({"type": "text"}),
    "type null": field({"type": "null"}),
    "type and int-or-string": field({"x-kubernetes-int-or-string": True, "x-kubernetes-preserve-unknown-fields": True}),
    "int-or-string with anyOf": field(
        {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
    ),
    "types in anyOf": field({"type": "string", "anyOf": [{"type": "string"}, {"type": "integer"}]}),
    "what no junctor may have": field(
        {
            **OBJECT,
            "properties": {"a": TEXT},
            "allOf": [
                {
                    "properties": {"a": {**TEXT, "default": "x", "title": "t", "description": "d", "nullable": True}},
                    "additionalProperties": TEXT,
                    "x-kubernetes-preserve-unknown-fields": True,
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-int-or-string": True,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["a"],
                    "x-kubernetes-map-type": "atomic",
                }
            ],
        }
    ),
    "metadata in a junctor": crd(version(schema={**OBJECT, "not": {"properties": {"metadata": {"minProperties": 1}}}})),
    "a field only in a junctor at the root": crd(
        version(schema={**OBJECT, "oneOf": [{"required": ["a"], "properties": {"a": {"minLength": 1}}}]})
    ),
    "a pattern": field({**TEXT, "pattern": "["}),
    "uniqueItems": field({"type": "array", "items": TEXT, "uniqueItems": True}),
    "properties and additionalProperties": field({**OBJECT, "properties": {"a": TEXT}, "additionalProperties": TEXT}),
    "what is not supported": field(
        {
            **OBJECT,
            "id": "x",
            "$ref": "#/a",
            "definitions": {"a": TEXT},
            "dependencies": {"a": ["b"]},
            "patternProperties": {"a": TEXT},
            "additionalItems": True,
        }
    ),
    "items as a list": field({"type": "array", "items": [TEXT, TEXT]}),
    "preserve-unknown-fields false": field({**OBJECT, "x-kubernetes-preserve-unknown-fields": False}),
    "metadata with labels": crd(
        version(schema={**OBJECT, "properties": {"metadata": {**OBJECT, "properties": {"labels": OBJECT}}}})
    ),
    "metadata of another type": crd(version(schema={**OBJECT, "properties": {"metadata": TEXT, "kind": OBJECT}})),
    "a default in metadata": crd(
        version(
            schema={
                **OBJECT,
                "properties": {"metadata": {**OBJECT, "properties": {"name": {**TEXT, "default": "x"}}}},
            }
        )
    ),
    "an embedded object without fields": field({**OBJECT, "x-kubernetes-embedded-resource": True}),
    "an embedded text": field({**TEXT, "x-kubernetes-embedded-resource": True}),
    "an embedded object without a type": field(
        {"x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}
    ),
    "an embedded map": field(
        {**OBJECT, "x-kubernetes-embedded-resource": True, "additionalProperties": TEXT},
    ),
    "a root with a junctor and status": crd(
        version(schema={**OBJECT, "minProperties": 1}, subresources={"status": {}}),
    ),
    "a text as the root with status": crd(version(schema=TEXT, subresources={"status": {}})),
    "an embedded object inside metadata": field(
        {
            **OBJECT,
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
            "properties": {
                "metadata": {
                    **OBJECT,
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                }
            },
        }
    ),
    "a good pattern that Python has no words for": field({**TEXT, "pattern": r"^\pL+$"}),
    "items in a junctor": field({"type": "array", "items": TEXT, "not": {"items": {"type": "string"}}}),
    "items only in a junctor at the root": crd(
        version(
            schema={
                **OBJECT,
                "properties": {"a": {"type": "array", "items": TEXT}, "b": OBJECT},
                "allOf": [{"properties": {"a": {"items": {"minLength": 1}}, "b": {"items": {"minLength": 1}}}}],
            }
        )
    ),
    # lists and maps
    "a list map with a list of schemas": field(rows(items=[OBJECT])),
    "a set without items": field({"type": "array", "x-kubernetes-list-type": "set"}),
    "a list type on a text": field({**TEXT, "x-kubernetes-list-type": "set"}),
    "a list type without a type": field(
        {"x-kubernetes-list-type": "set", "x-kubernetes-preserve-unknown-fields": True}
    ),
    "an unknown list type": field({"type": "array", "items": TEXT, "x-kubernetes-list-type": "bag"}),
    "a map type on a list": field({"type": "array", "items": TEXT, "x-kubernetes-map-type": "atomic"}),
    "an unknown map type": field({**OBJECT, "x-kubernetes-map-type": "loose"}),
    "a good list map": field(rows()),
    "a list map without keys": field(rows(keys=())),
    "keys without a list map": field(
        {"type": "array", "items": OBJECT, "x-kubernetes-list-map-keys": ["k"], "x-kubernetes-list-type": "set"}
    ),
    "keys without a list type": field({"type": "array", "items": OBJECT, "x-kubernetes-list-map-keys": ["k"]}),
    "a list map of texts": field(rows(items=TEXT)),
    "a list map's key that is not there": field(rows(keys=["z"])),
    "a list map's key twice": field(rows(keys=["k", "k"])),
    "a list map's key that is optional": field(rows(items={**OBJECT, "properties": {"k": TEXT}})),
    "a list map's key that is nullable": field(
        rows(items={**OBJECT, "required": ["k"], "properties": {"k": {**TEXT, "nullable": True}}})
    ),
    "a list map's key that is an object": field(rows(items={**OBJECT, "required": ["k"], "properties": {"k": OBJECT}})),
    "a list map of nullable items": field(
        rows(items={**OBJECT, "nullable": True, "required": ["k"], "properties": {"k": TEXT}})
    ),
    "a set of objects": field({"type": "array", "x-kubernetes-list-type": "set", "items": OBJECT}),
    "a set of sets": field(
        {
            "type": "array",
            "x-kubernetes-list-type": "set",
            "items": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set"},
        }
    ),
    # defaults
    "a good default": field({**TEXT, "default": "a", "enum": ["a"]}),
    "a default of another type": field({**TEXT, "default": 1}),
    "a default that breaks the schema": field({"type": "integer", "minimum": 5, "default": 1}),
    "a default with unknown fields": field({**OBJECT, "properties": {"a": TEXT}, "default": {"a": "x", "b": 1}}),
    "a null default": field({**TEXT, "default": None}),
    "a default that breaks the schema below": field({**OBJECT, "properties": {"a": TEXT}, "default": {"a": 1}}),
    "a default list that breaks the schema": field({"type": "array", "items": TEXT, "default": ["a", 1]}),
    "a default without what is required": field(
        {**OBJECT, "properties": {"a": TEXT}, "required": ["a"], "default": {}}
    ),
    "a default that is no choice": field({**TEXT, "enum": ["a"], "default": "b"}),
    "a default in items": field(
        {"type": "array", "items": {**OBJECT, "properties": {"a": {**TEXT, "default": 1}}}},
    ),
    "a default with a null": field({**OBJECT, "properties": {"a": TEXT}, "default": {"a": None}}),
    "paths of selectable fields": crd(
        version(
            schema={**OBJECT, "properties": {"a": TEXT}},
            selectableFields=[{"jsonPath": path} for path in ("a", ".x", ".a.b", ".a[0]", "..", ".")],
        )
    ),
    "an embedded object in metadata": field(
        {
            **OBJECT,
            "x-kubernetes-embedded-resource": True,
            "properties": {"metadata": {**OBJECT, "additionalProperties": {**TEXT, "default": "x"}}},
        }
    ),
    # CEL
    "an empty rule": field({**TEXT, "x-kubernetes-validations": [{"rule": " "}]}),
    "a rule over lines without a message": field({**TEXT, "x-kubernetes-validations": [{"rule": "true\n|| false"}]}),
    "a message over lines": field({**TEXT, "x-kubernetes-validations": [{"rule": "true", "message": "a\nb"}]}),
    "an empty message": field({**TEXT, "x-kubernetes-validations": [{"rule": "true", "message": " "}]}),
    "an empty messageExpression": field(
        {**TEXT, "x-kubernetes-validations": [{"rule": "true", "messageExpression": " "}]}
    ),
    "a rule's reason": field({**TEXT, "x-kubernetes-validations": [{"rule": "true", "reason": "Wrong"}]}),
    "a rule's fieldPath": field({**OBJECT, "x-kubernetes-validations": [{"rule": "true", "fieldPath": ".nope"}]}),
    "an empty fieldPath": field({**OBJECT, "x-kubernetes-validations": [{"rule": "true", "fieldPath": " "}]}),
    "a fieldPath over lines": field({**OBJECT, "x-kubernetes-validations": [{"rule": "true", "fieldPath": ".a\n"}]}),
    "optionalOldSelf without oldSelf": field(
        {**TEXT, "x-kubernetes-validations": [{"rule": "true", "optionalOldSelf": True}]}
    ),
    "oldSelf in a list": field(
        {
            "type": "array",
            "maxItems": 5,
            "items": {**TEXT, "maxLength": 5, "x-kubernetes-validations": [{"rule": "self == oldSelf"}]},
        }
    ),
}


CHANGES: dict[str, Case] = {
    "nothing": crd(),
    "another group": crd(group="other.example.io"),
    "another plural": crd(names=kind_names(plural="others")),
    "another kind": crd(names=kind_names(kind="Other", singular="thing")),
    "another scope": crd(scope="Cluster"),
    "another list kind and short names": crd(names=kind_names(listKind="Things", shortNames=["th"])),
    "a version more": crd(version(), version("v2", TWO)),
    "another storage version": crd(version(storage=False), version("v2", TWO, storage=True)),
    "a stored version less": crd(version("v2", TWO, storage=True)),
    "a schema that is none": crd(version(schema=TEXT)),
    "preserveUnknownFields": crd(preserveUnknownFields=True),
}
"""What an established definition like `crd()` is replaced by."""


def decided(body: Case, old: Case | None = None) -> tuple[Case, list[dict[str, str]]]:
    """The stored form and the causes by our rules."""
    rules = definition_rules()
    write = Write(verb="create" if old is None else "update", now=datetime.now(UTC))
    obj, unknown = rules.decode(copy.deepcopy(body))
    assert unknown == []
    rules.default(obj)
    if old is None:
        rules.prepare_create(obj, write)
    else:
        rules.prepare_update(obj, old, write)
    name = body["metadata"]["name"]
    # The request path checks metadata before it asks the rules.
    named = [field_errors.invalid("metadata.name", name, why) for why in names.subdomain(name)]
    causes = [*named, *rules.validate(obj, old, write)]
    return obj, [{"reason": each.reason, "message": each.message, "field": each.field} for each in causes]


def in_order(causes: Iterable[dict[str, str]]) -> list[list[str]]:
    """Causes to compare; a whole schema in a message is left out, since the real server shows its own form of it."""
    return sorted(
        [each["field"], each["reason"], re.sub(r": [{\[].*[}\]]: ((must )?only)", r": {}: \1", each["message"])]
        for each in causes
    )
