"""What the structural schema of a CRD version does to an object: unknown fields go, defaults come in.

The request path compiles a schema once, when its CRD is served, and calls `default` and then `prune` for each body. The
object that is given is never changed; whether its values are allowed is not decided here.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgewright.runtime.objects import RawObject

__all__ = ["Compiled", "compile"]

_IDENTITY = frozenset({"apiVersion", "kind", "metadata"})


@dataclass(frozen=True, kw_only=True)
class _Node:
    """One place in a schema, with what pruning and defaulting need to know of it."""

    properties: Mapping[str, _Node] = field(default_factory=dict)
    values: _Node | None = None
    """The schema of further properties, where there are any."""
    items: _Node | None = None
    open: bool = False
    """Whether unknown fields stay."""
    embedded: bool = False
    """Whether a whole Kubernetes object is here, which has its metadata unasked."""
    nullable: bool = False
    default: Any = None

    def child(self, name: str) -> _Node | None:
        """The schema of a field, if it is known."""
        return self.properties.get(name, self.values)


@dataclass(frozen=True)
class Compiled:
    """A schema that is ready to be applied to objects."""

    _root: _Node

    def prune(self, obj: RawObject) -> tuple[RawObject, list[str]]:
        """The object without the fields that the schema does not know, and the sorted paths of those."""
        dropped: list[str] = []
        return _pruned(obj, self._root, "", dropped), sorted(dropped)

    def default(self, obj: RawObject) -> RawObject:
        """The object with defaults in; a null where none is allowed gives way to the default, or goes."""
        filled = copy.deepcopy(obj)
        _drop_nulls(filled, self._root)
        _fill(filled, self._root)
        return filled


def compile(schema: RawObject) -> Compiled:  # noqa: A001  schema.compile() reads as re.compile() does
    """Takes the `openAPIV3Schema` of a version, which must be structural."""
    root = _node(schema)
    return Compiled(
        _Node(properties=root.properties, values=root.values, items=root.items, open=root.open, embedded=True)
    )


def _node(schema: RawObject) -> _Node:
    further = schema.get("additionalProperties")
    values = None
    if isinstance(further, dict):
        values = _node(further)
    elif further is True:
        values = _Node()
    items = schema.get("items")
    return _Node(
        properties={name: _node(child) for name, child in schema.get("properties", {}).items()},
        values=values,
        items=_node(items) if items is not None else None,
        open=bool(schema.get("x-kubernetes-preserve-unknown-fields")),
        embedded=bool(schema.get("x-kubernetes-embedded-resource")),
        nullable=bool(schema.get("nullable")),
        default=schema.get("default"),
    )


def _pruned(value: Any, node: _Node | None, path: str, dropped: list[str]) -> Any:
    """A copy of the value; an unknown node keeps nothing of an object."""
    if isinstance(value, dict):
        return _pruned_object(value, node, path, dropped)
    if isinstance(value, list):
        # In a list under an open node everything stays down to the next node that is known and not open.
        items = node.items if node else None
        if node is not None and node.open:
            items = _Node(
                properties=items.properties if items else {},
                values=items.values if items else None,
                items=items.items if items else None,
                embedded=bool(items and items.embedded),
                open=True,
            )
        return [_pruned(item, items, f"{path}[{index}]", dropped) for index, item in enumerate(value)]
    return value


def _pruned_object(value: RawObject, node: _Node | None, path: str, dropped: list[str]) -> RawObject:
    kept: RawObject = {}
    for name, child in value.items():
        below = f"{path}.{name}" if path else name
        known = node.child(name) if node else None
        if node is not None and node.embedded and name in _IDENTITY:
            kept[name] = copy.deepcopy(child)
        elif known is not None:
            kept[name] = _pruned(child, known, below, dropped)
        elif node is not None and node.open:
            kept[name] = copy.deepcopy(child)
        else:
            dropped.append(below)
    return kept


def _drop_nulls(value: Any, node: _Node | None) -> None:
    """Removes each null that is not allowed and has no default to take its place."""
    if node is None:
        return
    if isinstance(value, dict):
        for name in list(value):
            known = node.child(name)
            if value[name] is None and known is not None and not known.nullable and known.default is None:
                del value[name]
            else:
                _drop_nulls(value[name], known)
    elif isinstance(value, list):
        for item in value:
            _drop_nulls(item, node.items)


def _fill(value: Any, node: _Node | None) -> None:
    """Puts defaults in, outer ones first, since a default may have fields that have defaults."""
    if node is None:
        return
    if isinstance(value, dict):
        for name, known in node.properties.items():
            if known.default is not None and name not in value:
                value[name] = copy.deepcopy(known.default)
        for name in value:
            below = node.child(name)
            if value[name] is None and below is not None and not below.nullable:
                value[name] = copy.deepcopy(below.default)
            _fill(value[name], below)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if item is None and node.items is not None and not node.items.nullable:
                value[index] = copy.deepcopy(node.items.default)
            _fill(value[index], node.items)
