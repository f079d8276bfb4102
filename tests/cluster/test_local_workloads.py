"""The controllers of workloads do what kube-controller-manager does.

Each test runs three times with the same assertions: on a kube-apiserver whose only controllers are ours, on one with
those of Kubernetes, and on `edgewright up`. No node runs the Pods: a test says of them what a node would.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.workloads_stage import (
    Stage,
    conditions,
    deployment,
    labels_of,
    replica_set,
)
from tests.harness import ApiServer


@pytest.fixture
def stage(workload_plane: ApiServer, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A namespace in which Pods can be created."""
    made = Stage(workload_plane, workload_plane.create_namespace(request.node.originalname.removeprefix("test_")))
    yield made
    made.remove()


# --- ReplicaSets ------------------------------------------------------------------------------------------------------


def test_a_replica_set_keeps_its_number_of_pods(stage: Stage) -> None:
    stage.create("replicasets", replica_set("web", replicas=2))
    pods = stage.pods(2)
    assert all(pod["metadata"]["generateName"] == "web-" for pod in pods)
    assert all(pod["metadata"]["ownerReferences"][0]["blockOwnerDeletion"] for pod in pods)
    stage.run(*pods)
    stage.status("replicasets", "web", replicas=2, readyReplicas=2, availableReplicas=2, fullyLabeledReplicas=2)
    stage.delete_pod(pods[0])
    stage.pods(2, but=[pods[0]])
    stage.scale("replicasets", "web", 1)
    left = stage.pods(1)
    assert left[0]["metadata"]["name"] == pods[1]["metadata"]["name"], "the one that was ready stays"
    found = stage.status("replicasets", "web", replicas=1, observedGeneration=2)
    assert found.get("terminatingReplicas", 0) == 0


def test_a_replica_set_adopts_pods_and_lets_them_go(stage: Stage) -> None:
    stage.pod("lonely", labels=labels_of("web"))
    found = stage.create("replicasets", replica_set("web", replicas=1))
    pod = stage.pods(1)[0]
    stage.until(
        lambda: (
            stage.get("pods", "lonely")["metadata"].get("ownerReferences", [{}])[0].get("uid")
            == found["metadata"]["uid"]
        ),
        "the Pod is adopted",
    )
    assert pod["metadata"]["name"] == "lonely"
    stage.patch("pods", "lonely", {"metadata": {"labels": {"app": "other"}}})
    stage.until(lambda: not stage.get("pods", "lonely")["metadata"].get("ownerReferences"), "the Pod is let go")
    stage.pods(2)


def test_a_replica_set_says_why_it_has_no_pods(stage: Stage) -> None:
    stage.create("replicasets", replica_set("web", replicas=1, pods={"serviceAccountName": "nobody"}))
    stage.until(lambda: conditions(stage.get("replicasets", "web")), "the condition is there")
    (failure,) = conditions(stage.get("replicasets", "web")).values()
    assert (failure["type"], failure["status"], failure["reason"]) == ("ReplicaFailure", "True", "FailedCreate")
    assert 'serviceaccount "nobody" not found' in failure["message"]
    assert stage.events("web", "FailedCreate")


def test_pods_are_available_when_they_were_ready_for_long_enough(stage: Stage) -> None:
    stage.create("replicasets", replica_set("web", replicas=1, minReadySeconds=3))
    stage.run(*stage.pods(1))
    assert stage.status("replicasets", "web", readyReplicas=1).get("availableReplicas", 0) == 0
    stage.status("replicasets", "web", availableReplicas=1)


# --- Deployments ------------------------------------------------------------------------------------------------------


def test_a_deployment_comes_up_and_says_so(stage: Stage) -> None:
    stage.create("deployments", deployment("web", replicas=2, metadata={"annotations": {"team": "edge"}}))
    pods = stage.pods(2)
    (found,) = stage.all("replicasets")
    value = found["metadata"]["labels"]["pod-template-hash"]
    assert found["metadata"]["name"] == f"web-{value}"
    assert found["spec"]["selector"]["matchLabels"]["pod-template-hash"] == value
    assert found["metadata"]["annotations"] == {
        "team": "edge",
        "deployment.kubernetes.io/revision": "1",
        "deployment.kubernetes.io/desired-replicas": "2",
        "deployment.kubernetes.io/max-replicas": "3",
    }
    assert all(pod["metadata"]["labels"]["pod-template-hash"] == value for pod in pods)
    status = stage.status("deployments", "web", replicas=2, updatedReplicas=2, unavailableReplicas=2)
    assert conditions(status)["Available"]["reason"] == "MinimumReplicasUnavailable"
    assert conditions(status)["Progressing"]["status"] == "True"
    stage.run(*pods)
    status = stage.status("deployments", "web", readyReplicas=2, availableReplicas=2, observedGeneration=1)
    stage.until(
        lambda: (
            conditions(stage.get("deployments", "web")["status"])["Progressing"]["reason"] == "NewReplicaSetAvailable"
        ),
        "the rollout is complete",
    )
    whole = stage.get("deployments", "web")
    assert conditions(whole["status"])["Available"]["reason"] == "MinimumReplicasAvailable"
    assert whole["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
    assert whole["metadata"]["generation"] == 1
    assert "unavailableReplicas" not in whole["status"]
    scaled = f"Scaled up replica set web-{value} from 0 to 2"
    assert [event["message"] for event in stage.events("web", "ScalingReplicaSet")] == [scaled]


def _image(name: str) -> Any:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}}


def test_a_rolling_update_never_lacks_pods_and_never_has_too_many(stage: Stage) -> None:
    stage.create(
        "deployments",
        deployment("web", replicas=3, strategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}),
    )
    stage.run(*stage.pods(3))
    stage.status("deployments", "web", availableReplicas=3)
    stage.patch("deployments", "web", _image("two"))
    for step in range(3):
        fresh = stage.fresh("two", step + 1)
        assert len(stage.active()) <= 4
        assert sum(map(stage.is_ready, stage.active())) >= 3
        stage.run(*fresh)
    stage.status("deployments", "web", replicas=3, updatedReplicas=3, availableReplicas=3, observedGeneration=2)
    sets = {
        each["metadata"]["annotations"]["deployment.kubernetes.io/revision"]: each for each in stage.all("replicasets")
    }
    assert {revision: each["spec"]["replicas"] for revision, each in sets.items()} == {"1": 0, "2": 3}
    stage.patch("deployments", "web", _image("one"))
    for step in range(3):
        stage.run(*stage.fresh("one", step + 1))
    stage.status("deployments", "web", updatedReplicas=3, availableReplicas=3, observedGeneration=3)
    annotations = stage.get("replicasets", sets["1"]["metadata"]["name"])["metadata"]["annotations"]
    assert annotations["deployment.kubernetes.io/revision"] == "3"
    assert annotations["deployment.kubernetes.io/revision-history"] == "1"
    assert stage.get("deployments", "web")["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"


def test_recreated_pods_come_after_the_old_ones_are_gone(stage: Stage) -> None:
    stage.create("deployments", deployment("web", replicas=2, strategy={"type": "Recreate"}))
    old = stage.pods(2)
    stage.run(*old)
    stage.status("deployments", "web", availableReplicas=2)
    for pod in old:
        stage.patch("pods", pod["metadata"]["name"], {"metadata": {"finalizers": ["test/hold"]}})
    stage.patch("deployments", "web", _image("two"))
    stage.until(lambda: all("deletionTimestamp" in pod["metadata"] for pod in stage.all("pods")), "all are to go")
    assert len(stage.all("pods")) == 2
    for pod in old:
        stage.patch("pods", pod["metadata"]["name"], {"metadata": {"finalizers": None}})
    stage.run(*stage.fresh("two", 2))
    stage.status("deployments", "web", updatedReplicas=2, availableReplicas=2, replicas=2)


def test_a_rollout_that_does_not_get_on_says_so(stage: Stage) -> None:
    stage.create("deployments", deployment("web", replicas=1, progressDeadlineSeconds=2))
    stage.until(
        lambda: (
            conditions(stage.get("deployments", "web")["status"]).get("Progressing", {}).get("reason")
            == "ProgressDeadlineExceeded"
        ),
        "the deadline is over",
    )
    found = conditions(stage.get("deployments", "web")["status"])["Progressing"]
    assert found["status"] == "False"
    assert found["message"].endswith("has timed out progressing.")
    stage.run(*stage.pods(1))
    stage.until(
        lambda: (
            conditions(stage.get("deployments", "web")["status"])["Progressing"]["reason"] == "NewReplicaSetAvailable"
        ),
        "it got on at last",
    )


def test_a_paused_deployment_only_scales_and_keeps_proportions(stage: Stage) -> None:
    stage.create(
        "deployments",
        deployment("web", replicas=4, strategy={"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}),
    )
    stage.run(*stage.pods(4))
    stage.status("deployments", "web", availableReplicas=4)
    stage.patch("deployments", "web", _image("two"))
    stage.fresh("two", 2)
    stage.patch("deployments", "web", {"spec": {"paused": True}})
    stage.until(
        lambda: conditions(stage.get("deployments", "web")["status"])["Progressing"]["reason"] == "DeploymentPaused",
        "it says that it is paused",
    )
    stage.scale("deployments", "web", 8)
    stage.until(lambda: sum(each["spec"]["replicas"] for each in stage.all("replicasets")) == 10, "both have grown")
    sizes = sorted(each["spec"]["replicas"] for each in stage.all("replicasets"))
    assert sizes == [3, 7]
    stage.patch("deployments", "web", {"spec": {"paused": False}})
    stage.until(
        lambda: conditions(stage.get("deployments", "web")["status"])["Progressing"]["reason"] != "DeploymentPaused",
        "it goes on",
    )


def test_only_so_many_old_revisions_are_kept(stage: Stage) -> None:
    stage.create("deployments", deployment("web", replicas=1, revisionHistoryLimit=1))
    stage.run(*stage.pods(1))
    for image in ("two", "three"):
        stage.patch("deployments", "web", _image(image))
        stage.run(*stage.fresh(image, 1))
    stage.until(lambda: len(stage.all("replicasets")) == 2, "the oldest revision is gone")
    revisions = [
        each["metadata"]["annotations"]["deployment.kubernetes.io/revision"] for each in stage.all("replicasets")
    ]
    assert sorted(revisions) == ["2", "3"]


def test_what_a_deployment_owns_goes_with_it_and_a_settled_one_writes_nothing(stage: Stage) -> None:
    stage.create("deployments", deployment("web", replicas=1))
    stage.run(*stage.pods(1))
    stage.status("deployments", "web", availableReplicas=1)
    stage.until(
        lambda: (
            conditions(stage.get("deployments", "web")["status"])["Progressing"]["reason"] == "NewReplicaSetAvailable"
        ),
        "the rollout is complete",
    )
    before = stage.versions("deployments", "replicasets", "pods")
    stage.create("configmaps", {"metadata": {"name": "later"}})
    stage.patch("deployments", "web", {"metadata": {"labels": {"touched": "yes"}}})
    stage.until(
        lambda: stage.get("deployments", "web")["metadata"]["labels"] == {"touched": "yes"}, "the label is there"
    )
    after = stage.versions("deployments", "replicasets", "pods")
    assert {name for name in before if before[name] != after[name]} == {"deployments/web"}
    stage.delete("deployments", "web")
    stage.until(lambda: not stage.all("replicasets") and not stage.all("pods"), "everything is gone")
