"""What is seen of a mini-cluster, and what is to be done for it: the data between the loop and the decisions.

`loop` takes the `Snapshot` and carries the actions of the `Plan` out; the decisions of both flows turn one into the
other. Pure data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

from edgewright.api.flux import FluxPhase
from edgewright.api.job import Job
from edgewright.api.pod import Pod
from edgewright.api.service import Service
from edgewright.api.statefulset import StatefulSet
from edgewright.controllers.minicluster.objects import ROLE, ConfigMap
from edgewright.runtime.conditions import Outcome, progressing
from edgewright.runtime.objects import Kind, RawObject, Resource

MAX_NAMED: Final = 3
"""How many Pods or objects a message names."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The objects of a mini-cluster as they are now; those that belong to its predecessor are in `left`."""

    config: ConfigMap | None = None
    service: Service | None = None
    page: Service | None = None
    workers: StatefulSet | None = None
    job: Job | None = None
    services_pod: Pod | None = None
    pods: tuple[Pod, ...] = ()
    left: tuple[str, ...] = ()


@dataclass(frozen=True)
class Create:
    """Make a new object."""

    kind: Kind
    body: RawObject


@dataclass(frozen=True)
class Change:
    """Change an object, on condition that nobody else has."""

    obj: Resource
    patch: dict[str, Any]


@dataclass(frozen=True)
class Join:
    """Become one of the owners of a Service that mini-clusters share."""

    service: Service


@dataclass(frozen=True)
class Delete:
    """Delete an object and what belongs to it."""

    obj: Resource


@dataclass(frozen=True)
class NeedCertificate:
    """Make sure that the Secret with the certificate is there."""

    fresh: bool = False
    """Whether nothing of the mini-cluster was seen yet: then it is made without a look."""


Action: TypeAlias = Create | Change | Join | Delete | NeedCertificate


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is done now, in this order, and what is said of the mini-cluster."""

    actions: tuple[Action, ...] = ()
    outcome: Outcome
    phase: FluxPhase = FluxPhase.PENDING
    ready: int = 0
    workers_ready: bool = False
    exit_code: int | None = None
    ended: datetime | None = None
    cleanup: bool = False
    """Whether the mini-cluster itself is deleted, once all is said."""


def waiting_for_predecessor(seen: Snapshot) -> Plan | None:
    """The plan where something of a predecessor must be gone before anything is made."""
    if not seen.left:
        return None
    message = f"waiting until what is left of its predecessor is gone: {', '.join(seen.left[:MAX_NAMED])}"
    return Plan(outcome=progressing("WaitingForDeletion", message))


def problems(pods: Iterable[Pod], role: str) -> Iterator[str]:
    """Why Pods of a role do not start, as node or scheduler say it."""
    for pod in sorted(pods, key=lambda pod: pod.metadata.name):
        if pod.metadata.labels.get(ROLE) == role and not pod.finished and (why := pod.why_waiting()):
            yield f"{pod.metadata.name}: {why}"


def is_ready(pod: Pod) -> bool:
    """Whether a Pod is ready."""
    return any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)
