"""The parts of a Job that we read: how large it is, whether it has ended, and how.

The mini-cluster controller creates Jobs from plain JSON, reads, scales and deletes them; what they run stays.
"""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from edgewright.runtime.objects import Condition, Kind, Resource, Struct


class JobSpec(Struct, frozen=True, kw_only=True):
    """How many Pods run, and how long they may."""

    completions: int | None = None
    parallelism: int | None = None
    active_deadline_seconds: int | None = None


class JobStatus(Struct, frozen=True, kw_only=True):
    """What the Job controller says."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0
    start_time: datetime | None = None
    conditions: tuple[Condition, ...] = ()


class Job(Resource, frozen=True, kw_only=True):
    """Pods that run to their end."""

    kind: ClassVar[Kind] = Kind(group="batch", version="v1", kind="Job", plural="jobs")

    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()

    @property
    def end(self) -> Condition | None:
        """The condition that says that it has ended: Complete or Failed; None while it has not."""
        for each in self.status.conditions:
            if each.type in {"Complete", "Failed"} and each.status == "True":
                return each
        return None
