"""What differs between objects, which fields an object has, and how two become one."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from edgewright.local.apply import managed
from edgewright.local.apply.combine import combined, faults, reconciled, removed, with_parents
from edgewright.local.apply.compare import MISSING, Comparison, UnkeyedError, compare, fields_of, same
from edgewright.local.apply.fieldtypes import FieldType
from tests.unit.local.apply import samples

CUSTOM = samples.custom()


def spec_type() -> FieldType:
    assert CUSTOM.members is not None
    return CUSTOM.members.fields["spec"]


def told(fields: managed.FieldSet) -> list[str]:
    return [managed.written(path) for path in managed.paths(fields)]


def difference(old: Any, new: Any) -> tuple[list[str], list[str], list[str]]:
    found = compare(old, new, spec_type())
    return told(found.removed), told(found.modified), told(found.added)


def part(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, **more}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({}, {}, ([], [], [])),
        ({"size": 1}, {"size": 1.0}, ([], [], [])),
        ({"size": 1}, {"size": 2}, ([], [".size"], [])),
        ({"amount": 1}, {"amount": True}, ([], [".amount"], [])),
        ({"size": 1}, {}, ([".size"], [], [])),
        ({}, {"map": {"a": "1"}}, ([], [], [".map", ".map.a"])),
        ({"map": {"a": "1"}}, {}, ([".map", ".map.a"], [], [])),
        ({"map": {}}, {"map": {"a": "1"}}, ([], [], [".map.a"])),
        ({"map": {"a": "1"}}, {"map": {}}, ([".map.a"], [], [])),
        ({"map": None}, {"map": {}}, ([], [".map"], [])),
        ({"map": None}, {"map": {"a": "1"}}, ([], [], [".map.a"])),
        ({}, {"map": {}}, ([], [], [".map"])),
        ({}, {"text": None}, ([], [], [".text"])),
        ({"atom": {"a": "1"}}, {"atom": {"b": "1"}}, ([], [".atom"], [])),
        ({"whole": [1]}, {"whole": [2]}, ([], [".whole"], [])),
        ({"tags": ["a", "b"]}, {"tags": ["b", "c"]}, (['.tags[="a"]'], [], ['.tags[="c"]'])),
        ({"tags": ["a", "b"]}, {"tags": ["b", "a"]}, ([], [], [])),
        ({"tags": None}, {"tags": []}, ([], [".tags"], [])),
        (
            {"parts": [part("a", value="1")]},
            {"parts": [part("a", value="2", port=80), part("b")]},
            (
                [],
                ['.parts[name="a",port=80].value'],
                ['.parts[name="b",port=80]', '.parts[name="a",port=80].port', '.parts[name="b",port=80].name'],
            ),
        ),
        (
            {"parts": [{"value": "x"}]},
            {"parts": []},
            (['.parts[name="",port=80]', '.parts[name="",port=80].value'], [], []),
        ),
        ({"free": {"a": {"b": 1}}}, {"free": {"a": "x"}}, ([".free.a.b"], [".free.a"], [])),
        ({"free": {"a": "x"}}, {"free": {"a": {"b": 1}}}, ([], [".free.a"], [".free.a.b"])),
        ({"free": {"a": [1]}}, {"free": {"a": [2]}}, ([], [".free.a"], [])),
        ({"other": 1}, {"other": 2}, ([], [".other"], [])),
        ({"tags": ["a", "a"]}, {"tags": ["a", "a"]}, ([], [], [])),
        ({"tags": ["a", "a"]}, {"tags": ["a", "a", "b"]}, ([], [], ['.tags[="b"]'])),
        ({"tags": ["a", "a"]}, {"tags": ["a"]}, (['.tags[="a"]'], [], ['.tags[="a"]'])),
        ({"tags": ["a", "a", "b"]}, {"tags": ["b"]}, (['.tags[="a"]'], [], [])),
        ({"tags": ["a"]}, {"tags": ["a", "a"]}, (['.tags[="a"]'], [], ['.tags[="a"]'])),
        ({"tags": []}, {"tags": ["a", "a"]}, ([], [], ['.tags[="a"]'])),
        (
            {"hosts": [{"ip": "1", "names": ["a"]}, {"ip": "1"}]},
            {"hosts": [{"ip": "1", "names": ["b"]}, {"ip": "1"}]},
            ([], ['.hosts[ip="1"]'], []),
        ),
        ({}, {"tags": ["a", "a"]}, ([], [], [".tags", '.tags[="a"]'])),
        ({}, {"map": "text"}, ([], [], [".map"])),
        ({}, {"tags": "text"}, ([], [], [".tags"])),
        ({"lost": 1}, {"lost": {"a": 1}}, ([], [".lost"], [".lost.a"])),
    ],
    ids=str,
)
def test_a_comparison_tells_what_a_change_did(old: Any, new: Any, expected: tuple[list[str], ...]) -> None:
    assert difference(old, new) == expected


@given(samples.specs(), samples.specs())
def test_an_object_differs_from_another_as_the_other_from_it(one: dict[str, Any], other: dict[str, Any]) -> None:
    there, back = compare(one, other, spec_type()), compare(other, one, spec_type())
    assert (there.removed, there.modified, there.added) == (back.added, back.modified, back.removed)
    assert bool(there) == (one != other and not same(_unordered(one), _unordered(other)))
    assert not compare(one, one, spec_type())


def _unordered(spec: dict[str, Any]) -> dict[str, Any]:
    """Sets and lists with keys in an order of their own, which is no difference."""
    found = dict(spec)
    for name in ("tags", "parts"):
        if found.get(name):
            found[name] = sorted(
                found[name], key=lambda item: str([item["name"], item.get("port", 80)]) if name == "parts" else item
            )
    return found


def test_fields_can_be_left_out_of_a_comparison_with_all_below_them() -> None:
    found = compare({"size": 1, "map": {"a": "1"}}, {"size": 2, "map": {"b": "1"}}, spec_type())
    left = found.but(managed.of_paths([("f:map",)]))
    assert (told(left.removed), told(left.modified), told(left.added)) == ([], [".size"], [])
    assert found.but({}) is found
    assert not Comparison()


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"tags": [{}]}, "associative list without keys has an element that's a map type"),
        ({"tags": [[]]}, "not supported: associative list with lists as elements"),
        ({"tags": [None]}, "associative list without keys has an element that's an explicit null"),
        ({"parts": [None]}, "associative list with keys may not have a null element"),
        ({"parts": ["x"]}, "associative list with keys may not have non-map elements"),
        ({"hosts": [{"names": []}]}, 'associative list with keys has an element that omits all key fields ["ip"] '),
    ],
    ids=str,
)
def test_items_that_cannot_be_told_apart_are_refused(spec: Any, why: str) -> None:
    with pytest.raises(UnkeyedError) as refused:
        compare({}, spec, spec_type())
    assert str(refused.value).startswith(why)
    (name,) = spec
    assert faults(spec, spec_type())[0].startswith(f".{name}: element 0: {why}")


def test_an_applied_object_has_its_leaves_its_items_and_what_no_schema_names() -> None:
    spec = {
        "size": None,
        "parts": [part("a", parts=[part("n")])],
        "tags": [],
        "whole": [],
        "map": {},
        "atom": {"a": "1"},
        "free": {"a": {"b": 1}},
        "deep": {"one": {"x": "1"}},
    }
    assert told(fields_of(spec, spec_type())) == [
        *(".atom", ".map", ".size", ".whole", ".deep.one.x", ".free.a", ".free.a.b"),
        '.parts[name="a",port=80]',
        '.parts[name="a",port=80].name',
        *('.parts[name="a",port=80].parts[name="n"]', '.parts[name="a",port=80].parts[name="n"].name'),
    ]


def test_items_twice_are_one_field() -> None:
    assert told(fields_of({"tags": ["a", "a", "b"]}, spec_type())) == ['.tags[="a"]', '.tags[="b"]']
    assert told(fields_of({"map": "x", "tags": "x"}, spec_type())) == []


@pytest.mark.parametrize(
    ("live", "applied", "expected"),
    [
        ({"size": 1, "text": "x"}, {"size": 2}, {"size": 2, "text": "x"}),
        ({"map": {"a": "1"}}, {"map": {"b": "2"}}, {"map": {"a": "1", "b": "2"}}),
        ({"map": {"a": "1"}}, {"map": None}, {"map": {"a": "1"}}),
        ({"map": {}}, {"map": None}, {"map": None}),
        ({"text": "x"}, {"text": None}, {"text": None}),
        ({"atom": {"a": "1"}}, {"atom": {"b": "2"}}, {"atom": {"b": "2"}}),
        ({"whole": [1, 2]}, {"whole": [3]}, {"whole": [3]}),
        ({"tags": list("abcd")}, {"tags": list("dxb")}, {"tags": list("acdxb")}),
        ({"tags": list("abcd")}, {"tags": list("bd")}, {"tags": list("abcd")}),
        ({"tags": list("abcd")}, {"tags": list("xay")}, {"tags": list("xabcdy")}),
        ({"tags": list("ab")}, {"tags": []}, {"tags": list("ab")}),
        ({"tags": []}, {"tags": list("ab")}, {"tags": list("ab")}),
        ({"tags": None}, {"tags": []}, {"tags": []}),
        ({"tags": list("abab")}, {"tags": list("b")}, {"tags": list("aba")}),
        (
            {"parts": [part("a", value="1"), part("b")]},
            {"parts": [part("b", port=80, value="2"), part("b", port=81)]},
            {"parts": [part("a", value="1"), part("b", port=80, value="2"), part("b", port=81)]},
        ),
        (
            {"hosts": [{"ip": "1", "names": ["a"]}, {"ip": "1", "names": ["b"]}]},
            {"hosts": [{"ip": "1"}]},
            {"hosts": [{"ip": "1"}]},
        ),
        ({"free": {"a": 1}}, {"free": {"a": {"b": 1}}}, {"free": {"a": {"b": 1}}}),
        ({"free": {"a": {"b": 1}}}, {"free": {"a": 1}}, {"free": {"a": 1}}),
        ({"map": "odd"}, {"map": {"a": "1"}}, {"map": {"a": "1"}}),
        ({"tags": "odd"}, {"tags": ["a"]}, {"tags": ["a"]}),
    ],
    ids=str,
)
def test_an_applied_object_is_merged_into_the_live_one(live: Any, applied: Any, expected: Any) -> None:
    assert combined(live, applied, spec_type()) == expected


@given(samples.specs(), samples.specs())
def test_what_is_applied_is_in_the_result_and_nothing_is_lost(live: dict[str, Any], applied: dict[str, Any]) -> None:
    result = combined(live, applied, spec_type())
    assert combined(result, applied, spec_type()) == result
    owned = fields_of(applied, spec_type())
    again = compare(applied, result, spec_type())
    assert managed.intersection(owned, managed.union(again.modified, again.removed)) == {}
    assert not compare(live, result, spec_type()).removed or "free" in live or "amount" in live


def test_what_is_missing_on_a_side_is_taken_from_the_other() -> None:
    assert combined(MISSING, {"a": 1}, CUSTOM) == {"a": 1}
    assert combined({"a": 1}, MISSING, CUSTOM) == {"a": 1}


@pytest.mark.parametrize(
    ("spec", "gone", "left"),
    [
        ({"size": 1, "text": "x"}, [("f:size",)], {"text": "x"}),
        ({"map": {"a": "1", "b": "2"}}, [("f:map", "f:a")], {"map": {"b": "2"}}),
        ({"map": {"a": "1"}}, [("f:map", "f:a")], {"map": None}),
        ({"map": {}}, [("f:map", "f:a")], {"map": None}),
        ({"atom": {"a": "1"}}, [("f:atom", "f:a")], {"atom": None}),
        ({"text": "x"}, [("f:text", "f:a")], {"text": "x"}),
        ({"tags": ["a", "b"]}, [("f:tags", 'v:"a"')], {"tags": ["b"]}),
        ({"tags": ["a"]}, [("f:tags", 'v:"a"')], {"tags": None}),
        (
            {"parts": [part("a", value="1")]},
            [("f:parts", 'k:{"name":"a","port":80}', "f:value")],
            {"parts": [part("a")]},
        ),
        ({"map": "odd", "tags": "odd"}, [("f:map", "f:a"), ("f:tags", "f:a")], {"map": None, "tags": None}),
    ],
    ids=str,
)
def test_fields_are_taken_out(spec: Any, gone: list[managed.Path], left: Any) -> None:
    assert removed(spec, spec_type(), managed.of_paths(gone)) == left


def test_named_fields_above_members_become_members() -> None:
    owned = managed.of_paths(
        [
            ("f:deep", "f:one", "f:x"),
            ("f:free", "f:a", "f:b"),
            ("f:parts", 'k:{"name":"a"}', "f:parts", 'k:{"name":"b"}'),
        ]
    )
    assert told(with_parents(owned, spec_type())) == [
        *(".deep", ".free", ".parts", ".deep.one", ".deep.one.x", ".free.a.b"),
        *('.parts[name="a"].parts', '.parts[name="a"].parts[name="b"]'),
    ]
    assert told(with_parents(owned, None)) == told(owned)


def test_what_became_one_value_is_owned_as_one() -> None:
    owned = managed.of_paths(
        [
            ("f:atom", "f:a"),
            ("f:whole", "i:0"),
            ("f:map", "f:a"),
            ("f:free", "f:a", "f:b"),
            ("f:text", "f:gone"),
            ("f:parts", 'k:{"name":"a"}', "f:value"),
            ("f:closed", "v:1"),
            ("f:tags", 'v:"a"'),
        ]
    )
    assert told(reconciled(owned, spec_type())) == [
        *(
            ".atom",
            ".whole",
            ".closed[=1]",
            ".free.a.b",
            ".map.a",
            '.parts[name="a"].value',
            '.tags[="a"]',
            ".text.gone",
        )
    ]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"size": 1, "text": None, "parts": [part("a")]}, []),
        ({"closed": {"x": 1}}, [".closed.x: field not declared in schema"]),
        ({"size": "1"}, [".size: expected numeric (int or float), got string"]),
        ({"size": True}, [".size: expected numeric (int or float), got bool"]),
        ({"text": 1}, [".text: expected string, got &value.valueUnstructured{Value:1}"]),
        ({"on": "x"}, [".on: expected boolean, got &{x}"]),
        ({"quantity": {"a": 1}}, [".quantity: expected any scalar, got &{map[a:1]}"]),
        ({"map": "x"}, [".map: expected map, got &{x}"]),
        ({"whole": "x"}, [".whole: expected list, got &{x}"]),
        ({"whole": [1, "x"]}, [".whole[1]: expected numeric (int or float), got string"]),
        ({"tags": ["a", "a"]}, ['.tags: duplicate entries for key [="a"]']),
        (
            {"parts": [part("a", value=1)]},
            ['.parts[name="a",port=80].value: expected string, got &value.valueUnstructured{Value:1}'],
        ),
    ],
    ids=str,
)
def test_what_cannot_be_merged_is_told(spec: Any, expected: list[str]) -> None:
    assert faults(spec, spec_type()) == expected
