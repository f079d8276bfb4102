"""The list of built-in kinds, and what is special about the small ones."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from edgewright.local import builtin
from edgewright.local.builtin import event, namespace, node
from edgewright.local.builtin.binding import BindingRules
from edgewright.local.builtin.checks import address
from edgewright.local.builtin.endpointslice import EndpointSliceRules
from edgewright.local.builtin.persistentvolume import PersistentVolumeRules
from edgewright.local.builtin.reviews import SelfSubjectAccessReviewRules, SelfSubjectReviewRules
from edgewright.local.errors import Refusal
from edgewright.local.served import VERBS, Write
from edgewright.local.structs.rules import BuiltinRules
from edgewright.runtime.objects import RawObject

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def write(verb: str = "create", subresource: str = "") -> Write:
    return Write(verb=verb, subresource=subresource, now=NOW, user="me", groups=("us",))


def faults(rules: BuiltinRules, body: RawObject, *, user: str = "me") -> list[str]:
    obj, _ = rules.decode(body)
    rules.default(obj)
    rules.prepare_create(obj, write())
    return [cause.field for cause in rules.validate(obj, None, replace(write(), user=user))]


def test_every_built_in_kind_is_listed_once_with_its_schema() -> None:
    listed = {each.kind.resource: each for each in builtin.served()}
    assert len(listed) == len(builtin.served())
    assert all(each.schema is builtin.definitions()[each.definition] for each in listed.values())
    assert listed["pods"].short_names == ("po",)
    assert listed["pods"].categories == ("all",)
    assert [part.name for part in listed["pods"].subresources] == [
        "attach",
        "binding",
        "eviction",
        "exec",
        "log",
        "status",
    ]
    assert (listed["namespaces"].storage, listed["namespaces"].kind.namespaced) == ("namespaces", False)
    assert listed["events.events.k8s.io"].storage == listed["events"].storage == "events"
    assert listed["events.events.k8s.io"].storage_api_version == "v1"
    assert listed["leases.coordination.k8s.io"].storage == "leases.coordination.k8s.io"


def test_kinds_that_are_not_stored_can_only_be_created() -> None:
    unlisted = {each.kind.kind for each in builtin.served() if not each.list_kind}
    reviews = ("SelfSubject", "SelfSubjectAccess", "SelfSubjectRules", "SubjectAccess", "LocalSubjectAccess", "Token")
    assert unlisted == {"Binding", *(f"{each}Review" for each in reviews)}
    assert all(each.verbs == ("create",) for each in builtin.served() if each.kind.kind in unlisted)
    assert all(set(each.verbs) <= set(VERBS) for each in builtin.served())


def test_rules_of_two_servers_share_nothing() -> None:
    one, other = builtin.served(), builtin.served(service_range="10.1.0.0/24", node_ports=range(1, 9))
    assert not {id(each.rules) for each in one} & {id(each.rules) for each in other}


def test_a_binding_is_a_post_to_the_pod() -> None:
    assert BindingRules.stands_for == ("pods", "binding")


def test_who_asks_is_told_who_he_is() -> None:
    rules = SelfSubjectReviewRules()
    obj, _ = rules.decode(
        {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {"name": "x"}}
    )
    assert rules.respond(obj, write()) == {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "SelfSubjectReview",
        "metadata": {"creationTimestamp": "2026-01-02T03:04:05Z"},
        "status": {"userInfo": {"username": "me", "groups": ["us"]}},
    }
    alone = rules.respond(obj, Write(verb="create", now=NOW, user="me"))
    assert alone["status"] == {"userInfo": {"username": "me"}}


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["spec.resourceAttributes"]),
        ({"spec": {"resourceAttributes": {}, "nonResourceAttributes": {}}}, ["spec.nonResourceAttributes"]),
        ({"metadata": {"name": "x"}, "spec": {"resourceAttributes": {}}}, ["metadata"]),
    ],
)
def test_who_asks_what_he_may_do_must_ask_one_thing(body: RawObject, fields: list[str]) -> None:
    rules = SelfSubjectAccessReviewRules()
    with pytest.raises(Refusal, match=r'^\.authorization\.k8s\.io "" is invalid') as refused:
        rules.respond(rules.decode(body)[0], write())
    assert [cause["field"] for cause in (refused.value.details or {})["causes"]] == fields


def test_an_event_is_the_same_in_both_groups() -> None:
    rules = event.NewEventRules()
    new = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "p"},
        "note": "n",
        "reportingController": "me",
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
        "deprecatedCount": 2,
        "eventTime": None,
    }
    stored = rules.to_store(new)
    assert (stored["involvedObject"], stored["message"], stored["count"]) == ({"kind": "Pod", "name": "p"}, "n", 2)
    assert (stored["apiVersion"], stored["reportingComponent"], stored["reportingInstance"]) == ("v1", "me", "")
    assert rules.read(stored) == new


def test_events_are_selected_by_the_same_fields_in_both_forms() -> None:
    stored = {
        "metadata": {},
        "involvedObject": {"kind": "Pod", "name": "p"},
        "reason": "R",
        "reportingComponent": "me",
        "source": {},
        "type": "Normal",
    }
    new = event.NewEventRules().read(stored)
    for form in (stored, new):
        assert event.SELECTABLE["involvedObject.name"](form) == "p"
        assert event.SELECTABLE["source"](form) == "me"
        assert event.NEW_SELECTABLE["regarding.kind"](form) == "Pod"
        assert event.NEW_SELECTABLE["reportingController"](form) == "me"
    assert event.SELECTABLE["source"]({**stored, "source": {"component": "you"}}) == "you"


def test_an_event_about_the_cluster_lives_in_two_namespaces_only() -> None:
    rules = event.EventRules()
    body: dict[str, Any] = {
        "eventTime": "2026-01-02T03:04:05.000000Z",
        "reportingComponent": "me",
        "reportingInstance": "i",
    }
    body |= {"action": "a", "reason": "r"}
    for place, wrong in (("default", []), ("kube-system", []), ("other", ["involvedObject.namespace"])):
        assert faults(rules, {**body, "metadata": {"name": "e", "namespace": place}}) == wrong
    assert faults(rules, {"metadata": {"name": "e", "namespace": "A"}, "involvedObject": {"namespace": "A"}}) == [
        "namespace"
    ]


def test_a_namespace_is_held_until_its_finalizers_are_gone() -> None:
    rules = namespace.NamespaceRules()
    obj, _ = rules.decode({"metadata": {"name": "n"}})
    rules.default(obj)
    rules.prepare_create(obj, write())
    assert rules.held(obj)
    rules.prepare_delete(obj, write("delete"))
    assert obj["status"] == {"phase": "Terminating"}
    obj["metadata"]["deletionTimestamp"] = "2026-01-02T03:04:05Z"
    assert rules.validate(obj, obj, write("update", "status")) == []
    obj["status"]["phase"] = "Active"
    assert [cause.field for cause in rules.validate(obj, obj, write("update", "status"))] == ["status.Phase"]
    obj["spec"] = {}
    assert not rules.held(obj)
    new, _ = rules.decode({"metadata": {"name": "n"}, "spec": {"finalizers": ["a/b"]}})
    rules.prepare_update(new, obj, write("update"))
    assert new["spec"] == {}


def test_a_namespace_whose_name_is_still_to_be_made_gets_its_label_later() -> None:
    rules = namespace.NamespaceRules()
    obj, _ = rules.decode({"metadata": {"generateName": "n-"}})
    rules.default(obj)
    assert "labels" not in obj["metadata"]
    obj["metadata"]["name"] = "n-1"
    rules.prepare_create(obj, write())
    assert obj["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n-1"}


def test_a_slice_can_hold_only_so_much() -> None:
    rules = EndpointSliceRules()
    one = {"addresses": ["10.0.0.1"]}
    assert faults(rules, {"addressType": "IPv4", "endpoints": [one] * 1001}) == ["endpoints"]
    assert faults(rules, {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"] * 101}]}) == [
        "endpoints[0].addresses"
    ]
    assert faults(rules, {"addressType": "IPv4", "ports": [{"port": 1}] * 20001}) == ["ports"]
    hints = {"forZones": [{"name": f"z{number}"} for number in range(9)]}
    assert faults(rules, {"addressType": "IPv4", "endpoints": [{**one, "hints": hints}]}) == [
        "endpoints[0].hints.forZones"
    ]


def test_hints_for_nodes_name_nodes_once() -> None:
    hints = {"forNodes": [{"name": "N"}, {"name": "n"}, {"name": "n"}]}
    body = {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"], "hints": hints}]}
    assert faults(EndpointSliceRules(), body) == [f"endpoints[0].hints.forNodes[{number}].name" for number in (0, 2)]


def test_a_slice_of_names_is_warned_of() -> None:
    rules = EndpointSliceRules()
    obj = {"metadata": {}, "addressType": "FQDN", "endpoints": [{"addresses": ["a.b", ""]}], "ports": []}
    assert rules.warnings(obj, None, write()) == ["spec.addressType: FQDN endpoints are deprecated"]
    assert rules.warnings(obj, obj, write("update")) == []
    assert [cause.field for cause in rules.validate(obj, None, write())] == ["endpoints[0].addresses[1]"]


def test_labels_of_a_slice_count_for_its_generation() -> None:
    rules = EndpointSliceRules()
    obj = {"metadata": {"name": "s"}, "addressType": "IPv4"}
    assert rules.desired(obj) != rules.desired({**obj, "metadata": {"name": "s", "labels": {"a": "b"}}})
    assert rules.desired(obj) == rules.desired({**obj, "metadata": {"name": "s", "annotations": {"a": "b"}}})


def test_a_node_s_taints_have_values_that_labels_may_have() -> None:
    assert [cause.field for cause in node.taints([{"key": "a", "value": "x y", "effect": "NoExecute"}], "t")] == [
        "t[0].value"
    ]
    assert node.SELECTABLE["spec.unschedulable"]({"spec": {"unschedulable": True}}) == "true"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("10.1.2.3", "10.1.2.3"),
        ("010.001.2.3", "10.1.2.3"),
        ("::1", "::1"),
        ("fe80::1%eth0", None),
        ("x", None),
        ("1.2.3", None),
    ],
)
def test_addresses_may_have_leading_zeros(text: str, found: str | None) -> None:
    assert str(address(text)) == str(found)


def test_endpoints_on_this_machine_only_are_taken_from_our_controllers_where_pods_are_there() -> None:
    body = {"addressType": "IPv4", "endpoints": [{"addresses": ["127.0.0.1", "0.0.0.0"]}]}
    both = ["endpoints[0].addresses[0]", "endpoints[0].addresses[1]"]
    assert faults(EndpointSliceRules(), body, user="system:controllers") == both
    assert faults(EndpointSliceRules(loopback=True), body) == both
    assert faults(EndpointSliceRules(loopback=True), body, user="system:controllers") == both[1:]


FOLDER: RawObject = {"hostPath": {"path": "/x"}, "claimRef": {"name": "data"}, "capacity": {"storage": "1Gi"}}


def test_a_volume_is_made_with_a_claim_or_not_at_all() -> None:
    rules = PersistentVolumeRules()
    assert faults(rules, {"metadata": {"name": "x"}, "spec": FOLDER}) == []
    by_hand = {"metadata": {"name": "x"}, "spec": {"nfs": {"server": "a", "path": "/"}}}
    assert faults(rules, by_hand) == ["spec.claimRef", "spec.hostPath"]


def test_of_a_volume_only_the_size_changes() -> None:
    rules = PersistentVolumeRules()
    old, _ = rules.decode({"metadata": {"name": "x"}, "spec": FOLDER})
    rules.default(old)
    rules.prepare_create(old, write())
    assert old["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    grown = {**old, "spec": {**old["spec"], "capacity": {"storage": "2Gi"}}}
    kept = {**old, "spec": {**old["spec"], "persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Block"}}
    assert rules.validate(grown, old, write("update")) == []
    assert [cause.field for cause in rules.validate(kept, old, write("update"))] == ["spec"]
