"""What a table shows of a Pod, from the states of its containers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from edgewright.local.tables.pods import pod_row, row_conditions

NOW = datetime(2026, 11, 16, 3, 0, 0, tzinfo=UTC)
HOUR_AGO, MINUTE_AGO = "2026-11-16T02:00:00Z", "2026-11-16T02:59:00Z"
RUNS: dict[str, Any] = {"running": {}}
ONE = {"containers": [{"name": "a"}]}
TWO = {"containers": [{"name": "a"}, {"name": "b"}]}
INIT = {**ONE, "initContainers": [{"name": "x"}, {"name": "y"}]}
SIDECAR = {**ONE, "initContainers": [{"name": "x"}, {"name": "s", "restartPolicy": "Always"}]}


def state(name: str, now: Any = None, *, restarts: int = 0, last: str = "", **more: Any) -> dict[str, Any]:
    past = {"terminated": {"exitCode": 1, "finishedAt": last}} if last else None
    return {"name": name, "restartCount": restarts, "state": now or {}, "lastState": past, **more}


def waiting(reason: str) -> dict[str, Any]:
    return {"waiting": {"reason": reason}}


def ended(code: int, **more: Any) -> dict[str, Any]:
    return {"terminated": {"exitCode": code, **more}}


def shown(spec: Any, status: Any, **metadata: Any) -> list[Any]:
    return pod_row({"metadata": metadata, "spec": spec, "status": status}, NOW)


def containers(*states: Any, **more: Any) -> dict[str, Any]:
    return {"phase": "Running", "containerStatuses": list(states), **more}


def init(*states: Any, **more: Any) -> dict[str, Any]:
    return {"phase": "Pending", "initContainerStatuses": list(states), **more}


READY = [{"type": "Ready", "status": "True"}]


@pytest.mark.parametrize(
    ("spec", "status", "ready", "word", "restarts"),
    [
        pytest.param(ONE, {"phase": "Pending"}, "0/1", "Pending", "0", id="new"),
        pytest.param(ONE, {"phase": "Failed", "reason": "Evicted"}, "0/1", "Evicted", "0", id="evicted"),
        pytest.param(
            ONE,
            {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]},
            "0/1",
            "SchedulingGated",
            "0",
            id="gated",
        ),
        pytest.param(ONE, containers(state("a", RUNS, ready=True)), "1/1", "Running", "0", id="runs"),
        pytest.param(ONE, containers(state("a", RUNS)), "0/1", "Running", "0", id="runs and is not ready"),
        pytest.param(ONE, containers(state("a", waiting("ErrImagePull"))), "0/1", "ErrImagePull", "0", id="no image"),
        pytest.param(ONE, containers(state("a", {"waiting": {}})), "0/1", "Running", "0", id="waits for no reason"),
        pytest.param(
            ONE,
            containers(state("a", waiting("CrashLoopBackOff"), restarts=7, last=MINUTE_AGO)),
            "0/1",
            "CrashLoopBackOff",
            "7 (60s ago)",
            id="crash loop",
        ),
        pytest.param(ONE, containers(state("a", ended(0, reason="Completed"))), "0/1", "Completed", "0", id="through"),
        pytest.param(ONE, containers(state("a", ended(3))), "0/1", "ExitCode:3", "0", id="exit code"),
        pytest.param(ONE, containers(state("a", ended(137, signal=9))), "0/1", "Signal:9", "0", id="signal"),
        pytest.param(ONE, containers(state("a", RUNS, restarts=2)), "0/1", "Running", "2", id="restarted some time"),
        pytest.param(ONE, containers(state("a", RUNS, last=HOUR_AGO)), "0/1", "Running", "0", id="never restarted"),
        pytest.param(
            TWO,
            containers(
                state("a", RUNS, ready=True, restarts=2, last=HOUR_AGO),
                state("b", RUNS, ready=True, restarts=3, last=MINUTE_AGO),
            ),
            "2/2",
            "Running",
            "5 (60s ago)",
            id="both restarted",
        ),
        pytest.param(
            TWO,
            containers(state("a", ended(0, reason="Completed")), state("b", RUNS, ready=True), conditions=READY),
            "1/2",
            "Running",
            "0",
            id="one is through and the Pod is ready",
        ),
        pytest.param(
            TWO,
            containers(state("a", ended(0, reason="Completed")), state("b", RUNS, ready=True)),
            "1/2",
            "NotReady",
            "0",
            id="one is through and the Pod is not ready",
        ),
        pytest.param(
            TWO,
            containers(state("a", ended(0, reason="Completed")), state("b", ended(2, reason="Error"))),
            "0/2",
            "Error",
            "0",
            id="one is through and one failed",
        ),
        pytest.param(INIT, init(state("x"), state("y")), "0/1", "Init:0/2", "0", id="init not begun"),
        pytest.param(
            INIT,
            init(state("x", ended(0)), state("y", waiting("PodInitializing"))),
            "0/1",
            "Init:1/2",
            "0",
            id="init second",
        ),
        pytest.param(
            INIT, init(state("x", waiting("ErrImagePull"))), "0/1", "Init:ErrImagePull", "0", id="init without image"
        ),
        pytest.param(
            INIT,
            init(state("x", ended(1, reason="Error"), restarts=2, last=HOUR_AGO)),
            "0/1",
            "Init:Error",
            "2 (60m ago)",
            id="init failed",
        ),
        pytest.param(INIT, init(state("x", ended(5))), "0/1", "Init:ExitCode:5", "0", id="init exit code"),
        pytest.param(INIT, init(state("x", ended(5, signal=6))), "0/1", "Init:Signal:6", "0", id="init signal"),
        pytest.param(
            INIT,
            {
                **init(state("x", ended(0), restarts=5, last=HOUR_AGO), state("y", ended(0))),
                **containers(state("a", RUNS, ready=True)),
            },
            "1/1",
            "Running",
            "0",
            id="init is through and its restarts forgotten",
        ),
        pytest.param(
            INIT,
            {
                **init(state("x", RUNS)),
                **containers(state("a", waiting("Later")), conditions=[{"type": "Initialized", "status": "True"}]),
            },
            "0/1",
            "Later",
            "0",
            id="initialized before",
        ),
        pytest.param(
            SIDECAR,
            init(state("x", ended(0)), state("s", RUNS, started=False)),
            "0/2",
            "Init:1/2",
            "0",
            id="sidecar starts",
        ),
        pytest.param(
            SIDECAR,
            {
                **init(
                    state("x", ended(0), restarts=9),
                    state("s", RUNS, started=True, ready=True, restarts=2, last=HOUR_AGO),
                ),
                **containers(state("a", RUNS, ready=True, restarts=1)),
            },
            "2/2",
            "Running",
            "3 (60m ago)",
            id="sidecar runs",
        ),
    ],
)
def test_a_pod_is_summed_up(spec: Any, status: Any, ready: str, word: str, restarts: str) -> None:
    assert shown(spec, status)[1:4] == [ready, word, restarts]


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ({"phase": "Running"}, "Terminating"),
        ({"phase": "Running", "reason": "NodeLost"}, "Unknown"),
        ({"phase": "Succeeded"}, "Succeeded"),
        ({"phase": "Failed", "reason": "Evicted"}, "Evicted"),
    ],
)
def test_a_pod_that_is_being_deleted_says_so_until_it_has_ended(status: Any, word: str) -> None:
    assert shown(ONE, status, deletionTimestamp=HOUR_AGO)[2] == word


def test_the_wide_columns_say_where_a_pod_is() -> None:
    spec = {**ONE, "nodeName": "n"}
    status = {"podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}], "nominatedNodeName": "m"}
    assert shown(spec, status, name="p", creationTimestamp=HOUR_AGO) == [
        "p",
        "0/1",
        "",
        "0",
        "60m",
        "10.0.0.7",
        "n",
        "m",
        "<none>",
    ]
    assert shown(ONE, {"podIPs": [{"ip": "10.0.0.8"}]})[5] == "10.0.0.8"


def test_a_pod_of_which_nothing_is_known_is_shown() -> None:
    assert pod_row({}, NOW) == ["", "0/0", "", "0", "<unknown>", "<none>", "<none>", "<none>", "<none>"]


def test_readiness_gates_are_counted() -> None:
    spec = {**ONE, "readinessGates": [{"conditionType": "one"}, {"conditionType": "two"}, {"conditionType": "three"}]}
    conditions = [{"type": "one", "status": "True"}, {"type": "two", "status": "False"}]
    assert shown(spec, {"conditions": conditions})[8] == "1/3"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_the_row_of_a_pod_that_has_ended_is_completed(phase: str) -> None:
    (condition,) = row_conditions({"status": {"phase": phase}})
    assert (condition["type"], condition["status"], condition["reason"]) == ("Completed", "True", phase)


def test_the_row_of_a_pod_that_runs_has_no_condition() -> None:
    assert row_conditions({"status": {"phase": "Running"}}) == []
