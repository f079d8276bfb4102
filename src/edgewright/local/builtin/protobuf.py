"""Reads objects of built-in kinds from the protobuf in which clients made with client-go send them.

Bodies come to `decode` by their content type; answers are always JSON, which such clients take as well. Types come from
the OpenAPI definitions, field numbers from wire.json. What comes out is the JSON that the same client would have sent,
with empty fields in it, which the rules of the kind drop.
"""

from __future__ import annotations

import base64
import functools
import json
import math
import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from importlib import resources
from typing import Any, Final, NoReturn

from edgewright.local.structs.fields import REFERENCE, definitions
from edgewright.runtime.objects import RawObject

MEDIA: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_EXTENSIONS: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DEEPEST: Final = 100


class NotProtobuf(Exception):
    """The bytes are no object in Kubernetes' protobuf."""


def decode(body: bytes, kinds: Mapping[tuple[str, str], str]) -> RawObject:
    """The object in an envelope; `kinds` says which definition an apiVersion and kind have."""
    if not body.startswith(_MAGIC):
        raise NotProtobuf("the body does not begin as protobuf of Kubernetes does")
    try:
        return _unwrapped(body[len(_MAGIC) :], kinds)
    except (IndexError, ValueError, struct.error, OverflowError, OSError, RecursionError) as error:
        raise NotProtobuf(f"the body cannot be read: {error}") from None


def _unwrapped(envelope: bytes, kinds: Mapping[tuple[str, str], str]) -> RawObject:
    api_version = kind = ""
    raw = b""
    for number, value in _fields(envelope):
        if number == 1:
            named = dict(_fields(_bytes(value)))
            api_version, kind = _text(named.get(1, b"")), _text(named.get(2, b""))
        elif number == 2:
            raw = _bytes(value)
    definition = kinds.get((api_version, kind))
    if definition is None:
        raise NotProtobuf(f"no kind {kind!r} in version {api_version!r} can be sent as protobuf here")
    return {"kind": kind, "apiVersion": api_version, **_message(raw, definition, 0)}


def _message(data: bytes, definition: str, depth: int) -> RawObject:
    if depth > _DEEPEST:
        raise ValueError("it is nested too deeply")
    properties = definitions()[definition].get("properties", {})
    obj: RawObject = {}
    _fill(obj, data, _numbers()[definition], properties, depth)
    return obj


def _fill(obj: RawObject, data: bytes, numbers: Mapping[str, Any], properties: Mapping[str, Any], depth: int) -> None:
    for number, value in _fields(data):
        name = numbers.get(str(number))
        if isinstance(name, dict):  # a struct that JSON has inlined
            _fill(obj, _bytes(value), name, properties, depth)
        elif name is not None and name in properties:
            _put(obj, name, value, properties[name], depth)


def _put(obj: RawObject, name: str, value: int | bytes, schema: RawObject, depth: int) -> None:
    if schema.get("type") == "array":
        items = schema["items"]
        if isinstance(value, bytes) and _type(items) == "integer":
            obj.setdefault(name, []).extend(_signed(each) for each in _packed(value))
        else:
            obj.setdefault(name, []).append(_value(value, items, depth))
    elif isinstance(schema.get("additionalProperties"), dict):
        entry = dict(_fields(_bytes(value)))
        inner = schema["additionalProperties"]
        key = _text(entry.get(1, b""))
        empty: int | bytes = 0 if _type(inner) in {"integer", "boolean"} else b""
        obj.setdefault(name, {})[key] = _value(entry.get(2, empty), inner, depth)
    else:
        obj[name] = _value(value, schema, depth)


def _value(value: int | bytes, schema: RawObject, depth: int) -> Any:
    """One value in its JSON form."""
    if definition := _reference(schema):
        return _referred(_bytes(value), definition, depth)
    kind = "bytes" if schema.get("format") == "byte" else _type(schema)
    if kind == "array":  # a list within a map is a message of its own
        return [_value(each, schema["items"], depth) for _, each in _fields(_bytes(value))]
    return _PLAIN.get(kind, _text)(value)


_PLAIN: Final[Mapping[str, Callable[[int | bytes], Any]]] = {
    "boolean": bool,
    "integer": lambda value: _signed(value),  # noqa: PLW0108  defined below
    "number": lambda value: _number(value),  # noqa: PLW0108  defined below
    "bytes": lambda value: base64.b64encode(_bytes(value)).decode(),
    "object": lambda value: _embedded(_bytes(value) or b"{}"),
}


def _referred(data: bytes, definition: str, depth: int) -> Any:
    """A value of a named type; some have a JSON form that is not an object."""
    special = _SPECIAL.get(definition)
    if special is not None:
        return special(data, depth)
    if definition in _numbers():
        return _message(data, definition, depth + 1)
    return _json(data, depth)


def _time(data: bytes, _depth: int) -> str | None:
    moment = _moment(data)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _micro_time(data: bytes, _depth: int) -> str | None:
    moment = _moment(data)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _moment(data: bytes) -> datetime | None:
    parts = dict(_fields(data))
    seconds, nanos = _signed(parts.get(1, 0)), _signed(parts.get(2, 0))
    if not parts:
        return None
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=max(0, min(999_999, nanos // 1000)))


def _quantity(data: bytes, _depth: int) -> str:
    return _text(dict(_fields(data)).get(1, b""))


def _int_or_string(data: bytes, _depth: int) -> int | str:
    parts = dict(_fields(data))
    return _text(parts.get(3, b"")) if parts.get(1, 0) == 1 else _signed(parts.get(2, 0))


def _json(data: bytes, _depth: int) -> Any:
    return _embedded(_bytes(dict(_fields(data)).get(1, b"")) or b"null")


def _embedded(text: bytes) -> Any:
    """JSON within protobuf; what Python takes beyond JSON is refused."""
    return json.loads(text, parse_constant=_no_number)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def _number(value: int | bytes) -> float:
    number: float = struct.unpack("<d", struct.pack("<q", _signed(value)))[0]
    return number if math.isfinite(number) else _no_number(str(number))


def _schema_or_bool(data: bytes, depth: int) -> Any:
    parts = dict(_fields(data))
    if parts.get(2):
        return _message(_bytes(parts[2]), f"{_EXTENSIONS}JSONSchemaProps", depth + 1)
    return bool(parts.get(1, 0))


def _schema_or_list(data: bytes, depth: int) -> Any:
    schemas = []
    for number, value in _fields(data):
        schema = _message(_bytes(value), f"{_EXTENSIONS}JSONSchemaProps", depth + 1)
        if number == 1:
            return schema
        schemas.append(schema)
    return schemas


def _schema_or_names(data: bytes, depth: int) -> Any:
    parts = list(_fields(data))
    if parts and parts[0][0] == 1:
        return _message(_bytes(parts[0][1]), f"{_EXTENSIONS}JSONSchemaProps", depth + 1)
    return [_text(name) for _, name in parts]


_SPECIAL: Final = {
    f"{_META}Time": _time,
    f"{_META}MicroTime": _micro_time,
    f"{_META}FieldsV1": _json,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _json,
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _quantity,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    f"{_EXTENSIONS}JSON": _json,
    f"{_EXTENSIONS}JSONSchemaPropsOrBool": _schema_or_bool,
    f"{_EXTENSIONS}JSONSchemaPropsOrArray": _schema_or_list,
    f"{_EXTENSIONS}JSONSchemaPropsOrStringArray": _schema_or_names,
}


def _reference(schema: RawObject) -> str:
    found = schema.get("$ref") or next((each["$ref"] for each in schema.get("allOf", ()) if "$ref" in each), "")
    return str(found).removeprefix(REFERENCE)


def _type(schema: RawObject) -> str:
    return str(schema.get("type", ""))


@functools.cache
def _numbers() -> Mapping[str, Mapping[str, Any]]:
    loaded: Mapping[str, Mapping[str, Any]] = json.loads(
        resources.files(__package__).joinpath("wire.json").read_bytes()
    )
    return loaded


# The wire format itself


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The numbers and values of a message, in order."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, wire = tag >> 3, tag & 7
        value: int | bytes
        if wire == _VARINT:
            value, position = _varint(data, position)
        elif wire == _BYTES:
            length, position = _varint(data, position)
            if position + length > len(data):
                raise ValueError("it ends too early")
            value, position = data[position : position + length], position + length
        elif wire in {_FIXED64, _FIXED32}:
            width = 8 if wire == _FIXED64 else 4
            if position + width > len(data):
                raise ValueError("it ends too early")
            value, position = int.from_bytes(data[position : position + width], "little"), position + width
        else:
            raise ValueError(f"wire type {wire} is not used")
        yield number, value


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position
    raise ValueError("a number is too long")


def _packed(data: bytes) -> Iterator[int]:
    position = 0
    while position < len(data):
        value, position = _varint(data, position)
        yield value


def _signed(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise ValueError("a number was expected")  # noqa: TRY004  it is the bytes that are wrong
    return value - 2**64 if value >= 2**63 else value


def _bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a message was expected")  # noqa: TRY004  it is the bytes that are wrong
    return value


def _text(value: int | bytes) -> str:
    return _bytes(value).decode()
