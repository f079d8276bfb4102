"""Which Devices a rollout watches now: those that it has changed, until their batch has passed its soak time.

The loop that asks devices what they run asks these too, and more often, also where an Instance shows them: an Instance
goes on telling what a device ran when it was found. It reads caches and writes nothing.
"""

from __future__ import annotations

from typing import Final

from edgewright.api.device import Device
from edgewright.api.firmwarerollout import BATCH_ANNOTATION, CLOSED_ANNOTATION, FirmwareRollout, RolloutPhase
from edgewright.api.flash_pod import Outcome
from edgewright.api.flashjob import FlashJob
from edgewright.controllers.flashjob.limits import owner_of
from edgewright.runtime.cache import Cache
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

    def _is_open(self, key: Key, uid: str) -> bool:
        job = self._jobs.get(key)
        owner = owner_of(job) if job is not None and job.metadata.uid == uid else None
        rollout = self._rollouts.get(owner.key) if owner is not None else None
        if job is None or owner is None or rollout is None or rollout.metadata.uid != owner.uid:
            return False
        return watches(rollout, job)


def watches(rollout: FirmwareRollout, job: FlashJob) -> bool:
    """Whether the devices of a FlashJob of the rollout are in a batch whose soak time is not over."""
    marks = job.metadata.annotations
    if CLOSED_ANNOTATION in marks or rollout.status.phase in _OVER or rollout.deleting:
        return False
    text = marks.get(BATCH_ANNOTATION, "")
    number = int(text) if text.isascii() and text.isdigit() else 0
    batches = rollout.spec.batches
    return 0 < number <= len(batches) and batches[number - 1].soak_seconds > 0
