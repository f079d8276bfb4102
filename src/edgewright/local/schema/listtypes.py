"""Lists that are sets or maps hold nothing twice.

`Compiled.validate` calls it. Only duplicates are looked for; whether the items are right is checked elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgewright.local.go_format import compact
from edgewright.local.schema import value_errors
from edgewright.local.schema.nodes import Node
from edgewright.runtime.errors import Cause

_MISSING = object()


def duplicates(value: Any, node: Node | None, path: str = "") -> list[Cause]:
    """The items that are in a set, or whose keys are in a map, for the second time."""
    if node is None:
        return []
    found: list[Cause] = []
    if isinstance(value, list):
        if node.list_type == "set":
            found += [value_errors.duplicate(f"{path}[{index}]", value[index]) for index in _repeated(value)]
        elif node.list_type == "map":
            found += _repeated_keys(value, node.list_keys, path)
        for index, item in enumerate(value):
            found += duplicates(item, node.items, f"{path}[{index}]")
    elif isinstance(value, dict):
        for name, child in value.items():
            if node.values is not None:
                found += duplicates(child, node.values, f"{path}[{name}]")
            if name in node.properties:
                found += duplicates(child, node.properties[name], f"{path}.{name}" if path else name)
    return found


def _repeated_keys(items: list[Any], keys: Sequence[str], path: str) -> list[Cause]:
    for index, item in enumerate(items):
        if item is not None and not isinstance(item, dict):
            return [value_errors.invalid(f"{path}[{index}]", item, "must be an object for an array of list-type map")]
    named = [{key: item[key] for key in keys if key in item} if item else {} for item in items]
    single = [each.get(keys[0], _MISSING) for each in named] if len(keys) == 1 else named
    return [value_errors.duplicate(f"{path}[{index}]", named[index]) for index in _repeated(single)]


def _repeated(items: Sequence[Any]) -> list[int]:
    """Where items come for the second time; a third time is not named again."""
    seen: dict[Any, int] = {}
    repeated = []
    for index, item in enumerate(items):
        key = (type(item), compact(item) if isinstance(item, dict | list) else item)
        seen[key] = seen.get(key, 0) + 1
        if seen[key] == 2:
            repeated.append(index)
    return repeated
