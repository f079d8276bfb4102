"""Exchanges about server-side apply of custom objects, whose definition says how their lists and maps are merged."""

from __future__ import annotations

from typing import Any

from tests.cluster.differential.apply_builtin import applied
from tests.cluster.differential.custom_kinds import READY, WIDGETS, Object, widget
from tests.cluster.differential.exchange import Exchange, Step, edited, exchange, get, patch, put

_A = f"{WIDGETS}/a"
_FIRST: Object = {
    "size": 1,
    "parts": [{"name": "a", "value": 1}, {"name": "b"}],
    "tags": ["x", "y"],
    "map": {"m": 1},
    "inner": {"y": "1"},
    "whole": [1, 2],
    "atom": {"a": "1"},
}


def there(*steps: Step) -> Exchange:
    """An exchange about a Widget that `one` has applied."""
    return exchange(*READY, applied(_A, widget(**_FIRST), compared=False), *steps)


def second(query: str = "", **spec: Any) -> Step:
    """An apply by another."""
    return applied(_A, widget(**spec), "two", query)


CUSTOM: dict[str, Exchange] = {
    "a new object": exchange(*READY, applied(_A, widget(**_FIRST))),
    "a new object without what is required": exchange(*READY, applied(_A, widget(text="x"))),
    "the same again": there(applied(_A, widget(**_FIRST))),
    "other parts": there(second(parts=[{"name": "c", "value": 1}], tags=["z"], map={"n": 1})),
    "the same fields": there(second(size=2, parts=[{"name": "a", "value": 5}], map={"m": 2}, inner={"y": "2"})),
    "a list that is one": there(second(whole=[1, 2, 3])),
    "a map that is one": there(second(atom={"b": "1"})),
    "one field": there(second(size=2)),
    "by force": there(second("&force=true", size=2, parts=[{"name": "a", "value": 5}], whole=[3], atom={"b": "2"})),
    "less than before": there(applied(_A, widget(size=1, tags=["y"]))),
    "less than is required": there(applied(_A, widget(tags=["y"]))),
    "a default": there(second(mode="b"), second()),
    "a value that cannot be": there(second("&force=true", size=99)),
    "a value that was greater": there(second("&force=true", size=0)),
    "the status": there(applied(_A, {**widget(size=1), "status": {"phase": "Up"}}, "two")),
    "anything in what is free": there(
        second(free={"a": {"b": 1}, "l": [1, 2]}), applied(_A, widget(free={"a": {"b": 2}, "l": [1]}), "three")
    ),
    "an embedded object": there(
        second(embedded={"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "labels": {"a": "b"}}, "data": 1})
    ),
    "a number and then a text": there(second(amount=5), applied(_A, widget(amount="5"), "three")),
    "a null": there(second(text=None)),
    "a null that may be": there(second(maybe=None)),
    "over an update": there(
        get(_A, compared=False),
        put(f"{_A}?fieldManager=updater", edited(-1, spec__size=5, spec__parts=[{"name": "z"}])),
        applied(_A, widget(size=6, parts=[{"name": "z", "value": 1}])),
    ),
    "over a patch that removes": there(
        patch(f"{_A}?fieldManager=updater", {"spec": {"parts": None, "tags": ["x"]}}), applied(_A, widget(**_FIRST))
    ),
    "labels and annotations": there(
        applied(_A, widget(metadata={"labels": {"l": "1"}, "annotations": {"a": "1"}}), "two"),
        applied(_A, widget(metadata={"labels": {"l": "2"}}), "three"),
    ),
    "bad labels": there(applied(_A, widget(metadata={"labels": {"l l": "1"}}), "two")),
    "a generated name": there(applied(_A, widget(metadata={"generateName": "x-"}), "two")),
    "in a dry run": there(second("&dryRun=All", text="dry"), get(_A)),
}
