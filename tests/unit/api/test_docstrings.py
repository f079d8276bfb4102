"""Descriptions come from the source: class docstrings and the string under a field."""

from __future__ import annotations

from typing import Any

import pytest

from edgewright.api import CUSTOM_KINDS, CustomResource, FlashJob, Instance
from edgewright.api.docstrings import as_paragraphs, class_description, field_descriptions
from edgewright.api.schema import JsonSchema, kind_schema
from edgewright.runtime.objects import Struct
from tests.unit.api.gadget import Gadget


class Base(Struct, frozen=True, kw_only=True):
    """A base."""

    name: str = ""
    """What it is called."""

    size: int = 0
    """How big it is,
    in kB.
    """

    silent: bool = False


class Derived(Base, frozen=True, kw_only=True):
    size: int = 1
    """How big it is here."""

    class Inner(Struct, frozen=True, kw_only=True):
        depth: int = 0
        """How deep it is."""


def test_the_string_under_a_field_describes_it() -> None:
    assert field_descriptions(Base) == {"name": "What it is called.", "size": "How big it is, in kB."}


def test_a_subclass_inherits_descriptions_and_may_change_them() -> None:
    assert field_descriptions(Derived) == {"name": "What it is called.", "size": "How big it is here."}


def test_classes_inside_classes_and_functions_are_found() -> None:
    class Local(Struct, frozen=True, kw_only=True):
        here: int = 0
        """Where it is."""

    assert field_descriptions(Derived.Inner) == {"depth": "How deep it is."}
    assert field_descriptions(Local) == {"here": "Where it is."}


def test_a_class_without_source_has_no_descriptions() -> None:
    namespace: dict[str, Any] = {"__module__": "made.up"}
    assert field_descriptions(type("Made", (), namespace)) == {}


def test_a_class_does_not_inherit_its_docstring() -> None:
    assert class_description(Base) == "A base."
    assert class_description(Derived) == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("One line.", "One line.", id="one line"),
        pytest.param("Two\n    lines.", "Two lines.", id="two lines"),
        pytest.param("One.\n\n    Two,\n    long.\n    ", "One.\nTwo, long.", id="two paragraphs"),
        pytest.param("", "", id="empty"),
    ],
)
def test_line_breaks_stay_only_between_paragraphs(text: str, expected: str) -> None:
    assert as_paragraphs(text) == expected


def undescribed(schema: JsonSchema, path: str) -> list[str]:
    """The paths below `schema` of every field that has no description."""
    missing = []
    for name, value in schema.get("properties", {}).items():
        here = f"{path}.{name}"
        if here.count(".") > 1 and "description" not in value:
            missing.append(here)
        missing += undescribed(value, here) + undescribed(value.get("items", {}), f"{here}[]")
    return missing


@pytest.mark.parametrize("kind", [*CUSTOM_KINDS, Instance, Gadget], ids=lambda kind: kind.__name__)
def test_every_field_of_a_kind_has_a_description(kind: type[CustomResource]) -> None:
    schema = kind_schema(kind)
    assert schema["description"]
    assert schema["properties"]["spec"]["description"]
    assert undescribed(schema, "") == []


def test_the_description_of_a_field_goes_before_that_of_its_type() -> None:
    spec = kind_schema(Gadget)["properties"]["spec"]
    assert spec["description"] == "What is wanted."
    assert spec["properties"]["slots"]["items"]["description"] == "A place for a firmware."
    assert kind_schema(FlashJob)["description"] == "Says that these devices run this version of a firmware."
