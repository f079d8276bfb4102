"""Simple paths into objects, as definitions write them for replicas and selectable fields: `.spec.size`, `.a['b.c']`.

`kinds` reads values with them and the checks of a definition follow them through its schema. They name one field;
wildcards and filters are no part of them.
"""

from __future__ import annotations

import re
from typing import Any

from edgewright.runtime.objects import RawObject

_TOKEN = re.compile(r"'(?:\\.|[^'\\])*'|[.\[\]]|[^.\[\]]+")


class PathFault(Exception):
    """A path leads nowhere; the message says why."""


def steps(path: str) -> tuple[str, ...]:
    """The names of the fields on the way, from the object's root."""
    return tuple(_unquoted(token) for token in _TOKEN.findall(path) if token not in (".", "[", "]"))


def field_at(obj: RawObject, at: tuple[str, ...]) -> Any:
    """The value there, or None."""
    value: Any = obj
    for name in at:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def follow(path: str, schema: RawObject, *, brackets: bool = True) -> RawObject:
    """The schema of the field that a path names, or PathFault; without `brackets` they are refused."""
    tokens = iter(_TOKEN.findall(path))
    for mark in tokens:
        if mark == ".":
            name = _next(tokens)
        elif mark == "[":
            if not brackets:
                raise PathFault("array notation is not allowed")
            name = _next(tokens)
            if len(name) < 2 or name[0] != "'" or name[-1] != "'":
                raise PathFault(f"expected single quoted string but got {name}")
            if (closing := _next(tokens)) != "]":
                raise PathFault(f"expected ] but got {closing}")
        else:
            raise PathFault(f"expected [ or . but got: {mark}")
        schema = _below(schema, _unquoted(name))
    return schema


def _next(tokens: Any) -> str:
    found = next(tokens, None)
    if found is None:
        raise PathFault("unexpected end of JSON path")
    return str(found)


def _below(schema: RawObject, name: str) -> RawObject:
    properties = schema.get("properties")
    child = properties.get(name) if properties else schema.get("additionalProperties")
    if not isinstance(child, dict):
        raise PathFault("does not refer to a valid field")
    return child


def _unquoted(token: str) -> str:
    if len(token) > 1 and token[0] == token[-1] == "'":
        return re.sub(r"\\(.)", r"\1", token[1:-1])
    return token
