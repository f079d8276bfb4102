"""The schema of a kind's spec from a chart's values.schema.json: a structural schema that an API server takes.

`chart_project` asks for it when it writes a definition. Types, limits, enums, defaults and descriptions are kept. What
a definition cannot say (conditions, patterns of names, references outside the file) is left out: Helm checks values
against the whole schema again. Pure functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "object", "array"})
_KEPT: Final = (
    "title",
    "description",
    "format",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
)
_LIMITS: Final = {"exclusiveMinimum": "minimum", "exclusiveMaximum": "maximum"}
_FREE: Final = {"x-kubernetes-preserve-unknown-fields": True}
_NOT_ALLOWED: Final = frozenset({"uniqueItems"})
"""The API server refuses definitions that ask for it."""


def structural(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of the spec; free where the chart's schema does not say that it is an object."""
    found = _converted(schema, schema, frozenset())
    if found.get("type") != "object":
        return {"type": "object", **_FREE}
    return found


def _converted(given: Any, root: Mapping[str, Any], above: frozenset[str]) -> dict[str, Any]:
    """One schema; `above` are the references that led here: a schema may contain itself, a definition may not."""
    schema, followed = _resolved(given, root)
    if not isinstance(schema, Mapping) or followed & above:
        return dict(_FREE)
    above |= followed
    type_, nullable = _type(schema)
    if type_ is None:
        described = {"description": schema["description"]} if isinstance(schema.get("description"), str) else {}
        return {**described, **_FREE}
    found: dict[str, Any] = {"type": type_}
    found.update({key: schema[key] for key in _KEPT if key in schema and key not in _NOT_ALLOWED})
    found.update(_limits(schema))
    if nullable:
        found["nullable"] = True
    choices = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if (
        isinstance(choices, list)
        and choices
        and all(_fits(each, type_) or (each is None and nullable) for each in choices)
    ):
        found["enum"] = choices
    if type_ == "object":
        found.update(_object(schema, root, above))
    if type_ == "array":
        items = schema.get("items")
        found["items"] = _converted(items, root, above) if isinstance(items, Mapping) else dict(_FREE)
    if "default" in schema and (_fits(schema["default"], type_) or (schema["default"] is None and nullable)):
        found["default"] = schema["default"]
    return found


def _object(schema: Mapping[str, Any], root: Mapping[str, Any], above: frozenset[str]) -> dict[str, Any]:
    properties, others = schema.get("properties"), schema.get("additionalProperties")
    found: dict[str, Any] = {}
    if isinstance(properties, Mapping) and properties:
        found["properties"] = {str(name): _converted(each, root, above) for name, each in properties.items()}
        required = schema.get("required")
        if isinstance(required, list) and all(isinstance(each, str) for each in required) and required:
            found["required"] = required
        if others is not False:
            found.update(_FREE)
    elif isinstance(others, Mapping) and "patternProperties" not in schema:
        found["additionalProperties"] = _converted(others, root, above)
    else:
        found.update(_FREE)
    return found


def _type(schema: Mapping[str, Any]) -> tuple[str | None, bool]:
    """The type, and whether null is one too; None where it is several, or not said."""
    given = schema.get("type")
    if given is None and isinstance(schema.get("properties"), Mapping):
        given = "object"
    types = given if isinstance(given, list) else [given]
    nullable = "null" in types
    rest = [each for each in types if each != "null"]
    if set(rest) == {"integer", "number"}:
        rest = ["number"]
    if len(rest) != 1 or rest[0] not in _TYPES:
        return None, nullable
    return rest[0], nullable


def _limits(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Limits that may not be reached: a number of their own in newer schemas, a truth value in definitions."""
    found: dict[str, Any] = {}
    for name, limit in _LIMITS.items():
        value = schema.get(name)
        if isinstance(value, bool):
            found.update({name: value} if limit in schema else {})
        elif isinstance(value, int | float):
            found.update({name: True, limit: value})
    return found


def _resolved(given: Any, root: Mapping[str, Any]) -> tuple[Any, frozenset[str]]:
    """What references within the file lead to, and which they were; what is said next to one goes over that."""
    seen: set[str] = set()
    while isinstance(given, Mapping) and isinstance(given.get("$ref"), str):
        reference = given["$ref"]
        if not reference.startswith("#/") or reference in seen:
            return None, frozenset()
        seen.add(reference)
        found: Any = root
        for step in reference[2:].split("/"):
            found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
        if not isinstance(found, Mapping):
            return None, frozenset()
        given = {**found, **{key: value for key, value in given.items() if key != "$ref"}}
    return given, frozenset(seen)


def _fits(value: Any, type_: str) -> bool:
    """Whether a value is of a type; the API server refuses a definition with a default that is not."""
    if isinstance(value, bool):
        return type_ == "boolean"
    fits: dict[str, bool] = {
        "string": isinstance(value, str),
        "integer": isinstance(value, int),
        "number": isinstance(value, int | float),
        "object": value == {},
        "array": value == [],
    }
    return fits.get(type_, False)
