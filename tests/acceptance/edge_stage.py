"""What the tests of document 004 stand on: a real cluster with operator and gateway, a bucket, and two edge devices.

Operator, gateway and agents are the commands that people type, each a process; the devices have network namespaces and
podmans of their own. A small provisioner fills the bucket claims, as an object store's operator would.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from tests.edge.bucket import S3Server
from tests.edge.machine import Machine, build_image
from tests.edge.site import has_authority
from tests.harness import ControlPlane, programs, wait_until
from tests.harness.processes import Process, free_port
from tests.unit.cli.command import PROGRAM, environment

ROOT: Final = Path(__file__).resolve().parents[2]
NAMESPACE: Final = "default"
DEVICES: Final = f"/apis/management.project-flotta.io/v1alpha1/namespaces/{NAMESPACE}/edgedevices"
DEPLOYMENTS: Final = f"/apis/management.project-flotta.io/v1alpha1/namespaces/{NAMESPACE}/edgedeployments"
CLAIMS: Final = f"/apis/objectbucket.io/v1alpha1/namespaces/{NAMESPACE}/objectbucketclaims"
SAMPLE: Final = "config/samples/management_v1alpha1_edgedeployment.yaml"
IMAGE: Final = "docker.io/library/nginx:1.14.2"
"""The image that the sample names; nothing can be pulled here, so a busybox goes by this name."""
CLAIM_DEFINITION: Final = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "objectbucketclaims.objectbucket.io"},
    "spec": {
        "group": "objectbucket.io",
        "names": {"kind": "ObjectBucketClaim", "plural": "objectbucketclaims", "singular": "objectbucketclaim"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}

T = TypeVar("T")


class Device:
    """An edge device of the stage: a machine, and an agent that was set up from a bundle."""

    def __init__(self, stage: Stage, machine: Machine, name: str) -> None:
        self.stage, self.machine, self.name = stage, machine, name
        self.folder = machine.folder / "etc"
        self.state = machine.folder / "state"
        stage.type(f"edgewright edge bundle {self.folder} --server {machine.gateway}:{stage.port} --device-id {name}")
        with (self.folder / "config.toml").open("a") as config:
            config.write(f'state-dir = "{self.state}"\npodman-socket = "{machine.socket}"\n')
            config.write("poll-seconds = 0.5\ndata-seconds = 0.5\n")
        self.agent: Process = machine.agent(self.folder / "config.toml")

    @property
    def object(self) -> dict[str, Any]:
        """Its EdgeDevice."""
        found: dict[str, Any] = self.stage.cluster.request("GET", f"{DEVICES}/{self.name}")
        return found

    @property
    def status(self) -> dict[str, Any]:
        """The status of its EdgeDevice; empty while there is none."""
        if not self.stage.cluster.exists(f"{DEVICES}/{self.name}"):
            return {}
        found: dict[str, Any] = self.object.get("status") or {}
        return found

    @property
    def workloads(self) -> dict[str, str]:
        """The workloads in its status, as the document's era names them."""
        return {each["name"]: each.get("phase", "") for each in self.status.get("deployments") or []}


class Stage:
    """A cluster, what runs on it, and two devices."""

    def __init__(self, stack: ExitStack, cluster: ControlPlane, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        self.port = free_port()
        machines = [stack.enter_context(Machine()) for _ in range(2)]
        archive = build_image(folder / "image", IMAGE)
        for machine in machines:
            asyncio.run(machine.podman.load_image(archive))
        self.s3 = stack.enter_context(S3Server(folder / "s3", addresses=[each.gateway for each in machines]))
        cluster.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", CLAIM_DEFINITION)
        cluster.until_served("objectbucketclaims.objectbucket.io")
        stack.enter_context(self._provisioner(machines[0].gateway))
        self.type("edgewright crds install")
        self.operator = self._process("operator", "run", "--controllers", "edge", "--no-leader-elect")
        names = [part for each in machines for part in ("--name", each.gateway)]
        self.gateway = self._process("gateway", "gateway", "--port", str(self.port), *names)
        for process in (self.operator, self.gateway):
            stack.callback(process.kill)
            process.start()
        wait_until(lambda: has_authority(cluster), what="the gateway's authority")
        self.devices = [Device(self, machine, name) for machine, name in zip(machines, NAMES, strict=True)]

    def type(self, command: str, *, fails: bool = False) -> str:
        """What a command prints that is typed in the checkout."""
        path = f"{Path(sys.executable).parent}:{programs.directory()}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=ROOT,
            env=environment(PATH=path, HOME=str(self.folder), KUBECONFIG=str(self.cluster.kubeconfig)),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert (done.returncode != 0) is fails, f"{command}: {done.stdout}\n{done.stderr}"
        return done.stderr if fails else done.stdout

    def until(self, condition: Callable[[], T | None], what: str) -> T:
        """Waits, and says what the programs said where it was in vain."""
        try:
            return wait_until(condition, what=what, timeout=90, interval=0.2)
        except AssertionError as error:
            logs = [self.operator, self.gateway, *(each.agent for each in self.devices)]
            said = "\n".join(f"--- {each.name}\n{each.output()[-2000:]}" for each in logs if each.log.exists())
            raise AssertionError(f"{error}\n{said}") from None

    def _process(self, name: str, *arguments: str) -> Process:
        log = self.folder / f"{name}.log"
        command: list[str | Path] = [PROGRAM, *arguments, "--kubeconfig", self.cluster.kubeconfig]
        return Process(name, command, log=log, ready=lambda: True)

    @contextmanager
    def _provisioner(self, host: str) -> Iterator[None]:
        """Makes a bucket, a ConfigMap and a Secret for each claim."""
        ended = threading.Event()

        def work() -> None:
            served: set[str] = set()
            while not ended.wait(0.3):
                for claim in self.cluster.request("GET", CLAIMS)["items"]:
                    name = claim["metadata"]["name"]
                    if name not in served:
                        served.add(name)
                        self._provide(name, host)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _provide(self, name: str, host: str) -> None:
        place, keys = self.s3.claimed(name, host=host)
        core = f"/api/v1/namespaces/{NAMESPACE}"
        self.cluster.request("POST", f"{core}/secrets", {"metadata": {"name": name}, "data": keys})
        self.cluster.request("POST", f"{core}/configmaps", {"metadata": {"name": name}, "data": place})


NAMES: Final = ("242e48d0-286b-4170-9b97-95502066e6ae", "8f2d6a52-7a52-4a4e-9b6e-0d8f1b7c2a10")
