"""Our controllers of DaemonSets, CronJobs and budgets do what those of Kubernetes do: as in `test_local_workloads`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.controllers_stage import node
from tests.cluster.planes import Planes
from tests.cluster.workloads_stage import Stage, conditions, labels_of, replica_set
from tests.harness import ApiServer

HASH = "controller-revision-hash"


@pytest.fixture
def stage(workload_plane: ApiServer, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A namespace in which Pods can be created."""
    made = Stage(workload_plane, workload_plane.create_namespace(request.node.originalname.removeprefix("test_")))
    yield made
    made.remove()


@pytest.fixture
def nodes(workload_plane: ApiServer) -> Iterator[None]:
    """Two Nodes, and one with a taint."""
    node(workload_plane, "one")
    node(workload_plane, "two")
    node(workload_plane, "tainted", taints=[{"key": "only", "value": "mine", "effect": "NoSchedule"}])
    yield
    for name in ("one", "two", "tainted"):
        workload_plane.request("DELETE", f"/api/v1/nodes/{name}")


def _image(name: str) -> Any:
    return {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": name}]}}}}


def places(stage: Stage) -> set[str]:
    return {pod["spec"].get("nodeName", "") for pod in stage.active()}


@pytest.mark.usefixtures("nodes")
def test_every_node_that_fits_has_a_pod(stage: Stage) -> None:
    stage.create("daemonsets", replica_set("agent"))
    pods = stage.pods(2)
    stage.until(lambda: places(stage) == {"one", "two"}, "each is on its Node")
    tolerated = {(each.get("key"), each.get("effect")) for each in pods[0]["spec"]["tolerations"]}
    assert ("node.kubernetes.io/unschedulable", "NoSchedule") in tolerated
    assert ("node.kubernetes.io/not-ready", "NoExecute") in tolerated
    assert pods[0]["metadata"]["labels"]["pod-template-generation"] == "1"
    (revision,) = stage.all("controllerrevisions")
    assert revision["metadata"]["name"] == f"agent-{pods[0]['metadata']['labels'][HASH]}"
    stage.run(*pods)
    status = stage.status(
        "daemonsets",
        "agent",
        desiredNumberScheduled=2,
        currentNumberScheduled=2,
        numberReady=2,
        numberAvailable=2,
        updatedNumberScheduled=2,
    )
    assert status["numberMisscheduled"] == 0
    assert "numberUnavailable" not in status
    node(stage.plane, "late")
    stage.until(lambda: places(stage) == {"one", "two", "late"}, "the new Node has one, too")
    stage.plane.request("DELETE", "/api/v1/nodes/late")
    stage.patch("daemonsets", "agent", {"spec": {"template": {"spec": {"nodeSelector": {"zone": "one"}}}}})
    stage.until(lambda: places(stage) == {"one"}, "only the selected Node keeps its Pod")


@pytest.mark.usefixtures("nodes")
def test_pods_of_nodes_are_replaced_one_at_a_time(stage: Stage) -> None:
    stage.create("daemonsets", replica_set("agent"))
    stage.run(*stage.pods(2))
    stage.status("daemonsets", "agent", numberAvailable=2)
    stage.patch("daemonsets", "agent", _image("two"))
    first = stage.fresh("two", 1)
    assert sum(map(stage.is_ready, stage.active())) == 1
    stage.run(*first)
    stage.run(*stage.fresh("two", 2))
    stage.status("daemonsets", "agent", updatedNumberScheduled=2, numberAvailable=2, observedGeneration=2)
    assert [each["revision"] for each in stage.all("controllerrevisions")].count(2) == 1


@pytest.mark.usefixtures("nodes")
def test_new_pods_of_nodes_can_come_before_the_old_ones_go(stage: Stage) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    stage.create("daemonsets", replica_set("agent", updateStrategy=strategy))
    stage.run(*stage.pods(2))
    stage.status("daemonsets", "agent", numberAvailable=2)
    stage.patch("daemonsets", "agent", _image("two"))
    stage.pods(3)
    stage.run(*stage.fresh("two", 1))
    stage.run(*stage.fresh("two", 2))
    stage.pods(2)
    stage.status("daemonsets", "agent", updatedNumberScheduled=2, numberAvailable=2)


# --- budgets ----------------------------------------------------------------------------------------------------------


def budget(name: str, **spec: Any) -> Any:
    return {"metadata": {"name": "limit"}, "spec": {"selector": {"matchLabels": labels_of(name)}, **spec}}


def evict(stage: Stage, pod: Any) -> str | None:
    """The refusal of an eviction; None where it was done."""
    name = pod["metadata"]["name"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": stage.namespace}}
    # Past `request`, which waits while a server says that it is too busy: here that is the answer.
    code, answer = stage.plane.answer("POST", stage.path("pods", name, "eviction"), body)
    assert code in {201, 429}, answer
    return None if code == 201 else answer


def test_evictions_leave_as_many_pods_as_a_budget_says(stage: Stage) -> None:
    stage.create("replicasets", replica_set("web", replicas=3))
    pods = stage.pods(3)
    stage.run(*pods)
    stage.create("poddisruptionbudgets", budget("web", minAvailable=2))
    status = stage.status("poddisruptionbudgets", "limit", disruptionsAllowed=1, currentHealthy=3, desiredHealthy=2)
    assert (status["expectedPods"], status["observedGeneration"]) == (3, 1)
    assert conditions(status)["DisruptionAllowed"]["reason"] == "SufficientPods"
    assert evict(stage, pods[0]) is None
    refused = evict(stage, pods[1])
    assert refused is not None
    assert "Cannot evict pod as it would violate the pod's disruption budget." in refused
    assert "The disruption budget limit needs 2 healthy pods and has " in refused
    status = stage.status("poddisruptionbudgets", "limit", disruptionsAllowed=0, currentHealthy=2)
    assert conditions(status)["DisruptionAllowed"]["reason"] == "InsufficientPods"
    fresh = next(pod for pod in stage.pods(3, but=[pods[0]]) if not stage.is_ready(pod))
    assert evict(stage, fresh) is None, "a Pod that is not running yet is nobody's loss"
    stage.delete("poddisruptionbudgets", "limit")
    stage.until(lambda: stage.find("poddisruptionbudgets", "limit") is None, "there is no budget any more")
    assert evict(stage, pods[1]) is None


def test_a_budget_can_be_a_share_of_what_is_wanted(stage: Stage) -> None:
    stage.create("deployments", replica_set("web", replicas=4))
    pods = stage.pods(4)
    stage.run(*pods[:3])
    stage.create("poddisruptionbudgets", budget("web", maxUnavailable="50%"))
    stage.status("poddisruptionbudgets", "limit", disruptionsAllowed=1, desiredHealthy=2, expectedPods=4)


# --- CronJobs ---------------------------------------------------------------------------------------------------------


def test_a_job_is_made_when_it_is_due(workload_planes: Planes, workload_plane: ApiServer) -> None:
    """The last one here: it waits for the next minute after its CronJob was made with the control plane."""
    (stage,) = (each for each in workload_planes.ticking.values() if each.plane is workload_plane)
    stage.until(lambda: stage.all("jobs"), "the first Job is there")
    (made,) = stage.all("jobs")
    about = made["metadata"]
    at = about["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"]
    assert about["name"].startswith("tick-")
    assert about["ownerReferences"][0]["kind"] == "CronJob"
    stage.until(lambda: stage.get("cronjobs", "tick")["status"].get("active"), "it is active")
    found = stage.get("cronjobs", "tick")["status"]
    assert found["lastScheduleTime"] == at
    assert [each["name"] for each in found["active"]] == [about["name"]]
    assert stage.events("tick", "SuccessfulCreate")[0]["message"] == f"Created job {about['name']}"
    stage.patch("cronjobs", "tick", {"spec": {"suspend": True}})  # else the next Job, which may be overdue, follows
    (pod,) = stage.pods(1)
    stage.end(pod)
    stage.until(lambda: stage.find("jobs", about["name"]) is None, "it is over and not kept")
    stage.until(lambda: not stage.get("cronjobs", "tick")["status"].get("active"), "nothing is active")
