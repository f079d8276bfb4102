"""Exchanges about the status and the scale of custom objects."""

from __future__ import annotations

from typing import Any

from tests.cluster.differential.bodies import TABLE
from tests.cluster.differential.custom_kinds import FIRST, GROUP, READY, WIDGETS, Object, widget
from tests.cluster.differential.exchange import (
    APPLY,
    JSON_PATCH,
    STRATEGIC,
    Exchange,
    Step,
    delete,
    edited,
    exchange,
    get,
    made,
    patch,
    post,
    put,
)

_A = f"{WIDGETS}/a"
_STATUS = f"{_A}/status"
_SCALE = f"{_A}/scale"
_UP = {"phase": "Up", "ready": 2, "selector": "a=b"}


def there(*steps: Step) -> Exchange:
    """An exchange about a Widget that is there, with a status."""
    return exchange(
        *READY,
        made(WIDGETS, widget(size=1, replicas=2)),
        patch(f"{_STATUS}?fieldManager=controller", {"status": _UP}, compared=False),
        *steps,
    )


def applied(**fields: Any) -> Object:
    """What is applied to the status."""
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "a"}, **fields}


def scale(replicas: Any = None, *, metadata: Object | None = None, **spec: Any) -> Object:
    """A Scale."""
    about = {"name": "a", "namespace": "{ns}", **(metadata or {})}
    wanted = {**spec, **({} if replicas is None else {"replicas": replicas})}
    return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": about, "spec": wanted}


STATUSES: dict[str, Exchange] = {
    "read": there(get(_STATUS)),
    "written with the rest": there(
        put(
            f"{_STATUS}?fieldManager=other",
            edited(FIRST + 1, status={"phase": "Down", "odd": 1}, spec__size=9, metadata__labels={"no": "no"}),
        )
    ),
    "with an old version": there(put(_STATUS, edited(FIRST + 1, metadata__resourceVersion="1"))),
    "without a version": there(put(_STATUS, edited(FIRST + 1, metadata__resourceVersion=None))),
    "by a patch, with the rest": there(
        patch(
            f"{_STATUS}?fieldManager=other",
            {"status": {"phase": "Down"}, "spec": {"size": 70}, "metadata": {"finalizers": ["example.com/x"]}},
        )
    ),
    "of a wrong type": there(patch(_STATUS, {"status": {"ready": "x"}})),
    "with negative replicas": there(patch(_STATUS, {"status": {"ready": -1}})),
    "by a JSON patch": there(patch(_STATUS, [{"op": "replace", "path": "/status/phase", "value": "J"}], JSON_PATCH)),
    "by apply": there(patch(f"{_STATUS}?fieldManager=one", applied(status={"phase": "Up"}), APPLY)),
    "by apply, in conflict": there(patch(f"{_STATUS}?fieldManager=one", applied(status={"phase": "Down"}), APPLY)),
    "by apply, by force": there(
        patch(
            f"{_STATUS}?fieldManager=one&force=true",
            {**applied(spec={"size": 8}, status={"phase": "Down"}), "metadata": {"name": "a", "labels": {"l": "m"}}},
            APPLY,
        ),
        patch(f"{_STATUS}?fieldManager=one", applied(status={}), APPLY),
    ),
    "by apply, of one that is not there": exchange(
        *READY, patch(f"{_STATUS}?fieldManager=one", applied(status={"phase": "Down"}), APPLY)
    ),
    "in a dry run": there(patch(f"{_STATUS}?dryRun=All", {"status": {"phase": "Dry"}}), get(_A)),
    "removed": there(patch(_STATUS, {"status": None})),
    "in an update of the rest": there(
        patch(_A, {"status": {"phase": "Down"}, "spec": {"size": 2}}), patch(_A, {"status": None})
    ),
    "deleted": there(delete(_STATUS)),
    "posted": there(post(_STATUS, {})),
}

SCALES: dict[str, Exchange] = {
    "read": there(get(_SCALE)),
    "as a table": there(get(_SCALE, TABLE)),
    "written": there(get(_SCALE, compared=False), put(_SCALE, edited(FIRST + 2, spec__replicas=5)), get(_A)),
    "written to the same": there(get(_SCALE, compared=False), put(_SCALE, edited(FIRST + 2)), get(_A)),
    "with an old version": there(put(_SCALE, scale(5, metadata={"resourceVersion": "1"}))),
    "without a version": there(put(f"{_SCALE}?fieldManager=scaler", scale(5))),
    "to nothing": there(put(_SCALE, scale())),
    "to less than nothing": there(put(_SCALE, scale(-1))),
    "with an unknown field and a warning": there(put(_SCALE, scale(3, odd=1))),
    "with an unknown field, whatever it is": there(put(f"{_SCALE}?fieldValidation=Ignore", scale(3, odd=1))),
    "without a kind": there(put(_SCALE, {name: value for name, value in scale(3).items() if name != "kind"})),
    "by a patch with an unknown field, strictly": there(
        patch(f"{_SCALE}?fieldValidation=Strict", {"spec": {"replicas": 3, "odd": 1}})
    ),
    "by a patch with an unknown field and a warning": there(patch(_SCALE, {"spec": {"replicas": 3, "odd": 1}})),
    "by a patch of a wrong type": there(patch(_SCALE, {"spec": {"replicas": "x"}})),
    "of another name": there(put(_SCALE, scale(1, metadata={"name": "other"}))),
    "of no name": there(put(_SCALE, {**scale(1), "metadata": {}})),
    "of one that is not there": exchange(*READY, put(_SCALE, scale(1))),
    "by two, one after the other": there(
        patch(f"{_SCALE}?fieldManager=one", {"spec": {"replicas": 5}}),
        patch(f"{_SCALE}?fieldManager=two", {"spec": {"replicas": 6}}),
        patch(f"{_A}?fieldManager=three", {"spec": {"replicas": 7}}),
        patch(f"{_SCALE}?fieldManager=one", {"spec": {"replicas": 8}}),
    ),
    "by a JSON patch": there(patch(_SCALE, [{"op": "replace", "path": "/spec/replicas", "value": 9}], JSON_PATCH)),
    "by a patch with an old version": there(
        patch(_SCALE, {"metadata": {"resourceVersion": "1"}, "spec": {"replicas": 7}})
    ),
    "by a patch to less than nothing": there(patch(_SCALE, {"spec": {"replicas": -1}})),
    "by a patch to null": there(patch(_SCALE, {"spec": {"replicas": None}})),
    "by strategic merge": there(patch(_SCALE, {"spec": {"replicas": 8}}, STRATEGIC)),
    "by apply, in conflict": there(
        patch(f"{_SCALE}?fieldManager=one", {"spec": {"replicas": 5}}, compared=False),
        patch(f"{_SCALE}?fieldManager=two", scale(6), APPLY),
    ),
    "and an apply of the rest": there(
        patch(f"{_SCALE}?fieldManager=one", {"spec": {"replicas": 5}}, compared=False),
        patch(f"{_A}?fieldManager=two", {**applied(), "spec": {"replicas": 6}}, APPLY),
        patch(f"{_A}?fieldManager=two&force=true", {**applied(), "spec": {"replicas": 6}}, APPLY),
    ),
    "in a dry run": there(patch(f"{_SCALE}?dryRun=All", {"spec": {"replicas": 1}}), get(_A)),
    "deleted": there(delete(_SCALE)),
}
