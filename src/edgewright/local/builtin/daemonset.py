"""The rules of DaemonSets, which keep a Pod on every Node that fits."""

from __future__ import annotations

from edgewright.local.builtin import checks, workloads
from edgewright.local.field_errors import invalid, required, unsupported
from edgewright.local.served import Write
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject

TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
"""The annotation in which the generation of the template is kept."""
_STRATEGIES = ("RollingUpdate", "OnDelete")


class DaemonSetRules(workloads.WorkloadRules):
    """What is special about DaemonSets."""

    definition = "io.k8s.api.apps.v1.DaemonSet"
    named_after = False
    counts = (
        *("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"),
        *("observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable", "collisionCount"),
    )

    def default(self, obj: RawObject) -> None:
        """Pods are replaced one at a time."""
        super().default(obj)
        spec = obj["spec"]
        strategy = spec["updateStrategy"]
        workloads.fill(strategy, {"type": "RollingUpdate"})
        if strategy["type"] == "RollingUpdate":
            workloads.fill(strategy, {"rollingUpdate": {}})
            workloads.fill(strategy["rollingUpdate"], {"maxUnavailable": 1, "maxSurge": 0})
        workloads.fill(spec, {"revisionHistoryLimit": 10})
        if TEMPLATE_GENERATION not in (obj["metadata"].get("annotations") or {}):
            _set_generation(obj, 0)  # from the first on, so that whoever writes the object is said to own it

    def prepare_create(self, obj: RawObject, write: Write) -> None:
        """The first generation of the template."""
        super().prepare_create(obj, write)
        _set_generation(obj, 1)

    def prepare_update(self, obj: RawObject, old: RawObject, write: Write) -> None:
        """The generation of the template is counted here and by nobody else."""
        super().prepare_update(obj, old, write)
        before = int((old["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION) or 0)
        changed = obj["spec"]["template"] != old["spec"]["template"]
        _set_generation(obj, before + 1 if changed else before)

    def spec_faults(self, obj: RawObject, old: RawObject | None) -> list[Cause]:
        """The selector must find the template's Pods and never changes."""
        spec = obj["spec"]
        causes = workloads.selector_faults(spec, "daemonset", demanded=False)
        causes += workloads.unselected(spec)
        causes += workloads.template_faults(spec["template"], "spec.template")
        causes += workloads.always_restarted(spec["template"], "spec.template", "DaemonSet")
        causes += checks.not_negative("spec.minReadySeconds", spec.get("minReadySeconds", 0))
        causes += checks.not_negative("spec.revisionHistoryLimit", spec["revisionHistoryLimit"])
        return causes + _strategy_faults(spec["updateStrategy"])


def _set_generation(obj: RawObject, number: int) -> None:
    obj["metadata"]["annotations"] = {**(obj["metadata"].get("annotations") or {}), TEMPLATE_GENERATION: str(number)}


def _strategy_faults(strategy: RawObject) -> list[Cause]:
    if strategy["type"] not in _STRATEGIES:
        return [unsupported("spec.updateStrategy", strategy, _STRATEGIES)]
    if strategy["type"] == "OnDelete":
        return []
    path, rolling = "spec.updateStrategy.rollingUpdate", strategy["rollingUpdate"]
    causes = []
    for name in ("maxUnavailable", "maxSurge"):
        causes += workloads.count_or_share(f"{path}.{name}", rolling[name])
        causes += workloads.not_over_whole(f"{path}.{name}", rolling[name])
    unavailable, surge = (workloads.amount(rolling[name]) for name in ("maxUnavailable", "maxSurge"))
    if unavailable and surge:
        why = "may not be set when maxUnavailable is non-zero"
        causes.append(invalid(f"{path}.maxSurge", rolling["maxSurge"], why))
    elif not unavailable and not surge:
        causes.append(required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return causes
