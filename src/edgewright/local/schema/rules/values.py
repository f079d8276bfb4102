"""Values as rules see them: fields by their escaped names, numbers of the type that the schema says.

The evaluation of rules calls it. Times, durations and bytes stay texts here, since the library takes no times inside of
values and cuts bytes short at a zero; an expression that makes them of the texts is put before the rule instead.
"""

from __future__ import annotations

import base64
from typing import Any

from edgewright.local.go_format import compact
from edgewright.local.schema import formats
from edgewright.local.schema.correlation import Keyed
from edgewright.local.schema.nodes import Definitions, Node
from edgewright.local.schema.rules.source import escaped
from edgewright.local.schema.value_errors import is_int

_NAME: dict[str, Any] = {"type": "string"}
_IDENTITY = Node(
    {
        "type": "object",
        "properties": {
            "apiVersion": _NAME,
            "kind": _NAME,
            "metadata": {"type": "object", "properties": {"name": _NAME, "generateName": _NAME}},
        },
    },
    Definitions({}),
).properties


def fields(node: Node) -> dict[str, Node]:
    """The fields that rules can know: those of the schema, and of an object with an identity that too."""
    return {**node.properties, **_IDENTITY} if node.embedded else dict(node.properties)


def exposed(node: Node | None) -> bool:
    """Whether rules can see a value at all: what has no type is hidden from them."""
    if node is None:
        return False
    if node.int_or_string:
        return True
    if node.type == "array":
        return exposed(node.items)
    if node.type == "object":
        return not isinstance(node.schema.get("additionalProperties"), dict) or exposed(node.values)
    return node.type in ("string", "boolean", "number", "integer")


def seen(value: Any, node: Node, *, in_map: bool = False) -> Any:
    """A value as a rule sees it; what is in a map no expression before the rule can convert."""
    if isinstance(value, dict):
        return _object(value, node, in_map=in_map)
    if isinstance(value, list):
        return value if node.items is None else [seen(item, node.items, in_map=in_map) for item in value]
    if isinstance(value, str):
        return _text(value, node.format, in_map=in_map) if node.type == "string" else value
    if isinstance(value, float) and node.type == "integer":
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value if is_int(value) and node.type != "number" else float(value)
    return value


def _text(value: str, format_: str, *, in_map: bool) -> Any:
    """A text of a format, in the spelling that the functions that make times and bytes of it understand."""
    if format_ == "byte":
        decoded = base64.urlsafe_b64decode(value.replace("+", "-").replace("/", "_"))
        return decoded if in_map else base64.b64encode(decoded).decode()
    if format_ == "duration" and (nanoseconds := formats.duration(value)) is not None:
        return f"{nanoseconds}ns"
    if format_ == "date-time" and (moment := formats.timestamp(value.upper())) is not None:
        return moment.isoformat()
    return value


def _object(value: dict[str, Any], node: Node, *, in_map: bool) -> dict[str, Any]:
    known = fields(node)
    if not known and node.values is not None:
        return {name: seen(child, node.values, in_map=True) for name, child in value.items()}
    result: dict[str, Any] = {}
    for name, child in value.items():
        if name in known and child is not None:
            result[escaped(name) or f" {name}"] = seen(child, known[name], in_map=in_map)
        elif name not in known:
            # It cannot be named, and counts when objects are compared.
            result[f" {name}"] = child
    return result


def aligned(old: Any, new: Any, node: Node | None) -> Any:
    """The old value with the lists that are sets or maps in the order of the new ones, since theirs does not count."""
    if node is not None and isinstance(old, dict) and isinstance(new, dict):
        return {name: aligned(child, new.get(name), node.child(name)) for name, child in old.items()}
    if node is None or not isinstance(old, list) or not isinstance(new, list):
        return old
    if node.list_type == "map":
        before, after = Keyed(node.list_keys, old), Keyed(node.list_keys, new)
        ordered = [item for item in map(before.find, new) if item is not None]
        return old if len(ordered) != len(old) else [aligned(each, after.find(each), node.items) for each in ordered]
    alike = node.list_type == "set" and sorted(map(compact, old)) == sorted(map(compact, new))
    return new if alike else old


_CONVERSIONS = {"byte": "base64.decode", "duration": "duration", "date-time": "timestamp"}


def conversion(name: str, node: Node, depth: int = 0) -> str | None:
    """An expression that makes times and bytes of the texts in the variable of this name; None where there are none."""
    if node.int_or_string:
        return None
    if node.type == "string":
        if node.format == "date":
            return f"timestamp({name} + 'T00:00:00Z')"
        function = _CONVERSIONS.get(node.format)
        return f"{function}({name})" if function else None
    item = f"item_{depth}"
    if node.type == "array" and node.items is not None:
        inner = conversion(item, node.items, depth + 1)
        return f"{name}.map({item}, {_unless_null(item, inner)})" if inner else None
    if node.type != "object":
        return None
    return _object_conversion(name, node, item, depth)


def _object_conversion(name: str, node: Node, item: str, depth: int) -> str | None:
    known = {key: child for field, child in fields(node).items() if (key := escaped(field)) is not None}
    inner = {key: conversion(item, child, depth + 1) for key, child in known.items()}
    if not any(inner.values()):
        return None
    parts = []
    for key, converted in inner.items():
        field = f"{name}.?{key}"
        parts.append(
            f"?'{key}': {field}.optMap({item}, {_unless_null(item, converted)})" if converted else f"?'{key}': {field}"
        )
    return "{" + ", ".join(parts) + "}"


def _unless_null(name: str, expression: str) -> str:
    return f"{name} == null ? dyn(null) : dyn({expression})"
