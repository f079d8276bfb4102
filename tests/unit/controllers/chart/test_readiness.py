"""Whether objects are ready, by kind."""

from __future__ import annotations

from typing import Any

import pytest

from edgewright.controllers.chart.readiness import has_rule, problem

FAILED_JOB = {"conditions": [{"type": "Failed", "status": "True", "message": "too often"}]}
LATE = {"conditions": [{"type": "Progressing", "reason": "ProgressDeadlineExceeded"}]}
STALLED = {"conditions": [{"type": "Stalled", "status": "True", "reason": "NoRights"}]}
RECONCILING = {"conditions": [{"type": "Reconciling", "status": "True", "message": "3 of 4"}]}
NOT_READY = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
ESTABLISHED = {"conditions": [{"type": "Established", "status": "True"}]}
CLASH = {"conditions": [{"type": "NamesAccepted", "status": "False", "message": "taken"}]}
DEFINITION = "apiextensions.k8s.io/CustomResourceDefinition"
READY_POD = {"conditions": [{"type": "Ready", "status": "True"}]}
STARTED = {"startTime": "2026-11-18T10:00:00Z"}
CANARY = {"replicas": 3, "updateStrategy": {"rollingUpdate": {"partition": 2}}}
ROLLED = {"desiredNumberScheduled": 2, "numberAvailable": 2, "updatedNumberScheduled": 1}


@pytest.mark.parametrize(
    ("kind", "spec", "status", "said"),
    [
        ("apps/Deployment", {"replicas": 2}, {"updatedReplicas": 2, "replicas": 2, "availableReplicas": 2}, None),
        ("apps/Deployment", {"replicas": 2}, {"updatedReplicas": 1}, "1 of 2 replicas are updated"),
        ("apps/Deployment", {}, {"updatedReplicas": 1, "replicas": 2}, "1 old replicas are still there"),
        ("apps/Deployment", None, {"updatedReplicas": 1, "replicas": 1}, "0 of 1 replicas are available"),
        ("apps/Deployment", {}, LATE, "its progress deadline is exceeded"),
        ("apps/Deployment", {"replicas": 0}, None, None),
        ("apps/StatefulSet", {}, {"readyReplicas": 1, "currentRevision": "a", "updateRevision": "a"}, None),
        ("apps/StatefulSet", {}, {}, "0 of 1 replicas are ready"),
        (
            "apps/StatefulSet",
            {},
            {"readyReplicas": 1, "currentRevision": "a", "updateRevision": "b"},
            "0 of 1 replicas are updated",
        ),
        (
            "apps/StatefulSet",
            {"updateStrategy": {"type": "OnDelete"}},
            {"readyReplicas": 1, "currentRevision": "a", "updateRevision": "b"},
            None,
        ),
        (
            "apps/StatefulSet",
            CANARY,
            {"readyReplicas": 3, "updatedReplicas": 1, "currentRevision": "a", "updateRevision": "b"},
            None,
        ),
        (
            "apps/StatefulSet",
            CANARY,
            {"readyReplicas": 3, "currentRevision": "a", "updateRevision": "b"},
            "0 of 1 replicas are updated",
        ),
        ("apps/StatefulSet", {}, {"readyReplicas": 1, "replicas": 2}, "1 replicas too many are still there"),
        ("apps/ReplicaSet", {"replicas": 1}, {"readyReplicas": 1, "availableReplicas": 1}, None),
        ("apps/ReplicaSet", {"replicas": 1}, {"readyReplicas": 1}, "0 of 1 replicas are available"),
        ("apps/ReplicaSet", {}, {"replicas": 3, "availableReplicas": 1}, "2 replicas too many are still there"),
        ("apps/DaemonSet", {}, {}, "it has not been scheduled yet"),
        (
            "apps/DaemonSet",
            {},
            {**ROLLED, "updatedNumberScheduled": 2, "numberAvailable": 1},
            "1 of 2 Pods are available",
        ),
        ("apps/DaemonSet", {}, {"desiredNumberScheduled": 0}, None),
        ("apps/DaemonSet", {}, ROLLED, "1 of 2 Pods are updated"),
        ("apps/DaemonSet", {"updateStrategy": {"type": "OnDelete"}}, ROLLED, None),
        ("batch/Job", {}, STARTED, None),
        ("batch/Job", {}, {}, "it has not started yet"),
        ("batch/Job", {}, FAILED_JOB, "it failed: too often"),
        ("/Pod", {}, READY_POD, None),
        ("/Pod", {}, {"phase": "Succeeded"}, None),
        ("/Pod", {}, {}, "it is Pending"),
        ("/PersistentVolumeClaim", {}, {"phase": "Bound"}, None),
        ("/PersistentVolumeClaim", {}, {"phase": "Lost"}, "it is Lost"),
        ("/Service", {"type": "LoadBalancer"}, {}, "it has no address yet"),
        ("/Service", {"type": "NodePort"}, {}, None),
        ("/ConfigMap", None, None, None),
        ("policy/PodDisruptionBudget", {}, {}, None),
        ("policy/PodDisruptionBudget", {}, {"observedGeneration": 0}, "its last change has not been observed yet"),
        (DEFINITION, {}, ESTABLISHED, None),
        (DEFINITION, {}, {}, "it is not established yet"),
        (DEFINITION, {}, CLASH, "its names are not accepted: taken"),
        ("example.com/Part", {}, None, None),
        ("example.com/Part", {}, {"observedGeneration": 0}, "its last change has not been observed yet"),
        ("example.com/Part", {}, STALLED, "it is stalled: NoRights"),
        ("example.com/Part", {}, RECONCILING, "it is reconciling: 3 of 4"),
        ("example.com/Part", {}, NOT_READY, "it is not ready: no reason given"),
        ("cluster.x-k8s.io/Part", {}, NOT_READY, "it is not ready: no reason given"),
        ("example.com/Part", {}, READY_POD, None),
        ("example.com/Part", {}, {"conditions": "none", "observedGeneration": "x"}, None),
        ("example.com/Part", "odd", "odd", None),
    ],
)
def test_an_object_says_what_is_missing(kind: str, spec: Any, status: Any, said: str | None) -> None:
    group, _, name = kind.partition("/")
    assert problem(group, name, generation=1, spec=spec, status=status) == said


def test_a_change_that_nobody_has_observed_yet_is_not_ready() -> None:
    said = problem("apps", "Deployment", generation=2, spec={"replicas": 0}, status={"observedGeneration": 1})
    assert said == "its last change has not been observed yet"


def test_kinds_without_a_rule_are_ready_when_they_are_there() -> None:
    assert has_rule("apps", "Deployment")
    assert not has_rule("", "ConfigMap")
    assert problem("rbac.authorization.k8s.io", "ClusterRole", generation=1, spec=None, status=NOT_READY) is None


@pytest.mark.parametrize("kind", ["apps/Deployment", "/ConfigMap", "example.com/Part"])
def test_what_is_being_deleted_is_not_ready_whatever_its_kind(kind: str) -> None:
    group, _, name = kind.partition("/")
    said = problem(group, name, generation=1, spec={"replicas": 0}, status=READY_POD, deleting=True)
    assert said == "it is being deleted"
