"""What to do about one object: a pure function from what is wanted and the stored revisions to one step.

`controller` carries the step out. State comes from the stored release and the digests of chart and values; a second
look at a settled release finds `Settled`. Nothing is read or written here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from edgewright.controllers.chart.releases import DEPLOYED, FAILED, UNINSTALLED, Revision

FIRST_RETRY: Final = 10.0
"""Seconds after which a failed release is tried again; they double with every further failure."""
MAX_RETRY: Final = 600.0
FOREIGN_PATIENCE: Final = 300.0
"""So long somebody else's action on a release may be under way before it counts as left behind."""


@dataclass(frozen=True)
class Wanted:
    """What a release is to be made of, by digest."""

    chart: str
    values: str


@dataclass(frozen=True)
class Install:
    """There is no release yet."""


@dataclass(frozen=True)
class Upgrade:
    """The release is another one than is wanted, or failed; `version` is the next revision's."""

    version: int
    why: str


@dataclass(frozen=True)
class Unlock:
    """An action on this revision was cut short; it must be marked failed before anything else can be done."""

    revision: Revision


@dataclass(frozen=True)
class Purge:
    """The release is half removed; it must be removed wholly first."""


@dataclass(frozen=True)
class Wait:
    """Nothing can be done for so many seconds."""

    seconds: float
    why: str


@dataclass(frozen=True)
class Settled:
    """The release is what is wanted."""

    revision: Revision


Step: TypeAlias = Install | Upgrade | Unlock | Purge | Wait | Settled


def decide(wanted: Wanted, history: Sequence[Revision], *, now: float) -> Step:
    """The next step towards what is wanted; `history` is oldest first, `now` in seconds since 1970."""
    if not history:
        return Install()
    newest = history[-1]
    if newest.pending:
        return _of_pending(newest, now)
    if newest.status in UNINSTALLED:
        return Purge()
    return _of_ended(wanted, history, now)


def _of_ended(wanted: Wanted, history: Sequence[Revision], now: float) -> Step:
    newest = history[-1]
    same = newest.ours and (newest.chart, newest.values) == (wanted.chart, wanted.values)
    if newest.status == DEPLOYED:
        return Settled(newest) if same else Upgrade(newest.version + 1, _difference(wanted, newest))
    if newest.status == FAILED and same:
        wait = newest.modified + retry_after(failures(wanted, history)) - now
        if wait > 0:
            return Wait(min(wait, MAX_RETRY), "the release failed and is tried again")
        return Upgrade(newest.version + 1, "the last attempt failed")
    return Upgrade(newest.version + 1, _difference(wanted, newest))


def failures(wanted: Wanted, history: Sequence[Revision]) -> int:
    """How many attempts at what is wanted failed one after the other."""
    count = 0
    for each in reversed(history):
        if each.status != FAILED or not each.ours or (each.chart, each.values) != (wanted.chart, wanted.values):
            break
        count += 1
    return count


def retry_after(failed: int) -> float:
    """How long to wait after so many failures in a row."""
    return float(min(FIRST_RETRY * 2 ** max(0, failed - 1), MAX_RETRY)) if failed else 0.0


def _of_pending(newest: Revision, now: float) -> Step:
    """Ours was cut short: whoever began it is dead, for only a leader begins one. Another's may be under way."""
    if newest.ours:
        return Unlock(newest)
    left = newest.modified + FOREIGN_PATIENCE - now
    return Wait(min(left, FOREIGN_PATIENCE), f"another Helm action is {newest.status}") if left > 0 else Unlock(newest)


def _difference(wanted: Wanted, newest: Revision) -> str:
    if not newest.ours:
        return "the last revision was made by somebody else"
    if newest.chart != wanted.chart:
        return "the chart changed"
    return "the values changed" if newest.values != wanted.values else f"the last revision is {newest.status}"
