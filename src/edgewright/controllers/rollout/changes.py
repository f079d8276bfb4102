"""What people ask of a rollout after it was made, as changes of its spec: pause, resume, approve, abort, retry.

The command line and the REST API call these with the rollout as they read it, and write what comes back as a merge
patch on that state, so that kubectl, GitOps and the audit log see the same thing. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

from edgewright.api.firmwarerollout import BatchStatus, FirmwareRollout, RolloutPhase

Change: TypeAlias = dict[str, Any]
"""A merge patch of the spec."""

ENDED: Final = frozenset({RolloutPhase.COMPLETED, RolloutPhase.FAILED, RolloutPhase.ABORTED, RolloutPhase.RECALLED})
"""The phases in which nothing goes on by itself."""


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What goes with an action."""

    batch: str = ""
    """With approve: which; empty: the one that waits."""
    request: str = ""
    """With resume and retry: a text that was never there before; when it was seen is noted on the operator's clock."""


class NotPossible(Exception):
    """The rollout is in no state for it; the text says why and what to do."""


@contextmanager
def refused_as(error: Callable[[str], Exception]) -> Iterator[None]:
    """What the rollout is in no state for is raised as the caller's own error, with the reason."""
    try:
        yield
    except NotPossible as reason:
        raise error(str(reason)) from reason


def pause(rollout: FirmwareRollout, wish: Wish) -> Change | None:
    """No further device is started until somebody resumes it; None: it is so already."""
    del wish
    _refuse_ended(rollout, "pause")
    return None if rollout.spec.paused else {"paused": True}


def resume(rollout: FirmwareRollout, wish: Wish) -> Change | None:
    """It goes on, and what stopped it does not count any more."""
    _refuse_aborted(rollout)
    return {"paused": None, "resumeRequest": wish.request}


def approve(rollout: FirmwareRollout, wish: Wish) -> Change | None:
    """It goes on after the named batch, or else after the one that waits."""
    name, known = rollout.metadata.name, [each.name for each in rollout.spec.batches]
    waiting = awaited(rollout)
    chosen = wish.batch or (waiting.name if waiting is not None else "")
    if not chosen:
        raise NotPossible(f"no batch of rollout {name} waits for approval")
    if known and chosen not in known:
        raise NotPossible(f"rollout {name} has no batch {chosen}: it has {', '.join(known)}")
    if chosen in rollout.spec.approvals:
        return None
    return {"approvals": [*rollout.spec.approvals, chosen]}


def abort(rollout: FirmwareRollout, wish: Wish) -> Change | None:
    """No further device is ever started; those under way finish."""
    del wish
    _refuse_ended(rollout, "abort")
    return None if rollout.spec.aborted else {"aborted": True}


def retry(rollout: FirmwareRollout, wish: Wish) -> Change | None:
    """The devices that failed are tried once more, and it goes on."""
    _refuse_aborted(rollout)
    return {"paused": None, "resumeRequest": wish.request, "retryRequest": wish.request}


class Action(Protocol):
    """One of the above."""

    def __call__(self, rollout: FirmwareRollout, wish: Wish) -> Change | None: ...


CHANGES: Final[dict[str, Action]] = {
    "pause": pause,
    "resume": resume,
    "approve": approve,
    "abort": abort,
    "retry": retry,
}
"""Each by the word that people use."""


def awaited(rollout: FirmwareRollout) -> BatchStatus | None:
    """The batch that waits for somebody's approval."""
    return next((each for each in rollout.status.batches if each.phase == "AwaitingApproval"), None)


def has_ended(rollout: FirmwareRollout) -> bool:
    """Whether nothing more happens to the devices of the rollout as it is declared now."""
    status = rollout.status
    under_way = status.counts is not None and status.counts.flashing > 0
    return status.observed_generation >= rollout.metadata.generation and status.phase in ENDED and not under_way


def refuse_recall(rollout: FirmwareRollout, verb: str) -> None:
    """Refuses to go back behind a rollout that goes back itself: what its devices ran is not one thing."""
    if rollout.spec.recall is not None:
        name = rollout.metadata.name
        raise NotPossible(
            f"rollout {name} is the recall of {rollout.spec.recall.name}: there is no {verb} of a recall, "
            "create a rollout of the firmware that its devices must run"
        )


def _refuse_ended(rollout: FirmwareRollout, verb: str) -> None:
    if has_ended(rollout):
        raise NotPossible(
            f"rollout {rollout.metadata.name} has ended as {rollout.status.phase}: there is nothing to {verb}"
        )


def _refuse_aborted(rollout: FirmwareRollout) -> None:
    if rollout.spec.aborted:
        raise NotPossible(f"rollout {rollout.metadata.name} was aborted, which is for good: create a new one")
