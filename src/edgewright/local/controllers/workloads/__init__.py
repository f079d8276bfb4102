"""The controllers of the kinds that make Pods of a template: Deployment, ReplicaSet, StatefulSet, Job and others.

`add` registers them with the manager of all controllers. What each decides is a pure function in a module of its own;
`pods` carries it out.
"""

from __future__ import annotations

from edgewright.local.controllers.workloads import (
    budgets,
    cron_jobs,
    daemon_sets,
    deployments,
    jobs,
    replica_sets,
    stateful_sets,
)
from edgewright.runtime import Clock, Manager, Recorder

__all__ = ["add"]


def add(manager: Manager, *, clock: Clock) -> list[Recorder]:
    """Registers the controllers; what is returned sends their Events, and must run next to the manager."""
    kinds = (replica_sets, deployments, jobs, stateful_sets, daemon_sets, cron_jobs, budgets)
    return [each.add(manager, clock=clock) for each in kinds]
