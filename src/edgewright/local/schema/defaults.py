"""Unknown fields go and defaults come in, as the schema says.

`Compiled` calls these for each body that is written. The object that is given to `prune` is never changed; whether its
values are allowed is not decided here.
"""

from __future__ import annotations

from typing import Any

from edgewright.local.schema.nodes import Definitions, Node
from edgewright.runtime.objects import RawObject

_IDENTITY = frozenset({"apiVersion", "kind", "metadata"})
_OPEN = Node({"x-kubernetes-preserve-unknown-fields": True}, Definitions({}))


def clone(value: Any) -> Any:
    """A copy of a JSON value, down to the last list."""
    if isinstance(value, dict):
        return {name: clone(child) for name, child in value.items()}
    return [clone(item) for item in value] if isinstance(value, list) else value


def prune(value: Any, node: Node | None, path: str, dropped: list[str]) -> Any:
    """A copy of the value without unknown fields, whose paths are added to `dropped`; no node keeps nothing."""
    if isinstance(value, dict):
        return _pruned_object(value, node, path, dropped)
    if isinstance(value, list):
        # In a list under an open node everything stays down to the next node that is known and not open.
        items = node.items if node else None
        if node is not None and node.open:
            items = items.opened() if items else _OPEN
        return [prune(item, items, f"{path}[{index}]", dropped) for index, item in enumerate(value)]
    return value


def _pruned_object(value: RawObject, node: Node | None, path: str, dropped: list[str]) -> RawObject:
    kept: RawObject = {}
    for name, child in value.items():
        below = f"{path}.{name}" if path else name
        known = node.child(name) if node else None
        if node is not None and node.embedded and name in _IDENTITY:
            kept[name] = clone(child)
        elif known is not None:
            kept[name] = prune(child, known, below, dropped)
        elif node is not None and node.open:
            kept[name] = clone(child)
        else:
            dropped.append(below)
    return kept


def drop_nulls(value: Any, node: Node | None) -> None:
    """Removes each null that is not allowed and has no default to take its place."""
    if node is None:
        return
    if isinstance(value, dict):
        for name in list(value):
            known = node.child(name)
            if value[name] is None and known is not None and not known.nullable and known.default is None:
                del value[name]
            else:
                drop_nulls(value[name], known)
    elif isinstance(value, list):
        for item in value:
            drop_nulls(item, node.items)


def fill(value: Any, node: Node | None) -> None:
    """Puts defaults in, outer ones first, since a default may have fields that have defaults."""
    if node is None:
        return
    if isinstance(value, dict):
        for name, known in node.properties.items():
            if known.default is not None and name not in value:
                value[name] = clone(known.default)
        for name in value:
            below = node.child(name)
            if value[name] is None and below is not None and not below.nullable:
                value[name] = clone(below.default)
            fill(value[name], below)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if item is None and node.items is not None and not node.items.nullable:
                value[index] = clone(node.items.default)
            fill(value[index], node.items)
