"""What document 002 is played on: a control plane, a node of ours with the stand-in for flux, the operator.

On the real control plane `edgewright node` runs the Pods (`staged`); `edgewright up` does so itself (`on_up`). The
commands are the document's own; where a target of the Makefile is not there yet, what it runs is run itself.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.parse
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cluster.nodecommand import OTHERS_TOO, running_node
from tests.harness import ApiServer, ControlPlane, LocalPlane, programs, wait_until
from tests.harness.fixtures import run
from tests.unit.cli.command import PROGRAM, environment

ROOT = Path(__file__).resolve().parents[2]
STAND_IN = Path(__file__).with_name("flux_stand_in.py")
IMAGE = "fluxrm/flux-sched:focal"
VIEW = "ghcr.io/converged-computing/flux-view-ubuntu:tag-noble"
"""The image that brings flux into the Pods of a MiniCluster; here it brings nothing, because it is there already."""
ADDRESS = "127.77.2.1"
NAMESPACE = "flux-operator"
_CORE: Final = "/api/v1", ""
_APPS: Final = "/apis/apps/v1", ".apps"
_BATCH: Final = "/apis/batch/v1", ".batch"
_FLUX: Final = "/apis/flux-framework.org/v1alpha1", ".flux-framework.org"
_PLACES: Final = {
    "configmap": (*_CORE, "configmaps"),
    "deployment": (*_APPS, "deployments"),
    "event": (*_CORE, "events"),
    "flux": (*_FLUX, "fluxes"),
    "fluxsetup": (*_FLUX, "fluxsetups"),
    "job": (*_BATCH, "jobs"),
    "minicluster": ("/apis/flux-framework.org/v1alpha2", ".flux-framework.org", "miniclusters"),
    "minimart": ("/apis/charts.samutup.com/v1alpha1", ".charts.samutup.com", "minimarts"),
    "pod": (*_CORE, "pods"),
    "replicaset": (*_APPS, "replicasets"),
    "resourcequota": (*_CORE, "resourcequotas"),
    "secret": (*_CORE, "secrets"),
    "service": (*_CORE, "services"),
    "serviceaccount": (*_CORE, "serviceaccounts"),
    "statefulset": (*_APPS, "statefulsets"),
}
"""Where the API server has a kind, and what kubectl puts after its name. Tests look by requests, since a process of
kubectl for each look would cost more than what is looked at."""


class Stage:
    """A control plane with a node on it, and what people type."""

    def __init__(self, plane: ApiServer, folder: Path) -> None:
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
            [PROGRAM, *words], env=self.environment(), capture_output=True, text=True, timeout=240, check=False
        )

    @contextmanager
    def running(self, *options: str, log: str = "operator.log") -> Iterator[subprocess.Popen[str]]:
        """The operator, as `make run ARGS=OPTIONS` runs it, until the block ends; then Ctrl-C."""
        command: list[str | Path] = [PROGRAM, "run", *options]
        if has_target("run"):
            # The usual ports may be somebody else's on the machine of the test.
            command = ["make", "run", "METRICS_PORT=0", "HEALTH_PORT=0", f"ARGS={' '.join(options)}"]
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
                    process.wait(120)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    # --- what is there ----------------------------------------------------------------------------------------------

    def discard(self, kinds: str, namespace: str) -> None:
        """Deletes what there is of some kinds, and once that is gone the namespace."""
        for kind in kinds.split(","):
            self.plane.request("DELETE", _path(kind, namespace))
        wait_until(lambda: not self.names(kinds, namespace), what=f"nothing of {kinds} is left in {namespace}")
        self.plane.request("DELETE", f"/api/v1/namespaces/{namespace}")

    def flux(self, name: str, namespace: str = NAMESPACE) -> dict[str, Any]:
        """A Flux as it is."""
        return self.get("flux", name, namespace)

    def get(self, kind: str, name: str, namespace: str = NAMESPACE) -> dict[str, Any]:
        """Any object as it is."""
        found: dict[str, Any] = self.plane.request("GET", f"{_path(kind, namespace)}/{name}")
        return found

    def items(self, kind: str, namespace: str, **selectors: str) -> list[dict[str, Any]]:
        """The objects of a kind, or those that labelSelector or fieldSelector chooses."""
        found: list[dict[str, Any]] = self.plane.request(
            "GET", f"{_path(kind, namespace)}?{urllib.parse.urlencode(selectors)}"
        )["items"]
        return found

    def names(self, kinds: str, namespace: str = NAMESPACE) -> list[str]:
        """Whatever there is of some kinds, as `kubectl get -o name` names it."""
        return [
            f"{kind}{_PLACES[kind][1]}/{each['metadata']['name']}"
            for kind in kinds.split(",")
            for each in self.items(kind, namespace)
        ]

    def until(self, name: str, namespace: str = NAMESPACE, *, kind: str = "flux", **status: Any) -> dict[str, Any]:
        """The Flux, or one of another kind, once its status has these fields, for the present spec."""

        def reached() -> dict[str, Any] | None:
            flux = self.get(kind, name, namespace)
            shown = flux.get("status", {})
            current = shown.get("observedGeneration") == flux["metadata"]["generation"]
            return flux if current and all(shown.get(key) == value for key, value in status.items()) else None

        try:
            return wait_until(reached, timeout=180, interval=0.05, what=f"{name} is {status}")
        except AssertionError as error:
            said = self.kubectl("get", f"{kind},pods,jobs,statefulsets", "-A", "-o", "wide")
            status = self.get(kind, name, namespace).get("status", {})
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


class Terminal:
    """A terminal in which `make run` goes on from test to test, unless one needs the operator stopped."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._process: subprocess.Popen[str] | None = None
        self._stack = ExitStack()

    def run(self) -> subprocess.Popen[str]:
        """The operator, started where it does not run."""
        if self._process is None or self._process.poll() is not None:
            self.stop()
            self._process = self._stack.enter_context(self._stage.running())
        return self._process

    def stop(self) -> None:
        """Ctrl-C, where it runs."""
        self._stack.close()
        self._process = None


def _path(kind: str, namespace: str) -> str:
    version, _, plural = _PLACES[kind]
    return f"{version}/namespaces/{namespace}/{plural}"


def flux(name: str = "flux-sample", namespace: str = NAMESPACE, **spec: Any) -> dict[str, Any]:
    """A Flux."""
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "flux-framework.org/v1alpha1", "kind": "Flux", "metadata": metadata, "spec": spec}


def minicluster(name: str, namespace: str, command: str = "", *, size: int = 2, **spec: Any) -> dict[str, Any]:
    """A MiniCluster whose command runs in the stand-in's image; `container` adds to its container."""
    container = {"image": IMAGE, **({"command": command} if command else {}), **spec.pop("container", {})}
    body: dict[str, Any] = {"size": size, "containers": [container], "logging": {"quiet": True}, **spec}
    metadata = {"name": name, "namespace": namespace}
    return {
        "apiVersion": "flux-framework.org/v1alpha2",
        "kind": "MiniCluster",
        "metadata": metadata,
        "spec": body,
    }


def setup(name: str = "flux-sample", namespace: str = NAMESPACE, **spec: Any) -> dict[str, Any]:
    """A FluxSetup."""
    return {**flux(name, namespace, **spec), "kind": "FluxSetup"}


def writes(plane: ControlPlane, namespace: str, *, since: int) -> list[tuple[str, str, str]]:
    """What programs of ours wrote in a namespace from that line of the audit log on; Leases and events do not count."""
    return [
        (event["verb"], event["objectRef"]["resource"], event["objectRef"].get("name"))
        for event in plane.audit_events()[since:]
        if event.get("userAgent", "").startswith("edgewright")
        and event["verb"] not in {"get", "list", "watch"}
        and event["objectRef"]["resource"] not in {"leases", "events"}
        and event["objectRef"].get("namespace") == namespace
    ]


def has_target(name: str) -> bool:
    """Whether the Makefile has a target."""
    rules = "".join(path.read_text() for path in (ROOT / "Makefile", *ROOT.glob("*.mk")))
    return re.search(rf"^{name}:", rules, re.MULTILINE) is not None


@contextmanager
def stand_in() -> Iterator[tuple[str, ...]]:
    """The options by which a node runs the stand-in as the program of both images; its file goes afterwards."""
    # Not in a folder of pytest's: Pods run as nobody, who may not enter those.
    place = Path(tempfile.mkdtemp(prefix="edgewright-flux-"))
    try:
        place.chmod(0o755)
        program = place / "flux"
        program.write_text(f"#!{sys.executable}\n{STAND_IN.read_text()}")
        program.chmod(0o755)
        yield tuple(word for image in (IMAGE, VIEW) for word in ("--image", f"{image}={program}"))
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextmanager
def staged(plane: ControlPlane, folder: Path, *, name: str = "edge-flux") -> Iterator[Stage]:
    """A node on a control plane, with the stand-in as the image's program; both go afterwards."""
    certificate = folder / "node.pem"
    certificate.write_bytes(
        (plane.directory / "serving.crt").read_bytes() + (plane.directory / "serving.key").read_bytes()
    )
    logs = ("--client-ca", plane.ca_file, "--certificate", certificate)
    with (
        stand_in() as images,
        running_node(plane, folder, name, *images, "--addresses", ADDRESS, *OTHERS_TOO, *logs),
    ):
        yield Stage(plane, folder)


@contextmanager
def on_up(request: pytest.FixtureRequest, folder: Path) -> Iterator[Stage]:
    """`edgewright up` without its operator, whose own node has the stand-in."""
    with stand_in() as images:
        for plane in run(request, functools.partial(LocalPlane, node=True, arguments=images)):
            yield Stage(plane, folder)
