"""The decisions about Deployments, ReplicaSets and their Pods, as tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from edgewright.local.controllers.resources import Pod
from edgewright.local.controllers.workloads import readiness, replica_sets, rollouts
from edgewright.local.controllers.workloads.kinds import Deployment, ReplicaSet

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": "one"}]}}
OLD = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": "zero"}]}}


def deployment(replicas: int = 4, *, surge: Any = 1, missing: Any = 0, status: Any = None, **spec: Any) -> Deployment:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": missing}}
    return msgspec.convert(
        {
            "metadata": {"name": "web", "namespace": "x", "uid": "d", "generation": 1},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": "web"}},
                "template": TEMPLATE,
                "strategy": strategy,
                "progressDeadlineSeconds": 600,
                **spec,
            },
            "status": status or {},
        },
        Deployment,
    )


def replica_set(
    name: str,
    replicas: int,
    available: int | None = None,
    *,
    template: Any = TEMPLATE,
    desired: int = 4,
    most: int = 5,
    at: int = 0,
) -> ReplicaSet:
    ready = replicas if available is None else available
    revision = "2" if template is TEMPLATE else "1"
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "namespace": "x",
                "uid": name,
                "creationTimestamp": (NOW + timedelta(seconds=at)).isoformat(),
                "annotations": {rollouts.REVISION: revision, rollouts.DESIRED: str(desired), rollouts.MOST: str(most)},
            },
            "spec": {"replicas": replicas, "template": template},
            "status": {"replicas": replicas, "readyReplicas": ready, "availableReplicas": ready},
        },
        ReplicaSet,
    )


def sizes(plan: rollouts.Plan) -> dict[str, int | None]:
    return {each.found.metadata.name: each.scaled_to for each in plan.changes}


def test_a_new_template_gets_a_replica_set_of_its_own() -> None:
    before = {"replicas": 4, "readyReplicas": 4, "availableReplicas": 4}
    plan = rollouts.decide(deployment(status=before), [replica_set("old", 4, template=OLD)], old_pods=True, now=NOW)
    assert plan.create is not None
    assert plan.create["spec"]["replicas"] == 1, "as many as may be too many"
    assert plan.create["metadata"]["annotations"][rollouts.REVISION] == "2"
    assert plan.revision == "2"
    assert {each.type: each.reason for each in plan.status.conditions}["Progressing"] == "NewReplicaSetCreated"


STEPS = [
    ("the new one grows into the room", [("old", 3, 3), ("new", 1, 1)], {"new": 2}),
    ("old Pods go when new ones are there", [("old", 4, 4), ("new", 1, 1)], {"old": 3}),
    ("nothing goes while the new one is not ready", [("old", 4, 4), ("new", 1, 0)], {}),
    ("ill old Pods go first, but not below what is kept", [("old", 4, 3), ("new", 1, 1)], {"old": 3}),
    ("the last old Pod goes", [("old", 1, 1), ("new", 4, 4)], {"old": 0}),
    ("a new one that is too large shrinks", [("old", 0, 0), ("new", 5, 5)], {"new": 4}),
]


@pytest.mark.parametrize(("title", "there", "wanted"), STEPS, ids=[each[0] for each in STEPS])
def test_a_rolling_update_goes_step_by_step(
    title: str, there: list[tuple[str, int, int]], wanted: dict[str, int]
) -> None:
    sets = [
        replica_set(name, count, ready, template=TEMPLATE if name == "new" else OLD) for name, count, ready in there
    ]
    assert sizes(rollouts.decide(deployment(), sets, old_pods=True, now=NOW)) == wanted, title


def test_recreated_pods_wait_for_the_old_ones() -> None:
    recreate = {"type": "Recreate"}
    old = replica_set("old", 2, template=OLD)
    plan = rollouts.decide(deployment(strategy=recreate), [old], old_pods=True, now=NOW)
    assert sizes(plan) == {"old": 0}
    empty = replica_set("old", 0, template=OLD)
    assert rollouts.decide(deployment(strategy=recreate), [empty], old_pods=True, now=NOW).create is None
    plan = rollouts.decide(deployment(strategy=recreate), [empty], old_pods=False, now=NOW)
    assert plan.create is not None
    assert plan.create["spec"]["replicas"] == 4


SHARES = [
    ("up", 8, [("old", 6), ("new", 2)], {"old": 8, "new": 3}),
    ("down", 2, [("old", 6), ("new", 2)], {"old": 4, "new": 1}),
    ("to nothing", 0, [("old", 6), ("new", 2)], {"old": 0, "new": 0}),
]


@pytest.mark.parametrize(("title", "replicas", "there", "wanted"), SHARES, ids=[each[0] for each in SHARES])
def test_while_a_rollout_goes_on_all_templates_are_scaled_in_proportion(
    title: str, replicas: int, there: list[tuple[str, int]], wanted: dict[str, int]
) -> None:
    sets = [
        replica_set(name, count, template=TEMPLATE if name == "new" else OLD, desired=5, most=8)
        for name, count in there
    ]
    found = {
        each.found.metadata.name: each.found.spec.replicas if each.scaled_to is None else each.scaled_to
        for each in rollouts.decide(deployment(replicas, surge=3), sets, old_pods=True, now=NOW).changes
    }
    assert found == wanted, title


def test_a_settled_deployment_wants_nothing() -> None:
    sets = [replica_set("new", 4), replica_set("old", 0, template=OLD)]
    first = rollouts.decide(deployment(), sets, old_pods=False, now=NOW)
    done = deployment(status=msgspec.to_builtins(first.status))
    again = rollouts.decide(done, sets, old_pods=False, now=NOW + timedelta(hours=1))
    assert (again.create, again.changes, again.delete, again.requeue_after) == (None, [], [], None)
    assert again.status == first.status


def test_a_rollout_without_progress_is_late_after_its_deadline() -> None:
    sets = [replica_set("new", 4, 0)]
    first = rollouts.decide(deployment(), sets, old_pods=False, now=NOW)
    assert first.requeue_after == pytest.approx(601.0)
    waiting = deployment(status=msgspec.to_builtins(first.status))
    late = rollouts.decide(waiting, sets, old_pods=False, now=NOW + timedelta(seconds=601))
    assert {each.type: each.reason for each in late.status.conditions}["Progressing"] == "ProgressDeadlineExceeded"


def test_old_revisions_go_but_for_those_that_are_kept() -> None:
    sets = [replica_set("new", 4), *(replica_set(f"old{n}", 0, template={**OLD, "n": n}, at=n) for n in range(3))]
    first = rollouts.decide(deployment(), sets, old_pods=False, now=NOW)
    done = deployment(status=msgspec.to_builtins(first.status), revisionHistoryLimit=2)
    assert len(rollouts.decide(done, sets, old_pods=False, now=NOW).delete) == 1


def pod(name: str, *, ready: bool = True, node: str = "n", phase: str = "Running", at: int = 0, cost: str = "") -> Pod:
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": NOW.isoformat()}
    return msgspec.convert(
        {
            "metadata": {
                "name": name,
                "creationTimestamp": (NOW + timedelta(seconds=at)).isoformat(),
                "annotations": {readiness.DELETION_COST: cost} if cost else {},
            },
            "spec": {"nodeName": node},
            "status": {"phase": phase, "conditions": [condition]},
        },
        Pod,
    )


def test_pods_that_are_worth_least_go_first() -> None:
    pods = [
        pod("dear", cost="5"),
        pod("old"),
        pod("young", at=9),
        pod("cheap", cost="-5"),
        pod("not-ready", ready=False),
        pod("pending", ready=False, phase="Pending"),
        pod("nowhere", ready=False, phase="Pending", node=""),
    ]
    ordered = [each.metadata.name for each in readiness.spared(pods, len(pods))]
    assert ordered == ["nowhere", "pending", "not-ready", "cheap", "young", "old", "dear"]


def test_a_replica_set_makes_what_is_missing_and_deletes_what_is_too_many() -> None:
    pods = [pod("a"), pod("b", ready=False)]
    assert replica_sets.decide(5, pods) == replica_sets.Plan(make=3)
    assert [each.metadata.name for each in replica_sets.decide(1, pods).delete] == ["b"]
    assert replica_sets.decide(2, pods) == replica_sets.Plan()
    assert replica_sets.decide(2000, []).make == replica_sets.BURST


@pytest.mark.parametrize(
    ("value", "up", "wanted"), [("25%", True, 3), ("25%", False, 2), (7, True, 7), ("0%", True, 0)]
)
def test_shares_are_rounded_as_kubernetes_does(value: int | str, up: bool, wanted: int) -> None:
    assert readiness.resolved(value, 10, up=up) == wanted
