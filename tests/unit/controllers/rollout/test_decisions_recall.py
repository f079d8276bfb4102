"""How the devices that a rollout changed go back to what they ran before."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from edgewright.api.device import Claim, JobReference
from edgewright.api.flash_pod import Outcome
from edgewright.controllers.rollout.actions import (
    CreateRecall,
)
from edgewright.controllers.rollout.plan import plan
from edgewright.runtime.conditions import find
from tests.unit.controllers.rollout.rollout_world import (
    BEFORE,
    World,
    fleet_of,
    rollout_of,
    world,
)


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
