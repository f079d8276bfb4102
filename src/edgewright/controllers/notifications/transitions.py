"""Which states of a rollout somebody is told of, and what is said of them.

`outbox` asks it in every pass. It reads what the rollout loop shows in the status and decides nothing about the
rollout itself. Pure: no I/O, no clock.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final, TypeAlias

from msgspec import Meta

from edgewright.api.firmwarerollout import BatchStatus, FirmwareRollout, OutcomeCounts, RolloutPhase
from edgewright.controllers.rollout.status import PROGRESSING
from edgewright.controllers.staging.gates import BatchPhase
from edgewright.runtime.conditions import find
from edgewright.runtime.objects import Struct
from edgewright.runtime.text import cut

MAX_MESSAGE: Final = 512
"""So much of the sentence in the status is told: it stands in an annotation until it was delivered."""


Moment: TypeAlias = Annotated[datetime, Meta(tz=True)]


class NoticeType(StrEnum):
    """What somebody is told of."""

    PAUSED = "paused"
    """By a person or by a rule of stop."""
    FAILED = "failed"
    """More devices failed than a gate allows, or than a rollout without gates may have."""
    ABORTED = "aborted"
    RECALLED = "recalled"
    APPROVAL_NEEDED = "approval-needed"
    COMPLETED = "completed"


_PHASES: Final = {
    RolloutPhase.PAUSED: NoticeType.PAUSED,
    RolloutPhase.FAILED: NoticeType.FAILED,
    RolloutPhase.ABORTED: NoticeType.ABORTED,
    RolloutPhase.RECALLED: NoticeType.RECALLED,
    RolloutPhase.COMPLETED: NoticeType.COMPLETED,
}


class State(Struct, frozen=True, kw_only=True):
    """What tells one state of a rollout from another: as long as it is equal, nothing new is told."""

    type: NoticeType
    revision: int = 0
    batch: int = 0
    """The number of the latest batch that is open; 0 where none is."""


class Notice(Struct, frozen=True, kw_only=True):
    """One thing to tell, whole: what is sent again is what was sent before."""

    state: State
    time: Moment
    """When the operator saw it."""
    generation: int = 0
    ended: Moment | None = None
    """When the rollout ended, where it has: one that goes on for devices which appear later ends more than once."""
    phase: str = ""
    reason: str = ""
    message: str = ""
    batch_name: str = ""
    progress: str = ""
    counts: OutcomeCounts | None = None


def state_of(rollout: FirmwareRollout) -> State | None:
    """The state that somebody is told of; None where the rollout is in none."""
    status = rollout.status
    top = _top(rollout)
    waits = top is not None and top.phase == BatchPhase.AWAITING_APPROVAL
    # A batch may wait for a person and, at once, the rollout for its window or the fleet to thaw: still told.
    approval = NoticeType.APPROVAL_NEEDED if status.phase == RolloutPhase.WAITING and waits else None
    found = next((told for phase, told in _PHASES.items() if phase == status.phase), approval)
    if found is None:
        return None
    return State(type=found, revision=status.revision, batch=top.number if top is not None else 0)


def notice_of(rollout: FirmwareRollout, state: State, now: datetime) -> Notice:
    """What is told of a rollout that is in a state."""
    status, top = rollout.status, _top(rollout)
    progressing = find(status.conditions, PROGRESSING)
    return Notice(
        state=state,
        time=now.replace(microsecond=0),
        generation=rollout.metadata.generation,
        ended=status.completion_time,
        phase=status.phase,
        reason=progressing.reason if progressing is not None else "",
        message=cut(status.message, MAX_MESSAGE),
        batch_name=top.name if top is not None else "",
        progress=status.progress,
        counts=status.counts,
    )


def notice_id(uid: str, notice: Notice) -> str:
    """The id by which a receiver knows that it has this already; no rollout can have one of another's."""
    state = notice.state
    ended = notice.ended if state.type is NoticeType.COMPLETED else None
    parts = (uid, state.type.value, state.revision, notice.generation, state.batch, ended.isoformat() if ended else "")
    return "msg_" + hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()[:32]


def _top(rollout: FirmwareRollout) -> BatchStatus | None:
    """The latest batch that was opened."""
    opened = [each for each in rollout.status.batches if each.phase != BatchPhase.PLANNED]
    return max(opened, key=lambda each: each.number, default=None)
