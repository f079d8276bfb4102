"""What the two loops ask about another operator that has worked, or works, on the same FlashJobs and devices.

`legacy.Takeover` answers for the original operator. The loops know only these shapes: per device a trace, per job an
estate, and for all of them whether anything may be started.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol, TypeAlias

import msgspec

from edgewright.api.device import Device
from edgewright.api.flashjob import FlashJob, FlashJobStatus
from edgewright.api.pod import Pod
from edgewright.controllers.flashjob.admission import ForeignFlash
from edgewright.controllers.flashjob.reasons import Reason
from edgewright.runtime.objects import Key


class Trace(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What another operator has under way, or has left, for one entry of spec.uuid."""

    busy: str = ""
    """That it is flashing the device, in a sentence: nobody else does until it has ended."""
    blocked: str = ""
    """What stands under the names that we need, in a sentence: nothing is created for the device until it is gone."""
    claimable: bool = False
    """Whether the device can be claimed though it is blocked: what blocks it goes only then."""
    check: bool = False
    """Whether the other had the device for the same order: what it runs then is looked at before it is written."""
    identifies: bool = False
    """Whether only this trace tells which Device it is: once it is claimed, the Device does."""
    ended: datetime | None = None
    """When its last flash ended: the device may be away until some time after that."""


Traces: TypeAlias = Callable[[str, Device | None], Trace]
"""The trace of an entry of spec.uuid, whose Device this is."""
NO_TRACE: Final = Trace()


def no_traces(_uuid: str, _device: Device | None) -> Trace:
    """Nobody else has had any device."""
    return NO_TRACE


@dataclass(frozen=True)
class Meant:
    """What a job means, where another operator has worked for it."""

    devices: Mapping[str, Device]
    """The Device of each entry of spec.uuid that is known."""
    traces: Traces = no_traces
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    """What the job must carry before anything is removed or shown; empty where it does already."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """Why nothing may be started at all."""

    reason: Reason
    message: str
    short: str
    """The same for each device."""
    after: float
    """In how many seconds to ask again."""


class Estate(Protocol):
    """What another operator left for one job, as it was at one look; it is true where there is anything."""

    def __bool__(self) -> bool:
        """Whether there is anything."""

    def meant(self, now: datetime) -> Meant:
        """Which Devices the job means, and what is left of each."""

    async def clear(self, job: FlashJob, *, settled: Collection[str]) -> float:
        """Removes what is of no use any more; in how many seconds to look again.

        `settled` are the entries of spec.uuid of which it is known, without what is left, how to go on.
        """


class Predecessor(Protocol):
    """Another operator that worked on the same FlashJobs, as far as the loops must know of it."""

    async def blocks(self) -> Block | None:
        """Why nothing may be started now: the other is at work itself."""

    async def look(self, job: FlashJob) -> Estate:
        """What it left for a job."""

    async def flashing(self, *, now: datetime) -> Sequence[ForeignFlash]:
        """What it has under way, for whichever job."""

    async def spared(self, job: FlashJob, status: FlashJobStatus) -> FlashJobStatus:
        """The status that may be written now, where the other reads it too."""

    def jobs_of(self, pod: Pod) -> Iterable[Key]:
        """The jobs that are to be looked at when one of its Pods changes."""

    def started(self, job: FlashJob) -> None:
        """Notes that the job is about to get our finalizer."""

    def forget(self, uid: str) -> None:
        """The job is gone."""
