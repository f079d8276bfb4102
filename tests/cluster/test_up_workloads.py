"""Workloads on `edgewright up` with its node: what the controllers make really runs, as processes of this machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.workloads_stage import Stage, conditions, job, replica_set
from tests.harness import LocalPlane
from tests.harness.fixtures import run

PYTHON = f"example.com/python:1={sys.executable}"


@pytest.fixture(scope="module")
def plane(request: pytest.FixtureRequest) -> Iterator[LocalPlane]:
    """An `edgewright up` with a node that has an image."""
    yield from run(request, lambda: LocalPlane(node=True, arguments=("--node-name", "edge-1", "--image", PYTHON)))


@pytest.fixture
def stage(plane: LocalPlane, request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A namespace that goes afterwards: what is left in it would make its Pods again while the server is to end."""
    made = Stage(plane, plane.create_namespace(request.node.originalname.removeprefix("test_")))
    yield made
    made.remove()


def program(text: str, **more: Any) -> Any:
    """The containers of a Pod that runs this text as Python."""
    return [{"name": "main", "image": "example.com/python:1", "args": ["-c", text], **more}]


def test_a_deployment_is_rolled_out_and_scaled(stage: Stage) -> None:
    sleeping = {"containers": program("import time; time.sleep(600)")}
    stage.create("deployments", replica_set("web", replicas=2, pods=sleeping))
    kubectl = stage.plane.kubectl
    kubectl("rollout", "status", "deployment/web", "-n", stage.namespace, "--timeout", "180s")
    kubectl("set", "env", "deployment/web", "COLOUR=blue", "-n", stage.namespace)
    kubectl("rollout", "status", "deployment/web", "-n", stage.namespace, "--timeout", "180s")
    kubectl("rollout", "undo", "deployment/web", "-n", stage.namespace)
    kubectl("scale", "deployment/web", "--replicas", "1", "-n", stage.namespace)
    kubectl("rollout", "status", "deployment/web", "-n", stage.namespace, "--timeout", "180s")
    (pod,) = stage.pods(1)
    assert "env" not in pod["spec"]["containers"][0]
    shown = kubectl("get", "deployment", "web", "-n", stage.namespace).stdout.split()
    assert shown[:9] == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE", "web", "1/1", "1", "1"]
    stage.delete("deployments", "web")
    stage.until(lambda: not stage.all("pods") and not stage.all("replicasets"), "everything is gone")


def test_each_pod_of_an_indexed_job_does_its_part(stage: Stage) -> None:
    text = "import os; print(os.environ['JOB_COMPLETION_INDEX'])"
    pods = {"containers": program(text)}
    stage.create("jobs", job("work", completions=2, parallelism=2, completionMode="Indexed", pods=pods))
    stage.until(lambda: "Complete" in conditions(stage.get("jobs", "work")), "the Job is complete")
    assert stage.get("jobs", "work")["status"]["completedIndexes"] == "0,1"
    said = {
        pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]: stage.plane.kubectl(
            "logs", pod["metadata"]["name"], "-n", stage.namespace
        ).stdout.strip()
        for pod in stage.all("pods")
    }
    assert said == {"0": "0", "1": "1"}


def test_a_job_whose_program_fails_says_so(stage: Stage) -> None:
    stage.create("jobs", job("work", backoffLimit=0, pods={"containers": program("raise SystemExit(3)")}))
    stage.until(lambda: "Failed" in conditions(stage.get("jobs", "work")), "the Job has failed")
    assert conditions(stage.get("jobs", "work"))["Failed"]["reason"] == "BackoffLimitExceeded"


def test_what_a_pod_writes_into_its_claim_is_there_for_the_next(stage: Stage) -> None:
    text = (
        "import pathlib, time; f = pathlib.Path('/data/starts');"
        "n = int(f.read_text()) + 1 if f.exists() else 1; f.write_text(str(n)); print(n, flush=True); time.sleep(600)"
    )
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    }
    mounting = {"containers": program(text, volumeMounts=[{"name": "data", "mountPath": "/data"}])}
    body = replica_set("web", replicas=1, serviceName="web", volumeClaimTemplates=[claim], pods=mounting)
    # A Pod that goes before: its user is free then, and the next Pod must not get that one but the claim's.
    stage.create(
        "pods", {"metadata": {"name": "before"}, "spec": {"containers": program("import time; time.sleep(600)")}}
    )
    stage.until(lambda: stage.get("pods", "before")["status"].get("phase") == "Running", "the Pod before runs")
    stage.create("statefulsets", body)

    def says(number: str) -> bool:
        found = stage.find("pods", "web-0")
        if found is None or found["status"]["phase"] != "Running":
            return False
        return stage.plane.kubectl("logs", "web-0", "-n", stage.namespace).stdout.split() == [number]

    stage.until(lambda: says("1"), "the first Pod has written")
    bound = stage.get("persistentvolumeclaims", "data-web-0")
    assert (bound["status"]["phase"], bound["status"]["capacity"]) == ("Bound", {"storage": "1Mi"})
    first = stage.get("pods", "web-0")["metadata"]["uid"]
    stage.plane.request("DELETE", stage.path("pods", "before"), {"gracePeriodSeconds": 0})
    stage.until(lambda: stage.find("pods", "before") is None, "the Pod before is gone")
    stage.plane.request("DELETE", stage.path("pods", "web-0"), {"gracePeriodSeconds": 0})
    stage.until(
        lambda: (stage.find("pods", "web-0") or {"metadata": {"uid": first}})["metadata"]["uid"] != first, "again"
    )
    stage.until(lambda: says("2"), "the next Pod has found what the first wrote")


def test_a_daemon_set_has_a_pod_on_the_node(stage: Stage) -> None:
    stage.create("daemonsets", replica_set("agent", pods={"containers": program("import time; time.sleep(600)")}))
    stage.status("daemonsets", "agent", desiredNumberScheduled=1, numberReady=1, numberAvailable=1)
    (pod,) = stage.pods(1)
    assert pod["spec"]["nodeName"] == "edge-1"
    assert json.loads(stage.plane.kubectl("get", "ds", "agent", "-n", stage.namespace, "-o", "json").stdout)
