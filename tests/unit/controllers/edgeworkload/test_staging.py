"""How a changed workload goes from batch to batch, where it pauses, and what it takes to go on."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from edgewright.api.edge_revisions import Versions, served
from edgewright.api.edgeworkload import EdgeWorkload
from edgewright.api.edgeworkload_rollout import ROLLED_OUT
from edgewright.controllers.edgeworkload.decisions import problem_to_show, status_of
from edgewright.controllers.edgeworkload.staging import decide
from edgewright.gateway.assembly import needs
from edgewright.runtime.conditions import find
from tests.harness import repetition
from tests.unit.controllers.edgeworkload.staging_stage import CANARY, HALF, World, running, workload


def told(world: World) -> tuple[str, str, str]:
    """The phase of the rollout, the reason of the condition, and its message."""
    decision = decide(world.workload, world.devices, world.revisions, world.now)
    status = status_of(world.workload, world.devices, winner=None, now=world.now, staging=decision)
    found = find(status.conditions, ROLLED_OUT)
    assert found is not None
    assert status.rollout is not None
    return status.rollout.phase, found.reason, found.message


def test_a_workload_without_a_rollout_is_for_all_at_once_and_only_its_last_version_is_kept() -> None:
    world = World(3, None)
    world.settle()
    world.image = "two"
    assert world.having("two") == {"d0", "d1", "d2"}
    world.settle()
    (kept,) = world.revisions
    assert (kept.spec.number, kept.spec.for_all, kept.spec.completed) == (2, True, world.now)


def test_the_first_version_is_for_all_at_once() -> None:
    world = World(3, {"batches": [CANARY]})
    assert world.having("one") == set(), "it is written down first"
    world.settle()
    assert world.having("one") == {"d0", "d1", "d2"}


def test_a_change_goes_from_batch_to_batch_and_each_waits_for_the_one_before() -> None:
    world = running(10, CANARY, HALF)
    world.image = "two"
    sizes = []
    for _ in range(4):
        world.settle()
        sizes.append(len(world.having("two")))
        before = world.having("two")
        world.settle()
        assert world.having("two") == before, "nothing goes on before the devices tell"
        world.serve()
        world.later(5)
    assert sizes == [1, 6, 10, 10]
    assert told(world)[0] == "Soaking", "the last one is watched too"
    world.later(60)
    world.settle()
    assert told(world)[:2] == ("Completed", "Completed")
    assert [each.spec.number for each in world.revisions] == [2]
    assert world.step().actions == ()


def test_a_rollout_and_a_change_in_one_write_are_staged_too() -> None:
    world = World(4, None)
    world.settle()
    world.serve()
    world.rollout, world.image = {"batches": [CANARY]}, "two"
    assert world.having("one") == {"d0", "d1", "d2", "d3"}, "also before the operator has looked"
    world.settle()
    assert len(world.having("two")) == 1


def test_a_batch_is_watched_for_its_soak_time() -> None:
    world = running(4, CANARY | {"soakSeconds": 60})
    world.image = "two"
    world.settle()
    world.serve()
    world.later(59)
    decision = world.settle()
    assert (len(world.having("two")), told(world)[0], decision.after) == (1, "Soaking", 1.0)
    world.later(1)
    world.settle()
    assert len(world.having("two")) == 4


def test_a_device_that_goes_back_within_the_soak_time_stops_it() -> None:
    world = running(4, CANARY | {"soakSeconds": 60})
    world.image = "two"
    world.settle()
    world.serve()
    world.later(30)
    world.serve(lambda name: {"rolledBack": True, "told": "exit code 1"} if name in world.having("two") else {})
    world.settle()
    (canary,) = world.having("two")
    phase, reason, message = told(world)
    assert (phase, reason) == ("Paused", "RolloutStopped")
    assert f"1 of 1 devices of batch canary failed: 90% must succeed: {canary}: exit code 1" in message
    world.later(3600)
    world.settle()
    assert len(world.having("two")) == 1


@pytest.mark.parametrize(
    ("entry", "offline", "why"),
    [
        ({"phase": "Exited", "told": "exit code 1"}, False, "Exited: exit code 1"),
        ({"phase": "Created"}, False, "Created"),
        ({"phase": "Running", "revision": "another"}, False, "it has not applied the new version"),
        ({"phase": "Deploying", "revision": "", "message": "Secret a is missing"}, False, "Secret a is missing"),
        ({"phase": "Running"}, True, "it is not heard"),
    ],
)
def test_a_device_that_does_not_run_it_in_time_has_failed(entry: dict[str, str], offline: bool, why: str) -> None:
    world = running(4, CANARY, deadlineSeconds=100)
    world.image = "two"
    world.settle()
    (canary,) = world.having("two")
    if offline:
        world.offline.add(canary)
    else:
        world.entries[canary] = {"revision": world.sent()[canary], **entry}
    world.later(99)
    world.settle()
    assert told(world)[0] == "Progressing"
    world.later(1)
    world.settle()
    phase, reason, message = told(world)
    assert (phase, reason) == ("Paused", "RolloutStopped")
    assert f"{canary}: {why}" in message
    assert len(world.having("two")) == 1


def test_enough_devices_that_are_well_open_the_next_batch() -> None:
    first = {"name": "first", "size": 5, "soakSeconds": 0, "gate": {"successPercent": 60}}
    world = running(10, first, deadlineSeconds=10)
    world.image = "two"
    world.settle()
    world.offline = set(sorted(world.having("two"))[:2])
    world.serve()
    world.later(10)
    world.settle()
    assert len(world.having("two")) == 10


def test_a_new_resume_request_goes_on_and_only_once() -> None:
    world = running(10, CANARY, HALF, deadlineSeconds=10)
    world.image = "two"
    bad = {name: {"phase": "Exited"} for name in world.entries}
    world.settle()
    world.serve(lambda name: bad[name] if name in world.having("two") else {})
    world.later(10)
    world.settle()
    assert told(world)[0] == "Paused"
    assert world.rollout is not None
    world.rollout |= {"resumeRequest": "monday"}
    world.settle()
    assert len(world.having("two")) == 6, "the next batch"
    world.serve(lambda name: bad[name] if name in world.having("two") else {})
    world.later(10)
    world.settle()
    assert told(world)[0] == "Paused", "what fails after it counts"
    assert len(world.having("two")) == 6
    world.rollout |= {"resumeRequest": "tuesday"}
    world.settle()
    assert len(world.having("two")) == 10


def test_too_many_failures_stop_within_a_batch() -> None:
    first = {"name": "first", "size": 6, "soakSeconds": 0, "gate": {"successPercent": 0}}
    world = running(10, first, maxFailures=2)
    world.image = "two"
    world.settle()
    failing = sorted(world.having("two"))[:2]
    world.offline = world.entries.keys() - set(failing)
    world.serve(lambda _: {"rolledBack": True, "told": "exit code 1"})
    world.settle()
    phase, reason, message = told(world)
    assert (phase, reason) == ("Paused", "RolloutStopped")
    assert "2 of 2 devices that have ended failed (2 rolled back): spec.rollout.maxFailures allows" in message
    assert world.rollout is not None
    world.rollout |= {"resumeRequest": "go"}
    world.settle()
    assert told(world)[0] == "Progressing", "the same failures count only once"


def test_manual_approval_and_pause_hold_the_next_batch() -> None:
    world = running(4, CANARY | {"gate": {"approval": "manual"}})
    assert world.rollout is not None
    world.image = "two"
    world.settle()
    world.serve()
    world.settle()
    assert told(world)[:2] == ("Waiting", "AwaitingApproval")
    assert "add canary to spec.rollout.approvals" in told(world)[2]
    world.rollout |= {"approvals": ["canary"], "paused": True}
    world.settle()
    assert (len(world.having("two")), told(world)[1]) == (1, "RolloutPaused")
    world.rollout |= {"paused": False}
    world.settle()
    assert len(world.having("two")) == 4


def test_the_former_version_written_back_takes_all_back_at_once() -> None:
    world = running(10, CANARY, HALF)
    for image in ("two", "three"):
        world.image = image
        world.settle()
        world.serve()
    world.settle()
    assert world.having("three") | world.having("two")
    world.image = "one"
    world.settle()
    assert len(world.having("one")) == 10
    assert told(world)[0] == "Completed"


def test_a_third_version_replaces_the_second_on_the_same_devices_first() -> None:
    world = running(10, CANARY, HALF)
    world.image = "two"
    world.settle()
    canary = world.having("two")
    world.image = "three"
    world.settle()
    assert (world.having("three"), world.having("two"), len(world.having("one"))) == (canary, set(), 9)


def test_a_rollout_that_is_taken_out_of_the_spec_reaches_all_at_once() -> None:
    world = running(10, CANARY)
    world.image = "two"
    world.settle()
    world.rollout = None
    assert len(world.having("two")) == 10
    world.settle()
    assert [each.spec.completed is not None for each in world.revisions] == [True]


def test_devices_that_are_heard_go_first_and_labels_choose() -> None:
    pilot = {"name": "pilot", "selector": {"matchLabels": {"flotta/member-of": "pilot"}}, "soakSeconds": 0}
    world = running(6, pilot, CANARY)
    world.labels = {"d3": {"flotta/member-of": "pilot"}, "d5": {"flotta/member-of": "pilot"}}
    world.offline = {"d0", "d1", "d2"}
    world.image = "two"
    world.settle()
    assert world.having("two") == {"d3", "d5"}
    world.serve()
    world.settle()
    assert world.having("two") == {"d3", "d4", "d5"}, "d4 is the one of the rest that is heard"


def test_a_batch_that_takes_no_device_is_passed_over() -> None:
    nobody = {"name": "nobody", "selector": {"matchLabels": {"no": "body"}}}
    world = running(3, nobody, CANARY)
    world.image = "two"
    world.settle()
    assert len(world.having("two")) == 1
    assert world.revisions[0].spec.batches[0].name == "canary"


def test_a_device_whose_status_was_wiped_has_its_time_again() -> None:
    world = running(4, CANARY | {"soakSeconds": 1000}, deadlineSeconds=10)
    world.image = "two"
    world.settle()
    world.serve()
    (canary,) = world.having("two")
    world.later(100)
    world.entries[canary] = {"phase": "Deploying", "lastTransitionTime": world.now.isoformat()}
    world.settle()
    assert told(world)[0] == "Progressing"
    world.serve()
    world.settle()
    assert told(world)[0] == "Soaking"


def test_a_spec_that_is_wrong_leaves_devices_with_what_they_have() -> None:
    world = running(3, CANARY)
    bad = workload("", {"batches": [CANARY]})
    bad = msgspec.convert(bad.to_raw() | {"spec": bad.spec.to_raw() | {"pod": {"spec": {}}}}, type(bad))
    assert problem_to_show(bad) is not None
    assert served(bad, world.revisions).spec.pod == workload("one", None).spec.pod


@pytest.mark.parametrize(
    ("rollout", "field"),
    [
        ({"batches": [{"name": "a", "size": "150%"}]}, "spec.rollout.batches[0].size"),
        ({"batches": [{"name": "a"}, {"name": "a"}]}, "spec.rollout.batches[1].name"),
        ({"batches": [{"name": ""}]}, "spec.rollout.batches[0].name"),
        ({"maxFailures": "many"}, "spec.rollout.maxFailures"),
        ({"approvals": ["b"], "batches": [{"name": "a"}]}, "spec.rollout.approvals[0]"),
        (
            {"batches": [{"name": "a", "selector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}]},
            "spec.rollout.batches[0].selector.matchExpressions[0].operator",
        ),
    ],
)
def test_what_is_wrong_with_a_rollout_is_shown_with_its_field(rollout: dict[str, Any], field: str) -> None:
    found = problem_to_show(workload("one", rollout))
    assert found is not None
    assert str(found).startswith(f"{field}: ")
    status = status_of(workload("one", rollout), [], winner=None, now=World(0, None).now)
    accepted = find(status.conditions, "Accepted")
    assert accepted is not None
    assert (accepted.status, accepted.reason) == ("False", "Invalid")


@pytest.mark.repeated
@pytest.mark.parametrize("seed", repetition.numbers(20, 500))
def test_at_any_moment_only_devices_of_open_batches_have_the_new_version(seed: int) -> None:
    """Devices that fail, go silent and come back, and an operator that is cut off after any write."""
    chance = random.Random(seed)
    world = running(12, CANARY, {"name": "some", "size": "30%", "soakSeconds": 5}, deadlineSeconds=30)
    assert world.rollout is not None
    world.image = "two"
    allowed = 0
    for moment in range(400):
        before = world.having("two")
        world.step()  # one decision at a time: the next may be another operator's
        now = world.having("two")
        assert before <= now, "no device goes back by itself"
        if len(now) > len(before):
            allowed += 1
        assert allowed <= 3
        if chance.random() < 0.5:
            world.offline = {name for name in world.entries if chance.random() < 0.3}
            world.serve(lambda _: {"phase": chance.choice(["Running", "Running", "Running", "Exited"])})
        if chance.random() < 0.2:
            world.rollout["resumeRequest"] = str(moment)
        world.later(chance.choice([1, 5, 20]))
    world.offline = set()
    for moment in range(10):
        world.serve()
        world.rollout["resumeRequest"] = f"last {moment}"
        world.settle()
        world.later(60)
    assert len(world.having("two")) == 12
    assert told(world)[0] == "Completed"


class Naming(World):
    """A workload that takes its environment from a Secret, whose name is in the place of the image."""

    @property
    def workload(self) -> EdgeWorkload:
        """As people have written it."""
        made = workload("fixed", self.rollout)
        containers = [{"name": "a", "image": "fixed", "envFrom": [{"secretRef": {"name": self.image}}]}]
        pod = msgspec.structs.replace(made.spec.pod, spec={"containers": containers})
        return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, pod=pod))

    def named(self) -> dict[str, set[str]]:
        """The devices by the Secret that the gateway reads for them."""
        versions = Versions(self.workload, self.revisions)
        found: dict[str, set[str]] = {}
        for device in self.devices:
            version = versions.of(device.metadata.name)
            assert version is not None
            for source in needs(device, device.spec, [version[1]]):
                found.setdefault(source.name, set()).add(device.metadata.name)
        return found


def test_a_secret_under_another_name_is_staged_as_any_change_is() -> None:
    """What is in a Secret is no part of a version; its name is, and the others keep the one that they know."""
    world = Naming(4, {"batches": [CANARY]})
    world.image = "token-1"
    world.settle()
    world.serve()
    assert world.named() == {"token-1": {"d0", "d1", "d2", "d3"}}
    world.image = "token-2"
    world.settle()
    found = world.named()
    assert (len(found["token-2"]), len(found["token-1"])) == (1, 3)
    world.serve()
    world.settle()
    assert world.named() == {"token-2": {"d0", "d1", "d2", "d3"}}
