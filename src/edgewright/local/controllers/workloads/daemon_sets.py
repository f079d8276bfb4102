"""Keeps one Pod of each DaemonSet on every Node that fits it, and replaces them when the template changes.

`decide` and `status` are pure. Which Node a Pod is for is said in its affinity, and the
scheduler places it there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from edgewright.local.builtin.daemonset import TEMPLATE_GENERATION
from edgewright.local.controllers.node_fit import fits
from edgewright.local.controllers.resources import Node, Pod, PodSpec
from edgewright.local.controllers.workloads import pods as podwork
from edgewright.local.controllers.workloads import readiness, revisions
from edgewright.local.controllers.workloads.kinds import DaemonSet, DaemonSetStatus
from edgewright.local.controllers.workloads.loop import Loop, refusal
from edgewright.runtime import DONE, Clock, Key, Manager, Maps, Owns, RawObject, Result
from edgewright.runtime.errors import ApiError

GENERATION: Final = "pod-template-generation"
_TOLERATED: Final = (
    *((f"node.kubernetes.io/{name}", "NoExecute") for name in ("not-ready", "unreachable")),
    *(
        (f"node.kubernetes.io/{name}", "NoSchedule")
        for name in ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
    ),
)


@dataclass
class Plan:
    """The names of Nodes that get a Pod, and the Pods that go."""

    make: list[str] = field(default_factory=list)
    delete: list[Pod] = field(default_factory=list)


def node_of(pod: Pod) -> str:
    """The Node that a Pod is on, or is meant for."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    for term in required.node_selector_terms if required else ():
        for each in term.match_fields:
            if each.key == "metadata.name" and len(each.values) == 1:
                return each.values[0]
    return ""


def spec_of(found: DaemonSet, node: str = "") -> RawObject:
    """The spec of a Pod: with what every Pod of a DaemonSet tolerates, and the Node that it is for."""
    spec = {**(found.spec.template.get("spec") or {})}
    tolerated = list(_TOLERATED)
    if spec.get("hostNetwork"):
        tolerated.append(("node.kubernetes.io/network-unavailable", "NoSchedule"))
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in tolerated]
    spec["tolerations"] = [*(spec.get("tolerations") or ()), *added]
    if node:
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        affinity = {**(spec.get("affinity") or {})}
        wanted = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
        affinity["nodeAffinity"] = {**(affinity.get("nodeAffinity") or {}), **wanted}
        spec["affinity"] = affinity
    return spec


def decide(found: DaemonSet, nodes: Iterable[Node], pods: Sequence[Pod], update: str, now: datetime) -> Plan:
    """What leads to one Pod on every Node that fits, of the template as it is; `update` is the hash of that."""
    plan, wants = Plan(), msgspec.convert(spec_of(found), PodSpec)
    by_node = _by_node(pods)
    strategy = found.spec.update_strategy
    wanted_nodes: dict[str, list[Pod]] = {}
    for node in nodes:
        name = node.metadata.name
        there = by_node.pop(name, [])
        alive = [pod for pod in there if readiness.is_active(pod)]
        ended = [pod for pod in there if readiness.has_ended(pod) and not pod.deleting]
        runs, stays = fits(wants, node)
        if not runs:
            plan.delete += [] if stays else [pod for pod in there if not pod.deleting]
            continue
        plan.delete += ended
        wanted_nodes[name] = alive
        if not there:
            plan.make.append(name)
    for strays in by_node.values():
        plan.delete += [pod for pod in strays if not pod.deleting]
    surge = readiness.resolved(strategy.rolling_update.max_surge, len(wanted_nodes), up=True)
    if strategy.type == "RollingUpdate" and surge:
        _surge(found, wanted_nodes, update, plan, surge=surge, now=now)
    else:
        _thin_out(wanted_nodes, plan)
        if strategy.type == "RollingUpdate":
            _roll(found, wanted_nodes, update, plan, now)
    return plan


def _by_node(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    found: dict[str, list[Pod]] = {}
    for pod in sorted(pods, key=_age):
        found.setdefault(node_of(pod), []).append(pod)
    return found


def _age(pod: Pod) -> tuple[float, str]:
    created = pod.metadata.creation_timestamp
    return created.timestamp() if created else 0.0, pod.metadata.name


def _thin_out(wanted: Mapping[str, list[Pod]], plan: Plan) -> None:
    """Of several Pods on a Node the oldest stays."""
    for alive in wanted.values():
        plan.delete += alive[1:]
        del alive[1:]


def _is_available(found: DaemonSet, pod: Pod, now: datetime) -> bool:
    return readiness.is_available(pod, found.spec.min_ready_seconds, now)


def _is_new(pod: Pod, update: str) -> bool:
    return pod.metadata.labels.get(revisions.POD_HASH) == update


def _roll(found: DaemonSet, wanted: Mapping[str, list[Pod]], update: str, plan: Plan, now: datetime) -> None:
    """Deletes Pods of an old template, as many as may be missing; those that are missing anyhow first."""
    most = readiness.resolved(found.spec.update_strategy.rolling_update.max_unavailable, len(wanted), up=True)
    room = max(most, 1)
    candidates = []
    for alive in wanted.values():
        pod = alive[0] if alive else None
        if pod is None or not _is_available(found, pod, now):
            room -= 1
            if pod is not None and not _is_new(pod, update):
                plan.delete.append(pod)
        elif not _is_new(pod, update):
            candidates.append(pod)
    plan.delete += candidates[: max(0, room)]


def _surge(
    found: DaemonSet, wanted: Mapping[str, list[Pod]], update: str, plan: Plan, *, surge: int, now: datetime
) -> None:
    """Makes Pods of the new template next to old ones, which go once the new ones are available."""
    under_way, more = 0, []
    for node, alive in wanted.items():
        new = [pod for pod in alive if _is_new(pod, update)]
        old = [pod for pod in alive if not _is_new(pod, update)]
        if new and old:
            if any(_is_available(found, pod, now) for pod in new):
                plan.delete += old
            else:
                under_way += 1
        elif old and not _is_available(found, old[0], now):
            plan.delete += old  # nothing is lost with it
        elif old:
            more.append(node)
    plan.make += more[: max(0, surge - under_way)]


def status(found: DaemonSet, nodes: Iterable[Node], pods: Sequence[Pod], update: str, now: datetime) -> DaemonSetStatus:
    """What a DaemonSet says of its Pods."""
    by_node, wants = _by_node(pods), msgspec.convert(spec_of(found), PodSpec)
    counts: Counter[str] = Counter()
    for node in nodes:
        alive = by_node.get(node.metadata.name, [])
        runs, _ = fits(wants, node)
        if not runs:
            counts["number_misscheduled"] += bool(alive)
            continue
        ready = [pod for pod in alive if pod.ready and not pod.deleting]
        available = any(_is_available(found, pod, now) for pod in ready)
        counts["desired_number_scheduled"] += 1
        counts["current_number_scheduled"] += bool(alive)
        counts["updated_number_scheduled"] += any(_is_new(pod, update) for pod in alive)
        counts["number_ready"] += bool(ready)
        counts["number_available"] += available
        counts["number_unavailable"] += not available
    generation, collisions = found.metadata.generation, found.status.collision_count
    return DaemonSetStatus(observed_generation=generation, collision_count=collisions, **counts)


def _matters(change: Any) -> bool:
    """Whether a change of a Node can change which Pods it gets: its heartbeats cannot."""
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    return bool((old.spec, old.metadata.labels, old.deleting) != (new.spec, new.metadata.labels, new.deleting))


class DaemonSets(Loop):
    """The loop over DaemonSets."""

    component = "daemonset-controller"

    def __init__(self, manager: Manager, clock: Clock) -> None:
        super().__init__(manager, clock)
        self._nodes = manager.cache(Node)
        self._history = revisions.History(manager, label=revisions.POD_HASH)
        self._work = podwork.PodWork(manager, DaemonSet, self.recorder, clock)
        self._sets = self._work.owners.cache
        manager.controller(
            "daemonsets",
            self._reconcile,
            *self._work.sources(),
            Owns(self._history.revisions.cache),
            Maps(self._nodes, lambda _: [each.key for each in self._sets], when=_matters),
            workers=2,
        )

    async def _reconcile(self, key: Key) -> Result:
        found = self._sets.get(key)
        if found is None or found.deleting:
            return DONE
        update = await self._history.current(found)
        if update is None:
            return DONE
        pods = await self._work.claim(found)
        nodes, now = sorted(self._nodes, key=lambda node: node.metadata.name), self._clock.now()
        error: ApiError | None = None
        value = update.metadata.labels.get(revisions.POD_HASH, "")
        if self._work.settled(found):
            error = await refusal(self._carry_out(found, decide(found, nodes, pods, value, now), value))
        await self._client.of(DaemonSet).write_status(found, status(found, nodes, pods, value, now))
        if error is not None:
            raise error
        used = {pod.metadata.labels.get(revisions.POD_HASH, "") for pod in pods} | {value}
        names = {f"{found.metadata.name}-{each}" for each in used}
        await self._history.forget(found, found.spec.revision_history_limit, names)
        return readiness.next_pass(pods, found.spec.min_ready_seconds, now)

    async def _carry_out(self, found: DaemonSet, plan: Plan, update: str) -> None:
        generation = found.metadata.annotations.get(TEMPLATE_GENERATION, "0")
        labels = {**found.spec.labels, GENERATION: generation, revisions.POD_HASH: update}
        about = {**found.spec.about, "labels": labels}
        await self._work.delete(found, plan.delete)
        bodies = [podwork.generated(found, {"metadata": about, "spec": spec_of(found, node)}) for node in plan.make]
        await self._work.make(found, bodies)
