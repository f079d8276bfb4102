"""Patches: a diff that is applied gives the new state, and conditions are part of what is sent."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.runtime.patches import conditional, merge_diff

_scalars = st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=2) | st.floats(-2, 2)
_values = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=2), inner, max_size=4),
    max_leaves=12,
)
_objects = st.dictionaries(st.text("abc", max_size=2), _values, max_size=4)


def apply_merge(target: Any, patch: Any) -> Any:
    """RFC 7386, in its own words."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = apply_merge(result.get(name), value)
    return result


def strictly_equal(one: Any, other: Any) -> bool:
    """As JSON: 1 is not true, and 1 is 1.0."""
    if isinstance(one, bool) != isinstance(other, bool):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(strictly_equal(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(strictly_equal, one, other))
    return bool(one == other)


@given(old=_objects, new=_objects)
def test_a_diff_that_is_applied_gives_the_new_state(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert strictly_equal(apply_merge(old, merge_diff(old, new)), new)


@given(old=_objects)
def test_no_change_is_no_patch(old: dict[str, Any]) -> None:
    assert merge_diff(old, old) == {}


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({"a": 1}, {}, {"a": None}),
        ({}, {"a": {}}, {"a": {}}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, {"a": {"c": None}}),
        ({"a": [1, 2]}, {"a": [1]}, {"a": [1]}),
        ({"a": {"b": 1}}, {"a": 1}, {"a": 1}),
        ({"a": 1}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ({"a": True}, {"a": 1}, {"a": 1}),
        ({"a": [0]}, {"a": [False]}, {"a": [False]}),
    ],
    ids=["gone", "empty", "inner", "lists whole", "flatter", "deeper", "true is not 1", "false is not 0 in a list"],
)
def test_the_smallest_patch(old: dict[str, Any], new: dict[str, Any], patch: dict[str, Any]) -> None:
    assert strictly_equal(merge_diff(old, new), patch)


@pytest.mark.parametrize(
    ("patch", "version", "uid", "expected"),
    [
        ({"a": 1}, "", "", {"a": 1}),
        ({"a": 1}, "7", "", {"a": 1, "metadata": {"resourceVersion": "7"}}),
        (
            {"metadata": {"labels": {"x": "y"}}},
            "7",
            "u",
            {"metadata": {"labels": {"x": "y"}, "resourceVersion": "7", "uid": "u"}},
        ),
        ([{"op": "add"}], "", "u", [{"op": "add", "path": "/metadata/uid", "value": "u"}, {"op": "add"}]),
        ([{"op": "add"}], "", "", [{"op": "add"}]),
    ],
    ids=["none", "version", "next to other metadata", "json patch", "json patch, none"],
)
def test_conditions_are_part_of_the_patch(patch: Any, version: str, uid: str, expected: Any) -> None:
    before = repr(patch)
    assert conditional(patch, resource_version=version, uid=uid) == expected
    assert repr(patch) == before
