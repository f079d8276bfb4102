"""What the documents about FlashJob need around them: a cluster with a node, devices, a checkout and images.

`test_000_flashjob` and `test_001_flashjob_list` type the documents' commands here. A checkout is a folder of links to
the project, so that what a target writes (bin/, build/, dist/) leaves the project alone.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import termios
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import pytest

from edgewright.api.flash_pod import FLASHER_IMAGE
from hack.archives import guarded
from tests.cluster.nodecommand import running_node
from tests.cluster.nodes import end_containers
from tests.harness import ApiServer, ControlPlane, LocalPlane, Process, builds, wait_until
from tests.harness import programs as kubernetes
from tests.harness.processes import free_port

ROOT: Final = Path(__file__).resolve().parents[2]
NAMESPACE: Final = "edgewright-system"
ACCOUNT: Final = f"system:serviceaccount:{NAMESPACE}:edgewright-controller-manager"
JOBS: Final = "/apis/application.flashjob.nbfc.io/v1alpha1/namespaces/default/flashjobs"
ROLLOUTS: Final = "/apis/edgewright.dev/v1alpha1/namespaces/default/firmwarerollouts"
INSTANCES: Final = "/apis/akri.sh/v0/namespaces/default/instances"
IMAGE: Final = "registry.example/flash/edgewright:1.0"
"""An image of the operator that the node of the tests can run."""
SCALE: Final = 0.1
_PYTHON: Final = sys.executable
_LINKED: Final = (
    "Makefile",
    "deploy.mk",
    "config",
    "charts",
    "hack",
    "images",
    "src",
    "requirements",
    "pyproject.toml",
    ".venv",
)
_LINKED_FILES: Final = ("README.md", "LICENSE", "filter_uuid.py")
_OWN: Final = 2 + os.getpid() % 250
IMAGES: Final = (
    *("--image", f"{FLASHER_IMAGE}=env EDGEWRIGHT_TIME_SCALE={SCALE} {_PYTHON} -m edgewright.devices.flasher"),
    *("--image", f"{IMAGE.partition(':')[0]}=env EDGEWRIGHT_TIME_SCALE={SCALE} {_PYTHON} -m edgewright"),
)


@dataclass
class Place:
    """A checkout, and the cluster that its commands mean."""

    server: ApiServer
    folder: Path
    firmware: str = ""
    """The firmware that the devices can be given."""
    operator: tuple[str, ...] = ()
    """What the operator must be told of the devices: their registry and attestation service are on this machine."""
    tools: dict[str, str] = field(default_factory=dict)
    """Variables for the programs that build images."""

    def type(
        self, command: str, *, answers: str | None = None, env: Mapping[str, str] | None = None, timeout: float = 900
    ) -> subprocess.CompletedProcess[str]:
        """Types a command as the document shows it; what it said, whichever way it ended."""
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.folder,
            env={**self.environment(), **(env or {})},
            input=answers,
            stdin=subprocess.DEVNULL if answers is None else None,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def typed(self, command: str, **more: Any) -> str:
        """The output of a command that must end well."""
        done = self.type(command, **more)
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def environment(self) -> dict[str, str]:
        """What commands see: kubectl, and the kubeconfig of the cluster."""
        folder = Path(kubernetes.program("kubectl")).parent
        kept = {name: os.environ[name] for name in ("HOME", "XDG_CACHE_HOME", "LANG") if name in os.environ}
        path = os.pathsep.join([str(folder), os.environ["PATH"]])
        return {**kept, "PATH": path, "KUBECONFIG": str(self.server.kubeconfig), **self.tools}

    def get(self, path: str) -> Any:
        """An object or a list, as the API server has it."""
        return self.server.request("GET", path)

    def job(self, name: str = "flashjob") -> dict[str, Any]:
        """A FlashJob as it is."""
        found: dict[str, Any] = self.get(f"{JOBS}/{name}")
        return found

    def rollouts(self) -> list[dict[str, Any]]:
        """The rollouts as they are, the first made first."""
        found: list[dict[str, Any]] = self.get(ROLLOUTS)["items"]
        return sorted(found, key=lambda each: (each["metadata"]["creationTimestamp"], each["metadata"]["name"]))

    def rollout_jobs(self) -> list[dict[str, Any]]:
        """The FlashJobs that rollouts have made, in the order of their names."""
        jobs = (each for each in self.get(JOBS)["items"] if each["metadata"].get("ownerReferences"))
        return sorted(jobs, key=lambda each: str(each["metadata"]["name"]))

    def device_names(self, chosen: Collection[str]) -> dict[str, str]:
        """The uuid of these by which each Device was found, by its name."""
        devices = self.get("/apis/edgewright.dev/v1alpha1/devices")["items"]
        return {
            each["metadata"]["name"]: uuid
            for each in devices
            for uuid in each.get("status", {}).get("instances", ())
            if uuid in chosen
        }

    def until_phase(self, phase: str, name: str = "flashjob") -> dict[str, Any]:
        """A FlashJob once it has that phase for its present spec."""

        def reached() -> dict[str, Any] | None:
            job = self.job(name)
            status = job.get("status", {})
            seen = status.get("observedGeneration") == job["metadata"]["generation"]
            return job if seen and status.get("phase") == phase else None

        try:
            return wait_until(reached, what=f"{name} is {phase}")
        except AssertionError as error:
            raise AssertionError(f"{error}: {json.dumps(self.job(name).get('status'))}") from None

    def instances(self) -> dict[str, str]:
        """The uid of the Instance at each endpoint, in the order of the devices."""
        items = self.get(INSTANCES)["items"]
        found = {each["spec"]["brokerProperties"]["HOST_ENDPOINT"]: each["metadata"]["uid"] for each in items}
        return dict(sorted(found.items(), key=lambda each: int(each[0].rpartition(".")[2])))

    def seen(self, path: str, condition: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """The first object in a list for which this holds."""

        def found() -> dict[str, Any] | None:
            return next((each for each in self.get(path)["items"] if condition(each)), None)

        return wait_until(found, what=what)

    def clear(self) -> None:
        """Deletes the FlashJobs and the rollouts, and waits until what was made for them is gone."""
        self.server.kubectl("delete", "firmwarerollouts,flashjobs", "--all", "-n", "default", "--timeout=240s")
        self.until_no_flash_objects()

    def until_no_flash_objects(self) -> None:
        """Waits until no Pod and no Service of a FlashJob is left."""

        def left() -> list[str]:
            kinds = ("pods", "services")
            return [name for kind in kinds for name in flash_objects(self.get(f"/api/v1/namespaces/default/{kind}"))]

        wait_until(lambda: not left(), what="no Pods and Services are left")


def flash_objects(listed: Mapping[str, Any]) -> list[str]:
    """The names of Pods or Services that belong to a FlashJob."""
    return [each["metadata"]["name"] for each in listed["items"] if "uuid" in each["metadata"].get("labels", {})]


def checkout(folder: Path) -> Path:
    """A folder that is the project to its commands, with room of its own for what they write."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*_LINKED, *_LINKED_FILES):
        (folder / name).symlink_to(ROOT / name)
    # The packages of a base image are fetched once for all checkouts.
    (ROOT / "build/base").mkdir(parents=True, exist_ok=True)
    (folder / "build").mkdir()
    (folder / "build/base").symlink_to(ROOT / "build/base")
    return folder


@contextmanager
def real_cluster(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """A real control plane whose Pods are run by `edgewright node`, and which writes down every request."""
    addresses = ",".join(f"127.61.{_OWN}.{number}" for number in range(30, 60))
    failed_before = request.session.testsfailed
    server = ControlPlane(parts={"controller-manager", "scheduler"}, audit=True)
    try:
        server.start()
        # The operator runs there too, once it is deployed.
        with running_node(server, server.directory, "edge", *IMAGES, "--no-taint", "--addresses", addresses):
            yield server
    finally:
        end_containers(server.directory / "node")
        server.stop(keep=request.session.testsfailed > failed_before)


@contextmanager
def embedded_cluster(request: pytest.FixtureRequest) -> Iterator[LocalPlane]:
    """An `edgewright up` with its node, and without its operator."""
    failed_before = request.session.testsfailed
    server = LocalPlane(node=True, arguments=IMAGES)
    try:
        server.start()
        yield server
    finally:
        server.stop(keep=request.session.testsfailed > failed_before)


@contextmanager
def devices(
    server: ApiServer, folder: Path, *, count: int, faults: tuple[str, ...] = (), versions: tuple[str, ...] = ("0.2.0",)
) -> Iterator[Place]:
    """A checkout whose cluster has discovered simulated devices, with firmware for them in a registry."""
    registry, attestation = free_port(), free_port()
    command: list[str | Path] = [
        *(Path(_PYTHON).with_name("edgewright"), "simulate", "--kubeconfig", server.kubeconfig),
        *("--devices", str(count), "--application", "thermo", "--time-scale", str(SCALE)),
        *(part for version in versions for part in ("--firmware", version)),
        *("--registry-port", str(registry), "--attestation-port", str(attestation)),
        *("--first-address", f"127.32.{201 + os.getpid() % 50}.{1 + registry % 240}", "--discover-every", "0.5"),
        *(part for fault in faults for part in ("--fault", fault)),
    ]
    log = server.directory / f"simulate-{registry}.log"
    process = Process("simulate", command, log=log, ready=lambda: "Ctrl-C stops them" in log.read_text())
    process.start()
    try:
        process.wait_ready()
        yield Place(
            server,
            checkout(folder / "checkout"),
            firmware=f"127.0.0.1:{registry}/simulated/firmware:{versions[0]}",
            operator=(
                "--local",
                f"--plain-registry=127.0.0.1:{registry}",
                f"--attestation=http://127.0.0.1:{attestation}",
            ),
        )
    finally:
        process.terminate()


@contextmanager
def making(place: Place, command: str, *, ready: Callable[[], bool]) -> Iterator[Path]:
    """A target that runs until Ctrl-C; what it writes is in the file."""
    log = place.folder / "make.log"
    with log.open("w") as written:
        process = subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=place.folder,
            env=place.environment(),
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def begun() -> bool:
        assert process.poll() is None, f"{command} ended with {process.returncode}: {log.read_text()}"
        return ready()

    try:
        wait_until(begun, what=f"{command} is ready")
        yield log
        os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does: to all of the group
        process.wait(60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@contextmanager
def operating(place: Place) -> Iterator[Path]:
    """`make install`, and `make run` until the block ends; what it says is in the file."""
    place.typed("make install")
    command = f'make run ARGS="{" ".join(place.operator)}"'
    with making(place, command, ready=lambda: page("http://127.0.0.1:8081/readyz") == "ok") as log:
        yield log
        place.clear()


def page(url: str) -> str:
    """What a page says; empty where nobody answers, or not with 200."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return str(answer.read().decode())
    except OSError:
        return ""


def filled_in(text: str, place: Place, uuids: list[str]) -> str:
    """A manifest of the document with its placeholders filled in: images that are there, and devices that are."""
    old = ("2559ad7a-543d-41d2-b285-82eab2a8589a", "d95c7c2d-7dc5-427b-9bf7-51a5d299c99e")
    text = text.replace("harbor.nbfc.io/nubificus/esp32:x.x.xxxxxxx", place.firmware)
    for image in ("harbor.nbfc.io/nubificus/iot/esp32-sota:xxx.x-debug", "harbor.nbfc.io/nubificus/iot/x.x.xxxxxxx"):
        text = text.replace(image, FLASHER_IMAGE)
    for each in old:
        text = text.replace(each, uuids[0])
    return text.replace("44606d10-7c29-4098-9d6a-dc16f95090d1", uuids[-1])


def refused(server: ControlPlane, user: str = ACCOUNT) -> list[str]:
    """What the API server refused to somebody for want of a right: verb and path of each request."""
    return [
        f"{event['verb']} {event['requestURI']}"
        for event in server.audit_events()
        if event["user"].get("username") == user and event.get("responseStatus", {}).get("code") == 403
    ]


def used(server: ControlPlane, user: str = ACCOUNT) -> set[tuple[str, str]]:
    """Which verbs somebody used on which resources, as the API server wrote it down."""
    return {
        (event["verb"], "/".join(filter(None, (reference.get("resource"), reference.get("subresource")))))
        for event in server.audit_events()
        if event["user"].get("username") == user and (reference := event.get("objectRef"))
    }


class Conversation:
    """A command on a terminal of its own, which is answered as a person answers it: when it has asked."""

    def __init__(self, place: Place, command: Sequence[str], *, columns: int = 80) -> None:
        mine, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self._terminal = mine
        self.said = ""
        """What stands on the screen."""
        self._heard = 0
        self._process = subprocess.Popen(
            ["setsid", "--ctty", *command],  # so that Ctrl-C reaches it
            cwd=place.folder,
            env={**place.environment(), "TERM": "dumb"},
            stdin=its,
            stdout=its,
            stderr=subprocess.DEVNULL,
        )
        os.close(its)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._terminal)

    def answer(self, question: str, answer: str) -> None:
        """Waits until it asks this, and types the answer."""
        self.until(question)
        os.write(self._terminal, f"{answer}\n".encode())
        self.until(f"{answer}\n")

    def until(self, text: str) -> None:
        """Waits until it says this, after what was waited for before."""

        def heard() -> bool:
            self._read()
            at = self.said.find(text, self._heard)
            if at >= 0:
                self._heard = at + len(text)
            return at >= 0

        wait_until(heard, what=f"it says {text!r} after {self.said!r}")

    def interrupt(self) -> int:
        """Types Ctrl-C; what it ends with."""
        os.write(self._terminal, b"\x03")
        return self.end()

    def kill(self) -> None:
        """Ends it as a power cut would: kill -9."""
        self._process.kill()
        self._process.wait()

    def end(self) -> int:
        """What it ends with, once it does."""

        def ended() -> bool:
            self._read()
            return self._process.poll() is not None

        wait_until(ended, what="it ends")
        self._read()
        return self._process.returncode

    def _read(self) -> None:
        with suppress(OSError):  # the other side is closed
            while select.select([self._terminal], [], [], 0)[0]:
                self.said += os.read(self._terminal, 65536).decode().replace("\r\n", "\n")


# --- images --------------------------------------------------------------------------------------------------------


def require_packages(*names: str) -> None:
    """Installs Debian packages where that can be done; says what is missing where not."""
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        command = [str(ROOT / "hack" / "debian_package.sh"), "acceptance", missing[0], *missing]
        subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if still := [name for name in missing if shutil.which(name) is None]:
        pytest.fail(f"{', '.join(still)} is missing (on Debian: apt-get install {' '.join(still)})", pytrace=False)


def container_tools(folder: Path, registry: str) -> dict[str, str]:
    """Variables by which buildah keeps its images in a folder and speaks to a registry on loopback without TLS."""
    folder.mkdir(parents=True, exist_ok=True)
    storage, registries = folder / "storage.conf", folder / "registries.conf"
    storage.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/images"\nrunroot = "{folder}/run"\n')
    registries.write_text(f'[[registry]]\nlocation = "{registry}"\ninsecure = true\n')
    return {
        "CONTAINERS_STORAGE_CONF": str(storage),
        "CONTAINERS_REGISTRIES_CONF": str(registries),
        "BUILDAH_ISOLATION": "chroot",
        "CONTAINER_TOOL": "buildah",
    }


def debian_base(folder: Path, tools: Mapping[str, str]) -> str:
    """A base image with Python, made from the packages of this machine's own Debian; its name."""
    command, variables = ["make", "base-image"], builds.environment(tools)
    subprocess.run(command, cwd=checkout(folder / "base"), check=True, capture_output=True, env=variables)
    return "localhost/edgewright-base"


def pulled(registry: str, image: str, folder: Path) -> dict[str, Any]:
    """Unpacks an image of a registry into a folder, layer by layer; what its configuration says."""
    repository, _, tag = image.partition("/")[2].partition(":")
    accept = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"

    def fetch(path: str) -> bytes:
        request = urllib.request.Request(f"http://{registry}/v2/{repository}/{path}", headers={"Accept": accept})
        with urllib.request.urlopen(request, timeout=240) as answer:
            return bytes(answer.read())

    manifest = json.loads(fetch(f"manifests/{tag}"))
    folder.mkdir()
    for number, layer in enumerate(manifest["layers"]):
        archive = folder.with_name(f"layer-{number}.tar")
        archive.write_bytes(fetch(f"blobs/{layer['digest']}"))
        with tarfile.open(archive) as opened:
            guarded(opened, "fully_trusted").extractall(folder)
        archive.unlink()
    found: dict[str, Any] = json.loads(fetch(f"blobs/{manifest['config']['digest']}"))["config"]
    return found
