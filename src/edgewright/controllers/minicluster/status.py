"""What is said of a mini-cluster: the status of a Flux or a MiniCluster, from what was decided for it.

`loop` writes it where it is another than before. Pure: the time is passed in.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from edgewright.api.flux import Flux, FluxPhase, FluxStatus
from edgewright.api.job import Job
from edgewright.api.minicluster import MiniCluster, MiniClusterStatus
from edgewright.controllers.minicluster.model import Cluster, IndexedCluster, Problem
from edgewright.controllers.minicluster.plan import Plan
from edgewright.runtime.conditions import Outcome, condition, set_condition, stuck, with_outcome
from edgewright.runtime.objects import Condition

WORKERS_READY: Final = "WorkersReady"
"""The condition of a Flux that says whether all workers are ready."""
PODS_READY: Final = "PodsReady"
"""The condition of a MiniCluster that says whether all Pods are ready."""
FINISHED: Final = "Finished"
"""The condition that says whether the command has ended."""
BAD: Final = frozenset(
    {
        "ApplyFailed",
        "CommandFailed",
        "DeadlineExceeded",
        "JobFailed",
        "LauncherFailed",
        "LauncherNotReady",
        "NameTaken",
        "PodsNotReady",
        "WorkersNotReady",
    }
)
"""The reasons that are told as warnings; what is Stalled is, too."""


def status_of(
    asked: Flux | MiniCluster, cluster: Cluster, plan: Plan, outcome: Outcome, *, job: Job | None, now: datetime
) -> FluxStatus | MiniClusterStatus:
    """The status after a pass whose outcome is that of the plan, or what went wrong in carrying it out."""
    conditions = _with(asked, outcome, (_all_ready(cluster, plan), _finished(plan, outcome)), now)
    generation = asked.metadata.generation
    if isinstance(asked, Flux):
        return FluxStatus(
            phase=plan.phase,
            message=outcome.message,
            workers=f"{plan.ready}/{cluster.size}",
            exit_code=plan.exit_code,
            completion_time=plan.ended,
            conditions=conditions,
            observed_generation=generation,
        )
    assert isinstance(cluster, IndexedCluster)  # noqa: S101 - so the conversion has it
    return MiniClusterStatus(
        phase=plan.phase,
        message=outcome.message,
        pods=f"{plan.ready}/{cluster.pods}",
        exit_code=plan.exit_code,
        start_time=job.status.start_time if job is not None and not job.deleting else None,
        completion_time=plan.ended,
        size=cluster.pods,
        maximum_size=cluster.max_size,
        selector=f"hpa-selector={cluster.name}",
        jobid=cluster.job if job is not None else "",
        conditions=conditions,
        observed_generation=generation,
    )


def refused(asked: Flux | MiniCluster, problem: Problem, *, now: datetime) -> FluxStatus | MiniClusterStatus:
    """The status of what cannot be made."""
    conditions = _with(asked, stuck(problem.reason, problem.text), (), now)
    generation = asked.metadata.generation
    if isinstance(asked, Flux):
        return FluxStatus(
            phase=FluxPhase.FAILED, message=problem.text, conditions=conditions, observed_generation=generation
        )
    return MiniClusterStatus(
        phase=FluxPhase.FAILED, message=problem.text, conditions=conditions, observed_generation=generation
    )


def _with(
    asked: Flux | MiniCluster, outcome: Outcome, more: tuple[Condition, ...], now: datetime
) -> tuple[Condition, ...]:
    generation = asked.metadata.generation
    conditions = with_outcome(asked.status.conditions, outcome, generation=generation, now=now)
    for each in more:
        conditions = set_condition(conditions, msgspec.structs.replace(each, observed_generation=generation), now=now)
    return conditions


def _all_ready(cluster: Cluster, plan: Plan) -> Condition:
    indexed = isinstance(cluster, IndexedCluster)
    type_, what = (PODS_READY, "Pods") if indexed else (WORKERS_READY, "workers")
    count = f"{plan.ready}/{cluster.pods if isinstance(cluster, IndexedCluster) else cluster.size} {what} are ready"
    if plan.workers_ready:
        return condition(type_, "True", "AllReady", count)
    if _has_ended(plan):
        return condition(type_, "False", "Ended" if indexed else "ScaledToZero", "the command has ended")
    return condition(type_, "False", "NotReady", count)


def _finished(plan: Plan, outcome: Outcome) -> Condition:
    if _has_ended(plan):
        return condition(FINISHED, "True", outcome.reason, outcome.message)
    return condition(FINISHED, "False", "NotFinished", "the command has not ended")


def _has_ended(plan: Plan) -> bool:
    return plan.phase in {FluxPhase.SUCCEEDED, FluxPhase.FAILED}
