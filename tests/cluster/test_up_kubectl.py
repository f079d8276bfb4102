"""`edgewright up` as people use it: with the real kubectl, from nothing, with a context of its own, as another user."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import LocalPlane, programs, wait_until
from tests.harness.fixtures import run
from tests.local.up import up

ANY_PORT = ("--listen", "127.0.0.1:0", "--no-node")
HELLO = f"hello={sys.executable} -c 'import sys; print(\"hello\", *sys.argv[1:])'"


def kubectl(kubeconfig: Path, *arguments: str, context: str = "") -> str:
    """What kubectl says as the user of a kubeconfig."""
    chosen = ["--context", context] if context else []
    command = [programs.program("kubectl"), "--kubeconfig", str(kubeconfig), *chosen, *arguments]
    cache = str(kubeconfig.parent / "kubectl-cache")
    done = subprocess.run([*command, "--cache-dir", cache], capture_output=True, text=True, check=True, timeout=240)
    return done.stdout


@pytest.fixture(scope="module")
def plane(request: pytest.FixtureRequest) -> Iterator[LocalPlane]:
    """An `edgewright up` with a node."""
    yield from run(request, lambda: LocalPlane(node=True, arguments=("--node-name", "edge-1", "--image", HELLO)))


def test_from_nothing_to_kubectl(tmp_path: Path) -> None:
    with up(tmp_path, *ANY_PORT) as running:
        assert running.url
        kubeconfig = tmp_path / ".local" / "share" / "edgewright" / "kubeconfig"
        names = kubectl(kubeconfig, "get", "namespaces", "-o", "name").split()
        assert names == [f"namespace/{name}" for name in ("default", "kube-node-lease", "kube-public", "kube-system")]


def test_the_context_that_was_merged_is_one_for_kubectl(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("contexts: [{name: work, context: {cluster: work}}]\ncurrent-context: work\n")
    with up(tmp_path, *ANY_PORT, "--data", tmp_path / "data", "--kubeconfig", config, "--merge") as running:
        assert running.url
        assert "namespace/default" in kubectl(config, "get", "namespaces", "-o", "name", context="edgewright")


@pytest.mark.parametrize(
    ("arguments", "name", "groups"),
    [
        ((), "kubernetes-admin", ["system:masters", "system:authenticated"]),
        (("--as", "jane", "--as-group", "dev"), "jane", ["dev", "system:authenticated"]),
    ],
    ids=["as itself", "as somebody else"],
)
def test_kubectl_is_told_who_it_is(plane: LocalPlane, arguments: tuple[str, ...], name: str, groups: list[str]) -> None:
    said = json.loads(kubectl(plane.data / "kubeconfig", "auth", "whoami", "-o", "json", *arguments))
    user = said["status"]["userInfo"]
    assert (user["username"], user["groups"]) == (name, groups)


def test_a_pod_is_applied_shown_and_deleted_with_kubectl(plane: LocalPlane) -> None:
    spec = {
        "restartPolicy": "Never",
        "containers": [{"name": "main", "image": "hello", "args": ["you", "there"]}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "hello"}, "spec": spec}
    plane.kubectl("apply", "-f", "-", input=json.dumps(pod))
    phase = ("get", "pod", "hello", "-o", "jsonpath={.status.phase}")
    wait_until(lambda: plane.kubectl(*phase).stdout == "Succeeded", what="it has run", interval=0.2)
    assert plane.kubectl("logs", "hello").stdout == "hello you there\n"
    plane.kubectl("delete", "pod", "hello", "--grace-period=1", "--wait")
    assert not plane.exists("/api/v1/namespaces/default/pods/hello")


def test_a_watch_of_kubectl_does_not_keep_it_from_ending(tmp_path: Path) -> None:
    with up(tmp_path, *ANY_PORT, "--data", tmp_path / "data") as running:
        assert running.url
        reach = ["--kubeconfig", str(tmp_path / "data" / "kubeconfig"), "--cache-dir", str(tmp_path / "cache")]
        command = [programs.program("kubectl"), *reach, "get", "namespaces", "-w"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as watching:
            assert watching.stdout is not None
            assert watching.stdout.readline().startswith("NAME")
            assert running.end(timeout=240) == 0
            watching.kill()
