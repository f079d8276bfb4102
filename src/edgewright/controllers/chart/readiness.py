"""Whether an object of a release is ready: pure functions on its spec and status, by the rules that kstatus has.

`dependents` asks for each object of a kind in `RULES`; any other kind is ready as soon as it is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

Fields: TypeAlias = Mapping[str, Any]
Rule: TypeAlias = Callable[[Fields, Fields], str | None]
"""From spec and status to what is missing; None where nothing is."""


def problem(group: str, kind: str, *, generation: int, spec: Fields | None, status: Fields | None) -> str | None:
    """Why an object is not ready; None where it is."""
    rule = RULES.get((group, kind))
    if rule is None:
        return None
    spec, status = spec or {}, status or {}
    if _number(status, "observedGeneration", generation) < generation:
        return "its last change has not been observed yet"
    return rule(spec, status)


def has_rule(group: str, kind: str) -> bool:
    """Whether the kind's spec and status say more than that an object is there."""
    return (group, kind) in RULES


def _deployment(spec: Fields, status: Fields) -> str | None:
    wanted = _number(spec, "replicas", 1)
    for each in status.get("conditions") or ():
        if each.get("type") == "Progressing" and each.get("reason") == "ProgressDeadlineExceeded":
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
    for each in status.get("conditions") or ():
        if each.get("type") == "Failed" and each.get("status") == "True":
            return f"it failed: {each.get('message') or each.get('reason') or 'no reason given'}"
    return None  # kstatus: a Job that runs is as it is meant to be


def _pod(spec: Fields, status: Fields) -> str | None:  # noqa: ARG001 - the signature of a rule
    ready = any(each.get("type") == "Ready" and each.get("status") == "True" for each in status.get("conditions") or ())
    return None if ready or status.get("phase") == "Succeeded" else f"it is {status.get('phase') or 'Pending'}"


def _claim(spec: Fields, status: Fields) -> str | None:  # noqa: ARG001 - the signature of a rule
    return None if status.get("phase") == "Bound" else f"it is {status.get('phase') or 'Pending'}"


def _service(spec: Fields, status: Fields) -> str | None:  # noqa: ARG001 - the signature of a rule
    if spec.get("type") == "LoadBalancer" and not spec.get("clusterIP"):
        return "it has no address yet"
    return None


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
}
"""By group and kind."""
