"""The columns of custom kinds, from what their definition says in `additionalPrinterColumns`.

`custom` asks once a version of a CustomResourceDefinition; serving calls the row for each object of a table. Cells are
converted as kube-apiserver converts them: a value that does not fit its column's type is null and never an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, TypeAlias

from edgewright.local.go_format import compact, json_number
from edgewright.local.served import Column
from edgewright.runtime.objects import RawObject

from .ages import INVALID, UNKNOWN, age, parse_time
from .jsonpath import ForeignInt, Path, PathError, kept, text

Row: TypeAlias = Callable[[RawObject, datetime], Sequence[Any]]
Cell: TypeAlias = Callable[[Any, datetime], Any]

NAME = Column(name="Name", format="name", description="The object's name, unique in its namespace.")
AGE = "When the object was created."
_ONLY_AGE: RawObject = {
    "name": "Age",
    "type": "date",
    "description": AGE,
    "jsonPath": ".metadata.creationTimestamp",
}
_SCALE: tuple[RawObject, ...] = (
    {"name": "Desired", "type": "integer", "description": "How many are wanted.", "jsonPath": ".spec.replicas"},
    {"name": "Available", "type": "integer", "description": "How many there are.", "jsonPath": ".status.replicas"},
    _ONLY_AGE,
)
_MAX_COUNT, _LEAST = 2**63 - 1, -(2**63)


def custom_columns(definitions: Sequence[RawObject] | None) -> tuple[tuple[Column, ...], Row]:
    """Columns and row of a custom kind; without definitions name and age, and none from the first faulty path on."""
    columns, cells = [NAME], []
    for definition in definitions or (_ONLY_AGE,):
        source = definition.get("jsonPath", "")
        try:
            path = Path.parse(source)
        except PathError:
            break
        column = Column(
            name=definition.get("name", ""),
            type=definition.get("type", ""),
            format=definition.get("format") or "",
            description=definition.get("description") or f"The value at {source}.",
            priority=definition.get("priority") or 0,
        )
        columns.append(column)
        cells.append((path, _CELLS.get(column.type, _nothing)))
    return tuple(columns), _row(tuple(cells))


def scale_columns() -> tuple[tuple[Column, ...], Row]:
    """Columns and row of a Scale, the answer of a custom kind's scale subresource."""
    return custom_columns(_SCALE)


def _row(cells: Iterable[tuple[Path, Cell]]) -> Row:
    def row(obj: RawObject, now: datetime) -> list[Any]:
        values: list[Any] = [obj.get("metadata", {}).get("name", "")]
        for path, cell in cells:
            found = path.find(obj)
            values.append(cell(kept(found[0]), now) if found else None)
        return values

    return row


def _nothing(_value: Any, _now: datetime) -> None:
    """A column of a type that does not exist shows nothing."""


def _string(value: Any, _now: datetime) -> str:
    if value is None:
        return "<no value>"
    return _json(value) if isinstance(value, dict | list) else text(value)


def _integer(value: Any, _now: datetime) -> int | None:
    if isinstance(value, float):
        # What is too large for 64 bits becomes the least of them: so says the processor, and so the real server.
        return int(value) if _LEAST <= value <= _MAX_COUNT else _LEAST
    return value if _is_whole(value) else None


def _number(value: Any, _now: datetime) -> float | None:
    if not (isinstance(value, float) or _is_whole(value)):
        return None
    number = float(value)
    # 5 and not 5.0, as long as it is written without an exponent.
    return int(Decimal(repr(number))) if number.is_integer() and abs(number) < 1e21 else number


def _boolean(value: Any, _now: datetime) -> bool | None:
    return value if isinstance(value, bool) else None


def _date(value: Any, now: datetime) -> str | None:
    if not isinstance(value, str):
        return None
    if value in ("", "null"):
        return UNKNOWN
    try:
        parse_time(value)
    except ValueError:
        return INVALID
    return age(value, now)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool | ForeignInt)


def _json(value: Any) -> str:
    """Compact JSON with sorted keys, its numbers written as Go writes them."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{compact(key)}:{_json(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json, value)) + "]"
    value = kept(value)
    return json_number(value) if isinstance(value, float) else compact(value)


_CELLS: dict[str, Cell] = {
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "date": _date,
}
