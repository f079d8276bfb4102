"""What must still be told of a rollout, and what was told last: remembered in an annotation of the rollout.

The loop writes a notice down before it sends it and takes it out once it was delivered, so a restart or another leader
neither forgets one nor tells it again. It is not in the status, which may be wiped. Whoever may change a rollout may
change the annotation too: nothing in it can speak for another rollout. Pure.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec

from edgewright.api.firmwarerollout import NOTIFICATIONS_ANNOTATION, FirmwareRollout
from edgewright.controllers.notifications.transitions import Notice, State, notice_of, state_of
from edgewright.runtime.objects import Struct

MAX_PENDING: Final = 8
"""So many notices of a rollout wait at most; the oldest goes first."""


class Outbox(Struct, frozen=True, kw_only=True):
    """What is remembered of one rollout."""

    uid: str = ""
    """Of the rollout that it is about: a copy of the rollout has its annotations."""
    state: State | None = None
    """The state that was last told or is about to be, while it lasts."""
    pending: tuple[Notice, ...] = ()
    """What was not delivered yet, in order."""


def outbox_of(rollout: FirmwareRollout) -> Outbox:
    """What stands on a rollout; what cannot be read, or is about another one, counts as nothing."""
    uid = rollout.metadata.uid
    text = rollout.metadata.annotations.get(NOTIFICATIONS_ANNOTATION)
    if not text:
        return Outbox(uid=uid)
    try:
        found = msgspec.json.decode(text, type=Outbox)
    except (msgspec.MsgspecError, ValueError):
        return Outbox(uid=uid)
    if found.uid != uid:
        return Outbox(uid=uid)
    return msgspec.structs.replace(found, pending=found.pending[-MAX_PENDING:])


def written(outbox: Outbox) -> str | None:
    """The annotation's text; None where there is nothing to remember."""
    if outbox.state is None and not outbox.pending:
        return None
    return msgspec.json.encode(outbox).decode()


def advance(rollout: FirmwareRollout, outbox: Outbox, now: datetime, *, give_up: float) -> Outbox:
    """The outbox as it must be for what the rollout shows now; equal to the one that it has where nothing is new.

    A status that was wiped, or is about an earlier spec, tells nothing. What ended longer ago than anybody would have
    tried to tell it is not told: a webhook that is added to a fleet does not tell of its past.
    """
    status = rollout.status
    if not status.phase or status.observed_generation != rollout.metadata.generation:
        return outbox
    state = state_of(rollout)
    if state == outbox.state:
        return outbox
    pending = outbox.pending
    if state is not None:
        ended = status.completion_time
        if outbox.state is None and ended is not None and now - ended > timedelta(seconds=give_up):
            return outbox
        pending = (*pending, notice_of(rollout, state, now))[-MAX_PENDING:]
    return msgspec.structs.replace(outbox, state=state, pending=pending)


def without(outbox: Outbox, notice: Notice) -> Outbox:
    """The outbox once this one was delivered or given up."""
    return msgspec.structs.replace(outbox, pending=tuple(each for each in outbox.pending if each != notice))
