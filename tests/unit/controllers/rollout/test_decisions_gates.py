"""Whether a batch passes: its share of successes, its soak time, approval."""

from __future__ import annotations

import pytest

from edgewright.api.firmwarerollout import REGRESSED
from edgewright.api.flash_pod import Outcome
from edgewright.controllers.rollout.actions import (
    CloseJob,
)
from tests.unit.controllers.rollout.rollout_world import (
    BEGIN,
    CANARY,
    world,
)


def test_a_batch_with_too_many_failures_keeps_the_next_one_closed() -> None:
    on = world(10, batches=CANARY)
    on.settle()
    first, second = on.batches()[0]
    on.flash(first)
    on.flash(second, outcome=Outcome.REVERTED)
    status = on.settle()
    assert (status.phase, len(on.batches())) == ("Failed", 1)
    assert "1 of 2 devices of batch canary failed: 90% must succeed" in status.message
    assert status.batches[0].phase == "Failed"
    assert status.completion_time is None
    on.ask(batches=[{**CANARY[0], "gate": {"successPercent": 50}}])
    on.settle()
    assert len(on.batches()) == 2


def test_a_batch_is_watched_for_its_soak_time_from_its_end() -> None:
    on = world(4, batches=[{**CANARY[0], "soakSeconds": 600}])
    on.settle()
    on.later(50)
    on.flash()
    on.later(599)
    status = on.settle()
    assert (status.phase, status.observed_by, on.decide().after) == ("Soaking", "Instances", 1)
    on.later(1)
    assert any(isinstance(each, CloseJob) for each in on.decide().actions)
    on.settle()
    assert len(on.batches()) == 2


@pytest.mark.parametrize("how", ["version", "disappeared"])
def test_a_device_that_falls_back_within_the_soak_time_counts_against_its_batch(how: str) -> None:
    on = world(4, batches=[{**CANARY[0], "soakSeconds": 600}])
    on.settle()
    on.flash()
    victim = on.batches()[0][0]
    on.later(10)
    if how == "version":
        on.status(victim, version="1.0.0", last_seen=on.now)
    else:
        on.vanish(victim)
    status = on.settle()
    assert status.counts is not None
    assert (status.phase, status.counts.regressed, status.outcomes[REGRESSED]) == ("Failed", 1, 1)
    on.later(10_000)
    assert on.settle().phase == "Failed"
    on.ask(observe={"version": False, "disappeared": False})
    on.settle()
    assert len(on.batches()) == 2


def test_a_change_in_the_very_second_of_the_success_is_not_missed() -> None:
    on = world(2, batches=[{"name": "canary", "size": 1, "soakSeconds": 600}])
    on.settle()
    on.later(0.7)
    (first,) = on.batches()[0]
    on.flash(first)
    on.status(first, version="0.9.9", last_seen=on.now.replace(microsecond=0))
    status = on.settle()
    assert status.counts is not None
    assert status.counts.regressed == 1


def test_what_a_device_does_after_its_batch_was_closed_is_not_the_rollouts_matter() -> None:
    on = world(4, batches=[{**CANARY[0], "soakSeconds": 600, "gate": {"successPercent": 50}}])
    on.settle()
    on.flash()
    early, late = on.batches()[0]
    on.vanish(early)
    on.later(600)
    on.settle()
    on.vanish(early, holds=False)
    on.vanish(late)
    status = on.settle()
    assert status.counts is not None
    assert status.counts.regressed == 1
    assert status.batches[0].phase == "Passed"


def test_a_batch_with_manual_approval_waits_for_it_by_name() -> None:
    on = world(4, batches=[{**CANARY[0], "gate": {"approval": "manual"}}])
    on.settle()
    on.flash()
    status = on.settle()
    assert (status.phase, status.batches[0].phase) == ("Waiting", "AwaitingApproval")
    assert "rollout approve" in status.message
    on.ask(approvals=["canary"])
    on.settle()
    assert len(on.batches()) == 2


def test_approval_does_not_help_a_batch_that_failed() -> None:
    on = world(4, batches=[{**CANARY[0], "gate": {"approval": "manual"}}], approvals=["canary"])
    on.settle()
    on.flash(outcome=Outcome.REVERTED)
    assert on.settle().phase == "Failed"
    assert len(on.batches()) == 1


def test_failures_in_the_implied_last_batch_make_the_rollout_failed_at_its_end() -> None:
    on = world(40)
    on.settle()
    on.flash("d007", outcome=Outcome.UNREACHABLE)
    on.flash()
    status = on.settle()
    assert status.phase == "Failed"
    assert "rollout retry" in status.message
    assert status.completion_time == BEGIN


def test_failures_that_the_gate_of_a_named_last_batch_allows_do_not() -> None:
    on = world(40, batches=[{"name": "all"}])
    on.settle()
    on.flash("d007", outcome=Outcome.UNREACHABLE)
    on.flash()
    status = on.settle()
    assert (status.phase, len(status.batches)) == ("Completed", 1)
    assert "1 failed, which the gates allow" in status.message
