"""How answers of two servers are made comparable: what depends on the second of a change is left out."""

from __future__ import annotations

from typing import Any

from tests.cluster.differential.exchange import Answer
from tests.cluster.differential.normalise import Normaliser

NAMES, ENDS = 'k:{"type":"NamesAccepted"}', 'k:{"type":"Terminating"}'


def owners(*entries: dict[str, Any]) -> Any:
    """The managers of an object's fields, each of whom owns conditions, as they are compared."""
    managed = [{"manager": "a", "fieldsV1": {"f:status": {"f:conditions": each}}} for each in entries]
    answer = Answer(title="GET", code=200, body={"metadata": {"name": "one", "managedFields": managed}})
    return Normaliser([answer]).normalise(answer).body["metadata"]["managedFields"]


def test_who_owns_the_time_of_a_condition_that_another_has_made_is_not_compared() -> None:
    later = owners({ENDS: {"f:status": {}, "f:lastTransitionTime": {}}})
    in_the_same_second = owners({ENDS: {"f:status": {}}})
    assert later == in_the_same_second
    made: dict[str, Any] = {".": {}, "f:status": {}}
    assert owners({ENDS: {**made, "f:lastTransitionTime": {}}}, {ENDS: {"f:reason": {}}}) == owners(
        {ENDS: made}, {ENDS: {"f:reason": {}, "f:lastTransitionTime": {}}}
    )


def test_whoever_has_made_a_condition_alone_owns_its_time() -> None:
    timeless: dict[str, Any] = {".": {}, "f:status": {}}
    timed = {**timeless, "f:lastTransitionTime": {}}
    assert owners({NAMES: timed}) != owners({NAMES: timeless})
    changed: dict[str, Any] = {ENDS: {"f:status": {}}}
    assert owners({NAMES: timed}, changed) != owners({NAMES: timeless}, changed)
