"""Says for each PodDisruptionBudget how many of its Pods evictions may take now.

`status` is pure. An eviction itself is decided by the API server, which counts down
what is allowed and notes the Pod; here it is counted again once the Pod is going.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from edgewright.local.controllers.resources import Pod
from edgewright.local.controllers.workloads import readiness
from edgewright.local.controllers.workloads.dependents import Indexed
from edgewright.local.controllers.workloads.kinds import (
    BudgetStatus,
    Deployment,
    PodDisruptionBudget,
    ReplicaSet,
    StatefulSet,
)
from edgewright.local.controllers.workloads.loop import Loop
from edgewright.runtime import DONE, Clock, Condition, For, Key, Manager, Maps, Result, requeue_after
from edgewright.runtime.conditions import set_condition
from edgewright.runtime.predicates import anything

_PATIENCE: Final = timedelta(minutes=2)
"""How long a Pod that was evicted may take to be seen going."""
_ALLOWED: Final = "DisruptionAllowed"


def status(found: PodDisruptionBudget, pods: Sequence[Pod], scale: int | None, now: datetime) -> BudgetStatus:
    """What is allowed; `scale` is how many Pods their owners want, None where they do not say."""
    names = {pod.metadata.name for pod in pods if not pod.deleting}
    noted = found.status.disrupted_pods.items()
    disrupted = {name: since for name, since in noted if name in names and since + _PATIENCE > now}
    alive = [pod for pod in pods if not readiness.has_ended(pod)]
    healthy = sum(pod.ready and not pod.deleting and pod.metadata.name not in disrupted for pod in alive)
    expected, desired = _wanted(found, len(alive), scale)
    allowed = max(0, healthy - desired) if expected > 0 else 0
    return BudgetStatus(
        observed_generation=found.metadata.generation,
        disrupted_pods=disrupted,
        disruptions_allowed=allowed,
        current_healthy=healthy,
        desired_healthy=desired,
        expected_pods=expected,
        conditions=_told(found, allowed, now),
    )


def _wanted(found: PodDisruptionBudget, pods: int, scale: int | None) -> tuple[int, int]:
    """How many Pods are expected, and how many of them must be healthy."""
    least, most = found.spec.min_available, found.spec.max_unavailable
    expected = pods if scale is None else scale
    if most is not None:
        return expected, max(0, expected - readiness.resolved(most, expected, up=True))
    if isinstance(least, str):
        return expected, readiness.resolved(least, expected, up=True)
    return pods, least or 0


def _told(found: PodDisruptionBudget, allowed: int, now: datetime) -> tuple[Condition, ...]:
    value, reason = ("True", "SufficientPods") if allowed else ("False", "InsufficientPods")
    new = Condition(type=_ALLOWED, status=value, reason=reason, observed_generation=found.metadata.generation)
    return set_condition(found.status.conditions, new, now=now)


class Budgets(Loop):
    """The loop over PodDisruptionBudgets."""

    component = "controllermanager"

    def __init__(self, manager: Manager, clock: Clock) -> None:
        super().__init__(manager, clock)
        self._budgets = Indexed(manager, PodDisruptionBudget)
        self._pods = Indexed(manager, Pod)
        self._sets = manager.cache(ReplicaSet)
        self._deployments = manager.cache(Deployment)
        self._stateful_sets = manager.cache(StatefulSet)
        sources = For(self._budgets.cache, when=anything), Maps(self._pods.cache, self._of)
        manager.controller("poddisruptionbudgets", self._reconcile, *sources)

    def _of(self, pod: Pod) -> Iterable[Key]:
        return [each.key for each in self._budgets.within(pod.metadata.namespace) if _selects(each, pod)]

    async def _reconcile(self, key: Key) -> Result:
        found = self._budgets.cache.get(key)
        if found is None:
            return DONE
        pods = [pod for pod in self._pods.within(key.namespace) if _selects(found, pod)]
        now = self._clock.now()
        wanted = status(found, pods, self._scale(pods), now)
        await self._client.of(PodDisruptionBudget).write_status(found, wanted)
        if not wanted.disrupted_pods:
            return DONE
        first = min(wanted.disrupted_pods.values())
        return requeue_after(max(0.0, (first + _PATIENCE - now).total_seconds()))

    def _scale(self, pods: Iterable[Pod]) -> int | None:
        """How many Pods the owners of these want in all; None where one of them has no number."""
        wanted: dict[str, int] = {}
        for pod in pods:
            owner = pod.controller
            key = Key(pod.metadata.namespace, owner.name if owner else "")
            found: Deployment | ReplicaSet | StatefulSet | None = None
            if owner is not None and owner.kind == "ReplicaSet":
                found = self._sets.get(key)
                above = found.controller if found else None
                if above is not None and above.kind == "Deployment":
                    found = self._deployments.get(Key(pod.metadata.namespace, above.name))
            elif owner is not None and owner.kind == "StatefulSet":
                found = self._stateful_sets.get(key)
            if found is None:
                return None
            wanted[found.metadata.uid] = found.spec.replicas
        return sum(wanted.values()) if wanted else None


def _selects(found: PodDisruptionBudget, pod: Pod) -> bool:
    selector = found.spec.selector
    if selector is None:
        return False
    empty = not selector.match_labels and not selector.match_expressions
    return empty or selector.selects(pod.metadata.labels)
