"""A schema as a tree of places that is read once and walked for every object.

`compile` creates the root, and pruning, defaulting, validation and rules all walk the same tree. Places are made when
they are first reached and references are followed then, so that types that contain themselves cost nothing before.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from edgewright.local.go_format import compact
from edgewright.runtime.objects import RawObject

_NOTHING: RawObject = {}


class Definitions:
    """Schemas that others refer to by name; each becomes one node, however often it is referred to."""

    def __init__(self, schemas: Mapping[str, RawObject]) -> None:
        self._schemas = schemas
        self._nodes: dict[str, Node] = {}

    def node(self, schema: RawObject) -> Node:
        """The node of a schema, which may be nothing but a reference."""
        name = _reference(schema)
        if name is None:
            return Node(schema, self)
        # What stands next to a reference, a default mostly, holds at this place and others like it only.
        siblings = {key: value for key, value in schema.items() if key not in ("$ref", "allOf", "description")}
        key = f"{name} {compact(siblings)}" if siblings else name
        if key not in self._nodes:
            self._nodes[key] = Node({**self._schemas.get(name, _NOTHING), **siblings}, self)
        return self._nodes[key]


def _reference(schema: RawObject) -> str | None:
    """The name of the definition that a schema refers to, in one of the two ways that OpenAPI documents do."""
    pointer = schema.get("$ref")
    if pointer is None:
        every = schema.get("allOf")
        if every and len(every) == 1:
            pointer = every[0].get("$ref")
    return None if pointer is None else str(pointer).rpartition("/")[2]


class Node:
    """One place in a schema."""

    def __init__(self, schema: RawObject, definitions: Definitions, *, root: bool = False) -> None:
        self.schema = schema
        self._definitions = definitions
        self.type: str = schema.get("type", "")
        self.open = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        """Whether unknown fields stay."""
        self.embedded = root or bool(schema.get("x-kubernetes-embedded-resource"))
        """Whether a whole Kubernetes object is here, which has its metadata unasked."""
        self.nullable = bool(schema.get("nullable"))
        self.default: Any = schema.get("default")
        self.int_or_string = bool(schema.get("x-kubernetes-int-or-string"))
        self.types: tuple[str, ...] = ("integer", "string") if self.int_or_string else (self.type,) if self.type else ()
        """The types of which a value may be; none given allows any."""
        self.format: str = schema.get("format", "")
        self.list_type: str = schema.get("x-kubernetes-list-type", "")
        self.list_keys: tuple[str, ...] = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        self.rules: list[RawObject] = schema.get("x-kubernetes-validations") or []

    def __repr__(self) -> str:
        return f"Node({self.type or 'any'})"

    @cached_property
    def properties(self) -> Mapping[str, Node]:
        """The schemas of the fields that are named."""
        return {name: self._definitions.node(child) for name, child in (self.schema.get("properties") or {}).items()}

    @cached_property
    def values(self) -> Node | None:
        """The schema of further fields, where there may be any."""
        further = self.schema.get("additionalProperties")
        if isinstance(further, dict):
            return self._definitions.node(further)
        return Node(_NOTHING, self._definitions) if further is True else None

    @cached_property
    def items(self) -> Node | None:
        """The schema of a list's items."""
        items = self.schema.get("items")
        return None if items is None else self._definitions.node(items)

    @cached_property
    def any_of(self) -> list[Node]:
        """Alternatives of which one must fit."""
        return self._several("anyOf")

    @cached_property
    def one_of(self) -> list[Node]:
        """Alternatives of which exactly one must fit."""
        return self._several("oneOf")

    @cached_property
    def all_of(self) -> list[Node]:
        """Further demands."""
        return self._several("allOf")

    @cached_property
    def forbidden(self) -> Node | None:
        """What must not fit."""
        schema = self.schema.get("not")
        return None if schema is None else self._definitions.node(schema)

    def child(self, name: str) -> Node | None:
        """The schema of a field, if it is known."""
        return self.properties.get(name, self.values)

    def opened(self) -> Node:
        """The same place, with unknown fields staying."""
        return Node({**self.schema, "x-kubernetes-preserve-unknown-fields": True}, self._definitions)

    def _several(self, key: str) -> list[Node]:
        return [self._definitions.node(each) for each in self.schema.get(key) or ()]
