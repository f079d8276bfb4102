"""`edgewright up` in a machine of its own, with the podman of that machine: what tests of real containers stand on.

The control plane, the bridge of its containers and a registry live in the network namespace of a `Machine`, and what
podman keeps lies in its folder, so nothing of a test is seen outside and all of it goes with the machine.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from tests.edge.machine import Machine
from tests.harness import programs, wait_until
from tests.harness.processes import Process

REGISTRY = "127.0.0.1:5000"
IMAGE = f"{REGISTRY}/shop/minimart:1.0.0"
"""An image that only the registry has at first."""
EDGEWRIGHT = str(Path(sys.executable).with_name("edgewright"))


class Embedded:
    """One `edgewright up` and the commands that people type next to it."""

    def __init__(self, machine: Machine, *arguments: str, operator: bool = False) -> None:
        self.machine = machine
        folder = machine.folder
        self.data = folder / "up"
        self.kubeconfig = self.data / "kubeconfig"
        self._environment = {
            "CONTAINERS_STORAGE_CONF": _written(folder / "storage.conf", _storage(folder)),
            "CONTAINERS_CONF": _written(folder / "up.conf", _configuration(folder)),
            "CONTAINERS_REGISTRIES_CONF": _written(folder / "registries.conf", _registries()),
            "KUBECONFIG": str(self.kubeconfig),
        }
        up = [EDGEWRIGHT, "up", "--data", str(self.data), "--listen", "127.0.0.1:6443"]
        up += [] if operator else ["--no-operator"]
        self.up = Process("up", self.inside(*up, *arguments), log=folder / "up.log", ready=self._answers)
        serve = ["docker-registry", "serve", _written(folder / "registry.json", _registry(folder))]
        self.registry = Process("registry", self.inside(*serve), log=folder / "registry.log", ready=self._serves)

    def inside(self, *command: str | Path) -> list[str]:
        """A command in the machine, with the podman and the control plane of this test."""
        variables = [f"{name}={value}" for name, value in self._environment.items()]
        return [*self.machine.inside, "env", *variables, *(str(part) for part in command)]

    def start(self) -> None:
        """Starts all of it."""
        for process in (self.registry, self.up):
            process.start()
            process.wait_ready()

    def close(self) -> None:
        """Ends all of it, the Pods first."""
        try:
            if self.up.running:
                self.kubectl("delete", "pods,deployments,jobs", "--all", "-A", "--grace-period=0", "--wait=false")
                wait_until(lambda: not self.pods_of_podman(), what="podman has no Pod any more", interval=0.2)
        finally:
            self.up.terminate()
            self.registry.terminate()

    def push(self, archive: Path, name: str) -> None:
        """Puts an image into the registry."""
        self.typed("podman", "load", "-q", "-i", archive)
        self.typed("podman", "push", "-q", name)
        self.typed("podman", "rmi", name)

    def typed(self, *command: str | Path, given: str = "", fails: bool = False) -> str:
        """What a command in the machine prints."""
        done = subprocess.run(
            self.inside(*command), input=given, capture_output=True, text=True, timeout=300, check=False
        )
        text = f"{done.stdout}{done.stderr}"
        assert (done.returncode != 0) is fails, f"{' '.join(str(each) for each in command)}: {text}"
        return text if fails else done.stdout

    def kubectl(self, *arguments: str, given: str = "", fails: bool = False) -> str:
        """What kubectl prints."""
        return self.typed(programs.program("kubectl"), *arguments, given=given, fails=fails)

    def apply(self, *objects: dict[str, Any]) -> None:
        """Applies objects."""
        self.kubectl("apply", "-f", "-", given=yaml.safe_dump_all(objects))

    def get(self, what: str, *arguments: str) -> Any:
        """An object, or a list of some."""
        return json.loads(self.kubectl("get", *what.split("/"), *arguments, "-o", "json"))

    def until_phase(self, name: str, *phases: str) -> dict[str, Any]:
        """A Pod once it is in one of these phases."""

        def there() -> dict[str, Any] | None:
            found: dict[str, Any] = self.get(f"pod/{name}")
            return found if found["status"].get("phase") in phases else None

        return wait_until(there, what=f"{name} is {' or '.join(phases)}", timeout=120, interval=0.2)

    def roll_out(self, name: str) -> float:
        """Waits until a Deployment is complete, and says how many seconds that took."""
        begun = time.monotonic()
        self.kubectl("rollout", "status", f"deployment/{name}", "--timeout=120s")
        return time.monotonic() - begun

    def fetch(self, url: str) -> str:
        """A page as somebody on the machine gets it; empty where nobody answers."""
        command = self.inside("curl", "-s", "-m", "10", url)
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    def pods_of_podman(self, *others: str) -> list[str]:
        """The pods that podman has, without those of other people."""
        names = self.typed("podman", "pod", "ps", "--format", "{{.Name}}").split()
        return [name for name in names if name not in others]

    def _answers(self) -> bool:
        found = self.fetch_ready("https://127.0.0.1:6443/readyz")
        return found == "ok"

    def fetch_ready(self, url: str) -> str:
        """What the control plane says of itself."""
        command = self.inside("curl", "-sk", "-m", "5", url)
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    def _serves(self) -> bool:
        return self.fetch(f"http://{REGISTRY}/v2/").strip() == "{}"


def _written(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def _storage(folder: Path) -> str:
    return f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/root"\nrunroot = "{folder}/run"\n'


def _configuration(folder: Path) -> str:
    lines: Iterable[str] = (folder / "containers.conf").read_text().splitlines()
    more = {"[engine]": f'tmp_dir = "{folder}/tmp"', "[network]": f'network_config_dir = "{folder}/net"'}
    return "\n".join(f"{line}\n{more[line]}" if line in more else line for line in lines) + "\n"


def _registries() -> str:
    return f'[[registry]]\nlocation = "{REGISTRY}"\ninsecure = true\n'


def _registry(folder: Path) -> str:
    storage = {"filesystem": {"rootdirectory": f"{folder}/registry"}}
    everywhere = f":{REGISTRY.rpartition(':')[2]}"  # a container does not reach the 127.0.0.1 of its machine
    return json.dumps({"version": "0.1", "log": {"level": "warn"}, "storage": storage, "http": {"addr": everywhere}})
