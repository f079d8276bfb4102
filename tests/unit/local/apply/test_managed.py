"""Sets of fields: their arithmetic is that of sets of paths, and they are written as the real server writes them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.local.apply import managed
from edgewright.local.apply.managed import FieldSet, Owned, Owner

ELEMENTS = ["f:a", "f:b", 'k:{"name":"x"}', 'k:{"name":"y","port":80}', 'v:"x"', "v:1", "i:0"]
paths = st.lists(st.sampled_from(ELEMENTS), min_size=1, max_size=3).map(tuple)
sets = st.lists(paths, max_size=6).map(managed.of_paths)


def members(fields: FieldSet) -> set[managed.Path]:
    return set(managed.paths(fields))


@given(sets)
def test_a_set_that_is_written_and_read_is_the_same(fields: FieldSet) -> None:
    assert managed.decode(managed.encode(fields)) == fields
    assert managed.encode(managed.decode(managed.encode(fields))) == managed.encode(fields)


@given(st.lists(paths, max_size=6))
def test_a_set_has_the_paths_that_it_is_made_of(given_paths: list[managed.Path]) -> None:
    fields = managed.of_paths(given_paths)
    assert members(fields) == set(given_paths)
    assert all(managed.has(fields, path) for path in given_paths)


@given(sets, sets)
def test_sets_add_and_subtract_as_sets_of_paths(one: FieldSet, other: FieldSet) -> None:
    assert members(managed.union(one, other)) == members(one) | members(other)
    assert members(managed.intersection(one, other)) == members(one) & members(other)
    assert members(managed.difference(one, other)) == members(one) - members(other)


@given(sets, sets)
def test_without_takes_away_what_is_below_too(one: FieldSet, other: FieldSet) -> None:
    gone = members(other)
    left = {path for path in members(one) if not any(path[: len(each)] == each for each in gone)}
    assert members(managed.without(one, other)) == left


@given(sets, sets)
def test_arithmetic_leaves_no_empty_nodes_behind(one: FieldSet, other: FieldSet) -> None:
    for result in (managed.union(one, other), managed.difference(one, other), managed.without(one, other)):
        assert result == managed.of_paths(managed.paths(result))


def test_sets_are_written_in_the_order_of_the_real_server() -> None:
    shuffled: FieldSet = {
        "i:2": {},
        "v:true": {},
        'v:"b"': {},
        "v:10": {},
        "v:9": {},
        "v:null": {},
        'k:{"name":"b"}': {},
        'k:{"name":"a","port":2}': {},
        'k:{"name":"a"}': {},
        "f:b": {"f:y": {}, ".": {}, "f:x": {}},
        "f:a": {},
        "i:1": {},
    }
    assert list(managed.encode(shuffled)) == [
        *("f:a", "f:b", 'k:{"name":"a"}', 'k:{"name":"a","port":2}', 'k:{"name":"b"}'),
        *("v:9", "v:10", 'v:"b"', "v:true", "v:null", "i:1", "i:2"),
    ]
    assert list(managed.encode(shuffled)["f:b"]) == [".", "f:x", "f:y"]


def test_elements_are_read_however_they_are_spaced() -> None:
    assert managed.decode({'k:{ "port": 80.0, "name":"a" }': {".": {}}, "v: 1.0": {}, "i:07": None}) == {
        'k:{"name":"a","port":80}': {},
        "v:1": {},
        "i:7": {},
    }


def test_elements_of_a_later_version_are_left_out() -> None:
    assert managed.decode({"z:new": {}, "f:a": {}}) == {"f:a": {}}


@pytest.mark.parametrize("raw", [[], "x", {"a": {}}, {"f:a": 1}, {"k:[]": {}}, {"k:{": {}}, {"i:x": {}}, {"v:x": {}}])
def test_what_is_no_set_cannot_be_read(raw: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        managed.decode(raw)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("f:spec", "f:size"), ".spec.size"),
        (("f:parts", managed.keyed(("name", "port"), 'a"b', 80), "f:x"), '.parts[name="a\\"b",port=80].x'),
        (("f:tags", managed.valued("x")), '.tags[="x"]'),
        (("f:tags", managed.valued(True)), ".tags[=true]"),
        (("f:tags", managed.valued(1.5)), ".tags[=1.5]"),
        (("f:tags", "v:null"), ".tags[=null]"),
        (("f:whole", "i:3"), ".whole[3]"),
    ],
)
def test_a_path_is_written_as_sentences_have_it(path: managed.Path, text: str) -> None:
    assert managed.written(path) == text


def test_one_and_true_are_different_elements_and_one_point_zero_is_one() -> None:
    assert managed.valued(1) == managed.valued(1.0) == "v:1"
    assert managed.valued(True) == "v:true"
    assert managed.keyed(("a",), 1.0) == managed.keyed(("a",), 1) == 'k:{"a":1}'


ENTRY = {
    "manager": "m",
    "operation": "Update",
    "apiVersion": "v1",
    "time": "2026-01-01T00:00:00Z",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:data": {"f:a": {}}},
    "subresource": "status",
}


def test_entries_that_are_read_and_written_are_the_same() -> None:
    applied = {**ENTRY, "operation": "Apply", "time": "2027-01-01T00:00:00Z"}
    unnamed = {name: value for name, value in ENTRY.items() if name not in ("manager", "time", "subresource")}
    assert managed.write(managed.read([applied, unnamed, ENTRY])) == [applied, unnamed, ENTRY]
    assert managed.read(None) == {}


@pytest.mark.parametrize(
    "change",
    [{"operation": "Other"}, {"apiVersion": ""}, {"fieldsType": ""}, {"fieldsV1": {"x": {}}}],
    ids=lambda change: next(iter(change)),
)
def test_an_entry_that_makes_no_sense_cannot_be_read(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        managed.read([{**ENTRY, **change}])
    with pytest.raises(ValueError, match=r"."):
        managed.read(["x"])


def test_entries_are_ordered_by_operation_time_and_name() -> None:
    found = managed.write(
        {
            managed.updater("b", "v1", ""): Owned({}, "v1", "2"),
            managed.updater("a", "v1", ""): Owned({}, "v1", "2"),
            managed.updater("z", "v1", ""): Owned({}, "v1", "1"),
            managed.updater("y", "v1", ""): Owned({}, "v1"),
            managed.applier("z", ""): Owned({}, "v1", "3"),
        }
    )
    assert [entry["manager"] for entry in found] == ["z", "y", "z", "a", "b"]


def test_an_owner_is_named_as_conflicts_name_it() -> None:
    assert str(managed.applier("m", "")) == '"m"'
    assert str(managed.updater("m", "v1", "status")) == '"m" with subresource "status" using v1'
    assert managed.updater("", "v1", "") == Owner("unknown", "Update", "v1", "")
