"""What a rollout may have to do: a list of these is what the decisions give and the loop carries out, in their order.

Each may be cut off by a crash before or after: what is left is a world as any other, and is decided on again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from edgewright.api.firmwarerollout import FirmwareRollout
from edgewright.api.flashjob import FlashJob
from edgewright.controllers.rollout.jobs import Closed, Stop
from edgewright.controllers.rollout.requests import Requests


@dataclass(frozen=True)
class CreateJob:
    """Make a FlashJob: a batch opens, or gets more devices."""

    job: FlashJob
    batch: int
    opens: bool = False
    """Whether it is the first one of its batch."""


@dataclass(frozen=True)
class ExtendJob:
    """Give a FlashJob further devices."""

    job: FlashJob
    uuids: tuple[str, ...]
    """All of them, those that it has first."""


@dataclass(frozen=True)
class HaltJob:
    """Pause a FlashJob, and write down on it why."""

    job: FlashJob
    stop: Stop


@dataclass(frozen=True)
class ResumeJob:
    """Let a FlashJob go on that the rollout had paused."""

    job: FlashJob


@dataclass(frozen=True)
class LimitJob:
    """Change how many devices a FlashJob flashes at once."""

    job: FlashJob
    max_concurrent: int | None


@dataclass(frozen=True)
class NoteRequests:
    """Write down on a FlashJob when it was seen that the rollout is to resume, or to try failed devices again."""

    job: FlashJob
    requests: Requests


@dataclass(frozen=True)
class CloseJob:
    """Write down on a FlashJob that its batch has passed."""

    job: FlashJob
    closed: Closed


@dataclass(frozen=True)
class DeleteJob:
    """Delete a FlashJob of a revision that is not kept any more."""

    job: FlashJob


@dataclass(frozen=True)
class CreateRecall:
    """Make the rollout that takes the devices back."""

    rollout: FirmwareRollout


@dataclass(frozen=True)
class DeleteRollout:
    """Delete the rollout itself: its time after its end is over."""


Action: TypeAlias = (
    CreateJob
    | ExtendJob
    | HaltJob
    | ResumeJob
    | LimitJob
    | NoteRequests
    | CloseJob
    | DeleteJob
    | CreateRecall
    | DeleteRollout
)
STARTS: tuple[type, ...] = (CreateJob, ExtendJob, ResumeJob)
"""Those after which a device may be started that could not be before."""
