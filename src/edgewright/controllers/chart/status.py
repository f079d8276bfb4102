"""What is shown of an object: its conditions and its release. Pure functions; `controller` writes what they return.

The types are those of operator-sdk (Initialized, Deployed, ReleaseFailed, Irreconcilable), of which the last two are
there only while they are true, and Ready with Reconciling and Stalled, which kstatus and Argo CD read. Drifted,
Remediated, Suspended and TestSuccess of our own are there while there is something to say.
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
    stuck,
    with_outcome,
)
from edgewright.runtime.objects import Condition

INITIALIZED: Final = "Initialized"
DEPLOYED: Final = "Deployed"
RELEASE_FAILED: Final = "ReleaseFailed"
IRRECONCILABLE: Final = "Irreconcilable"
DRIFTED: Final = "Drifted"
REMEDIATED: Final = "Remediated"
SUSPENDED: Final = "Suspended"
TESTED: Final = "TestSuccess"

BAD: Final = frozenset(
    {
        "InstallError",
        "UpgradeError",
        "RollbackError",
        "UninstallError",
        "ReconcileError",
        "DependentsMissing",
        "DriftDetected",
        "TestFailed",
        "RetriesExhausted",
    }
)
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


def suspended(status: ChartStatus, *, generation: int, now: datetime) -> ChartStatus:
    """Somebody has suspended the object: nothing is done, and what was shown stays."""
    told = condition(
        SUSPENDED, TRUE, "Suspended", "nothing is done until the annotation is taken away", generation=generation
    )
    return msgspec.structs.replace(
        status, conditions=set_condition(status.conditions, told, now=now), observed_generation=generation
    )


def resumed(status: ChartStatus) -> ChartStatus:
    """The same without what tells of a suspension."""
    return msgspec.structs.replace(status, conditions=remove(status.conditions, SUSPENDED))


def remediated(status: ChartStatus, how: str, message: str, *, generation: int, now: datetime) -> ChartStatus:
    """What failed was undone; why it failed is still shown."""
    told = condition(REMEDIATED, TRUE, how, message, generation=generation)
    return msgspec.structs.replace(status, conditions=set_condition(status.conditions, told, now=now))


def held(status: ChartStatus, message: str, *, generation: int, now: datetime) -> ChartStatus:
    """It failed as often as is allowed: nothing is done until something changes."""
    return _with(status, stuck("RetriesExhausted", message), generation=generation, now=now)


def removing(status: ChartStatus, left: tuple[str, ...], *, generation: int, now: datetime) -> ChartStatus:
    """The release is uninstalled, and some of its objects are still there."""
    told = condition(DEPLOYED, "False", "UninstallSuccessful", "", generation=generation)
    status = msgspec.structs.replace(status, conditions=set_condition(status.conditions, told, now=now))
    why = f"Waiting until all resources are deleted: {_named(left)}"
    return _with(status, progressing("UninstallWait", why), generation=generation, now=now)


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
    for abnormal in (RELEASE_FAILED, IRRECONCILABLE, REMEDIATED):
        conditions = remove(conditions, abnormal)
    told = condition(DEPLOYED, TRUE, reason, stored.notes.strip(), generation=generation)
    conditions = set_condition(conditions, told, now=now)
    conditions = _with_drift(conditions, health, generation=generation, now=now)
    conditions = _with_tests(conditions, stored, generation=generation, now=now)
    status = msgspec.structs.replace(
        status,
        conditions=conditions,
        deployed_release=DeployedRelease(name=release, manifest=shown(stored.manifest)),
        failures=0,
    )
    ready = find(conditions, READY)
    if health == Health(unknown=True) and ready is not None and ready.status == TRUE:
        return status  # a process that has just started has seen nothing yet: it says nothing new
    return _with(status, outcome(health, stored), generation=generation, now=now)


def _with_drift(
    conditions: tuple[Condition, ...], health: Health, *, generation: int, now: datetime
) -> tuple[Condition, ...]:
    if health.drifted:
        told = condition(DRIFTED, TRUE, "DriftDetected", _listed(health.drifted), generation=generation)
        return set_condition(conditions, told, now=now)
    # A process that has just started has compared nothing yet: it takes nothing back.
    return conditions if health.unknown else remove(conditions, DRIFTED)


def _with_tests(
    conditions: tuple[Condition, ...], stored: Stored, *, generation: int, now: datetime
) -> tuple[Condition, ...]:
    if stored.failed_tests:
        told = condition(TESTED, "False", "TestFailed", f"failed: {_named(stored.failed_tests)}", generation=generation)
    elif stored.tests and not stored.untested:
        told = condition(TESTED, TRUE, "TestsSucceeded", f"{len(stored.tests)} succeeded", generation=generation)
    else:
        return remove(conditions, TESTED)
    return set_condition(conditions, told, now=now)


def outcome(health: Health, stored: Stored) -> Outcome:
    """What the objects of a deployed release, and its tests, say about the whole."""
    if health.missing:
        return retrying("DependentsMissing", f"{_named(health.missing)} missing: restored by an upgrade")
    if health.unserved:
        return retrying("KindNotServed", f"{_named(health.unserved)}: the kind is not served")
    if health.unready:
        return progressing("DependentsNotReady", "; ".join(health.unready[:_MAX_NAMED]))
    if health.unknown:
        return progressing("Progressing", "the objects of the release are being looked at")
    if stored.failed_tests:
        return retrying("TestFailed", f"{_named(stored.failed_tests)} failed: see the Pods' logs, then change the spec")
    return done("ReleaseReady", "the release is deployed and all its objects are ready")


def _named(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(names[:_MAX_NAMED]) + more


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return "; ".join(names[:_MAX_NAMED]) + more


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
