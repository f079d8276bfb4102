"""Paths into objects, the order of versions, and whose a name is."""

from __future__ import annotations

import random
from typing import Any

import pytest

from edgewright.local.custom import names
from edgewright.local.custom.paths import PathFault, field_at, follow, steps
from edgewright.local.custom.versions import preference
from edgewright.local.served import Served
from edgewright.runtime.objects import Kind
from tests.unit.local.custom import samples


@pytest.mark.parametrize(
    ("path", "names"),
    [
        (".spec.size", ("spec", "size")),
        ("spec.size", ("spec", "size")),
        (".a['b.c'].d", ("a", "b.c", "d")),
        (r".a['it\'s']", ("a", "it's")),
    ],
)
def test_a_path_names_fields(path: str, names: tuple[str, ...]) -> None:
    assert steps(path) == names


def test_a_path_that_leads_nowhere_finds_nothing() -> None:
    assert field_at({"a": {"b": 1}}, ("a", "b")) == 1
    assert field_at({"a": {"b": 1}}, ("a", "b", "c")) is None
    assert field_at({}, ("a",)) is None


SCHEMA: dict[str, Any] = {
    "properties": {"a": {"type": "string"}, "m": {"additionalProperties": {"type": "integer"}}, "b.c": {"type": "x"}}
}


@pytest.mark.parametrize(
    ("path", "found"), [(".a", "string"), (".m.anything", "integer"), (".m['x']", "integer"), ("['b.c']", "x")]
)
def test_a_path_is_followed_through_a_schema(path: str, found: str) -> None:
    assert follow(path, SCHEMA)["type"] == found


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("a", "expected [ or . but got: a"),
        (".", "unexpected end of JSON path"),
        (".x", "does not refer to a valid field"),
        (".a.b", "does not refer to a valid field"),
        (".m[0]", "expected single quoted string but got 0"),
        (".m['x'.", "expected ] but got ."),
        (".m[", "unexpected end of JSON path"),
    ],
)
def test_a_path_that_is_none_says_why(path: str, why: str) -> None:
    with pytest.raises(PathFault) as fault:
        follow(path, SCHEMA)
    assert str(fault.value) == why


def test_brackets_may_be_refused() -> None:
    with pytest.raises(PathFault, match="array notation is not allowed"):
        follow(".m['x']", SCHEMA, brackets=False)


def test_versions_are_preferred_as_kubernetes_prefers_them() -> None:
    order = ["v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10", "v0"]
    shuffled = random.Random(1).sample(order, len(order))
    assert sorted(shuffled, key=preference) == order


def crd(plural: str = "widgets", accepted: Any = None, group: str = samples.GROUP, **changed: Any) -> dict[str, Any]:
    wanted = {"plural": plural, "singular": plural[:-1], "kind": plural[:-1].title(), "listKind": f"{plural}List"}
    status = {"acceptedNames": accepted} if accepted else {}
    return {"spec": {"group": group, "names": {**wanted, **changed}}, "status": status}


def test_the_first_definition_gets_its_names() -> None:
    one = crd(shortNames=["wd"], categories=["all"])
    got, condition = names.settle(one, names.taken(samples.GROUP, [one], []))
    assert got == one["spec"]["names"]
    assert list(got) == ["plural", "singular", "shortNames", "kind", "listKind", "categories"]
    assert (condition["status"], condition["reason"]) == ("True", "NoConflicts")


@pytest.mark.parametrize(
    ("changed", "reason", "message", "left"),
    [
        ({"singular": "gadget"}, "SingularConflict", '"gadget" is already in use', "singular"),
        ({"shortNames": ["gd", "x"]}, "ShortNamesConflict", '"gd" is already in use', "shortNames"),
        (
            {"shortNames": ["gd", "gadgets"]},
            "ShortNamesConflict",
            '["gd" is already in use, "gadgets" is already in use]',
            "shortNames",
        ),
        ({"listKind": "gadgetsList"}, "ListKindConflict", '"gadgetsList" is already in use', "listKind"),
    ],
    ids=["singular", "one short name", "short names", "list kind"],
)
def test_a_name_that_another_has_is_not_accepted(changed: dict[str, Any], reason: str, message: str, left: str) -> None:
    other = crd("gadgets", shortNames=["gd"])
    other["status"]["acceptedNames"] = other["spec"]["names"]
    one = crd(**changed)
    got, condition = names.settle(one, names.taken(samples.GROUP, [other, one], []))
    assert (condition["status"], condition["reason"], condition["message"]) == ("False", reason, message)
    assert left not in got
    assert got["plural"] == "widgets"


def test_nothing_accepted_is_still_said() -> None:
    other = crd("gadgets")
    other["status"]["acceptedNames"] = other["spec"]["names"]
    got, condition = names.settle(crd("gadgets"), names.taken(samples.GROUP, [other], []))
    assert got == {"plural": "", "kind": ""}
    assert condition["reason"] == "ListKindConflict"


def test_names_of_other_groups_do_not_count() -> None:
    other = crd("widgets", group="other.example.io")
    other["status"]["acceptedNames"] = other["spec"]["names"]
    assert names.settle(crd(), names.taken(samples.GROUP, [other], []))[1]["status"] == "True"


def test_a_built_in_kind_has_its_names() -> None:
    kind = Kind(group=samples.GROUP, version="v1", kind="Widget", plural="widgets")
    builtin = Served(kind=kind, singular="widget", list_kind="WidgetList", storage="widgets", storage_api_version="v1")
    assert names.settle(crd(), names.taken(samples.GROUP, [], [builtin]))[1]["status"] == "False"


def test_names_that_are_given_up_go() -> None:
    had = {**crd()["spec"]["names"], "shortNames": ["wd"], "categories": ["all"]}
    got, _ = names.settle(crd(accepted=had), names.taken(samples.GROUP, [], []))
    assert got == crd()["spec"]["names"]
