"""The controllers of the kinds that make Pods of a template: Deployment, ReplicaSet, StatefulSet, Job and others.

`add` registers them with the manager of all controllers. What each decides is a pure function in a module of its own;
`pods` carries it out.
"""

from __future__ import annotations

from edgewright.local.controllers.workloads.budgets import Budgets
from edgewright.local.controllers.workloads.cron_jobs import CronJobs
from edgewright.local.controllers.workloads.daemon_sets import DaemonSets
from edgewright.local.controllers.workloads.deployments import Deployments
from edgewright.local.controllers.workloads.jobs import Jobs
from edgewright.local.controllers.workloads.replica_sets import ReplicaSets
from edgewright.local.controllers.workloads.stateful_sets import StatefulSets
from edgewright.runtime import Clock, Manager, Recorder

__all__ = ["add"]


def add(manager: Manager, *, clock: Clock) -> list[Recorder]:
    """Registers the controllers; what is returned sends their Events, and must run next to the manager."""
    kinds = (ReplicaSets, Deployments, Jobs, StatefulSets, DaemonSets, CronJobs, Budgets)
    return [kind(manager, clock).recorder for kind in kinds]
