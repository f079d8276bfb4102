"""The status of a Pod: what people read of what ran."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from edgewright.local.node.folders import PodRecord
from edgewright.local.node.lifecycle import Plan
from edgewright.local.node.pods import Pod
from edgewright.local.node.status import Shown, pod_status, refused_status
from edgewright.runtime.objects import RawObject
from tests.unit.local.node.podspecs import NOW, pod, ran

RECORD = PodRecord(uid="u", namespace="default", name="pod", boot="b", taken_in=NOW, address="127.128.0.1")


def shown(what: Pod, **more: Any) -> RawObject:
    defaults = {"plan": Plan(phase="Running", initialized=True), "attempts": {}, "record": RECORD, "host": "127.0.0.1"}
    return pod_status(what, Shown(**{**defaults, "now": NOW, **more}))


def conditions(status: RawObject) -> dict[str, str]:
    return {each["type"]: each["status"] for each in status["conditions"]}


def test_a_running_pod_is_ready() -> None:
    status = shown(pod(), attempts={"main": [ran()]})
    assert set(conditions(status).values()) == {"True"}
    (container,) = status["containerStatuses"]
    assert container["state"] == {"running": {"startedAt": "2026-01-01T11:59:59Z"}}
    assert (container["ready"], container["started"], container["restartCount"]) == (True, True, 0)
    assert (status["podIP"], status["hostIP"], status["observedGeneration"]) == ("127.128.0.1", "127.0.0.1", 1)


def test_a_pod_without_an_address_shows_none() -> None:
    record = PodRecord(uid="u", namespace="default", name="pod", boot="b", taken_in=NOW)
    assert "podIP" not in shown(pod(metadata={"generation": 0}), record=record)


def test_a_pod_is_not_ready_before_its_probe_has_passed_nor_started_before_its_startup_probe() -> None:
    status = shown(pod(), attempts={"main": [ran()]}, ready={"main": False})
    assert conditions(status)["Ready"] == "False"
    assert status["conditions"][2]["message"] == "containers with unready status: [main]"
    assert shown(pod(), attempts={"main": [ran()]}, started={"main": False})["containerStatuses"][0]["started"] is False


def test_a_readiness_gate_holds_back_the_pod_but_not_its_containers() -> None:
    gated = pod(readinessGates=[{"conditionType": "example.dev/ok"}])
    found = conditions(shown(gated, attempts={"main": [ran()]}))
    assert (found["Ready"], found["ContainersReady"]) == ("False", "True")
    met = {"conditions": [{"type": "example.dev/ok", "status": "True"}]}
    opened = pod(readinessGates=[{"conditionType": "example.dev/ok"}], status=met)
    assert conditions(shown(opened, attempts={"main": [ran()]}))["Ready"] == "True"


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ({"code": 0}, "Completed"),
        ({"code": 1}, "Error"),
        ({"code": 137, "signal": 9}, "Error"),
        ({"code": 137, "lost": True}, "ContainerStatusUnknown"),
        ({"code": 128, "error": "no such file"}, "StartError"),
    ],
    ids=["well", "badly", "killed", "lost", "not started"],
)
def test_an_end_has_a_reason(end: dict[str, Any], reason: str) -> None:
    plan = Plan(phase="Failed", initialized=True, final=True)
    status = shown(pod(), plan=plan, attempts={"main": [ran(**end)]}, messages={("main", 0): "why"})
    terminated = status["containerStatuses"][0]["state"]["terminated"]
    assert (terminated["exitCode"], terminated["reason"], terminated.get("signal")) == (
        end["code"],
        reason,
        end.get("signal"),
    )
    assert terminated["message"] == "why"
    assert conditions(status)["Ready"] == "False"


def test_a_container_in_back_off_shows_how_it_ended_before() -> None:
    plan = Plan(phase="Running", initialized=True, waiting={"main": ("CrashLoopBackOff", "later")})
    (container,) = shown(pod(), plan=plan, attempts={"main": [ran(2, code=1), ran(1, code=3)]})["containerStatuses"]
    assert container["state"] == {"waiting": {"reason": "CrashLoopBackOff", "message": "later"}}
    assert container["lastState"]["terminated"]["exitCode"] == 1
    assert container["restartCount"] == 2


def test_a_container_that_runs_again_shows_its_last_end() -> None:
    (container,) = shown(pod(), attempts={"main": [ran(1), ran(0, code=3)]})["containerStatuses"]
    assert "running" in container["state"]
    assert container["lastState"]["terminated"]["exitCode"] == 3


def test_what_has_not_run_yet_waits_for_what_comes_before_it() -> None:
    plan = Plan(phase="Pending", initialized=False)
    status = shown(pod(init=("one",)), plan=plan, attempts={"one": [ran()]})
    assert status["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}
    assert status["initContainerStatuses"][0]["ready"] is False
    assert conditions(status)["Initialized"] == "False"
    fresh = shown(pod(), plan=plan)["containerStatuses"][0]
    assert fresh["state"] == {"waiting": {"reason": "ContainerCreating"}}
    done = shown(pod(init=("one",)), attempts={"one": [ran(code=0)]})
    assert done["initContainerStatuses"][0]["ready"] is True


def test_a_container_that_never_ran_in_a_pod_that_ended_says_so() -> None:
    status = shown(pod(), plan=Plan(phase="Failed", final=True), reason="NodeRebooted", message="gone")
    assert status["containerStatuses"][0]["state"]["terminated"]["reason"] == "ContainerStatusUnknown"
    assert (status["reason"], status["message"]) == ("NodeRebooted", "gone")


def test_a_condition_keeps_its_time_while_it_does_not_change() -> None:
    first = shown(pod(), attempts={"main": [ran()]})
    later = NOW + timedelta(hours=1)
    second = shown(pod(status=first), attempts={"main": [ran()]}, now=later)
    assert second == first
    third = shown(pod(status=first), attempts={"main": [ran()]}, ready={"main": False}, now=later)
    times = {each["type"]: each["lastTransitionTime"] for each in third["conditions"]}
    assert times["Ready"] == "2026-01-01T13:00:00Z"
    assert times["Initialized"] == "2026-01-01T12:00:00Z"


def test_what_others_wrote_is_kept() -> None:
    others = {"qosClass": "BestEffort", "conditions": [{"type": "Mine", "status": "True"}]}
    status = shown(pod(status=others), attempts={"main": [ran()]})
    assert status["qosClass"] == "BestEffort"
    assert conditions(status)["Mine"] == "True"


def test_a_refused_pod_is_failed_and_not_ready() -> None:
    status = refused_status(pod(), reason="R", message="m", host="h", now=NOW)
    assert (status["phase"], status["reason"], status["message"]) == ("Failed", "R", "m")
    assert conditions(status) == {"ContainersReady": "False", "Ready": "False"}
