"""What a rollout decides at the end of a soak time: each device that is observed must have been seen then."""

from __future__ import annotations

from typing import Any

import pytest

from edgewright.controllers.rollout.actions import CloseJob
from tests.unit.controllers.rollout.rollout_world import GRACE, World, fleet_of, rollout_of

CANARY = {"name": "canary", "size": 2, "soakSeconds": 30}


def soaked(observe: dict[str, bool] | None = None, **batch: Any) -> tuple[World, str, str]:
    """A canary of two devices, one of them observed, whose soak time is over; the observed one comes first."""
    spec: dict[str, Any] = {} if observe is None else {"observe": observe}
    on = World(rollout_of(batches=[{**CANARY, **batch}], **spec), fleet_of(4))
    on.settle()
    first, second = on.batches()[0]
    on.observed = {first}
    on.later(0.7)
    on.flash()
    on.later(30)
    return on, first, second


def test_a_device_that_disappears_within_a_short_soak_time_does_not_let_its_batch_pass() -> None:
    on, first, _ = soaked()
    status = on.settle()
    assert (status.phase, status.batches[0].phase, len(on.batches())) == ("Soaking", "Soaking", 1)
    assert "1 of its devices must be seen once more until" in status.message
    decision = on.decide()
    assert (decision.unseen, decision.actions) == (1, ())
    assert decision.after == GRACE + 0.25
    on.later(100)
    on.vanish(first)  # by now it has been silent for so long that the inventory says so
    status = on.settle()
    assert status.counts is not None
    assert (status.phase, status.counts.regressed) == ("Failed", 1)


def test_a_device_that_is_seen_at_the_end_of_the_soak_time_lets_its_batch_pass() -> None:
    on, first, _ = soaked()
    on.see(first)
    assert on.settle().phase == "Soaking", "the whole second in which it was seen began before the end"
    on.later(1)
    on.see(first)
    assert any(isinstance(each, CloseJob) for each in on.decide().actions)
    on.settle()
    assert len(on.batches()) == 2


def test_a_device_that_nothing_tells_of_any_more_has_regressed_after_a_while() -> None:
    on, first, _ = soaked()
    on.later(GRACE)
    assert on.settle().phase == "Soaking"
    on.later(1)
    status = on.settle()
    assert status.counts is not None
    assert (status.phase, status.counts.regressed, status.outcomes) == ("Failed", 1, {"regressed": 1, "succeeded": 1})
    assert "1 of them fell back after their success" in status.message
    on.see(first)
    on.settle()
    assert len(on.batches()) == 2, "it was there all the time"


def test_a_rollout_that_nobody_looked_at_gives_its_devices_the_time_again() -> None:
    on, _, _ = soaked()
    on.later(10_000)
    on.since = on.now
    assert on.settle().phase == "Soaking"
    on.later(GRACE + 1)
    assert on.settle().phase == "Failed"


@pytest.mark.parametrize("percent", [50, 0])
def test_a_gate_that_allows_a_lost_device_lets_its_batch_pass_after_the_grace(percent: int) -> None:
    on, _, _ = soaked(gate={"successPercent": percent})
    assert on.settle().phase == "Soaking"
    on.later(GRACE + 1)
    on.settle()
    assert len(on.batches()) == 2


def test_where_nobody_observes_or_nobody_asks_for_it_a_soak_time_ends_as_it_always_did() -> None:
    on, _, _ = soaked()
    on.observed = set()
    on.settle()
    assert len(on.batches()) == 2
    on, _, _ = soaked(observe={"disappeared": False})
    on.settle()
    assert len(on.batches()) == 2


def test_a_device_is_waited_for_only_when_all_of_its_batch_have_ended_and_the_soak_time_is_over() -> None:
    on = World(rollout_of(batches=[CANARY]), fleet_of(4))
    on.settle()
    first, second = on.batches()[0]
    on.observed = {first, second}
    on.flash(first)
    on.later(1000)
    status = on.settle()
    assert status.counts is not None
    assert (status.phase, status.counts.succeeded, on.decide().unseen) == ("Progressing", 1, 0)
    on.flash(second)
    on.later(29)
    assert (on.settle().phase, on.decide().unseen, on.decide().after) == ("Soaking", 0, 1)
    on.later(1)
    assert on.decide().unseen == 2


def test_approval_is_asked_for_once_the_devices_were_seen() -> None:
    on, first, _ = soaked(gate={"approval": "manual"})
    assert on.settle().phase == "Soaking"
    on.later(1)
    on.see(first)
    assert on.settle().phase == "Waiting"
