"""Values that a schema does not allow are named in the words of the real server."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.local import schema
from edgewright.local.schema import value_errors
from tests.unit.local.schema import cases
from tests.unit.local.schema.recorded import RECORDED, listed, stored

COMPILED = schema.compile(cases.SCHEMA)
SAID = RECORDED["values"]


@pytest.mark.parametrize("name", cases.CREATED)
def test_a_new_object_has_the_faults_that_the_real_server_names(name: str) -> None:
    assert listed(COMPILED.validate(stored(COMPILED, cases.CREATED[name]))) == SAID["created"][name]


@pytest.mark.parametrize("name", cases.UPDATED)
def test_an_update_has_the_faults_that_the_real_server_names(name: str) -> None:
    before, after = (stored(COMPILED, spec) for spec in cases.UPDATED[name])
    assert listed(COMPILED.validate(after, before)) == SAID["updated"][name]


@pytest.mark.parametrize("name", cases.STATUSES)
def test_a_status_has_the_faults_that_the_real_server_names(name: str) -> None:
    before, after = (
        stored(COMPILED, {"small": 11}, **({} if status is None else {"status": status}))
        for status in cases.STATUSES[name]
    )
    assert listed(COMPILED.validate(after, before, subresource="status")) == SAID["statuses"][name]


def test_a_kind_without_a_schema_for_its_status_takes_any() -> None:
    compiled = schema.compile({"type": "object"})
    assert compiled.validate({"status": 1}, {}, subresource="status") == []


def checked(held: dict[str, Any], value: Any) -> list[str]:
    """The sentences about a value of a field."""
    return [cause.message for cause in schema.compile({"properties": {"x": held}}).validate({"x": value})]


def test_items_that_must_differ_are_compared_whole() -> None:
    held = {"type": "array", "uniqueItems": True}
    assert checked(held, [1, True, 1.0, {"a": [1]}, {"a": [2]}]) == []
    assert checked(held, [{"a": [1]}, {"a": [1]}]) == ['Invalid value: "": x in body shouldn\'t contain duplicates']


def test_a_factor_that_is_none_is_named() -> None:
    assert checked({"type": "integer", "multipleOf": -2}, 4) == [
        "Invalid value: -2: factor MultipleOf declared for x must be positive: -2"
    ]
    assert checked({"type": "integer", "multipleOf": 1.5}, 4) == [
        'Invalid value: "": MultipleOf value must be of type integer (default format) in x',
        "Invalid value: 4: x in body should be a multiple of 1.5",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (100000.0, "100000"),
        (999999.5, "999999.5"),
        (1000000.0, "1e+06"),
        (-1234567.5, "-1.2345675e+06"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1e300, "1e+300"),
        (float("inf"), "+Inf"),
        (float("-inf"), "-Inf"),
        (float("nan"), "NaN"),
        (12345678, "12345678"),
        (2**63, "9.223372036854776e+18"),
    ],
    ids=str,
)
def test_numbers_are_written_as_go_writes_them(value: float, text: str) -> None:
    assert value_errors.number(value) == text


def test_values_of_every_type_are_shown() -> None:
    shown = [
        value_errors.duplicate("f", value).message.removeprefix("Duplicate value: ")
        for value in ("a", True, False, 1, 1.5, None, {"b": 1, "a": "<"}, value_errors.Rendered("x y"))
    ]
    assert shown == ['"a"', "true", "false", "1", "1.5", "null", '{"a":"\\u003c","b":1}', "x y"]


names = st.sampled_from([*cases.SPEC["properties"], "spec", "status", "a", "name", "x"])
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(names, below, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(names, anything, max_size=5), st.dictionaries(names, anything, max_size=5))
def test_whatever_comes_is_judged_and_what_does_not_change_has_no_new_faults(
    spec: dict[str, Any], other: dict[str, Any]
) -> None:
    obj = {"spec": spec}
    assert set(COMPILED.validate(obj, obj)) <= set(COMPILED.validate(obj))
    COMPILED.validate({"spec": other}, obj)


def test_an_object_is_left_as_it_is() -> None:
    for spec in cases.CREATED.values():
        obj = {"spec": copy.deepcopy(spec)}
        COMPILED.validate(obj, obj)
        assert obj == {"spec": spec}
