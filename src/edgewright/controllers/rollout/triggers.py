"""Which changes in the world are a reason to look at a rollout again, and at which one.

The loop gives these to the controller as its sources. Pure, and quick: they see every change of every Device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from edgewright.api.device import Device
from edgewright.api.firmwarerollout import FirmwareRollout
from edgewright.api.flashjob import ACCEPTED
from edgewright.controllers.rollout.selection import Choice, choice_of
from edgewright.runtime.cache import Cache, Change
from edgewright.runtime.conditions import find
from edgewright.runtime.objects import Key
from edgewright.runtime.predicates import intent_changed


def tells_of_job(change: Change[Any]) -> bool:
    """Whether a change of a FlashJob is one that its rollout acts on: what its devices do stands on the Devices."""
    old, new = change.old, change.new
    if old is None or new is None or intent_changed(change):
        return True
    before, after = find(old.status.conditions, ACCEPTED), find(new.status.conditions, ACCEPTED)
    refused = (before.status if before else "", before.message if before else "")
    return bool(
        old.status.phase != new.status.phase
        or old.status.observed_generation != new.status.observed_generation
        or refused != (after.status if after else "", after.message if after else "")
        or _failed(old) != _failed(new)
    )


def tells_of_device(change: Change[Any]) -> bool:
    """Whether a change of a Device is one that a rollout acts on or shows; that it was seen once more is not."""
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    before, after = old.status, new.status
    return bool(
        before.claim != after.claim
        or before.records != after.records
        or before.version != after.version
        or before.application != after.application
        or before.firmware != after.firmware
        or before.instances != after.instances
        or [(each.type, each.status) for each in before.conditions]
        != [(each.type, each.status) for each in after.conditions]
        or old.spec != new.spec
        or old.metadata.labels != new.metadata.labels
        or old.metadata.deletion_timestamp != new.metadata.deletion_timestamp
    )


class Watchers:
    """Which rollouts a Device concerns: those that have flashed it or are about to, and those that select it."""

    def __init__(self, rollouts: Cache[FirmwareRollout]) -> None:
        self._rollouts = rollouts
        self._choices: dict[Key, tuple[int, str, Choice]] = {}

    def of_device(self, device: Device) -> Iterable[Key]:
        """The rollouts that a Device concerns."""
        return list(self._of_device(device))

    def _of_device(self, device: Device) -> Iterator[Key]:
        known = {record.rollout for record in device.status.records if record.rollout}
        if device.status.claim is not None and device.status.claim.rollout:
            known.add(device.status.claim.rollout)
        for rollout in self._rollouts:
            recalled = rollout.spec.recall
            meant = recalled.uid in known if recalled is not None else self._choice(rollout)(device)
            if meant or rollout.metadata.uid in known:
                yield rollout.key

    def _choice(self, rollout: FirmwareRollout) -> Choice:
        metadata = rollout.metadata
        known = self._choices.get(rollout.key)
        if known is None or known[:2] != (metadata.generation, metadata.uid):
            if len(self._choices) > 2 * len(self._rollouts) + 1:
                self._choices.clear()  # those of rollouts that are gone
            known = self._choices[rollout.key] = (metadata.generation, metadata.uid, choice_of(rollout.spec))
        return known[2]


def _failed(job: Any) -> int:
    counts = job.status.counts
    return counts.failed if counts is not None else 0
