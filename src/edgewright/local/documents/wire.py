"""OpenAPI v2 as protobuf, the form in which clients made with client-go ask for it.

`pages` calls `encode` for who wants that. kubectl reads it when a kind is in no document of v3, and to explain the old
way; libraries read the types of fields from it. Field numbers are those of the message definitions that all use.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from edgewright.runtime.objects import RawObject

MEDIA: Final = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""Its name in answers; in requests there is an @ in it, which no parser of media types takes."""
_VARINT, _FIXED64, _BYTES = 0, 1, 2

Writer: TypeAlias = Callable[[int, Any], bytes]
"""Writes a value as the field of that number."""


def encode(document: RawObject) -> bytes:
    """A whole document."""
    return _content(document, _DOCUMENT)


def _content(value: Mapping[str, Any], fields: Mapping[str, tuple[int, Writer]], extensions: int = 0) -> bytes:
    """A message: the fields that have a number, and what begins with x- as a name and a value."""
    parts = []
    for name, content in value.items():
        if name in fields:
            number, write = fields[name]
            parts.append(write(number, content))
        elif extensions and name.startswith("x-"):
            parts.append(_bytes(extensions, _text(1, name) + _bytes(2, _any(content))))
    return b"".join(parts)


def _message(fields: Mapping[str, tuple[int, Writer]], extensions: int = 0) -> Writer:
    return lambda number, value: _bytes(number, _content(value, fields, extensions))


def _within(inner: int, write: Writer) -> Writer:
    """A message with nothing but one field."""
    return lambda number, value: _bytes(number, write(inner, value))


def _each(write: Writer) -> Writer:
    return lambda number, values: b"".join(write(number, value) for value in values)


def _named(write: Writer) -> Writer:
    """A map, as messages of a name and a value."""
    return lambda number, values: b"".join(
        _bytes(number, _text(1, name) + write(2, value)) for name, value in values.items()
    )


def _text(number: int, value: str) -> bytes:
    return _bytes(number, value.encode())


def _flag(number: int, value: bool) -> bytes:
    return _key(number, _VARINT) + _varint(1) if value else b""


def _whole(number: int, value: int) -> bytes:
    return _key(number, _VARINT) + _varint(value & (1 << 64) - 1)


def _real(number: int, value: float) -> bytes:
    return _key(number, _FIXED64) + struct.pack("<d", value)


def _value(number: int, value: Any) -> bytes:
    return _bytes(number, _any(value))


def _any(value: Any) -> bytes:
    """Whatever it is, as YAML, of which JSON is a part."""
    return _text(2, json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")


def _bytes(number: int, content: bytes) -> bytes:
    return _key(number, _BYTES) + _varint(len(content)) + content


def _key(number: int, form: int) -> bytes:
    return _varint(number << 3 | form)


def _varint(value: int) -> bytes:
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _schema(number: int, value: RawObject) -> bytes:
    return _bytes(number, _content(value, _SCHEMA, extensions=31))


def _type(number: int, value: str) -> bytes:
    return _bytes(number, _text(1, value))


def _more_properties(number: int, value: RawObject | bool) -> bytes:
    return _bytes(number, _flag(2, value) if isinstance(value, bool) else _schema(1, value))


def _parameter(number: int, value: RawObject) -> bytes:
    """A parameter is in the body, in the query or in the path, each of which is a message of its own."""
    if value["in"] == "body":
        return _bytes(number, _bytes(1, _message(_BODY, extensions=6)(1, value)))
    place = (
        _message(_QUERY, extensions=23)(3, value)
        if value["in"] == "query"
        else _message(_PATH, extensions=22)(4, value)
    )
    return _bytes(number, _bytes(1, _bytes(2, place)))


_SCHEMA: Final[dict[str, tuple[int, Writer]]] = {
    "$ref": (1, _text),
    "format": (2, _text),
    "title": (3, _text),
    "description": (4, _text),
    "default": (5, _value),
    "multipleOf": (6, _real),
    "maximum": (7, _real),
    "exclusiveMaximum": (8, _flag),
    "minimum": (9, _real),
    "exclusiveMinimum": (10, _flag),
    "maxLength": (11, _whole),
    "minLength": (12, _whole),
    "pattern": (13, _text),
    "maxItems": (14, _whole),
    "minItems": (15, _whole),
    "uniqueItems": (16, _flag),
    "maxProperties": (17, _whole),
    "minProperties": (18, _whole),
    "required": (19, _each(_text)),
    "enum": (20, _each(_value)),
    "additionalProperties": (21, _more_properties),
    "type": (22, _type),
    "items": (23, _within(1, _schema)),
    "properties": (25, _within(1, _named(_schema))),
    "example": (30, _value),
}
_BODY: Final[dict[str, tuple[int, Writer]]] = {
    "description": (1, _text),
    "name": (2, _text),
    "in": (3, _text),
    "required": (4, _flag),
    "schema": (5, _schema),
}
_QUERY: Final[dict[str, tuple[int, Writer]]] = {
    "required": (1, _flag),
    "in": (2, _text),
    "description": (3, _text),
    "name": (4, _text),
    "type": (6, _text),
    "format": (7, _text),
    "uniqueItems": (20, _flag),
}
_PATH: Final[dict[str, tuple[int, Writer]]] = {
    "required": (1, _flag),
    "in": (2, _text),
    "description": (3, _text),
    "name": (4, _text),
    "type": (5, _text),
    "format": (6, _text),
    "uniqueItems": (19, _flag),
}
_PARAMETERS: Final = _each(_parameter)
_RESPONSE: Final = _message({"description": (1, _text), "schema": (2, _within(1, _schema))})
_OPERATION: Final = _message(
    {
        "tags": (1, _each(_text)),
        "description": (3, _text),
        "operationId": (5, _text),
        "produces": (6, _each(_text)),
        "consumes": (7, _each(_text)),
        "parameters": (8, _PARAMETERS),
        "responses": (9, _within(1, _named(_within(1, _RESPONSE)))),
    },
    extensions=13,
)
_METHODS: Final = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}
_PATH_ITEM: Final = _message(
    {**{name: (number, _OPERATION) for name, number in _METHODS.items()}, "parameters": (9, _PARAMETERS)}
)
_DOCUMENT: Final[dict[str, tuple[int, Writer]]] = {
    "swagger": (1, _text),
    "info": (2, _message({"title": (1, _text), "version": (2, _text)})),
    "paths": (8, _within(2, _named(_PATH_ITEM))),
    "definitions": (9, _within(1, _named(_schema))),
}
