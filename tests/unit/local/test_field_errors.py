"""The sentences in which a field's fault is told."""

from __future__ import annotations

from typing import Any

import pytest

from edgewright.local import field_errors
from edgewright.runtime.errors import Cause


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("a\n", r'"a\n"'),
        (True, "true"),
        (False, "false"),
        (None, "null"),
        (1, "1"),
        (1.5, "1.5"),
        ({"b": ["ä", 1]}, '{"b":["ä",1]}'),
        ([], "[]"),
    ],
)
def test_a_value_is_shown_as_go_shows_it(value: Any, shown: str) -> None:
    assert field_errors.invalid("f", value, "why").message == f"Invalid value: {shown}: why"


@pytest.mark.parametrize(
    ("cause", "reason", "message"),
    [
        (field_errors.required("f"), "FieldValueRequired", "Required value"),
        (field_errors.required("f", "why"), "FieldValueRequired", "Required value: why"),
        (field_errors.forbidden("f", "why"), "FieldValueForbidden", "Forbidden: why"),
        (field_errors.duplicate("f", "x"), "FieldValueDuplicate", 'Duplicate value: "x"'),
        (
            field_errors.unsupported("f", "x", ["a", "b"]),
            "FieldValueNotSupported",
            'Unsupported value: "x": supported values: "a", "b"',
        ),
        (field_errors.too_long("f", 5), "FieldValueTooLong", "Too long: may not be more than 5 bytes"),
    ],
)
def test_every_fault_has_its_reason_and_sentence(cause: Cause, reason: str, message: str) -> None:
    assert (cause.field, cause.reason, cause.message) == ("f", reason, message)
