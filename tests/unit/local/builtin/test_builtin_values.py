"""Amounts, times, bytes and whole objects are read as Go reads them."""

from __future__ import annotations

import base64
from contextlib import suppress
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.local import quantities
from edgewright.local.builtin import definitions
from edgewright.local.builtin.configmap import ConfigMapRules
from edgewright.local.builtin.pod import PodRules
from edgewright.local.errors import Refusal
from edgewright.local.structs import values
from edgewright.local.structs.go_structs import WrongType, form

CORE = "io.k8s.api.core.v1"


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("0", "0"),
        ("-0.0", "0"),
        (".", "0"),
        ("m", "0"),
        ("1", "1"),
        ("+1", "+1"),
        ("-1", "-1"),
        ("5.", "5."),
        ("1000", "1k"),
        ("1000m", "1"),
        ("0.5", "500m"),
        (".5", "500m"),
        ("1.234", "1.234"),
        ("1.5000", "1500m"),
        ("1.5Gi", "1536Mi"),
        ("1024Mi", "1Gi"),
        ("512Ki", "512Ki"),
        ("1025Ki", "1025Ki"),
        ("1023", "1023"),
        ("0.5Ki", "512"),
        ("0.1Ki", "102400m"),
        ("0.0001Ki", "102400u"),
        ("-2048Ki", "-2Mi"),
        ("1e3", "1e3"),
        ("1E9", "1E9"),
        ("1e0", "1e0"),
        ("1e1", "10"),
        ("12E2", "1200"),
        ("1500e6", "1500e6"),
        ("1e20", "100e18"),
        ("1n", "1n"),
        ("0.1n", "1n"),
        ("9.5E", "9500P"),
        ("100000000000E", "100"),
        ("100Ei", "9223372036854775807"),
        ("4Ei", "4Ei"),
    ],
)
def test_a_quantity_has_one_canonical_form(text: str, canonical: str) -> None:
    assert quantities.canonical(text) == canonical


@pytest.mark.parametrize("text", ["", " ", "x", "1x", "1Kix", "1.2.3", "1e1.5", "1 ", "0x1", "\uff11"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(quantities.QuantityError, match="quantities must match the regular expression"):
        quantities.canonical(text)


@pytest.mark.parametrize("text", ["1e", "1kk", "1Ki1", "1-2", "1+", "1i"])
def test_a_suffix_that_there_is_not_is_refused(text: str) -> None:
    with pytest.raises(quantities.QuantityError, match="unable to parse quantity's suffix"):
        quantities.canonical(text)


def test_a_power_that_nobody_means_is_read_at_once() -> None:
    assert quantities.canonical("2e999999999") == quantities.canonical("2e400")
    assert quantities.canonical("1e-999999999") == "1e-9"


@pytest.mark.parametrize(("text", "rounded"), [("1", "1"), ("1m", "1m"), ("1u", "1m"), ("-1u", "-1m"), ("1500u", "2m")])
def test_amounts_of_resources_are_rounded_up_to_thousandths(text: str, rounded: str) -> None:
    assert quantities.rounded(text) == rounded


@given(
    st.builds(
        "{}{}{}".format,
        st.sampled_from(["", "-", "+"]),
        st.decimals(min_value=0, max_value=10**6, places=3).map(lambda number: format(number, "f")),
        st.sampled_from(["", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e2", "E-1", "u"]),
    )
)
def test_the_canonical_form_says_the_same_and_stays(text: str) -> None:
    once = quantities.canonical(text)
    assert quantities.canonical(once) == once
    assert abs(quantities.value(once) - quantities.value(text)) <= Fraction(1, 10**9)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05.999999999Z", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05+02:30", "2026-01-02T00:34:05Z"),
        ("2026-01-02T03:04:05-02:30", "2026-01-02T05:34:05Z"),
        ("0099-01-02T03:04:05Z", "0099-01-02T03:04:05Z"),
        ("0001-01-01T00:00:00Z", None),
    ],
)
def test_a_time_is_stored_to_the_second_in_utc(text: str, read: str | None) -> None:
    assert values.time(text) == read


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x", 'cannot parse "x" as "2006"'),
        ("2026-01-02", 'cannot parse "" as "T"'),
        ("2026-01-02T03:04:05", 'cannot parse "" as "Z07:00"'),
        ("2026-01-02T03:04:05Z!", 'extra text: "!"'),
        ("2026-02-31T03:04:05Z", "day out of range"),
        ("0001-01-01T00:00:00+23:59", "day out of range"),
    ],
)
def test_what_is_no_time_is_refused(text: str, why: str) -> None:
    with pytest.raises(values.WrongValue, match=why):
        values.time(text)


def test_a_time_to_the_microsecond_must_have_them() -> None:
    assert values.micro_time("2026-01-02T03:04:05.000006+01:00") == "2026-01-02T02:04:05.000006Z"
    assert values.micro_time("0001-01-01T00:00:00.000000Z") is None
    with pytest.raises(values.WrongValue, match=r'cannot parse "Z" as "\.000000"'):
        values.micro_time("2026-01-02T03:04:05Z")
    with pytest.raises(values.WrongValue, match='cannot parse "x" as "2006"'):
        values.micro_time("x")


@given(st.binary(max_size=40))
def test_bytes_stay_the_same(content: bytes) -> None:
    text = base64.encodebytes(content).decode()
    assert base64.b64decode(values.data(text)) == content


@pytest.mark.parametrize(("text", "place"), [("!", 0), ("aG!k", 2), ("aGk", 0), ("aGkxaG", 4), ("a===", 1), ("=", 0)])
def test_what_is_no_base64_is_refused_where_it_goes_wrong(text: str, place: int) -> None:
    with pytest.raises(values.WrongValue, match=f"illegal base64 data at input byte {place}"):
        values.data(text)


WRONG: dict[str, tuple[Any, str, str, str]] = {
    "a text for a list": ({"spec": {"containers": "x"}}, "string", "PodSpec.spec.containers", "[]v1.Container"),
    "a number for a name": (
        {"spec": {"containers": [{"name": 5}]}},
        "number",
        "Container.spec.containers.name",
        "string",
    ),
    "a number for a label": ({"metadata": {"labels": {"a": 1}}}, "number", "ObjectMeta.metadata.labels", "string"),
    "a list for labels": ({"metadata": {"labels": []}}, "array", "ObjectMeta.metadata.labels", "map[string]string"),
    "a number for a policy": (
        {"spec": {"restartPolicy": 1}},
        "number",
        "PodSpec.spec.restartPolicy",
        "v1.RestartPolicy",
    ),
    "a fraction": ({"spec": {"priority": 1.5}}, "number 1.5", "PodSpec.spec.priority", "int32"),
    "too large a number": ({"spec": {"priority": 2**31}}, "number 2147483648", "PodSpec.spec.priority", "int32"),
    "a text for a number": ({"spec": {"priority": "1"}}, "string", "PodSpec.spec.priority", "int32"),
    "a flag for a number": ({"spec": {"priority": True}}, "bool", "PodSpec.spec.priority", "int32"),
    "a number for a flag": ({"spec": {"hostPID": 1}}, "number", "PodSpec.spec.hostPID", "bool"),
    "a list for an object": ({"spec": {"os": []}}, "array", "PodSpec.spec.os", "v1.PodOS"),
    "an object for a text": ({"spec": {"hostname": {}}}, "object", "PodSpec.spec.hostname", "string"),
}


@pytest.mark.parametrize("title", WRONG)
def test_a_value_of_a_wrong_type_is_refused_in_go_s_words(title: str) -> None:
    body, found, field, wanted = WRONG[title]
    with pytest.raises(Refusal) as refused:
        PodRules().decode(body)
    assert refused.value.code == 400
    assert refused.value.message == (
        'Pod in version "v1" cannot be handled as a Pod: '
        f"json: cannot unmarshal {found} into Go struct field {field} of type {wanted}"
    )


def test_a_body_that_is_no_object_is_refused() -> None:
    with pytest.raises(WrongType, match=r"cannot unmarshal array into Go value of type v1\.Pod"):
        form(f"{CORE}.Pod").read([], None, [])


def test_unknown_fields_go_and_are_named() -> None:
    body = {
        "metadata": {"x": 1, "labels": {"any": "thing"}},
        "spec": {"containers": [{"name": "a"}, {"y": {}}], "Hostname": "h"},
        "other": None,
    }
    read, unknown = PodRules().decode(body)
    assert unknown == ["metadata.x", "spec.containers[1].y", "spec.Hostname", "other"]
    assert read["metadata"] == {"labels": {"any": "thing"}}
    assert "other" not in read


def test_nulls_are_as_nothing_or_as_what_go_has_for_nothing() -> None:
    read, _ = PodRules().decode({"metadata": None, "spec": {"containers": [None], "nodeSelector": {"a": None}}})
    assert read == {
        "metadata": {},
        "spec": {"containers": [{"name": "", "resources": {}}], "nodeSelector": {"a": ""}},
        "status": {},
    }
    assert ConfigMapRules().decode({"data": {"a": None}})[0] == {"metadata": {}, "data": {"a": ""}}


def test_empty_fields_go_but_those_that_go_tells_apart_stay() -> None:
    spec = {"hostNetwork": False, "hostname": "", "automountServiceAccountToken": False, "priority": 0, "volumes": []}
    read, _ = PodRules().decode({"spec": spec})
    assert read["spec"] == {"automountServiceAccountToken": False, "priority": 0, "containers": None}


def test_schemas_in_crds_are_read_at_every_depth() -> None:
    name = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
    unknown: list[str] = []
    schema = {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"type": "string", "nope": 1, "maxLength": 0}}},
        "additionalProperties": False,
        "required": [],
        "default": {"any": ["thing"]},
        "dependencies": {"a": ["b"], "c": {"type": "object", "items": [{"x": 1}]}},
        "minimum": 1.5,
    }
    read = form(name).read(schema, None, unknown)
    assert read["properties"]["a"]["items"] == {"type": "string", "maxLength": 0}
    assert (read["additionalProperties"], read["default"]) == (False, {"any": ["thing"]})
    assert "required" not in read
    assert unknown == ["properties.a.items.nope", "dependencies.c.items[0].x"]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
fields = st.sampled_from(sorted(definitions()[f"{CORE}.PodSpec"]["properties"]))


@given(st.dictionaries(fields, json_values, max_size=4))
def test_what_was_read_once_is_read_the_same_again(spec: dict[str, Any]) -> None:
    rules = PodRules()
    with suppress(Refusal):
        once, _ = rules.decode({"spec": spec})
        assert rules.decode(once) == (once, [])
