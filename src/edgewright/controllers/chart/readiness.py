"""Whether an object of a release is ready: pure functions on its spec and status, by the rules that kstatus has.

`dependents` asks for each object. Kinds in `RULES` have one of their own, custom kinds tell it by their conditions, and
any other kind is ready as soon as it is there. What is being deleted is ready in no kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

Fields: TypeAlias = Mapping[str, Any]
Rule: TypeAlias = Callable[[Fields, Fields], str | None]
"""From spec and status to what is missing; None where nothing is."""


def problem(group: str, kind: str, *, generation: int, spec: Any, status: Any, deleting: bool = False) -> str | None:
    """Why an object is not ready; None where it is."""
    if deleting:
        return "it is being deleted"
    rule = RULES.get((group, kind)) or (_by_conditions if is_custom(group) else None)
    if rule is None:
        return None
    # What a custom kind has there is its own business.
    spec, status = (each if isinstance(each, dict) else {} for each in (spec, status))
    if _number(status, "observedGeneration", generation) < generation:
        return "its last change has not been observed yet"
    return rule(spec, status)


def has_rule(group: str, kind: str) -> bool:
    """Whether the kind's spec and status say more than that an object is there."""
    return (group, kind) in RULES


def is_custom(group: str) -> bool:
    """Whether kinds of this group are others' than Kubernetes' own: their conditions say how they are."""
    return "." in group and not group.endswith(".k8s.io")


def _by_conditions(spec: Fields, status: Fields) -> str | None:  # noqa: ARG001 - the signature of a rule
    found = _conditions(status)
    for type_, words in (("Stalled", "it is stalled"), ("Reconciling", "it is reconciling")):
        if found.get(type_, {}).get("status") == "True":
            return f"{words}: {_why(found[type_])}"
    if found.get("Ready", {}).get("status", "True") != "True":
        return f"it is not ready: {_why(found['Ready'])}"
    return None


def _definition(spec: Fields, status: Fields) -> str | None:  # noqa: ARG001 - the signature of a rule
    found = _conditions(status)
    if found.get("NamesAccepted", {}).get("status") == "False":
        return f"its names are not accepted: {_why(found['NamesAccepted'])}"
    return None if found.get("Established", {}).get("status") == "True" else "it is not established yet"


def _observed(spec: Fields, status: Fields) -> str | None:  # noqa: ARG001 - the signature of a rule
    return None


def _deployment(spec: Fields, status: Fields) -> str | None:
    wanted = _number(spec, "replicas", 1)
    if _conditions(status).get("Progressing", {}).get("reason") == "ProgressDeadlineExceeded":
        return "its progress deadline is exceeded"
    updated, available = _number(status, "updatedReplicas"), _number(status, "availableReplicas")
    if updated < wanted:
        return f"{updated} of {wanted} replicas are updated"
    if _number(status, "replicas") > updated:
        return f"{_number(status, 'replicas') - updated} old replicas are still there"
    return None if available >= wanted else f"{available} of {wanted} replicas are available"


def _replicated(spec: Fields, status: Fields) -> str | None:
    wanted, ready = _number(spec, "replicas", 1), _number(status, "readyReplicas")
    return None if ready >= wanted else f"{ready} of {wanted} replicas are ready"


def _stateful_set(spec: Fields, status: Fields) -> str | None:
    found = _replicated(spec, status)
    rolling = (spec.get("updateStrategy") or {}).get("type", "RollingUpdate") == "RollingUpdate"
    if found is None and rolling and status.get("currentRevision") != status.get("updateRevision"):
        return "its replicas are not all updated"
    return found


def _daemon_set(spec: Fields, status: Fields) -> str | None:  # noqa: ARG001 - the signature of a rule
    if "desiredNumberScheduled" not in status:
        return "it has not been scheduled yet"
    wanted, available = _number(status, "desiredNumberScheduled"), _number(status, "numberAvailable")
    return None if available >= wanted else f"{available} of {wanted} Pods are available"


def _job(spec: Fields, status: Fields) -> str | None:  # noqa: ARG001 - the signature of a rule
    failed = _conditions(status).get("Failed", {})
    if failed.get("status") == "True":
        return f"it failed: {_why(failed)}"
    return None  # kstatus: a Job that runs is as it is meant to be


def _pod(spec: Fields, status: Fields) -> str | None:  # noqa: ARG001 - the signature of a rule
    ready = _conditions(status).get("Ready", {}).get("status") == "True"
    return None if ready or status.get("phase") == "Succeeded" else f"it is {status.get('phase') or 'Pending'}"


def _claim(spec: Fields, status: Fields) -> str | None:  # noqa: ARG001 - the signature of a rule
    return None if status.get("phase") == "Bound" else f"it is {status.get('phase') or 'Pending'}"


def _service(spec: Fields, status: Fields) -> str | None:  # noqa: ARG001 - the signature of a rule
    if spec.get("type") == "LoadBalancer" and not spec.get("clusterIP"):
        return "it has no address yet"
    return None


def _conditions(status: Fields) -> dict[str, Fields]:
    """The conditions by their types; what is none is left out."""
    found = status.get("conditions")
    listed = found if isinstance(found, list) else []
    return {str(each.get("type")): each for each in listed if isinstance(each, dict)}


def _why(condition: Fields) -> str:
    return str(condition.get("message") or condition.get("reason") or "no reason given")


def _number(fields: Fields, name: str, default: int = 0) -> int:
    value = fields.get(name)
    return value if isinstance(value, int) else default


RULES: Final[Mapping[tuple[str, str], Rule]] = {
    ("apps", "Deployment"): _deployment,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("apps", "ReplicaSet"): _replicated,
    ("batch", "Job"): _job,
    ("", "Pod"): _pod,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "Service"): _service,
    ("policy", "PodDisruptionBudget"): _observed,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
}
"""By group and kind."""
