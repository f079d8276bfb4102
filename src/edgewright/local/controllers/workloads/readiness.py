"""Whether Pods run, are ready and have been so for long enough, and which of several can be spared: pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from edgewright.local.controllers.resources import Pod
from edgewright.runtime import DONE, Result, requeue_after
from edgewright.runtime.conditions import find

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_ENDED = frozenset({"Succeeded", "Failed"})
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def has_ended(pod: Pod) -> bool:
    """Whether nothing of it runs any more, or ever will."""
    return pod.status.phase in _ENDED


def is_active(pod: Pod) -> bool:
    """Whether it has neither ended nor is it to go."""
    return not has_ended(pod) and not pod.deleting


def is_terminating(pod: Pod) -> bool:
    """Whether it is to go and has not ended yet."""
    return not has_ended(pod) and pod.deleting


def ready_since(pod: Pod) -> datetime | None:
    """Since when a Pod is ready; None for one that is not, or does not say."""
    said = find(pod.status.conditions, "Ready")
    return said.last_transition_time if said is not None and pod.ready else None


def available_in(pod: Pod, min_ready_seconds: int, now: datetime) -> float | None:
    """In how many seconds the Pod counts as available (0: it does); None for one that is not ready."""
    if not pod.ready:
        return None
    if not min_ready_seconds:
        return 0.0
    since = ready_since(pod)
    if since is None:
        return None
    return max(0.0, (since + timedelta(seconds=min_ready_seconds) - now).total_seconds())


def next_pass(pods: Iterable[Pod], min_ready_seconds: int, now: datetime) -> Result:
    """A pass that is done, and comes again when the next of these Pods becomes available."""
    waits = (available_in(pod, min_ready_seconds, now) for pod in pods)
    wait = min((wait for wait in waits if wait), default=None)
    return DONE if wait is None else requeue_after(wait)


def is_available(pod: Pod, min_ready_seconds: int, now: datetime) -> bool:
    """Whether it has been ready for as long as it must be."""
    return available_in(pod, min_ready_seconds, now) == 0.0


def spared(pods: Sequence[Pod], count: int, related: Iterable[Pod] = ()) -> list[Pod]:
    """Those that go first: not placed, not running, not ready, cheap, crowded on a Node, young, often restarted.

    `related` are all Pods of the same owner's owner, by which crowded Nodes are known.
    """
    crowd = Counter(pod.spec.node_name for pod in related if is_active(pod))
    return sorted(pods, key=lambda pod: _worth(pod, crowd))[:count]


def _worth(pod: Pod, crowd: Counter[str]) -> tuple[Any, ...]:
    ready, created = ready_since(pod), pod.metadata.creation_timestamp
    restarts = sum(each.restart_count for each in pod.status.container_statuses)
    return (
        bool(pod.spec.node_name),
        _PHASES.get(pod.status.phase, 1),
        pod.ready,
        _cost(pod),
        -crowd[pod.spec.node_name],
        -ready.timestamp() if ready else 0,
        -restarts,
        -created.timestamp() if created else 0,
    )


def _cost(pod: Pod) -> int:
    try:
        return int(pod.metadata.annotations.get(DELETION_COST, "0"))
    except ValueError:
        return 0


def resolved(value: int | str, total: int, *, up: bool) -> int:
    """How many Pods a number or a share of them is."""
    if isinstance(value, int):
        return value
    share = int(value.removesuffix("%")) * total
    return -(-share // 100) if up else share // 100
