"""Our controllers of StatefulSets and claims do what those of Kubernetes do: as in `test_local_workloads`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.workloads_stage import Stage, replica_set
from tests.harness import ApiServer

HASH = "controller-revision-hash"


@pytest.fixture
def stage(workload_plane: ApiServer, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A namespace in which Pods can be created."""
    made = Stage(workload_plane, workload_plane.create_namespace(request.node.originalname.removeprefix("test_")))
    yield made
    made.remove()


def stateful_set(name: str, **rest: Any) -> Any:
    return replica_set(name, **{"serviceName": name, **rest})


def names(pods: list[Any]) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods]


def _image(name: str) -> Any:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}}


def test_pods_come_one_after_the_other_and_go_in_the_other_order(stage: Stage) -> None:
    stage.create("statefulsets", stateful_set("web", replicas=2))
    (first,) = stage.pods(1)
    assert names([first]) == ["web-0"]
    assert (first["spec"]["hostname"], first["spec"]["subdomain"]) == ("web-0", "web")
    labels = first["metadata"]["labels"]
    assert labels["statefulset.kubernetes.io/pod-name"] == "web-0"
    assert labels["apps.kubernetes.io/pod-index"] == "0"
    (revision,) = stage.all("controllerrevisions")
    assert labels[HASH] == revision["metadata"]["name"]
    assert revision["revision"] == 1
    assert revision["data"]["spec"]["template"]["$patch"] == "replace"
    stage.run(first)
    both = stage.pods(2)
    assert names(both) == ["web-0", "web-1"]
    stage.run(both[1])
    status = stage.status(
        "statefulsets", "web", replicas=2, readyReplicas=2, availableReplicas=2, currentReplicas=2, updatedReplicas=2
    )
    assert status["currentRevision"] == status["updateRevision"] == revision["metadata"]["name"]
    assert status["collisionCount"] == 0
    stage.delete_pod(both[0])
    again = stage.pods(2, but=[both[0]])
    assert names(again) == ["web-0", "web-1"]
    stage.run(again[0])
    stage.scale("statefulsets", "web", 1)
    assert names(stage.pods(1)) == ["web-0"]
    stage.status("statefulsets", "web", replicas=1, observedGeneration=2)
    created = "Create Pod web-0 in StatefulSet web successful"
    assert created in [event["message"] for event in stage.events("web", "SuccessfulCreate")]


def test_pods_come_all_at_once_where_the_order_does_not_matter(stage: Stage) -> None:
    stage.create(
        "statefulsets",
        stateful_set("web", replicas=3, podManagementPolicy="Parallel", ordinals={"start": 4}),
    )
    assert names(stage.pods(3)) == ["web-4", "web-5", "web-6"]
    stage.scale("statefulsets", "web", 1)
    assert names(stage.pods(1)) == ["web-4"]


def test_an_update_replaces_the_last_pod_first(stage: Stage) -> None:
    stage.create("statefulsets", stateful_set("web", replicas=2, podManagementPolicy="Parallel"))
    stage.run(*stage.pods(2))
    before = stage.status("statefulsets", "web", readyReplicas=2)["currentRevision"]
    stage.patch("statefulsets", "web", _image("two"))
    (fresh,) = stage.fresh("two", 1)
    assert names([fresh]) == ["web-1"]
    status = stage.status("statefulsets", "web", updatedReplicas=1, observedGeneration=2)
    assert status["currentRevision"] == before != status["updateRevision"]
    stage.run(fresh)
    stage.run(*stage.fresh("two", 2))
    status = stage.status("statefulsets", "web", updatedReplicas=2, readyReplicas=2, currentReplicas=2)
    assert status["currentRevision"] == status["updateRevision"] != before
    stage.patch("statefulsets", "web", _image("one"))
    stage.run(*stage.fresh("one", 1))
    found = {each["metadata"]["name"]: each["revision"] for each in stage.all("controllerrevisions")}
    assert found[before] == 3, "a template that comes back gets a new number"


def test_a_partition_keeps_pods_from_an_update(stage: Stage) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    stage.create(
        "statefulsets", stateful_set("web", replicas=2, podManagementPolicy="Parallel", updateStrategy=strategy)
    )
    stage.run(*stage.pods(2))
    stage.status("statefulsets", "web", readyReplicas=2)
    stage.patch("statefulsets", "web", _image("two"))
    stage.run(*stage.fresh("two", 1))
    stage.status("statefulsets", "web", readyReplicas=2, updatedReplicas=1)
    old = next(pod for pod in stage.active() if pod["metadata"]["name"] == "web-0")
    stage.delete_pod(old)
    again = next(pod for pod in stage.pods(2, but=[old]) if pod["metadata"]["name"] == "web-0")
    assert again["spec"]["containers"][0]["image"] == "one", "made again, it is what it was"


def test_a_pod_that_ended_is_made_again(stage: Stage) -> None:
    stage.create("statefulsets", stateful_set("web", replicas=1))
    (pod,) = stage.pods(1)
    stage.end(pod, code=1)
    stage.pods(1, but=[pod])


CLAIM = {
    "metadata": {"name": "data", "labels": {"kept": "yes"}},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
}


def test_each_pod_has_a_claim_that_outlives_it(stage: Stage) -> None:
    mounting = [{"name": "main", "image": "one", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}]
    stage.create(
        "statefulsets",
        stateful_set("web", replicas=1, volumeClaimTemplates=[CLAIM], pods={"containers": mounting}),
    )
    (pod,) = stage.pods(1)
    (volume,) = [each for each in pod["spec"]["volumes"] if each["name"] == "data"]
    assert volume["persistentVolumeClaim"] == {"claimName": "data-web-0"}
    claim = stage.get("persistentvolumeclaims", "data-web-0")
    assert claim["metadata"]["labels"] == {"app": "web", "kept": "yes"}
    assert claim["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    # Only a Pod that has a node uses its claim: else that goes at once, and may come again for the set that still is.
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web-0"}, "target": {"name": "elsewhere"}}
    stage.plane.request("POST", stage.path("pods", "web-0", "binding"), binding)
    stage.delete("persistentvolumeclaims", "data-web-0")
    assert stage.get("persistentvolumeclaims", "data-web-0")["metadata"]["deletionTimestamp"], "a Pod uses it"
    stage.delete("statefulsets", "web")
    stage.until(lambda: not stage.all("pods"), "the Pod is gone")
    stage.until(lambda: stage.find("persistentvolumeclaims", "data-web-0") is None, "nobody uses the claim any more")


@pytest.fixture
def folders(stage: Stage) -> Iterator[str]:
    """The class of claims that are folders; only Kubernetes needs an object for it."""
    classes = "/apis/storage.k8s.io/v1/storageclasses"
    real = stage.plane.exists("/apis/storage.k8s.io/v1")
    if real:
        made = {"metadata": {"name": stage.namespace}, "provisioner": "kubernetes.io/host-path"}
        stage.plane.request("POST", classes, made)
    yield stage.namespace
    if real:
        stage.plane.request("DELETE", f"{classes}/{stage.namespace}")


def test_a_claim_has_a_volume_that_goes_with_it(stage: Stage, folders: str) -> None:
    spec = {**CLAIM["spec"], "storageClassName": folders}
    claim = stage.create("persistentvolumeclaims", {"metadata": {"name": "data"}, "spec": spec})
    stage.until(lambda: stage.get("persistentvolumeclaims", "data")["status"]["phase"] == "Bound", "the claim is bound")
    bound = stage.get("persistentvolumeclaims", "data")
    path = f"/api/v1/persistentvolumes/{bound['spec']['volumeName']}"
    stage.until(lambda: stage.plane.request("GET", path)["status"]["phase"] == "Bound", "the volume is bound")
    volume = stage.plane.request("GET", path)
    assert volume["metadata"]["name"] == f"pvc-{claim['metadata']['uid']}"
    assert "kubernetes.io/pv-protection" in volume["metadata"]["finalizers"]
    assert (
        volume["spec"]["claimRef"].items()
        >= {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "name": "data",
            "namespace": stage.namespace,
            "uid": claim["metadata"]["uid"],
        }.items()
    )
    volume["spec"].pop("claimRef")
    assert volume["spec"].pop("hostPath")["path"].startswith("/")
    assert volume["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Mi"},
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": folders,
        "volumeMode": "Filesystem",
    }
    stage.plane.request("DELETE", path)
    assert stage.plane.request("GET", path)["metadata"]["deletionTimestamp"], "it has its claim"
    stage.delete("persistentvolumeclaims", "data")
    stage.until(lambda: not stage.plane.exists(path), "the volume is gone with its claim")


def test_claims_go_with_pods_where_that_is_wanted(stage: Stage) -> None:
    retention = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    stage.create(
        "statefulsets",
        stateful_set(
            "web",
            replicas=2,
            podManagementPolicy="Parallel",
            volumeClaimTemplates=[CLAIM],
            persistentVolumeClaimRetentionPolicy=retention,
        ),
    )
    stage.run(*stage.pods(2))
    stage.status("statefulsets", "web", readyReplicas=2)
    stage.scale("statefulsets", "web", 1)
    stage.until(lambda: stage.find("persistentvolumeclaims", "data-web-1") is None, "the second claim is gone")
    assert stage.find("persistentvolumeclaims", "data-web-0") is not None
    stage.delete("statefulsets", "web")
    stage.until(lambda: not stage.all("persistentvolumeclaims"), "all claims are gone")
