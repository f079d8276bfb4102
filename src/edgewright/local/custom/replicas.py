"""What the scale subresource of a custom kind asks of its objects: numbers of replicas and a selector that is text.

`kinds` calls it with every write of a kind that can be scaled; the schema has its own say next to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from edgewright.local import field_errors
from edgewright.local.errors import Cause
from edgewright.local.go_format import compact
from edgewright.local.served import ScalePaths
from edgewright.runtime.objects import RawObject

_LARGEST = 2**31 - 1
_GO_NAMES = {str: "string", bool: "bool", float: "float64", list: "[]interface {}", dict: "map[string]interface {}"}


def replicas_faults(obj: RawObject, paths: ScalePaths, *, status_only: bool) -> list[Cause]:
    """What is wrong with the fields that the scale subresource reads; `status_only` looks at those of the status."""
    causes: list[Cause] = []
    if not status_only:
        causes += _number(obj, paths.spec_replicas)
    causes += _number(obj, paths.status_replicas)
    if paths.selector:
        wrong = _find(obj, paths.selector, str, "string")[1]
        if wrong:
            causes.append(_invalid(paths.selector, "", wrong))
    return causes


def _number(obj: RawObject, path: Sequence[str]) -> list[Cause]:
    value, wrong = _find(obj, path, int, "int64")
    if wrong:
        return [_invalid(path, 0, wrong)]
    if value is None:
        return []
    if value < 0:
        return [_invalid(path, value, "should be a non-negative integer")]
    if value > _LARGEST:
        return [_invalid(path, value, f"should be less than or equal to {_LARGEST}")]
    return []


def _find(obj: RawObject, path: Sequence[str], type_: type, wanted: str) -> tuple[Any, str]:
    """The value there and what is wrong with it or with what is on the way."""
    value: Any = obj
    for index, name in enumerate(path):
        if not isinstance(value, dict):
            return None, _accessor_error(path[: index + 1], value, "map[string]interface{}")
        if name not in value:
            return None, ""
        value = value[name]
    if isinstance(value, bool) or not isinstance(value, type_):
        return None, _accessor_error(path, value, wanted)
    return value, ""


def _accessor_error(path: Sequence[str], value: Any, wanted: str) -> str:
    shown = "<nil>" if value is None else value if isinstance(value, str) else compact(value)
    kind = "<nil>" if value is None else _GO_NAMES.get(type(value), "int64")
    return f".{'.'.join(path)} accessor error: {shown} is of the type {kind}, expected {wanted}"


def _invalid(path: Sequence[str], value: Any, why: str) -> Cause:
    return field_errors.invalid("." + ".".join(path), value, why)
