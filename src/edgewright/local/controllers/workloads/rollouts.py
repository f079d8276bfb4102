"""What a Deployment does next with its ReplicaSets: pure decisions over structs.

`deployments` asks `decide` in every pass and carries the plan out. One ReplicaSet stands for the template as it is, the
others for older ones; a rollout moves Pods from these to that one, within the limits of the strategy.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from edgewright.local.controllers.workloads import names, rollout_status
from edgewright.local.controllers.workloads.dependents import reference
from edgewright.local.controllers.workloads.kinds import Deployment, DeploymentStatus, ReplicaSet, ReplicaSetSpec
from edgewright.runtime import ObjectMeta, RawObject

HASH: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED: Final = "deployment.kubernetes.io/desired-replicas"
MOST: Final = "deployment.kubernetes.io/max-replicas"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_OWN: Final = frozenset({_LAST_APPLIED, REVISION, HISTORY, DESIRED, MOST, "deprecated.deployment.rollback.to"})
_MAX_HISTORY: Final = 2000
_MAX_NAME: Final = 253


@dataclass
class Change:
    """A ReplicaSet that is to be changed: a merge patch, and how many Pods it is to have if that changes."""

    found: ReplicaSet
    patch: dict[str, Any]
    scaled_to: int | None = None


@dataclass
class Plan:
    """What is to be done for a Deployment."""

    create: RawObject | None = None
    changes: list[Change] = field(default_factory=list)
    delete: list[ReplicaSet] = field(default_factory=list)
    status: DeploymentStatus = field(default_factory=DeploymentStatus)
    revision: str = ""
    """What the Deployment says to be its revision; empty where that is not known."""
    requeue_after: float | None = None
    """In how many seconds progress must be looked at again."""


def decide(deployment: Deployment, sets: Sequence[ReplicaSet], *, old_pods: bool, now: datetime) -> Plan:
    """What to do; `old_pods` says whether a Pod of an older template has not ended yet."""
    new = current(deployment, sets)
    old = [each for each in sets if each is not new]
    if deployment.deleting:
        return Plan(status=rollout_status.counted(deployment, sets, new, now))
    rollout = _Rollout(deployment, new, old, now)
    if deployment.spec.paused or _is_scaled(deployment, sets):
        return rollout.scaled()
    if deployment.spec.strategy.type == "Recreate":
        return rollout.recreated(old_pods=old_pods)
    return rollout.rolled()


def current(deployment: Deployment, sets: Iterable[ReplicaSet]) -> ReplicaSet | None:
    """The ReplicaSet of the template as it is now: the oldest one, should there be several."""
    wanted = _without_hash(deployment.spec.template)
    found = [each for each in sets if _without_hash(each.spec.template) == wanted]
    return min(found, key=_age, default=None)


class _Rollout:
    """The decisions of one pass."""

    def __init__(self, deployment: Deployment, new: ReplicaSet | None, old: list[ReplicaSet], now: datetime) -> None:
        self.deployment = deployment
        self.new = new
        self.old = sorted(old, key=_age)
        self.now = now
        self.surge, self.missing = rollout_status.limits(deployment)
        self.plan = Plan()
        revision = max((_revision(each) for each in old), default=0) + 1
        if new is not None:
            self._agree(new, revision)
            self.plan.revision = str(max(revision, _revision(new)))

    @property
    def sets(self) -> list[ReplicaSet]:
        return self.old if self.new is None else [*self.old, self.new]

    @property
    def active_old(self) -> list[ReplicaSet]:
        return [each for each in self.old if each.spec.replicas > 0]

    def rolled(self) -> Plan:
        """The next step of a rolling update."""
        wanted = self.deployment.spec.replicas
        if self.new is None:
            return self._created(self._room(0))
        has = self.new.spec.replicas
        if has != wanted:
            self._scale(self.new, wanted if has > wanted else self._room(has))
        if not self._is_scaling():
            self._shrink_old()
        return self._finished()

    def recreated(self, *, old_pods: bool) -> Plan:
        """The next step of an update that ends all old Pods before it creates new ones."""
        for each in self.active_old:
            self._scale(each, 0)
        if self._is_scaling() or old_pods or any(each.status.replicas for each in self.old):
            return self._finished(clean=False)
        if self.new is None:
            return self._created(self.deployment.spec.replicas)
        self._scale(self.new, self.deployment.spec.replicas)
        return self._finished()

    def scaled(self) -> Plan:
        """More or fewer Pods, of all templates that have some in proportion, while nothing else goes on."""
        self._scale_proportionally()
        if self.deployment.spec.paused:
            self._clean()
        self.plan.status = rollout_status.paused(
            rollout_status.counted(self.deployment, self.sets, self.new, self.now), self.deployment, self.now
        )
        return self.plan

    def _created(self, replicas: int) -> Plan:
        spec = self.deployment.spec
        value = names.digest(spec.template, self.deployment.status.collision_count)
        labels = {**spec.labels, HASH: value}
        template = {**spec.template, "metadata": {**spec.about, "labels": labels}}
        selector = spec.selector.to_raw()
        selector["matchLabels"] = {**selector.get("matchLabels", {}), HASH: value}
        name = f"{self.deployment.metadata.name[: _MAX_NAME - len(value) - 1]}-{value}"
        revision = str(max((_revision(each) for each in self.old), default=0) + 1)
        annotations = {**_handed_on(self.deployment), REVISION: revision, **self._sizes()}
        self.plan.create = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": name,
                "namespace": self.deployment.metadata.namespace,
                "labels": labels,
                "annotations": annotations,
                "ownerReferences": [reference(self.deployment)],
            },
            "spec": {
                "replicas": replicas,
                "minReadySeconds": spec.min_ready_seconds,
                "selector": selector,
                "template": template,
            },
        }
        self.plan.revision = revision
        made = ReplicaSet(metadata=ObjectMeta(name=name), spec=ReplicaSetSpec(replicas=replicas))
        begun = rollout_status.begun(self.deployment, name, self.now)
        self.plan.status, self.plan.requeue_after = rollout_status.rolled(begun, [*self.old, made], made, self.now)
        return self.plan

    def _finished(self, *, clean: bool = True) -> Plan:
        if clean and not self._is_scaling() and rollout_status.complete(self.deployment, self.deployment.status):
            self._clean()
        deployment = self.deployment
        if self.new is not None:
            deployment = rollout_status.noticed(deployment, self.new.metadata.name, self.now)
        self.plan.status, self.plan.requeue_after = rollout_status.rolled(deployment, self.sets, self.new, self.now)
        return self.plan

    def _room(self, has: int) -> int:
        """How many Pods the new ReplicaSet may have, which has so many."""
        total, wanted = sum(each.spec.replicas for each in self.sets), self.deployment.spec.replicas
        if self.deployment.spec.strategy.type != "RollingUpdate":
            return wanted
        return has + max(0, min(wanted + self.surge - total, wanted - has))

    def _shrink_old(self) -> None:
        """Takes Pods from the old ReplicaSets: those that are not available first, then as many as can be spared."""
        active, new = self.active_old, self.new
        if not active or new is None:
            return
        least = self.deployment.spec.replicas - self.missing
        total = sum(each.spec.replicas for each in self.sets)
        spare = total - least - (new.spec.replicas - new.status.available_replicas)
        if spare <= 0:
            return
        sizes = {each.key: each.spec.replicas for each in active}
        for each in active:
            ill = min(spare, max(0, each.spec.replicas - each.status.available_replicas))
            sizes[each.key] -= ill
            spare -= ill
        more = sum(each.status.available_replicas for each in self.sets) - least
        for each in active:
            less = min(sizes[each.key], max(0, more))
            sizes[each.key] -= less
            more -= less
        for each in active:
            self._scale(each, sizes[each.key])

    def _scale_proportionally(self) -> None:
        wanted = self.deployment.spec.replicas
        active = [each for each in self.sets if each.spec.replicas > 0]
        if len(active) <= 1:
            found = active[0] if active else self.new or (self.old[-1] if self.old else None)
            if found is not None:
                self._scale(found, wanted)
            return
        if self._is_saturated():
            for each in self.active_old:
                self._scale(each, 0)
            return
        if self.deployment.spec.strategy.type != "RollingUpdate":
            return
        allowed = wanted + self.surge if wanted > 0 else 0
        for found, size in _shares(self.deployment, active, allowed, self.surge):
            self._scale(found, size, always=True)

    def _is_saturated(self) -> bool:
        """Whether the new ReplicaSet has all the Pods that are wanted, and all are available."""
        new, wanted = self.new, self.deployment.spec.replicas
        return (
            new is not None
            and new.metadata.annotations.get(DESIRED) == str(wanted)
            and new.spec.replicas == wanted == new.status.available_replicas
        )

    def _sizes(self) -> dict[str, str]:
        wanted = self.deployment.spec.replicas
        return {DESIRED: str(wanted), MOST: str(wanted + self.surge)}

    def _scale(self, found: ReplicaSet, replicas: int, *, always: bool = False) -> None:
        sizes = self._sizes()
        changed = found.spec.replicas != replicas
        if not changed and not (always and not sizes.items() <= found.metadata.annotations.items()):
            return
        change = self._change(found)
        change.patch.setdefault("metadata", {}).setdefault("annotations", {}).update(sizes)
        if changed:
            change.patch.setdefault("spec", {})["replicas"] = replicas
            change.scaled_to = replicas

    def _is_scaling(self) -> bool:
        return any(change.scaled_to is not None for change in self.plan.changes)

    def _change(self, found: ReplicaSet) -> Change:
        for change in self.plan.changes:
            if change.found is found:
                return change
        change = Change(found, {})
        self.plan.changes.append(change)
        return change

    def _agree(self, new: ReplicaSet, revision: int) -> None:
        """The new ReplicaSet has the annotations of the Deployment, the next revision, and its time to be ready."""
        has, wanted = new.metadata.annotations, _handed_on(self.deployment)
        before = _revision(new)
        if before < revision:
            wanted[REVISION] = str(revision)
            if REVISION in has:
                wanted[HISTORY] = _history(has.get(HISTORY, ""), has[REVISION])
        missing = {key: value for key, value in wanted.items() if has.get(key) != value}
        if missing:
            self._change(new).patch["metadata"] = {"annotations": missing}
        if new.spec.min_ready_seconds != self.deployment.spec.min_ready_seconds:
            self._change(new).patch["spec"] = {"minReadySeconds": self.deployment.spec.min_ready_seconds}

    def _clean(self) -> None:
        """Old ReplicaSets without Pods go, but for as many as are kept to go back to."""
        alive = sorted((each for each in self.old if not each.deleting), key=_revision)
        for each in alive[: max(0, len(alive) - self.deployment.spec.revision_history_limit)]:
            observed = each.status.observed_generation >= each.metadata.generation
            if observed and not each.status.replicas and not each.spec.replicas:
                self.plan.delete.append(each)


def _is_scaled(deployment: Deployment, sets: Iterable[ReplicaSet]) -> bool:
    """Whether the number of wanted Pods has changed since the ReplicaSets with Pods were last written."""
    said = (each.metadata.annotations.get(DESIRED, "") for each in sets if each.spec.replicas > 0)
    return any(each.isdecimal() and int(each) != deployment.spec.replicas for each in said)


def _shares(deployment: Deployment, active: list[ReplicaSet], allowed: int, surge: int) -> list[tuple[ReplicaSet, int]]:
    """How many Pods each is to have so that all have `allowed`; what does not come out even goes to the largest."""
    to_add = allowed - sum(each.spec.replicas for each in active)
    newest_first = to_add > 0
    ordered = sorted(active, key=_age, reverse=newest_first)
    ordered.sort(key=lambda each: -each.spec.replicas)
    sizes = {each.key: each.spec.replicas for each in ordered}
    added = 0
    for each in ordered:
        if to_add in (0, added):
            break
        fraction = _fraction(deployment, each, surge)
        part = min(fraction, to_add - added) if to_add > 0 else max(fraction, to_add - added)
        sizes[each.key] += part
        added += part
    largest = ordered[0]
    sizes[largest.key] = max(0, sizes[largest.key] + to_add - added)
    return [(each, sizes[each.key]) for each in ordered]


def _fraction(deployment: Deployment, found: ReplicaSet, surge: int) -> int:
    """How many more Pods a ReplicaSet would have if all grew or shrank alike."""
    replicas, wanted = found.spec.replicas, deployment.spec.replicas
    if not wanted:
        return -replicas
    said = found.metadata.annotations.get(MOST, "")
    before = int(said) if said.isdecimal() and int(said) else deployment.status.replicas
    return round(replicas * (wanted + surge) / before) - replicas if before else 0


def _without_hash(template: RawObject) -> RawObject:
    about = template.get("metadata") or {}
    labels = {key: value for key, value in (about.get("labels") or {}).items() if key != HASH}
    return {**template, "metadata": {**about, "labels": labels}}


def _handed_on(deployment: Deployment) -> dict[str, str]:
    return {key: value for key, value in deployment.metadata.annotations.items() if key not in _OWN}


def _revision(found: ReplicaSet) -> int:
    said = found.metadata.annotations.get(REVISION, "")
    return int(said) if said.isdecimal() else 0


def _history(before: str, revision: str) -> str:
    """The earlier revisions of a ReplicaSet, the oldest of them forgotten when there are many."""
    kept = [*filter(None, before.split(",")), revision]
    while len(",".join(kept)) > _MAX_HISTORY:
        kept.pop(0)
    return ",".join(kept)


def _age(found: ReplicaSet) -> tuple[Any, str]:
    created = found.metadata.creation_timestamp
    return created.timestamp() if created else 0.0, found.metadata.name
