"""A real Kubernetes with one real node: control plane, registry, containerd, CNI, kubelet and kube-proxy as processes.

The tests start one in their room and hurt its parts through the verbs of `Process`. The LAN is a bridge with this
machine's address and a pool of addresses for Services; devices are put on it by `lan`. It needs the room: outside
of one it would change the machine.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from tests.harness import ControlPlane, Process, wait_until
from tests.node import node_files
from tests.node.images import BUNDLED, SCAFFOLD
from tests.node.layout import LAN_ADDRESS, LAN_BRIDGE, LAN_PREFIX, NODE, POD_NETWORK, POOL, REGISTRY
from tests.node.room import CGROUPS, PREFIX

PATIENCE: Final = 300.0
_MASQUERADE: Final = f"""\
table ip ewnode {{
  chain out {{
    type nat hook postrouting priority srcnat;
    ip saddr {POD_NETWORK} oifname "{LAN_BRIDGE}" masquerade
  }}
}}
"""


class RealCluster(ControlPlane):
    """The control plane, reached from the LAN too, and the node on this machine."""

    def __init__(self, folder: Path, images: Path) -> None:
        """`folder` is that of the room, `images` that of a registry as `images` makes it."""
        super().__init__(
            parts={"controller-manager", "scheduler"},
            audit=True,
            addresses=[LAN_ADDRESS],
            directory=folder,
            api_flags=[
                "--bind-address=0.0.0.0",
                f"--advertise-address={LAN_ADDRESS}",
                "--endpoint-reconciler-type=lease",
                "--kubelet-preferred-address-types=InternalIP",
            ],
        )
        self.room = folder
        self._images = images
        self.digests: dict[str, str] = json.loads((images / "digests.json").read_text())
        self.api_away: list[tuple[datetime, datetime]] = []
        """From when to when there was no API server that was ready: one that starts knows no roles yet, and refuses."""
        self._control_group = f"{PREFIX}{folder.name}"
        serving = self._authority.server(NODE, names=[NODE], addresses=[LAN_ADDRESS])
        self._node = node_files.NodeFiles(
            home=folder,
            authority=self.ca_file,
            serving=serving.write(self.directory, "kubelet"),
            control_group=self._control_group,
        )

    def image(self, name: str) -> str:
        """An image in the registry, by its digest; those of the bundle as its installer names them."""
        place = "edgewright" if name in BUNDLED else REGISTRY
        return f"{place}/{name}@{self.digests[name]}"

    @property
    def bundle(self) -> Path:
        """What is in the offline bundle besides images and wheels."""
        return self._images / "bundle"

    @property
    def scaffold(self) -> Path:
        """The project that `edgewright chart init` wrote, whose image is in the registry."""
        return self._images / SCAFFOLD

    # --- its parts ----------------------------------------------------------------------------------------------------

    @property
    def registry(self) -> Process:
        """What images and firmware are pulled from."""
        return self._processes["registry"]

    @property
    def containerd(self) -> Process:
        """What runs the containers."""
        return self._processes["containerd"]

    @property
    def kubelet(self) -> Process:
        """The node's agent."""
        return self._processes["kubelet"]

    def __enter__(self) -> Self:
        self._make_network()
        self._start_registry()
        super().__enter__()
        self._start_node()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends our processes; the folder with their logs stays, and containers end with the room."""
        self._kill_parts()

    def _make_network(self) -> None:
        run("ip", "link", "add", LAN_BRIDGE, "type", "bridge")
        run("ip", "addr", "add", f"{LAN_ADDRESS}/{LAN_PREFIX}", "dev", LAN_BRIDGE)
        run("ip", "link", "set", LAN_BRIDGE, "up")
        # kube-proxy translates the addresses of Services, and answers nobody who asks where they are.
        run("ip", "route", "add", "local", POOL, "dev", LAN_BRIDGE)
        run("nft", "-f", "-", given=_MASQUERADE)

    def _start_registry(self) -> None:
        storage = self.room / "registry"
        for name in ("upper", "work", "merged"):
            (storage / name).mkdir(parents=True)
        layers = f"lowerdir={self._images / 'storage'},upperdir={storage / 'upper'},workdir={storage / 'work'}"
        run("mount", "-t", "overlay", "-o", layers, "overlay", str(storage / "merged"))
        config = node_files.write_json(storage / "config.json", node_files.registry(storage / "merged"))
        self._launch("registry", [shutil.which("docker-registry") or "", "serve", str(config)], _registry_answers)
        self.registry.wait_ready()

    def _start_node(self) -> None:
        node_files.write_node(self._node)
        kubelet_user = self.kubeconfig_for(f"system:node:{NODE}", ["system:nodes"])
        proxy_user = self.kubeconfig_for("system:kube-proxy")
        containerd = node_files.containerd_command(self._node)
        # It answers before it can be asked to run anything.
        self._launch("containerd", containerd, lambda: "Start streaming server" in self.containerd.output())
        self.containerd.wait_ready()
        self._launch("kubelet", node_files.kubelet_command(self._node, kubelet_user), self._node_ready)
        self._launch("kube-proxy", node_files.proxy_command(self._node, proxy_user), _proxy_ready)
        self.wait_ready()

    def _node_ready(self) -> bool:
        if not fetched(f"http://127.0.0.1:{node_files.KUBELET_HEALTH_PORT}/healthz"):
            return False  # what the API server has may be from before
        try:
            if not self.exists(f"/api/v1/nodes/{NODE}"):
                return False
            status = self.request("GET", f"/api/v1/nodes/{NODE}")["status"]
        except OSError:
            return False
        return any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions", ()))

    # --- what tests do to it ------------------------------------------------------------------------------------------

    def stop_node(self) -> None:
        """Ends the node as a power cut does: its agent, its runtime and all containers at once."""
        self.kubelet.kill()
        self.containerd.kill()
        for pid in self.container_pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not self.container_pids(), what="no process of a container is left")

    def start_node(self) -> None:
        """Starts the node again."""
        self.containerd.start()
        self.containerd.wait_ready()
        self.kubelet.start()
        self.kubelet.wait_ready()

    @contextmanager
    def without_api_server(self) -> Iterator[None]:
        """Kills the API server; when the block ends, it is started again, and ready."""
        began = datetime.now(UTC)
        self.api.kill()
        yield
        self.api.start()
        self.api.wait_ready()
        self.api_away.append((began, datetime.now(UTC)))

    def container_pids(self) -> list[int]:
        """The processes in containers of the node, as the kernel has them."""
        groups = (CGROUPS / "pids" / self._control_group).rglob("cgroup.procs")
        return [int(line) for group in groups for line in group.read_text().split() if int(line)]

    def pods(self, namespace: str, selector: str = "") -> list[dict[str, Any]]:
        """The Pods of a namespace."""
        query = f"?labelSelector={selector}" if selector else ""
        found: list[dict[str, Any]] = self.request("GET", f"/api/v1/namespaces/{namespace}/pods{query}")["items"]
        return found


def run(*command: str, given: str | None = None) -> str:
    """Runs a program; what it printed, or an error with what it said."""
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr or done.stdout}"
    return done.stdout


def fetched(url: str, *, timeout: float = 10) -> str:
    """What a page says; empty where nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=timeout) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def ready_pods(pods: Sequence[dict[str, Any]]) -> list[str]:
    """The names of those Pods that are ready."""
    return [
        pod["metadata"]["name"]
        for pod in pods
        for each in pod["status"].get("conditions", ())
        if each["type"] == "Ready" and each["status"] == "True"
    ]


def _registry_answers() -> bool:
    return fetched(f"http://{REGISTRY}/v2/") == "{}"


def _proxy_ready() -> bool:
    return bool(fetched(f"http://127.0.0.1:{node_files.PROXY_HEALTH_PORT}/livez"))
