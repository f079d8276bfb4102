"""What holds for every rollout, whatever its spec, its fleet, its faults, crashes and clock are.

Each example is a fleet, a spec and a history of what devices, people and crashes do, decided on step by step from the
world alone. What may not happen is looked for in the world by rules of the test's own, never by the code under test.
"""

from __future__ import annotations

import random
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.api.device import QUARANTINED, STALE, Device
from edgewright.api.firmwarerollout import (
    BATCH_ANNOTATION,
    CLOSED_ANNOTATION,
    RETRY_ANNOTATION,
    REVISION_ANNOTATION,
)
from edgewright.api.flash_pod import Outcome
from edgewright.api.flashjob import FlashJob
from edgewright.controllers.flashjob.names import state_of
from edgewright.controllers.rollout.actions import STARTS, Action, CreateJob, CreateRecall, DeleteJob, ExtendJob
from tests.unit.controllers.rollout.rollout_world import BEGIN, GRACE, World, device_of, replace, rollout_of

TOLD = hypothesis.settings().max_examples
EXAMPLES = 500 if TOLD <= 50 else 2 * TOLD
SITES = ("a", "b", "c")
BAD = [outcome.value for outcome in Outcome if not outcome.good and outcome is not Outcome.NOT_FOUND]
GOOD = ("succeeded", "succeeded", "already-current")
FOR_EVER = ("Aborted", "Recalled")


class History:
    """One example: a world, what happens to it, and the rules that hold all the time."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        chance = self.chance
        self.spec = self._spec()
        labels = [{"site": chance.choice(SITES)} for _ in range(chance.randint(0, 14))]
        self.world = World(
            rollout_of(**self.spec), [self._device(f"d{place:02}", each) for place, each in enumerate(labels)]
        )
        self.world.observed = {name for name in self.world.devices if chance.random() < 0.5}
        self.ended_for_ever: dict[int, str] = {}

    # --- what there may be -----------------------------------------------------------------------------------------

    def _device(self, name: str, labels: dict[str, str]) -> Device:
        chance = self.chance
        return device_of(
            name,
            labels=labels,
            type=chance.choice(("esp32", "esp32", "nrf52")),
            version=chance.choice(("1.0.0", "1.0.0", "1.1.0", "2.0.0")),
            allowed=chance.choice(((), (), (), ("default",), ("other",))),
            created=self.world.now if hasattr(self, "world") else BEGIN - timedelta(days=1),
        )

    def _spec(self) -> dict[str, Any]:
        chance = self.chance
        spec: dict[str, Any] = {}
        if chance.random() < 0.3:
            spec["selector"] = {
                "labels": {"matchExpressions": [{"key": "site", "operator": "In", "values": ["a", "b"]}]}
            }
        if chance.random() < 0.2:
            spec["exclude"] = {"types": ["nrf52"]}
        if chance.random() < 0.2:
            spec["dynamic"] = False
        if chance.random() < 0.3:
            spec["firmwares"] = [
                {"type": each, "firmware": f"r.example/{each}:2", "version": "2.0.0"}
                for each in chance.choice((["esp32"], ["esp32", "nrf52"]))
            ]
        form = chance.random()
        if form < 0.3:
            spec["batchSize"] = chance.randint(1, 5)
            spec["intervalSeconds"] = chance.choice((0, 30))
        elif form < 0.9:
            spec["batches"] = [self._batch(number) for number in range(chance.randint(1, 3))]
        if chance.random() < 0.5:
            spec["stop"] = [
                {
                    "action": chance.choice(("pause", "abort", "recall")),
                    "threshold": chance.choice((1, 2, 3, "20%", "50%")),
                    "minSample": chance.choice((1, 3)),
                    **({"outcomes": ["regressed"]} if chance.random() < 0.2 else {}),
                }
            ]
        if chance.random() < 0.2:
            spec["windows"] = [{"cron": "0 * * * *", "durationSeconds": 1800}]
        return spec

    def _batch(self, number: int) -> dict[str, Any]:
        chance = self.chance
        batch: dict[str, Any] = {"name": f"b{number}", "size": chance.choice((1, 2, 3, "10%", "40%", "100%"))}
        if chance.random() < 0.25:
            batch["selector"] = {"labels": {"matchLabels": {"site": chance.choice(SITES)}}}
            if chance.random() < 0.5:
                del batch["size"]
        if chance.random() < 0.4:
            batch["soakSeconds"] = chance.choice((10, 100))
        gate: dict[str, Any] = {}
        if chance.random() < 0.6:
            gate["successPercent"] = chance.choice((0, 50, 90, 100))
        if chance.random() < 0.2:
            gate["approval"] = "manual"
        return {**batch, "gate": gate}

    # --- what may happen -------------------------------------------------------------------------------------------

    def go(self, steps: int) -> None:
        """Lets things happen, and the rollout decide in between, with a crash now and then."""
        for _ in range(steps):
            if self.world.rollout is None:
                return
            self.happen()
            self.decide(crash=self.chance.random() < 0.25)
        for _ in range(40):
            if not self.decide(crash=False):
                break
        else:
            raise AssertionError("it never settles")
        self.settled()

    def happen(self) -> None:
        """Something that devices, people or time do."""
        world, chance = self.world, self.chance
        kind = chance.random()
        claimed = [name for name, device in world.devices.items() if device.status.claim is not None]
        startable = world.startable()
        if kind < 0.3 and startable:
            for name in chance.sample(startable, min(len(startable), chance.randint(1, 4))):
                world.start(name)
        elif kind < 0.6 and claimed:
            for name in chance.sample(claimed, min(len(claimed), chance.randint(1, 4))):
                world.end(name, chance.choice((*GOOD, *BAD[:2], chance.choice(BAD))))
        elif kind < 0.75:
            world.later(chance.choice((1, 10, 31, 101, 1800, -5)))
        elif kind < 0.9:
            self._by_people()
        elif world.devices:
            self._by_devices(chance.choice(list(world.devices)))

    def _by_people(self) -> None:
        world, chance = self.world, self.chance
        request = str(chance.random())
        match chance.randrange(9):
            case 0:
                world.ask(paused=chance.choice((True, None)))
            case 1 if chance.random() < 0.2:
                world.ask(aborted=True)
            case 2:
                world.freeze(frozen=chance.random() < 0.5)
            case 3:
                world.ask(approvals=["b0", "b1"], maxConcurrent=chance.randint(1, 9))
            case 4:
                world.ask(resumeRequest=chance.choice((request, "same", "")))
            case 5:
                world.ask(retryRequest=request, resumeRequest=request)
            case 6:
                name = f"late{len(world.devices):02}"
                world.devices[name] = self._device(name, {"site": chance.choice(SITES)})
            case 7 if chance.random() < 0.3:
                world.ask(template={"retries": chance.randint(0, 3)}, revisionHistoryLimit=chance.choice((0, 1, 2)))
            case _ if chance.random() < 0.3:
                self._delete()

    def _delete(self) -> None:
        """People delete a Device, or a FlashJob of which nothing runs."""
        world, chance = self.world, self.chance
        claims = {device.status.claim.job.uid for device in world.devices.values() if device.status.claim is not None}
        idle = [name for name, job in world.jobs.items() if job.metadata.uid not in claims]
        if idle and chance.random() < 0.5:
            del world.jobs[chance.choice(idle)]
        elif world.devices:
            del world.devices[chance.choice(list(world.devices))]

    def _by_devices(self, name: str) -> None:
        world, chance = self.world, self.chance
        match chance.randrange(6):
            case 4:
                world.see()
            case 5:
                world.observed ^= {name}
            case 0:
                world.quarantine(name, holds=chance.random() < 0.5)
            case 1:
                world.vanish(name, holds=chance.random() < 0.5)
            case 2:
                world.status(name, version=chance.choice(("1.0.0", "2.0.0", "9.9.9")), last_seen=world.now)
            case 3:
                device = world.devices[name]
                metadata = replace(device.metadata, labels={"site": chance.choice(SITES)})
                world.devices[name] = replace(device, metadata=metadata)

    # --- deciding, and what holds ----------------------------------------------------------------------------------

    def decide(self, *, crash: bool) -> bool:
        """Decides once, looks at it, and does it, or a part of it; whether there was something to do."""
        world = self.world
        if world.rollout is None:
            return False
        decision = world.decide()
        self.one_place(decision.status)
        self.nothing_starts_that_must_not(decision.status.phase, decision.actions)
        if self.chance.random() < 0.3:
            self.depends_on_nothing_else(decision.actions)
        actions = decision.actions[: self.chance.randint(0, len(decision.actions))] if crash else decision.actions
        for action in actions:
            self.in_order(action)
            world.carry_out(action)
        self.one_job_each()
        if not decision.actions:
            world.rollout = replace(world.rollout, status=decision.status)
        return bool(decision.actions)

    def depends_on_nothing_else(self, actions: tuple[Action, ...]) -> None:
        """The same is decided whatever the order of things is, and without the status."""
        world = self.world
        assert world.rollout is not None
        shuffled = World(world.rollout, self.chance.sample(list(world.devices.values()), len(world.devices)))
        shuffled.jobs, shuffled.now, shuffled.fleet = dict(reversed(world.jobs.items())), world.now, world.fleet
        shuffled.recalls, shuffled.observed = world.recalls, world.observed
        shuffled.wipe()
        assert shuffled.decide().actions == actions

    def one_place(self, status: Any) -> None:
        """Every device that is selected is in exactly one count, and in one batch at most."""
        counts = status.counts
        places = [getattr(counts, name) for name in counts.__struct_fields__ if name != "total"]
        assert sum(places) == counts.total <= len(self.world.devices)
        assert min(places) >= 0
        assert sum(batch.size for batch in status.batches if batch.phase != "Planned") <= counts.total

    def nothing_starts_that_must_not(self, phase: str, actions: tuple[Action, ...]) -> None:
        """Nothing starts while it is paused, frozen or outside its windows, and never again after an abort."""
        world = self.world
        assert world.rollout is not None
        spec = world.rollout.spec
        starts = [each for each in actions if isinstance(each, STARTS)]
        revision = world.rollout.spec.template.retries or -1
        if phase in FOR_EVER:
            self.ended_for_ever[revision] = phase
        shut = spec.windows and world.now.minute >= 30
        frozen = world.fleet is not None and world.fleet.spec.frozen
        if spec.paused or spec.aborted or phase in {"Paused", *FOR_EVER}:
            assert not starts
        if shut or frozen:
            assert not [each for each in starts if isinstance(each, CreateJob | ExtendJob)]
        if any(isinstance(each, CreateRecall) for each in actions):
            assert phase == "Recalled"
        busy = {device.status.claim.job.uid for device in world.devices.values() if device.status.claim is not None}
        assert not [each for each in actions if isinstance(each, DeleteJob) and each.job.metadata.uid in busy]

    def in_order(self, action: Action) -> None:
        """A batch opens only when all before it have ended and passed."""
        if not isinstance(action, CreateJob) or not action.opens or RETRY_ANNOTATION in action.job.metadata.annotations:
            return
        revision = action.job.metadata.annotations[REVISION_ANNOTATION]
        mine = [job for job in self.world.jobs.values() if job.metadata.annotations[REVISION_ANNOTATION] == revision]
        before = sorted({int(job.metadata.annotations[BATCH_ANNOTATION]) for job in mine})
        assert all(number < action.batch for number in before), "a batch opens that is behind another"
        if before:
            last = [job for job in mine if int(job.metadata.annotations[BATCH_ANNOTATION]) == before[-1]]
            self.has_passed(before[-1], last)

    def has_passed(self, number: int, jobs: list[FlashJob]) -> None:
        """The devices of a batch have ended, enough of them well, and long enough ago."""
        world = self.world
        assert world.rollout is not None
        good = bad = 0
        ends = []
        seen: list[datetime] = []
        spec = world.rollout.spec
        simple = spec.batch_size is not None
        named = None if simple or number > len(spec.batches) else spec.batches[number - 1]
        soak = named.soak_seconds if named is not None else spec.interval_seconds
        closed = all(CLOSED_ANNOTATION in job.metadata.annotations for job in jobs)
        for name in {name for job in jobs for name in job.spec.uuids}:
            device = world.devices.get(name)
            job = max((job for job in jobs if name in job.spec.uuids), key=lambda job: int(job.metadata.uid[4:]))
            if device is None:
                continue
            record = device.status.record_of(job.metadata.uid)
            conditions = {each.type for each in device.status.conditions if each.status == "True"}
            if record is None or record.state != state_of(job.spec):
                assert device.status.claim is None or device.status.claim.job.uid != job.metadata.uid, "it is under way"
                assert QUARANTINED in conditions or "default" not in (device.spec.allowed_namespaces or ["default"])
                continue
            ends.append(record.time or BEGIN)
            fell = soak and named is not None and (STALE in conditions or device.status.version != record.version)
            if Outcome(record.outcome).good and not fell:
                good += 1
                if name in world.observed:
                    seen.append(device.status.last_seen or BEGIN)
            else:
                bad += 1
        latest = max(ends, default=min(job.metadata.creation_timestamp or BEGIN for job in jobs))
        if simple:
            assert world.now >= latest + timedelta(seconds=soak)
        elif named is not None and not closed:
            wanted = 90 if named.gate.success_percent is None else named.gate.success_percent
            assert good * 100 >= wanted * (good + bad)
            soaked = latest + timedelta(seconds=soak)
            assert world.now >= soaked
            # Those that nobody has seen since count as failed in the end, and the gate may allow that.
            unseen = sum(moment < soaked for moment in seen) if soak else 0
            assert not unseen or world.now >= soaked + timedelta(seconds=GRACE)
            assert (good - unseen) * 100 >= wanted * (good + bad)
            assert named.gate.approval != "manual" or named.name in spec.approvals

    def one_job_each(self) -> None:
        """No device is in two FlashJobs of a revision, but for retries; no batch is larger than it may be."""
        jobs = self.world.jobs.values()
        seen = Counter(
            (job.metadata.annotations[REVISION_ANNOTATION], name)
            for job in jobs
            if RETRY_ANNOTATION not in job.metadata.annotations
            for name in job.spec.uuids
        )
        assert not [each for each, number in seen.items() if number > 1]

    def settled(self) -> None:
        """A settled world gives no action, and the same status."""
        world = self.world
        if world.rollout is not None:
            again = world.decide()
            assert again.actions == ()
            assert again.status == world.rollout.status


@hypothesis.settings(max_examples=EXAMPLES)
@given(st.integers(0, 2**48))
def test_no_rule_is_broken_whatever_happens(seed: int) -> None:
    History(seed).go(random.Random(seed).randint(5, 35))


@hypothesis.settings(max_examples=EXAMPLES // 10)
@given(st.integers(0, 2**48))
def test_a_rollout_that_nothing_disturbs_comes_to_its_end_with_every_device(seed: int) -> None:
    history = History(seed)
    world, chance = history.world, history.chance
    world.ask(stop=[], approvals=["b0", "b1", "b2"], windows=[])
    for name in world.devices:
        world.condition(name, QUARANTINED, holds=False)
    for _ in range(60):
        for _ in range(30):
            if not history.decide(crash=chance.random() < 0.3):
                break
        startable = world.startable()
        if startable:
            world.flash(*chance.sample(startable, len(startable)))
        else:
            world.later(40)
            world.see()
    assert world.rollout is not None
    status = world.settle()
    assert status.counts is not None
    assert status.phase == ("Completed" if status.counts.succeeded + status.counts.current else "Pending"), status
    assert status.counts.failed == status.counts.waiting == status.counts.flashing == 0


@pytest.mark.parametrize("seed", range(5))
def test_an_aborted_rollout_starts_nothing_whatever_happens_then(seed: int) -> None:
    history = History(seed)
    history.go(20)
    history.world.ask(aborted=True)
    while history.decide(crash=False):
        pass
    assert history.world.startable() == []
