"""OpenAPI v2 as protobuf: every field in its place, and nothing lost of the whole document."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from edgewright.local import builtin
from edgewright.local.documents import swagger, wire


def fields(data: bytes) -> list[tuple[int, Any]]:
    """The fields of a message: numbers, and bytes or numbers."""
    found: list[tuple[int, Any]] = []
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            found.append((key >> 3, varint()))
        elif key & 7 == 1:
            found.append((key >> 3, struct.unpack("<d", data[at : at + 8])[0]))
            at += 8
        else:
            size = varint()
            found.append((key >> 3, data[at : at + size]))
            at += size
    assert at == len(data)
    return found


def only(data: bytes, *path: int) -> Any:
    """The one value at the end of a path of field numbers."""
    for number in path:
        (data,) = [value for key, value in fields(data) if key == number]
    return data


def schema(**value: Any) -> bytes:
    """The message of a schema, out of the document that defines it."""
    name, found = fields(only(wire.encode({"definitions": {"Thing": value}}), 9, 1))
    assert name == (1, b"Thing")
    assert found[0] == 2
    content: bytes = found[1]
    return content


def test_the_head_of_a_document() -> None:
    document = {"swagger": "2.0", "info": {"title": "Kubernetes", "version": "v1"}}
    assert wire.encode(document) == b"\n\x032.0\x12\x10\n\nKubernetes\x12\x02v1"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"$ref": "#/definitions/Other"}, [(1, b"#/definitions/Other")]),
        ({"type": "string", "format": "date"}, [(22, b"\n\x06string"), (2, b"date")]),
        ({"minimum": -1.5, "maxLength": 300}, [(9, -1.5), (11, 300)]),
        ({"uniqueItems": True, "exclusiveMinimum": False}, [(16, 1)]),
        ({"required": ["a", "b"]}, [(19, b"a"), (19, b"b")]),
        ({"enum": ["a", 1]}, [(20, b'\x12\x04"a"\n'), (20, b"\x12\x021\n")]),
        ({"additionalProperties": True}, [(21, b"\x10\x01")]),
        ({"additionalProperties": {"format": "x"}}, [(21, b"\n\x03\x12\x01x")]),
        ({"items": {"format": "x"}}, [(23, b"\n\x03\x12\x01x")]),
        ({"properties": {"p": {"format": "x"}}}, [(25, b"\n\x08\n\x01p\x12\x03\x12\x01x")]),
        ({"x-kubernetes-map-type": "atomic"}, [(31, b'\n\x15x-kubernetes-map-type\x12\x0b\x12\t"atomic"\n')]),
        ({"unheard-of": 1}, []),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_schema(value: dict[str, Any], written: list[tuple[int, Any]]) -> None:
    assert fields(schema(**value)) == written


def test_parameters_are_of_the_message_of_their_place() -> None:
    parameters = [
        {"in": "body", "name": "body", "required": True, "schema": {"format": "x"}},
        {"in": "query", "name": "watch", "type": "boolean", "uniqueItems": True},
        {"in": "path", "name": "name", "type": "string", "required": True},
    ]
    data = wire.encode({"paths": {"/p": {"parameters": parameters}}})
    body, query, path = [only(value, 1) for key, value in fields(only(data, 8, 2, 2)) if key == 9]
    assert fields(only(body, 1)) == [(3, b"body"), (2, b"body"), (4, 1), (5, b"\x12\x01x")]
    assert fields(only(query, 2, 3)) == [(2, b"query"), (4, b"watch"), (6, b"boolean"), (20, 1)]
    assert fields(only(path, 2, 4)) == [(2, b"path"), (4, b"name"), (5, b"string"), (1, 1)]


def test_the_whole_document_of_the_built_in_kinds() -> None:
    document = swagger.document(builtin.served(), builtin.definitions())
    data = wire.encode(document)
    named = [only(value, 1).decode() for key, value in fields(only(data, 9)) if key == 1]
    assert named == list(document["definitions"])
    paths = {only(value, 1).decode(): only(value, 2) for key, value in fields(only(data, 8)) if key == 2}
    assert list(paths) == list(document["paths"])
    patch = only(paths["/api/v1/namespaces/{namespace}/pods/{name}"], 8)
    extensions = {only(value, 1).decode(): only(value, 2, 2) for key, value in fields(patch) if key == 13}
    assert extensions["x-kubernetes-group-version-kind"] == b'{"group":"","version":"v1","kind":"Pod"}\n'
    answers = {only(value, 1): only(value, 2, 1) for _, value in fields(only(patch, 9))}
    assert only(answers[b"200"], 2, 1, 1) == b"#/definitions/io.k8s.api.core.v1.Pod"
    assert only(answers[b"401"], 1) == b"Unauthorized"
