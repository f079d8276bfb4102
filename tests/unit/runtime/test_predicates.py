"""Predicates: which changes are worth a pass."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edgewright.runtime.cache import Change
from edgewright.runtime.objects import RawObject
from edgewright.runtime.predicates import anything, intent_changed, intent_changed_or_wiped
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


@pytest.mark.parametrize("empty", [{}, None], ids=["emptied", "taken away"])
def test_a_status_that_is_lost_counts_and_one_that_is_written_does_not(empty: Any) -> None:
    said, otherwise, nothing = (
        typed({**widget("x", 1), "status": status}) for status in ({"seen": 1}, {"seen": 2}, empty)
    )
    assert intent_changed_or_wiped(Change(said, nothing))
    for old, new in ((nothing, said), (said, otherwise), (said, said), (nothing, nothing)):
        assert not intent_changed_or_wiped(Change(old, new))
    assert intent_changed_or_wiped(changed(generation=2))


def test_a_status_that_cannot_be_empty_is_never_lost() -> None:
    class Always(msgspec.Struct):
        seen: int

    class Thing(Widget, frozen=True):
        status: Any = None

    old, new = (Thing(metadata=typed(widget("x", 1)).metadata, status=Always(seen)) for seen in (1, 2))
    assert not intent_changed_or_wiped(Change(old, new))


def test_the_latest_state_of_a_change_is_the_new_one_or_the_last_seen() -> None:
    old, new = typed(widget("x", 1)), typed(widget("x", 2))
    assert Change(old, new).latest is new
    assert Change(old, None).latest is old
