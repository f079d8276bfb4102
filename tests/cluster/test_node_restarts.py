"""Our node on a real API server when things go wrong: it is killed, its shims are, the machine is started again."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.nodes import Pods, RunningNode, state
from tests.harness import ControlPlane, wait_until

PODS_AT_ONCE = 100
SECONDS_FOR_ALL = 300


@pytest.fixture
def node(cluster: ControlPlane, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RunningNode]:
    """A node of the test's own, because it is hurt."""
    name = f"edge-{abs(hash(request.node.name)) % 10**8}"
    running = RunningNode(cluster, tmp_path, name=name, ids="1000-9999" if os.geteuid() == 0 else None)
    try:
        running.start()
        yield running
    finally:
        running.stop()
        cluster.request("DELETE", f"/api/v1/nodes/{name}")


@pytest.fixture
def pods(node: RunningNode, namespace: str) -> Iterator[Pods]:
    """The Pods of one test."""
    found = Pods(node, namespace)
    yield found
    if not node.process.running:
        node.start()
    found.clean()


def attempt(pods: Pods, pod: dict[str, Any], number: int = 0) -> Path:
    return pods.folder(pod) / "containers" / "main" / str(number)


def runs(place: Path) -> list[str]:
    """What every start of the program has noted, wherever its volume is."""
    return (place / "volumes" / "notes" / "runs").read_text().splitlines()


NOTES: dict[str, Any] = {
    "volumes": [{"name": "notes", "emptyDir": {}}],
    "_volumeMounts": [{"name": "notes", "mountPath": "/notes"}],
}


def test_a_pod_that_outlives_the_node_is_adopted_and_not_run_twice(pods: Pods) -> None:
    pod = pods.create(
        "pod", "echo up; echo $$$$ >> /notes/runs; until test -e /notes/go; do sleep 0.05; done; exit 5", **NOTES
    )
    pods.until_phase("Running")
    pods.node.kill()
    pods.node.start()
    (pods.folder(pod) / "volumes" / "notes" / "go").touch()
    ended = pods.until_phase("Failed")
    assert state(ended)["terminated"]["exitCode"] == 5
    assert ended["status"]["containerStatuses"][0]["restartCount"] == 0
    assert len(runs(pods.folder(pod))) == 1
    assert pods.log() == "up\n"


def test_a_pod_that_ended_while_there_was_no_node_is_reported(pods: Pods) -> None:
    pod = pods.create("pod", "echo once >> /notes/runs; until test -e /notes/go; do sleep 0.05; done; exit 6", **NOTES)
    pods.until_phase("Running")
    pods.node.kill()
    (pods.folder(pod) / "volumes" / "notes" / "go").touch()
    wait_until((attempt(pods, pod) / "exit.json").exists, what="the shim has written down the end")
    pods.node.start()
    assert state(pods.until_phase("Failed"))["terminated"]["exitCode"] == 6
    assert runs(pods.folder(pod)) == ["once"]


def test_killing_the_node_again_and_again_while_pods_start_loses_none_and_runs_none_twice(pods: Pods) -> None:
    made = [pods.create(f"pod-{n}", "echo once >> /notes/runs", **NOTES) for n in range(12)]
    for _ in range(6):
        pods.node.kill()
        pods.node.start()
    for pod in made:
        pods.until_phase("Succeeded", pod["metadata"]["name"])
        assert runs(pods.folder(pod)) == ["once"]


def test_a_pod_that_was_deleted_while_there_was_no_node_is_ended_by_the_next(pods: Pods) -> None:
    pod = pods.create("pod", "exec sleep 1000")
    pods.until_phase("Running")
    main = json.loads((attempt(pods, pod) / "state.json").read_text())["main"]["pid"]
    pods.node.kill()
    pods.delete(grace=0)
    pods.node.start()
    wait_until(lambda: not pods.folder(pod).exists(), what="its folder is gone")
    assert not Path(f"/proc/{main}").exists()


def test_a_container_whose_shim_was_killed_is_reported_and_ended(pods: Pods) -> None:
    pod = pods.create("pod", "exec sleep 1000")
    pods.until_phase("Running")
    recorded = json.loads((attempt(pods, pod) / "state.json").read_text())
    os.kill(recorded["shim"]["pid"], signal.SIGKILL)
    ended = state(pods.until_phase("Failed"))["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "ContainerStatusUnknown")
    wait_until(lambda: not Path(f"/proc/{recorded['main']['pid']}").exists(), what="the program is ended too")


def test_a_process_that_has_the_pid_of_a_lost_one_is_not_touched(pods: Pods) -> None:
    pod = pods.create("pod", "exec sleep 1000")
    pods.until_phase("Running")
    place = attempt(pods, pod) / "state.json"
    recorded = json.loads(place.read_text())
    pods.node.kill()
    # As if the pids had been given to others meanwhile: the same numbers, another start time.
    for who in ("shim", "main"):
        recorded[who]["start"] += 1
    place.write_text(json.dumps(recorded))
    pods.node.start()
    pods.until_phase("Failed")
    assert Path(f"/proc/{recorded['main']['pid']}").exists()
    os.kill(recorded["shim"]["pid"], signal.SIGUSR1)


def test_pods_end_failed_after_a_reboot(pods: Pods) -> None:
    pod = pods.create("pod", "exec sleep 1000", restartPolicy="Always")
    pods.until_phase("Running")
    pods.node.kill()
    shim = json.loads((attempt(pods, pod) / "state.json").read_text())["shim"]["pid"]
    for file in (attempt(pods, pod) / "state.json", pods.folder(pod) / "pod.json"):
        file.write_text(json.dumps({**json.loads(file.read_text()), "boot": "another"}))
    pods.node.start()
    status = pods.until_phase("Failed")["status"]
    assert status["reason"] == "NodeRebooted"
    assert status["containerStatuses"][0]["state"]["terminated"]["reason"] == "ContainerStatusUnknown"
    os.kill(shim, signal.SIGUSR1)


def test_a_pod_of_which_the_node_has_no_record_is_not_run_again(pods: Pods) -> None:
    pod = pods.create("pod", "exec sleep 1000")
    pods.until_phase("Running")
    shim = json.loads((attempt(pods, pod) / "state.json").read_text())["shim"]["pid"]
    pods.node.kill()
    os.kill(shim, signal.SIGUSR1)
    wait_until((attempt(pods, pod) / "exit.json").exists, what="the shim has written down the end")
    pods.folder(pod).rename(pods.node.directory / "lost")
    pods.node.start()
    assert pods.until_phase("Failed")["status"]["reason"] == "ContainerStatusUnknown"


def test_a_hundred_pods_run_side_by_side(pods: Pods) -> None:
    began = time.monotonic()
    names = [f"pod-{n}" for n in range(PODS_AT_ONCE)]
    for name in names:
        pods.create(name, "exec sleep 1000")

    def running() -> int:
        found = pods.node.cluster.request("GET", pods.path())["items"]
        return sum(pod["status"].get("phase") == "Running" for pod in found)

    wait_until(lambda: running() == PODS_AT_ONCE, what="all run", timeout=SECONDS_FOR_ALL, interval=0.2)
    took = time.monotonic() - began
    addresses = {pods.get(name)["status"]["podIP"] for name in names}
    assert len(addresses) == PODS_AT_ONCE
    print(f"{PODS_AT_ONCE} Pods ran after {took:.1f} s")
