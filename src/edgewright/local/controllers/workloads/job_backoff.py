"""How long a Job waits before it tries again what failed: counted from the end of the Pod, as Kubernetes counts it.

Pure functions for `jobs`. The wait doubles with every failure in a row, and a success ends the row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from edgewright.local.controllers.resources import Pod
from edgewright.runtime.backoff import delay
from edgewright.runtime.conditions import find

FIRST_DELAY: Final = 10.0
MAX_DELAY: Final = 600.0


@dataclass(frozen=True)
class Failures:
    """How many Pods failed one after the other, and when the last one ended."""

    count: int = 0
    last: float = 0.0

    def left(self, now: float) -> float:
        """For how many seconds nothing new is tried."""
        return max(0.0, self.last + delay(self.count, base=FIRST_DELAY, cap=MAX_DELAY) - now) if self.count else 0.0


def counted(before: Failures, succeeded: Iterable[Pod], failed: Iterable[Pod]) -> Failures:
    """The row after more Pods have ended: what failed before the last success does not count any more."""
    failures, successes = [finished_at(pod) for pod in failed], [finished_at(pod) for pod in succeeded]
    if successes:
        before, failures = Failures(), [each for each in failures if each > max(successes)]
    return Failures(before.count + len(failures), max(failures)) if failures else before


def finished_at(pod: Pod) -> float:
    """When a Pod ended, in seconds since 1970.

    By its containers where all have ended, else by its Ready condition, else by its deletion, else by its creation.
    """
    return next((each.timestamp() for each in (_of_containers(pod), _unready(pod), _deleted(pod)) if each), _made(pod))


def _of_containers(pod: Pod) -> datetime | None:
    states = [each.state.terminated for each in pod.status.container_statuses]
    ends = [each.finished_at for each in states if each is not None and each.finished_at is not None]
    return max(ends) if ends and len(ends) == len(states) else None


def _unready(pod: Pod) -> datetime | None:
    said = find(pod.status.conditions, "Ready")
    return said.last_transition_time if said is not None and said.status == "False" else None


def _deleted(pod: Pod) -> datetime | None:
    if pod.metadata.deletion_timestamp is None:
        return None
    return pod.metadata.deletion_timestamp - timedelta(seconds=pod.spec.termination_grace_period_seconds or 0)


def _made(pod: Pod) -> float:
    return 0.0 if pod.metadata.creation_timestamp is None else pod.metadata.creation_timestamp.timestamp()
