"""The rules of CustomResourceDefinition: what they fill in, what they refuse, and how a deletion begins."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from edgewright.local.custom import definition_rules
from edgewright.local.served import Write
from tests.unit.local.custom import cases

RECORDED = json.loads((Path(__file__).parent / "refusals.json").read_text())
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ESTABLISHED = {
    "conditions": [{"type": "Established", "status": "True"}],
    "acceptedNames": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
    "storedVersions": ["v1"],
}


def stored() -> dict[str, Any]:
    """A definition as it is in the store once it is established."""
    return {**cases.decided(cases.crd())[0], "status": copy.deepcopy(ESTABLISHED)}


@pytest.mark.parametrize("name", cases.CASES)
def test_a_definition_is_refused_with_the_causes_that_the_real_server_gave(name: str) -> None:
    assert cases.in_order(cases.decided(cases.CASES[name])[1]) == RECORDED[name]


@pytest.mark.parametrize("name", cases.CHANGES)
def test_a_change_is_refused_with_the_causes_that_the_real_server_gave(name: str) -> None:
    assert cases.in_order(cases.decided(cases.CHANGES[name], stored())[1]) == RECORDED[f"change: {name}"]


def test_names_and_conversion_are_filled_in() -> None:
    body = cases.crd(names={"plural": "things", "kind": "Thing"}, preserveUnknownFields=False)
    spec = cases.decided(body)[0]["spec"]
    assert spec["names"] == {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    assert spec["conversion"] == {"strategy": "None"}
    assert "preserveUnknownFields" not in spec


def test_a_new_definition_has_only_the_version_that_it_stores_in_its_status() -> None:
    body = {**cases.crd(), "status": ESTABLISHED}
    assert cases.decided(body)[0]["status"] == {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": ["v1"],
    }


def test_a_new_storage_version_joins_those_that_are_stored() -> None:
    changed, _ = cases.decided(cases.CHANGES["another storage version"], stored())
    assert changed["status"] == {**ESTABLISHED, "storedVersions": ["v1", "v2"]}


def test_a_write_of_the_status_changes_nothing_else_and_is_asked_only_for_its_names() -> None:
    rules, write = definition_rules(), Write(verb="update", now=NOW, subresource="status")
    sent = {**cases.crd(scope="Cluster"), "status": {**ESTABLISHED, "acceptedNames": {"plural": "A B", "kind": ""}}}
    rules.prepare_update(sent, stored(), write)
    assert sent["spec"] == stored()["spec"]
    assert [cause.field for cause in rules.validate(sent, stored(), write)] == ["status.acceptedNames.plural"]


def test_a_webhook_that_would_convert_is_refused() -> None:
    webhook = {"clientConfig": {"url": "https://example.io"}, "conversionReviewVersions": ["v1"]}
    _, causes = cases.decided(cases.crd(conversion={"strategy": "Webhook", "webhook": webhook}))
    assert [(cause["field"], cause["reason"]) for cause in causes] == [
        ("spec.conversion.strategy", "FieldValueInvalid")
    ]


def test_a_webhook_that_is_not_used_is_refused_as_well() -> None:
    _, causes = cases.decided(cases.crd(conversion={"strategy": "None", "webhook": {"clientConfig": {}}}))
    assert [cause["field"] for cause in causes] == ["spec.conversion.webhookClientConfig"]


def test_a_format_that_is_not_checked_is_warned_of_once() -> None:
    rules, write = definition_rules(), Write(verb="create", now=NOW)
    new = cases.decided(cases.field({"type": "array", "items": {"type": "string", "format": "nope"}}))[0]
    assert rules.warnings(new, None, write) == ['unrecognized format "nope"']
    assert rules.warnings(new, new, write) == []
    assert rules.warnings(new, None, Write(verb="update", now=NOW, subresource="status")) == []


def test_a_pattern_that_only_python_could_read_is_refused() -> None:
    _, causes = cases.decided(cases.field({"type": "string", "pattern": r"(a)\1"}))
    assert [cause["field"].rpartition(".")[2] for cause in causes] == ["pattern"]
    assert causes[0]["message"].endswith("it is not in the syntax of RE2")


def test_only_the_spec_makes_generations() -> None:
    assert definition_rules().desired({"metadata": {}, "spec": 1, "status": 2}) == {"spec": 1}


def test_a_deletion_holds_the_definition_until_its_objects_are_gone() -> None:
    rules, obj = definition_rules(), stored()
    assert rules.held(obj)
    obj["metadata"] |= {"deletionTimestamp": "2026-01-02T03:04:05Z", "deletionGracePeriodSeconds": 0, "generation": 4}
    rules.prepare_delete(obj, Write(verb="delete", now=NOW))
    assert obj["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert "deletionGracePeriodSeconds" not in obj["metadata"]
    assert obj["metadata"]["generation"] == 3
    assert obj["status"]["conditions"][-1] == {
        "type": "Terminating",
        "status": "True",
        "lastTransitionTime": "2026-01-02T03:04:05Z",
        "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    }
    assert not rules.held(obj)
    obj["metadata"]["deletionGracePeriodSeconds"] = 0
    again = copy.deepcopy(obj)
    rules.prepare_delete(again, Write(verb="delete", now=datetime.now(UTC)))
    assert again == obj


@pytest.mark.parametrize("url", ["https://[", "no url", "https:"], ids=["broken", "none", "no host"])
def test_an_approval_must_be_a_url(url: str) -> None:
    annotations = {"api-approved.kubernetes.io": url}
    _, causes = cases.decided(cases.crd(group="a.k8s.io", name="things.a.k8s.io", annotations=annotations))
    assert [cause["field"] for cause in causes] == ["metadata.annotations[api-approved.kubernetes.io]"]


def test_an_approval_that_was_missing_before_may_be_missing_still() -> None:
    old = cases.decided(cases.crd(group="a.k8s.io", name="things.a.k8s.io"))[0]
    assert cases.decided(cases.crd(group="a.k8s.io", name="things.a.k8s.io"), old)[1] == []


@pytest.mark.parametrize(("versions", "shown"), [([], "[]"), (None, "null")], ids=["an empty list", "none"])
def test_a_refusal_tells_no_versions_from_an_empty_list_of_them(versions: Any, shown: str) -> None:
    body = cases.crd()
    body["spec"]["versions"] = versions
    _, causes = cases.decided(body)
    assert f"Invalid value: {shown}: must have exactly one version marked as storage version" in str(causes)


def test_a_status_that_names_no_stored_version_gets_the_one_that_is_stored() -> None:
    obj = {**cases.crd(), "status": {"storedVersions": []}}
    definition_rules().default(obj)
    assert obj["status"]["storedVersions"] == ["v1"]
