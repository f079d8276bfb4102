"""Strategic merge patch: maps are merged, lists by their keys, and directives say what a value cannot."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from edgewright.local.apply.strategic import merge
from edgewright.local.errors import Refusal
from tests.unit.local.apply import samples

LIVE: dict[str, Any] = {
    "size": 1,
    "text": "x",
    "parts": [{"name": "a", "port": 80, "value": "1"}, {"name": "b", "port": 81}, {"name": "c"}],
    "tags": ["p", "q", "r"],
    "hosts": [{"ip": "1", "names": ["h"]}],
    "whole": [1, 2],
    "map": {"k": "v", "l": "w"},
    "swap": {"name": "s", "value": "1"},
    "free": {"a": {"b": 1}},
    "keyless": [{"a": "1"}],
}


def patched(patch: dict[str, Any]) -> dict[str, Any]:
    live = samples.thing(copy.deepcopy(LIVE))
    before = copy.deepcopy((live, patch))
    merged = merge(live, {"spec": patch}, samples.builtin())
    assert (live, patch) == before
    spec: dict[str, Any] = merged["spec"]
    return {name: spec.get(name) for name in {**spec, **LIVE} if spec.get(name) != LIVE.get(name)}


def parts(*items: Any, **more: Any) -> dict[str, Any]:
    return {"parts": list(items), **more}


def order(*names: str) -> dict[str, Any]:
    return {"$setElementOrder/parts": [{"name": name} for name in names]}


A, B, C = LIVE["parts"]


@pytest.mark.parametrize(
    ("patch", "changed"),
    [
        ({}, {}),
        ({"size": 2, "when": "now"}, {"size": 2, "when": "now"}),
        ({"size": None, "when": None}, {"size": None}),
        ({"size": "2"}, {"size": "2"}),
        ({"map": {"k": None, "m": "n"}}, {"map": {"l": "w", "m": "n"}}),
        ({"map": {"$patch": "replace", "m": "n"}}, {"map": {"m": "n"}}),
        ({"map": {"$patch": "delete", "m": "n"}}, {"map": {}}),
        ({"map": {"$retainKeys": ["k", "n"], "n": "1"}}, {"map": {"k": "v", "n": "1"}}),
        ({"map": None}, {"map": None}),
        ({"swap": {"value": "2"}}, {"swap": {"value": "2"}}),
        ({"deep": {"one": {"x": None, "y": "1"}}}, {"deep": {"one": {"y": "1"}}}),
        ({"deep": {"$patch": "delete"}}, {}),
        ({"deep": {"one": {"$patch": "replace", "x": "1"}}}, {"deep": {}}),
        ({"whole": [3]}, {"whole": [3]}),
        ({"whole": []}, {"whole": []}),
        ({"tags": ["s", "q"]}, {"tags": ["s", "p", "q", "r"]}),
        ({"tags": ["r", "q"]}, {"tags": ["p", "r", "q"]}),
        ({"tags": []}, {}),
        ({"$deleteFromPrimitiveList/tags": ["q", "z"]}, {"tags": ["p", "r"]}),
        ({"$deleteFromPrimitiveList/loose": ["q"]}, {}),
        ({"$deleteFromPrimitiveList/tags": "q"}, {}),
        ({"$deleteFromPrimitiveList/tags": None}, {"tags": None}),
        ({"$setElementOrder/tags": ["r", "s", "p"], "tags": ["s"]}, {"tags": ["q", "r", "s", "p"]}),
        ({"$setElementOrder/tags": ["r", "p"]}, {"tags": ["q", "r", "p"]}),
        ({"$setElementOrder/loose": ["a", "b"], "loose": ["a", "b"]}, {"loose": ["a", "b"]}),
        ({"$setElementOrder/loose": ["a"]}, {}),
        ({"$setElementOrder/whole": [2, 1], "whole": [2, 1]}, {"whole": [2, 1]}),
        (parts({"name": "b", "value": "2"}), {"parts": [A, {**B, "value": "2"}, C]}),
        (parts({"name": "d"}), {"parts": [{"name": "d"}, A, B, C]}),
        (parts({"name": "c"}, {"name": "a", "value": None}), {"parts": [B, C, {"name": "a", "port": 80}]}),
        (parts({"name": "b", "$patch": "delete"}, {"name": "z", "$patch": "delete"}), {"parts": [A, C]}),
        (parts({"$patch": "replace"}, {"name": "z"}), {"parts": [{"name": "z"}]}),
        (parts({"name": "a", "$patch": "replace"}), {"parts": []}),
        (order("c", "a", "b"), {"parts": [C, A, B]}),
        (parts({"name": "d"}, **order("c", "d", "a")), {"parts": [B, C, {"name": "d"}, A]}),
        (parts({"name": "b", "$patch": "delete"}, **order("c", "a")), {"parts": [C, A]}),
        (parts({"name": "b", "$patch": "delete"}, {"name": "e"}, **order("a", "e")), {"parts": [A, C, {"name": "e"}]}),
        (
            parts({"name": "a", "$patch": "delete"}, {"name": "b", "$patch": "delete"}, {"name": "e"}, **order("e")),
            {"parts": [C, {"name": "e"}]},
        ),
        (parts({"name": "e"}, **order("a", "e")), {"parts": [A, {"name": "e"}, B, C]}),
        ({"hosts": [{"ip": "2"}, {"ip": "1", "names": ["i"]}]}, {"hosts": [{"ip": "2"}, {"ip": "1", "names": ["i"]}]}),
        ({"half": {"a": [{"$patch": "delete"}, {"b": 1}]}}, {"half": {"a": [{"b": 1}]}}),
    ],
    ids=str,
)
def test_a_patch_changes_what_it_says(patch: dict[str, Any], changed: dict[str, Any]) -> None:
    assert patched(patch) == changed


@pytest.mark.parametrize(
    ("patch", "code", "message"),
    [
        ({"map": {"$patch": "merge"}}, 500, "unknown patch type: merge in map: map[$patch:merge]"),
        ({"map": {"$patch": 1}}, 500, "unknown patch type: %!s(int64=1) in map: map[$patch:1]"),
        ({"map": {"$retainKeys": "k"}}, 400, "invalid patch format of retainKeys"),
        ({"map": {"$retainKeys": ["k"], "m": "n"}}, 400, "invalid patch format of retainKeys"),
        ({"$deleteFromPrimitiveList": ["q"]}, 400, "invalid patch format of primitive list"),
        ({"$setElementOrder": []}, 400, "invalid patch format of setElementOrder list"),
        ({"$setElementOrder/tags": "x"}, 500, "expected a []interface {}, but received a string"),
        ({"$setElementOrder/tags": None}, 500, "expected a []interface {}, but received a %!s(<nil>)"),
        ({"$setElementOrder/tags": ["x"], "tags": "x"}, 500, "expected a []interface {}, but received a string"),
        ({"$setElementOrder/map": ["x"]}, 500, "expected a []interface {}, but received a map[string]interface {}"),
        ({"$setElementOrder/deep": ["x"]}, 500, "expected slice or array type, but got: struct"),
        (
            {"$setElementOrder/no": ["x"]},
            500,
            'unable to find api field in struct Spec for the json field "no"',
        ),
        (
            parts({"name": "d"}, **order("a")),
            500,
            "The order in patch list:\n[map[name:d]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n",
        ),
        ({"$setElementOrder/parts": ["a"]}, 500, "value for key 0 is not a map"),
        ({"$setElementOrder/parts": [{"x": "a"}]}, 500, "map: map[x:a] does not contain declared merge key: name"),
        (parts({"value": "x"}), 500, "map: map[value:x] does not contain declared merge key: name"),
        (parts({"$patch": "delete"}), 500, "map: map[$patch:delete] does not contain declared merge key: name"),
        (parts({"name": "a", "$patch": "merge"}), 500, "merging lists cannot yet be specified in the patch"),
        (parts({"name": "a", "$patch": "x"}), 500, "unknown patch type: x in map: map[$patch:x name:a]"),
        ({"tags": [1]}, 500, "list element types are not identical: [[p q r] [1]]"),
        ({"tags": [None]}, 400, "lists to merge have no null items"),
        ({"keyless": [{"a": "2"}]}, 500, "cannot merge lists without merge key for struct"),
        (
            {"free": {"a": {"b": 2}}},
            500,
            "merging an object in json but data type is not struct, instead is: map",
        ),
        (
            {"$setElementOrder/hosts": [{"ip": "1"}], "hosts": ["x"]},
            500,
            "expected a map[string]interface {}, but received a string",
        ),
    ],
    ids=str,
)
def test_a_patch_that_makes_no_sense_is_refused(patch: dict[str, Any], code: int, message: str) -> None:
    with pytest.raises(Refusal) as refused:
        patched(patch)
    assert (refused.value.code, refused.value.message) == (code, message)


def test_lists_in_a_list_to_merge_are_refused() -> None:
    with pytest.raises(Refusal, match="lists of lists are not supported") as refused:
        merge(samples.thing({"tags": []}), {"spec": {"tags": [["x"]]}}, samples.builtin())
    assert refused.value.code == 422


def test_an_order_without_items_to_order_is_refused() -> None:
    patch = {"spec": {"$setElementOrder/tags": ["x"], "tags": []}}
    with pytest.raises(Refusal, match="no elements in any of the given slices"):
        merge(samples.thing({"tags": []}), patch, samples.builtin())


def test_doubles_go_when_a_list_of_values_is_merged() -> None:
    live = samples.thing({"loose": ["a", "b", "a", "c", "b"]})
    assert merge(live, {"spec": {"loose": ["c"]}}, samples.builtin())["spec"]["loose"] == ["a", "b", "c"]


def test_an_empty_list_stays_where_nothing_is_merged_into_it() -> None:
    live = samples.thing({"loose": []})
    assert merge(live, {"spec": {"loose": []}}, samples.builtin()) == live


def test_the_whole_object_may_be_replaced_or_deleted() -> None:
    live = samples.thing({"size": 1})
    assert merge(live, {"$patch": "delete"}, samples.builtin()) == {}
    assert merge(live, {"$patch": "replace", "kind": "X"}, samples.builtin()) == {"kind": "X"}
    assert merge(live, None, samples.builtin()) == live


@pytest.mark.parametrize(
    ("patch", "kind"), [("x", "string"), (1, "number"), (1.5, "number"), (True, "bool"), ([], "array")]
)
def test_a_patch_that_is_no_object_is_refused(patch: Any, kind: str) -> None:
    with pytest.raises(Refusal) as refused:
        merge(samples.thing(), patch, samples.builtin())
    assert refused.value.code == 400
    assert refused.value.message == f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"


def test_a_patch_that_is_nested_too_deeply_is_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(Refusal, match="nested too deeply"):
        merge(samples.thing(), {"spec": {"free": deep}}, samples.builtin())


def test_items_to_replace_do_not_count_in_an_order() -> None:
    patch = parts({"$patch": "replace"}, {"name": "b"}, **order("b"))
    assert patched(patch) == {"parts": [{"name": "b"}]}
