"""Turns a struct type into the structural OpenAPI v3 schema that the API server enforces for it.

Called by `crd` for each version of a kind. The Python type gives the shape, `annotations.Schema` the limits, docstrings
the descriptions. What a structural schema cannot express is an error that names the class and the field: nothing is
ever published that says less than the struct does.
"""

from __future__ import annotations

import types
from dataclasses import dataclass, replace
from datetime import date, datetime
from enum import Enum
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

import msgspec

from edgewright.api.annotations import Rule, Scalar, Schema
from edgewright.api.conditions import CONDITION_SCHEMA
from edgewright.api.docstrings import class_description, field_descriptions
from edgewright.runtime.objects import Condition, ObjectMeta, Resource

JsonSchema: TypeAlias = dict[str, Any]

_ANY_TYPE = frozenset({"required", "nullable", "defaulted", "absent"})
_STRING = frozenset({"min_length", "max_length", "pattern", "format", "enum", "rules"})
_NUMBER = frozenset(
    {"minimum", "maximum", "exclusive_minimum", "exclusive_maximum", "multiple_of", "format", "enum", "rules"}
)
_LIST = frozenset({"min_items", "max_items", "list_type", "list_map_keys", "rules"})
_OBJECT = frozenset({"map_type", "preserve_unknown_fields", "rules"})
_MAP = _OBJECT | {"min_properties", "max_properties", "embedded_resource", "known"}

_SCALARS: dict[Any, JsonSchema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer", "format": "int64"},
    float: {"type": "number", "format": "double"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    bytes: {"type": "string", "format": "byte"},
}

# How people read a schema: what it is, then what it allows, then what is in it, then the extensions.
_ORDER = (
    "description",
    "type",
    "format",
    "nullable",
    "default",
    "enum",
    "anyOf",
    "not",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "required",
    "properties",
    "items",
    "additionalProperties",
)


class SchemaError(Exception):
    """A struct says something that a structural schema cannot; the message names the class and the field."""


@dataclass(frozen=True)
class _Place:
    """Where in which struct we are, for messages and to notice a struct that holds itself."""

    owner: type
    field: str = ""
    inside: tuple[type, ...] = ()

    def error(self, problem: str) -> SchemaError:
        where = f"{self.owner.__qualname__}.{self.field}" if self.field else self.owner.__qualname__
        return SchemaError(f"{where}: {problem}")


def kind_schema(kind: type[Resource]) -> JsonSchema:
    """The schema of a whole kind, with the fields that every object has."""
    schema = _struct_schema(kind, Schema(), _Place(kind))
    schema["properties"] = {
        "apiVersion": {"description": "The version of the schema that this object is written in.", "type": "string"},
        "kind": {"description": "The name of the resource that this object is.", "type": "string"},
        "metadata": {"type": "object"},
        **schema.get("properties", {}),
    }
    return schema


def _struct_schema(struct: type[msgspec.Struct], says: Schema, place: _Place) -> JsonSchema:
    if struct in place.inside:
        raise place.error(f"{struct.__qualname__} holds itself, and a structural schema cannot repeat")
    config = struct.__struct_config__
    if config.tag is not None or config.array_like:
        raise place.error(
            f"{struct.__qualname__} is a tagged or array-like struct, which is not how the API writes objects"
        )
    on_struct = getattr(struct, "object_schema", None)
    if on_struct is not None:
        says = on_struct.refined_by(says)
    _only(says, _OBJECT, "an object", place)
    descriptions = field_descriptions(struct)
    properties: JsonSchema = {}
    required = []
    for field in msgspec.structs.fields(struct):
        if issubclass(struct, Resource) and field.name == "metadata":
            continue
        here = _Place(struct, field.name, (*place.inside, struct))
        resolved = _resolve(field.type, here)
        properties[field.encode_name] = _field_schema(field, resolved, descriptions.get(field.name, ""), here)
        if field.required if resolved.says.required is None else resolved.says.required:
            required.append(field.encode_name)
    schema: JsonSchema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    if not properties:
        del schema["properties"]
    if description := class_description(struct):
        schema["description"] = description
    return _ordered(schema | says.published())


def _field_schema(field: msgspec.structs.FieldInfo, resolved: _Resolved, description: str, place: _Place) -> JsonSchema:
    schema = _value_schema(resolved, place)
    if description and resolved.says.absent is not None:
        description = f"{description.removesuffix('.')}; {resolved.says.absent} where it is absent."
    if description:
        schema["description"] = description
    default = _server_default(field, resolved.says, place)
    if default is not None:
        schema["default"] = default
    return _ordered(schema)


def _server_default(field: msgspec.structs.FieldInfo, says: Schema, place: _Place) -> Any:
    """What the server must fill in: the Python default, unless it is empty and so the same as an absent field."""
    if field.required:
        if says.defaulted:
            raise place.error("defaulted=True needs a default")
        return None
    default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    wanted = bool(msgspec.to_builtins(default)) if says.defaulted is None else says.defaulted
    return _spelled_out(default) if wanted else None


def _spelled_out(value: Any) -> Any:
    """A default with the defaults inside it: the server checks CEL rules against it before it fills those in."""
    if not isinstance(value, msgspec.Struct):
        return msgspec.json.decode(msgspec.json.encode(value, order="deterministic"))
    inside = {field.encode_name: getattr(value, field.name) for field in msgspec.structs.fields(value)}
    return {name: _spelled_out(item) for name, item in inside.items() if msgspec.to_builtins(item)}


@dataclass(frozen=True)
class _Resolved:
    """An annotation taken apart: the types it allows apart from None, and what was said about it."""

    arms: tuple[Any, ...]
    says: Schema
    nullable: bool


def _resolve(annotation: Any, place: _Place) -> _Resolved:
    base, says = _unwrap(annotation, place)
    arms = get_args(base) if get_origin(base) in {Union, types.UnionType} else (base,)
    values = tuple(arm for arm in arms if arm is not type(None))
    if len(values) == 1:
        inner, inner_says = _unwrap(values[0], place)
        values, says = (inner,), inner_says.refined_by(says)
    nullable = len(values) < len(arms) if says.nullable is None else says.nullable
    return _Resolved(values, says, nullable)


def _unwrap(annotation: Any, place: _Place) -> tuple[Any, Schema]:
    """The type inside `Annotated` and everything that our annotations say about it, the outer ones over the inner."""
    if get_origin(annotation) is not Annotated:
        return annotation, Schema()
    base, *notes = get_args(annotation)
    says = Schema()
    for note in notes:
        if isinstance(note, msgspec.Meta):
            raise place.error("msgspec.Meta would make stored objects undecodable once it is tightened; use Schema")
        if isinstance(note, Rule):
            raise place.error("put the rule into Schema(rules=(...,))")
        if isinstance(note, Schema):
            says = says.refined_by(note)
    return base, says


def _value_schema(resolved: _Resolved, place: _Place) -> JsonSchema:
    if len(resolved.arms) == 1:
        schema = _single(resolved.arms[0], resolved.says, place)
    else:
        schema = _union(resolved.arms, resolved.says, place)
    if resolved.nullable:
        if "enum" in schema:
            raise place.error(
                "the API server never takes null for an enum, not even with null among its values;"
                " use a pattern, or Schema(nullable=False)"
            )
        schema["nullable"] = True
    return _ordered(schema)


def _schema(annotation: Any, place: _Place) -> JsonSchema:
    return _value_schema(_resolve(annotation, place), place)


def _single(base: Any, says: Schema, place: _Place) -> JsonSchema:
    origin, args = get_origin(base) or base, get_args(base)
    if origin is Any or origin is msgspec.Raw:
        _only(says, frozenset(), "a free-form value", place)
        schema: JsonSchema = {"x-kubernetes-preserve-unknown-fields": True}
    elif origin is Literal:
        schema = _scalar(type(args[0]), replace(says, enum=args), place)
    elif origin in {list, tuple, set, frozenset}:
        schema = _list(origin, args, says, place)
    elif origin is dict:
        schema = _map(args, says, place)
    elif origin in _SCALARS:
        schema = _scalar(origin, says, place)
    elif isinstance(origin, type) and issubclass(origin, Enum):
        schema = _scalar(type(next(iter(origin)).value), replace(says, enum=origin), place)
    elif isinstance(origin, type) and issubclass(origin, msgspec.Struct):
        schema = _object(origin, says, place)
    else:
        raise place.error(f"{_spelled(base)} has no structural schema")
    return schema


def _object(struct: type[msgspec.Struct], says: Schema, place: _Place) -> JsonSchema:
    if struct is Condition:
        _only(says, frozenset(), "a condition", place)
        return dict(CONDITION_SCHEMA)
    if struct is ObjectMeta or issubclass(struct, Resource):
        raise place.error(
            f"the server prunes {struct.__qualname__} inside another object;"
            " use dict[str, Any], with Schema(embedded_resource=True) for a whole object"
        )
    return _struct_schema(struct, says, place)


def _scalar(base: type, says: Schema, place: _Place) -> JsonSchema:
    schema = dict(_SCALARS.get(base, {}))
    match schema.get("type"):
        case "string":
            _only(says, _STRING if base is str else frozenset({"rules"}), _spelled(base), place)
        case "integer" | "number":
            _only(says, _NUMBER, _spelled(base), place)
        case "boolean":
            _only(says, frozenset({"rules"}), "bool", place)
        case _:
            raise place.error(f"an enum of {_spelled(base)} has no structural schema")
    if says.enum is not None:
        schema["enum"] = _enum_values(says.enum, base, place)
    return schema | says.published()


def _enum_values(enum: tuple[Scalar, ...] | type[Enum], base: type, place: _Place) -> list[Scalar]:
    values: list[Scalar] = [value.value if isinstance(value, Enum) else value for value in enum]
    if strangers := [value for value in values if type(value) is not base]:
        raise place.error(f"enum value {strangers[0]!r} is not {_spelled(base)}")
    return values


def _list(origin: type, args: tuple[Any, ...], says: Schema, place: _Place) -> JsonSchema:
    if not args or (origin is tuple and args[1:] != (Ellipsis,)):
        raise place.error("a list needs one item type, as in tuple[str, ...]")
    _only(says, _LIST, "a list", place)
    items = _schema(args[0], place)
    list_type = says.list_type or ("set" if origin in {set, frozenset} else "atomic")
    schema: JsonSchema = {"type": "array", "items": items, "x-kubernetes-list-type": list_type}
    if list_type == "set" and items.get("type") in {None, "object", "array"}:
        raise place.error("the items of a set must be strings, numbers or booleans")
    if list_type == "map":
        _check_list_map(items, says.list_map_keys, place)
        schema["x-kubernetes-list-map-keys"] = list(says.list_map_keys)
    return schema | says.published()


def _check_list_map(items: JsonSchema, keys: tuple[str, ...], place: _Place) -> None:
    """What the server demands of a list that is merged by key."""
    if items.get("nullable"):
        raise place.error("the items of a keyed list cannot be null")
    for key in keys:
        value = items.get("properties", {}).get(key)
        if value is None:
            raise place.error(f"list_map_keys names {key!r}, which its items do not have")
        if value.get("type") not in {"string", "integer", "number", "boolean"} or value.get("nullable"):
            raise place.error(f"the key {key!r} must be a plain value that is never null")
        if key not in items.get("required", ()) and "default" not in value:
            raise place.error(f"the key {key!r} must be required or have a default that the server fills in")


def _map(args: tuple[Any, ...], says: Schema, place: _Place) -> JsonSchema:
    _only(says, _MAP, "a map", place)
    if not args or args[0] is not str:
        raise place.error("the keys of a map are strings: use dict[str, ...]")
    if args[1] is not Any:
        if says.embedded_resource or says.preserve_unknown_fields or says.known:
            raise place.error("free-form objects are dict[str, Any]")
        return {"type": "object", "additionalProperties": _schema(args[1], place)} | says.published()
    free: JsonSchema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    known = _struct_schema(says.known, Schema(), place) if says.known else {}
    return known | free | says.published()


def _union(arms: tuple[Any, ...], says: Schema, place: _Place) -> JsonSchema:
    resolved = [_unwrap(arm, place) for arm in arms]
    by_type = {get_origin(base) or base: (base, said) for base, said in resolved}
    if by_type.keys() == {int, str}:
        _only(says, (_STRING | _NUMBER) - {"format", "enum"}, "int | str", place)
        schema: JsonSchema = {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
        }
        return schema | by_type[str][1].published() | by_type[int][1].published() | says.published()
    lists = by_type.keys() - {str}
    if len(by_type) == len(arms) == 2 and str in by_type and lists <= {list, tuple}:
        list_type, list_says = by_type[lists.pop()]
        return _string_or_list(by_type[str][1], list_type, list_says.refined_by(says), place)
    raise place.error(f"{' | '.join(map(_spelled, arms))} has no structural schema")


def _string_or_list(of_string: Schema, list_type: Any, of_list: Schema, place: _Place) -> JsonSchema:
    """One string or a list of strings: a structural schema has no `oneOf` over types, so every other type is shut out.

    The lower bound above the upper one leaves no number and no object that fits, and `not` names both booleans; strings
    and lists are not touched by either. CEL rules cannot see such a field.
    """
    _only(of_string, _STRING - {"format", "rules"}, "the string of a string-or-list", place)
    _only(of_list, frozenset({"min_items", "max_items"}), "a string-or-list", place)
    items = _list(get_origin(list_type), get_args(list_type), Schema(), place)["items"]
    if items.get("type") != "string":
        raise place.error("a string-or-list holds strings only")
    if of_string.enum is not None:
        raise place.error("an enum would apply to the list as well as to the string; use a pattern")
    nothing_else: JsonSchema = {
        "minimum": 1,
        "maximum": 0,
        "minProperties": 1,
        "maxProperties": 0,
        "not": {"enum": [True, False]},
    }
    return {
        "x-kubernetes-preserve-unknown-fields": True,
        "items": items,
        **of_string.published(),
        **of_list.published(),
        **nothing_else,
    }


def _only(says: Schema, allowed: frozenset[str], what: str, place: _Place) -> None:
    if misfits := sorted(says.given() - allowed - _ANY_TYPE):
        raise place.error(f"{', '.join(misfits)} cannot be said of {what}")


def _ordered(schema: JsonSchema) -> JsonSchema:
    known = {key: schema[key] for key in _ORDER if key in schema}
    return known | {key: schema[key] for key in sorted(schema.keys() - known.keys())}


def _spelled(base: Any) -> str:
    return base.__qualname__ if isinstance(base, type) and not get_args(base) else str(base)
