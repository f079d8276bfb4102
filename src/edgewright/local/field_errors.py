"""What can be wrong with a field, in the words that kube-apiserver has for it.

Whoever validates (options, metadata, kinds, schemas) creates its causes here, so that each sentence is written once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from edgewright.local.go_format import compact, plain, quote
from edgewright.runtime.errors import Cause

OMITTED = object()
"""Stands for a value that the sentence leaves out."""


class Rendered(str):
    """A value that is in the form of the sentence already."""

    __slots__ = ()


def required(field: str, why: str = "") -> Cause:
    """A field that must be there is not."""
    return Cause("FieldValueRequired", f"Required value: {why}" if why else "Required value", field)


def invalid(field: str, value: Any, why: str) -> Cause:
    """A field has a value that it may not have; `value` is shown as Go would show it."""
    return Cause("FieldValueInvalid", _sentence("Invalid value", value, why), field)


def type_invalid(field: str, value: Any, why: str) -> Cause:
    """A field has a value of another type than its own."""
    return Cause("FieldValueTypeInvalid", _sentence("Invalid value", value, why), field)


def forbidden(field: str, why: str) -> Cause:
    """A field may not be set, or not be changed, here."""
    return Cause("FieldValueForbidden", f"Forbidden: {why}", field)


def duplicate(field: str, value: Any) -> Cause:
    """A value that must be there once is there again."""
    return Cause("FieldValueDuplicate", _sentence("Duplicate value", value, ""), field)


def unsupported(field: str, value: Any, supported: Iterable[str]) -> Cause:
    """A field has none of the values that it may have."""
    listed = ", ".join(quote(each) for each in supported)
    why = f"supported values: {listed}" if listed else ""
    return Cause("FieldValueNotSupported", _sentence("Unsupported value", value, why), field)


def too_long(field: str, most: int) -> Cause:
    """A text is longer than allowed; the real server says bytes, whether it counts them or characters."""
    why = f"may not be more than {most} {'byte' if most == 1 else 'bytes'}"
    return Cause("FieldValueTooLong", _sentence("Too long", OMITTED, why), field)


def too_many(field: str, count: int, most: int) -> Cause:
    """A list has more items than it may have."""
    why = f"must have at most {most} {'item' if most == 1 else 'items'}"
    return Cause("FieldValueTooMany", _sentence("Too many", count, why), field)


def _sentence(what: str, value: Any, why: str) -> str:
    parts = [what] if value is OMITTED else [what, shown(value)]
    return ": ".join([*parts, why] if why else parts)


def shown(value: Any) -> str:
    """A value in a message, as Go would show it."""
    if isinstance(value, Rendered):
        return str(value)
    return compact(value, in_order=True) if isinstance(value, dict | list) else plain(value)
