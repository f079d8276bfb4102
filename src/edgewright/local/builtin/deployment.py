"""The rules of Deployments and ReplicaSets, which keep a number of equal Pods."""

from __future__ import annotations

from typing import Any

from edgewright.local.builtin import checks, workloads
from edgewright.local.field_errors import forbidden, invalid, unsupported
from edgewright.local.served import ScalePaths, Write
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject

SCALE = ScalePaths(
    spec_replicas=("spec", "replicas"), status_replicas=("status", "replicas"), selector=("spec", "selector")
)
"""Where the kinds with replicas keep them."""
_QUARTER = "25%"
_STRATEGIES = ("Recreate", "RollingUpdate")


class DeploymentRules(workloads.WorkloadRules):
    """What is special about Deployments."""

    definition = "io.k8s.api.apps.v1.Deployment"
    counts_of_pods = ("updatedReplicas", "readyReplicas", "availableReplicas")
    counts = (
        *("observedGeneration", "replicas", "unavailableReplicas", "terminatingReplicas", "collisionCount"),
        *counts_of_pods,
    )

    def default(self, obj: RawObject) -> None:
        """One Pod, replaced a quarter at a time, with ten revisions and ten minutes for progress."""
        super().default(obj)
        spec = obj["spec"]
        strategy = spec["strategy"]
        workloads.fill(strategy, {"type": "RollingUpdate"})
        if strategy["type"] == "RollingUpdate":
            workloads.fill(strategy, {"rollingUpdate": {}})
            workloads.fill(strategy["rollingUpdate"], {"maxUnavailable": _QUARTER, "maxSurge": _QUARTER})
        workloads.fill(spec, {"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})

    def prepare_update(self, obj: RawObject, old: RawObject, write: Write) -> None:
        """A write of the status leaves the labels as they are."""
        super().prepare_update(obj, old, write)
        if write.subresource == "status":
            keep_labels(obj, old)

    def desired(self, obj: RawObject) -> RawObject:
        """The annotations count, too: they are handed on to ReplicaSets."""
        return {**super().desired(obj), "annotations": obj["metadata"].get("annotations") or {}}

    def unowned(self, subresource: str) -> tuple[tuple[str, ...], ...]:
        """A write of the status owns no labels."""
        return (*super().unowned(subresource), *((("metadata", "labels"),) if subresource == "status" else ()))

    def spec_faults(self, obj: RawObject, old: RawObject | None) -> list[Cause]:
        """The selector must find the template's Pods and never changes; a rollout must be able to get somewhere."""
        spec = obj["spec"]
        causes = checks.not_negative("spec.replicas", spec["replicas"])
        causes += _of_template(spec)
        causes += _strategy_faults(spec["strategy"])
        causes += checks.not_negative("spec.minReadySeconds", spec.get("minReadySeconds", 0))
        causes += checks.not_negative("spec.revisionHistoryLimit", spec["revisionHistoryLimit"])
        deadline = spec["progressDeadlineSeconds"]
        causes += checks.not_negative("spec.progressDeadlineSeconds", deadline)
        if deadline <= spec.get("minReadySeconds", 0):
            causes.append(invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
        return causes


class ReplicaSetRules(workloads.WorkloadRules):
    """What is special about ReplicaSets."""

    definition = "io.k8s.api.apps.v1.ReplicaSet"
    counts_of_pods = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    counts = ("replicas", *counts_of_pods, "observedGeneration", "terminatingReplicas")

    def default(self, obj: RawObject) -> None:
        """One Pod."""
        super().default(obj)
        workloads.fill(obj["spec"], {"replicas": 1})

    def spec_faults(self, obj: RawObject, old: RawObject | None) -> list[Cause]:
        """The selector must find the template's Pods and never changes."""
        spec = obj["spec"]
        causes = checks.not_negative("spec.replicas", spec["replicas"])
        causes += checks.not_negative("spec.minReadySeconds", spec.get("minReadySeconds", 0))
        return causes + _of_template(spec)


def keep_labels(obj: RawObject, old: RawObject) -> None:
    """Leaves the labels as they were."""
    obj["metadata"].pop("labels", None)
    if labels := old["metadata"].get("labels"):
        obj["metadata"]["labels"] = labels


def _of_template(spec: RawObject) -> list[Cause]:
    causes = workloads.selector_faults(spec, "deployment")
    selected = workloads.unselected(spec, invalid_selector="invalid label selector")
    if any(cause.field == "spec.selector" for cause in selected):
        return causes + selected
    causes += selected
    causes += workloads.template_faults(spec["template"], "spec.template")
    return causes + workloads.always_restarted(spec["template"], "spec.template", "ReplicaSet")


def _strategy_faults(strategy: RawObject) -> list[Cause]:
    rolling: Any = strategy.get("rollingUpdate")
    path = "spec.strategy.rollingUpdate"
    if strategy["type"] not in _STRATEGIES:
        return [unsupported("spec.strategy", strategy, _STRATEGIES)]
    if strategy["type"] == "Recreate":
        why = "may not be specified when strategy `type` is 'Recreate'"
        return [forbidden(path, why)] if rolling is not None else []
    unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
    causes = workloads.count_or_share(f"{path}.maxUnavailable", unavailable)
    causes += workloads.count_or_share(f"{path}.maxSurge", surge)
    if not workloads.amount(unavailable) and not workloads.amount(surge):
        causes.append(invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    return causes + workloads.not_over_whole(f"{path}.maxUnavailable", unavailable)
