"""What a rollout does next, rule by rule, in a world without a server."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from edgewright.api.device import Claim, JobReference
from edgewright.api.firmwarerollout import JOB_DEVICES, REGRESSED
from edgewright.api.flash_pod import Outcome
from edgewright.controllers.rollout.actions import (
    CloseJob,
    CreateJob,
    CreateRecall,
    DeleteJob,
    ExtendJob,
    HaltJob,
    LimitJob,
    NoteRequests,
    ResumeJob,
)
from edgewright.controllers.rollout.plan import plan
from edgewright.runtime.conditions import find
from edgewright.runtime.objects import ObjectMeta
from tests.unit.controllers.rollout.rollout_world import (
    BEFORE,
    BEGIN,
    World,
    device_of,
    fleet_of,
    replace,
    rollout_of,
)

CANARY = [{"name": "canary", "size": 2}]


def world(number: int = 10, **spec: Any) -> World:
    """A fleet with a rollout on it."""
    return World(rollout_of(**spec), fleet_of(number))


# --- batches --------------------------------------------------------------------------------------------------------


def test_without_any_form_all_devices_are_one_batch() -> None:
    on = world(3)
    on.settle()
    assert [len(each) for each in on.batches()] == [3]
    on.flash()
    assert on.settle().phase == "Completed"


def test_the_next_batch_opens_only_when_the_one_before_has_ended_and_passed() -> None:
    on = world(10, batches=[*CANARY, {"name": "half", "size": "50%"}])
    assert on.settle().batch == "canary (1/3)"
    first, second = on.batches()[0]
    on.flash(first)
    assert len(on.batches()) == 1
    assert on.settle().phase == "Progressing"
    on.flash(second)
    on.settle()
    assert [len(each) for each in on.batches()] == [2, 5]
    on.flash()
    on.settle()
    assert [len(each) for each in on.batches()] == [2, 5, 3]
    on.flash()
    status = on.settle()
    assert (status.phase, status.progress) == ("Completed", "10/10")
    assert not status.estimated_end


def test_devices_of_a_batch_are_spread_and_the_same_in_every_pass() -> None:
    once, again = world(20, batches=CANARY), world(20, batches=CANARY)
    again.devices = dict(reversed(again.devices.items()))
    once.settle()
    again.settle()
    assert once.batches() == again.batches()
    assert once.batches()[0] != ("d000", "d001")


def test_devices_that_run_the_version_already_are_not_the_canary() -> None:
    on = world(10, batches=CANARY)
    for name in list(on.devices)[:8]:
        on.status(name, version="2.0.0")
    status = on.settle()
    assert set(on.batches()[0]) == {"d008", "d009"}
    assert status.counts is not None
    assert (status.counts.current, status.counts.waiting, status.counts.total) == (8, 2, 10)


def test_a_batch_takes_what_its_selector_selects_of_those_that_no_earlier_one_has() -> None:
    labs = {"selector": {"labels": {"matchLabels": {"site": "lab"}}}}
    on = World(
        rollout_of(batches=[{"name": "lab", **labs}, {"name": "lab again", **labs}]),
        [*fleet_of(3), device_of("lab1", labels={"site": "lab"}), device_of("lab2", labels={"site": "lab"})],
    )
    on.settle()
    on.flash()
    on.settle()
    assert [set(each) for each in on.batches()] == [{"lab1", "lab2"}, {"d000", "d001", "d002"}]
    on.flash()
    assert on.settle().phase == "Completed"


def test_the_simple_form_goes_by_name_and_counts_its_interval_from_the_end_of_a_batch() -> None:
    on = world(5, batchSize=2, intervalSeconds=60)
    on.settle()
    on.later(100)
    on.flash()
    status = on.settle()
    assert (status.phase, len(on.batches())) == ("Soaking", 1)
    assert on.decide().after == 60
    on.later(59)
    assert on.settle().phase == "Soaking"
    on.later(1)
    on.settle()
    assert on.batches() == [("d000", "d001"), ("d002", "d003")]


def test_in_the_simple_form_a_failure_does_not_keep_the_next_batch_back_and_is_told_at_the_end() -> None:
    on = world(4, batchSize=2)
    on.settle()
    on.flash("d000", outcome=Outcome.UNREACHABLE)
    on.flash("d001")
    on.settle()
    on.flash()
    status = on.settle()
    assert (status.phase, len(on.batches())) == ("Failed", 2)
    assert "1 of 4 devices failed" in status.message
    assert find(status.conditions, "Stalled") is not None


def test_a_batch_whose_jobs_were_made_in_part_is_filled_up_before_it_is_judged() -> None:
    types = [{"type": kind, "firmware": f"r.example/{kind}:2", "version": "2.0.0"} for kind in ("a", "b")]
    devices = [device_of(f"{kind}{place}", type=kind) for kind in ("a", "b") for place in range(4)]
    on = World(rollout_of(firmwares=types, batches=[{"name": "most", "size": 6}]), devices)
    assert len(on.decide().actions) == 2
    on.step(upto=1)
    on.flash()
    assert on.decide().status.phase == "Progressing"
    on.settle()
    assert sum(map(len, on.batches())) == 6
    on.flash()
    on.settle()
    on.flash()
    status = on.settle()
    assert (status.phase, [each.size for each in status.batches]) == ("Completed", [6, 2])


def test_there_is_a_job_for_each_firmware_and_for_each_thousand_devices() -> None:
    on = world(2 * JOB_DEVICES + 5)
    assert [len(each.job.spec.uuids) for each in on.decide().actions if isinstance(each, CreateJob)] == [1000, 1000, 5]


def test_a_job_has_the_template_and_the_limit_and_belongs_to_the_rollout() -> None:
    on = world(1, template={"retries": 7, "timeoutSeconds": 33}, maxConcurrent=9000)
    on.settle()
    (job,) = on.jobs.values()
    assert (job.spec.retries, job.spec.timeout_seconds, job.spec.max_concurrent) == (7, 33, 5000)
    assert (job.spec.firmware, job.spec.version, job.spec.device) == ("registry.example/esp32:2.0.0", "2.0.0", None)
    (owner,) = job.metadata.owner_references
    assert (owner.kind, owner.uid, owner.controller) == ("FirmwareRollout", "uid-rollout", True)
    assert job.metadata.labels == {
        "edgewright.dev/rollout": "rollout",
        "edgewright.dev/rollout-uid": "uid-rollout",
    }


def test_another_limit_is_told_to_the_jobs_that_go_on() -> None:
    on = world(2, maxConcurrent=1)
    on.settle()
    on.ask(maxConcurrent=2)
    (action,) = on.decide().actions
    assert isinstance(action, LimitJob)
    assert action.max_concurrent == 2


# --- who -------------------------------------------------------------------------------------------------------------


def test_devices_that_appear_later_join_the_last_batch() -> None:
    on = world(3, batches=CANARY)
    on.settle()
    on.flash()
    on.settle()
    on.devices["late"] = device_of("late", created=on.now)
    (action,) = on.decide().actions
    assert isinstance(action, ExtendJob)
    assert action.uuids[-1] == "late"
    on.settle()
    on.flash()
    assert on.settle().progress == "4/4"


def test_a_rollout_that_is_not_dynamic_leaves_them_alone_in_later_revisions_too() -> None:
    on = world(2, dynamic=False, revisionHistoryLimit=0)
    on.settle()
    on.flash()
    on.settle()
    on.later(60)
    on.devices["late"] = device_of("late", created=on.now)
    for version in ("3.0.0", "4.0.0"):
        on.later(60)
        on.ask(version=version)
        on.settle()
        on.flash()
        assert on.settle().progress == "2/2"
        assert len(on.jobs) == 1, "the jobs of the first revision are not kept, and it is known all the same"
    on.ask(dynamic=True)
    on.settle()
    assert on.startable() == ["late"]


def test_a_rollout_that_is_not_dynamic_leaves_them_alone() -> None:
    on = world(3, batches=CANARY, dynamic=False)
    on.settle()
    on.devices["late"] = device_of("late", created=on.now + timedelta(seconds=1))
    on.flash()
    on.settle()
    on.flash()
    assert on.settle().progress == "3/3"


def test_before_the_first_batch_opens_nothing_is_fixed() -> None:
    on = world(1, dynamic=False)
    on.devices["late"] = device_of("late", created=BEGIN + timedelta(days=9))
    on.settle()
    assert len(on.batches()[0]) == 2


def test_a_device_of_a_batch_stays_when_its_labels_and_version_change() -> None:
    on = World(
        rollout_of(selector={"versions": ["1.0.0"], "labels": {"matchLabels": {"a": "b"}}}),
        [device_of("d", labels={"a": "b"})],
    )
    on.settle()
    on.devices["d"] = device_of("d", version="1.5.0")
    assert on.settle().progress == "0/1"
    on.flash()
    assert on.settle().phase == "Completed"


def test_a_device_that_is_deleted_is_no_failure_and_is_not_waited_for() -> None:
    on = world(3)
    on.settle()
    del on.devices["d001"]
    on.flash()
    status = on.settle()
    assert (status.phase, status.progress) == ("Completed", "2/2")


def test_every_kind_of_device_that_cannot_get_it_is_counted_and_keeps_nobody_back() -> None:
    esp = [{"type": "esp32", "firmware": "r.example/a:2", "version": "2.0.0"}]
    on = World(
        rollout_of(firmwares=esp),
        [
            device_of("well"),
            device_of("foreign", type="nrf52"),
            device_of("private", allowed=("other",)),
            device_of("broken"),
            device_of("excluded later"),
        ],
    )
    on.quarantine("broken")
    on.settle()
    on.devices["excluded later"] = device_of("excluded later", allowed=("other",))
    on.flash("well")
    status = on.settle()
    assert status.phase == "Completed"
    assert status.counts is not None
    counts = status.counts
    assert (counts.total, counts.succeeded, counts.excluded, counts.quarantined) == (5, 1, 3, 1)


def test_a_device_that_is_released_from_quarantine_gets_its_turn() -> None:
    on = world(2)
    on.quarantine("d000")
    on.settle()
    on.flash("d001")
    assert on.settle().phase == "Completed"
    on.quarantine("d000", holds=False)
    on.settle()
    on.flash()
    assert on.settle().progress == "2/2"


def test_a_device_that_is_quarantined_while_it_waits_frees_its_batch() -> None:
    on = world(4, batches=CANARY)
    on.settle()
    first, second = on.batches()[0]
    on.quarantine(first)
    on.flash(second)
    on.settle()
    assert len(on.batches()) == 2


def test_a_rollout_that_selects_nothing_waits_for_devices() -> None:
    on = World(rollout_of(selector={"types": ["none"]}), fleet_of(2))
    status = on.settle()
    assert (status.phase, status.message) == ("Pending", "no device is selected so far")


def test_a_rollout_none_of_whose_devices_can_get_it_says_so() -> None:
    on = World(rollout_of(), [device_of("d", allowed=("other",))])
    status = on.settle()
    assert status.phase == "Pending"
    assert "none of the 1 devices" in status.message


def test_a_job_that_somebody_deletes_is_made_again_without_those_that_are_done() -> None:
    on = world(3)
    on.settle()
    on.flash("d000")
    on.jobs.clear()
    status = on.settle()
    assert on.batches() == [tuple(name for name in on.batches()[0] if name != "d000")]
    assert status.progress == "1/3"
    on.flash()
    assert on.settle().phase == "Completed"


# --- gates -----------------------------------------------------------------------------------------------------------


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


# --- revisions -------------------------------------------------------------------------------------------------------


def test_another_version_is_another_revision_from_the_first_batch_on() -> None:
    on = world(5, batches=CANARY)
    on.settle()
    on.flash()
    on.settle()
    on.ask(version="3.0.0", firmware="registry.example/esp32:3.0.0")
    actions = on.decide().actions
    assert [type(each) for each in actions] == [HaltJob, HaltJob, CreateJob]
    status = on.settle()
    assert (status.revision, status.batch, status.counts.total if status.counts else 0) == (2, "canary (1/2)", 5)
    on.flash()
    on.settle()
    on.flash()
    assert on.settle().phase == "Completed"
    assert {device.status.version for device in on.devices.values()} == {"3.0.0"}


def test_going_back_to_what_an_earlier_revision_had_is_a_further_revision() -> None:
    on = world(2)
    on.settle()
    on.flash()
    on.ask(version="3.0.0")
    on.settle()
    on.flash()
    on.ask(version="2.0.0")
    status = on.settle()
    assert status.revision == 3
    assert len(on.startable()) == 2


def test_only_so_many_revisions_are_kept_and_none_that_has_a_device_under_way() -> None:
    on = world(1, revisionHistoryLimit=1)
    on.settle()
    on.start("d000")
    for number in (3, 4, 5):
        on.ask(version=f"{number}.0.0")
        on.settle()
    assert len(on.jobs) == 3, "the first one is at work"
    on.end("d000")
    assert any(isinstance(each, DeleteJob) for each in on.decide().actions)
    on.settle()
    assert len(on.jobs) == 2


def test_other_limits_are_no_other_revision() -> None:
    on = world(2, batches=CANARY)
    on.settle()
    on.ask(maxPerMinute=5, budgets=[{"label": "site", "maxUnavailable": 1}], ttlSecondsAfterFinished=5)
    assert on.settle().revision == 1


# --- retry, ttl ------------------------------------------------------------------------------------------------------


def test_retry_tries_failed_devices_once_more_in_their_batch() -> None:
    on = world(4, batches=CANARY)
    on.settle()
    first, second = on.batches()[0]
    on.flash(first)
    on.flash(second, outcome=Outcome.UNREACHABLE)
    assert on.settle().phase == "Failed"
    on.later(60)
    on.ask(retryRequest="one", resumeRequest="one")
    on.settle()
    assert on.startable() == [second]
    on.later(5)
    on.flash(second, outcome=Outcome.UNREACHABLE)
    assert on.settle().phase == "Failed", "once, not for ever"
    on.later(60)
    on.ask(retryRequest="two")
    on.settle()
    on.later(5)
    on.flash(second)
    on.settle()
    assert len(on.batches()) == 2
    assert on.settle().batches[0].size == 2


def test_a_clock_that_goes_back_does_not_make_a_retry_endless() -> None:
    on = world(1)
    on.settle()
    on.flash(outcome=Outcome.UNREACHABLE)
    on.ask(retryRequest="again")
    on.settle()
    on.later(-3600)
    on.flash(outcome=Outcome.UNREACHABLE)
    assert on.settle().phase == "Failed"
    assert len(on.jobs) == 2


def test_a_rollout_is_deleted_when_its_time_after_its_end_is_over() -> None:
    on = world(1, ttlSecondsAfterFinished=60)
    on.settle()
    on.flash()
    on.settle()
    assert on.decide().after == 60
    on.later(60)
    on.step()
    assert on.rollout is None


def test_a_rollout_that_has_not_ended_is_not_deleted() -> None:
    on = world(4, batches=CANARY, ttlSecondsAfterFinished=0)
    on.settle()
    on.flash(outcome=Outcome.FAILED)
    assert on.settle().phase == "Failed"
    assert on.rollout is not None


# --- recall ----------------------------------------------------------------------------------------------------------


def recalled() -> tuple[World, World]:
    """A rollout that went wrong, and the world of the rollout that takes its devices back."""
    on = world(5, stop=[{"action": "recall", "threshold": 1}], maxConcurrent=3)
    on.settle()
    *well, bad, never = on.batches()[0]
    on.flash(*well)
    on.later(1)
    on.flash(bad, outcome=Outcome.REVERTED)
    status = on.settle()
    assert (status.phase, status.recall) == ("Recalled", "rollout-recall")
    assert never not in on.startable()
    back = World(on.recalls["rollout-recall"], on.devices.values())
    back.now = on.now + timedelta(seconds=1)
    return on, back


def test_a_rule_may_recall_the_devices_that_the_rollout_changed() -> None:
    on, back = recalled()
    assert sum(isinstance(each, CreateRecall) for each in on.did) == 1
    assert back.rollout is not None
    assert back.rollout.spec.max_concurrent == 3
    back.settle()
    (job,) = back.jobs.values()
    assert len(job.spec.uuids) == 3
    assert job.spec.firmware == f"registry.example/esp32:1.0.0@{BEFORE.digest}"
    assert job.spec.version == "1.0.0"
    back.flash()
    status = back.settle()
    assert (status.phase, status.progress) == ("Completed", "3/3")
    assert {device.status.version for device in back.devices.values()} == {"1.0.0"}


def test_a_recall_leaves_devices_alone_that_others_have_changed_since() -> None:
    _, back = recalled()
    name = next(
        name for name, device in back.devices.items() if device.status.records[-1:] and device.status.version == "2.0.0"
    )
    firmware = back.devices[name].status.firmware
    assert firmware is not None
    back.status(name, version="7.0.0")
    status = back.settle()
    assert status.counts is not None
    assert (status.counts.total, status.counts.excluded) == (3, 1)
    assert name not in back.batches()[0]


def test_a_recall_leaves_a_device_alone_that_another_job_is_giving_the_same_firmware_again() -> None:
    # It fell back by itself, so the recall had nothing to do; then somebody rolls the firmware out once more. Until the
    # other job has written down what it did, only its claim tells the two apart.
    _, back = recalled()
    names = [name for name, device in back.devices.items() if device.status.version == "2.0.0"]
    back.status(names[0], version="1.0.0")
    back.settle()
    back.flash()
    assert back.settle().phase == "Completed"
    for rollout in ("another", ""):
        claim = Claim(job=JobReference(namespace="default", name="again", uid="again"), rollout=rollout)
        back.status(names[0], version="2.0.0", claim=claim)
        status = back.settle()
        assert status.phase == "Completed"
        assert back.batches() == [tuple(names[1:])]
    assert back.rollout is not None
    found = plan(back.rollout.spec, back.devices.values(), back.now)
    assert found.excluded[names[0]] == "job again in namespace default is flashing it"


def test_a_recall_does_not_bar_what_it_is_flashing_itself() -> None:
    _, back = recalled()
    back.settle()
    (names,) = back.batches()
    back.start(names[0])
    assert back.rollout is not None
    found = plan(back.rollout.spec, back.devices.values(), back.now, opened=1, taken=names)
    assert names[0] not in found.excluded
    back.end(names[0])
    back.flash()
    assert back.settle().phase == "Completed"


def test_a_recall_lists_devices_of_which_nobody_knows_what_they_ran() -> None:
    _, back = recalled()
    name = next(name for name, device in back.devices.items() if device.status.version == "2.0.0")
    (record,) = back.devices[name].status.records
    back.status(name, records=(type(record)(**{**_fields(record), "before": None}),))
    back.settle()
    back.flash()
    status = back.settle()
    assert status.phase == "Failed"
    assert name in status.message
    condition = find(status.conditions, "PreviousFirmwareUnknown")
    assert condition is not None
    assert name in condition.message


def test_a_recall_waits_for_what_the_other_rollout_has_under_way() -> None:
    on = world(2, stop=[{"action": "recall", "threshold": 1}])
    on.settle()
    first, second = on.batches()[0]
    on.start(second)
    on.flash(first, outcome=Outcome.FAILED)
    on.settle()
    back = World(on.recalls["rollout-recall"], on.devices.values())
    status = back.settle()
    assert status.phase == "Progressing"
    assert "still under way" in status.message
    on.end(second)
    back.devices = on.devices
    back.settle()
    assert back.batches() == [(second,)]


def test_a_recall_takes_another_name_where_its_own_is_taken() -> None:
    on = world(1, stop=[{"action": "recall", "threshold": 1}])
    on.recalls["rollout-recall"] = rollout_of("rollout-recall", recall={"name": "rollout", "uid": "an earlier one"})
    on.settle()
    on.flash(outcome=Outcome.FAILED)
    status = on.settle()
    assert status.recall.startswith("rollout-recall-")


def test_a_recall_of_nothing_is_complete() -> None:
    back = World(rollout_of("r-recall", recall={"name": "r", "uid": "gone"}), fleet_of(2))
    assert back.settle().phase == "Completed"


def _fields(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


# --- what is shown ---------------------------------------------------------------------------------------------------


def test_a_wiped_status_changes_nothing_but_what_is_shown() -> None:
    on = world(6, batches=CANARY)
    on.settle()
    on.flash()
    on.settle()
    shown = on.settle()
    on.wipe()
    assert on.decide().actions == ()
    again = on.settle()
    assert (again.phase, again.counts, again.batches) == (shown.phase, shown.counts, shown.batches)


def test_the_status_of_a_rollout_in_thousands_of_batches_is_bounded() -> None:
    on = world(420, batchSize=1)
    for number in range(300):
        on.step()
        on.flash(f"d{number:03}")
    status = on.decide().status
    assert len(status.batches) <= 200
    assert status.batches_omitted > 100
    assert status.batches[-1].phase in {"Planned", "Running", "Passed"}


def test_when_it_would_end_is_reckoned_from_what_has_ended() -> None:
    on = world(10)
    on.settle()
    assert on.settle().estimated_end is None
    on.later(100)
    on.flash(on.batches()[0][0])
    assert on.settle().estimated_end == BEGIN + timedelta(seconds=100 + 900)


def test_a_spec_that_cannot_be_acted_on_is_told_with_its_field_and_nothing_is_made() -> None:
    on = world(3, batches=[{"name": "canary", "size": "10%x"}])
    decision = on.decide()
    assert decision.actions == ()
    accepted = find(decision.status.conditions, "Accepted")
    assert accepted is not None
    assert accepted.status == "False"
    assert "spec.batches[0].size" in accepted.message


def test_the_status_of_a_hundred_thousand_devices_is_far_below_what_an_object_may_have() -> None:
    one = device_of("d")
    devices = [replace(one, metadata=ObjectMeta(name=f"d{place:06}", uid=f"u{place}")) for place in range(100_000)]
    names = [f"{place:03}-{'n' * 59}" for place in range(100)]
    steps = [{"name": name, "size": 500, "gate": {"approval": "manual"}} for name in names]
    for given in ({"batches": steps}, {"batchSize": 1}):
        on = World(rollout_of(**given), devices)
        on.step()
        on.flash(*on.batches()[0])
        status = on.settle()
        assert status.counts is not None
        assert status.counts.total == 100_000
        assert len(msgspec.json.encode(status)) < 1_048_576 // 4
