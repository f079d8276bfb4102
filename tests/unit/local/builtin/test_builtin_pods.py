"""Pods: binding, the end of their lives, what their node may report, and what admission does next to defaults."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from edgewright.local.builtin import pod
from edgewright.local.builtin.pod import PodRules, quality
from edgewright.local.errors import Refusal
from edgewright.local.served import Write
from edgewright.runtime.objects import RawObject

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ACCOUNT: RawObject = {
    "metadata": {"name": "default"},
    "imagePullSecrets": [{"name": "key"}],
    "automountServiceAccountToken": False,
}
NODE: RawObject = {"metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "z", "other": "x"}}}


def write(verb: str = "create", subresource: str = "") -> Write:
    things = {("serviceaccounts", "place", "default"): ACCOUNT, ("nodes", "", "n"): NODE}
    return Write(verb=verb, subresource=subresource, now=NOW, find=lambda *where: things.get(where))


def made(name: str = "p", **spec: Any) -> RawObject:
    rules = PodRules()
    metadata = {"name": name, "namespace": "place", "uid": "u", "resourceVersion": "5"}
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "a", "image": "x"}], **spec},
    }
    obj, _ = rules.decode(body)
    rules.default(obj)
    rules.prepare_create(obj, write())
    assert rules.validate(obj, None, write()) == []
    return obj


def binding(target: Any = None, **metadata: Any) -> RawObject:
    return {"metadata": {"name": "p", **metadata}, "target": target or {"name": "n"}}


def bound(obj: RawObject, body: RawObject) -> RawObject:
    after = PodRules().act(obj, body, write(subresource="binding"))
    assert after is not None
    return after


def test_a_binding_gives_a_pod_its_node_and_the_labels_of_its_zone() -> None:
    obj = made()
    after = bound(obj, binding(labels={"a": "b"}, annotations={"c": "d"}))
    assert after["spec"]["nodeName"] == "n"
    assert after["metadata"]["labels"] == {"a": "b", "topology.kubernetes.io/zone": "z"}
    assert after["metadata"]["annotations"] == {"c": "d"}
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": "2026-01-02T03:04:05Z",
    }
    assert after["status"] == {"phase": "Pending", "qosClass": "BestEffort", "conditions": [scheduled]}
    assert "nodeName" not in obj["spec"]


def test_a_binding_to_a_node_without_zones_adds_no_labels() -> None:
    after = bound(made(), binding({"kind": "Node", "name": "elsewhere"}))
    assert "labels" not in after["metadata"]
    assert "annotations" not in after["metadata"]


@pytest.mark.parametrize(("status", "time"), [("True", "2020-01-01T00:00:00Z"), ("False", "2026-01-02T03:04:05Z")])
def test_a_condition_that_was_true_before_keeps_its_time(status: str, time: str) -> None:
    obj = made()
    old = {"type": "PodScheduled", "status": status, "lastTransitionTime": "2020-01-01T00:00:00Z"}
    obj["status"]["conditions"] = [{"type": "Ready", "status": "False"}, old]
    first, second = bound(obj, binding())["status"]["conditions"]
    assert (first["type"], second["status"], second["lastTransitionTime"]) == ("Ready", "True", time)


@pytest.mark.parametrize(
    ("change", "body", "code", "message"),
    [
        ({}, binding(name="q"), 400, "name in URL does not match name in Binding object"),
        ({}, binding({"kind": "X", "name": "n"}), 500, 'target.kind: Unsupported value: "X"'),
        ({}, binding({"kind": "X"}), 500, r"\[target.kind: .*, target.name: Required value\]"),
        ({}, {"metadata": {"name": "p"}, "target": "n"}, 400, "cannot be handled as a Binding"),
        ({}, binding(uid="other"), 409, "UID in precondition: other, UID in object meta: u"),
        (
            {},
            binding(resourceVersion="1"),
            409,
            "ResourceVersion in precondition: 1, ResourceVersion in object meta: 5",
        ),
        ({"metadata": {"deletionTimestamp": "x"}}, binding(), 409, "pod p is being deleted"),
        ({"spec": {"nodeName": "m"}}, binding(), 409, 'on pods/binding "p": pod p is already assigned to node "m"'),
        ({"spec": {"schedulingGates": [{"name": "g"}]}}, binding(), 409, "has non-empty .spec.schedulingGates"),
    ],
)
def test_a_binding_that_cannot_be_is_refused(change: RawObject, body: RawObject, code: int, message: str) -> None:
    obj = made()
    for part, fields in change.items():
        obj[part].update(fields)
    with pytest.raises(Refusal, match=message) as refused:
        bound(obj, body)
    assert refused.value.code == code


def test_there_is_no_other_post_to_a_part_of_a_pod() -> None:
    assert PodRules().act(made(), binding(), write(subresource="eviction")) is None


@pytest.mark.parametrize(
    ("spec", "phase", "asked", "seconds"),
    [
        ({"nodeName": "n"}, "Running", None, 30),
        ({"nodeName": "n"}, "Running", 5, 5),
        ({"nodeName": "n"}, "Running", 0, 0),
        ({"nodeName": "n"}, "Running", -3, 1),
        ({"nodeName": "n", "terminationGracePeriodSeconds": 7}, "Pending", None, 7),
        ({}, "Pending", 5, 0),
        ({"nodeName": "n"}, "Succeeded", None, 0),
        ({"nodeName": "n"}, "Failed", 9, 0),
    ],
)
def test_a_pod_takes_as_long_to_end_as_it_or_the_client_says(
    spec: RawObject, phase: str, asked: int | None, seconds: int
) -> None:
    obj = made(**spec)
    obj["status"]["phase"] = phase
    assert PodRules().grace_seconds(obj, asked) == seconds


def test_a_pod_gets_the_image_secrets_of_its_account_unless_it_has_its_own() -> None:
    assert made()["spec"]["imagePullSecrets"] == [{"name": "key"}]
    assert made(imagePullSecrets=[{"name": "own"}])["spec"]["imagePullSecrets"] == [{"name": "own"}]


def test_a_pod_whose_account_is_not_there_is_forbidden() -> None:
    with pytest.raises(
        Refusal, match='error looking up service account place/x: serviceaccount "x" not found'
    ) as refused:
        made(serviceAccountName="x")
    assert refused.value.code == 403


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"priority": 5}, r"the integer value of priority \(5\) must not be provided in pod spec"),
        ({"preemptionPolicy": "Never"}, r"the string value of PreemptionPolicy \(Never\) must not be provided"),
        ({"priorityClassName": "mine"}, "no PriorityClass with name mine was found"),
    ],
)
def test_priorities_come_from_classes_only(spec: RawObject, words: str) -> None:
    with pytest.raises(Refusal, match=words) as refused:
        made(**spec)
    assert refused.value.code == 403


def test_what_a_new_pod_s_author_should_know_is_said_once() -> None:
    rules = PodRules()
    obj = made("a.b", containers=[{"name": "a", "image": "x", "env": [{"name": "A"}, {"name": "B"}, {"name": "A"}]}])
    name, variable = rules.warnings(obj, None, write())
    assert name.startswith("metadata.name: this is used in the Pod's hostname")
    assert (
        variable == 'spec.containers[0].env[2]: hides previous definition of "A", which may be dropped when using apply'
    )
    assert rules.warnings(obj, obj, write("update")) == []
    assert rules.warnings(made(), None, write()) == []


def updated(obj: RawObject, subresource: str = "", **changes: Any) -> tuple[RawObject, list[str]]:
    rules = PodRules()
    body = {**obj, **changes}
    new, _ = rules.decode(body)
    rules.default(new)
    rules.prepare_update(new, obj, write("update", subresource))
    return new, [cause.field for cause in rules.validate(new, obj, write("update", subresource))]


def test_a_status_that_forgets_what_the_server_wrote_keeps_it() -> None:
    obj = made()
    obj["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "X", "name": "x", "uid": "1"}]
    obj["status"]["observedGeneration"] = 3
    metadata = {key: value for key, value in obj["metadata"].items() if key != "ownerReferences"}
    new, causes = updated(obj, "status", status={"phase": "Running"}, metadata=metadata)
    assert causes == []
    assert new["status"] == {"phase": "Running", "qosClass": "BestEffort", "observedGeneration": 3}
    assert new["metadata"]["ownerReferences"] == obj["metadata"]["ownerReferences"]


STATE = {"name": "a", "image": "", "imageID": "", "ready": False, "restartCount": 0}


@pytest.mark.parametrize(
    ("policy", "code", "own", "faults"),
    [
        ("Never", 1, None, ["status.containerStatuses[0].state"]),
        ("OnFailure", 0, None, ["status.containerStatuses[0].state"]),
        ("OnFailure", 1, None, []),
        ("Always", 0, None, []),
        ("Always", 0, "Never", ["status.containerStatuses[0].state"]),
    ],
)
def test_an_ended_container_lives_again_only_where_its_policy_says_so(
    policy: str, code: int, own: str | None, faults: list[str]
) -> None:
    container = {"name": "a", "image": "x"} | ({"restartPolicy": own} if own else {})
    obj = made(restartPolicy=policy, containers=[container])
    obj["status"]["containerStatuses"] = [{**STATE, "state": {"terminated": {"exitCode": code}}, "lastState": {}}]
    running = {"containerStatuses": [{**STATE, "state": {"running": {}}}]}
    assert updated(obj, "status", status=running)[1] == faults
    assert updated(obj, "status", status={})[1] == []


def test_a_node_that_is_nominated_must_have_a_name_and_come_before_the_node() -> None:
    assert updated(made(), "status", status={"nominatedNodeName": "n"})[1] == []
    assert updated(made(), "status", status={"nominatedNodeName": "N"})[1] == ["status.nominatedNodeName"]
    late = updated(made(nodeName="n"), "status", status={"nominatedNodeName": "m"})
    assert late[1] == ["status.nominatedNodeName"]


def test_a_gated_pod_may_be_sent_elsewhere() -> None:
    obj = made(schedulingGates=[{"name": "g"}])
    assert updated(obj, spec={**obj["spec"], "nodeSelector": {"a": "b"}})[1] == []


def test_a_deadline_beyond_32_bits_is_refused_at_once() -> None:
    obj = made()
    fields = updated(obj, spec={**obj["spec"], "activeDeadlineSeconds": 2**31})[1]
    assert fields == ["spec.activeDeadlineSeconds", "spec.activeDeadlineSeconds"]


def test_a_grace_period_that_was_negative_may_become_one() -> None:
    obj = made()
    obj["spec"]["terminationGracePeriodSeconds"] = -1
    assert updated(obj, spec={**obj["spec"], "terminationGracePeriodSeconds": 1})[1] == []


@pytest.mark.parametrize(
    ("resources", "found"),
    [
        ([{}], "BestEffort"),
        ([{"limits": {"example.com/x": "1"}, "requests": {"example.com/x": "1"}}], "BestEffort"),
        ([{"requests": {"cpu": "0"}}], "BestEffort"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1"}, "requests": {"cpu": "1", "memory": "1"}}], "Guaranteed"),
        ([{"limits": {"cpu": "1", "memory": "1"}, "requests": {"cpu": "1", "memory": "1"}}, {}], "Burstable"),
        ([{"limits": {"cpu": "1000m", "memory": "1"}, "requests": {"cpu": "1", "memory": "1"}}], "Guaranteed"),
    ],
)
def test_a_pod_s_class_follows_from_what_it_asks_for(resources: list[RawObject], found: str) -> None:
    assert quality({"containers": [{"resources": each} for each in resources]}) == found


def test_resources_of_the_whole_pod_decide_its_class() -> None:
    whole = {"limits": {"cpu": "1", "memory": "1"}, "requests": {"cpu": "1", "memory": "1"}}
    assert quality({"resources": whole, "containers": [{"resources": {}}]}) == "Guaranteed"


def test_pods_are_selected_by_what_they_are_and_where() -> None:
    obj = made(nodeName="n", hostNetwork=True)
    obj["status"] |= {"podIPs": [{"ip": "10.0.0.1"}]}
    read = {name: reader(obj) for name, reader in pod.SELECTABLE.items()}
    assert read == {
        "spec.nodeName": "n",
        "spec.restartPolicy": "Always",
        "spec.schedulerName": "default-scheduler",
        "spec.serviceAccountName": "default",
        "spec.hostNetwork": "true",
        "status.phase": "Pending",
        "status.podIP": "10.0.0.1",
        "status.nominatedNodeName": "",
    }
    assert {reader({}) for reader in pod.SELECTABLE.values()} == {"", "false"}


def test_volumes_of_vendors_get_their_defaults_and_are_not_looked_into() -> None:
    obj = made(
        volumes=[
            {"name": "a", "rbd": {"image": "i", "monitors": ["m"]}},
            {"name": "b", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}},
            {"name": "c", "image": {"reference": "x:1"}},
            {"name": "d", "csi": {"driver": "x"}},
        ],
        containers=[
            {
                "name": "a",
                "image": "x",
                "env": [{"name": "A", "valueFrom": {"fileKeyRef": {"key": "k", "path": "p", "volumeName": "d"}}}],
            }
        ],
    )
    rbd, ephemeral, image, _ = obj["spec"]["volumes"]
    assert rbd["rbd"]["pool"] == "rbd"
    assert ephemeral["ephemeral"]["volumeClaimTemplate"]["spec"]["volumeMode"] == "Filesystem"
    assert image["image"]["pullPolicy"] == "IfNotPresent"
    assert obj["spec"]["containers"][0]["env"][0]["valueFrom"]["fileKeyRef"]["optional"] is False
