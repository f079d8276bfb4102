"""Reads whole objects of built-in kinds as Go's structs hold them: known fields only, checked, nothing empty left.

`BuiltinRules.decode` calls it with every body. What comes out is what the real server would store: unknown fields are
gone and named, empty lists and unset values are gone, and structs that Go always writes are there. Defaults are not
filled in here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from edgewright.local.structs import values
from edgewright.local.structs.fields import REFERENCE, definitions
from edgewright.local.structs.fields import forms as form_table
from edgewright.runtime.objects import RawObject

_META = "io.k8s.apimachinery.pkg.apis.meta.v1"
_CRD = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
_SPECIAL: Mapping[str, values.Reader] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": values.quantity,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": values.int_or_string,
    f"{_META}.Time": values.time,
    f"{_META}.MicroTime": values.micro_time,
}
_UNSET: Mapping[str, Any] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "0",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": 0,
}
"""What a special value that is always written is written as while it is unset; the others as null."""
_EITHER: Mapping[str, str] = {
    f"{_CRD}.JSONSchemaPropsOrArray": "schemas",
    f"{_CRD}.JSONSchemaPropsOrBool": "bool",
    f"{_CRD}.JSONSchemaPropsOrStringArray": "texts",
}
"""What may stand in the place of a schema, in the schemas of CRDs."""
_PLAIN: Mapping[tuple[str, str], tuple[values.Reader, Any, str]] = {
    ("string", ""): (values.string, "", "string"),
    ("string", "byte"): (values.data, "", "[]uint8"),
    ("string", "date-time"): (values.time, None, "v1.Time"),
    ("boolean", ""): (values.boolean, False, "bool"),
    ("integer", "int32"): (values.integer(32), 0, "int32"),
    ("integer", "int64"): (values.integer(64), 0, "int64"),
    ("integer", ""): (values.integer(64), 0, "int64"),
    ("number", "double"): (values.floating, 0, "float64"),
    ("number", ""): (values.floating, 0, "float64"),
}


@dataclass
class Path:
    """Where a value stands, as a chain from it up to the object; made cheaply, and written out only for a fault."""

    parent: Path | None
    step: str | int
    struct: str = ""
    """Whose field it is; empty for what stands in a list or a map."""

    def __str__(self) -> str:
        """The way the server names fields: `spec.containers[0].image`."""
        if isinstance(self.step, int):
            return f"{self.parent}[{self.step}]"
        return f"{self.parent}.{self.step}" if self.parent else self.step

    def as_field(self) -> str:
        """The way Go names fields: the struct it stands in, and the path without positions and keys."""
        names: list[str] = []
        struct = ""
        here: Path | None = self
        while here is not None:
            if here.struct:
                names.append(str(here.step))
                struct = struct or here.struct
            here = here.parent
        return ".".join([struct, *reversed(names)])


class WrongType(Exception):
    """A value in an object is not of its field's type; the message is Go's."""


class Form:
    """A type of values: reads one from JSON, and knows what Go writes for it while it is unset."""

    always = False
    """Whether it is a struct that is held by value, so that it is always written."""
    go = "interface {}"
    """What Go calls the type."""

    def read(self, value: Any, path: Path | None, unknown: list[str]) -> Any:
        """The value as it is stored; never called with null."""
        raise NotImplementedError

    def unset(self) -> Any:
        """What is written while there is no value, where something must be."""
        return None

    def wrong(self, value: Any, path: Path | None) -> WrongType:
        """Says that a value is of another type."""
        return WrongType(_sentence(values.WrongValue(values.described(value), self.go), path))


class _Plain(Form):
    def __init__(self, reader: values.Reader, zero: Any, named: str = "") -> None:
        self.reader = reader
        self.zero = zero
        self.go = named

    def read(self, value: Any, path: Path | None, unknown: list[str]) -> Any:
        try:
            return self.reader(value)
        except values.WrongValue as wrong:
            wrong.wanted = self.go or wrong.wanted
            raise WrongType(_sentence(wrong, path)) from None

    def unset(self) -> Any:
        return self.zero


def _sentence(wrong: values.WrongValue, path: Path | None) -> str:
    if wrong.why or path is None:
        return str(wrong)
    return f"json: cannot unmarshal {wrong.found} into Go struct field {path.as_field()} of type {wrong.wanted}"


class _List(Form):
    def __init__(self, item: Form) -> None:
        self.item = item
        self.go = f"[]{item.go}"

    def read(self, value: Any, path: Path | None, unknown: list[str]) -> Any:
        if not isinstance(value, list):
            raise self.wrong(value, path)
        item = self.item
        return [
            item.unset() if each is None else item.read(each, Path(path, index), unknown)
            for index, each in enumerate(value)
        ] or None


class _Map(Form):
    def __init__(self, value: Form) -> None:
        self.value = value
        self.go = f"map[string]{value.go}"

    def read(self, value: Any, path: Path | None, unknown: list[str]) -> Any:
        if not isinstance(value, dict):
            raise self.wrong(value, path)
        form = self.value
        return {
            name: form.unset() if each is None else form.read(each, Path(path, name), unknown)
            for name, each in value.items()
        } or None


class _Either(Form):
    """A schema, or what may stand in its place."""

    def __init__(self, schema: Callable[[], Form], instead: str) -> None:
        self.schema = schema
        self.instead = instead

    def read(self, value: Any, path: Path | None, unknown: list[str]) -> Any:
        if isinstance(value, dict):
            return self.schema().read(value, path, unknown)
        if self.instead == "bool":
            if not isinstance(value, bool):
                raise WrongType("boolean or JSON schema expected")
            return value
        if not isinstance(value, list):
            return None  # the real server reads over what is neither
        item = self.schema() if self.instead == "schemas" else _Plain(values.string, "", "string")
        return _List(item).read(value, path, unknown)


@dataclass
class _Field:
    form: Form
    pointer: bool
    kept: bool
    zero: Any = None


class Struct(Form):
    """An object with known fields."""

    always = True

    def __init__(self, name: str) -> None:
        self.name = name
        self.go = f"v1.{name}"
        self.fields: dict[str, _Field] = {}
        self.written: list[tuple[str, _Field]] = []
        """The fields that are written even when nothing is set."""

    def read(self, value: Any, path: Path | None, unknown: list[str]) -> Any:
        """The object with its known fields; the paths of others are added to `unknown`."""
        if not isinstance(value, dict):
            raise self.wrong(value, path)
        kept: RawObject = {}
        known = self.fields
        for name, child in value.items():
            entry = known.get(name)
            if entry is None:
                unknown.append(str(Path(path, name)))
            elif child is not None:
                read = entry.form.read(child, Path(path, name, self.name), unknown)
                if read is not None and (entry.pointer or read != entry.zero or entry.kept):
                    kept[name] = read
        for name, entry in self.written:
            if name not in kept:
                kept[name] = entry.form.unset() if not entry.pointer else None
        return kept

    def unset(self) -> Any:
        """The struct with nothing set."""
        return {name: entry.form.unset() if not entry.pointer else None for name, entry in self.written}


@functools.cache
def form(definition: str) -> Form:
    """The form of a definition; definitions may refer to themselves."""
    if definition in _SPECIAL:
        return _Plain(_SPECIAL[definition], _UNSET.get(definition))
    if definition in _EITHER:
        return _Either(lambda: form(f"{_CRD}.JSONSchemaProps"), _EITHER[definition])
    schema = definitions()[definition]
    if "properties" not in schema:
        return _anonymous(schema)
    built = Struct(definition.rpartition(".")[2])
    _building[definition] = built
    try:
        table = form_table().get(definition, {})
        named = table.get("named", {})
        for name, child in schema["properties"].items():
            entry = _entry(child, name in table.get("pointer", ()), name in table.get("kept", ()), named.get(name, ""))
            built.fields[name] = entry
            if entry.kept:
                built.written.append((name, entry))
    finally:
        del _building[definition]
    return built


_building: dict[str, Form] = {}
"""Definitions whose forms are being made, for those that refer to themselves."""


def _entry(schema: RawObject, pointer: bool, kept: bool, named: str) -> _Field:
    made = _anonymous(schema)
    if named and isinstance(made, _Plain):
        made = _Plain(made.reader, made.zero, named)
    # A struct that is held by value has an empty default in OpenAPI; Go writes it always.
    by_value = made.always and schema.get("default") == {}
    return _Field(
        form=made,
        pointer=pointer or (made.always and not by_value),
        kept=kept or by_value,
        zero=made.zero if isinstance(made, _Plain) and not pointer else None,
    )


def _anonymous(schema: RawObject) -> Form:
    reference = schema.get("$ref") or next((part["$ref"] for part in schema.get("allOf", ()) if "$ref" in part), None)
    if reference:
        name = reference.removeprefix(REFERENCE)
        return _building.get(name) or form(name)
    if schema.get("type") == "array":
        return _List(_anonymous(schema["items"]))
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return _Map(_anonymous(schema["additionalProperties"]))
    plain = _PLAIN.get((schema.get("type", ""), schema.get("format", "")))
    return _Plain(*plain) if plain else _Plain(values.anything, None, "interface {}")
