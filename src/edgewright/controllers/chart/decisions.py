"""What to do about one object: a pure function from the state of its release and its policy to one step.

`controller` carries the step out. A second look at a settled release finds `Settled`. Nothing is read or written here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from edgewright.controllers.chart.policy import Policy
from edgewright.controllers.chart.releases import UNINSTALLED, Revision
from edgewright.controllers.chart.states import (
    Found,
    State,
    Wanted,
    attempt,
    failures,
    last_good,
    rolled_back,
    state_of,
)

FIRST_RETRY: Final = 10.0
"""Seconds after which a failed release is tried again; they double with every further failure."""
MAX_RETRY: Final = 600.0
FOREIGN_PATIENCE: Final = 300.0
"""So long somebody else's action on a release may be under way before it counts as left behind."""
FOREIGN_LOOK: Final = 5.0
"""So often it is looked whether it has ended: its end changes nothing that is watched."""


@dataclass(frozen=True)
class Install:
    """There is no release: it is made, as revision `version`, over what a failed one left in the history."""

    version: int = 1


@dataclass(frozen=True)
class Adopt:
    """There is no release, but its objects are there: a release is stored that says so."""


@dataclass(frozen=True)
class Upgrade:
    """The release is another one than is wanted, or failed; `version` is the next revision's."""

    version: int
    why: str


@dataclass(frozen=True)
class Rollback:
    """An upgrade failed: the release goes back to the revision `target`."""

    target: int


@dataclass(frozen=True)
class Retract:
    """The first install failed: what it left is removed, and the attempt is remembered."""


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
class Hold:
    """What is wanted failed as often as the policy allows: only another spec, chart or request changes that."""

    failures: int


@dataclass(frozen=True)
class Settled:
    """The release is what is wanted."""

    revision: Revision


Step: TypeAlias = Install | Adopt | Upgrade | Rollback | Retract | Unlock | Purge | Wait | Hold | Settled


def decide(
    wanted: Wanted,
    history: Sequence[Revision],
    *,
    now: float,
    policy: Policy | None = None,
    marked: bool = False,
    requested: bool = False,
) -> Step:
    """The next step towards what is wanted.

    `history` is oldest first, `now` in seconds since 1970; `marked` says that objects of the release are there
    although no revision is, `requested` that somebody asked for another attempt.
    """
    policy = policy or Policy()
    step: Step
    match state_of(wanted, history, Found(marked=marked)):
        case State.ABSENT:
            step = Install()
        case State.UNMANAGED:
            step = Adopt()
        case State.LOCKED:
            step = _of_locked(history, now)
        case State.FAILED:
            step = _of_failed(wanted, history, now, policy, requested)
        case State.REMEDIATED:
            step = _next_attempt(wanted, history, now, policy, requested)
        case State.OUT_OF_SYNC:
            step = _of_other(wanted, history[-1])
        case _:
            step = Settled(history[-1])
    return step


def _of_other(wanted: Wanted, newest: Revision) -> Step:
    if newest.status in UNINSTALLED:
        return Install(newest.version + 1)
    return Upgrade(newest.version + 1, _difference(wanted, newest))


def _of_failed(wanted: Wanted, history: Sequence[Revision], now: float, policy: Policy, requested: bool) -> Step:
    good = last_good(history)
    if good is not None and policy.on_failed_upgrade == "rollback":
        if rolled_back(history) and not history[-1].interrupted:  # the rollback failed too
            return _next_attempt(wanted, history, now, policy, requested)
        return Rollback(good.version)
    if good is None and policy.on_failed_install == "uninstall":
        return Retract()
    return _next_attempt(wanted, history, now, policy, requested)


def _next_attempt(wanted: Wanted, history: Sequence[Revision], now: float, policy: Policy, requested: bool) -> Step:
    """Another attempt at what failed, when its time has come."""
    newest, count = history[-1], failures(wanted, history)
    if not requested:
        if policy.retries is not None and count > policy.retries:
            return Hold(count)
        wait = newest.modified + retry_after(count) - now
        if wait > 0:
            return Wait(min(wait, MAX_RETRY), f"the release failed {_times(count)} and is tried again")
    if newest.status in UNINSTALLED:
        return Install(newest.version + 1)
    return Upgrade(newest.version + 1, "the last attempt failed")


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def retry_after(failed: int) -> float:
    """How long to wait after so many failures in a row."""
    return float(min(FIRST_RETRY * 2 ** max(0, failed - 1), MAX_RETRY)) if failed else 0.0


def _of_locked(history: Sequence[Revision], now: float) -> Step:
    """Ours was cut short: whoever began it is dead, for only a leader begins one. Another's may be under way."""
    newest = history[-1]
    if not newest.pending:
        return Purge()
    if newest.ours or rolled_back(history):
        return Unlock(newest)
    left = newest.modified + FOREIGN_PATIENCE - now
    return Wait(min(left, FOREIGN_LOOK), f"another Helm action is {newest.status}") if left > 0 else Unlock(newest)


def _difference(wanted: Wanted, newest: Revision) -> str:
    if not newest.ours:
        return "the last action was cut short" if newest.interrupted else "the last revision was made by somebody else"
    if newest.chart != wanted.chart:
        return "the chart changed"
    return "the values changed" if not attempt(newest, wanted) else f"the last revision is {newest.status}"
