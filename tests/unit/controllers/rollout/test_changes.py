"""What people ask of a rollout, as changes of its spec: a table."""

from __future__ import annotations

from typing import Any

import pytest

from edgewright.api.firmwarerollout import (
    Batch,
    BatchStatus,
    FirmwareRollout,
    FirmwareRolloutSpec,
    FirmwareRolloutStatus,
    OutcomeCounts,
    RolloutPhase,
)
from edgewright.controllers.rollout.changes import CHANGES, NotPossible, Wish, has_ended
from edgewright.runtime.objects import ObjectMeta


def rollout(
    phase: str = RolloutPhase.PROGRESSING, *, waiting: str = "", flashing: int = 0, **spec: Any
) -> FirmwareRollout:
    batches = (BatchStatus(number=1, name=waiting, phase="AwaitingApproval"),) if waiting else ()
    return FirmwareRollout(
        metadata=ObjectMeta(name="r", namespace="default", generation=1),
        spec=FirmwareRolloutSpec(batches=(Batch(name="canary"), Batch(name="north")), **spec),
        status=FirmwareRolloutStatus(
            phase=phase, observed_generation=1, batches=batches, counts=OutcomeCounts(flashing=flashing)
        ),
    )


@pytest.mark.parametrize(
    ("action", "before", "wish", "change"),
    [
        ("pause", rollout(), Wish(), {"paused": True}),
        ("pause", rollout(paused=True), Wish(), None),
        ("resume", rollout(paused=True), Wish(request="7"), {"paused": None, "resumeRequest": "7"}),
        ("retry", rollout(), Wish(request="7"), {"paused": None, "resumeRequest": "7", "retryRequest": "7"}),
        (
            "retry",
            rollout(RolloutPhase.FAILED),
            Wish(request="7"),
            {"paused": None, "resumeRequest": "7", "retryRequest": "7"},
        ),
        ("approve", rollout(waiting="canary"), Wish(), {"approvals": ["canary"]}),
        ("approve", rollout(approvals=("canary",)), Wish(batch="north"), {"approvals": ["canary", "north"]}),
        ("approve", rollout(approvals=("canary",)), Wish(batch="canary"), None),
        ("abort", rollout(), Wish(), {"aborted": True}),
        ("abort", rollout(aborted=True), Wish(), None),
        ("abort", rollout(RolloutPhase.COMPLETED, flashing=1), Wish(), {"aborted": True}),
    ],
)
def test_an_action_is_a_change_of_the_spec_or_nothing(
    action: str, before: FirmwareRollout, wish: Wish, change: dict[str, Any] | None
) -> None:
    assert CHANGES[action](before, wish) == change


@pytest.mark.parametrize(
    ("action", "before", "wish", "why"),
    [
        ("pause", rollout(RolloutPhase.COMPLETED), Wish(), "has ended as Completed: there is nothing to pause"),
        ("abort", rollout(RolloutPhase.FAILED), Wish(), "has ended as Failed: there is nothing to abort"),
        ("resume", rollout(aborted=True), Wish(), "was aborted, which is for good"),
        ("retry", rollout(aborted=True), Wish(), "was aborted, which is for good"),
        ("approve", rollout(), Wish(), "no batch of rollout r waits for approval"),
        ("approve", rollout(), Wish(batch="south"), "has no batch south: it has canary, north"),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(
    action: str, before: FirmwareRollout, wish: Wish, why: str
) -> None:
    with pytest.raises(NotPossible, match=why):
        CHANGES[action](before, wish)


def test_a_rollout_has_ended_when_nothing_is_under_way_and_its_spec_was_seen() -> None:
    assert has_ended(rollout(RolloutPhase.COMPLETED))
    assert not has_ended(rollout(RolloutPhase.COMPLETED, flashing=1))
    assert not has_ended(rollout(RolloutPhase.PAUSED))
