"""Whether an object of a release is ready: pure functions on its spec and status, by the rules that kstatus has.

`dependents` asks for each object. Kinds in `RULES` have one of their own, custom kinds tell it by their conditions, and
any other kind is ready as soon as it is there. What is being deleted is ready in no kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

Fields: TypeAlias = Mapping[str, Any]


class Seen(NamedTuple):
    """What an object is to be and what it is."""

    spec: Fields
    status: Fields


Rule: TypeAlias = Callable[[Seen], str | None]
"""What is missing; None where nothing is."""


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
    return rule(Seen(spec, status))


def has_rule(group: str, kind: str) -> bool:
    """Whether the kind's spec and status say more than that an object is there."""
    return (group, kind) in RULES


def is_custom(group: str) -> bool:
    """Whether kinds of this group are others' than Kubernetes' own: their conditions say how they are."""
    return "." in group and not group.endswith(".k8s.io")


def _by_conditions(seen: Seen) -> str | None:
    found = _conditions(seen.status)
    for type_, words in (("Stalled", "it is stalled"), ("Reconciling", "it is reconciling")):
        if found.get(type_, {}).get("status") == "True":
            return f"{words}: {_why(found[type_])}"
    if found.get("Ready", {}).get("status", "True") != "True":
        return f"it is not ready: {_why(found['Ready'])}"
    return None


def _definition(seen: Seen) -> str | None:
    found = _conditions(seen.status)
    if found.get("NamesAccepted", {}).get("status") == "False":
        return f"its names are not accepted: {_why(found['NamesAccepted'])}"
    return None if found.get("Established", {}).get("status") == "True" else "it is not established yet"


def _observed(seen: Seen) -> str | None:  # noqa: ARG001 - that its last change was observed is asked of every kind
    return None


def _deployment(seen: Seen) -> str | None:
    if _conditions(seen.status).get("Progressing", {}).get("reason") == "ProgressDeadlineExceeded":
        return "its progress deadline is exceeded"
    updated = _number(seen.status, "updatedReplicas")
    if updated < _replicas(seen):
        return _so_many(updated, _replicas(seen), "replicas are updated")
    if _number(seen.status, "replicas") > updated:
        return f"{_number(seen.status, 'replicas') - updated} old replicas are still there"
    return _so_many(_number(seen.status, "availableReplicas"), _replicas(seen), "replicas are available")


def _replica_set(seen: Seen) -> str | None:
    available = _number(seen.status, "availableReplicas")
    return _so_many(available, _replicas(seen), "replicas are available") or _too_many(seen)


def _stateful_set(seen: Seen) -> str | None:
    ready = _number(seen.status, "readyReplicas")
    if found := _so_many(ready, _replicas(seen), "replicas are ready") or _too_many(seen):
        return found
    if _updates_by_hand(seen) or seen.status.get("currentRevision") == seen.status.get("updateRevision"):
        return None
    # Those below the partition keep the old revision for as long as it stays there.
    rolling = (seen.spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
    wanted = max(0, _replicas(seen) - _number(rolling, "partition"))
    return _so_many(_number(seen.status, "updatedReplicas"), wanted, "replicas are updated")


def _daemon_set(seen: Seen) -> str | None:
    if "desiredNumberScheduled" not in seen.status:
        return "it has not been scheduled yet"
    wanted = _number(seen.status, "desiredNumberScheduled")
    updated = wanted if _updates_by_hand(seen) else _number(seen.status, "updatedNumberScheduled")
    available = _number(seen.status, "numberAvailable")
    return _so_many(updated, wanted, "Pods are updated") or _so_many(available, wanted, "Pods are available")


def _job(seen: Seen) -> str | None:
    failed = _conditions(seen.status).get("Failed", {})
    if failed.get("status") == "True":
        return f"it failed: {_why(failed)}"
    # kstatus: a Job that runs is as it is meant to be.
    return None if seen.status.get("startTime") else "it has not started yet"


def _pod(seen: Seen) -> str | None:
    phase = seen.status.get("phase") or "Pending"
    ready = _conditions(seen.status).get("Ready", {}).get("status") == "True"
    return None if ready or phase == "Succeeded" else f"it is {phase}"


def _claim(seen: Seen) -> str | None:
    phase = seen.status.get("phase") or "Pending"
    return None if phase == "Bound" else f"it is {phase}"


def _service(seen: Seen) -> str | None:
    if seen.spec.get("type") == "LoadBalancer" and not seen.spec.get("clusterIP"):
        return "it has no address yet"
    return None


def _replicas(seen: Seen) -> int:
    return _number(seen.spec, "replicas", 1)


def _too_many(seen: Seen) -> str | None:
    extra = _number(seen.status, "replicas") - _replicas(seen)
    return f"{extra} replicas too many are still there" if extra > 0 else None


def _so_many(there: int, wanted: int, what: str) -> str | None:
    return None if there >= wanted else f"{there} of {wanted} {what}"


def _updates_by_hand(seen: Seen) -> bool:
    """Whether Pods are updated when somebody deletes them, which nobody waits for."""
    return (seen.spec.get("updateStrategy") or {}).get("type") == "OnDelete"


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
    ("apps", "ReplicaSet"): _replica_set,
    ("batch", "Job"): _job,
    ("", "Pod"): _pod,
    ("", "PersistentVolumeClaim"): _claim,
    ("", "Service"): _service,
    ("policy", "PodDisruptionBudget"): _observed,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
}
"""By group and kind."""
