"""The sentences in which the real server says what is wrong with a field.

Everything in this package that finds a fault creates its `Cause` here, so that reasons and wording are in one place.
What is wrong is decided by the callers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from edgewright.local import field_errors
from edgewright.local.field_errors import OMITTED, Rendered, forbidden, required, too_long, too_many
from edgewright.local.go_format import compact, number
from edgewright.runtime.errors import Cause

__all__ = [
    "BLOCKING",
    "LARGEST_INT",
    "NOWHERE",
    "OMITTED",
    "SMALLEST_INT",
    "Rendered",
    "duplicate",
    "forbidden",
    "invalid",
    "is_int",
    "not_supported",
    "number",
    "required",
    "same",
    "too_long",
    "too_many",
    "type_invalid",
]

NOWHERE = "<nil>"
"""The field of a fault that belongs to the whole object."""
LARGEST_INT = 2**63 - 1
SMALLEST_INT = -(2**63)

BLOCKING = frozenset(
    {
        "FieldValueNotSupported",
        "FieldValueRequired",
        "FieldValueTooLong",
        "FieldValueTooMany",
        "FieldValueTypeInvalid",
    }
)
"""Faults after which the rules of a schema are not asked any more."""


def invalid(field: str, value: Any, detail: str) -> Cause:
    """The value is wrong."""
    return field_errors.invalid(field, _free(value), detail)


def type_invalid(field: str, value: Any, detail: str) -> Cause:
    """The value is of another type than the field."""
    return field_errors.type_invalid(field, _free(value), detail)


def duplicate(field: str, value: Any) -> Cause:
    """The value is there already."""
    return field_errors.duplicate(field, _free(value))


def not_supported(field: str, value: Any, allowed: Iterable[Any]) -> Cause:
    """The value is none of those that are allowed."""
    listed = [each if isinstance(each, str) else compact(each) for each in allowed]
    return field_errors.unsupported(field, _free(value), listed)


def _free(value: Any) -> Any:
    """A value whose fields no type puts into an order: they are sorted."""
    return Rendered(compact(_as_json(value))) if isinstance(value, dict | list) else value


def _as_json(value: Any) -> Any:
    """The value with numbers that JSON writes without a point as integers."""
    if isinstance(value, dict):
        return {name: _as_json(child) for name, child in value.items()}
    if isinstance(value, list):
        return [_as_json(item) for item in value]
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e21
    return int(value) if whole else value


def is_int(value: Any) -> bool:
    """Whether a value is kept as an integer: whole numbers beyond 64 bits are kept as floating-point numbers."""
    return isinstance(value, int) and not isinstance(value, bool) and SMALLEST_INT <= value <= LARGEST_INT


def same(left: Any, right: Any) -> bool:
    """Whether two values are equal in type as well: 1, 1.0 and true differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(value, right[name]) for name, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if _is_float(left) and _is_float(right):
        return float(left) == float(right)
    return _is_float(left) == _is_float(right) and type(left) is type(right) and bool(left == right)


def _is_float(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not is_int(value)
