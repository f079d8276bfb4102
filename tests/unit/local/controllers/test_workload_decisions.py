"""The decisions about Jobs, StatefulSets, DaemonSets, CronJobs and budgets, as tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from edgewright.local.controllers.resources import Node, Pod
from edgewright.local.controllers.workloads import budgets, cron_jobs, daemon_sets, job_review, ordinals
from edgewright.local.controllers.workloads.kinds import (
    ControllerRevision,
    CronJob,
    DaemonSet,
    Job,
    PodDisruptionBudget,
    StatefulSet,
)
from edgewright.local.controllers.workloads.revisions import POD_HASH, data_of, template_of

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def pod(
    name: str,
    phase: str = "Running",
    *,
    ready: bool = True,
    index: int | None = None,
    revision: str = "",
    held: bool = True,
    **more: Any,
) -> Pod:
    annotations = {job_review.INDEX: str(index)} if index is not None else {}
    condition = {"type": "Ready", "status": str(ready and phase == "Running"), "lastTransitionTime": NOW.isoformat()}
    about = {
        "name": name,
        "namespace": "x",
        "uid": name,
        "annotations": {**annotations, **more.pop("annotations", {})},
        "labels": {POD_HASH: revision} if revision else {},
        "finalizers": [job_review.TRACKING] if held else [],
        **more.pop("metadata", {}),
    }
    status = {"phase": phase, "conditions": [condition], **more.pop("status", {})}
    return msgspec.convert({"metadata": about, "spec": {"nodeName": "n", **more}, "status": status}, Pod)


def job(status: Any = None, **spec: Any) -> Job:
    about = {"name": "work", "namespace": "x", "uid": "j"}
    wanted = {"parallelism": 2, "completions": 2, "template": {"spec": {"restartPolicy": "Never"}}, **spec}
    return msgspec.convert({"metadata": about, "spec": wanted, "status": status or {}}, Job)


def reviewed(found: Job, *pods: Pod, released: tuple[str, ...] = ()) -> job_review.Review:
    return job_review.review(found, pods, released, NOW)


def test_a_pod_is_counted_once_whatever_the_cache_shows() -> None:
    done = pod("a", "Succeeded")
    assert reviewed(job(), done).total_succeeded == 1
    told = {"uncountedTerminatedPods": {"succeeded": ["a"]}}
    assert reviewed(job(told), done).total_succeeded == 1, "it is noted, and still has its finalizer"
    assert reviewed(job(told), pod("a", "Succeeded", held=False)).total_succeeded == 1, "its finalizer has gone"
    assert reviewed(job({"succeeded": 1}), pod("a", "Succeeded", held=False)).total_succeeded == 1, "it is counted"
    assert reviewed(job({"succeeded": 1}), done, released=("a",)).total_succeeded == 1, "the cache is late"


ENDS = [
    ("all done", {}, [pod("a", "Succeeded"), pod("b", "Succeeded")], "CompletionsReached"),
    ("not all done", {}, [pod("a", "Succeeded"), pod("b")], None),
    ("too many failures", {"backoffLimit": 0}, [pod("a", "Failed")], "BackoffLimitExceeded"),
    ("a failure that may be", {"backoffLimit": 1}, [pod("a", "Failed")], None),
    ("any success is enough", {"completions": None}, [pod("a", "Succeeded")], "CompletionsReached"),
    ("any success, and others still run", {"completions": None}, [pod("a", "Succeeded"), pod("b")], None),
]


@pytest.mark.parametrize(("title", "spec", "pods", "reason"), ENDS, ids=[each[0] for each in ENDS])
def test_a_job_ends_for_a_reason(title: str, spec: Any, pods: list[Pod], reason: str | None) -> None:
    found = reviewed(job(**spec), *pods)
    assert (found.end and found.end[1]) == reason, title


def test_a_job_is_over_at_its_deadline() -> None:
    late = {"startTime": (NOW - timedelta(seconds=10)).isoformat()}
    assert job_review.seconds_left(job(late, activeDeadlineSeconds=15), NOW) == 5.0
    found = reviewed(job(late, activeDeadlineSeconds=10), pod("a"))
    assert found.end is not None
    assert found.end[1] == "DeadlineExceeded"
    assert [each.metadata.name for each in found.failed] == ["a"], "what still runs counts as failed"


def test_pods_of_an_indexed_job_fill_the_gaps() -> None:
    indexed = job(completionMode="Indexed", completions=5, parallelism=3)
    found = reviewed(indexed, pod("a", index=0), pod("b", "Succeeded", index=1), pod("c", "Failed", index=2))
    assert list(job_review.missing(indexed, found)) == [2, 3]
    assert job_review.surplus(indexed, reviewed(indexed, pod("a", index=0), pod("b", index=0), pod("c", index=7))) != []
    twice = reviewed(indexed, pod("a", index=0), pod("b", index=0), pod("c", index=7))
    assert [each.metadata.name for each in job_review.surplus(indexed, twice)] == ["b", "c"]


@pytest.mark.parametrize(
    ("indexes", "text"), [(set(), ""), ({0}, "0"), ({0, 1}, "0,1"), ({0, 1, 2, 5}, "0-2,5"), ({3, 4}, "3,4")]
)
def test_indexes_are_listed_as_kubernetes_lists_them(indexes: set[int], text: str) -> None:
    assert job_review.written(indexes) == text


def test_an_index_is_tried_again_as_often_as_it_may_fail() -> None:
    indexed = job(completionMode="Indexed", backoffLimitPerIndex=1)
    first = pod("a", "Failed", index=0, annotations={job_review.FAILURES: "0"})
    found = reviewed(indexed, first, pod("b", index=1))
    assert (found.lost, list(found.kept)) == (set(), [0])
    body = job_review.body(indexed, 0, "abcde", found.kept[0])
    assert body["metadata"]["annotations"][job_review.FAILURES] == "1"
    second = pod("c", "Failed", index=0, annotations={job_review.FAILURES: "1"})
    assert reviewed(indexed, first, second, pod("b", index=1)).lost == {0}


def test_a_pod_of_an_indexed_job_knows_its_number() -> None:
    body = job_review.body(
        job(completionMode="Indexed", template={"spec": {"containers": [{"name": "a"}]}}), 3, "abcde"
    )
    assert body["metadata"]["name"] == "work-3-abcde"
    assert body["spec"]["hostname"] == "work-3"
    assert body["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"
    assert body["metadata"]["finalizers"] == [job_review.TRACKING]


def stateful_set(replicas: int = 3, **spec: Any) -> StatefulSet:
    about = {"name": "web", "namespace": "x", "uid": "s", "generation": 1}
    return msgspec.convert({"metadata": about, "spec": {"replicas": replicas, **spec}}, StatefulSet)


def steps(found: StatefulSet, *pods: Pod, current: str = "r1", update: str = "r1") -> tuple[list[int], list[str]]:
    plan = ordinals.decide(found, pods, current, update, NOW)
    return [ordinal for ordinal, _ in plan.make], [each.metadata.name for each in plan.delete]


ORDERED = [
    ("the first one", [], ([0], [])),
    ("the next once the first is ready", [pod("web-0", revision="r1")], ([1], [])),
    ("nothing while the first is not ready", [pod("web-0", ready=False, revision="r1")], ([], [])),
    ("one that ended is made again", [pod("web-0", "Failed", revision="r1")], ([], ["web-0"])),
    ("the last that is too many", [pod(f"web-{n}", revision="r1") for n in range(5)], ([], ["web-4"])),
]


@pytest.mark.parametrize(("title", "pods", "wanted"), ORDERED, ids=[each[0] for each in ORDERED])
def test_ordered_pods_come_and_go_one_at_a_time(title: str, pods: list[Pod], wanted: Any) -> None:
    assert steps(stateful_set(), *pods) == wanted, title


def test_unordered_pods_come_all_at_once() -> None:
    assert steps(stateful_set(podManagementPolicy="Parallel"), pod("web-1", ready=False)) == ([0, 2], [])


def test_an_update_goes_from_the_last_to_the_first_and_stops_at_the_partition() -> None:
    old = [pod(f"web-{n}", revision="r1") for n in range(3)]
    assert steps(stateful_set(), *old, update="r2") == ([], ["web-2"])
    half = [*old[:2], pod("web-2", ready=False, revision="r2")]
    assert steps(stateful_set(podManagementPolicy="Parallel"), *half, update="r2") == ([], [])
    kept = stateful_set(updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 2}})
    assert steps(kept, *old[:2], pod("web-2", revision="r2"), update="r2") == ([], [])
    assert ordinals.decide(kept, old[1:], "r1", "r2", NOW).make == [(0, False)], "below it the old template is made"


def node(name: str, **spec: Any) -> Node:
    return msgspec.convert({"metadata": {"name": name, "labels": {"zone": name}}, "spec": spec}, Node)


def daemon_set(**spec: Any) -> DaemonSet:
    about = {"name": "agent", "namespace": "x", "uid": "d"}
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}
    return msgspec.convert({"metadata": about, "spec": {"updateStrategy": rolling, **spec}}, DaemonSet)


def on(name: str, where: str, **more: Any) -> Pod:
    return pod(name, nodeName=where, **more)


def test_each_node_that_fits_gets_one_pod() -> None:
    tainted = node("t", taints=[{"key": "k", "effect": "NoSchedule"}])
    evicting = node("e", taints=[{"key": "k", "effect": "NoExecute"}])
    cordoned = node("c", unschedulable=True)
    there = [on("twice", "a", revision="r"), on("stays", "t"), on("goes", "e"), on("stray", "gone")]
    plan = daemon_sets.decide(
        daemon_set(), [node("a"), node("b"), tainted, evicting, cordoned], [on("first", "a", revision="r"), *there],
        "r", NOW,
    )  # fmt: skip
    assert plan.make == ["b", "c"]
    assert {each.metadata.name for each in plan.delete} == {"twice", "goes", "stray"}


def test_pods_of_nodes_are_replaced_within_the_limit() -> None:
    nodes = [node(name) for name in "abc"]
    old = [on(f"old-{name}", name, revision="r1") for name in "abc"]
    plan = daemon_sets.decide(daemon_set(), nodes, old, "r2", NOW)
    assert [each.metadata.name for each in plan.delete] == ["old-a"]
    ill = [on("old-a", "a", revision="r1", ready=False), *old[1:]]
    plan = daemon_sets.decide(daemon_set(), nodes, ill, "r2", NOW)
    assert [each.metadata.name for each in plan.delete] == ["old-a"], "the one that is missing anyhow, and no other"


def cron_job(schedule: str, last: datetime | None = None, **spec: Any) -> CronJob:
    about = {"name": "tick", "namespace": "x", "uid": "c", "creationTimestamp": "2026-01-01T00:00:00Z"}
    status = {"lastScheduleTime": last.isoformat()} if last else {}
    return msgspec.convert({"metadata": about, "spec": {"schedule": schedule, **spec}, "status": status}, CronJob)


def test_a_cron_job_is_due_for_the_last_time_that_it_missed() -> None:
    found = cron_jobs.due(cron_job("0 * * * *", NOW - timedelta(hours=3)), NOW)
    assert found.last == datetime(2026, 1, 2, 3, tzinfo=UTC)
    assert (found.following, found.missed) == (datetime(2026, 1, 2, 4, tzinfo=UTC), 3)
    assert cron_jobs.due(cron_job("0 * * * *", NOW, startingDeadlineSeconds=10), NOW).last is None
    many = cron_jobs.due(cron_job("* * * * *"), NOW)
    assert (many.last, many.missed > 100) == (datetime(2026, 1, 2, 3, 4, tzinfo=UTC), True)


def test_the_job_of_a_time_has_one_name() -> None:
    made = cron_jobs.job_of(cron_job("0 * * * *", timeZone="Europe/Berlin"), datetime(2026, 1, 2, 3, tzinfo=UTC))
    assert made["metadata"]["name"] == f"tick-{int(datetime(2026, 1, 2, 3, tzinfo=UTC).timestamp()) // 60}"
    assert made["metadata"]["annotations"][cron_jobs.SCHEDULED] == "2026-01-02T04:00:00+01:00"


BUDGETS = [
    ({"minAvailable": 2}, None, (1, 3, 2, 3)),
    ({"minAvailable": "50%"}, 4, (1, 3, 2, 4)),
    ({"maxUnavailable": 1}, 3, (1, 3, 2, 3)),
    ({"maxUnavailable": 1}, 5, (0, 3, 4, 5)),
    ({}, None, (3, 3, 0, 3)),
]


@pytest.mark.parametrize(("spec", "scale", "wanted"), BUDGETS)
def test_a_budget_allows_what_is_above_the_limit(spec: Any, scale: int | None, wanted: tuple[int, ...]) -> None:
    about = {"name": "limit", "namespace": "x"}
    found = msgspec.convert({"metadata": about, "spec": spec}, PodDisruptionBudget)
    said = budgets.status(found, [pod(name) for name in "abc"], scale, NOW)
    assert (said.disruptions_allowed, said.current_healthy, said.desired_healthy, said.expected_pods) == wanted


def test_a_revision_holds_a_template_with_its_fields_in_order_as_programs_in_go_compare_it() -> None:
    template = {"spec": {"volumes": [{"name": "v", "emptyDir": {}}], "containers": []}, "metadata": {"labels": {}}}
    held = data_of(template)
    text = (
        '{"spec":{"template":{"$patch":"replace","metadata":{"labels":{}},'
        '"spec":{"containers":[],"volumes":[{"emptyDir":{},"name":"v"}]}}}}'
    )
    assert msgspec.json.encode(held).decode() == text
    about = {"name": "one", "namespace": "x"}
    assert template_of(msgspec.convert({"metadata": about, "data": held}, ControllerRevision)) == template
