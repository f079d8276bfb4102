"""Whether a batch has ended, whether it passes, and what it waits for.

The decisions of a staged change ask it for every open batch, by the counts of its devices. Pure.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, Protocol

from edgewright.controllers.staging.steps import Step

_WHOLE: Final = 100
APPROVE: Final = "edgewright rollout approve, or add {} to spec.approvals"
"""What is done to approve a batch of a rollout."""


class Counts(Protocol):
    """How the devices of one batch stand."""

    @property
    def done(self) -> int:
        """How many have what is wanted."""

    @property
    def bad(self) -> int:
        """How many failed or regressed."""

    @property
    def regressed(self) -> int:
        """How many fell back after their success."""

    @property
    def pending(self) -> int:
        """How many have not ended, and will."""

    @property
    def ended(self) -> datetime | None:
        """When the latest one ended."""


class BatchPhase(StrEnum):
    """How far a batch is."""

    PLANNED = "Planned"
    RUNNING = "Running"
    SOAKING = "Soaking"
    AWAITING_APPROVAL = "AwaitingApproval"
    PASSED = "Passed"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a batch stands."""

    phase: BatchPhase
    message: str = ""
    until: datetime | None = None
    """When it stands otherwise without anybody's doing."""
    ended: datetime | None = None
    passed: datetime | None = None


def judge(
    step: Step,
    tally: Counts,
    *,
    opened: datetime | None,
    now: datetime,
    over: bool = False,
    missing: int = 0,
    follows: bool = False,
    approvals: Collection[str] = (),
    approve: str = APPROVE,
    unseen: int = 0,
    lost_at: datetime | None = None,
) -> Verdict:
    """How a batch stands.

    `over` says that it has been closed or that a later one is open: then it has passed, whatever its devices do. A
    batch that is still being opened lacks `missing` devices. `follows` says whether devices are left for a next one.
    `approve` says how one approves the batch {}. So many devices are `unseen` since the end of the soak time, and fail
    at `lost_at`: until then the batch waits for them.
    """
    if over:
        return Verdict(phase=BatchPhase.PASSED, ended=tally.ended, passed=tally.ended)
    if tally.pending or missing:
        return Verdict(phase=BatchPhase.RUNNING)
    ended = tally.ended or opened or now
    if step.blocks and not holds(step, tally):
        return Verdict(phase=BatchPhase.FAILED, message=shortfall(step, tally), ended=ended)
    soaked = ended + timedelta(seconds=step.soak)
    due = ended + timedelta(seconds=step.interval) if follows else ended
    until, message = max(soaked, due), ""
    if now < until:
        message = (
            f"its devices are watched until {_time(until)}" if step.soak else f"the next one opens at {_time(due)}"
        )
    elif unseen and lost_at is not None:
        until = lost_at
        message = f"its soak time is over, and {unseen} of its devices must be seen once more until {_time(until)}"
    if message:
        return Verdict(phase=BatchPhase.SOAKING, message=message, until=until, ended=ended)
    if follows and step.manual and step.name not in approvals:
        message = f"waits for approval: {approve.format(step.name)}"
        return Verdict(phase=BatchPhase.AWAITING_APPROVAL, message=message, ended=ended)
    return Verdict(phase=BatchPhase.PASSED, ended=ended, passed=max(soaked, due))


def holds(step: Step, tally: Counts) -> bool:
    """Whether enough of a batch's devices are well; those that were left out do not count."""
    return tally.done * _WHOLE >= step.success * (tally.done + tally.bad)


def shortfall(step: Step, tally: Counts) -> str:
    """That too few devices are well, in a sentence."""
    judged = tally.done + tally.bad
    worse = f", {tally.regressed} of them fell back after their success" if tally.regressed else ""
    return f"{tally.bad} of {judged} devices of batch {step.name} failed{worse}: {step.success}% must succeed"


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
