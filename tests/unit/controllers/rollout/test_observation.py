"""Which Devices a rollout watches, and until when."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from edgewright.api.flash_pod import Outcome
from edgewright.controllers.rollout.observation import Observation, soak_end_changed
from edgewright.runtime.cache import Change
from edgewright.runtime.objects import Key
from tests.unit.controllers.rollout.rollout_world import World, fleet_of, rollout_of


class Held(dict[Key, Any]):
    """A cache, as far as it is asked."""

    def __iter__(self) -> Any:
        return iter(self.values())


def observation(on: World) -> Observation:
    """What watches in this world."""
    jobs: Any = Held({job.key: job for job in on.jobs.values()})
    rollouts: Any = Held({on.rollout.key: on.rollout} if on.rollout is not None else {})
    return Observation(jobs, rollouts)


def watched(on: World) -> set[str]:
    """The names of the Devices that are watched."""
    found = observation(on)
    return {name for name, device in on.devices.items() if found.covers(device)}


def test_devices_are_watched_from_their_success_until_their_batch_has_passed() -> None:
    on = World(rollout_of(batches=[{"name": "canary", "size": 2, "soakSeconds": 60}]), fleet_of(4))
    on.settle()
    first, second = on.batches()[0]
    assert watched(on) == set()
    on.flash(first)
    on.flash(second, outcome=Outcome.REVERTED)
    on.settle()
    assert watched(on) == {first}, "one that failed is not"
    on.ask(batches=[{"name": "canary", "size": 2, "soakSeconds": 60, "gate": {"successPercent": 50}}])
    on.settle()
    on.later(61)
    on.settle()
    assert watched(on) == set(), "the batch is closed"


def test_nobody_is_watched_without_a_soak_time_or_when_the_rollout_is_over_or_another() -> None:
    on = World(rollout_of(), fleet_of(1))
    on.settle()
    on.flash()
    assert watched(on) == set()
    on = World(rollout_of(batches=[{"name": "canary", "size": 1, "soakSeconds": 60}]), fleet_of(2))
    on.settle()
    on.flash()
    assert len(watched(on)) == 1
    assert on.rollout is not None
    rollout = on.rollout
    on.rollout = msgspec.structs.replace(rollout, metadata=msgspec.structs.replace(rollout.metadata, uid="another"))
    assert watched(on) == set()
    on.rollout = rollout
    on.ask(aborted=True)
    on.settle()
    assert watched(on) == set()


def test_a_device_must_be_seen_at_the_end_of_its_soak_time_once_that_is_known() -> None:
    on = World(rollout_of(batches=[{"name": "canary", "size": 2, "soakSeconds": 60}]), fleet_of(4))
    on.settle()
    first, second = on.batches()[0]
    on.later(0.7)
    on.flash(first)
    before = on.settle()
    assert observation(on).due(on.devices[first]) is None, "another device of the batch has not ended"
    on.later(10)
    on.flash(second)
    ended = on.now
    on.settle()
    due = observation(on).due(on.devices[first])
    assert due is not None
    assert timedelta(seconds=60) <= due - ended <= timedelta(seconds=61)
    assert due.microsecond == 0, "as it is written that a device was seen"
    assert {key.name for key in observation(on).members(on.rollout)} == {first, second} if on.rollout else False
    on.see()
    on.later(61)
    on.settle()
    assert observation(on).due(on.devices[first]) is None, "the batch is closed"
    assert before.batches[0].ended is None


def test_the_devices_are_looked_at_when_the_end_of_their_soak_time_is_known_and_not_before() -> None:
    on = World(rollout_of(batches=[{"name": "canary", "size": 2, "soakSeconds": 60}]), fleet_of(4))
    on.settle()
    first, second = on.batches()[0]
    begun = on.rollout
    on.flash(first)
    on.settle()
    half = on.rollout
    on.flash(second)
    on.settle()
    whole = on.rollout
    assert not soak_end_changed(Change(old=begun, new=half))
    assert soak_end_changed(Change(old=half, new=whole))
    assert soak_end_changed(Change(old=None, new=whole)), "after a restart"
    assert not soak_end_changed(Change(old=whole, new=None))
