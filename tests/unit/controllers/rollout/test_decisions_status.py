"""What a rollout shows of itself, and that nothing of it is needed to go on."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from edgewright.runtime.conditions import find
from edgewright.runtime.objects import ObjectMeta
from tests.unit.controllers.rollout.rollout_world import (
    BEGIN,
    CANARY,
    World,
    device_of,
    replace,
    rollout_of,
    world,
)


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
