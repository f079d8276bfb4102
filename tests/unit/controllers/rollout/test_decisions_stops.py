"""What stops a rollout and what lets it go on: rules, people, the frozen fleet and windows."""

from __future__ import annotations

from typing import Any

import pytest

from edgewright.api.flash_pod import Outcome
from edgewright.controllers.rollout.actions import (
    NoteRequests,
    ResumeJob,
)
from tests.unit.controllers.rollout.rollout_world import (
    BEGIN,
    CANARY,
    World,
    world,
)

# --- stop ------------------------------------------------------------------------------------------------------------


def stopping(action: str, **rule: Any) -> World:
    """Ten devices in one batch, with a rule of stop."""
    on = world(10, stop=[{"action": action, **rule}])
    on.settle()
    return on


def test_a_rule_pauses_the_jobs_and_stays_held_when_its_share_falls_again() -> None:
    on = stopping("pause", threshold="50%", minSample=2)
    names = on.batches()[0]
    on.flash(names[0], outcome=Outcome.REVERTED)
    assert on.settle().phase == "Progressing", "one device is no sample"
    for name in names[2:8]:
        on.start(name)
    on.flash(names[1], outcome=Outcome.REVERTED)
    status = on.settle()
    assert status.phase == "Paused"
    assert "2 of 2 devices that have ended failed (2 reverted)" in status.message
    assert all(job.spec.paused for job in on.jobs.values())
    for name in names[2:8]:
        on.end(name)
    assert on.settle().phase == "Paused"
    assert not on.startable()


def test_a_pause_by_a_rule_ends_when_somebody_resumes_and_earlier_outcomes_count_no_more() -> None:
    on = stopping("pause", threshold=1)
    first, second, *_ = on.batches()[0]
    on.flash(first, outcome=Outcome.REVERTED)
    assert on.settle().phase == "Paused"
    on.later(60)
    on.ask(resumeRequest="go on")
    assert [type(each) for each in on.step().actions] == [NoteRequests], "when it was asked is written down first"
    assert any(isinstance(each, ResumeJob) for each in on.decide().actions)
    assert on.settle().phase == "Progressing"
    on.ask(resumeRequest="")
    assert on.settle().phase == "Progressing", "what was asked stays asked"
    on.later(1)
    on.flash(second, outcome=Outcome.REVERTED)
    assert on.settle().phase == "Paused"


@pytest.mark.parametrize(
    ("rule", "outcomes", "held"),
    [
        ({"threshold": 2}, ["reverted"], False),
        ({"threshold": 2}, ["reverted", "unreachable"], True),
        ({"threshold": 2, "outcomes": ["reverted"]}, ["reverted", "unreachable"], False),
        ({"threshold": "2", "outcomes": ["reverted"]}, ["reverted", "reverted"], True),
        ({"threshold": "20%", "minSample": 5}, ["reverted", "succeeded", "succeeded", "succeeded"], False),
        ({"threshold": "20%", "minSample": 5}, ["reverted", *["succeeded"] * 4], True),
        ({"threshold": "21%", "minSample": 5}, ["reverted", *["succeeded"] * 4], False),
        ({"threshold": "1%"}, ["succeeded"], False),
    ],
)
def test_a_rule_counts(rule: dict[str, Any], outcomes: list[str], held: bool) -> None:
    on = stopping("abort", **rule)
    for name, outcome in zip(on.batches()[0], outcomes, strict=False):
        on.flash(name, outcome=outcome)
    assert (on.settle().phase == "Aborted") is held


def test_waiting_is_no_failure() -> None:
    on = stopping("abort", threshold=1)
    on.later(10_000_000)
    assert on.settle().phase == "Progressing"


def test_an_abort_is_for_ever_and_lets_those_under_way_finish() -> None:
    on = stopping("abort", threshold=1)
    first, second, third, *_ = on.batches()[0]
    on.start(second)
    on.flash(first, outcome=Outcome.CORRUPT)
    status = on.settle()
    assert (status.phase, status.completion_time) == ("Aborted", None)
    assert "1 devices under way" in status.message
    on.end(second)
    on.ask(resumeRequest="again", stop=[])
    status = on.settle()
    assert status.phase == "Aborted"
    assert status.completion_time is not None
    assert third not in on.startable()


def test_spec_aborted_is_written_down_so_that_it_is_for_ever() -> None:
    on = world(3)
    on.settle()
    on.ask(aborted=True)
    assert on.settle().phase == "Aborted"
    on.ask(aborted=None)
    status = on.settle()
    assert (status.phase, on.startable()) == ("Aborted", [])


def test_spec_aborted_before_anything_began_makes_nothing() -> None:
    on = world(3, aborted=True)
    assert on.settle().phase == "Aborted"
    assert not on.jobs


def test_the_more_severe_of_two_rules_wins_also_after_a_pause() -> None:
    on = world(10, stop=[{"action": "abort", "threshold": 2}, {"action": "pause", "threshold": 1}])
    on.settle()
    first, second, *_ = on.batches()[0]
    on.start(second)
    on.flash(first, outcome=Outcome.FAILED)
    assert on.settle().phase == "Paused"
    on.end(second, Outcome.FAILED)
    assert on.settle().phase == "Aborted"


def test_a_device_that_regresses_may_stop_the_rollout() -> None:
    soaking = [{**CANARY[0], "soakSeconds": 60, "gate": {"successPercent": 0}}]
    on = world(4, batches=soaking, stop=[{"action": "pause", "outcomes": ["regressed"]}])
    on.settle()
    on.flash()
    on.vanish(on.batches()[0][0])
    assert on.settle().phase == "Paused"


# --- pause, freeze, windows ------------------------------------------------------------------------------------------


def test_while_it_is_paused_nothing_opens_and_jobs_stand_still_until_it_goes_on() -> None:
    on = world(4, batches=CANARY)
    on.settle()
    on.ask(paused=True)
    assert on.settle().phase == "Paused"
    assert on.startable() == []
    on.ask(paused=None)
    on.settle()
    assert len(on.startable()) == 2


def test_a_job_that_somebody_else_paused_is_left_paused() -> None:
    on = world(2)
    on.settle()
    (job,) = on.jobs.values()
    on._change(job, paused=True)
    assert on.decide().actions == ()


def test_while_the_fleet_is_frozen_no_batch_opens_and_the_reason_is_told() -> None:
    on = world(4, batches=CANARY)
    on.freeze()
    status = on.settle()
    assert (status.phase, on.jobs) == ("Waiting", {})
    assert status.message == "the fleet is frozen by ann: audit; edgewright unfreeze ends that"
    on.freeze(frozen=False)
    on.settle()
    on.start(on.batches()[0][0])
    on.freeze()
    status = on.settle()
    assert status.phase == "Progressing"
    assert "none is started: the fleet is frozen" in status.message


def test_outside_its_windows_no_batch_opens_and_the_next_opening_is_shown() -> None:
    on = world(4, windows=[{"cron": "0 22 * * *", "durationSeconds": 3600}])
    status = on.settle()
    assert (status.phase, on.jobs) == ("Waiting", {})
    assert status.next_opening == BEGIN.replace(hour=22)
    assert "2026-11-02 22:00 UTC" in status.message
    assert on.decide().after == 10 * 3600
    on.later(10 * 3600)
    status = on.settle()
    assert (status.phase, on.decide().after) == ("Progressing", 3600)
