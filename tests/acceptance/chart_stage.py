"""What the tests of document 003 stand on: a cluster with a node of ours, a folder to work in, and `make` in it.

The folder holds what the document's reader has: the existing chart in minimart/chart, and minimart-operator, which
`edgewright chart init` fills. It lies where Pods may read, for the operator's Pod runs from there.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.nodecommand import OTHERS_TOO, running_node
from tests.harness import ApiServer, ControlPlane, LocalPlane, programs, wait_until
from tests.harness.fixtures import run
from tests.harness.processes import all_stopped, free_port
from tests.unit.cli.command import PROGRAM, environment

MINIMART = Path(__file__).with_name("minimart")
IMAGE = "samutup/minimart-operator:0.0.1"
SAMPLE = "config/samples/charts_v1alpha1_minimart.yaml"
MINIMARTS = "/apis/charts.samutup.com/v1alpha1/namespaces/default/minimarts"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
SECRETS = "/api/v1/namespaces/default/secrets"
INIT = "chart init --plugins helm --domain samutup.com --helm-chart ../minimart/chart"
"""The document's first command."""
_TOOLS = Path(sys.executable).parent


class Stage:
    """A cluster and the folder of a project."""

    def __init__(self, cluster: ApiServer, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.project = folder / "minimart-operator"
        if not self.project.exists():
            lay_out(folder)

    def environment(self, **more: str) -> dict[str, str]:
        """A shell in which kubectl, edgewright and this cluster are found."""
        path = f"{_TOOLS}:{programs.directory()}:{os.environ['PATH']}"
        return environment(PATH=path, HOME=str(self.folder), KUBECONFIG=str(self.cluster.kubeconfig), **more)

    def shell(self, command: str, *, fails: bool = False, **more: str) -> str:
        """What a command of the document prints, typed in the project's folder."""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.project,
            env=self.environment(**more),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert (done.returncode != 0) is fails, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stderr if fails else done.stdout

    def init(self) -> str:
        """The document's first command."""
        return self.shell(f"edgewright {INIT}")

    @contextmanager
    def operator(self, *arguments: str, name: str = "operator") -> Iterator[Operator]:
        """`edgewright run --watches watches.yaml` as a process in the project's folder."""
        operator = Operator(self, arguments, self.folder / f"{name}.log")
        try:
            yield operator
        finally:
            operator.kill()

    # --- what is there -----------------------------------------------------------------------------------------------

    def minimart(self, name: str = "minimart-sample") -> dict[str, Any]:
        """The object as it is."""
        found: dict[str, Any] = self.cluster.request("GET", f"{MINIMARTS}/{name}")
        return found

    def create(self, name: str, **values: Any) -> None:
        """A Minimart with these values."""
        body = {"apiVersion": "charts.samutup.com/v1alpha1", "kind": "Minimart", "metadata": {"name": name}}
        self.cluster.request("POST", MINIMARTS, {**body, "spec": values})

    def change(self, name: str, **values: Any) -> None:
        """Puts these values over those that it has; None takes one away."""
        merge = "application/merge-patch+json"
        self.cluster.request("PATCH", f"{MINIMARTS}/{name}", {"spec": values}, content_type=merge)

    def conditions(self, name: str = "minimart-sample") -> dict[str, dict[str, Any]]:
        """Its conditions by type."""
        return {each["type"]: each for each in self.minimart(name).get("status", {}).get("conditions", ())}

    def until_condition(self, type_: str, status: str, name: str = "minimart-sample") -> dict[str, Any]:
        """The condition once it has this status, for the object as it is now."""

        def holds() -> dict[str, Any] | None:
            found = self.minimart(name)
            condition = self.conditions(name).get(type_, {})
            current = condition.get("observedGeneration") == found["metadata"]["generation"]
            return condition if current and condition.get("status") == status else None

        try:
            return wait_until(holds, what=f"{name} is {type_}={status}")
        except AssertionError as error:
            raise AssertionError(f"{error}; the conditions are {json.dumps(self.conditions(name))}") from None

    def until_gone(self, name: str) -> None:
        """Waits until the object is gone."""
        wait_until(lambda: not self.cluster.exists(f"{MINIMARTS}/{name}"), what=f"{name} is gone")

    def revisions(self, name: str) -> list[tuple[int, str]]:
        """Version and status of every stored revision, oldest first."""
        found = self.cluster.request("GET", f"{SECRETS}?labelSelector=owner=helm,name={name}")["items"]
        labels = [each["metadata"]["labels"] for each in found]
        return sorted((int(each["version"]), each["status"]) for each in labels)

    def deployment(self, name: str) -> dict[str, Any]:
        """The Deployment of a release."""
        found: dict[str, Any] = self.cluster.request("GET", f"{DEPLOYMENTS}/{name}")
        return found


class Operator:
    """One process of the operator."""

    def __init__(self, stage: Stage, arguments: tuple[str, ...], log: Path) -> None:
        self._log = log
        self.command: list[str | Path] = [
            PROGRAM,
            "run",
            "--controllers",
            "charts",
            "--watches",
            "watches.yaml",
            *arguments,
        ]
        with log.open("a") as out:
            self._start = out.tell()
            self.process = subprocess.Popen(
                self.command,
                cwd=stage.project,
                env=stage.environment(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    def log(self) -> list[dict[str, Any]]:
        """What it said since its start."""
        text = self._log.read_text()[self._start :]
        return [
            json.loads(line) for line in text.splitlines(keepends=True) if line.startswith("{") and line[-1] == "\n"
        ]

    def said(self, message: str) -> list[dict[str, Any]]:
        """The lines with this message."""
        return [each for each in self.log() if each["msg"] == message]

    def until_said(self, message: str) -> dict[str, Any]:
        """The first line with this message."""
        return wait_until(lambda: self.said(message), what=f"{self._log}: {message}")[0]

    def child(self) -> int | None:
        """The process id of its Helm process."""
        pid = self.process.pid
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        except OSError:
            return None
        return next((int(each) for each in children if b"helm_program" in _command_line(int(each))), None)

    def work_for(self, seconds: float) -> None:
        """Lets it work for that long, or until it has ended."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)

    def stop(self) -> None:
        """Stops it with SIGSTOP, and returns when it stands still; its Helm process goes on."""
        self.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: all_stopped(self.process.pid), what="the operator stands still")

    def resume(self) -> None:
        """Lets it go on."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Ends it as a power cut would."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def alive(pid: int) -> bool:
    """Whether a process is there and not only waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def page(url: str) -> str:
    """What a page says."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        text: str = answer.read().decode()
    return text


@contextmanager
def working_folder() -> Iterator[Path]:
    """A folder that everybody may read, for Pods run as somebody who owns nothing."""
    folder = Path(tempfile.mkdtemp(prefix="edgewright-chart-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def lay_out(folder: Path) -> Path:
    """What the document's reader has before its first command: the chart, and an empty folder, which is given back."""
    shutil.copytree(MINIMART, folder / "minimart")
    project = folder / "minimart-operator"
    project.mkdir()
    return project


def images(folder: Path) -> tuple[str, ...]:
    """The options by which a node runs the two images of the document as programs of a stage's folder."""
    shop = f"{sys.executable} {folder / 'minimart' / 'shop.py'}"
    lines = {"samutup/minimart:1.0.0": shop, IMAGE: str(folder / "operator.sh")}
    return tuple(part for name, line in lines.items() for part in ("--image", f"{name}={line}"))


def place_operator(stage: Stage, **variables: str) -> None:
    """Writes what the operator's image is: it works in the project's folder, with these variables on top."""
    operator = stage.folder / "operator.sh"
    exports = "".join(f"export {name}={value}\n" for name, value in variables.items())
    operator.write_text(f'#!/bin/sh\ncd {stage.project}\n{exports}exec {PROGRAM} "$@"\n')
    operator.chmod(0o755)


@contextmanager
def node(stage: Stage) -> Iterator[None]:
    """A node that runs the two images of the document as programs, with logs."""
    cluster = stage.cluster
    folder = stage.folder / "node-files"
    folder.mkdir()
    # Nothing on this cluster forwards the address of the Service of the API server.
    place_operator(stage, KUBERNETES_SERVICE_HOST="127.0.0.1", KUBERNETES_SERVICE_PORT=str(cluster.port))
    pem = folder / "node.pem"
    pem.write_bytes(b"".join((cluster.directory / f"serving.{end}").read_bytes() for end in ("crt", "key")))
    logs: tuple[str | Path, ...] = ("--client-ca", cluster.ca_file, "--certificate", pem)
    with running_node(cluster, folder, "node-of-003", *images(stage.folder), *OTHERS_TOO, *logs):
        yield


@contextmanager
def on_a_cluster(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """A stage on the real Kubernetes, with a node of ours."""
    parts = {"controller-manager", "scheduler"}
    with working_folder() as folder:
        for cluster in run(request, functools.partial(ControlPlane, parts=parts, audit=True)):
            stage = Stage(cluster, folder)
            with node(stage):
                yield stage


@contextmanager
def on_up(
    request: pytest.FixtureRequest, *, operator: bool = False, watches: bool = False, options: tuple[str, ...] = ()
) -> Iterator[Stage]:
    """A stage on `edgewright up`, whose own node runs the Pods; with `operator` it does what ours does, too.

    With `watches` the document's first command is typed before, and that operator serves the chart.
    """
    with working_folder() as folder:
        arguments = (*images(folder), *options)
        if watches:
            project = lay_out(folder)
            subprocess.run([PROGRAM, *INIT.split()], cwd=project, env=environment(HOME=str(folder)), check=True)
            arguments += ("--watches", str(project / "watches.yaml"))
        for cluster in run(request, functools.partial(LocalPlane, node=True, operator=operator, arguments=arguments)):
            stage = Stage(cluster, folder)
            # Of several `up` on one machine the first has the address of the Service of the API server.
            place_operator(stage, KUBERNETES_SERVICE_HOST="127.0.0.1", KUBERNETES_SERVICE_PORT=str(cluster.port))
            yield stage


def writes(cluster: ControlPlane, since: int = 0) -> list[tuple[str, str]]:
    """Every request that wrote something, from the audit log's line number `since` on; Leases do not count."""
    found = []
    for event in cluster.audit_events()[since:]:
        uri = event["requestURI"]
        if event["verb"] in {"get", "list", "watch"} or "dryRun=All" in uri or "/leases" in uri:
            continue
        if event.get("userAgent", "").startswith(("edgewright", "Helm", "helm")):
            found.append((event["verb"], uri))
    return found


def ports() -> Mapping[str, str]:
    """Two free ports, for what the document has at 8080 and 8081."""
    return {"METRICS_PORT": str(free_port()), "HEALTH_PORT": str(free_port())}
