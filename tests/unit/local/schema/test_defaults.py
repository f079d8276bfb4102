"""Pruning and defaulting by the structural schema of a CRD."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.local import schema
from edgewright.local.errors import Refusal

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "default": {},
            "properties": {
                "size": {"type": "integer", "default": 3},
                "note": {"type": "string", "nullable": True, "default": "none"},
                "name": {"type": "string"},
                "free": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {"known": {"type": "object", "properties": {"a": {"type": "string"}}}},
                },
                "rows": {
                    "x-kubernetes-preserve-unknown-fields": True,
                    "type": "array",
                    "items": {"type": "object", "properties": {"a": {"type": "object"}}},
                },
                "slots": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"n": {"type": "integer", "default": 1}}},
                },
                "numbers": {"type": "array", "items": {"type": "integer", "default": 7}},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "any": {"type": "object", "additionalProperties": True},
                "pod": {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {}},
            },
        }
    },
}
COMPILED = schema.compile(SCHEMA)


def test_unknown_fields_are_dropped_and_named() -> None:
    given_object = {
        "apiVersion": "v1",
        "kind": "Gadget",
        "metadata": {"anything": 1},
        "other": 1,
        "spec": {"size": 1, "wrong": {"a": 1}, "slots": [{"n": 1, "m": 2}], "labels": {"a": "b"}},
    }
    before = copy.deepcopy(given_object)
    pruned, dropped = COMPILED.prune(given_object)
    assert given_object == before
    assert dropped == ["other", "spec.slots[0].m", "spec.wrong"]
    assert pruned["spec"] == {"size": 1, "slots": [{"n": 1}], "labels": {"a": "b"}}
    assert pruned["metadata"] == {"anything": 1}


def test_open_objects_keep_what_is_unknown_and_prune_what_is_known() -> None:
    spec = {"free": {"x": {"y": 1}, "known": {"a": "", "b": ""}}, "rows": [{"x": 1, "a": {"b": 1}}], "any": {"x": {}}}
    pruned, dropped = COMPILED.prune({"spec": spec})
    assert dropped == ["spec.free.known.b", "spec.rows[0].a.b"]
    assert pruned["spec"]["free"] == {"x": {"y": 1}, "known": {"a": ""}}
    assert pruned["spec"]["rows"] == [{"x": 1, "a": {}}]


def test_an_embedded_object_keeps_its_identity_only() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {}}
    pruned, dropped = COMPILED.prune({"spec": {"pod": pod}})
    assert dropped == ["spec.pod.spec"]
    assert pruned["spec"]["pod"]["metadata"] == {"name": "x"}


def test_defaults_are_filled_from_the_outside_in() -> None:
    assert COMPILED.default({}) == {"spec": {"size": 3, "note": "none"}}
    assert COMPILED.default({"spec": {"slots": [{}]}})["spec"]["slots"] == [{"n": 1}]


def test_a_null_gives_way_to_the_default_unless_it_is_allowed() -> None:
    spec = {"size": None, "note": None, "name": None, "labels": {"a": None}, "numbers": [None, 1]}
    assert COMPILED.default({"spec": spec})["spec"] == {"size": 3, "note": None, "labels": {}, "numbers": [7, 1]}


def test_what_is_nested_too_deeply_is_a_bad_request() -> None:
    deep: Any = 1
    for _ in range(3000):
        deep = {"x": deep}
    for attempt in (COMPILED.prune, COMPILED.default):
        with pytest.raises(Refusal) as refused:
            attempt({"spec": {"free": deep}})
        assert refused.value.code == 400


names = st.sampled_from([*SCHEMA["properties"]["spec"]["properties"], "spec", "metadata", "n", "a", "known", "x"])
values = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(names, below, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(names, values, max_size=4))
def test_pruning_and_defaulting_twice_is_the_same_as_once(obj: dict[str, Any]) -> None:
    pruned, _ = COMPILED.prune(obj)
    assert COMPILED.prune(pruned) == (pruned, [])
    filled = COMPILED.default(obj)
    assert COMPILED.default(filled) == filled
