"""What rules allow, what they cover of each other, and how they are written down."""

from __future__ import annotations

import msgspec
import pytest

from edgewright.local.access.policy import Rule, compact, uncovered
from tests.unit.local.access.rights import rule


def made(**given: object) -> Rule:
    return msgspec.convert(given, Rule)


def of(text: str, resources: str = "", groups: str = "", **more: object) -> Rule:
    return msgspec.convert(rule(text, resources, groups, **more), Rule)


@pytest.mark.parametrize(
    ("resources", "asked", "part", "reached"),
    [
        ("pods", "pods", "", True),
        ("pods", "pods", "log", False),
        ("pods/log", "pods", "log", True),
        ("pods/log", "pods", "", False),
        ("*/log", "pods", "log", True),
        ("*/log", "pods", "status", False),
        ("*", "pods", "log", True),
        ("*", "pods", "", True),
        ("pods/*", "pods", "log", False),
        ("secrets", "pods", "", False),
    ],
)
def test_a_part_of_a_resource_is_a_resource_of_its_own(resources: str, asked: str, part: str, reached: bool) -> None:
    assert of("get", resources).reaches("", asked, part) is reached


@pytest.mark.parametrize(("groups", "asked", "reached"), [("", "", True), ("apps", "", False), ("*", "x", True)])
def test_a_resource_is_one_of_its_group(groups: str, asked: str, reached: bool) -> None:
    assert of("get", "pods", groups).reaches(asked, "pods", "") is reached


@pytest.mark.parametrize(
    ("urls", "path", "reached"),
    [
        (["/a"], "/a", True),
        (["/a"], "/a/b", False),
        (["/a/*"], "/a/b", True),
        (["/a/*"], "/a", False),
        (["*"], "/", True),
    ],
)
def test_a_path_is_named_whole_or_by_how_it_begins(urls: list[str], path: str, reached: bool) -> None:
    assert made(nonResourceURLs=urls, verbs=["get"]).reaches_path(path) is reached


@pytest.mark.parametrize(
    ("owned", "wanted", "lacking"),
    [
        ([of("get", "pods")], of("get", "pods"), []),
        ([of("*", "*", "*")], of("get", "pods/log", "x"), []),
        ([of("get", "pods")], of("get,list", "pods"), ['{APIGroups:[""], Resources:["pods"], Verbs:["list"]}']),
        ([of("get", "*/log")], of("get", "pods/log"), []),
        ([of("get", "pods")], of("get", "pods/log"), ['{APIGroups:[""], Resources:["pods/log"], Verbs:["get"]}']),
        ([of("get", "pods")], of("get", "pods", resourceNames=["a"]), []),
        (
            [of("get", "pods", resourceNames=["a"])],
            of("get", "pods"),
            ['{APIGroups:[""], Resources:["pods"], Verbs:["get"]}'],
        ),
        (
            [of("get", "pods", resourceNames=["a"])],
            of("get", "pods", resourceNames=["a", "b"]),
            ['{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}'],
        ),
        ([made(verbs=["get"], nonResourceURLs=["/a/*"])], made(verbs=["get"], nonResourceURLs=["/a/b"]), []),
        (
            [of("*", "*", "*")],
            made(verbs=["get"], nonResourceURLs=["/a"]),
            ['{NonResourceURLs:["/a"], Verbs:["get"]}'],
        ),
        ([of("get", "pods"), of("list", "pods")], of("get,list", "pods"), []),
        ([], of("get", "pods"), ['{APIGroups:[""], Resources:["pods"], Verbs:["get"]}']),
    ],
)
def test_what_rules_do_not_cover_is_named(owned: list[Rule], wanted: Rule, lacking: list[str]) -> None:
    assert [each.text() for each in uncovered(owned, [wanted])] == lacking


def test_rules_that_differ_in_their_verb_are_shown_as_one() -> None:
    parts = uncovered([], [of("get,list", "pods,secrets"), made(verbs=["get", "post"], nonResourceURLs=["/a"])])
    assert [each.text() for each in compact(parts)] == [
        '{NonResourceURLs:["/a"], Verbs:["get"]}',
        '{NonResourceURLs:["/a"], Verbs:["post"]}',
        '{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}',
        '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}',
    ]
