"""What the author of a kind writes next to a type: limits, list keys and CEL rules for the published schema.

`schema` reads these from `Annotated[...]` on fields (and from `object_schema` on a struct). msgspec ignores them, on
purpose: the API server holds the line for what comes in, while decoding takes whatever a server may still have stored
from before a limit was tightened. This module never looks at a type and does no I/O.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any, Literal, TypeAlias

Scalar: TypeAlias = str | int

_RANGES = (
    ("min_length", "max_length"),
    ("minimum", "maximum"),
    ("min_items", "max_items"),
    ("min_properties", "max_properties"),
)

# The settings that are published as they are.
_PUBLISHED = {
    "min_length": "minLength",
    "max_length": "maxLength",
    "pattern": "pattern",
    "format": "format",
    "minimum": "minimum",
    "maximum": "maximum",
    "exclusive_minimum": "exclusiveMinimum",
    "exclusive_maximum": "exclusiveMaximum",
    "multiple_of": "multipleOf",
    "min_items": "minItems",
    "max_items": "maxItems",
    "min_properties": "minProperties",
    "max_properties": "maxProperties",
    "map_type": "x-kubernetes-map-type",
    "embedded_resource": "x-kubernetes-embedded-resource",
    "preserve_unknown_fields": "x-kubernetes-preserve-unknown-fields",
}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A CEL rule that the API server checks; a violation is answered with its message."""

    rule: str
    message: str = ""
    message_expression: str = ""
    reason: Literal["", "FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"] = ""
    field_path: str = ""
    optional_old_self: bool = False

    def __post_init__(self) -> None:
        """A rule that does not say what is wrong helps nobody."""
        if not self.rule.strip():
            raise ValueError("a rule needs a CEL expression")
        if not (self.message or self.message_expression):
            raise ValueError(f"the rule {self.rule!r} needs a message or a message_expression")

    def published(self) -> dict[str, Any]:
        """The rule as it stands in a CRD."""
        everything = {
            "rule": self.rule,
            "message": self.message,
            "messageExpression": self.message_expression,
            "reason": self.reason,
            "fieldPath": self.field_path,
            "optionalOldSelf": self.optional_old_self,
        }
        return {name: value for name, value in everything.items() if value}


@dataclass(frozen=True, kw_only=True)
class Schema:
    """What a published schema says about a value beyond its Python type.

    `required`, `nullable` and `defaulted` are worked out from the field (no default; `None` among its types; a default
    that is not empty) and are set only to say otherwise: a struct often has to decode more than new objects may hold.
    A struct at its defaults counts as empty; with `defaulted=True` the server fills it in with everything inside it.
    `absent` is what the operator takes where the field is absent: the description tells it, and no server fills it in.
    `known` is a struct with the fields of a free-form object that are checked; all others are kept as they are.
    """

    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    format: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    multiple_of: float | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    enum: tuple[Scalar, ...] | type[Enum] | None = None
    required: bool | None = None
    nullable: bool | None = None
    defaulted: bool | None = None
    absent: Scalar | None = None
    list_type: Literal["atomic", "set", "map"] | None = None
    list_map_keys: tuple[str, ...] = ()
    map_type: Literal["atomic", "granular"] | None = None
    embedded_resource: bool = False
    preserve_unknown_fields: bool = False
    known: type | None = None
    rules: tuple[Rule, ...] = ()

    def __post_init__(self) -> None:
        """Contradictions are the author's to fix, where they are written."""
        for low, high in _RANGES:
            least, most = getattr(self, low), getattr(self, high)
            if least is not None and most is not None and least > most:
                raise ValueError(f"{low} {least} is above {high} {most}")
        if self.exclusive_minimum and self.minimum is None:
            raise ValueError("exclusive_minimum needs minimum")
        if self.exclusive_maximum and self.maximum is None:
            raise ValueError("exclusive_maximum needs maximum")
        if self.pattern is not None:
            re.compile(self.pattern)
        if (self.list_type == "map") != bool(self.list_map_keys):
            raise ValueError("list_type 'map' and list_map_keys go together")
        if self.enum is not None and not tuple(self.enum):
            raise ValueError("an enum needs at least one value")

    def given(self) -> frozenset[str]:
        """The names of the settings that differ from saying nothing."""
        return frozenset(field.name for field in fields(self) if getattr(self, field.name) != field.default)

    def refined_by(self, other: Schema) -> Schema:
        """The same schema with everything that `other` says put over it; rules add up."""
        said = {name: getattr(other, name) for name in other.given()}
        return replace(self, **said | {"rules": self.rules + other.rules})

    def published(self) -> dict[str, Any]:
        """The settings that stand in a CRD as they are; those that depend on the type are for `schema` to work out."""
        given = self.given()
        schema = {published: getattr(self, name) for name, published in _PUBLISHED.items() if name in given}
        if self.rules:
            schema["x-kubernetes-validations"] = [rule.published() for rule in self.rules]
        return schema
