"""What document 002 is played on: a real control plane, `edgewright node` with the stand-in for flux, the operator.

`test_002_flux` uses it. The commands are the document's own; where a target of the Makefile is not there yet, what it
runs is run itself.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster.nodecommand import running_node
from tests.harness import ControlPlane, programs, wait_until
from tests.unit.cli.command import PROGRAM, environment

ROOT = Path(__file__).resolve().parents[2]
STAND_IN = Path(__file__).with_name("flux_stand_in.py")
IMAGE = "fluxrm/flux-sched:focal"
ADDRESS = "127.77.2.1"
NAMESPACE = "flux-operator"


class Stage:
    """A control plane with a node on it, and what people type."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.folder = folder

    # --- what people type -------------------------------------------------------------------------------------------

    def kubectl(self, *words: str, input: str | None = None) -> str:  # noqa: A002
        """What kubectl says; its context is the administrator's."""
        said: str = self.plane.kubectl(*words, input=input).stdout
        return said

    def make(self, target: str) -> subprocess.CompletedProcess[str]:
        """`make TARGET`, where there is one."""
        return subprocess.run(
            ["make", target], cwd=ROOT, env=self.environment(), capture_output=True, text=True, timeout=300, check=False
        )

    def environment(self) -> dict[str, str]:
        """The environment of a person at this cluster."""
        path = f"{Path(programs.program('kubectl')).parent}:{os.environ['PATH']}"
        return environment(KUBECONFIG=str(self.plane.kubeconfig), HOME=str(self.folder), PATH=path)

    def edgewright(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`edgewright …`, from start to end."""
        return subprocess.run(
            [PROGRAM, *words], env=self.environment(), capture_output=True, text=True, timeout=60, check=False
        )

    @contextmanager
    def running(self, *, log: str = "operator.log") -> Iterator[subprocess.Popen[str]]:
        """The operator, as `make run` runs it, until the block ends; then Ctrl-C."""
        command: list[str | Path] = [PROGRAM, "run"]
        if has_target("run"):
            # The usual ports may be somebody else's on the machine of the test.
            command = ["make", "run", "METRICS_PORT=0", "HEALTH_PORT=0"]
        with (self.folder / log).open("w") as file:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                text=True,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
                try:
                    process.wait(30)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    # --- what is there ----------------------------------------------------------------------------------------------

    def flux(self, name: str, namespace: str = NAMESPACE) -> dict[str, Any]:
        """A Flux as it is."""
        return self.get("flux", name, namespace)

    def get(self, kind: str, name: str, namespace: str = NAMESPACE) -> dict[str, Any]:
        """Any object as it is."""
        found: dict[str, Any] = json.loads(self.kubectl("get", kind, name, "-n", namespace, "-o", "json"))
        return found

    def names(self, kinds: str, namespace: str = NAMESPACE) -> list[str]:
        """Whatever there is of some kinds, as kind/name."""
        return self.kubectl("get", kinds, "-n", namespace, "-o", "name").split()

    def until(self, name: str, namespace: str = NAMESPACE, **status: Any) -> dict[str, Any]:
        """The Flux once its status has these fields, for the present spec."""

        def reached() -> dict[str, Any] | None:
            flux = self.flux(name, namespace)
            shown = flux.get("status", {})
            current = shown.get("observedGeneration") == flux["metadata"]["generation"]
            return flux if current and all(shown.get(key) == value for key, value in status.items()) else None

        try:
            return wait_until(reached, timeout=120, interval=0.2, what=f"{name} is {status}")
        except AssertionError as error:
            said = self.kubectl("get", "flux,pods,jobs,statefulsets", "-A", "-o", "wide")
            status = self.flux(name, namespace).get("status", {})
            raise AssertionError(f"{error}\n{json.dumps(status, indent=1)}\n{said}") from None

    def reason(self, kind: str, name: str, namespace: str = NAMESPACE) -> tuple[str, str, str]:
        """Status, reason and message of the condition Ready."""
        for each in self.get(kind, name, namespace).get("status", {}).get("conditions", ()):
            if each["type"] == "Ready":
                return each["status"], each["reason"], each.get("message", "")
        return "", "", ""

    def apply(self, *documents: dict[str, Any]) -> str:
        """`kubectl apply -f -`."""
        return self.kubectl(
            "apply", "-f", "-", input=json.dumps({"kind": "List", "apiVersion": "v1", "items": documents})
        )


def flux(name: str = "flux-sample", namespace: str = NAMESPACE, **spec: Any) -> dict[str, Any]:
    """A Flux."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "flux-framework.org/v1alpha1", "kind": "Flux", "metadata": metadata, "spec": spec}


def setup(name: str = "flux-sample", namespace: str = NAMESPACE, **spec: Any) -> dict[str, Any]:
    """A FluxSetup."""
    return {**flux(name, namespace, **spec), "kind": "FluxSetup"}


def has_target(name: str) -> bool:
    """Whether the Makefile has a target."""
    rules = "".join(path.read_text() for path in (ROOT / "Makefile", *ROOT.glob("*.mk")))
    return re.search(rf"^{name}:", rules, re.MULTILINE) is not None


@contextmanager
def staged(plane: ControlPlane, folder: Path, *, name: str = "edge-flux") -> Iterator[Stage]:
    """A node on a control plane, with the stand-in as the image's program; both go afterwards."""
    # Not in a folder of pytest's: Pods run as nobody, who may not enter those.
    place = Path(tempfile.mkdtemp(prefix="edgewright-flux-"))
    try:
        place.chmod(0o755)
        program = place / "flux"
        program.write_text(f"#!{sys.executable}\n{STAND_IN.read_text()}")
        program.chmod(0o755)
        certificate = folder / "node.pem"
        certificate.write_bytes(
            (plane.directory / "serving.crt").read_bytes() + (plane.directory / "serving.key").read_bytes()
        )
        arguments = ("--image", f"{IMAGE}={program}", "--addresses", ADDRESS)
        logs = ("--client-ca", plane.ca_file, "--certificate", certificate)
        with running_node(plane, folder, name, *arguments, *logs):
            yield Stage(plane, folder)
    finally:
        shutil.rmtree(place, ignore_errors=True)
