"""Keeps as many Pods as each ReplicaSet wants, and says how many there are.

`add` registers the controller; `decide` and `status` are pure. Pods that match its selector and belong to nobody are
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
from edgewright.runtime import (
    DONE,
    Clock,
    Condition,
    For,
    Key,
    Manager,
    Maps,
    Owns,
    Recorder,
    Result,
    requeue_after,
)
from edgewright.runtime.errors import ApiError
from edgewright.runtime.predicates import anything

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
    labels = (found.spec.template.get("metadata") or {}).get("labels") or {}
    known = next((each for each in found.status.conditions if each.type == _FAILURE), None)
    if failure is not None and known is not None and known.status == failure.status and known.reason == failure.reason:
        failure = known
    others = tuple(each for each in found.status.conditions if each.type != _FAILURE)
    return ReplicaSetStatus(
        replicas=len(active),
        fully_labeled_replicas=sum(labels.items() <= pod.metadata.labels.items() for pod in active),
        ready_replicas=sum(pod.ready for pod in active),
        available_replicas=sum(readiness.available_in(pod, found.spec.min_ready_seconds, now) == 0.0 for pod in active),
        terminating_replicas=sum(map(readiness.is_terminating, pods)),
        observed_generation=found.metadata.generation,
        conditions=others if failure is None else (*others, failure),
    )


def add(manager: Manager, *, clock: Clock) -> Recorder:
    """Registers the controller; what is returned sends its Events."""
    recorder = Recorder(manager.client, "replicaset-controller", clock=clock)
    _ReplicaSets(manager, recorder, clock).add()
    return recorder


class _ReplicaSets:
    def __init__(self, manager: Manager, recorder: Recorder, clock: Clock) -> None:
        self._manager = manager
        self._clock = clock
        self._sets = manager.cache(ReplicaSet)
        self._sets.add_index("namespace", lambda found: (found.metadata.namespace,))
        self._sets.add_index(podwork.BY_OWNER, _owner_uids)
        self._work = podwork.PodWork(manager, recorder, clock)

    def add(self) -> None:
        self._manager.controller(
            "replicasets",
            self._reconcile,
            For(self._sets, when=anything),
            Owns(self._work.pods),
            Maps(self._work.pods, self._adopters),
            workers=4,
        )

    def _adopters(self, pod: Pod) -> Iterable[Key]:
        if podwork.controller_of(pod) is not None:
            return ()
        found = self._sets.by("namespace", pod.metadata.namespace)
        return [each.key for each in found if each.spec.selector.selects(pod.metadata.labels)]

    async def _reconcile(self, key: Key) -> Result:
        found = self._sets.get(key)
        if found is None:
            return DONE
        pods = await self._work.claim(found, found.spec.selector, lambda: self._sets.fetch(key))
        failure: Condition | None = None
        error: ApiError | None = None
        if not found.deleting and self._work.settled(found):
            plan = decide(found.spec.replicas, [pod for pod in pods if readiness.is_active(pod)], self._related(found))
            try:
                await self._carry_out(found, plan)
            except ApiError as refused:
                error = refused
                failure = self._failure("FailedCreate" if plan.make else "FailedDelete", str(refused))
        now = self._clock.now()
        wanted = status(found, pods, failure, now)
        if wanted != found.status:
            await self._manager.client.of(ReplicaSet).write_status(found, wanted)
        if error is not None:
            raise error
        wait = readiness.soonest(pods, found.spec.min_ready_seconds, now)
        return DONE if wait is None else requeue_after(wait)

    async def _carry_out(self, found: ReplicaSet, plan: Plan) -> None:
        bodies = []
        for _ in range(plan.make):
            name, prefix = self._work.generated_name(found)
            bodies.append(podwork.made_of(found, found.spec.template, name, generateName=prefix))
        await self._work.make(found, bodies)
        await self._work.delete(found, plan.delete)

    def _related(self, found: ReplicaSet) -> list[Pod]:
        """The Pods of all ReplicaSets with the same owner."""
        owner = podwork.controller_of(found)
        if owner is None:
            return []
        return [pod for each in self._sets.by(podwork.BY_OWNER, owner.uid) for pod in self._work.of(each)]

    def _failure(self, reason: str, message: str) -> Condition:
        now = self._clock.now().replace(microsecond=0)
        return Condition(type=_FAILURE, status="True", reason=reason, message=message, last_transition_time=now)


def _owner_uids(found: ReplicaSet) -> Iterable[str]:
    owner = podwork.controller_of(found)
    return (owner.uid,) if owner else ()
