"""Objects as other things than themselves: as rows of a table, or as their metadata alone.

Serving calls `table`, `partial` and `partial_list` where a request asks for that; the makers of kinds call
`builtin_columns` and `custom_columns`. Nothing here refuses: whether a table may be had was decided before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, TypeAlias

from edgewright.local.served import Column, Served
from edgewright.runtime.objects import RawObject

from .ages import human_duration
from .builtin import CREATED_AT, builtin_columns, created_at_row
from .custom import Row, custom_columns, scale_columns
from .pods import row_conditions

__all__ = [
    "Include",
    "Row",
    "builtin_columns",
    "custom_columns",
    "human_duration",
    "partial",
    "partial_list",
    "scale_columns",
    "table",
]

Include: TypeAlias = Literal["Metadata", "None", "Object"]
"""What a row carries of its object; a request that does not say gets the metadata."""

META_V1 = "meta.k8s.io/v1"
_INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_LIST_METADATA = ("resourceVersion", "continue", "remainingItemCount")


def table(
    served: Served,
    items: Iterable[RawObject],
    *,
    now: datetime,
    include: Include = "Metadata",
    no_headers: bool = False,
    list_metadata: Mapping[str, Any] | None = None,
    api_version: str = META_V1,
) -> RawObject:
    """The objects as a Table, one per row.

    `list_metadata` is the metadata of the list that they are, or of the single object, whose version the table says.
    """
    columns, row = (served.columns, served.row) if served.row else (CREATED_AT, created_at_row)
    rows = [_row(served, obj, row(obj, now), include, api_version) for obj in items]
    return {
        "kind": "Table",
        "apiVersion": api_version,
        "metadata": _of_a_list(list_metadata),
        "columnDefinitions": None if no_headers else [_definition(column) for column in columns],
        # A kind without a table of its own says null where it has no rows, in the real server as well.
        "rows": rows if rows or served.row not in (None, created_at_row) else None,
    }


def _row(served: Served, obj: RawObject, cells: Iterable[Any], include: Include, api_version: str) -> RawObject:
    row: RawObject = {"cells": list(cells)}
    if (served.kind.group, served.kind.kind) == ("", "Pod") and (conditions := row_conditions(obj)):
        row["conditions"] = conditions
    if include == "Object":
        row["object"] = obj
    elif include == "None" and not _ends_the_initial_events(obj):
        row["object"] = None
    else:
        row["object"] = partial(obj, api_version=api_version)
    return row


def _ends_the_initial_events(obj: RawObject) -> bool:
    # The bookmark of a watch says so in its metadata, which therefore is there even when nobody wanted any.
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    return bool(annotations.get(_INITIAL_EVENTS_END) == "true")


def _definition(column: Column) -> RawObject:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": column.description,
        "priority": column.priority,
    }


def partial(obj: RawObject, *, api_version: str = META_V1) -> RawObject:
    """The object's metadata alone, as a PartialObjectMetadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": obj.get("metadata") or {}}


def partial_list(
    items: Iterable[RawObject], *, list_metadata: Mapping[str, Any] | None = None, api_version: str = META_V1
) -> RawObject:
    """The metadata of a list's objects, as a PartialObjectMetadataList."""
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": api_version,
        "metadata": _of_a_list(list_metadata),
        "items": [partial(obj, api_version=api_version) for obj in items],
    }


def _of_a_list(metadata: Mapping[str, Any] | None) -> RawObject:
    return {name: metadata[name] for name in _LIST_METADATA if metadata and metadata.get(name)}
