"""Keeps as many Pods as each ReplicaSet wants, and says how many there are.

`decide` and `status` are pure. Pods that match its selector and belong to nobody are
adopted, and those that match no longer are let go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from edgewright.local.controllers.resources import Pod
from edgewright.local.controllers.workloads import pods as podwork
from edgewright.local.controllers.workloads import readiness
from edgewright.local.controllers.workloads.kinds import ReplicaSet, ReplicaSetStatus
from edgewright.local.controllers.workloads.loop import Loop, refusal
from edgewright.runtime import DONE, Clock, Condition, Key, Manager, Result
from edgewright.runtime.conditions import find, remove
from edgewright.runtime.errors import ApiError

BURST = 500
"""How many Pods are made or deleted in one pass."""
_FAILURE = "ReplicaFailure"


@dataclass(frozen=True)
class Plan:
    """How many Pods are to be made, and which are to go."""

    make: int = 0
    delete: tuple[Pod, ...] = ()


def decide(wanted: int, active: Sequence[Pod], related: Iterable[Pod] = ()) -> Plan:
    """What leads from the Pods that there are to as many as are wanted."""
    missing = wanted - len(active)
    if missing > 0:
        return Plan(make=min(missing, BURST))
    return Plan(delete=tuple(readiness.spared(active, min(-missing, BURST), related)) if missing else ())


def status(found: ReplicaSet, pods: Sequence[Pod], failure: Condition | None, now: datetime) -> ReplicaSetStatus:
    """What a ReplicaSet says of its Pods; `failure` is why a pass could not do what it should."""
    active = [pod for pod in pods if readiness.is_active(pod)]
    labels = found.spec.labels
    known = find(found.status.conditions, _FAILURE)
    if failure is not None and known is not None and known.status == failure.status and known.reason == failure.reason:
        failure = known
    others = remove(found.status.conditions, _FAILURE)
    return ReplicaSetStatus(
        replicas=len(active),
        fully_labeled_replicas=sum(labels.items() <= pod.metadata.labels.items() for pod in active),
        ready_replicas=sum(pod.ready for pod in active),
        available_replicas=sum(readiness.is_available(pod, found.spec.min_ready_seconds, now) for pod in active),
        terminating_replicas=sum(map(readiness.is_terminating, pods)),
        observed_generation=found.metadata.generation,
        conditions=others if failure is None else (*others, failure),
    )


class ReplicaSets(Loop):
    """The loop over ReplicaSets."""

    component = "replicaset-controller"

    def __init__(self, manager: Manager, clock: Clock) -> None:
        super().__init__(manager, clock)
        self._work = podwork.PodWork(manager, ReplicaSet, self.recorder, clock)
        self._sets = self._work.owners
        manager.controller("replicasets", self._reconcile, *self._work.sources(), workers=4)

    async def _reconcile(self, key: Key) -> Result:
        found = self._sets.cache.get(key)
        if found is None:
            return DONE
        pods = await self._work.claim(found)
        failure: Condition | None = None
        error: ApiError | None = None
        if not found.deleting and self._work.settled(found):
            plan = decide(found.spec.replicas, [pod for pod in pods if readiness.is_active(pod)], self._related(found))
            error = await refusal(self._carry_out(found, plan))
            if error is not None:
                failure = self._failure("FailedCreate" if plan.make else "FailedDelete", str(error))
        now = self._clock.now()
        await self._client.of(ReplicaSet).write_status(found, status(found, pods, failure, now))
        if error is not None:
            raise error
        return readiness.next_pass(pods, found.spec.min_ready_seconds, now)

    async def _carry_out(self, found: ReplicaSet, plan: Plan) -> None:
        await self._work.make(found, [podwork.generated(found, found.spec.template) for _ in range(plan.make)])
        await self._work.delete(found, plan.delete)

    def _related(self, found: ReplicaSet) -> list[Pod]:
        """The Pods of all ReplicaSets with the same owner."""
        siblings = [] if found.controller is None else self._sets.by_uid(found.controller.uid)
        return [pod for each in siblings for pod in self._work.of(each)]

    def _failure(self, reason: str, message: str) -> Condition:
        now = self._clock.now().replace(microsecond=0)
        return Condition(type=_FAILURE, status="True", reason=reason, message=message, last_transition_time=now)
