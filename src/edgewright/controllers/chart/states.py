"""Where a release stands: one word, from the stored revisions and what was found of its objects. Pure functions.

`decisions` chooses a step by it, `metrics` counts it and the command line shows it. What is wanted and what is stored
are compared by digests of chart and values, never by rendered text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from edgewright.controllers.chart.releases import DEPLOYED, FAILED, SUPERSEDED, UNINSTALLED, Revision


class State(StrEnum):
    """The words for it; those of helm-controller where it has one."""

    ABSENT = "Absent"
    """There is no release."""
    UNMANAGED = "Unmanaged"
    """There is no release, but objects that carry its marks."""
    LOCKED = "Locked"
    """An action is under way, or was cut short."""
    FAILED = "Failed"
    """The last attempt at what is wanted failed, and what follows is not decided yet."""
    REMEDIATED = "Remediated"
    """The last attempt failed, and was rolled back or removed: it is tried again later."""
    OUT_OF_SYNC = "OutOfSync"
    """What is deployed is not what is wanted."""
    DRIFTED = "Drifted"
    """The release is what is wanted; some of its objects are not."""
    UNTESTED = "Untested"
    """The release is what is wanted, and its tests have not run."""
    IN_SYNC = "InSync"


@dataclass(frozen=True)
class Wanted:
    """What a release is to be made of, by digest."""

    chart: str
    values: str


@dataclass(frozen=True, kw_only=True)
class Found:
    """What was found besides the stored revisions."""

    marked: bool = False
    """Objects that carry the release's marks."""
    drifted: bool = False
    """Objects of the release are missing, or not as they were applied."""
    untested: bool = False
    """There are tests, they are asked for, and they have not run."""


def state_of(wanted: Wanted, history: Sequence[Revision], found: Found | None = None) -> State:
    """Where a release stands; `history` is oldest first."""
    found = found or Found()
    if not history:
        return State.UNMANAGED if found.marked else State.ABSENT
    if history[-1].pending or history[-1].status == "uninstalling":
        return State.LOCKED
    return _of_ended(wanted, history, found)


def _of_ended(wanted: Wanted, history: Sequence[Revision], found: Found) -> State:
    newest = history[-1]
    if remediated(wanted, history):
        return State.REMEDIATED
    if newest.status == FAILED and (attempt(newest, wanted) or failed_rollback(history)):
        return State.FAILED
    if newest.status != DEPLOYED or not attempt(newest, wanted):
        return State.OUT_OF_SYNC
    if found.drifted:
        return State.DRIFTED
    return State.UNTESTED if found.untested else State.IN_SYNC


def attempt(revision: Revision, wanted: Wanted) -> bool:
    """Whether a revision is an attempt of ours at what is wanted."""
    return revision.ours and (revision.chart, revision.values) == (wanted.chart, wanted.values)


def remediated(wanted: Wanted, history: Sequence[Revision]) -> bool:
    """Whether the last attempt at what is wanted failed, and was undone."""
    newest = history[-1]
    if newest.status in UNINSTALLED:
        return attempt(newest, wanted)
    undone = _undone(history)
    return newest.status == DEPLOYED and undone is not None and attempt(undone, wanted)


def remedy(wanted: Wanted, history: Sequence[Revision]) -> tuple[str, str] | None:
    """How the last attempt at what is wanted was undone, as a reason and a sentence; None where it was not.

    From what is stored alone: whoever undid it may not have come to tell of it.
    """
    if not history or not remediated(wanted, history):
        return None
    *before, newest = history
    if newest.status in UNINSTALLED:
        return "UninstallSucceeded", "what the failed install left was removed"
    target = next((str(each.version) for each in reversed(before) if each.mark == newest.mark), newest.mark)
    return "RollbackSucceeded", f"rolled back to revision {target}"


def rolled_back(history: Sequence[Revision]) -> bool:
    """Whether the newest revision is a rollback of an attempt of ours that failed."""
    return _undone(history) is not None


def _undone(history: Sequence[Revision]) -> Revision | None:
    """The attempt of ours that failed and that the newest revision rolls back; None where it is no such rollback.

    Helm copies labels: those of a rollback from its target, those of somebody's upgrade from the revision before it.
    Rollbacks that a crash cut short may stand in between: only they are marked as such and failed.
    """
    newest = history[-1]
    if newest.ours or (newest.interrupted and newest.status != FAILED):
        return None
    before = next((each for each in reversed(history[:-1]) if not each.interrupted), None)
    if before is None or before.status != FAILED or not before.ours or newest.mark == before.mark:
        return None
    return before


def failed_rollback(history: Sequence[Revision]) -> bool:
    """Whether the newest revision is such a rollback, and failed too."""
    return history[-1].status == FAILED and rolled_back(history)


def failures(wanted: Wanted, history: Sequence[Revision]) -> int:
    """How many attempts at what is wanted failed one after the other; their rollbacks do not count."""
    count = 0
    for place in range(len(history), 0, -1):
        each = history[place - 1]
        if rolled_back(history[:place]):
            continue
        undone = each.status in UNINSTALLED or (each.status == SUPERSEDED and place < len(history))
        if not attempt(each, wanted) or not (each.status == FAILED or undone):
            break
        count += 1
    return count


def last_good(history: Sequence[Revision]) -> Revision | None:
    """What can be rolled back to: Helm leaves the last one that worked marked deployed when an upgrade fails."""
    return next((each for each in reversed(history) if each.status == DEPLOYED), None)
