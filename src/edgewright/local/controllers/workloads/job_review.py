"""What a Job's Pods add up to: who runs, who has ended and is not counted yet, whether the Job is to end, and how.

`jobs` asks `review` in every pass, and then which Pods are `missing` and which are `surplus`. Pure; Pods are counted
once, by a finalizer that goes when they have been counted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from typing import Final

from edgewright.local.builtin.jobpolicies import BadIndexes, read_indexes
from edgewright.local.controllers.resources import ContainerStatus, Pod
from edgewright.local.controllers.workloads import names, readiness
from edgewright.local.controllers.workloads.kinds import Job, UncountedPods
from edgewright.local.controllers.workloads.pods import made_of
from edgewright.runtime import Condition, RawObject

TRACKING: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
IGNORED: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
FAILURE_TARGET, SUCCESS_CRITERIA = "FailureTarget", "SuccessCriteriaMet"
BURST: Final = 500
"""How many Pods are made or deleted in one pass."""


@dataclass
class Review:
    """What there is to know of a Job's Pods."""

    active: list[Pod] = field(default_factory=list)
    terminating: int = 0
    succeeded: list[Pod] = field(default_factory=list)
    """Pods that ended well and still have their finalizer."""
    failed: list[Pod] = field(default_factory=list)
    """Pods that failed, or count as failed, and still have their finalizer."""
    ignored: list[Pod] = field(default_factory=list)
    """Pods whose failure does not count; their finalizer goes all the same."""
    kept: dict[int, Pod] = field(default_factory=dict)
    """The last failed Pod of each index that is to be tried again: it goes when its successor is there."""
    done: set[int] = field(default_factory=set)
    """Indexes that are done."""
    lost: set[int] = field(default_factory=set)
    """Indexes that failed too often."""
    total_succeeded: int = 0
    total_failed: int = 0
    end: tuple[str, str, str] | None = None
    """The condition with which the end begins: its type, reason and message."""

    @property
    def ready(self) -> int:
        """How many Pods are ready."""
        return sum(pod.ready for pod in self.active)


def review(job: Job, pods: Sequence[Pod], released: Collection[str], now: datetime) -> Review:
    """Looks at all Pods of a Job; `released` are the uids of Pods whose finalizer has gone, whatever the cache says."""
    found = Review(active=[pod for pod in pods if readiness.is_active(pod)])
    found.terminating = sum(map(readiness.is_terminating, pods))
    held = [pod for pod in pods if TRACKING in pod.metadata.finalizers and pod.metadata.uid not in released]
    if is_indexed(job):
        found.done, found.lost = _indexes(job, job.status.completed_indexes), _indexes(job, job.status.failed_indexes)
    before = job.status.uncounted_terminated_pods or UncountedPods()
    for pod in held:
        _sort_in(job, pod, found)
    if is_indexed(job):
        found.done |= {index for index in map(index_of, found.succeeded) if index is not None}
        found.total_succeeded = len(found.done)
    else:
        found.total_succeeded = job.status.succeeded + len({*before.succeeded, *uids(found.succeeded)})
    if job.spec.backoff_limit_per_index is not None:
        _count_by_index(job, found)
    found.total_failed = job.status.failed + len({*before.failed, *uids(found.failed)}) + len(found.kept)
    found.end = _end(job, found, held, now)
    if found.end is not None and found.end[0] == FAILURE_TARGET:
        _give_up(found, held)
    elif found.end is not None or job.deleting:
        found.ignored += [pod for pod in held if pod.deleting and readiness.is_terminating(pod)]
        found.failed += found.kept.values()
        found.kept.clear()
    return found


def is_indexed(job: Job) -> bool:
    """Whether each Pod has a number."""
    return job.spec.completion_mode == "Indexed"


def index_of(pod: Pod) -> int | None:
    """The number of a Pod."""
    return _noted(pod, INDEX)


def failures_of(pod: Pod) -> int:
    """How often the index of a Pod had failed before it."""
    return _noted(pod, FAILURES) or 0


def ignored_of(pod: Pod) -> int:
    """How often the index of a Pod had failed before it in a way that does not count."""
    return _noted(pod, IGNORED) or 0


def _noted(pod: Pod, name: str) -> int | None:
    said = pod.metadata.annotations.get(name, "")
    return int(said) if said.isdecimal() else None


def tries_of(pod: Pod) -> int:
    """How often the index of a Pod that failed has been tried, with those that do not count."""
    return 1 + failures_of(pod) + ignored_of(pod)


def written(indexes: Collection[int]) -> str:
    """Indexes as a status lists them: `0,2-4`."""
    parts: list[str] = []
    for _, neighbours in groupby(enumerate(sorted(indexes)), key=lambda each: each[1] - each[0]):
        run = [index for _, index in neighbours]
        parts += [f"{run[0]}-{run[-1]}"] if len(run) > 2 else map(str, run)
    return ",".join(parts)


def action(job: Job, pod: Pod) -> tuple[str, str]:
    """What the rules about failures do with a failed Pod (empty: it counts), and why."""
    for number, rule in enumerate((job.spec.pod_failure_policy or {}).get("rules") or ()):
        why = _by_code(rule.get("onExitCodes"), pod) or _by_condition(rule.get("onPodConditions") or (), pod)
        if why:
            return rule["action"], f"{why} matching {rule['action']} rule at index {number}"
    return "", ""


def _sort_in(job: Job, pod: Pod, found: Review) -> None:
    index = index_of(pod) if is_indexed(job) else None
    if is_indexed(job) and (index is None or index >= (job.spec.completions or 0)):
        if not readiness.is_active(pod):
            found.ignored.append(pod)  # of an index that is not wanted any more
    elif pod.status.phase == "Succeeded":
        found.succeeded.append(pod)
    elif pod.status.phase == "Failed" or (pod.deleting and job.spec.pod_replacement_policy != "Failed"):
        does, _ = action(job, pod) if pod.status.phase == "Failed" else ("", "")
        (found.ignored if does == "Ignore" else found.failed).append(pod)


def _count_by_index(job: Job, found: Review) -> None:
    """Finds the indexes that failed too often, and keeps the last failed Pod of those that are tried again."""
    running = {index_of(pod): pod for pod in found.active}
    latest: dict[int, Pod] = {}
    for pod in found.failed:
        index = index_of(pod)
        if index is not None and (index not in latest or failures_of(pod) >= failures_of(latest[index])):
            latest[index] = pod
    for index, pod in latest.items():
        if index in found.done or index in found.lost:
            continue
        does, _ = action(job, pod) if pod.status.phase == "Failed" else ("", "")
        if does == "FailIndex" or failures_of(pod) >= (job.spec.backoff_limit_per_index or 0):
            found.lost.add(index)
        elif index not in running or failures_of(running[index]) <= failures_of(pod):
            found.kept[index] = pod
            found.failed.remove(pod)


def _give_up(found: Review, held: Iterable[Pod]) -> None:
    """A Job that fails counts all its Pods that have not ended as failed."""
    known = {*uids(found.succeeded), *uids(found.failed), *uids(found.ignored)}
    found.failed += [pod for pod in held if pod.metadata.uid not in known]
    found.kept.clear()


def _end(job: Job, found: Review, held: Iterable[Pod], now: datetime) -> tuple[str, str, str] | None:
    for type_ in (SUCCESS_CRITERIA, FAILURE_TARGET):
        if (known := job.condition(type_)) is not None:
            return type_, known.reason, known.message
    return _failure(job, found, held, now) or _success(job, found)


def _failure(job: Job, found: Review, held: Iterable[Pod], now: datetime) -> tuple[str, str, str] | None:
    for pod in held:
        if pod.status.phase == "Failed":
            does, why = action(job, pod)
            if does == "FailJob":
                return FAILURE_TARGET, "PodFailurePolicy", why
    spec = job.spec
    if found.total_failed > spec.backoff_limit or _restarted_too_often(job, found.active):
        return FAILURE_TARGET, "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    if (left := seconds_left(job, now)) is not None and left <= 0:
        return FAILURE_TARGET, "DeadlineExceeded", "Job was active longer than specified deadline"
    if spec.max_failed_indexes is not None and len(found.lost) > spec.max_failed_indexes:
        why = "Job has exceeded the specified maximal number of failed indexes"
        return FAILURE_TARGET, "MaxFailedIndexesExceeded", why
    if found.lost and len(found.lost) + len(found.done) >= (spec.completions or 0):
        return FAILURE_TARGET, "FailedIndexes", "Job has failed indexes"
    return None


def _success(job: Job, found: Review) -> tuple[str, str, str] | None:
    for number, rule in enumerate((job.spec.success_policy or {}).get("rules") or ()):
        listed = rule.get("succeededIndexes")
        counted = found.done & _indexes(job, listed) if listed is not None else found.done
        enough = rule.get("succeededCount")
        if enough is None:
            enough = len(_indexes(job, listed))
        if len(counted) >= enough:
            return SUCCESS_CRITERIA, "SuccessPolicy", f"Matched rules at index {number}"
    if job.spec.completions is None:
        complete = found.total_succeeded > 0 and not found.active
    else:
        complete = found.total_succeeded >= job.spec.completions and not found.active
    # While it is suspended a Job without anything to do still is complete.
    if complete:
        return SUCCESS_CRITERIA, "CompletionsReached", "Reached expected number of succeeded pods"
    return None


def seconds_left(job: Job, now: datetime) -> float | None:
    """How long a Job may go on; None where there is no end to it."""
    if job.spec.active_deadline_seconds is None or job.status.start_time is None or job.spec.suspend:
        return None
    return (job.status.start_time + timedelta(seconds=job.spec.active_deadline_seconds) - now).total_seconds()


def _restarted_too_often(job: Job, active: Iterable[Pod]) -> bool:
    if (job.spec.template.get("spec") or {}).get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        each.restart_count
        for pod in active
        for each in (*pod.status.container_statuses, *pod.status.init_container_statuses)
    )
    return restarts > 0 if not job.spec.backoff_limit else restarts >= job.spec.backoff_limit


def _by_code(codes: RawObject | None, pod: Pod) -> str:
    if codes is None:
        return ""
    for each in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        code = _exit_code(each)
        if code and codes.get("containerName") in (None, each.name):
            listed = code in codes["values"]
            if listed == (codes["operator"] == "In"):
                where = f"{pod.metadata.namespace}/{pod.metadata.name}"
                return f"Container {each.name} for pod {where} failed with exit code {code}"
    return ""


def _exit_code(each: ContainerStatus) -> int:
    return each.state.terminated.exit_code if each.state.terminated else 0


def _by_condition(patterns: Iterable[RawObject], pod: Pod) -> str:
    known: dict[str, Condition] = {each.type: each for each in pod.status.conditions}
    for pattern in patterns:
        has = known.get(pattern["type"])
        if has is not None and has.status == pattern.get("status", "True"):
            return f"Pod {pod.metadata.namespace}/{pod.metadata.name} has condition {pattern['type']}"
    return ""


def _indexes(job: Job, text: str | None) -> set[int]:
    try:
        # There may be more than the Job has now: it may have become smaller since.
        return {index for index in read_indexes(text or "", 2**31) if index < (job.spec.completions or 0)}
    except BadIndexes:
        return set()


def uids(pods: Iterable[Pod]) -> list[str]:
    """Who they are."""
    return [pod.metadata.uid for pod in pods]


def wanted_active(job: Job, found: Review) -> int:
    """How many Pods should run now."""
    if job.spec.suspend:
        return 0
    if job.spec.completions is None:
        return len(found.active) if found.total_succeeded else job.spec.parallelism
    open_ = job.spec.completions - found.total_succeeded - len(found.lost)
    return max(0, min(open_, job.spec.parallelism))


def surplus(job: Job, found: Review) -> list[Pod]:
    """The Pods that run and should not: of an index twice, of an index that is done or not wanted, or too many."""
    extra: list[Pod] = []
    rest = found.active
    if is_indexed(job):
        seen: set[int] = set()
        rest = []
        ordered = sorted(found.active, key=lambda pod: (not pod.ready, pod.metadata.name))
        for pod in ordered:
            index = index_of(pod)
            bad = index is None or index >= (job.spec.completions or 0) or index in found.done | found.lost
            if bad or index in seen:
                extra.append(pod)
            else:
                rest.append(pod)
                seen.add(index or 0)
    too_many = max(0, len(rest) - wanted_active(job, found))
    extra += readiness.spared(rest, too_many)
    return extra[:BURST]


def missing(job: Job, found: Review) -> Sequence[int | None]:
    """The indexes of the Pods that are to be made; None for each Pod of a Job without indexes."""
    busy = len(found.active) + (found.terminating if job.spec.pod_replacement_policy == "Failed" else 0)
    count = min(wanted_active(job, found) - busy, BURST)
    if count <= 0:
        return []
    if not is_indexed(job):
        return [None] * count
    taken = {index_of(pod) for pod in found.active} | found.done | found.lost
    return [index for index in range(job.spec.completions or 0) if index not in taken][:count]


def body(job: Job, index: int | None, suffix: str, before: Pod | None = None) -> RawObject:
    """The Pod of a Job; `before` is the failed Pod of the same index that it follows."""
    template = job.spec.template
    about = {**(template.get("metadata") or {})}
    about["finalizers"] = [*(about.get("finalizers") or ()), TRACKING]
    prefix = f"{job.metadata.name}-"
    spec = template.get("spec") or {}
    if index is not None:
        prefix = f"{job.metadata.name}-{index}-"
        about["labels"] = {**(about.get("labels") or {}), INDEX: str(index)}
        about["annotations"] = {**(about.get("annotations") or {}), INDEX: str(index), **_tries(job, before)}
        spec = {**spec, "hostname": f"{job.metadata.name}-{index}"}
        for part in ("initContainers", "containers"):
            if spec.get(part):
                spec[part] = [_with_index(each) for each in spec[part]]
    made = {"metadata": about, "spec": spec}
    return made_of(job, made, names.generated(prefix, suffix), generateName=prefix)


def _tries(job: Job, before: Pod | None) -> dict[str, str]:
    if job.spec.backoff_limit_per_index is None:
        return {}
    ignored, counted = (ignored_of(before), failures_of(before)) if before else (0, 0)
    if before is not None and action(job, before)[0] == "Ignore":
        ignored += 1
    elif before is not None:
        counted += 1
    return {FAILURES: str(counted), **({IGNORED: str(ignored)} if ignored else {})}


def _with_index(container: RawObject) -> RawObject:
    known = container.get("env") or []
    if any(each["name"] == "JOB_COMPLETION_INDEX" for each in known):
        return container
    path = f"metadata.labels['{INDEX}']"
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": path}}}
    return {**container, "env": [*known, variable]}
