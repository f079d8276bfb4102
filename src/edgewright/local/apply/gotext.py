"""Values as Go prints them, since sentences of the real server carry them.

`strategic` and `combine` put them into refusals. Nothing here decides anything.
"""

from __future__ import annotations

from typing import Any

from edgewright.local.go_format import number, quote

_TYPES = {dict: "map[string]interface {}", list: "[]interface {}", str: "string", bool: "bool", int: "int64"}


def printed(value: Any) -> str:
    """A value as `%v` prints it."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{name}:{printed(value[name])}" for name in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(map(printed, value)) + "]"
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    return number(value) if isinstance(value, int | float) else str(value)


def literal(value: Any) -> str:
    """A value as `%#v` prints it."""
    if isinstance(value, dict):
        return _TYPES[dict] + "{" + ", ".join(f"{quote(name)}:{literal(value[name])}" for name in sorted(value)) + "}"
    if isinstance(value, list):
        return _TYPES[list] + "{" + ", ".join(map(literal, value)) + "}"
    if value is None:
        return "interface {}(nil)"
    return quote(value) if isinstance(value, str) else printed(value)


def type_name(value: Any) -> str:
    """The type of a value as `%T` prints it."""
    return "float64" if isinstance(value, float) else _TYPES.get(type(value), "<nil>")
