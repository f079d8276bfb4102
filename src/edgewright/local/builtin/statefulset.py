"""The rules of StatefulSets, whose Pods have names and claims of their own, and of the revisions that are kept."""

from __future__ import annotations

from typing import Any

from edgewright.local.builtin import checks, persistentvolumeclaim, workloads
from edgewright.local.field_errors import forbidden, invalid, required
from edgewright.local.served import Write
from edgewright.local.structs.rules import BuiltinRules
from edgewright.runtime.errors import Cause
from edgewright.runtime.objects import RawObject

_RETENTION = ("Retain", "Delete")
_MUTABLE = (
    *("replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit"),
    *("persistentVolumeClaimRetentionPolicy", "minReadySeconds"),
)


class StatefulSetRules(workloads.WorkloadRules):
    """What is special about StatefulSets."""

    definition = "io.k8s.api.apps.v1.StatefulSet"
    name_rule = "label"
    named_after = False
    fixed = ()
    counts_of_pods = ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
    counts = ("replicas", *counts_of_pods, "observedGeneration", "collisionCount")
    ready_path = "status.readyReplicas"

    def default(self, obj: RawObject) -> None:
        """One Pod at a time, in order; claims stay."""
        super().default(obj)
        spec = obj["spec"]
        workloads.fill(spec, {"podManagementPolicy": "OrderedReady"})
        strategy = spec["updateStrategy"]
        if not strategy.get("type"):
            workloads.fill(strategy, {"type": "RollingUpdate", "rollingUpdate": {}})
        if strategy["type"] == "RollingUpdate" and strategy.get("rollingUpdate") is not None:
            workloads.fill(strategy["rollingUpdate"], {"partition": 0})
        workloads.fill(spec, {"persistentVolumeClaimRetentionPolicy": {}, "replicas": 1, "revisionHistoryLimit": 10})
        workloads.fill(spec["persistentVolumeClaimRetentionPolicy"], {"whenDeleted": "Retain", "whenScaled": "Retain"})
        for claim in spec.get("volumeClaimTemplates") or ():
            claim.update({"apiVersion": "v1", "kind": "PersistentVolumeClaim"})
            persistentvolumeclaim.fill(claim)

    def prepare_create(self, obj: RawObject, write: Write) -> None:
        """Replacing several Pods at a time is not on offer, as in a real cluster that was not asked for it."""
        super().prepare_create(obj, write)
        (obj["spec"]["updateStrategy"].get("rollingUpdate") or {}).pop("maxUnavailable", None)

    def prepare_update(self, obj: RawObject, old: RawObject, write: Write) -> None:
        """As for a new one."""
        super().prepare_update(obj, old, write)
        (obj["spec"]["updateStrategy"].get("rollingUpdate") or {}).pop("maxUnavailable", None)

    def spec_faults(self, obj: RawObject, old: RawObject | None) -> list[Cause]:
        """The selector must find the template's Pods; who the Pods are never changes."""
        spec = obj["spec"]
        causes = _strategy_faults(spec)
        retention = spec["persistentVolumeClaimRetentionPolicy"]
        for name in ("whenDeleted", "whenScaled"):
            path = f"spec.persistentVolumeClaimRetentionPolicy.{name}"
            causes += checks.supported(path, retention[name], _RETENTION)
        for name, value in (
            ("replicas", spec["replicas"]),
            ("minReadySeconds", spec.get("minReadySeconds", 0)),
            ("ordinals.start", (spec.get("ordinals") or {}).get("start", 0)),
        ):
            causes += checks.not_negative(f"spec.{name}", value)
        causes += workloads.selector_faults(spec, "statefulset")
        causes += workloads.unselected(spec, invalid_selector="")
        causes += workloads.template_faults(_validated_template(spec), "spec.template")
        about = spec["template"]["metadata"]  # the real server looks at it twice
        causes += checks.labels("spec.template.labels", about.get("labels") or {})
        causes += checks.notes("spec.template.annotations", about.get("annotations") or {})
        causes += workloads.always_restarted(spec["template"], "spec.template", "StatefulSet")
        return causes + (_new_faults(spec) if old is None else _changes(spec, old["spec"]))


class ControllerRevisionRules(BuiltinRules):
    """What is special about ControllerRevisions: what they hold never changes."""

    definition = "io.k8s.api.apps.v1.ControllerRevision"

    def validate(self, obj: RawObject, old: RawObject | None, write: Write) -> list[Cause]:
        """They hold an object, and have a number."""
        causes = checks.not_negative("revision", obj["revision"])
        data = obj.get("data")
        if old is not None:
            return causes + checks.immutable("data", data, old.get("data"))
        if data is None:
            causes.append(required("data", "data is mandatory"))
        elif not isinstance(data, dict):
            causes.append(required("data", "data must be a valid JSON object"))
        return causes


def _validated_template(spec: RawObject) -> RawObject:
    """The template as its Pods will be: names are given to them, and claims are volumes."""
    template, claims = spec["template"], [each["metadata"]["name"] for each in spec.get("volumeClaimTemplates") or ()]
    wanted: dict[str, Any] = {key: value for key, value in template["spec"].items() if key not in _GIVEN}
    if claims:
        kept = [each for each in wanted.get("volumes") or () if each["name"] not in claims]
        made = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dict.fromkeys(claims)]
        wanted["volumes"] = made + kept
    return {**template, "spec": wanted}


_GIVEN = ("hostname", "subdomain")


def _new_faults(spec: RawObject) -> list[Cause]:
    causes = checks.label("spec.serviceName", spec["serviceName"]) if spec.get("serviceName") else []
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        causes += persistentvolumeclaim.spec_faults(claim["spec"], f"spec.volumeClaimTemplates[{index}].spec")
    return causes


def _changes(spec: RawObject, old: RawObject) -> list[Cause]:
    fixed = [{key: value for key, value in each.items() if key not in _MUTABLE} for each in (spec, old)]
    if fixed[0] == fixed[1]:
        return []
    why = (
        "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
        "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
    )
    return [forbidden("spec", why)]


def _strategy_faults(spec: RawObject) -> list[Cause]:
    policy, strategy = spec["podManagementPolicy"], spec["updateStrategy"]
    rolling, path = strategy.get("rollingUpdate"), "spec.updateStrategy.rollingUpdate"
    causes = []
    if policy not in ("OrderedReady", "Parallel"):
        causes.append(invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'"))
    if strategy["type"] not in ("RollingUpdate", "OnDelete"):
        causes.append(invalid("spec.updateStrategy", strategy, "must be 'RollingUpdate' or 'OnDelete'"))
    elif strategy["type"] == "OnDelete":
        if rolling is not None:
            causes.append(invalid(path, rolling, "only allowed for updateStrategy 'RollingUpdate'"))
    elif rolling is not None:
        causes += checks.not_negative(f"{path}.partition", rolling["partition"])
    return causes
