"""An edge device on this machine: a network namespace, a podman of its own, and an agent that runs in both.

Tests of the agent with real parts start one or several. Each has its own pods, images and host ports, reachable inside
its namespace only; the machine that runs the tests is at the other end of a cable. Whatever was made is removed at the
end, and what a killed test left behind is removed by the next one.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from edgewright.containers import Podman
from tests.harness.processes import Process

_PREFIX = "ewedge"
PACKAGES = (
    *("podman", "runc", "buildah", "containernetworking-plugins", "netavark", "aardvark-dns", "catatonit"),
    *("busybox-static", "iptables", "nftables", "iproute2"),
)
IMAGE = "localhost/edge-busybox:1"
"""What the pods of these tests run: a static busybox and nothing else."""
_CONTAINERS_CONF = """\
[containers]
default_ulimits = ["nofile=8192:8192", "nproc=8192:8192"]
log_driver = "k8s-file"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
"""


def install() -> None:
    """Gets the programs on Debian as root; others are told what is missing."""
    missing = [name for name in ("podman", "runc", "buildah", "nft", "ip", "iptables") if shutil.which(name) is None]
    if not missing:
        return
    if os.geteuid() == 0 and shutil.which("apt-get"):
        command = ["apt-get", "-o", "DPkg::Lock::Timeout=300", "install", "-y", "-q", "--no-install-recommends"]
        subprocess.run([*command, *PACKAGES], check=False, capture_output=True)
    if any(shutil.which(name) is None for name in missing):
        pytest.fail(f"{', '.join(missing)} missing: install {' '.join(PACKAGES)}", pytrace=False)


def build_image(folder: Path, name: str = IMAGE) -> Path:
    """The image as a docker-archive, under this name."""
    install()
    if (folder / "image.tar").exists():
        return folder / "image.tar"
    # As process 1 of a container busybox ignores SIGTERM, and would be given the whole time to end.
    return build(
        folder,
        name,
        "FROM scratch\nCOPY busybox /bin/busybox\nCOPY busybox /bin/sh\nSTOPSIGNAL SIGKILL\n"
        'CMD ["/bin/busybox", "httpd", "-f"]\n',
    )


def _run(command: Sequence[str], *, check: bool = True) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise AssertionError(f"{' '.join(command)}: {done.stderr or done.stdout}")
    return done.stdout


def _name_servers() -> list[str]:
    """Who is asked for names on this machine, as far as it is IPv4 and not this machine itself."""
    lines = [line.split() for line in Path("/etc/resolv.conf").read_text(encoding="utf-8").splitlines()]
    found = {words[1] for words in lines if len(words) > 1 and words[0] == "nameserver"}
    return sorted(each for each in found if ":" not in each and not each.startswith("127."))


def sweep() -> None:
    """Removes what tests that were killed left behind: the namespace names the process that made it."""
    for line in _run(["ip", "netns", "list"], check=False).splitlines():
        name = line.split()[0]
        if name.startswith(f"{_PREFIX}-") and not Path(f"/proc/{name.split('-')[1]}").exists():
            folder = Path(tempfile.gettempdir()) / name
            if folder.exists():
                _reset_podman(name, folder)
            _remove(name, folder)


def build(folder: Path, name: str, containerfile: str) -> Path:
    """An image of busybox and what a Containerfile adds to it, as a docker-archive under this name.

    What else the Containerfile copies lies in the folder `context` before.
    """
    archive, context = folder / "image.tar", folder / "context"
    context.mkdir(parents=True, exist_ok=True)
    shutil.copy("/bin/busybox", context / "busybox")
    (context / "Containerfile").write_text(containerfile)
    buildah = ["buildah", "--root", str(folder / "b"), "--runroot", str(folder / "br"), "--storage-driver", "vfs"]
    _run([*buildah, "bud", "--isolation", "chroot", "-t", name, str(context)])
    _run([*buildah, "push", name, f"docker-archive:{archive}:{name}"])
    return archive


class Machine:
    """One edge device, while the context lasts."""

    def __init__(self) -> None:
        install()
        sweep()
        self.number = random.randrange(1, 16000)
        self.name = f"{_PREFIX}-{os.getpid()}-{self.number}"
        self.folder = Path(tempfile.gettempdir()) / self.name  # short: the name of a socket has 108 letters
        base = self.number * 4
        network = f"10.2{13 + base // 65536}.{base // 256 % 256}"
        self.gateway = f"{network}.{base % 256 + 1}"
        """This machine as the device sees it."""
        self.address = f"{network}.{base % 256 + 2}"
        self.socket = self.folder / "podman.sock"
        self.podman = Podman(self.socket)
        self._url = f"unix://{self.socket}"
        self._service = Process(
            f"podman of {self.name}",
            [*_inside(self.name, self.folder), *_podman(self.folder), "system", "service", "--time=0", self._url],
            log=self.folder / "podman.log",
            ready=self._answers,
        )
        self._agents: list[Process] = []

    @property
    def inside(self) -> list[str]:
        """What runs a program in the device's network."""
        return _inside(self.name, self.folder)

    def __enter__(self) -> Self:
        self.folder.mkdir(mode=0o700)
        (self.folder / "containers.conf").write_text(_CONTAINERS_CONF)
        (self.folder / "registries.conf").touch()
        try:
            _run(["ip", "netns", "add", self.name])
            here, there = f"ewh{self.number}", f"ewd{self.number}"
            _run(["ip", "link", "add", here, "type", "veth", "peer", "name", there])
            _run(["ip", "link", "set", there, "netns", self.name])
            _run(["ip", "addr", "add", f"{self.gateway}/30", "dev", here])
            _run(["ip", "link", "set", here, "up"])
            _run(["ip", "-n", self.name, "link", "set", "lo", "up"])
            _run(["ip", "-n", self.name, "addr", "add", f"{self.address}/30", "dev", there])
            _run(["ip", "-n", self.name, "link", "set", there, "up"])
            _run(["ip", "-n", self.name, "route", "add", "default", "via", self.gateway])
            for server in _name_servers():  # podman asks for registries' names, and waits long where nobody answers
                _run(["ip", "-n", self.name, "route", "add", "unreachable", server])
            self.start_podman()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Removes pods, processes, mounts, the namespace and the folder."""
        for agent in self._agents:
            agent.kill()
        self._service.kill()
        _reset_podman(self.name, self.folder)
        _remove(self.name, self.folder)

    def start_podman(self) -> None:
        """Starts podman's service."""
        self._service.start()
        self._service.wait_ready()

    def stop_podman(self) -> None:
        """Ends podman's service; its pods go on."""
        self._service.kill()
        self.socket.unlink(missing_ok=True)

    def agent(self, config: Path) -> Process:
        """An agent of this device, not started yet."""
        command = [*self.inside, str(Path(sys.executable).with_name("edgewright")), "agent", "--config", str(config)]
        found = Process(
            f"agent of {self.name}", command, log=self.folder / "agent.log", ready=lambda: bool(found.output())
        )
        self._agents.append(found)
        return found

    def load(self, image: Path) -> None:
        """Gives podman an image."""
        _run([*self.inside, *_podman(self.folder), "load", "-q", "-i", str(image)])

    def push(self, image: str, name: str, *, login: str) -> None:
        """Puts an image that podman has into a registry that speaks no TLS and lets in who has this login."""
        options = ("--quiet", "--creds", login, "--tls-verify=false")
        _run([*self.inside, *_podman(self.folder), "push", *options, image, f"docker://{name}"])

    @contextmanager
    def speaking_plainly_to(self, registry: str) -> Iterator[None]:
        """Lets podman fetch images from a registry that speaks no TLS, while the context lasts."""
        self._write_registries(f'[[registry]]\nlocation = "{registry}"\ninsecure = true\n')
        try:
            yield
        finally:
            self._write_registries("")

    def _write_registries(self, text: str) -> None:
        self.stop_podman()
        (self.folder / "registries.conf").write_text(text)  # podman reads it when it starts
        self.start_podman()

    def clear(self) -> None:
        """Ends the agents and removes all pods, secrets and rules, so that the next test finds an empty device."""
        for agent in self._agents:
            agent.kill()
        self._agents.clear()
        _reset_podman(self.name, self.folder)
        _run([*self.inside, *_podman(self.folder), "secret", "rm", "--all"], check=False)
        _run([*self.inside, "nft", "flush", "ruleset"], check=False)

    def kill_container(self, name: str) -> None:
        """Kills the first process of a container, as a bug in it would."""
        _run([*self.inside, *_podman(self.folder), "kill", name])

    def run(self, *command: str, check: bool = True) -> str:
        """Runs a program in the device's network and gives what it printed."""
        return _run([*self.inside, *command], check=check)

    def fetch(self, port: int, path: str = "/") -> str:
        """A page of a workload, asked for from inside the device."""
        return self.run(
            "timeout", "5", "busybox", "wget", "-q", "-O", "-", f"http://127.0.0.1:{port}{path}", check=False
        )

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(self.socket))
                probe.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
                return b"200" in probe.recv(100)
            except OSError:
                return False


def _inside(name: str, folder: Path) -> list[str]:
    # Not `ip netns exec`: it hides the control groups.
    variables = [f"CONTAINERS_CONF={folder}/containers.conf", f"CONTAINERS_REGISTRIES_CONF={folder}/registries.conf"]
    return ["/usr/bin/env", *variables, "nsenter", f"--net=/run/netns/{name}"]


def _podman(folder: Path) -> list[str]:
    return [
        *("podman", "--root", f"{folder}/root", "--runroot", f"{folder}/run", "--tmpdir", f"{folder}/tmp"),
        *("--network-config-dir", f"{folder}/net", "--storage-driver", "vfs"),
    ]


def _reset_podman(name: str, folder: Path) -> None:
    _run([*_inside(name, folder), *_podman(folder), "pod", "rm", "--all", "--force", "--time=0"], check=False)


def _remove(name: str, folder: Path) -> None:
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in sorted((each for each in mounts if each.startswith(f"{folder}/")), reverse=True):
        _run(["umount", "-l", mount], check=False)
    _run(["ip", "netns", "del", name], check=False)
    _run(["ip", "link", "del", f"ewh{name.rpartition('-')[2]}"], check=False)
    shutil.rmtree(folder, ignore_errors=True)
