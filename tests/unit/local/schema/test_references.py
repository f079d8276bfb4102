"""Schemas that refer to definitions, and definitions that contain themselves."""

from __future__ import annotations

from typing import Any

from edgewright.local import schema

DEFINITIONS: dict[str, Any] = {
    "io.k8s.Tree": {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": {"type": "string"},
            "size": {"type": "integer", "default": 1},
            "left": {"$ref": "#/components/schemas/io.k8s.Tree"},
            "right": {"allOf": [{"$ref": "#/components/schemas/io.k8s.Tree"}], "default": {"name": "leaf"}},
            "many": {"type": "array", "items": {"$ref": "#/definitions/io.k8s.Tree"}},
            "named": {"type": "object", "additionalProperties": {"$ref": "#/definitions/io.k8s.Tree"}},
            "lost": {"$ref": "#/definitions/io.k8s.Nothing"},
        },
    }
}
LEFT = {"properties": {"spec": {"allOf": [{"$ref": "#/components/schemas/io.k8s.Tree"}], "description": "a tree"}}}


def test_unknown_fields_are_found_below_references() -> None:
    compiled = schema.compile(LEFT, DEFINITIONS)
    tree = {"name": "a", "x": 1, "left": {"name": "b", "left": {"name": "c", "y": 1}}, "named": {"d": {"z": 1}}}
    pruned, dropped = compiled.prune({"spec": tree})
    assert dropped == ["spec.left.left.y", "spec.named.d.z", "spec.x"]
    assert pruned["spec"]["left"]["left"] == {"name": "c"}


def test_a_default_next_to_a_reference_holds_where_it_is_written() -> None:
    definitions = {"a": {"type": "object", "properties": {"b": {"type": "string", "default": "c"}}}}
    properties = {
        "plain": {"$ref": "#/definitions/a"},
        "filled": {"allOf": [{"$ref": "#/definitions/a"}], "default": {}},
        "other": {"allOf": [{"$ref": "#/definitions/a"}], "default": {"b": "d"}},
    }
    compiled = schema.compile({"properties": properties}, definitions)
    assert compiled.default({}) == {"filled": {"b": "c"}, "other": {"b": "d"}}
    assert compiled.default({"plain": {}})["plain"] == {"b": "c"}


def test_values_are_checked_below_references() -> None:
    compiled = schema.compile(LEFT, DEFINITIONS)
    found = compiled.validate({"spec": {"left": {"name": 1, "many": [{"name": "a", "size": "x"}]}}})
    assert sorted(cause.field for cause in found) == ["spec.left.many[0].size", "spec.left.name", "spec.name"]


def test_types_that_contain_themselves_have_no_rules_for_ever() -> None:
    compiled = schema.compile(LEFT, DEFINITIONS)
    assert compiled.validate({"spec": {"name": "a", "right": {"name": "b", "right": {"name": "c"}}, "lost": 1}}) == []
