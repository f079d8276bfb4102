"""The rules of PodDisruptionBudgets, which say how many Pods evictions must leave."""

from __future__ import annotations

from edgewright.local.builtin import checks, labelselector, workloads
from edgewright.local.field_errors import invalid
from edgewright.local.served import Write
from edgewright.local.structs.rules import BuiltinRules
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject

_POLICIES = ("AlwaysAllow", "IfHealthyBudget")
_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


class PodDisruptionBudgetRules(BuiltinRules):
    """What is special about budgets."""

    definition = "io.k8s.api.policy.v1.PodDisruptionBudget"
    status = True
    generations = True
    unconditional_update = False

    def prepare_create(self, obj: RawObject, write: Write) -> None:
        """A status that came with it goes."""
        obj["status"] = self.unset("status")

    def validate(self, obj: RawObject, old: RawObject | None, write: Write) -> list[Cause]:
        """Either how many must stay or how many may be missing; numbers or shares."""
        if write.subresource == "status":
            return workloads.counts(obj["status"], *_COUNTS)
        spec, causes = obj["spec"], []
        if "minAvailable" in spec and "maxUnavailable" in spec:
            causes.append(invalid("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
        for name in ("minAvailable", "maxUnavailable"):
            if name in spec:
                causes += workloads.count_or_share(f"spec.{name}", spec[name])
                causes += workloads.not_over_whole(f"spec.{name}", spec[name])
        if spec.get("selector") is not None:
            causes += labelselector.faults("spec.selector", spec["selector"])
        if "unhealthyPodEvictionPolicy" in spec:
            policy = spec["unhealthyPodEvictionPolicy"]
            causes += checks.supported("spec.unhealthyPodEvictionPolicy", policy, _POLICIES)
        return causes
