"""From a chart's values.schema.json to the schema of a definition."""

from __future__ import annotations

from typing import Any

import pytest

from edgewright.cli.chart_schema import structural

FREE = {"x-kubernetes-preserve-unknown-fields": True}


def of_property(schema: Any, **root: Any) -> Any:
    whole = {"type": "object", "properties": {"a": schema}, "additionalProperties": False, **root}
    return structural(whole)["properties"]["a"]


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (
            {"type": "string", "description": "d", "default": "x", "minLength": 1, "examples": ["y"]},
            {"type": "string", "description": "d", "default": "x", "minLength": 1},
        ),
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        ({"type": ["integer", "number"]}, {"type": "number"}),
        ({"type": ["string", "integer"], "description": "d"}, {"description": "d", **FREE}),
        ({"type": "integer", "exclusiveMinimum": 0}, {"type": "integer", "exclusiveMinimum": True, "minimum": 0}),
        (
            {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
            {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
        ),
        ({"type": "string", "enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
        ({"type": "string", "const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"type": "string", "enum": ["a", 1]}, {"type": "string"}),
        ({"type": "integer", "default": "x"}, {"type": "integer"}),
        ({"type": "boolean", "default": True}, {"type": "boolean", "default": True}),
        ({"type": "integer", "default": True}, {"type": "integer"}),
        ({"type": "array", "items": {"type": "string"}}, {"type": "array", "items": {"type": "string"}}),
        ({"type": "array", "uniqueItems": True}, {"type": "array", "items": FREE}),
        ({"type": "object"}, {"type": "object", **FREE}),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"type": "object", "additionalProperties": {"type": "string"}},
        ),
        (
            {"properties": {"b": {"type": "string"}}, "required": ["b"]},
            {"type": "object", "properties": {"b": {"type": "string"}}, "required": ["b"], **FREE},
        ),
        (True, FREE),
        ({"oneOf": [{"type": "string"}]}, FREE),
    ],
)
def test_what_a_definition_can_say_is_kept(given: Any, found: Any) -> None:
    assert of_property(given) == found


def test_references_within_the_file_are_followed() -> None:
    definitions = {"port": {"type": "integer", "maximum": 65535}, "loop": {"$ref": "#/definitions/loop"}}
    assert of_property({"$ref": "#/definitions/port", "description": "d"}, definitions=definitions) == {
        "type": "integer",
        "maximum": 65535,
        "description": "d",
    }
    assert of_property({"$ref": "#/definitions/loop"}, definitions=definitions) == FREE
    assert of_property({"$ref": "https://example.com/x.json"}) == FREE
    assert of_property({"$ref": "#/definitions/none"}) == FREE


def test_a_schema_that_contains_itself_ends() -> None:
    branches = {name: {"$ref": "#/$defs/tree"} for name in ("left", "right")}
    tree = {"type": "object", "properties": {"root": {"$ref": "#"}, **branches}}
    found = structural({**tree, "$defs": {"tree": tree}})
    inside = found["properties"]["left"]["properties"]
    assert (inside["left"], inside["root"]) == (FREE, FREE)


def test_what_is_no_object_is_free() -> None:
    assert structural({"type": "string"}) == {"type": "object", **FREE}
