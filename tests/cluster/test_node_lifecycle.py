"""Our node on a real API server: how Pods end, are started again, probed and deleted, and what the server is told."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.nodes import Pods, condition, state
from tests.harness import wait_until

# --- ends -----------------------------------------------------------------------------------------------------------


def test_a_pod_that_ends_well_is_completed(pods: Pods) -> None:
    pods.create("pod", "echo done")
    pod = pods.until_ended()
    assert pod["status"]["phase"] == "Succeeded"
    ended = state(pod)["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (0, "Completed")
    assert ended["containerID"] == pod["status"]["containerStatuses"][0]["containerID"]
    assert condition(pod, "Ready") == "False"
    assert condition(pod, "Initialized") == condition(pod, "PodScheduled") == "True"
    wait_until(lambda: {"Pulled", "Created", "Started"} <= dict(pods.events()).keys(), what="there are events")


@pytest.mark.parametrize(
    ("script", "code", "signal"),
    [("exit 7", 7, None), ("kill -9 $$$$", 137, 9), ("kill -SEGV $$$$", 139, 11)],
    ids=["code", "killed", "crashed"],
)
def test_an_exit_code_or_signal_is_reported(pods: Pods, script: str, code: int, signal: int | None) -> None:
    pods.create("pod", script)
    ended = state(pods.until_phase("Failed"))["terminated"]
    assert (ended["exitCode"], ended.get("signal"), ended["reason"]) == (code, signal, "Error")


def test_a_program_that_is_not_there_ends_the_container_with_start_error(pods: Pods) -> None:
    pods.create(_command=["/no/such/program"])
    ended = state(pods.until_phase("Failed"))["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (128, "StartError")
    assert "/no/such/program" in ended["message"] or "No such file" in ended["message"]


@pytest.mark.parametrize(
    ("settings", "script", "message"),
    [
        ({}, "echo because > /dev/termination-log; exit 1", "because\n"),
        ({"_terminationMessagePath": "/result/why"}, "echo so > /result/why; exit 0", "so\n"),
        ({}, "head -c 9000 /dev/zero | tr '\\0' x > /dev/termination-log", "x" * 4096),
        ({"_terminationMessagePolicy": "FallbackToLogsOnError"}, "echo one; echo two; exit 3", "one\ntwo\n"),
        ({"_terminationMessagePolicy": "FallbackToLogsOnError"}, "echo fine; exit 0", None),
        ({}, "echo only logged; exit 1", None),
    ],
    ids=["file", "own path", "cut", "from the log", "not from the log of a success", "not from the log"],
)
def test_a_termination_message_is_kept(pods: Pods, settings: dict[str, Any], script: str, message: str | None) -> None:
    pods.create("pod", script, **settings)
    assert state(pods.until_ended())["terminated"].get("message") == message


def test_a_container_that_fails_is_started_again_and_waits_longer_each_time(pods: Pods) -> None:
    pods.create("pod", "echo try; exit 1", restartPolicy="Always")
    pod = pods.until(
        lambda pod: (
            state(pod).get("waiting", {}).get("reason") == "CrashLoopBackOff"
            and pod["status"]["containerStatuses"][0]["restartCount"] >= 2
        ),
        what="it is in back-off",
    )
    status = pod["status"]["containerStatuses"][0]
    assert status["lastState"]["terminated"]["exitCode"] == 1
    assert pod["status"]["phase"] == "Running"
    wait_until(lambda: "BackOff" in dict(pods.events()), what="there is an event")


def test_on_failure_runs_again_until_it_ends_well(pods: Pods) -> None:
    pods.create(
        "pod",
        "test -e /keep/second && exit 0; touch /keep/second; exit 1",
        restartPolicy="OnFailure",
        volumes=[{"name": "keep", "emptyDir": {}}],
        _volumeMounts=[{"name": "keep", "mountPath": "/keep"}],
    )
    pod = pods.until_ended()
    assert pod["status"]["phase"] == "Succeeded"
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 1


def test_init_containers_run_in_order_before_the_others(pods: Pods) -> None:
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    inits = [
        {
            "name": name,
            "image": "busybox",
            "command": ["sh", "-c", f"echo {name} >> /shared/order"],
            "volumeMounts": mounts,
        }
        for name in ("first", "second")
    ]
    said = pods.run(
        "pod",
        "cat /shared/order",
        initContainers=inits,
        volumes=[{"name": "shared", "emptyDir": {}}],
        _volumeMounts=mounts,
    )
    assert said == "first\nsecond\n"
    assert [state(pods.get(), index, init=True)["terminated"]["reason"] for index in (0, 1)] == ["Completed"] * 2


def test_an_init_container_that_fails_ends_the_pod(pods: Pods) -> None:
    pods.create("pod", "echo never", initContainers=[{"name": "init", "image": "busybox", "command": ["false"]}])
    pod = pods.until_ended()
    assert pod["status"]["phase"] == "Failed"
    assert condition(pod, "Initialized") == "False"
    assert "terminated" not in state(pod) or state(pod)["terminated"]["reason"] != "Completed"


def test_a_sidecar_runs_next_to_the_others_and_ends_after_them(pods: Pods) -> None:
    mounts = [{"name": "shared", "mountPath": "/shared"}]
    sidecar = {
        "name": "sidecar",
        "image": "busybox",
        "restartPolicy": "Always",
        "volumeMounts": mounts,
        "command": ["sh", "-c", "trap 'echo bye; exit 0' TERM; touch /shared/up; while :; do sleep 0.05; done"],
    }
    pods.run(
        "pod",
        "until test -e /shared/up; do sleep 0.05; done",
        initContainers=[sidecar],
        volumes=[{"name": "shared", "emptyDir": {}}],
        _volumeMounts=mounts,
    )
    assert pods.log("pod", "-c", "sidecar") == "bye\n"


def test_several_containers_run_together_and_one_failure_fails_the_pod(pods: Pods) -> None:
    containers = [
        {"name": name, "image": "busybox", "command": ["sh", "-c", f"echo {name}; exit {code}"]}
        for name, code in (("good", 0), ("bad", 3))
    ]
    pods.create(containers=containers)
    pod = pods.until_ended()
    assert pod["status"]["phase"] == "Failed"
    assert [state(pod, index)["terminated"]["exitCode"] for index in (0, 1)] == [0, 3]
    assert pods.log("pod", "-c", "good") == "good\n"


def test_a_pod_that_takes_too_long_fails_with_deadline_exceeded(pods: Pods) -> None:
    pods.create("pod", "exec sleep 1000", activeDeadlineSeconds=1, terminationGracePeriodSeconds=5)
    status = pods.until_phase("Failed")["status"]
    assert status["reason"] == "DeadlineExceeded"
    assert "longer than the specified deadline" in status["message"]


# --- deletion -------------------------------------------------------------------------------------------------------


LONG_GRACE = {"restartPolicy": "Always", "terminationGracePeriodSeconds": 600}
"""Longer than any test waits: a Pod that is gone has ended by itself, and was not killed after its grace period."""


def test_a_deleted_pod_is_asked_to_end_and_its_folder_goes(pods: Pods) -> None:
    pod = pods.create("pod", "trap 'exit 0' TERM; echo up; while :; do sleep 0.05; done", **LONG_GRACE)
    wait_until(lambda: pods.folder(pod).exists() and pods.get()["status"]["phase"] == "Running", what="it runs")
    pods.delete()
    pods.until_gone()
    wait_until(lambda: not pods.folder(pod).exists(), what="its folder is gone")
    wait_until(lambda: "Killing" in dict(pods.events()), what="there is an event")


def test_a_program_that_does_not_end_is_killed_with_all_that_it_started(pods: Pods) -> None:
    # Known by how long they sleep: the pids that they know of themselves are those of their own process table.
    seconds = [f"1000.{os.getpid()}", f"1001.{os.getpid()}"]
    pods.create(
        "pod",
        f"trap '' TERM; (trap '' TERM; exec sleep {seconds[0]}) & setsid sleep {seconds[1]} & echo up; wait",
        terminationGracePeriodSeconds=1,
    )
    wait_until(lambda: "up" in (pods.log() if pods.get()["status"].get("phase") == "Running" else ""), what="it is up")
    wait_until(lambda: sleeping(seconds) == set(seconds), what="its children sleep")
    pods.delete()
    pods.until_gone()
    wait_until(lambda: sleeping(seconds) == set(), what="its children are gone")


def sleeping(seconds: Sequence[str]) -> set[str]:
    """For which of these times some process of the machine sleeps."""
    found = set()
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it went meanwhile
            name, *arguments = (place / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            found |= set(arguments) & set(seconds) if name == "sleep" else set()
    return found


def test_a_pod_that_was_deleted_by_force_is_ended_all_the_same(pods: Pods) -> None:
    pod = pods.create("pod", "exec sleep 1000")
    pods.until_phase("Running")
    pods.delete(grace=0)
    wait_until(lambda: not pods.folder(pod).exists(), what="its folder is gone")


# --- probes ---------------------------------------------------------------------------------------------------------


def test_a_container_is_ready_when_its_probe_passes(pods: Pods) -> None:
    server = "import http.server, os; http.server.HTTPServer((os.environ['IP'], 8080), http.server.SimpleHTTPRequestHandler).serve_forever()"  # noqa: E501
    pods.create(
        _image="python",
        _args=["-c", server],
        _workingDir="/usr/share",
        _env=[{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        _ports=[{"name": "web", "containerPort": 8080}],
        _startupProbe={"tcpSocket": {"port": 8080}, "periodSeconds": 1, "failureThreshold": 30},
        _readinessProbe={"httpGet": {"path": "/", "port": "web"}, "periodSeconds": 1},
        _livenessProbe={"exec": {"command": ["sh", "-c", "test $IP"]}, "periodSeconds": 1, "timeoutSeconds": 5},
    )
    pod = pods.until(lambda pod: condition(pod, "Ready") == "True", what="it is ready")
    assert pod["status"]["containerStatuses"][0]["started"] is True
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0


def test_a_container_whose_liveness_probe_fails_is_started_again(pods: Pods) -> None:
    pods.create(
        "pod",
        "exec sleep 1000",
        restartPolicy="Always",
        _livenessProbe={"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1, "timeoutSeconds": 5},
    )
    pods.until(
        lambda pod: (pod["status"].get("containerStatuses") or [{}])[0].get("restartCount", 0) >= 1, what="again"
    )
    wait_until(lambda: "Unhealthy" in dict(pods.events()), what="there is an event")
