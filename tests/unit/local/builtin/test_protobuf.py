"""Protobuf from clients is read as the JSON of the same object; the bytes here are put together by hand.

That the real server's own bytes are read so is shown by tests/cluster/test_local_protobuf.py.
"""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.local import builtin
from edgewright.local.builtin import protobuf
from edgewright.local.kinds import Kinds

KINDS = Kinds(builtin.served(), builtin.definitions()).protobuf
CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")


def varint(value: int) -> bytes:
    """A whole number of 64 bits, seven of them a byte."""
    value &= 2**64 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, value: int | float | str | bytes) -> bytes:
    """One field of a message: a number, or what has a length."""
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def message(*fields: tuple[int, int | float | str | bytes]) -> bytes:
    """A message of these fields."""
    return b"".join(field(number, value) for number, value in fields)


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    """An object as clients send it."""
    return b"k8s\x00" + message((1, message((1, api_version), (2, kind))), (2, raw), (3, ""), (4, ""))


def read(api_version: str, kind: str, raw: bytes) -> dict[str, Any]:
    """What is read of an object, without what the envelope says."""
    obj = protobuf.decode(envelope(api_version, kind, raw), KINDS)
    assert (obj.pop("apiVersion"), obj.pop("kind")) == (api_version, kind)
    return obj


def pod_spec(raw: bytes) -> Any:
    return read("v1", "Pod", message((2, raw)))["spec"]


def schema(raw: bytes) -> Any:
    """What is read of a schema in the first version of a CustomResourceDefinition."""
    version = message((1, "v1"), (4, message((1, raw))))
    obj = read(*CRD, message((2, message((7, version)))))
    return obj["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


def test_texts_maps_lists_bytes_and_flags_are_read() -> None:
    about = message((1, "a"), (7, 3), (10, -1), (11, message((1, "k"), (2, "v"))), (14, "x/y"), (14, "x/z"))
    binary = message((1, "b"), (2, b"\x00\xff"))
    raw = message((1, about), (2, message((1, "empty"))), (3, binary), (4, 1))
    assert read("v1", "ConfigMap", raw) == {
        "metadata": {
            "name": "a",
            "generation": 3,
            "deletionGracePeriodSeconds": -1,
            "labels": {"k": "v"},
            "finalizers": ["x/y", "x/z"],
        },
        "data": {"empty": ""},
        "binaryData": {"b": "AP8="},
        "immutable": True,
    }


def test_times_are_read_to_the_precision_that_their_field_has() -> None:
    moment = message((1, 1_767_323_045), (2, 678_000))
    about = message((8, moment), (9, b""))
    lease = read("coordination.k8s.io/v1", "Lease", message((1, about), (2, message((4, moment), (3, b"")))))
    assert lease["metadata"] == {"creationTimestamp": "2026-01-02T03:04:05Z", "deletionTimestamp": None}
    assert lease["spec"] == {"renewTime": "2026-01-02T03:04:05.000678Z", "acquireTime": None}


def test_what_json_inlines_is_read_into_the_object_that_has_it() -> None:
    volume = message((1, "v"), (2, message((2, message((1, "Memory"))))))
    assert pod_spec(message((1, volume)))["volumes"] == [{"name": "v", "emptyDir": {"medium": "Memory"}}]


def test_what_is_sent_to_a_subresource_is_read_too() -> None:
    asked = message((2, message((1, "https://example.com"), (4, 600))))
    assert read("authentication.k8s.io/v1", "TokenRequest", asked) == {
        "spec": {"audiences": ["https://example.com"], "expirationSeconds": 600}
    }
    assert read("policy/v1", "Eviction", message((1, message((1, "p"))))) == {"metadata": {"name": "p"}}


def test_a_port_is_a_number_or_a_name() -> None:
    ports = [(1, message((3, 80), (4, message((1, 1), (3, "web"))))), (1, message((3, 81), (4, message((2, 8081)))))]
    service = read("v1", "Service", message((2, message(*ports))))
    assert service["spec"]["ports"] == [{"port": 80, "targetPort": "web"}, {"port": 81, "targetPort": 8081}]


def test_a_quantity_is_the_text_that_was_meant() -> None:
    limits = message((1, message((1, "cpu"), (2, message((1, "500m"))))))
    container = message((1, "c"), (8, limits))
    assert pod_spec(message((2, container)))["containers"] == [{"name": "c", "resources": {"limits": {"cpu": "500m"}}}]


@pytest.mark.parametrize(
    "groups",
    [
        pytest.param(field(4, 1) + field(4, 300), id="one per field"),
        pytest.param(field(4, varint(1) + varint(300)), id="packed"),
    ],
)
def test_a_list_of_numbers_is_read_in_both_of_its_forms(groups: bytes) -> None:
    assert pod_spec(field(14, groups))["securityContext"] == {"supplementalGroups": [1, 300]}


def test_a_list_in_a_map_is_a_message_of_its_own() -> None:
    user = message((1, "u"), (4, message((1, "scopes"), (2, message((1, "a"), (1, "b"))))))
    review = read("authentication.k8s.io/v1", "SelfSubjectReview", message((2, message((1, user)))))
    assert review["status"]["userInfo"] == {"username": "u", "extra": {"scopes": ["a", "b"]}}


def test_who_owns_which_fields_is_the_json_in_the_message() -> None:
    entry = message((1, "m"), (7, message((1, '{"f:data":{}}'))))
    about = read("v1", "ConfigMap", message((1, message((17, entry)))))["metadata"]
    assert about["managedFields"] == [{"manager": "m", "fieldsV1": {"f:data": {}}}]


@pytest.mark.parametrize(
    ("raw", "read"),
    [
        pytest.param(message((9, 1.5)), {"maximum": 1.5}, id="a number"),
        pytest.param(message((8, message((1, '{"a":[1]}')))), {"default": {"a": [1]}}, id="a default"),
        pytest.param(message((8, b"")), {"default": None}, id="an empty default"),
        pytest.param(message((24, message((1, message((5, "string")))))), {"items": {"type": "string"}}, id="items"),
        pytest.param(
            message((24, message((2, message((5, "string"))), (2, b"")))),
            {"items": [{"type": "string"}, {}]},
            id="list",
        ),
        pytest.param(message((30, message((1, 1)))), {"additionalProperties": True}, id="any property"),
        pytest.param(message((30, b"")), {"additionalProperties": False}, id="no other property"),
        pytest.param(
            message((30, message((1, 1), (2, message((5, "string")))))),
            {"additionalProperties": {"type": "string"}},
            id="properties of a type",
        ),
        pytest.param(
            message((29, message((1, "p"), (2, message((5, "integer")))))),
            {"properties": {"p": {"type": "integer"}}},
            id="properties",
        ),
        pytest.param(
            message((32, message((1, "a"), (2, message((1, message((5, "object")))))))),
            {"dependencies": {"a": {"type": "object"}}},
            id="a schema that another needs",
        ),
        pytest.param(
            message((32, message((1, "a"), (2, message((2, "b"), (2, "c")))))),
            {"dependencies": {"a": ["b", "c"]}},
            id="names that another needs",
        ),
    ],
)
def test_a_schema_has_the_form_that_json_has_for_it(raw: bytes, read: object) -> None:
    assert schema(raw) == read


def test_fields_that_are_not_known_are_passed_over() -> None:
    unknown = message((90, 1), (91, "x"), (92, 1.0)) + varint(93 << 3 | 5) + b"\x00\x00\x00\x00"
    assert read("v1", "ConfigMap", unknown + message((4, 0))) == {"immutable": False}


def nested(depth: int) -> bytes:
    raw = b""
    for _ in range(depth):
        raw = message((28, raw))
    return message((2, message((7, message((4, message((1, raw))))))))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        pytest.param(b"{}", "does not begin", id="JSON"),
        pytest.param(envelope("v2", "ConfigMap", b""), "no kind 'ConfigMap' in version 'v2'", id="an unknown kind"),
        pytest.param(envelope("v1", "ConfigMap", b"\x0a\x05a"), "ends too early", id="a text that ends early"),
        pytest.param(envelope("v1", "ConfigMap", b"\x09\x00"), "ends too early", id="a number that ends early"),
        pytest.param(envelope("v1", "ConfigMap", b"\x0a"), "index out of range", id="a length that is missing"),
        pytest.param(envelope("v1", "ConfigMap", b"\x80" * 11), "too long", id="a number without an end"),
        pytest.param(envelope("v1", "ConfigMap", b"\x0b"), "wire type 3", id="a form that is not used"),
        pytest.param(envelope("v1", "ConfigMap", message((1, 1))), "message was expected", id="a number for metadata"),
        pytest.param(
            envelope("v1", "ConfigMap", message((1, message((7, "x"))))), "number was expected", id="text for a number"
        ),
        pytest.param(envelope("v1", "ConfigMap", message((1, message((1, b"\xff"))))), "utf-8", id="no UTF-8"),
        pytest.param(
            envelope("v1", "ConfigMap", message((1, message((8, message((1, 2**62))))))), "read", id="a time beyond all"
        ),
        pytest.param(envelope(*CRD, nested(200)), "nested too deeply", id="too deep"),
        pytest.param(
            envelope("v1", "ConfigMap", message((1, message((17, message((7, message((1, "[" * 100_000))))))))),
            "recursion",
            id="JSON in it that is too deep",
        ),
    ],
)
def test_bytes_that_are_no_object_are_refused(body: bytes, why: str) -> None:
    with pytest.raises(protobuf.NotProtobuf, match=why):
        protobuf.decode(body, KINDS)


@given(st.binary(max_size=200), st.sampled_from([("v1", "Pod"), ("v1", "Service"), CRD]))
def test_no_bytes_do_anything_but_be_read_or_refused(raw: bytes, kind: tuple[str, str]) -> None:
    try:
        obj = protobuf.decode(envelope(*kind, raw), KINDS)
    except protobuf.NotProtobuf:
        return
    assert obj["kind"] == kind[1]
