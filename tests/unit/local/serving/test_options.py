"""What the query of a request, or the body of a deletion, asks for."""

from __future__ import annotations

from typing import Any

import pytest

from edgewright.local.errors import Refusal
from edgewright.local.serving import options
from edgewright.local.serving.options import DeleteOptions, ListOptions, WriteOptions


def causes(refusal: pytest.ExceptionInfo[Refusal]) -> list[tuple[str, str]]:
    """What was refused: field and reason, in order."""
    assert refusal.value.code == 422, refusal.value
    assert refusal.value.details is not None
    return [(each["field"], each["reason"]) for each in refusal.value.details["causes"]]


def test_a_list_without_options_is_of_everything_as_it_is_now() -> None:
    assert options.list_options({}) == ListOptions()


def test_every_option_of_a_list_is_read() -> None:
    query = {
        "labelSelector": "a=b",
        "fieldSelector": "metadata.name=c",
        "limit": "5",
        "resourceVersion": "7",
        "resourceVersionMatch": "Exact",
        "timeoutSeconds": "9",
    }
    assert options.list_options(query) == ListOptions(
        labels="a=b", fields="metadata.name=c", limit=5, resource_version="7", match="Exact", timeout=9
    )


@pytest.mark.parametrize(("text", "yes"), [("true", True), ("1", True), ("", True), ("false", False), ("0", False)])
def test_a_flag_is_a_yes_unless_it_says_no(text: str, yes: bool) -> None:
    assert options.list_options({"watch": text}).watch is yes


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "invalid syntax"),
        ("x", "invalid syntax"),
        ("1.5", "invalid syntax"),
        ("1_000", "invalid syntax"),
        (" 1", "invalid syntax"),
        (str(2**63), "value out of range"),
        ("-" + "9" * 5000, "value out of range"),
    ],
)
def test_a_number_that_is_none_is_refused(text: str, why: str) -> None:
    with pytest.raises(Refusal, match=why) as refusal:
        options.list_options({"limit": text})
    assert refusal.value.code == 400


FORBIDDEN, UNSUPPORTED = "FieldValueForbidden", "FieldValueNotSupported"
MATCH = "resourceVersionMatch"


@pytest.mark.parametrize(
    ("query", "refused"),
    [
        pytest.param({MATCH: "Exact"}, [(MATCH, FORBIDDEN)], id="a match of no version"),
        pytest.param(
            {MATCH: "Exact", "resourceVersion": "1", "continue": "x"}, [(MATCH, FORBIDDEN)], id="a match with a token"
        ),
        pytest.param({MATCH: "Some", "resourceVersion": "1"}, [(MATCH, UNSUPPORTED)], id="an unknown match"),
        pytest.param({MATCH: "Exact", "resourceVersion": "0"}, [(MATCH, FORBIDDEN)], id="exactly any version"),
        pytest.param({"sendInitialEvents": "true"}, [("sendInitialEvents", FORBIDDEN)], id="events of a list"),
        pytest.param(
            {"watch": "1", MATCH: "NotOlderThan"}, [(MATCH, FORBIDDEN)], id="a watch with a match and no first events"
        ),
        pytest.param(
            {"watch": "1", "sendInitialEvents": "true", MATCH: "NotOlderThan", "continue": "x"},
            [(MATCH, FORBIDDEN)],
            id="a watch with a token",
        ),
        pytest.param(
            {"watch": "1", "sendInitialEvents": "true", MATCH: "Exact"},
            [(MATCH, FORBIDDEN), (MATCH, UNSUPPORTED)],
            id="a watch of exactly a version",
        ),
    ],
)
def test_options_of_a_list_or_watch_that_exclude_each_other_are_refused(
    query: dict[str, str], refused: list[tuple[str, str]]
) -> None:
    with pytest.raises(Refusal) as refusal:
        options.list_options(query)
    assert causes(refusal) == refused


def test_a_write_without_options_warns_of_unknown_fields() -> None:
    assert options.write_options({}, kind="CreateOptions") == WriteOptions(validation="Warn")


def test_every_option_of_a_write_is_read() -> None:
    query = {"dryRun": "All", "fieldValidation": "Strict", "fieldManager": "me", "force": "true"}
    assert options.write_options(query, kind="PatchOptions", apply=True, patch=True) == WriteOptions(
        dry_run=True, validation="Strict", manager="me", force=True
    )


@pytest.mark.parametrize(
    ("query", "how", "refused"),
    [
        pytest.param({"dryRun": "Some"}, {}, [("dryRun", UNSUPPORTED)], id="an unknown dry run"),
        pytest.param({"fieldValidation": "Maybe"}, {}, [("fieldValidation", UNSUPPORTED)], id="an unknown validation"),
        pytest.param({"fieldManager": "m" * 129}, {}, [("fieldManager", "FieldValueTooLong")], id="a long manager"),
        pytest.param({"fieldManager": "a\nb"}, {}, [("fieldManager", "FieldValueInvalid")], id="an unprintable one"),
        pytest.param(
            {}, {"apply": True, "patch": True}, [("fieldManager", "FieldValueRequired")], id="apply without a manager"
        ),
        pytest.param({"force": "true"}, {"patch": True}, [("force", FORBIDDEN)], id="force of another patch"),
    ],
)
def test_options_of_a_write_that_cannot_be_are_refused(
    query: dict[str, str], how: dict[str, bool], refused: list[tuple[str, str]]
) -> None:
    with pytest.raises(Refusal) as refusal:
        options.write_options(query, kind="CreateOptions", **how)
    assert causes(refusal) == refused


@pytest.mark.parametrize(
    ("query", "body", "wanted"),
    [
        pytest.param({}, None, DeleteOptions(), id="nothing"),
        pytest.param({"gracePeriodSeconds": "3"}, None, DeleteOptions(grace_seconds=3), id="grace in the query"),
        pytest.param({"propagationPolicy": "Orphan"}, None, DeleteOptions(policy="Orphan"), id="policy in the query"),
        pytest.param({"orphanDependents": "true"}, None, DeleteOptions(policy="Orphan"), id="orphans in the query"),
        pytest.param({"dryRun": "All"}, None, DeleteOptions(dry_run=True), id="dry run in the query"),
        pytest.param({"gracePeriodSeconds": "3"}, {}, DeleteOptions(), id="a body says all"),
        pytest.param(
            {},
            {
                "kind": "DeleteOptions",
                "gracePeriodSeconds": 0,
                "dryRun": ["All"],
                "preconditions": {"uid": "u", "resourceVersion": "5"},
            },
            DeleteOptions(grace_seconds=0, dry_run=True, uid="u", resource_version="5"),
            id="a full body",
        ),
        pytest.param({}, {"orphanDependents": False}, DeleteOptions(policy="Background"), id="no orphans"),
    ],
)
def test_the_options_of_a_deletion_are_in_its_body_or_query(
    query: dict[str, str], body: Any, wanted: DeleteOptions
) -> None:
    assert options.delete_options(query, body) == wanted


@pytest.mark.parametrize(
    "body",
    [
        pytest.param([], id="a list"),
        pytest.param({"kind": "Pod"}, id="another kind"),
        pytest.param({"gracePeriodSeconds": True}, id="a yes for a number"),
        pytest.param({"preconditions": "x"}, id="preconditions that are text"),
    ],
)
def test_a_body_of_a_deletion_that_is_no_options_is_refused(body: Any) -> None:
    with pytest.raises(Refusal) as refusal:
        options.delete_options({}, body)
    assert refusal.value.code == 400
