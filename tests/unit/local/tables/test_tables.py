"""Tables and bare metadata around the rows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from edgewright.local import tables
from edgewright.local.served import Served
from edgewright.runtime.objects import Kind

NOW = datetime(2026, 11, 16, 3, 0, 0, tzinfo=UTC)
POD = Kind(group="", version="v1", kind="Pod", plural="pods")
CONFIG_MAP = Kind(group="", version="v1", kind="ConfigMap", plural="configmaps")


def served(kind: Kind, **settings: Any) -> Served:
    return Served(
        kind=kind,
        singular=kind.kind.lower(),
        list_kind=f"{kind.kind}List",
        storage=kind.plural,
        storage_api_version=kind.api_version,
        **settings,
    )


def builtin(kind: Kind) -> Served:
    columns, row = tables.builtin_columns(kind)
    return served(kind, columns=columns, row=row)


def config_map(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}, "data": {"a": "1"}}


def test_a_table_has_columns_rows_and_the_metadata_of_the_list() -> None:
    metadata = {"resourceVersion": "7", "continue": "more", "remainingItemCount": 3, "selfLink": "no"}
    table = tables.table(builtin(CONFIG_MAP), [config_map("x")], now=NOW, list_metadata=metadata)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert table["columnDefinitions"][0] == {
        "name": "Name",
        "type": "string",
        "format": "name",
        "description": table["columnDefinitions"][0]["description"],
        "priority": 0,
    }
    assert table["rows"] == [
        {
            "cells": ["x", 1, "<unknown>"],
            "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "x"}},
        }
    ]
    assert {name: table[name] for name in ("kind", "apiVersion", "metadata")} == {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "7", "continue": "more", "remainingItemCount": 3},
    }


def test_a_row_carries_its_object_where_it_is_wanted() -> None:
    table = tables.table(builtin(CONFIG_MAP), [config_map("x")], now=NOW, include="Object")
    assert table["rows"][0]["object"] == config_map("x")


def test_a_row_carries_nothing_where_nothing_is_wanted() -> None:
    table = tables.table(builtin(CONFIG_MAP), [config_map("x")], now=NOW, include="None")
    assert table["rows"][0]["object"] is None


def test_the_end_of_the_initial_events_is_told_even_where_nothing_is_wanted() -> None:
    bookmark = {"metadata": {"resourceVersion": "7", "annotations": {"k8s.io/initial-events-end": "true"}}}
    table = tables.table(builtin(CONFIG_MAP), [bookmark], now=NOW, include="None", api_version="meta.k8s.io/v1beta1")
    assert table["rows"][0]["object"] == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1beta1",
        **bookmark,
    }


def test_a_table_without_headers_has_rows_alone() -> None:
    table = tables.table(builtin(CONFIG_MAP), [config_map("x")], now=NOW, no_headers=True)
    assert table["columnDefinitions"] is None
    assert table["rows"][0]["cells"][0] == "x"


def test_the_row_of_a_pod_that_has_ended_says_so_and_others_do_not() -> None:
    pods = [{"metadata": {"name": phase}, "status": {"phase": phase}} for phase in ("Succeeded", "Running")]
    ended, running = tables.table(builtin(POD), pods, now=NOW)["rows"]
    assert ended["conditions"][0]["reason"] == "Succeeded"
    assert "conditions" not in running


@pytest.mark.parametrize(("settings", "rows"), [({}, None), ({"row": lambda _obj, _now: []}, [])])
def test_no_rows_are_null_only_for_a_kind_without_a_table_of_its_own(settings: Any, rows: Any) -> None:
    assert tables.table(served(CONFIG_MAP, **settings), [], now=NOW)["rows"] == rows


def test_a_kind_without_a_row_shows_name_and_creation() -> None:
    created = config_map("x", creationTimestamp="2026-11-16T02:00:00Z")
    table = tables.table(served(CONFIG_MAP), [created], now=NOW)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Created At"]
    assert table["rows"][0]["cells"] == ["x", "2026-11-16T02:00:00Z"]


def test_metadata_alone_is_a_kind_of_its_own() -> None:
    assert tables.partial(config_map("x")) == {
        "kind": "PartialObjectMetadata",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"name": "x"},
    }
    assert tables.partial_list([config_map("x")], list_metadata={"resourceVersion": "7"}) == {
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "7"},
        "items": [tables.partial(config_map("x"))],
    }
