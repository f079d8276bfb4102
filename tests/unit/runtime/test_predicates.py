"""Predicates: which changes are worth a pass."""

from __future__ import annotations

from typing import Any

import pytest

from edgewright.runtime.cache import Change
from edgewright.runtime.objects import RawObject
from edgewright.runtime.predicates import anything, intent_changed
from tests.unit.runtime.fakeserver import Widget, typed, widget


def changed(**metadata: Any) -> Change[Widget]:
    before: RawObject = widget("x", 1)
    after = {**before, "metadata": {**before["metadata"], **metadata}}
    return Change(typed(before), typed(after))


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        (Change(None, typed(widget("x", 1))), True),
        (Change(typed(widget("x", 1)), None), True),
        (changed(resourceVersion="2"), False),
        (changed(generation=2), True),
        (changed(labels={"a": "b"}), True),
        (changed(annotations={"a": "b"}), True),
        (changed(finalizers=["x/y"]), True),
        (changed(deletionTimestamp="2026-01-01T00:00:00Z"), True),
        (changed(generation=0), True),
    ],
    ids=["new", "gone", "status", "spec", "labels", "annotations", "finalizers", "deletion", "no generations"],
)
def test_what_people_asked_for_counts_and_a_status_does_not(change: Change[Widget], counts: bool) -> None:
    assert intent_changed(change) is counts
    assert anything(change)


def test_the_latest_state_of_a_change_is_the_new_one_or_the_last_seen() -> None:
    old, new = typed(widget("x", 1)), typed(widget("x", 2))
    assert Change(old, new).latest is new
    assert Change(old, None).latest is old
