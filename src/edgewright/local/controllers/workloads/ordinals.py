"""Which Pods of a StatefulSet are made and deleted next: pure decisions about Pods that have a number and an order.

`stateful_sets` asks `decide`. With the policy OrderedReady one Pod is made or deleted at a time and only while those
before it are ready; with Parallel all at once. An update replaces Pods from the last to the first, one at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from edgewright.local.controllers.resources import Pod
from edgewright.local.controllers.workloads import readiness
from edgewright.local.controllers.workloads.kinds import StatefulSet, StatefulSetStatus
from edgewright.local.controllers.workloads.pods import made_of
from edgewright.local.controllers.workloads.revisions import POD_HASH
from edgewright.runtime import RawObject

POD_NAME, POD_INDEX = "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"


@dataclass
class Plan:
    """What is to be done: ordinals to make with whether they get the new template, and Pods to delete."""

    make: list[tuple[int, bool]] = field(default_factory=list)
    delete: list[Pod] = field(default_factory=list)
    condemned: list[Pod] = field(default_factory=list)
    """Those of the deleted that have no successor."""


def ordinal_of(found: StatefulSet, pod: Pod) -> int | None:
    """The number of a Pod; None for one that is none of the set's."""
    prefix, _, said = pod.metadata.name.rpartition("-")
    return int(said) if prefix == found.metadata.name and said.isdecimal() and str(int(said)) == said else None


def decide(found: StatefulSet, pods: Sequence[Pod], current: str, update: str, now: datetime) -> Plan:
    """The next step; `current` and `update` are the names of the revisions from which and to which an update goes."""
    first, count = found.spec.ordinals.start, found.spec.replicas
    by_ordinal = {ordinal_of(found, pod): pod for pod in pods}
    wanted = range(first, first + count)
    plan = Plan()
    ordered = found.spec.pod_management_policy != "Parallel"
    for ordinal in wanted:
        pod = by_ordinal.get(ordinal)
        if pod is None:
            plan.make.append((ordinal, _gets_new(found, ordinal, current, update)))
        elif readiness.has_ended(pod) and not pod.deleting:
            plan.delete.append(pod)
        elif not ordered or _is_healthy(found, pod, now):
            continue
        if ordered:
            return plan
    unwanted = sorted((each for each in by_ordinal if each is not None and each not in wanted), reverse=True)
    condemned = [by_ordinal[ordinal] for ordinal in unwanted]
    _condemn(found, condemned, plan, ordered=ordered, now=now)
    if plan.make or plan.delete or (ordered and condemned) or found.spec.update_strategy.type == "OnDelete":
        return plan
    _update(found, [by_ordinal[ordinal] for ordinal in wanted if ordinal in by_ordinal], update, plan, now)
    return plan


def _condemn(found: StatefulSet, pods: list[Pod], plan: Plan, *, ordered: bool, now: datetime) -> None:
    unhealthy = [pod for pod in pods if not _is_healthy(found, pod, now)]
    for pod in pods:
        if pod.deleting:
            if ordered:
                return
            continue
        if ordered and unhealthy and pod is not unhealthy[-1] and not _is_healthy(found, pod, now):
            return
        plan.delete.append(pod)
        plan.condemned.append(pod)
        if ordered:
            return


def _update(found: StatefulSet, pods: list[Pod], update: str, plan: Plan, now: datetime) -> None:
    least = found.spec.ordinals.start + found.spec.update_strategy.rolling_update.partition
    for pod in reversed(pods):
        if (ordinal_of(found, pod) or 0) < least:
            return
        if pod.metadata.labels.get(POD_HASH) != update and not pod.deleting:
            plan.delete.append(pod)
            return
        if not _is_healthy(found, pod, now):
            return


def _gets_new(found: StatefulSet, ordinal: int, current: str, update: str) -> bool:
    if current == update or found.spec.update_strategy.type != "RollingUpdate":
        return True
    return ordinal >= found.spec.ordinals.start + found.spec.update_strategy.rolling_update.partition


def _is_healthy(found: StatefulSet, pod: Pod, now: datetime) -> bool:
    available = readiness.is_available(pod, found.spec.min_ready_seconds, now)
    return pod.status.phase == "Running" and available and not pod.deleting


def status(found: StatefulSet, pods: Iterable[Pod], current: str, update: str, now: datetime) -> StatefulSetStatus:
    """What a StatefulSet says of its Pods; an update that is over makes the new revision the current one."""
    there = list(pods)
    running = [pod for pod in there if pod.status.phase == "Running" and pod.ready]
    alive = [pod for pod in there if not pod.deleting]
    counted = {name: sum(pod.metadata.labels.get(POD_HASH) == name for pod in alive) for name in (current, update)}
    ready, wanted = len(running), found.spec.replicas
    if (
        found.spec.update_strategy.type == "RollingUpdate"
        and counted[update] == wanted == ready == len(there)
        and current != update
    ):
        current = update
    return StatefulSetStatus(
        observed_generation=found.metadata.generation,
        replicas=len(there),
        ready_replicas=ready,
        available_replicas=sum(readiness.is_available(pod, found.spec.min_ready_seconds, now) for pod in running),
        current_replicas=counted[current],
        updated_replicas=counted[update],
        current_revision=current,
        update_revision=update,
        collision_count=found.status.collision_count or 0,
    )


def claims_of(found: StatefulSet, ordinal: int) -> list[RawObject]:
    """The claims of the Pod with this number."""
    made = []
    for template in found.spec.volume_claim_templates:
        about = template.get("metadata") or {}
        labels = {**(about.get("labels") or {}), **found.spec.selector.match_labels}
        wanted = {
            "name": f"{about.get('name', '')}-{found.metadata.name}-{ordinal}",
            "namespace": found.metadata.namespace,
            "labels": labels,
            **({"annotations": about["annotations"]} if about.get("annotations") else {}),
        }
        spec = template.get("spec") or {}
        made.append({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": wanted, "spec": spec})
    return made


def body(found: StatefulSet, template: dict[str, Any], ordinal: int, revision: str) -> RawObject:
    """The Pod with this number, of a template."""
    name = f"{found.metadata.name}-{ordinal}"
    about = template.get("metadata") or {}
    labels = {**(about.get("labels") or {}), POD_NAME: name, POD_INDEX: str(ordinal), POD_HASH: revision}
    spec = {**(template.get("spec") or {}), "hostname": name, "subdomain": found.spec.service_name}
    claims = {
        (each.get("metadata") or {}).get("name", ""): claim["metadata"]["name"]
        for each, claim in zip(found.spec.volume_claim_templates, claims_of(found, ordinal), strict=True)
    }
    if claims:
        kept = [volume for volume in spec.get("volumes") or () if volume["name"] not in claims]
        mine = [{"name": volume, "persistentVolumeClaim": {"claimName": claim}} for volume, claim in claims.items()]
        spec["volumes"] = mine + kept
    made = {"metadata": {**about, "labels": labels}, "spec": spec}
    return made_of(found, made, name, generateName=f"{found.metadata.name}-")
