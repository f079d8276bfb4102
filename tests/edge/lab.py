"""Three computers on one cable, as a reader of the tutorial has them: one with the cluster, two that are edge devices.

Each has a network of its own, so that the page's addresses and ports are used as they are, and the devices have their
own files below `/etc`, `/opt` and `/usr/local`, a machine id and a host name, so that its commands are typed as they
are. Nothing of it is seen by another test or by the machine that runs it.
"""

from __future__ import annotations

import secrets
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Final, Self

from tests.edge.machine import Machine
from tests.harness.processes import Process

DESK: Final = "192.0.2.10"
_CABLE: Final = "cable"
_OWN: Final = ("/etc", "/opt", "/usr/local")
_PATH: Final = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Computer(Machine):
    """An edge device with files and a name of its own, at an address on the cable, while the context lasts."""

    def __init__(self, hostname: str, place: str) -> None:
        super().__init__()
        self.hostname, self.place = hostname, place
        self.home = self.folder / "home"
        self.unit: Process | None = None
        """Its agent, as the unit of the bundle starts it."""
        ready = self.folder / "has-files"
        self._files = Process(
            f"files of {hostname}",
            ["/usr/bin/unshare", "--mount", "--uts", "--propagation", "private", "sh", "-ec", self._script(ready)],
            log=self.folder / "files.log",
            ready=ready.exists,
        )

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self.home.mkdir()
            self._files.start()
            self._files.wait_ready()
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Ends what runs here, and removes it."""
        if self.unit is not None:
            self.unit.kill()
        self._files.kill()
        super().close()

    def here(self, text: str) -> list[str]:
        """What runs a line of shell on this computer, in the home of its user."""
        namespaces = ["--mount", "--uts", f"--net=/run/netns/{self.name}", f"--target={self._files.pid}"]
        return ["/usr/bin/nsenter", *namespaces, "env", _PATH, "bash", "-c", f"cd {self.home} && {text}"]

    def type(self, text: str) -> str:
        """What a line of shell prints; it must end well."""
        done = subprocess.run(self.here(text), capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, f"{self.hostname}: {text}: {done.stdout}{done.stderr}"
        return done.stdout

    def start_unit(self, unit: str) -> None:
        """Runs what a unit of systemd says, which this kind of machine does not have."""
        (line,) = (each for each in self.type(f"cat {unit}").splitlines() if each.startswith("ExecStart="))
        command = self.here(f"exec {line.removeprefix('ExecStart=')}")
        log = self.folder / "agent.log"
        self.unit = Process(f"agent of {self.hostname}", command, log=log, ready=log.exists)
        self.unit.start()

    def reboot(self) -> None:
        """Ends all of it at once, forgets what a machine that starts does not know, and starts its two units again."""
        assert self.unit is not None
        self.unit.kill()
        self.run("podman", "--url", f"unix://{self.socket}", "pod", "stop", "--all", "--time=0")
        self.stop_podman()
        self.run("nft", "flush", "ruleset")
        (self.folder / "tmp" / "alive").unlink()  # by this podman knows that the machine was not off meanwhile
        self.start_podman()
        self.unit.start()

    def cable(self, state: str) -> None:
        """Puts the cable in (`up`) or pulls it (`down`)."""
        self.run("ip", "link", "set", _CABLE, state)

    def web_server(self) -> int:
        """The process of the workload's container; 0 while there is none."""
        found = self.run(
            *("podman", "--url", f"unix://{self.socket}", "inspect", "--format={{.State.Pid}}", "web-web"), check=False
        )
        return int(found or "0")

    def _script(self, ready: Path) -> str:
        own = self.folder / "own"
        lines = [f"mkdir {own}", f"mount -t tmpfs tmpfs {own}"]  # nothing that is an overlay can be above one
        for number, each in enumerate(_OWN):
            upper, work = f"{own}/{number}/upper", f"{own}/{number}/work"
            options = f"lowerdir={each},upperdir={upper},workdir={work}"
            lines += [f"mkdir -p {upper} {work}", f"mount -t overlay overlay -o {options} {each}"]
        lines += [
            f"echo {secrets.token_hex(16)} > /etc/machine-id",
            f"echo {self.hostname} > /proc/sys/kernel/hostname",
            f"touch {ready}",
            "exec sleep infinity",
        ]
        return "\n".join(lines)


class Lab:
    """The three of them, while the context lasts."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.desk = Machine()
        self.first, self.second = Computer("first", "192.0.2.21"), Computer("second", "192.0.2.22")
        self.devices = (self.first, self.second)

    def __enter__(self) -> Self:
        with self._stack:
            self._stack.enter_context(self.desk)
            self._desk("link", "add", _CABLE, "type", "bridge")
            self._desk("addr", "add", f"{DESK}/24", "dev", _CABLE)
            self._desk("link", "set", _CABLE, "up")
            for each in self.devices:
                self._stack.enter_context(each)
                end = f"to-{each.hostname}"
                self._desk("link", "add", end, "type", "veth", "peer", "name", _CABLE, "netns", each.name)
                self._desk("link", "set", end, "master", _CABLE, "up")
                each.run("ip", "addr", "add", f"{each.place}/24", "dev", _CABLE)
                each.cable("up")
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _desk(self, *arguments: str) -> None:
        self.desk.run("ip", *arguments)
