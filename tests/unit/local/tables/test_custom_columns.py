"""The cells of custom kinds: each value in a column of each type."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.local.served import Column
from edgewright.local.tables import custom_columns, scale_columns

NOW = datetime(2026, 11, 16, 3, 0, 0, tzinfo=UTC)
TYPES = ("string", "integer", "number", "boolean", "date")


def cells(value: Any) -> tuple[Any, ...]:
    """What the columns of all types show of a value."""
    _, row = custom_columns([{"name": each, "type": each, "jsonPath": ".value"} for each in TYPES])
    name, *rest = row({"metadata": {"name": "x"}, "value": value}, NOW)
    assert name == "x"
    return tuple(rest)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("text", ("text", None, None, None, "<invalid>")),
        ("", ("", None, None, None, "<unknown>")),
        ("null", ("null", None, None, None, "<unknown>")),
        ("2026-11-16T02:00:00Z", ("2026-11-16T02:00:00Z", None, None, None, "60m")),
        ("0001-01-01T00:00:00Z", ("0001-01-01T00:00:00Z", None, None, None, "<unknown>")),
        (5, ("5", 5, 5, None, None)),
        (1.0, ("1", 1, 1, None, None)),
        (-1.5, ("-1.5", -1, -1.5, None, None)),
        (2**53 + 1, ("9007199254740993", 9007199254740993, 9007199254740992, None, None)),
        (10**20, ("1e+20", -(2**63), 10**20, None, None)),
        (1e21, ("1e+21", -(2**63), 1e21, None, None)),
        (True, ("true", None, None, True, None)),
        (None, ("<no value>", None, None, None, None)),
        ([], ("[]", None, None, None, None)),
        ({}, ("{}", None, None, None, None)),
        (
            {"b": 1, "a": {"<": "&"}, "c": [1.0, 1.5, 1e21, 1e-7, None, True, 0.0]},
            (
                '{"a":{"\\u003c":"\\u0026"},"b":1,"c":[1,1.5,1e+21,1e-7,null,true,0]}',
                None,
                None,
                None,
                None,
            ),
        ),
    ],
)
def test_a_value_is_shown_where_it_fits(value: Any, shown: tuple[Any, ...]) -> None:
    found = cells(value)
    assert found == shown
    assert [type(each) for each in found] == [type(each) for each in shown]


def test_what_is_not_there_is_null() -> None:
    _, row = custom_columns([{"name": each, "type": each, "jsonPath": ".spec.nowhere"} for each in (*TYPES, "other")])
    assert row({"metadata": {"name": "x"}}, NOW) == ["x", *[None] * 6]


def test_a_column_of_an_unknown_type_is_null() -> None:
    _, row = custom_columns([{"name": "a", "type": "other", "jsonPath": ".spec"}])
    assert row({"metadata": {"name": "x"}, "spec": "there"}, NOW) == ["x", None]


def test_the_literal_of_a_path_is_no_whole_number_of_the_object() -> None:
    _, row = custom_columns(
        [{"name": each, "type": each, "jsonPath": ". 5"} for each in ("string", "integer", "number")]
    )
    assert row({"": 1}, NOW) == ["", "5", None, None]


def test_a_column_says_what_its_definition_says() -> None:
    columns, _ = custom_columns(
        [
            {
                "name": "Size",
                "type": "integer",
                "format": "int32",
                "description": "Its size.",
                "priority": 1,
                "jsonPath": ".spec.size",
            },
            {"name": "Other", "type": "string", "jsonPath": ".spec.other"},
        ]
    )
    assert columns[1:] == (
        Column(name="Size", type="integer", format="int32", description="Its size.", priority=1),
        Column(name="Other", type="string", description="The value at .spec.other."),
    )


@pytest.mark.parametrize("definitions", [None, []])
def test_a_kind_without_columns_shows_its_age(definitions: list[Any] | None) -> None:
    columns, row = custom_columns(definitions)
    assert [(column.name, column.type, column.format) for column in columns] == [
        ("Name", "string", "name"),
        ("Age", "date", ""),
    ]
    assert row({"metadata": {"name": "x", "creationTimestamp": "2026-11-16T02:59:00Z"}}, NOW) == ["x", "60s"]


def test_the_first_faulty_path_ends_the_columns() -> None:
    columns, row = custom_columns(
        [{"name": name, "type": "string", "jsonPath": path} for name, path in (("a", ".a"), ("b", ".b["), ("c", ".c"))]
    )
    assert [column.name for column in columns] == ["Name", "a"]
    assert row({"a": "1"}, NOW) == ["", "1"]


def test_a_scale_shows_what_is_wanted_and_what_is_there() -> None:
    columns, row = scale_columns()
    scale = {
        "metadata": {"name": "x", "creationTimestamp": "2026-11-16T02:59:00Z"},
        "spec": {"replicas": 3},
        "status": {"replicas": 2},
    }
    assert [column.name for column in columns] == ["Name", "Desired", "Available", "Age"]
    assert row(scale, NOW) == ["x", 3, 2, "60s"]


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text() | st.booleans() | st.none())
def test_every_value_is_shown_as_something_of_its_columns_type(value: Any) -> None:
    string, integer, number, boolean, date = cells(value)
    assert isinstance(string, str)
    assert integer is None or -(2**63) <= integer < 2**63
    assert number is None or float(number) == float(value)
    assert boolean in (None, value)
    assert date is None or isinstance(date, str)
