"""What a device can wait for, in a word.

Admission, survey and metrics share these words; the status tells the same in a sentence. Nothing here decides.
"""

from __future__ import annotations

from enum import StrEnum


class Wait(StrEnum):
    """What a device waits for, in a word for metrics; the status tells the same in a sentence."""

    DISCOVERY = "discovery"
    """Nobody has discovered it."""
    START = "start"
    """The next pass over its job."""
    SLOT = "slot"
    """Others of its job or rollout to end: maxConcurrent is reached."""
    OTHER_JOB = "other-job"
    """Another job that flashes it, or a Device at the same address."""
    OTHER_OPERATOR = "other-operator"
    """Another operator that flashes it, or that has to be stopped."""
    RETRY = "retry"
    """The time of its next attempt."""
    ADDRESS = "address"
    """An address for its Service."""
    POD = "pod"
    """Its Pod to be created, scheduled and started, or a quota to have room for it."""
    CLEANUP = "cleanup"
    """What is left of an earlier flash to go."""
    ROOM = "room"
    """Room on its Device for another outcome."""
    PAUSED = "paused"
    """Somebody to resume its job or rollout."""
    SECRET = "secret"  # noqa: S105 - no secret, but the word
    """A Secret that is missing or cannot be read."""
    SPEC = "spec"
    """Somebody to correct the spec."""
    DEVICE = "device"
    """Its Device, which cannot be written."""
    NAMESPACE = "namespace"
    """Its Device to allow jobs of this namespace."""
    FROZEN = "frozen"
    """The fleet to thaw."""
    WINDOW = "window"
    """The next window of its rollout."""
    RATE = "rate"
    """Its turn: maxPerMinute of its rollout is reached."""
    BUDGET = "budget"
    """Others of its group, which are being updated or broken."""
    QUARANTINE = "quarantine"
    """Somebody to release it: its flashes keep failing."""
    ABORTED = "aborted"
    """Nothing any more: its rollout is aborted, or gone."""


HELD_BY_PEOPLE = frozenset(
    {Wait.PAUSED, Wait.SPEC, Wait.NAMESPACE, Wait.FROZEN, Wait.WINDOW, Wait.QUARANTINE, Wait.ABORTED}
)
"""What waits for somebody's decision: it says nothing of how well the operator does."""
