"""Exchanges about custom objects: what their schema does to them, and reading, writing and removing them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tests.cluster.differential.bodies import PARTIAL, PARTIAL_LIST, TABLE
from tests.cluster.differential.custom_kinds import FIRST, FULL, GROUP, READY, WIDGETS, widget
from tests.cluster.differential.exchange import (
    JSON_PATCH,
    STRATEGIC,
    Exchange,
    Step,
    cached,
    delete,
    edited,
    exchange,
    get,
    made,
    patch,
    post,
    put,
    watch,
)

_A = f"{WIDGETS}/a"
_YAML = f"apiVersion: {GROUP}/v1\nkind: Widget\nmetadata:\n  name: a\nspec:\n  size: 2\n"
_TWICE = json.dumps(widget(size=1)).replace('"size": 1', '"size": 1, "size": 2')


_SCALARS = (
    *(
        "12:30:45",
        "1:2",
        "190:20:30.15",
        "0777",
        "08",
        "0o17",
        "0x1F",
        "0b101",
        "1_000",
        "1__0",
        "0_8",
        "_1",
        "+5",
        "-0",
    ),
    *("1.5", "1.", ".5", "1e3", "1E+3", "1_0.5", "-.5", "9223372036854775807", "9" * 30),
    *("y", "n", "Y", "N", "yes", "no", "on", "off", "True", "FALSE", "yEs", "~", "null", "Null", "nuLL"),
    *("2001-01-01", "2001-12-14t21:59:43.10-05:00", "0x", "0b2", "-0x1F", "+0b1", "1e", "--1", "1 2", "=", "0.", "00"),
)


def scalars(words: Iterable[str]) -> str:
    """A Widget in YAML with each of these as a value that is not quoted."""
    return f"{_YAML}  free:\n" + "".join(f"    s{number}: {word}\n" for number, word in enumerate(words))


def about(*steps: Step) -> Exchange:
    """An exchange about Widgets."""
    return exchange(*READY, *steps)


def with_one(*steps: Step) -> Exchange:
    """An exchange about a Widget that is there, with a value in every field."""
    return about(made(WIDGETS, widget(**FULL)), *steps)


def created(query: str = "", **spec: Any) -> Exchange:
    """A creation."""
    return about(post(f"{WIDGETS}?dryRun=All{query}", widget(**spec)))


def updated(**changes: Any) -> Exchange:
    """An update of a Widget that is there."""
    return with_one(put(_A, edited(FIRST, **changes)))


CREATES: dict[str, Exchange] = {
    "with every field": about(post(WIDGETS, widget(**FULL)), get(_A)),
    "with the least": about(post(WIDGETS, widget(size=1))),
    "twice": with_one(post(WIDGETS, widget(size=1))),
    "a dry run": about(post(f"{WIDGETS}?dryRun=All", widget(size=1)), get(_A)),
    "with an unknown field": about(post(WIDGETS, widget(size=1, odd=1))),
    "with an unknown field, strictly": about(
        post(f"{WIDGETS}?fieldValidation=Strict", widget(metadata={"odd": 1}, size=1, odder=1, inner={"oddest": 1}))
    ),
    "with an unknown field and a warning": about(post(f"{WIDGETS}?fieldValidation=Warn", widget(size=1, odd=1))),
    "with an unknown field, whatever it is": about(post(f"{WIDGETS}?fieldValidation=Ignore", widget(size=1, odd=1))),
    "with a field twice, strictly": about(post(f"{WIDGETS}?fieldValidation=Strict", _TWICE)),
    "with a field twice and a warning": about(post(f"{WIDGETS}?fieldValidation=Warn", _TWICE)),
    "with a field twice, whatever it is": about(post(f"{WIDGETS}?fieldValidation=Ignore", _TWICE)),
    "in YAML": about(post(WIDGETS, _YAML, "application/yaml")),
    **{
        f"in YAML, with the value {word}": about(post(WIDGETS, scalars([word]), "application/yaml"))
        for word in _SCALARS
    },
    "in YAML, with each kind of value": about(post(WIDGETS, scalars(_SCALARS), "application/yaml")),
    "in YAML, with a key in base 60": about(post(WIDGETS, f"{_YAML}  free:\n    1:30: a\n", "application/yaml")),
    "with a generated name": about(
        post(WIDGETS, {**widget(size=1), "metadata": {"generateName": "some-"}}),
    ),
    "without a name": about(post(WIDGETS, {**widget(size=1), "metadata": {}})),
    "with a bad name": about(post(WIDGETS, widget("Not_Good", size=1))),
    "with bad labels": about(post(WIDGETS, widget(metadata={"labels": {"a b": "c d"}}, size=1))),
    "without a spec": about(post(WIDGETS, {key: value for key, value in widget().items() if key != "spec"})),
    "with a spec that is null": about(post(WIDGETS, {**widget(), "spec": None})),
    "with a spec that is a text": about(post(WIDGETS, {**widget(), "spec": "text"})),
    "in another namespace": about(post(WIDGETS, widget(metadata={"namespace": "other"}, size=1))),
    "in a namespace that is not there": about(post(f"/apis/{GROUP}/v1/namespaces/{{ns}}-none/widgets", widget(size=1))),
    "in no namespace": about(post(f"/apis/{GROUP}/v1/widgets", widget(size=1))),
    "with a status": about(post(WIDGETS, {**widget(size=1), "status": {"phase": "Up"}})),
    "with what only the server says": about(
        post(
            WIDGETS,
            widget(
                metadata={"uid": "x", "creationTimestamp": "2020-01-01T00:00:00Z", "generation": 7, "selfLink": "x"},
                size=1,
            ),
        )
    ),
    "with a finalizer of no domain": about(post(WIDGETS, widget(metadata={"finalizers": ["plain"]}, size=1))),
    "in a body that is empty": about(post(WIDGETS, "")),
    "in a body that is no JSON": about(post(WIDGETS, "{")),
    "in a body that is a list": about(post(WIDGETS, [1])),
    "in a body that is null": about(post(WIDGETS, "null")),
    "in a body without a kind": about(post(WIDGETS, {"apiVersion": f"{GROUP}/v1", "metadata": {"name": "a"}})),
    "in YAML with a field twice, strictly": about(
        post(f"{WIDGETS}?fieldValidation=Strict", f"{_YAML}  size: 3\n", "application/yaml")
    ),
    "in YAML with a field twice and a warning": about(
        post(f"{WIDGETS}?fieldValidation=Warn", f"{_YAML}  size: 3\n", "application/yaml")
    ),
    "at a name": with_one(post(_A, widget(size=1)), post(f"{WIDGETS}/b", widget("c", size=1))),
}

VALUES: dict[str, Exchange] = {
    "nothing that is required": created(),
    "a number that is too large": created(size=11),
    "a number that is too small": created(size=-1),
    "a text for a number": created(size="3"),
    "a fraction for a whole number": created(size=1.5),
    "a whole number with a point": about(
        post(f"{WIDGETS}?dryRun=All", json.dumps(widget(size=1)).replace('"size": 1', '"size": 1.0'))
    ),
    "a text that is too long": created(size=1, text="much too long"),
    "a text of another pattern": created(size=1, text="ABC"),
    "a text of no enum": created(size=1, mode="c"),
    "a null where none may be": created(size=1, text=None),
    "a null with a default": created(size=1, mode=None),
    "a null that may be": created(size=1, maybe=None, given=None),
    "a yes for a number or text": created(size=1, amount=True),
    "a number for a number or text": created(size=1, amount=5),
    "a time that is none": created(size=1, when="yesterday"),
    "a set with doubles": created(size=1, tags=["a", "a"]),
    "a set that is too large": created(size=1, tags=list("abcde")),
    "two parts of a key": created(size=1, parts=[{"name": "a"}, {"name": "a"}]),
    "a part without its key": created(size=1, parts=[{"value": 1}]),
    "an unknown field of a part": created("&fieldValidation=Strict", size=1, parts=[{"name": "a", "odd": 1}]),
    "a map of another type": created(size=1, map={"a": "x"}),
    "a map that is too large": created(size=1, map={"a": 1, "b": 2, "c": 3, "d": 4}),
    "a list for a map": created(size=1, map=[1]),
    "a text for an object": created(size=1, inner="x"),
    "anything in what is free": created(size=1, free={"a": [1, {"b": None}], "known": {"k": "v", "odd": 1}}),
    "an embedded object without a kind": created(size=1, embedded={"metadata": {"name": "x"}}),
    "an embedded object with a bad name": created(
        size=1, embedded={"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "X_"}}
    ),
    "an embedded object with a number as its name": created(
        size=1, embedded={"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 5}}
    ),
    "an embedded object with unknown metadata": created(
        "&fieldValidation=Strict",
        size=1,
        embedded={"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "odd": 1}, "more": 1},
    ),
    "a broken rule with an expression": created(size=1, low=5, high=2, text="abc"),
    "a broken rule without a message": created(size=1, text="bad"),
    "both of two that exclude each other": created(size=1, side={"left": "a", "right": "b"}),
    "neither of two": created(size=1, side={}),
    "no multiple": created(size=1, number=1.3),
    "negative replicas": created(size=1, replicas=-1),
    "too many replicas": created(size=1, replicas=2**31),
}

_NUMBERS = '"whole": 1.0, "thousand": 1e3, "negative": -2.0, "half": 0.5, "large": 9223372036854775807'
READS: dict[str, Exchange] = {
    "one": with_one(get(_A)),
    "one that is not there": about(get(_A)),
    "all": with_one(made(WIDGETS, widget("b", size=1)), get(WIDGETS)),
    "none": about(get(WIDGETS)),
    "a page": with_one(made(WIDGETS, widget("b", size=1)), get(f"{WIDGETS}?limit=1")),
    "by a field": with_one(made(WIDGETS, widget("b", size=1)), get(f"{WIDGETS}?fieldSelector=spec.size%3D3")),
    "by a field that says yes": with_one(
        made(WIDGETS, widget("b", size=1)), get(f"{WIDGETS}?fieldSelector=spec.flag%3Dtrue")
    ),
    "by a field that is not so": with_one(
        made(WIDGETS, widget("b", size=1, mode="b")), get(f"{WIDGETS}?fieldSelector=spec.mode!%3Da")
    ),
    "by two fields": with_one(
        made(WIDGETS, widget("b", size=1)), get(f"{WIDGETS}?fieldSelector=spec.mode%3Da,metadata.name%3Db")
    ),
    "by a field that is not set": with_one(
        made(WIDGETS, widget("b", size=1)), get(f"{WIDGETS}?fieldSelector=spec.flag%3D")
    ),
    "by a field that cannot be selected": about(get(f"{WIDGETS}?fieldSelector=spec.text%3Da")),
    "as a table": with_one(made(WIDGETS, widget("b", size=1)), get(WIDGETS, TABLE)),
    "as an empty table": about(get(WIDGETS, TABLE)),
    "as a table with objects": with_one(get(f"{WIDGETS}?includeObject=Object", TABLE)),
    "one as a table without objects": with_one(get(f"{_A}?includeObject=None", TABLE)),
    "one as metadata": with_one(get(_A, PARTIAL)),
    "all as metadata": with_one(get(WIDGETS, PARTIAL_LIST)),
    "in YAML": with_one(get(_A, "application/yaml")),
    "numbers, in YAML": about(
        made(WIDGETS, json.dumps(widget(size=1, free={})).replace('"free": {}', f'"free": {{{_NUMBERS}}}')),
        get(_A, "application/yaml"),
    ),
    "a watch": about(
        watch(f"{WIDGETS}?watch=true&resourceVersion=0&timeoutSeconds=10&fieldSelector=spec.mode%3Da", 3),
        made(WIDGETS, widget(size=1)),
        patch(_A, {"spec": {"size": 2}}, compared=False),
        patch(_A, {"spec": {"mode": "b"}}, compared=False),
    ),
    "a watch as tables": about(
        watch(f"{WIDGETS}?watch=true&resourceVersion=0&timeoutSeconds=10", 2, TABLE),
        made(WIDGETS, widget(size=1)),
        patch(_A, {"spec": {"size": 2}}, compared=False),
    ),
    "a watch of metadata": about(
        watch(f"{WIDGETS}?watch=true&resourceVersion=0&timeoutSeconds=10", 2, PARTIAL),
        made(WIDGETS, widget(size=1)),
        delete(_A, compared=False),
    ),
    "a watch that begins with what is there": with_one(
        watch(
            f"{WIDGETS}?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
            "&timeoutSeconds=10",
            2,
        ),
    ),
    "the next page": with_one(
        made(WIDGETS, widget("b", size=1)),
        get(f"{WIDGETS}?limit=1", keep={"token": "metadata.continue"}),
        get(f"{WIDGETS}?limit=1&continue={{token}}"),
    ),
    "by a label": about(
        made(WIDGETS, widget(metadata={"labels": {"x": "y"}}, size=1)),
        made(WIDGETS, widget("b", size=1)),
        get(f"{WIDGETS}?labelSelector=x"),
        get(f"{WIDGETS}?labelSelector=!x"),
    ),
    "at a version": with_one(cached(WIDGETS, 1), get(f"{WIDGETS}?resourceVersion=0"), get(f"{_A}?resourceVersion=0")),
    "of all namespaces": with_one(get(f"/apis/{GROUP}/v1/widgets?fieldSelector=metadata.namespace%3D{{ns}}")),
    "the scale of one that is not there": about(get(f"{_A}/scale")),
    "a part that is not there": with_one(get(f"{_A}/log")),
}

UPDATES: dict[str, Exchange] = {
    "nothing": updated(),
    "a field": updated(spec__size=4),
    "with an unknown field": updated(spec__odd=1),
    "with an old version": updated(metadata__resourceVersion="1"),
    "without a version": updated(metadata__resourceVersion=None),
    "a rule about the old value": updated(spec__size=1),
    "a field that is fixed": updated(spec__fixed="other"),
    "the name": updated(metadata__name="other"),
    "no name": updated(metadata__name=None),
    "the kind": updated(kind="Other"),
    "the status": updated(status={"phase": "Up"}),
    "the generation and a label": updated(metadata__generation=77, metadata__labels={"a": "b"}),
    "bad labels": updated(metadata__labels={"a b": "c d"}),
    "a finalizer of no domain": updated(metadata__finalizers=["plain"]),
    "what has a default": updated(spec__mode=None, spec__inner=None),
    "one that is not there": about(put(_A, widget(metadata={"resourceVersion": "5"}, size=1))),
    "one that is not there, without a version": about(put(_A, widget(size=1))),
    "no name in the path": about(put(WIDGETS, widget(size=1))),
}

PATCHES: dict[str, Exchange] = {
    "fields": with_one(patch(_A, {"spec": {"text": "new", "parts": [{"name": "q"}]}, "odd": 1})),
    "nothing": with_one(patch(_A, {})),
    "a default away": with_one(patch(_A, {"spec": {"mode": None, "inner": None, "given": None}})),
    "a wrong type": with_one(patch(_A, {"spec": {"size": "x"}})),
    "one that is not there": about(patch(_A, {"spec": {"size": 1}})),
    "the kind": with_one(patch(_A, {"kind": "Other"})),
    "the version": with_one(patch(_A, {"apiVersion": "x/v1"})),
    "the name": with_one(patch(_A, {"metadata": {"name": "other"}})),
    "the metadata away": with_one(patch(_A, {"metadata": None})),
    "an old version": with_one(patch(_A, {"metadata": {"resourceVersion": "1"}})),
    "by JSON patch": with_one(
        patch(
            _A,
            [
                {"op": "test", "path": "/spec/text", "value": "abc"},
                {"op": "add", "path": "/spec/tags/-", "value": "c"},
                {"op": "remove", "path": "/spec/map"},
            ],
            JSON_PATCH,
        )
    ),
    "by JSON patch, with a test that fails": with_one(
        patch(_A, [{"op": "test", "path": "/spec/text", "value": "other"}], JSON_PATCH)
    ),
    "by JSON patch, what is not there": with_one(patch(_A, [{"op": "remove", "path": "/spec/odd"}], JSON_PATCH)),
    "by strategic merge": with_one(patch(_A, {"spec": {"text": "x"}}, STRATEGIC)),
    "as plain JSON": with_one(patch(_A, {"spec": {"text": "x"}}, "application/json")),
    "an unknown field, strictly": with_one(patch(f"{_A}?fieldValidation=Strict", {"spec": {"odd": 1}})),
    "an unknown field and a warning": with_one(patch(f"{_A}?fieldValidation=Warn", {"spec": {"odd": 1}})),
    "an unknown field by JSON patch, strictly": with_one(
        patch(f"{_A}?fieldValidation=Strict", [{"op": "add", "path": "/spec/odd", "value": 1}], JSON_PATCH)
    ),
    "no name in the path": about(patch(WIDGETS, {})),
    "with a manager": with_one(
        patch(f"{_A}?fieldManager=one", {"spec": {"text": "x"}}),
        patch(f"{_A}?fieldManager=two", {"spec": {"map": None}}),
    ),
}

DELETES: dict[str, Exchange] = {
    "one": with_one(delete(_A), get(_A)),
    "one that is not there": about(delete(_A)),
    "with another uid": with_one(
        delete(_A, {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}}, compared=False), get(_A)
    ),
    "a dry run": with_one(delete(f"{_A}?dryRun=All"), get(_A)),
    "with a policy": with_one(delete(_A, {"propagationPolicy": "Background"})),
    "with an unknown policy": with_one(delete(_A, {"propagationPolicy": "Odd"})),
    "with a grace period": with_one(delete(f"{_A}?gracePeriodSeconds=30")),
    "with a finalizer": about(
        made(WIDGETS, widget(metadata={"finalizers": ["example.com/hold"]}, size=1)),
        delete(_A),
        patch(_A, {"spec": {"size": 2}}),
        patch(_A, {"metadata": {"finalizers": ["example.com/more"]}}),
        patch(_A, {"metadata": {"finalizers": None}}),
        get(_A),
    ),
    "all": with_one(made(WIDGETS, widget("b", size=1)), delete(WIDGETS), get(WIDGETS)),
    "a selection": with_one(
        made(WIDGETS, widget("b", size=1)), delete(f"{WIDGETS}?fieldSelector=spec.size%3D1"), get(WIDGETS)
    ),
    "a limit": with_one(made(WIDGETS, widget("b", size=1)), delete(f"{WIDGETS}?limit=1"), get(WIDGETS)),
    "all in no namespace": about(delete(f"/apis/{GROUP}/v1/widgets")),
}
