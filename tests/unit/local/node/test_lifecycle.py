"""What a Pod needs next, as a table: what has run so far in, starts, stops and the phase out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.local.node.folders import Attempt
from edgewright.local.node.lifecycle import Halt, Plan, Timing, View, back_off, make_plan
from edgewright.local.node.pods import Pod
from tests.unit.local.node.podspecs import NOW, pod, ran

Attempts = Mapping[str, Sequence[Attempt]]


def plan_for(what: Pod, attempts: Attempts | None = None, **view: Any) -> Plan:
    return make_plan(View(pod=what, attempts=attempts or {}, now=NOW, **view), Timing())


def starts(plan: Plan) -> list[tuple[str, int]]:
    return [(start.container["name"], start.number) for start in plan.starts]


def test_a_new_pod_starts_all_its_containers() -> None:
    plan = plan_for(pod("a", "b"))
    assert starts(plan) == [("a", 0), ("b", 0)]
    assert plan.phase == "Pending"
    assert plan.initialized


def test_a_pod_whose_containers_run_needs_nothing() -> None:
    plan = plan_for(pod("a", "b"), {"a": [ran()], "b": [ran()]})
    assert (starts(plan), plan.stops, plan.phase, plan.wake) == ([], [], "Running", None)


@pytest.mark.parametrize(
    ("policy", "code", "phase", "again"),
    [
        ("Never", 0, "Succeeded", False),
        ("Never", 1, "Failed", False),
        ("OnFailure", 0, "Succeeded", False),
        ("OnFailure", 1, "Running", True),
        ("Always", 0, "Running", True),
        ("Always", 1, "Running", True),
    ],
)
def test_an_end_is_judged_by_the_restart_policy(policy: str, code: int, phase: str, again: bool) -> None:
    plan = plan_for(pod(restartPolicy=policy), {"main": [ran(code=code)]})
    assert plan.phase == phase
    assert bool(plan.starts) is again
    assert plan.final is not again


@pytest.mark.parametrize(
    ("step", "wait"), [(0, 0), (1, 10), (2, 20), (3, 40), (6, 300), (60, 300)], ids=lambda each: f"{each}"
)
def test_the_back_off_doubles_from_ten_seconds_to_five_minutes(step: int, wait: float) -> None:
    assert back_off(ran(code=1, step=step), Timing()) == (step + 1, wait)


def test_a_container_that_ran_for_ten_minutes_starts_its_back_off_again() -> None:
    assert back_off(ran(code=1, step=5, lasted=600), Timing()) == (1, 0)


def test_a_container_in_back_off_waits_and_says_so() -> None:
    plan = plan_for(pod(restartPolicy="Always"), {"main": [ran(3, code=1, step=4, ago=10)]})
    assert not plan.starts
    assert plan.wake == NOW + timedelta(seconds=70)
    reason, message = plan.waiting["main"]
    assert reason == "CrashLoopBackOff"
    assert message == "back-off 1m20s restarting failed container=main pod=pod_default(u)"
    assert plan.phase == "Running"


def test_a_container_whose_back_off_is_over_is_started_with_the_next_number() -> None:
    plan = plan_for(pod(restartPolicy="Always"), {"main": [ran(3, code=1, step=1, ago=10)]})
    assert [(start.number, start.step) for start in plan.starts] == [(4, 2)]


# --- init containers and sidecars ------------------------------------------------------------------------------------


def test_init_containers_run_one_after_another() -> None:
    what = pod(init=("one", "two"))
    assert starts(plan_for(what)) == [("one", 0)]
    assert starts(plan_for(what, {"one": [ran()]})) == []
    assert starts(plan_for(what, {"one": [ran(code=0)]})) == [("two", 0)]
    plan = plan_for(what, {"one": [ran(code=0)], "two": [ran(code=0)]})
    assert starts(plan) == [("main", 0)]
    assert plan.initialized


@pytest.mark.parametrize(("policy", "phase"), [("Never", "Failed"), ("Always", "Pending"), ("OnFailure", "Pending")])
def test_a_failed_init_container_ends_the_pod_or_is_tried_again(policy: str, phase: str) -> None:
    plan = plan_for(pod(init=("one",), restartPolicy=policy), {"one": [ran(code=2)]})
    assert plan.phase == phase
    assert starts(plan) == ([] if policy == "Never" else [("one", 1)])


def test_an_init_container_is_not_run_again_once_the_others_have_begun() -> None:
    plan = plan_for(pod(init=("one",), restartPolicy="Always"), {"main": [ran(code=1, step=0)]})
    assert starts(plan) == [("main", 1)]


def test_a_sidecar_must_have_begun_before_the_next_one_starts() -> None:
    what = pod(sidecars=("side",), init=("one",))
    assert starts(plan_for(what)) == [("side", 0)]
    assert starts(plan_for(what, {"side": [ran()]}, started={"side": False})) == []
    assert starts(plan_for(what, {"side": [ran()]})) == [("one", 0)]
    assert starts(plan_for(what, {"side": [ran(code=1)]})) == [("side", 1)]


def test_a_sidecar_is_kept_running_next_to_the_others_whatever_the_policy() -> None:
    what = pod(sidecars=("side",), restartPolicy="Never")
    plan = plan_for(what, {"side": [ran(code=0)], "main": [ran()]})
    assert starts(plan) == [("side", 1)]


def test_a_sidecar_is_ended_when_the_others_have_ended_and_its_code_does_not_count() -> None:
    what = pod(sidecars=("side",), restartPolicy="Never", terminationGracePeriodSeconds=7)
    ending = plan_for(what, {"side": [ran()], "main": [ran(code=0)]})
    assert (ending.stops, ending.phase, ending.final) == (["side"], "Running", False)
    assert ending.kill_at == NOW + timedelta(seconds=7)
    ended = plan_for(what, {"side": [ran(code=143)], "main": [ran(code=0)]})
    assert (ended.phase, ended.final, starts(ended)) == ("Succeeded", True, [])


# --- halts -----------------------------------------------------------------------------------------------------------


def test_a_deleted_pod_ends_its_containers_first_and_sidecars_after_them() -> None:
    what = pod("a", "b", sidecars=("side",), restartPolicy="Always")
    halt = Halt("Deleted", NOW + timedelta(seconds=30))
    plan = plan_for(what, {"side": [ran()], "a": [ran()], "b": [ran(code=0)]}, halt=halt)
    assert (plan.stops, plan.starts, plan.kill_at, plan.wake) == (["a"], [], halt.kill_at, halt.kill_at)
    plan = plan_for(what, {"side": [ran()], "a": [ran(code=0)], "b": [ran(code=0)]}, halt=halt)
    assert plan.stops == ["side"]
    late = plan_for(what, {"side": [ran()], "a": [ran()], "b": [ran()]}, halt=Halt("Deleted", NOW))
    assert late.stops == ["a", "b", "side"]


def test_a_time_that_has_come_is_not_waited_for_again() -> None:
    late = NOW - timedelta(seconds=1)
    killed = plan_for(pod(), {"main": [ran()]}, halt=Halt("Deleted", late))
    assert (killed.kill_at, killed.wake) == (late, None)
    what = pod(sidecars=("side",), restartPolicy="Never", terminationGracePeriodSeconds=0)
    assert plan_for(what, {"side": [ran()], "main": [ran(code=0)]}).wake is None


@pytest.mark.parametrize(
    ("code", "reason", "phase"),
    [(0, "Deleted", "Succeeded"), (143, "Deleted", "Failed"), (0, "DeadlineExceeded", "Failed")],
)
def test_a_halted_pod_is_final_once_nothing_runs(code: int, reason: str, phase: str) -> None:
    plan = plan_for(pod(), {"main": [ran(code=code)]}, halt=Halt(reason, NOW))
    assert (plan.final, plan.phase) == (True, phase)


def test_a_pod_that_is_halted_while_it_initializes_is_pending_until_it_has_ended() -> None:
    what = pod(init=("one",))
    halt = Halt("Deleted", NOW + timedelta(seconds=5))
    assert plan_for(what, {"one": [ran()]}, halt=halt).phase == "Pending"
    assert plan_for(what, {}, halt=halt).final


def test_a_container_whose_probe_fails_is_ended() -> None:
    plan = plan_for(pod("a", "b"), {"a": [ran()], "b": [ran()]}, failing=frozenset({"b"}))
    assert plan.stops == ["b"]
    plan = plan_for(pod(init=("one",)), {"one": [ran()]}, failing=frozenset({"one"}))
    assert plan.stops == ["one"]


CODES = st.sampled_from([None, 0, 1, 143])


@given(
    st.sampled_from(["Always", "OnFailure", "Never"]),
    st.lists(CODES, min_size=1, max_size=3),
    st.booleans(),
    st.floats(0, 400),
)
def test_a_plan_never_starts_what_runs_nor_anything_of_a_pod_that_has_ended(
    policy: str, codes: list[int | None], halted: bool, ago: float
) -> None:
    names = [f"c{number}" for number in range(len(codes))]
    attempts = {name: [ran(code=code, ago=ago, step=2)] for name, code in zip(names, codes, strict=True)}
    halt = Halt("Deleted", NOW + timedelta(seconds=1)) if halted else None
    plan = plan_for(pod(*names, restartPolicy=policy), attempts, halt=halt)
    running = {name for name, code in zip(names, codes, strict=True) if code is None}
    assert not running & {start.container["name"] for start in plan.starts}
    assert set(plan.stops) <= running
    if plan.final or halted:
        assert not plan.starts
    if plan.final:
        assert not running
        assert plan.phase in {"Succeeded", "Failed"}
