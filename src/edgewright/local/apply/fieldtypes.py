"""How the fields of a kind are merged: what a schema says of lists, maps and keys, read lazily since schemas recurse.

The request path compiles each served schema once; `strategic`, `compare`, `combine` and `apply` walk objects along the
result. It takes schemas as OpenAPI v3 publishes them, and never checks an object.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from edgewright.runtime.objects import RawObject

NUMERIC, STRING, BOOLEAN, UNTYPED = "numeric", "string", "boolean", "untyped"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
_RAW_EXTENSION = "io.k8s.apimachinery.pkg.runtime.RawExtension"
_ZEROS = {"string": "", "integer": 0, "number": 0, "boolean": False}


@dataclass(frozen=True)
class PatchStrategy:
    """What a strategic merge patch does with a field."""

    merges: bool = False
    """Whether a list is merged with the patch's; else it is replaced."""
    replaces: bool = False
    """Whether a map is replaced by the patch's; else it is merged."""
    key: str = ""
    """The field by which items of a merged list are told apart; none for a list of plain values."""


class FieldType:
    """What a value may be (a scalar, a list, a map, or any of them) and how each is merged and owned."""

    scalar: str = ""
    """NUMERIC, STRING, BOOLEAN or UNTYPED where a plain value may stand here."""
    name: str = ""
    """The last part of the definition's name, where it has one: `PodSpec`."""
    patch = PatchStrategy()

    @property
    def items(self) -> ListType | None:
        """How a list is treated here, where one may stand."""
        return None

    @property
    def members(self) -> MapType | None:
        """How a map is treated here, where one may stand."""
        return None


class ListType:
    """A list: one value as a whole, a set of plain values, or maps told apart by their keys."""

    atomic: bool = True
    keys: tuple[str, ...] = ()

    @property
    def element(self) -> FieldType:
        """What an item is."""
        return ATOMIC

    def default(self, key: str) -> Any:
        """What an item without this key counts as having there."""
        members = self.element.members
        return members.defaults.get(key) if members else None


class MapType:
    """A map: one value as a whole, or fields of their own."""

    atomic: bool = True

    @property
    def fields(self) -> Mapping[str, FieldType]:
        """The fields that the schema names."""
        return {}

    @property
    def defaults(self) -> Mapping[str, Any]:
        """What fields that the schema names are when they are left out."""
        return {}

    @property
    def element(self) -> FieldType | None:
        """What any other field is; None where there may be none."""
        return ATOMIC

    def member(self, name: str) -> FieldType:
        """What a field is; one that should not be there is taken as it comes."""
        found = self.fields.get(name)
        return found if found is not None else (self.element or DEDUCED)

    def declares(self, name: str) -> bool:
        """Whether there may be such a field."""
        return name in self.fields or self.element is not None

    def zero(self) -> RawObject:
        """The fields that an empty object of a built-in kind has all the same."""
        return {}

    @property
    def untyped(self) -> bool:
        """Whether it is a map of anything, of which the schema says nothing."""
        return not self.fields and self.element is DEDUCED


class _Anything(FieldType):
    """What a schema says nothing of: lists are one value; maps too, or each of their fields is again anything."""

    scalar = UNTYPED

    def __init__(self, *, atomic: bool) -> None:
        self._members = MapType() if atomic else _DeducedMap()

    @property
    def items(self) -> ListType:
        return _ATOMIC_LIST

    @property
    def members(self) -> MapType:
        return self._members


class _DeducedMap(MapType):
    atomic = False

    @property
    def element(self) -> FieldType:
        return DEDUCED


_ATOMIC_LIST = ListType()
ATOMIC: FieldType = _Anything(atomic=True)
"""Anything, owned and merged as one value."""
DEDUCED: FieldType = _Anything(atomic=False)
"""Anything, where each field of a map is owned by itself."""


def compile(schema: RawObject, definitions: Mapping[str, RawObject]) -> FieldType:  # noqa: A001 - the domain's word
    """What a kind's published schema says of its fields; references are looked up in `definitions` when walked."""
    return _Definitions(definitions).type_of(schema, preserve=False)


def zero(fields: FieldType) -> RawObject:
    """An empty object, only to be read: fields that a built-in kind always has are there with nothing in them.

    They are told apart by metadata: no schema of a custom kind can give it a default, that of a built-in kind does.
    """
    members = fields.members
    return members.zero() if members is not None and "metadata" in members.defaults else {}


class _Definitions:
    """The named schemas of a compilation, each compiled once."""

    def __init__(self, definitions: Mapping[str, RawObject]) -> None:
        self._definitions = definitions
        self._named: dict[str, FieldType] = {}

    def type_of(self, schema: RawObject, *, preserve: bool) -> FieldType:
        """A schema's type. `preserve` says that a schema around it keeps fields that it does not name."""
        name = _referenced(schema)
        if not name:
            return _Declared(self, schema, preserve=preserve)
        overrides = {key: value for key, value in schema.items() if key.startswith("x-kubernetes-")}
        if overrides:
            return self._resolved(name, overrides)
        if name not in self._named:
            self._named[name] = self._resolved(name, {})
        return self._named[name]

    def _resolved(self, name: str, overrides: RawObject) -> FieldType:
        if name == _RAW_EXTENSION:
            return ATOMIC
        target = self._definitions.get(name)
        if target is None:
            return DEDUCED
        if name == _QUANTITY:
            return _Quantity()
        return _Declared(self, {**target, **overrides}, preserve=False, name=name.rpartition(".")[2])


def _referenced(schema: RawObject) -> str:
    """The name that a schema refers to, directly or by an allOf of one."""
    parts: list[RawObject] = schema.get("allOf") or []
    reference = schema.get("$ref") or (parts[0].get("$ref") if len(parts) == 1 else "")
    return str(reference or "").rpartition("/")[2]


class _Quantity(FieldType):
    scalar = UNTYPED


class _Declared(FieldType):
    """A type from a schema of its own."""

    def __init__(self, definitions: _Definitions, schema: RawObject, *, preserve: bool, name: str = "") -> None:
        self._definitions = definitions
        self._schema = schema
        self.name = name
        self._preserve = preserve or schema.get("x-kubernetes-preserve-unknown-fields") is True
        self._type = schema.get("type", "")
        self.scalar = _scalar(schema)
        strategy = str(schema.get("x-kubernetes-patch-strategy", "")).split(",")
        self.patch = PatchStrategy(
            merges="merge" in strategy,
            replaces="replace" in strategy,
            key=schema.get("x-kubernetes-patch-merge-key", ""),
        )

    @cached_property
    def items(self) -> ListType | None:
        return _DeclaredList(self._definitions, self._schema, self._preserve) if self._type in ("", "array") else None

    @cached_property
    def members(self) -> MapType | None:
        return _DeclaredMap(self._definitions, self._schema, self._preserve) if self._type in ("", "object") else None


def _scalar(schema: RawObject) -> str:
    match schema.get("type", ""):
        case "integer" | "number":
            return NUMERIC
        case "boolean":
            return BOOLEAN
        case "string":
            return STRING if schema.get("format", "") in ("", "byte") else UNTYPED
        case "object" | "array":
            return ""
    return UNTYPED


class _DeclaredList(ListType):
    def __init__(self, definitions: _Definitions, schema: RawObject, preserve: bool) -> None:
        self._definitions = definitions
        self._items = schema.get("items")
        self._preserve = preserve
        listed = schema.get("x-kubernetes-list-type")
        strategy = schema.get("x-kubernetes-patch-strategy", "")
        if listed is not None:
            self.atomic = listed not in ("set", "map")
            self.keys = tuple(schema.get("x-kubernetes-list-map-keys") or ()) if listed == "map" else ()
        elif strategy in ("merge", "merge,retainKeys"):
            # Lists that say nothing to server-side apply are merged as a strategic merge patch does it.
            self.atomic = False
            key = schema.get("x-kubernetes-patch-merge-key")
            self.keys = (key,) if key else ()

    @cached_property
    def element(self) -> FieldType:
        if not isinstance(self._items, dict):
            return ATOMIC
        return self._definitions.type_of(self._items, preserve=self._preserve)


class _DeclaredMap(MapType):
    def __init__(self, definitions: _Definitions, schema: RawObject, preserve: bool) -> None:
        self._definitions = definitions
        self._schema = schema
        self._preserve = preserve
        self.atomic = schema.get("x-kubernetes-map-type") == "atomic"

    @cached_property
    def fields(self) -> Mapping[str, FieldType]:
        properties: Mapping[str, RawObject] = self._schema.get("properties") or {}
        return {n: self._definitions.type_of(each, preserve=self._preserve) for n, each in properties.items()}

    @cached_property
    def defaults(self) -> Mapping[str, Any]:
        properties: Mapping[str, RawObject] = self._schema.get("properties") or {}
        return {name: each["default"] for name, each in properties.items() if each.get("default") is not None}

    @cached_property
    def element(self) -> FieldType | None:
        more = self._schema.get("additionalProperties")
        if isinstance(more, dict):
            return self._definitions.type_of(more, preserve=self._preserve)
        if more is None:
            return DEDUCED if self._preserve or not self._schema.get("properties") else None
        return DEDUCED if more else None

    def zero(self) -> RawObject:
        return self._zero

    @cached_property
    def _zero(self) -> RawObject:
        required = self._schema.get("required") or ()
        empty: RawObject = {}
        for name, schema in (self._schema.get("properties") or {}).items():
            field = self.fields[name]
            default = schema.get("default")
            if default == {} and field.members is not None and _referenced(schema):
                empty[name] = field.members.zero()
            elif default is not None and default == _ZEROS.get(schema.get("type", "")):
                empty[name] = default
            elif name in required and default is None and schema.get("type") in ("array", "object"):
                empty[name] = None
        return empty
