"""JSON patch and merge patch: what they do to an object, what they refuse, and that they leave their input alone."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.local import patch as patches
from edgewright.local.errors import Refusal
from edgewright.local.patch import json_patch, merge_patch

OBJECT: dict[str, Any] = {"a": {"b": 1, "c/d": 2, "e~f": 3}, "l": [1, 2, {"x": "y"}], "n": None}


def op(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **more}


@pytest.mark.parametrize(
    ("operations", "changed"),
    [
        ([op("add", "/z", value=1)], {"z": 1}),
        ([op("add", "/z")], {"z": None}),
        ([op("add", "/l/-", value=3)], {"l": [1, 2, {"x": "y"}, 3]}),
        ([op("add", "/l/0", value=3)], {"l": [3, 1, 2, {"x": "y"}]}),
        ([op("add", "/l/-1", value=3)], {"l": [1, 2, {"x": "y"}, 3]}),
        ([op("add", "/l/3", value=3)], {"l": [1, 2, {"x": "y"}, 3]}),
        ([op("remove", "/a/c~1d"), op("remove", "/a/e~0f")], {"a": {"b": 1}}),
        ([op("remove", "/l/-1")], {"l": [1, 2]}),
        ([op("replace", "/l/2/x", value=0)], {"l": [1, 2, {"x": 0}]}),
        ([op("replace", "/l/1", value=0)], {"l": [1, 0, {"x": "y"}]}),
        ([op("replace", "/new", value=0)], {"new": 0}),
        ([op("move", "/m", **{"from": "/n"}), op("remove", "/m"), op("add", "/n", value=None)], {}),
        ([op("copy", "/k", **{"from": "/l/2"}), op("add", "/k/z", value=1)], {"k": {"x": "y", "z": 1}}),
        ([op("copy", "/k", **{"from": "/absent"})], {"k": None}),
        ([op("test", "/a/b", value=1), op("test", "/n"), op("test", "/absent", value=None)], {}),
        ([op("test", "", value=OBJECT)], {}),
        (None, {}),
        ([], {}),
    ],
)
def test_operations_are_done_in_order(operations: Any, changed: dict[str, Any]) -> None:
    before = deepcopy(OBJECT)
    assert json_patch(OBJECT, operations) == before | changed
    assert before == OBJECT


def test_the_whole_object_can_be_replaced() -> None:
    assert json_patch(OBJECT, [op("replace", "", value={"x": 1})]) == {"x": 1}


@pytest.mark.parametrize(
    "operation",
    [
        op("test", "/a/b", value=2),
        op("test", "/a/b", value=True),
        op("test", "/a/b", value=1.0),
        op("test", "/a/b"),
        op("test", "/l", value=[1]),
        op("remove", "/absent"),
        op("remove", "/l/9"),
        op("remove", "/l/x"),
        op("add", "/absent/x", value=1),
        op("add", "/l/9", value=1),
        op("add", "/a/b/c", value=1),
        op("add", "", value={}),
        op("replace", "", value=1),
        op("replace", "", value=[]),
        op("replace", "/l/-9", value=1),
        op("move", "/x"),
        op("move", "/a/b/c", **{"from": "/a"}),
        op("move", "/x", **{"from": "/absent"}),
        op("copy", "/x", **{"from": "/l/7"}),
        op("jump", "/x"),
        {"op": "add"},
        {},
        None,
    ],
    ids=str,
)
def test_what_does_not_apply_is_unprocessable(operation: Any) -> None:
    with pytest.raises(Refusal) as refused:
        json_patch(OBJECT, [operation])
    assert (refused.value.code, refused.value.reason) == (422, "Invalid")
    assert refused.value.message == "the server rejected our request due to an error in our request"


@pytest.mark.parametrize("operations", [{}, "x", 1, True, ["x"], [1.5], [{"op": 1}], [{"path": []}]], ids=str)
def test_what_is_no_json_patch_is_a_bad_request(operations: Any) -> None:
    with pytest.raises(Refusal, match="error decoding patch: json: cannot unmarshal") as refused:
        json_patch(OBJECT, operations)
    assert (refused.value.code, refused.value.reason) == (400, "BadRequest")


def test_too_many_operations_are_too_large() -> None:
    step = op("test", "/a/b", value=1)
    assert json_patch(OBJECT, [step] * patches.MAX_OPERATIONS) == OBJECT
    with pytest.raises(Refusal) as refused:
        json_patch(OBJECT, [step] * (patches.MAX_OPERATIONS + 1))
    assert refused.value.code == 413


def test_copies_of_copies_are_bounded() -> None:
    with pytest.raises(Refusal) as refused:
        json_patch({"a": ["x" * 100]}, [op("copy", "/a/-", **{"from": "/a"})] * 60)
    assert refused.value.code == 422


@pytest.mark.parametrize(
    ("change", "result"),
    [
        ({}, OBJECT),
        ({"a": None, "l": None, "n": None}, {}),
        (
            {"a": {"b": None, "z": {"y": None, "x": 1}}, "l": 1},
            OBJECT | {"a": {"c/d": 2, "e~f": 3, "z": {"x": 1}}, "l": 1},
        ),
        ({"l": [{"x": None}, None]}, OBJECT | {"l": [{}, None]}),
        ({"a": [{"x": None}]}, OBJECT | {"a": [{"x": None}]}),
        ({"n": {"x": None}}, OBJECT | {"n": {}}),
    ],
)
def test_a_merge_patch_merges_objects_and_replaces_all_else(change: Any, result: Any) -> None:
    before = deepcopy(OBJECT)
    assert merge_patch(OBJECT, change) == result
    assert before == OBJECT


@pytest.mark.parametrize("change", [None, [], "x", 1])
def test_what_is_no_merge_patch_is_a_bad_request(change: Any) -> None:
    with pytest.raises(Refusal) as refused:
        merge_patch(OBJECT, change)
    assert (refused.value.code, refused.value.reason) == (400, "BadRequest")


SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
NAMES = st.sampled_from(["a", "b", "c/d", "~e"])
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3))
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)


@given(OBJECTS, OBJECTS)
def test_a_merge_patch_twice_is_a_merge_patch_once(raw: dict[str, Any], change: dict[str, Any]) -> None:
    before = deepcopy((raw, change))
    once = merge_patch(raw, change)
    assert before == (raw, change)
    assert all((key in once) is (value is not None) for key, value in change.items())
    assert all(once[key] == value for key, value in raw.items() if key not in change)
    if "[" not in str(change):  # a list that takes an object's place keeps nulls, which a second time go
        assert merge_patch(once, change) == once


@given(OBJECTS, NAMES, VALUES)
def test_an_added_field_is_there_and_can_be_taken_away(raw: dict[str, Any], name: str, value: Any) -> None:
    pointer = "/" + name.replace("~", "~0").replace("/", "~1")
    added = json_patch(raw, [op("add", pointer, value=value), op("test", pointer, value=value)])
    assert added == raw | {name: value}
    assert json_patch(added, [op("remove", pointer)]) == {key: raw[key] for key in raw if key != name}
    copied = json_patch(added, [op("copy", "/copy", **{"from": pointer}), op("test", "/copy", value=value)])
    assert copied == added | {"copy": value}
