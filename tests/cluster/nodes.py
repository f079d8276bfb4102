"""Nodes for tests: our node program attached to a real API server, and the Pods that tests run on it.

`test_node*.py` use it. A node is a process of its own, so that it can be killed; what it runs is ended with the test by
deleting the Pods.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.harness import ControlPlane, Process, RequestError, wait_until

PROGRAM = Path(__file__).with_name("node_program.py")
IMAGES: dict[str, list[str]] = {
    "busybox": [],
    "greeter": ["/bin/echo", "the program says"],
    "python": [sys.executable],
    "registry.example/team/tool:v1": ["/bin/echo"],
}
QUICK = {"backoff": 0.3, "longest_backoff": 1.0, "retry": 0.2, "refresh": 0.3, "heartbeat": 0.5}


class RunningNode:
    """A node program and its folder; it can be killed and started again."""

    def __init__(self, cluster: ControlPlane, directory: Path, *, name: str, **settings: Any) -> None:
        self.cluster = cluster
        self.name = name
        self.directory = directory / "node"
        self._ready = directory / "ready"
        file = directory / "settings.json"
        certificate, key = cluster.directory / "serving.crt", cluster.directory / "serving.key"
        file.write_text(
            json.dumps(
                {
                    "name": name,
                    "kubeconfig": str(cluster.kubeconfig_for(f"system:node:{name}", ["system:nodes"])),
                    "directory": str(self.directory),
                    "images": IMAGES,
                    "ca": str(cluster.ca_file),
                    "certificate": str(certificate),
                    "key": str(key),
                    "ready": str(self._ready),
                    "timing": QUICK,
                    **settings,
                }
            )
        )
        self.process = Process(
            "node", [sys.executable, str(PROGRAM), file], log=directory / "node.log", ready=self._ready.exists
        )

    def start(self) -> None:
        """Starts the program and waits until it follows its Pods."""
        self._ready.unlink(missing_ok=True)
        self.process.start()
        self.process.wait_ready()

    def kill(self) -> None:
        """Ends the node with SIGKILL; its Pods go on."""
        self.process.kill()

    def stop(self) -> None:
        """Ends the node and everything that it still runs."""
        self.process.kill()
        end_containers(self.directory)


def end_containers(directory: Path) -> None:
    """Ends what a node that is gone has left running; `directory` is the node's own."""
    for state in directory.glob("pods/*/containers/*/*/state.json"):
        if (state.parent / "exit.json").exists():
            continue
        shim = json.loads(state.read_text())["shim"]
        if _start_time(shim["pid"]) == shim["start"]:
            os.kill(shim["pid"], signal.SIGUSR1)


def _start_time(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return None


class Pods:
    """The Pods of one test, in its own namespace and on one node."""

    def __init__(self, node: RunningNode, namespace: str) -> None:
        self.node = node
        self.namespace = namespace
        self._cluster = node.cluster

    def path(self, name: str = "") -> str:
        """Where a Pod is, or all of them."""
        return f"/api/v1/namespaces/{self.namespace}/pods{f'/{name}' if name else ''}"

    def create(self, name: str = "pod", *script: str, **settings: Any) -> dict[str, Any]:
        """A Pod; the script is what its only container runs, other settings are fields of the spec.

        Settings that begin with an underscore are fields of that container, or the Pod's `_metadata`.
        """
        metadata = settings.pop("_metadata", {})
        own = {key.removeprefix("_"): settings.pop(key) for key in list(settings) if key.startswith("_")}
        container = {"name": "main", "image": "busybox", **own}
        if script:
            container["command"] = ["sh", "-c", "\n".join(script)]
        spec = {
            "nodeName": self.node.name,
            "restartPolicy": "Never",
            "automountServiceAccountToken": False,
            "containers": [container],
            **settings,
        }
        pod: dict[str, Any] = self._cluster.request(
            "POST", self.path(), {"metadata": {"name": name, **metadata}, "spec": spec}
        )
        return pod

    def get(self, name: str = "pod") -> dict[str, Any]:
        """A Pod as it is."""
        pod: dict[str, Any] = self._cluster.request("GET", self.path(name))
        return pod

    def until(self, condition: Callable[[dict[str, Any]], object], name: str = "pod", *, what: str) -> dict[str, Any]:
        """The Pod once the condition holds."""

        def holds() -> dict[str, Any] | None:
            pod = self.get(name)
            return pod if condition(pod) else None

        try:
            return wait_until(holds, what=what)
        except AssertionError as error:
            raise AssertionError(f"{error}; the status is {json.dumps(self.get(name)['status'])}") from None

    def until_phase(self, phase: str, name: str = "pod") -> dict[str, Any]:
        """The Pod once it is in a phase."""
        return self.until(lambda pod: pod["status"].get("phase") == phase, name, what=f"{name} is {phase}")

    def until_ended(self, name: str = "pod") -> dict[str, Any]:
        """The Pod once it has ended, well or not."""
        return self.until(
            lambda pod: pod["status"].get("phase") in {"Succeeded", "Failed"}, name, what=f"{name} has ended"
        )

    def run(self, name: str, *script: str, **settings: Any) -> str:
        """What a Pod says that ends well."""
        self.create(name, *script, **settings)
        pod = self.until_ended(name)
        said = self.log(name)
        assert pod["status"]["phase"] == "Succeeded", f"{pod['status']}: {said}"
        return said

    def log(self, name: str = "pod", *options: str) -> str:
        """What kubectl shows of its log."""
        shown: str = self._cluster.kubectl("-n", self.namespace, "logs", name, *options).stdout
        return shown

    def delete(self, name: str = "pod", *, grace: int | None = None) -> None:
        """Asks for its deletion."""
        query = "" if grace is None else f"?gracePeriodSeconds={grace}"
        self._cluster.request("DELETE", f"{self.path(name)}{query}")

    def until_gone(self, name: str = "pod") -> None:
        """Waits until the object is gone."""
        wait_until(lambda: not self._cluster.exists(self.path(name)), what=f"{name} is gone")

    def folder(self, pod: Mapping[str, Any]) -> Path:
        """The node's folder of a Pod."""
        return self.node.directory / "pods" / str(pod["metadata"]["uid"])

    def events(self, name: str = "pod") -> list[tuple[str, str]]:
        """Reason and message of every Event about a Pod."""
        query = f"?fieldSelector=involvedObject.name={name}"
        found = self._cluster.request("GET", f"/api/v1/namespaces/{self.namespace}/events{query}")
        return [(each["reason"], each["message"]) for each in found["items"]]

    def make(self, plural: str, name: str, **content: Any) -> None:
        """A ConfigMap or Secret."""
        path = f"/api/v1/namespaces/{self.namespace}/{plural}"
        self._cluster.request("POST", path, {"metadata": {"name": name}, **content})

    def clean(self) -> None:
        """Deletes every Pod and waits until they are gone."""
        for pod in self._cluster.request("GET", self.path())["items"]:
            try:
                self.delete(pod["metadata"]["name"], grace=1)
            except RequestError as error:
                if error.code != 404:
                    raise
        wait_until(lambda: not self._cluster.request("GET", self.path())["items"], what="all Pods are gone")


def state(pod: Mapping[str, Any], index: int = 0, *, init: bool = False) -> dict[str, Any]:
    """The state of a container, from the Pod's status."""
    statuses = pod["status"].get("initContainerStatuses" if init else "containerStatuses") or []
    found: dict[str, Any] = statuses[index]["state"] if len(statuses) > index else {}
    return found


def condition(pod: Mapping[str, Any], type_: str) -> str:
    """The status of a condition."""
    found = {each["type"]: each["status"] for each in pod["status"].get("conditions") or ()}
    return str(found.get(type_, ""))
