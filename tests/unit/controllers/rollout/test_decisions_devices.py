"""Which devices are in a rollout: those that come, go, change, or cannot get it."""

from __future__ import annotations

from datetime import timedelta

from edgewright.controllers.rollout.actions import (
    ExtendJob,
)
from tests.unit.controllers.rollout.rollout_world import (
    BEGIN,
    CANARY,
    World,
    device_of,
    fleet_of,
    rollout_of,
    world,
)


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
