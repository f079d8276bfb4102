"""What a schema says of fields: which are one value, which are told apart by keys, and what an empty object has."""

from __future__ import annotations

import pytest

from edgewright.local.apply import fieldtypes
from edgewright.local.apply.fieldtypes import BOOLEAN, DEDUCED, NUMERIC, STRING, UNTYPED, FieldType
from tests.unit.local.apply import samples


def spec_field(name: str, fields: FieldType | None = None) -> FieldType:
    fields = fields or samples.custom()
    assert fields.members is not None
    members = fields.members.fields["spec"].members
    assert members is not None
    return members.fields[name]


@pytest.mark.parametrize(
    ("name", "scalar"),
    [
        ("size", NUMERIC),
        ("text", STRING),
        ("on", BOOLEAN),
        ("when", UNTYPED),
        ("amount", UNTYPED),
        ("quantity", UNTYPED),
        ("raw", UNTYPED),
        ("parts", ""),
        ("map", ""),
    ],
)
def test_a_field_takes_the_plain_values_of_its_type(name: str, scalar: str) -> None:
    assert spec_field(name).scalar == scalar


@pytest.mark.parametrize(
    ("name", "atomic", "keys"),
    [
        ("parts", False, ("name", "port")),
        ("tags", False, ()),
        ("loose", False, ()),
        ("hosts", False, ("ip",)),
        ("whole", True, ()),
        ("amount", True, ()),
        ("raw", True, ()),
    ],
)
def test_a_list_is_one_value_a_set_or_told_apart_by_keys(name: str, atomic: bool, keys: tuple[str, ...]) -> None:
    items = spec_field(name).items
    assert items is not None
    assert (items.atomic, items.keys) == (atomic, keys)


@pytest.mark.parametrize(
    ("name", "atomic"),
    [("map", False), ("atom", True), ("part", True), ("swap", False), ("free", False), ("raw", True), ("lost", False)],
)
def test_a_map_is_one_value_or_fields_of_their_own(name: str, atomic: bool) -> None:
    members = spec_field(name).members
    assert members is not None
    assert members.atomic is atomic


def test_a_reference_says_how_the_patch_treats_the_field() -> None:
    assert spec_field("swap").patch.replaces
    assert spec_field("parts").patch.merges
    assert spec_field("parts").patch.key == "name"
    assert not spec_field("map").patch.replaces
    assert spec_field("swap").name == "Part"


def test_keys_that_are_left_out_have_their_default() -> None:
    items = spec_field("parts").items
    assert items is not None
    assert [items.default(key) for key in ("name", "port", "value")] == ["", 80, None]
    tags = spec_field("tags").items
    assert tags is not None
    assert tags.default("name") is None


def test_a_schema_that_holds_itself_is_read_as_deep_as_one_looks() -> None:
    part = spec_field("swap")
    for _ in range(20):
        assert part.members is not None
        nested = part.members.fields["parts"].items
        assert nested is not None
        part = nested.element
    assert part.members is not None
    assert part.members.fields["value"].scalar == STRING


@pytest.mark.parametrize(
    ("name", "unknown"),
    [("map", True), ("free", True), ("half", True), ("open", True), ("closed", False), ("swap", False), ("lost", True)],
)
def test_fields_that_no_schema_names_are_allowed_where_it_says_so(name: str, unknown: bool) -> None:
    members = spec_field(name).members
    assert members is not None
    assert members.declares("whatever") is unknown
    # What should not be there is walked all the same.
    assert members.member("whatever").scalar


def test_what_is_below_a_schema_that_keeps_everything_keeps_everything() -> None:
    members = spec_field("free").members
    assert members is not None
    assert members.untyped
    assert members.member("x") is DEDUCED
    assert DEDUCED.members is not None
    assert DEDUCED.members.member("y") is DEDUCED
    half = spec_field("half").members
    assert half is not None
    assert not half.untyped


def test_an_empty_object_of_a_built_in_kind_has_what_is_always_there() -> None:
    assert fieldtypes.zero(samples.builtin()) == {"metadata": {}, "spec": {"parts": None}, "note": ""}


def test_an_empty_object_of_a_custom_kind_has_nothing() -> None:
    assert fieldtypes.zero(samples.custom()) == {}
    assert fieldtypes.zero(fieldtypes.compile({"type": "string"}, {})) == {}
    assert fieldtypes.ATOMIC.members is not None
    assert fieldtypes.ATOMIC.members.zero() == {}


def test_a_list_of_which_nothing_is_said_is_one_value() -> None:
    items = fieldtypes.compile({"type": "array"}, {}).items
    assert items is not None
    assert items.element is fieldtypes.ATOMIC
    assert items.atomic


def test_what_a_plain_type_is_not_is_not_offered() -> None:
    plain = FieldType()
    assert plain.items is None
    assert plain.members is None
