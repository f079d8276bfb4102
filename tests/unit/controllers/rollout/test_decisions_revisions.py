"""What a changed spec, a retry and the time after the end make of a rollout."""

from __future__ import annotations

from edgewright.api.flash_pod import Outcome
from edgewright.controllers.rollout.actions import (
    CreateJob,
    DeleteJob,
    HaltJob,
)
from tests.unit.controllers.rollout.rollout_world import (
    CANARY,
    world,
)

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
