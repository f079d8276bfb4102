"""What is shown of an object: its conditions and its release. Pure functions; `controller` writes what they return.

The types are those of operator-sdk (Initialized, Deployed, ReleaseFailed, Irreconcilable), of which the last two are
there only while they are true, and Ready with Reconciling and Stalled, which kstatus and Argo CD read.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from edgewright.controllers.chart.dependents import Health
from edgewright.controllers.chart.manifests import shown
from edgewright.controllers.chart.objects import ChartStatus, DeployedRelease
from edgewright.controllers.chart.releases import Stored
from edgewright.runtime.conditions import (
    READY,
    TRUE,
    Outcome,
    condition,
    done,
    find,
    progressing,
    remove,
    retrying,
    set_condition,
    with_outcome,
)

INITIALIZED: Final = "Initialized"
DEPLOYED: Final = "Deployed"
RELEASE_FAILED: Final = "ReleaseFailed"
IRRECONCILABLE: Final = "Irreconcilable"

BAD: Final = frozenset({"InstallError", "UpgradeError", "UninstallError", "ReconcileError", "DependentsMissing"})
"""The reasons whose events are warnings."""
_MAX_NAMED: Final = 5


def begun(status: ChartStatus, what: str, *, generation: int, now: datetime) -> ChartStatus:
    """An action is about to begin."""
    return _with(status, progressing(what, f"{what} the release"), generation=generation, now=now)


def waiting(status: ChartStatus, why: str, *, generation: int, now: datetime) -> ChartStatus:
    """Nothing can be done for a while; what failed before is still shown."""
    if find(status.conditions, RELEASE_FAILED) is not None:
        return status
    return _with(status, retrying("Waiting", why), generation=generation, now=now)


def failed(status: ChartStatus, reason: str, message: str, *, generation: int, now: datetime) -> ChartStatus:
    """A release failed, and that is stored; or it could not be removed."""
    return _wrong(status, RELEASE_FAILED, reason, message, generation=generation, now=now)


def irreconcilable(status: ChartStatus, message: str, *, generation: int, now: datetime) -> ChartStatus:
    """Nothing was done: the chart does not render, or Helm refused before it stored anything."""
    return _wrong(status, IRRECONCILABLE, "ReconcileError", message, generation=generation, now=now)


def deployed(
    status: ChartStatus,
    stored: Stored,
    health: Health,
    *,
    release: str,
    version: int,
    generation: int,
    now: datetime,
) -> ChartStatus:
    """The release is what is wanted; Ready once all that belongs to it is."""
    reason = "InstallSuccessful" if version == 1 else "UpgradeSuccessful"
    conditions = status.conditions
    for abnormal in (RELEASE_FAILED, IRRECONCILABLE):
        conditions = remove(conditions, abnormal)
    told = condition(DEPLOYED, TRUE, reason, stored.notes.strip(), generation=generation)
    conditions = set_condition(conditions, told, now=now)
    status = msgspec.structs.replace(
        status,
        conditions=conditions,
        deployed_release=DeployedRelease(name=release, manifest=shown(stored.manifest)),
    )
    ready = find(conditions, READY)
    if health == Health(unknown=True) and ready is not None and ready.status == TRUE:
        return status  # a process that has just started has seen nothing yet: it says nothing new
    return _with(status, outcome(health), generation=generation, now=now)


def outcome(health: Health) -> Outcome:
    """What the objects of a deployed release say about the whole."""
    if health.missing:
        return retrying("DependentsMissing", f"{_named(health.missing)} missing: restored by an upgrade")
    if health.unserved:
        return retrying("KindNotServed", f"{_named(health.unserved)}: the kind is not served")
    if health.unready:
        return progressing("DependentsNotReady", "; ".join(health.unready[:_MAX_NAMED]))
    if health.unknown:
        return progressing("Progressing", "the objects of the release are being looked at")
    return done("ReleaseReady", "the release is deployed and all its objects are ready")


def _named(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(names[:_MAX_NAMED]) + more


def _wrong(
    status: ChartStatus, type_: str, reason: str, message: str, *, generation: int, now: datetime
) -> ChartStatus:
    other = IRRECONCILABLE if type_ == RELEASE_FAILED else RELEASE_FAILED
    conditions = remove(status.conditions, other)
    conditions = set_condition(conditions, condition(type_, TRUE, reason, message, generation=generation), now=now)
    status = msgspec.structs.replace(status, conditions=conditions)
    return _with(status, retrying(reason, message), generation=generation, now=now)


def _with(status: ChartStatus, found: Outcome, *, generation: int, now: datetime) -> ChartStatus:
    conditions = status.conditions
    if find(conditions, INITIALIZED) is None:
        conditions = set_condition(
            conditions, condition(INITIALIZED, TRUE, INITIALIZED, "", generation=generation), now=now
        )
    conditions = with_outcome(conditions, found, generation=generation, now=now)
    return msgspec.structs.replace(status, conditions=conditions, observed_generation=generation)
