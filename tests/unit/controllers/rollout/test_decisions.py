"""Which batches a rollout opens, of which devices and as which jobs, in a world without a server."""

from __future__ import annotations

from edgewright.api.firmwarerollout import JOB_DEVICES
from edgewright.api.flash_pod import Outcome
from edgewright.controllers.rollout.actions import (
    CreateJob,
    LimitJob,
)
from edgewright.runtime.conditions import find
from tests.unit.controllers.rollout.rollout_world import (
    CANARY,
    World,
    device_of,
    fleet_of,
    rollout_of,
    world,
)


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
