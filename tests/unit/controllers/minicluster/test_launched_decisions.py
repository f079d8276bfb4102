"""What is done for a mini-cluster at each point of its life, and what is said of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edgewright.api.flux import FluxPhase
from edgewright.api.statefulset import StatefulSet
from edgewright.controllers.minicluster.launched_decisions import decide
from edgewright.controllers.minicluster.model import LaunchedCluster
from edgewright.controllers.minicluster.objects import DIGEST, EXIT_CODE
from edgewright.controllers.minicluster.plan import (
    Change,
    Create,
    Delete,
    NeedCertificate,
    Plan,
    Snapshot,
)
from tests.unit.controllers.minicluster.samples import OWNER, cluster, ended, launcher, made, pod, setup

ONE = cluster()
THREE = cluster(setup(size=3))
PAGE = cluster(command=None, port=30685, greeting="a $(HOME) b")


def planned(asked: LaunchedCluster, seen: Snapshot) -> Plan:
    return decide(asked, seen, OWNER)


def names(plan: Plan) -> list[str]:
    """The actions in short."""
    found = []
    for action in plan.actions:
        match action:
            case Create(kind=kind, body=body):
                found.append(f"create {kind.kind} {body['metadata']['name']}")
            case Change(obj=obj):
                found.append(f"change {obj.kind.kind}")
            case Delete(obj=obj):
                found.append(f"delete {obj.kind.kind}")
            case NeedCertificate():
                found.append("certificate")
    return found


def test_first_all_that_workers_need_is_made_and_then_the_workers() -> None:
    plan = planned(PAGE, Snapshot())
    assert names(plan) == [
        "create ConfigMap one-flux-config",
        "certificate",
        "create Service one-workers",
        "create Service one",
        "create StatefulSet one",
    ]
    assert (plan.outcome.state, plan.outcome.reason, plan.phase) == (
        "progressing",
        "WorkersStarting",
        FluxPhase.PENDING,
    )


def test_the_launcher_waits_for_all_workers() -> None:
    plan = planned(THREE, made(THREE, ready=2))
    assert names(plan) == ["certificate"]
    assert plan.outcome.message == "2 of 3 workers are ready"


def test_all_ready_workers_get_the_launcher() -> None:
    plan = planned(THREE, made(THREE))
    assert names(plan) == ["certificate", "create Job one-launcher"]
    assert plan.workers_ready


@pytest.mark.parametrize(
    "status",
    [
        {"observedGeneration": 0, "replicas": 1, "readyReplicas": 1, "updatedReplicas": 1},
        {"observedGeneration": 1, "replicas": 2, "readyReplicas": 1, "updatedReplicas": 1},
        {"observedGeneration": 1, "replicas": 1, "readyReplicas": 1, "updatedReplicas": 0},
    ],
)
def test_workers_of_before_a_change_do_not_count(status: dict[str, int]) -> None:
    seen = made(ONE)
    assert seen.workers is not None
    stale = msgspec.convert({**msgspec.to_builtins(seen.workers), "status": status}, StatefulSet)
    assert names(planned(ONE, made(ONE, workers=stale))) == ["certificate"]


def test_a_worker_that_cannot_start_is_named_with_its_reason() -> None:
    waiting = {"reason": "ErrImagePull", "message": "no such image"}
    stuck = pod("one-0", "worker", containerStatuses=[{"name": "flux", "state": {"waiting": waiting}}])
    plan = planned(ONE, made(ONE, ready=0, pods=(pod("one-1", "worker", phase="Running"), stuck)))
    assert (plan.outcome.state, plan.outcome.reason) == ("retrying", "WorkersNotReady")
    assert plan.outcome.message == "0 of 1 workers are ready; one-0: ErrImagePull: no such image"


def test_a_settled_mini_cluster_needs_nothing() -> None:
    running = pod("one-launcher-x", "launcher", phase="Running")
    plan = planned(ONE, made(ONE, job=launcher(ONE), pods=(running,)))
    assert names(plan) == ["certificate"]  # which is remembered
    assert (plan.outcome.reason, plan.phase, plan.workers_ready) == ("Running", FluxPhase.RUNNING, True)
    done = made(ONE, job=launcher(ONE, "Complete", code="0"))
    assert done.workers is not None
    zero = msgspec.convert({**msgspec.to_builtins(done.workers), "spec": {"replicas": 0}}, StatefulSet)
    assert planned(ONE, made(ONE, workers=zero, job=launcher(ONE, "Complete", code="0"))).actions == ()


@pytest.mark.parametrize(
    ("pods", "reason"),
    [
        ((), "Launching"),
        ((pod("l", "launcher", phase="Pending"),), "Launching"),
        ((pod("l", "launcher", phase="Running"),), "Running"),
        ((pod("l", "launcher", phase="Succeeded"),), "Running"),
    ],
)
def test_while_the_launcher_runs_its_pod_says_how_far_it_is(pods: Any, reason: str) -> None:
    plan = planned(ONE, made(ONE, job=launcher(ONE), pods=pods))
    assert (plan.outcome.state, plan.outcome.reason) == ("progressing", reason)


def test_a_launcher_that_cannot_start_is_named_with_its_reason() -> None:
    conditions = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}]
    plan = planned(ONE, made(ONE, job=launcher(ONE), pods=(pod("l", "launcher", conditions=conditions),)))
    assert (plan.outcome.state, plan.outcome.message) == ("retrying", "l: Unschedulable: no node")


def test_a_command_that_serves_is_ready_when_its_pod_is() -> None:
    ready = pod("l", "launcher", phase="Running", conditions=[{"type": "Ready", "status": "True"}])
    plan = planned(PAGE, made(PAGE, page=True, job=launcher(PAGE), pods=(ready,)))
    assert (plan.outcome.state, plan.outcome.reason) == ("done", "Serving")


def test_after_the_end_the_exit_code_is_noted_and_the_workers_go() -> None:
    seen = made(ONE, job=launcher(ONE, "Complete"), pods=(pod("l", "launcher", **ended(0)),))
    plan = planned(ONE, seen)
    assert [action.patch for action in plan.actions if isinstance(action, Change)] == [
        {"metadata": {"annotations": {EXIT_CODE: "0"}}},
        {"spec": {"replicas": 0}},
    ]
    assert (plan.outcome.state, plan.phase, plan.exit_code) == ("done", FluxPhase.SUCCEEDED, 0)
    assert plan.ended is not None


@pytest.mark.parametrize(
    ("job", "pods", "code", "reason", "message"),
    [
        (launcher(ONE, "Failed"), (pod("l", "launcher", **ended(7)),), 7, "CommandFailed", "exit code 7"),
        (launcher(ONE, "Failed"), (pod("l", "launcher", **ended(7, "why\n")),), 7, "CommandFailed", "exit code 7: why"),
        (
            launcher(ONE, "Failed"),
            (pod("l", "launcher", **ended(2, container="configure")),),
            2,
            "CommandFailed",
            "code 2",
        ),
        (launcher(ONE, "Failed", code="7"), (), 7, "CommandFailed", "exit code 7"),
        (launcher(ONE, "Failed", code="odd"), (), None, "LauncherFailed", "the launcher failed: it has failed"),
        (launcher(ONE, "Failed"), (), None, "LauncherFailed", "the launcher failed: it has failed"),
    ],
)
def test_a_failure_is_told_by_the_exit_code_or_by_the_job(
    job: Any, pods: Any, code: int | None, reason: str, message: str
) -> None:
    plan = planned(ONE, made(ONE, job=job, pods=pods))
    assert (plan.outcome.state, plan.outcome.reason, plan.exit_code) == ("stuck", reason, code)
    assert plan.outcome.message.endswith(message)
    assert plan.phase is FluxPhase.FAILED


def test_nothing_is_made_again_for_a_command_that_has_ended() -> None:
    plan = planned(ONE, Snapshot(job=launcher(ONE, "Complete", code="0")))
    assert (plan.actions, plan.phase, plan.ready) == ((), FluxPhase.SUCCEEDED, 0)


def test_a_changed_spec_ends_the_former_launcher_before_anything_else() -> None:
    plan = planned(THREE, made(ONE, job=launcher(ONE)))
    assert (names(plan), plan.outcome.reason) == (["delete Job"], "Restarting")
    plan = planned(THREE, made(ONE, job=launcher(ONE, deleting=True)))
    assert (names(plan), plan.outcome.reason) == ([], "Restarting")


def test_workers_follow_a_changed_size_and_image() -> None:
    plan = planned(cluster(setup(size=3), image="other"), made(ONE))
    assert names(plan) == ["change ConfigMap", "certificate", "change StatefulSet"]
    change = plan.actions[-1]
    assert isinstance(change, Change)
    assert change.patch["spec"]["replicas"] == 3
    assert change.patch["spec"]["template"]["spec"]["containers"][0]["image"] == "other"
    assert change.patch["metadata"]["annotations"][DIGEST] == cluster(setup(size=3), image="other").workers_digest


def test_workers_that_somebody_scaled_are_scaled_back() -> None:
    seen = made(THREE)
    assert seen.workers is not None
    scaled = msgspec.convert({**msgspec.to_builtins(seen.workers), "spec": {"replicas": 1}}, StatefulSet)
    assert names(planned(THREE, made(THREE, workers=scaled))) == ["certificate", "change StatefulSet"]


def test_the_page_follows_its_port_and_goes_without_one() -> None:
    other = cluster(command=None, port=8080, greeting="a $(HOME) b")
    plan = planned(other, made(PAGE, page=True))
    assert names(plan) == ["certificate", "change Service"]
    change = plan.actions[-1]
    assert isinstance(change, Change)
    assert change.patch["spec"]["ports"] == [{"name": "http", "port": 8080, "targetPort": 8080, "protocol": "TCP"}]
    assert names(planned(ONE, made(PAGE, page=True))) == ["certificate", "delete Service"]


def test_what_a_predecessor_left_is_waited_for() -> None:
    plan = planned(ONE, made(ONE, left=("Job one-launcher",)))
    assert (plan.actions, plan.outcome.reason) == ((), "WaitingForDeletion")
    assert plan.outcome.message.endswith("Job one-launcher")


def test_the_launcher_gets_words_and_values_as_they_were_written() -> None:
    # Kubernetes would put the value of a variable in the place of $(HOME).
    create = planned(PAGE, made(PAGE, page=True)).actions[-1]
    assert isinstance(create, Create)
    (container,) = create.body["spec"]["template"]["spec"]["containers"]
    values = {each["name"]: each.get("value") for each in container["env"]}
    assert values == {"POD_IP": None, "PORT": "30685", "GREETING": "a $$(HOME) b"}
    assert container["command"][:4] == ["flux", "start", "-o", "--config-path=/mnt/flux/config"]
    spec = create.body["spec"]["template"]["spec"]
    assert (spec["hostname"], spec["subdomain"], spec["restartPolicy"]) == ("one-launcher", "one-workers", "Never")
