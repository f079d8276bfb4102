"""What a Deployment says of its rollout: how many Pods, whether enough are available, and whether it gets on.

`rollouts` asks for it. These are the fields and conditions that `kubectl rollout status` and kstatus read; pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from edgewright.local.controllers.workloads.kinds import (
    Deployment,
    DeploymentCondition,
    DeploymentStatus,
    ReplicaSet,
)
from edgewright.local.controllers.workloads.readiness import resolved
from edgewright.runtime.conditions import find, remove

AVAILABLE, PROGRESSING, FAILURE = "Available", "Progressing", "ReplicaFailure"
_NEVER: Final = 2**31 - 1
_TIMED_OUT, _SUCCEEDED = "ProgressDeadlineExceeded", "NewReplicaSetAvailable"
_PAUSED: Final = "DeploymentPaused"


def limits(deployment: Deployment) -> tuple[int, int]:
    """How many Pods may be too many and how many may be missing while a rollout goes on."""
    spec = deployment.spec
    if spec.strategy.type != "RollingUpdate":
        return 0, 0
    surge = resolved(spec.strategy.rolling_update.max_surge, spec.replicas, up=True)
    missing = resolved(spec.strategy.rolling_update.max_unavailable, spec.replicas, up=False)
    return surge, min(missing if surge or missing else 1, spec.replicas)


def counted(
    deployment: Deployment, sets: Sequence[ReplicaSet], new: ReplicaSet | None, now: datetime
) -> DeploymentStatus:
    """The numbers, and whether enough Pods are available."""
    available = sum(each.status.available_replicas for each in sets)
    total = sum(each.spec.replicas for each in sets)
    terminating = [each.status.terminating_replicas for each in sets if each.metadata.uid]
    counted_all = all(each is not None for each in terminating)
    status = DeploymentStatus(
        observed_generation=deployment.metadata.generation,
        replicas=sum(each.status.replicas for each in sets),
        updated_replicas=new.status.replicas if new else 0,
        ready_replicas=sum(each.status.ready_replicas for each in sets),
        available_replicas=available,
        unavailable_replicas=max(0, total - available),
        terminating_replicas=sum(each or 0 for each in terminating) if counted_all else None,
        conditions=deployment.status.conditions,
        collision_count=deployment.status.collision_count,
    )
    _, missing = limits(deployment)
    if available >= deployment.spec.replicas - missing:
        enough = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        enough = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    return _with(status, AVAILABLE, *enough, now=now)


def complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Whether all Pods are of the template as it is, and available."""
    wanted = deployment.spec.replicas
    return (
        status.updated_replicas == status.replicas == status.available_replicas == wanted
        and status.observed_generation >= deployment.metadata.generation
    )


def begun(deployment: Deployment, name: str, now: datetime) -> Deployment:
    """The Deployment that says that it has just made a ReplicaSet."""
    if not _has_deadline(deployment):
        return deployment
    return _saying(deployment, "True", "NewReplicaSetCreated", f'Created new replica set "{name}"', now=now)


def noticed(deployment: Deployment, name: str, now: datetime) -> Deployment:
    """The Deployment that says that its ReplicaSet was there already, if it says nothing of progress yet."""
    if not _has_deadline(deployment) or find(deployment.status.conditions, PROGRESSING) is not None:
        return deployment
    return _saying(deployment, "True", "FoundNewReplicaSet", f'Found new replica set "{name}"', now=now)


def rolled(
    deployment: Deployment, sets: Sequence[ReplicaSet], new: ReplicaSet | None, now: datetime
) -> tuple[DeploymentStatus, float | None]:
    """The status while Pods are replaced, and in how many seconds it must be looked at for want of progress."""
    status = counted(deployment, sets, new, now)
    known = find(deployment.status.conditions, PROGRESSING)
    if not _has_deadline(deployment):
        status = _without(status, PROGRESSING)
    elif not (status.replicas == status.updated_replicas and known is not None and known.reason == _SUCCEEDED):
        status = _progress(deployment, status, new, now)
    status = _failures(status, sets, new)
    return status, _look_again(deployment, status, now)


def paused(status: DeploymentStatus, deployment: Deployment, now: datetime) -> DeploymentStatus:
    """The status with the news that a rollout is paused, or goes on."""
    known = find(status.conditions, PROGRESSING)
    if not _has_deadline(deployment) or (known is not None and known.reason == _TIMED_OUT):
        return status
    is_told = known is not None and known.reason == _PAUSED
    if deployment.spec.paused and not is_told:
        return _with(status, PROGRESSING, "Unknown", _PAUSED, "Deployment is paused", now=now)
    return status


def resumed(deployment: Deployment, now: datetime) -> Deployment:
    """The Deployment that says that it goes on, if it said that it was paused."""
    known = find(deployment.status.conditions, PROGRESSING)
    if deployment.spec.paused or known is None or known.reason != _PAUSED:
        return deployment
    return _saying(deployment, "Unknown", "DeploymentResumed", "Deployment is resumed", now=now)


def _saying(deployment: Deployment, value: str, reason: str, message: str, *, now: datetime) -> Deployment:
    """The Deployment that says this of its progress."""
    status = _with(deployment.status, PROGRESSING, value, reason, message, now=now)
    return msgspec.structs.replace(deployment, status=status)


def _progress(
    deployment: Deployment, status: DeploymentStatus, new: ReplicaSet | None, now: datetime
) -> DeploymentStatus:
    who = f'ReplicaSet "{new.metadata.name}"' if new else f'Deployment "{deployment.metadata.name}"'
    known = find(deployment.status.conditions, PROGRESSING)
    if complete(deployment, status):
        return _with(status, PROGRESSING, "True", _SUCCEEDED, f"{who} has successfully progressed.", now=now)
    if _gets_on(deployment.status, status):
        message = f"{who} is progressing."
        return _with(status, PROGRESSING, "True", "ReplicaSetUpdated", message, now=now, again=True)
    if _is_late(deployment, known, now):
        return _with(status, PROGRESSING, "False", _TIMED_OUT, f"{who} has timed out progressing.", now=now)
    return status


def _gets_on(before: DeploymentStatus, after: DeploymentStatus) -> bool:
    return (
        after.updated_replicas > before.updated_replicas
        or after.replicas - after.updated_replicas < before.replicas - before.updated_replicas
        or after.ready_replicas > before.ready_replicas
        or after.available_replicas > before.available_replicas
    )


def _is_late(deployment: Deployment, known: DeploymentCondition | None, now: datetime) -> bool:
    if known is None or known.reason == _SUCCEEDED:
        return False
    if known.reason == _TIMED_OUT:
        return True
    deadline = timedelta(seconds=deployment.spec.progress_deadline_seconds or 0)
    return known.last_update_time is not None and known.last_update_time + deadline < now


def _look_again(deployment: Deployment, status: DeploymentStatus, now: datetime) -> float | None:
    known = find(status.conditions, PROGRESSING)
    if not _has_deadline(deployment) or known is None or complete(deployment, status) or known.reason == _TIMED_OUT:
        return None
    deadline = timedelta(seconds=deployment.spec.progress_deadline_seconds or 0)
    since = known.last_update_time or now
    return max(0.0, (since + deadline - now).total_seconds()) + 1.0


def _failures(status: DeploymentStatus, sets: Sequence[ReplicaSet], new: ReplicaSet | None) -> DeploymentStatus:
    """Hands on why a ReplicaSet could not make its Pods, of the new one first."""
    for found in (*((new,) if new else ()), *sets):
        if (told := find(found.status.conditions, FAILURE)) is not None:
            since = told.last_transition_time
            return _put(status, DeploymentCondition(**msgspec.structs.asdict(told), last_update_time=since))
    return _without(status, FAILURE)


def _has_deadline(deployment: Deployment) -> bool:
    return deployment.spec.progress_deadline_seconds not in (None, _NEVER)


def _without(status: DeploymentStatus, type_: str) -> DeploymentStatus:
    return msgspec.structs.replace(status, conditions=remove(status.conditions, type_))


def _with(
    status: DeploymentStatus, type_: str, value: str, reason: str, message: str, *, now: datetime, again: bool = False
) -> DeploymentStatus:
    """The status that says this; what it says already is said once more only where that is asked for by `again`."""
    moment = now.replace(microsecond=0)
    told = DeploymentCondition(type=type_, status=value, reason=reason, message=message, last_update_time=moment)
    return _put(status, msgspec.structs.replace(told, last_transition_time=moment), again=again)


def _put(status: DeploymentStatus, new: DeploymentCondition, *, again: bool = False) -> DeploymentStatus:
    known = find(status.conditions, new.type)
    if known is not None and (known.status, known.reason) == (new.status, new.reason) and not again:
        return status
    if known is not None and known.status == new.status:
        new = msgspec.structs.replace(new, last_transition_time=known.last_transition_time)
    return msgspec.structs.replace(status, conditions=(*_without(status, new.type).conditions, new))
