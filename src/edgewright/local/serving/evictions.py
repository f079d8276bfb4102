"""Evicts Pods: deletes one that was asked for by an Eviction, unless a PodDisruptionBudget forbids it now.

`server` calls it for a POST to `pods/NAME/eviction`. What a budget allows is counted down before the Pod goes, so that
two evictions at the same time never take more than one budget allows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from edgewright.local import labelselector
from edgewright.local.access.authentication import User
from edgewright.local.errors import Refusal, bad_request, not_found
from edgewright.local.served import Served
from edgewright.local.serving import metadata, options
from edgewright.local.serving.deletes import Deletes
from edgewright.local.serving.objects import Objects
from edgewright.local.serving.write_request import WriteRequest
from edgewright.local.serving.writes import Writes
from edgewright.local.structs.rules import BuiltinRules
from edgewright.runtime.objects import RawObject

_BUDGETS: Final = "poddisruptionbudgets.policy"
_FREE: Final = ("Succeeded", "Failed", "Pending")
_TARGET, _ALLOWED = "DisruptionTarget", "DisruptionAllowed"


class _EvictionRules(BuiltinRules):
    definition = "io.k8s.api.policy.v1.Eviction"


class Evictions:
    """The evictions of all Pods."""

    def __init__(self, objects: Objects, writes: Writes, deletes: Deletes) -> None:
        self._objects = objects
        self._writes = writes
        self._deletes = deletes
        self._rules = _EvictionRules()

    async def evict(self, asked: WriteRequest, body: Any, query: Mapping[str, str], user: User) -> None:
        """Deletes a Pod, or says why it may not go."""
        eviction, _ = self._rules.decode(body if isinstance(body, dict) else {})
        if metadata.of(eviction).get("name", "") != asked.name:
            raise bad_request("name in URL does not match name in Eviction object")
        how = options.delete_options(query, eviction.get("deleteOptions"))
        pod = self._pod(asked)
        if pod["status"].get("phase") not in _FREE and "deletionTimestamp" not in pod["metadata"]:
            await self._count_down(asked, pod, dry_run=how.dry_run)
        if not how.dry_run:
            await self._mark(asked)
        await self._deletes.delete(asked.served, asked.namespace, asked.name, how, user=user)

    def _pod(self, asked: WriteRequest) -> RawObject:
        stored = self._objects.get(asked.served, asked.namespace, asked.name)
        if stored is None:
            raise not_found(asked.served.kind, asked.name)
        return self._objects.read(asked.served, stored)

    async def _count_down(self, asked: WriteRequest, pod: RawObject, *, dry_run: bool) -> None:
        served = self._objects.kinds.stored_as(_BUDGETS)
        if served is None:
            return
        budgets = [
            each
            for each in self._objects.write("create").every(_BUDGETS)
            if each["metadata"].get("namespace") == asked.namespace
            and labelselector.selects(each["spec"].get("selector"), pod["metadata"].get("labels") or {})
        ]
        if not budgets:
            return
        if len(budgets) > 1:
            why = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            raise Refusal(500, "InternalError", why)
        budget, status = budgets[0], budgets[0].get("status") or {}
        if not _is_ready(pod) and _lets_unhealthy_go(budget, status):
            return
        if dry_run:
            _taken(budget, pod, self._objects)
            return
        name = budget["metadata"]["name"]
        await self._writes.change(_of(asked, served, name), lambda found: _taken(found, pod, self._objects), verb="act")

    async def _mark(self, asked: WriteRequest) -> None:
        """Says on the Pod why it goes."""
        words = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting", "lastProbeTime": None}

        def marked(pod: RawObject) -> RawObject:
            status = pod["status"]
            others = [each for each in status.get("conditions") or () if each["type"] != _TARGET]
            status["conditions"] = [*others, _condition(_TARGET, "True", self._objects, **words)]
            return pod

        await self._writes.change(asked, marked, verb="act")


def _condition(type_: str, status: str, objects: Objects, **more: Any) -> RawObject:
    return {"type": type_, "status": status, "lastTransitionTime": metadata.timestamp(objects.now), **more}


def _of(asked: WriteRequest, served: Served, name: str) -> WriteRequest:
    return dataclasses.replace(asked, served=served, name=name, subresource="status")


def _is_ready(pod: RawObject) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _lets_unhealthy_go(budget: RawObject, status: RawObject) -> bool:
    """Whether a Pod that is not ready may go without being counted."""
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    desired = status.get("desiredHealthy") or 0
    return 0 < desired <= (status.get("currentHealthy") or 0)


def _taken(budget: RawObject, pod: RawObject, objects: Objects) -> RawObject:
    """The budget with one Pod less to give, or a refusal."""
    name, status = budget["metadata"]["name"], dict(budget.get("status") or {})
    observed, generation = status.get("observedGeneration") or 0, budget["metadata"].get("generation", 0)
    if observed < generation:
        raise _too_many(f"The disruption budget {name} is still being processed by the server.", again_in=10)
    disrupted = status.get("disruptedPods") or {}
    if not status.get("disruptionsAllowed"):
        healthy, desired = status.get("currentHealthy") or 0, status.get("desiredHealthy") or 0
        why = "does not allow evicting pods currently"
        if healthy <= desired:
            why = f"needs {desired} healthy pods and has {healthy} currently"
        raise _too_many(f"The disruption budget {name} {why}")
    status["disruptionsAllowed"] -= 1
    status["disruptedPods"] = {**disrupted, pod["metadata"]["name"]: metadata.timestamp(objects.now)}
    if not status["disruptionsAllowed"]:
        status["conditions"] = _insufficient(status.get("conditions") or [], observed, objects)
    budget["status"] = status
    return budget


def _insufficient(conditions: list[RawObject], generation: int, objects: Objects) -> list[RawObject]:
    words = {"reason": "InsufficientPods", "message": "", "observedGeneration": generation}
    said = _condition(_ALLOWED, "False", objects, **words)
    if not any(each["type"] == _ALLOWED for each in conditions):
        return [*conditions, said]
    return [said if each["type"] == _ALLOWED else each for each in conditions]


def _too_many(why: str, *, again_in: int = 0) -> Refusal:
    details: RawObject = {"causes": [{"reason": "DisruptionBudget", "message": why}]}
    if again_in:
        details["retryAfterSeconds"] = again_in
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return Refusal(429, "TooManyRequests", message, details)
