"""`edgewright node` as a process, attached to the real API server and to ours: it speaks only the Kubernetes API."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from edgewright.api.node import NODE_TAINT
from edgewright.local.access import Authority
from edgewright.runtime.clock import SystemClock
from tests.cluster.nodecommand import OTHERS_TOO, running_node
from tests.harness import ApiServer, ControlPlane, LocalPlane, wait_until
from tests.unit.cli.command import edgewright, sentence


def pod(node: str, *words: str, image: str = "hello") -> dict[str, Any]:
    container = {"name": "main", "image": image, "args": list(words)}
    return {
        "metadata": {"name": "one"},
        "spec": {"nodeName": node, "restartPolicy": "Never", "containers": [container]},
    }


def run_to_its_end(server: ApiServer, namespace: str, body: dict[str, Any]) -> dict[str, Any]:
    path = f"/api/v1/namespaces/{namespace}/pods"
    server.request("POST", path, body)

    def ended() -> dict[str, Any] | None:
        found: dict[str, Any] = server.request("GET", f"{path}/one")
        return found if found["status"].get("phase") in {"Succeeded", "Failed"} else None

    return wait_until(ended, what="the Pod has ended")


def test_a_pod_runs_to_its_end_as_a_process(api_server: ApiServer, namespace: str, tmp_path: Path) -> None:
    name = f"node-{namespace[-6:]}"
    with running_node(api_server, tmp_path, name) as process:
        ended = run_to_its_end(api_server, namespace, pod(name, "you"))
        assert ended["status"]["phase"] == "Succeeded", ended["status"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0
    said = (tmp_path / "node.log").read_text()
    assert said == f"Node {name} of {api_server.server} runs Pods here\n\nCtrl-C stops it; its Pods go on.\n"


def test_the_node_joins_tainted_and_runs_no_program_that_a_pod_names(
    api_server: ApiServer, namespace: str, tmp_path: Path
) -> None:
    name = f"node-{namespace[-6:]}"
    body = pod(name)
    body["spec"]["containers"][0]["command"] = ["cat", "/etc/passwd"]
    with running_node(api_server, tmp_path, name):
        taints = api_server.request("GET", f"/api/v1/nodes/{name}")["spec"]["taints"]
        assert {"key": NODE_TAINT, "effect": "NoSchedule"} in taints
        ended = run_to_its_end(api_server, namespace, body)
        assert (ended["status"]["phase"], ended["status"]["reason"]) == ("Failed", "CommandRefused")
    with running_node(api_server, tmp_path, name, *OTHERS_TOO):  # the Node is gone, and made again
        assert not [
            each
            for each in api_server.request("GET", f"/api/v1/nodes/{name}")["spec"].get("taints", ())
            if each["key"] == NODE_TAINT
        ]
        api_server.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/one?gracePeriodSeconds=0")
        wait_until(lambda: not api_server.exists(f"/api/v1/namespaces/{namespace}/pods/one"), what="it is gone")
        assert run_to_its_end(api_server, namespace, body)["status"]["phase"] == "Succeeded"


def test_only_pods_that_tolerate_the_taint_are_scheduled_there(local_plane: LocalPlane, tmp_path: Path) -> None:
    namespace = local_plane.create_namespace("tainted")
    path, body = f"/api/v1/namespaces/{namespace}/pods", pod("")
    del body["spec"]["nodeName"]
    with running_node(local_plane, tmp_path, f"node-{namespace[-6:]}"):
        local_plane.request("POST", path, {**body, "metadata": {"name": "stranger"}})

        def why() -> str | None:
            said = local_plane.request("GET", f"{path}/stranger")["status"].get("conditions") or [{}]
            message: str | None = said[0].get("message")
            return message

        assert NODE_TAINT in wait_until(why, what="the scheduler says why it waits")
        body["spec"]["tolerations"] = [{"key": NODE_TAINT, "operator": "Exists", "effect": "NoSchedule"}]
        assert run_to_its_end(local_plane, namespace, body)["status"]["phase"] == "Succeeded"


def test_its_logs_are_shown_by_our_api_server(local_plane: LocalPlane, tmp_path: Path) -> None:
    namespace = local_plane.create_namespace("logs")
    name = f"node-{namespace[-6:]}"
    authority = Authority(local_plane.data / "pki", clock=SystemClock())
    own = authority.server(f"test-{name}", user=f"system:node:{name}", names=[name, "127.0.0.1"])
    arguments = ("--client-ca", authority.file, "--certificate", own.file)
    with running_node(local_plane, tmp_path, name, *arguments):
        run_to_its_end(local_plane, namespace, pod(name, "you", "there"))
        assert local_plane.kubectl("logs", "one", "-n", namespace).stdout == "hello you there\n"


def test_a_second_node_on_the_same_directory_is_refused(local_plane: LocalPlane, tmp_path: Path) -> None:
    with running_node(local_plane, tmp_path, "first-of-two"):
        done = edgewright("node", "--kubeconfig", local_plane.kubeconfig, "--data", tmp_path / "node")
        assert (done.returncode, done.stdout) == (1, "")
        assert sentence(done) == (
            f"{tmp_path / 'node'} is in use by another node: stop it, or choose another directory"
        )


def test_credentials_that_the_server_does_not_know_get_one_sentence(api_server: ApiServer, tmp_path: Path) -> None:
    kubeconfig = api_server.kubeconfig_with({"token": "nonsense"})
    done = edgewright("node", "--kubeconfig", kubeconfig, "--data", tmp_path / "node")
    assert (done.returncode, done.stdout) == (1, "")
    assert ": 401 " in sentence(done)


def test_somebody_who_may_not_gets_one_sentence(cluster: ControlPlane, tmp_path: Path) -> None:
    kubeconfig = cluster.kubeconfig_for("nobody-in-particular")
    done = edgewright("node", "--kubeconfig", kubeconfig, "--data", tmp_path / "node")
    assert (done.returncode, done.stdout) == (1, "")
    assert ": 403 " in sentence(done)
    assert 'User "nobody-in-particular"' in sentence(done)
