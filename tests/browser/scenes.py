"""A small fleet on either API server, with all that acts on it as processes: node, operator, devices and a console.

The fixture `scene` of the conftest has one per server for the whole session. People sign in with tokens of
`edgewright token`, as viewer, approver and administrator.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from tests.acceptance import console_stage as stage
from tests.acceptance.console_stage import ConsoleProcess
from tests.acceptance.flashjob_stage import Place, devices, embedded_cluster, real_cluster
from tests.harness import ApiServer, wait_until
from tests.unit.cli.command import PROGRAM, environment

SERVERS: Final = {"embedded": embedded_cluster, "real": real_cluster}
ROLLOUTS: Final = "/apis/edgewright.dev/v1alpha1/namespaces/default/firmwarerollouts"
DEVICES: Final = "/apis/edgewright.dev/v1alpha1/devices"
JOBS: Final = stage.JOB_PATH.format("default")
FIRST, NEXT = "0.2.0", "0.3.0"
"""The versions that there is firmware of; the devices run an older one."""
COUNT: Final = 4
BROKEN: Final = COUNT
"""The device that attestation refuses: none of its flashes succeeds."""
_MERGE: Final = "application/merge-patch+json"


@dataclass
class Scene:
    """What is there for the tests on one server."""

    place: Place
    console: ConsoleProcess
    tokens: dict[str, str]
    names: list[str] = field(default_factory=list)
    """The Devices, in the order of the simulated ones."""

    @property
    def server(self) -> ApiServer:
        """The API server."""
        return self.place.server

    def firmware(self, version: str) -> str:
        """The reference of the firmware of a version."""
        return f"{self.place.firmware.rpartition(':')[0]}:{version}"

    def label(self, number: int, **labels: str) -> str:
        """Gives a device labels; its name."""
        name = self.names[number - 1]
        self.server.request("PATCH", f"{DEVICES}/{name}", {"metadata": {"labels": labels}}, content_type=_MERGE)
        return name

    def rollout(self, name: str, version: str = FIRST, **spec: Any) -> None:
        """Declares a rollout, as somebody does with kubectl."""
        what = {
            "firmware": self.firmware(version),
            "version": version,
            "template": {"retries": 0, "timeoutSeconds": 120},
        }
        kind = {"apiVersion": "edgewright.dev/v1alpha1", "kind": "FirmwareRollout"}
        self.server.request("POST", ROLLOUTS, {**kind, "metadata": {"name": name}, "spec": {**what, **spec}})

    def waiting_rollout(self, name: str, version: str, *numbers: int) -> None:
        """Declares a rollout to these devices that waits for approval after the first."""
        names = [self.names[number - 1] for number in numbers]
        first = {"name": "first", "selector": {"names": names[:1]}, "gate": {"approval": "manual"}}
        self.rollout(name, version, selector={"names": names}, batches=[first, {"name": "rest"}])

    def completed_rollout(self, name: str, version: str, **spec: Any) -> None:
        """Declares a rollout, and waits until it is done."""
        self.rollout(name, version, **spec)
        wait_until(lambda: self.get(name).get("status", {}).get("phase") == "Completed", what=f"{name} is done")

    def change(self, name: str, patch: Any) -> None:
        """Changes a rollout, as somebody does with kubectl."""
        self.server.request("PATCH", f"{ROLLOUTS}/{name}", patch, content_type=_MERGE)

    def get(self, name: str) -> Any:
        """A rollout as the server has it."""
        return self.server.request("GET", f"{ROLLOUTS}/{name}")

    def flashed(self, device: str) -> bool:
        """Whether a device has proven to run something that we gave it."""
        return bool(self.server.request("GET", f"{DEVICES}/{device}").get("status", {}).get("firmware"))

    def flash(self, device: str) -> None:
        """Flashes a device with the first version, as somebody does with kubectl."""
        kind = {"apiVersion": "application.flashjob.nbfc.io/v1alpha1", "kind": "FlashJob"}
        spec = {"uuid": [device], "firmware": self.firmware(FIRST), "version": FIRST}
        self.server.request("POST", JOBS, {**kind, "metadata": {"name": f"flash-{device}"}, "spec": spec})
        wait_until(lambda: self.flashed(device), what=f"{device} is flashed")

    def version_of(self, device: str) -> str:
        """What a device is proven to run."""
        found = self.server.request("GET", f"{DEVICES}/{device}").get("status", {})
        return str(found.get("firmware", {}).get("version", ""))

    def flashes(self, name: str) -> list[dict[str, Any]]:
        """What the FlashJobs of a rollout did: an entry per device."""
        uid = self.get(name)["metadata"]["uid"]
        jobs = self.server.request("GET", f"{JOBS}?labelSelector=edgewright.dev/rollout-uid={uid}")["items"]
        return [each for job in jobs for each in job.get("status", {}).get("devices", ())]


@contextmanager
def scenes(request: pytest.FixtureRequest, kind: str, folder: Path) -> Iterator[Scene]:
    """All of it on one of the servers."""
    with ExitStack() as stack:
        server = stack.enter_context(SERVERS[kind](request))
        stage.install(server)
        faults = (f"refuse-attestation={BROKEN}",)
        place = stack.enter_context(devices(server, folder, count=COUNT, faults=faults, versions=(FIRST, NEXT)))
        stack.enter_context(stage.operator(server, folder, *place.operator, controllers="flashjob,rollout"))
        console = stack.enter_context(stage.console(server, folder / "console", "--shared-cache"))
        scene = Scene(place, console, {role: token(server, role) for role in ("viewer", "approver", "admin")})
        scene.names = wait_until(lambda: discovered(place), what="the devices are discovered")
        yield scene


def discovered(place: Place) -> list[str] | None:
    """The names of the Devices in the order of the simulated ones, once all are there."""
    uuids = list(place.instances().values())
    by_uuid = {uuid: name for name, uuid in place.device_names(uuids).items()}
    return [by_uuid[each] for each in uuids] if len(by_uuid) == COUNT else None


def token(server: ApiServer, role: str, *, namespace: str = "default") -> str:
    """A token of a role: in one namespace, an administrator's everywhere."""
    where = ["-n", namespace, *(["--all-namespaces"] if role == "admin" else [])]
    command = [str(PROGRAM), "token", f"the-{role}", "--role", role, "--kubeconfig", str(server.kubeconfig), *where]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=True)
    return done.stdout.strip()
