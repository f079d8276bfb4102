"""Which Devices a rollout watches now: those that it has changed, until their batch has passed its soak time.

The loop that asks devices what they run asks these too, and more often, also where an Instance shows them: an Instance
goes on telling what a device ran when it was found. It reads caches and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from edgewright.api.device import Device
from edgewright.api.firmwarerollout import BATCH_ANNOTATION, CLOSED_ANNOTATION, FirmwareRollout, RolloutPhase
from edgewright.api.flash_pod import Outcome
from edgewright.api.flashjob import FlashJob
from edgewright.controllers.flashjob.limits import owner_of
from edgewright.controllers.rollout.soak import must_be_seen
from edgewright.runtime.cache import Cache, Change
from edgewright.runtime.controller import Maps
from edgewright.runtime.objects import Key

_GOOD: Final = frozenset(outcome.value for outcome in Outcome if outcome.good)
_OVER: Final = frozenset({RolloutPhase.COMPLETED.value, RolloutPhase.ABORTED.value, RolloutPhase.RECALLED.value})


class Observation:
    """Says of a Device whether a rollout watches it."""

    def __init__(self, jobs: Cache[FlashJob], rollouts: Cache[FirmwareRollout]) -> None:
        self._jobs = jobs
        self._rollouts = rollouts

    def covers(self, device: Device) -> bool:
        """Whether a rollout watches the Device now."""
        return any(
            self._is_open(Key(record.job.namespace, record.job.name), record.job.uid)
            for record in device.status.records
            if record.rollout and record.outcome in _GOOD
        )

    def due(self, device: Device) -> datetime | None:
        """From when on the Device must be seen for its soak time to end well; None where that is not known (yet)."""
        found = (
            _soak_end(rollout, job)
            for record in device.status.records
            if record.rollout and record.outcome in _GOOD
            for rollout, job in self._open(Key(record.job.namespace, record.job.name), record.job.uid)
        )
        return max((moment for moment in found if moment is not None), default=None)

    def members(self, rollout: FirmwareRollout) -> Iterator[Key]:
        """The Devices that the rollout watches, or will."""
        for job in self._jobs:
            owner = owner_of(job)
            if owner is not None and owner.uid == rollout.metadata.uid and watches(rollout, job):
                yield from (Key("", name) for name in job.spec.uuids)

    def wakes(self) -> Maps:
        """What gives the Devices of a batch a pass of their own once the end of their soak time is known."""
        return Maps(self._rollouts, to=self.members, when=soak_end_changed)

    def _is_open(self, key: Key, uid: str) -> bool:
        return any(True for _ in self._open(key, uid))

    def _open(self, key: Key, uid: str) -> Iterator[tuple[FirmwareRollout, FlashJob]]:
        """The FlashJob and its rollout, where that watches its devices."""
        job = self._jobs.get(key)
        owner = owner_of(job) if job is not None and job.metadata.uid == uid else None
        rollout = self._rollouts.get(owner.key) if owner is not None else None
        if job is None or owner is None or rollout is None or rollout.metadata.uid != owner.uid:
            return
        if watches(rollout, job):
            yield rollout, job


def watches(rollout: FirmwareRollout, job: FlashJob) -> bool:
    """Whether the devices of a FlashJob of the rollout are in a batch whose soak time is not over."""
    if CLOSED_ANNOTATION in job.metadata.annotations or rollout.status.phase in _OVER or rollout.deleting:
        return False
    return _soak_of(rollout, job) > 0


def soak_end_changed(change: Change[FirmwareRollout]) -> bool:
    """Whether a batch of a rollout that watches its devices has ended, or ends at another time than it did."""
    return change.new is not None and (change.old is None or _ends(change.old) != _ends(change.new))


def _ends(rollout: FirmwareRollout) -> list[tuple[int, datetime | None, int]]:
    soaks = [batch.soak_seconds for batch in rollout.spec.batches]
    shown = (batch for batch in rollout.status.batches if 0 < batch.number <= len(soaks))
    return [(each.number, each.ended, soaks[each.number - 1]) for each in shown if soaks[each.number - 1]]


def _soak_end(rollout: FirmwareRollout, job: FlashJob) -> datetime | None:
    number = _number(job)
    ended = next((batch.ended for batch in rollout.status.batches if batch.number == number), None)
    return None if ended is None else must_be_seen(ended, _soak_of(rollout, job))


def _soak_of(rollout: FirmwareRollout, job: FlashJob) -> int:
    number, batches = _number(job), rollout.spec.batches
    return batches[number - 1].soak_seconds if 0 < number <= len(batches) else 0


def _number(job: FlashJob) -> int:
    text = job.metadata.annotations.get(BATCH_ANNOTATION, "")
    return int(text) if text.isascii() and text.isdigit() else 0
