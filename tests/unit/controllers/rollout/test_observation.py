"""Which Devices a rollout watches, and until when."""

from __future__ import annotations

from typing import Any

import msgspec

from edgewright.api.flash_pod import Outcome
from edgewright.controllers.rollout.observation import Observation
from edgewright.runtime.objects import Key
from tests.unit.controllers.rollout.rollout_world import World, fleet_of, rollout_of


class Held(dict[Key, Any]):
    """A cache, as far as it is asked."""


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
