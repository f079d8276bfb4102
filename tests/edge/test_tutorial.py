"""The tutorial on edge devices, followed: each command of the page is typed, in order, on the machine that it is for.

What this kind of machine does not have has a stand-in in `TYPED`, the table of all commands: there is no systemd, no
package index, no public registry, and nobody to pull a cable. A command that the table does not know fails the test.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.documents import ROOT, Command, blocks, commands, matches
from tests.edge.embedded import EDGEWRIGHT, Embedded
from tests.edge.lab import Lab
from tests.edge.machine import build
from tests.harness import programs, wait_until
from tests.harness.processes import Process

PAGE: Final = ROOT / "docs" / "tutorial-edge-devices.md"
NGINX: Final = "docker.io/library/nginx:1.27"
_CONTAINERFILE: Final = (
    "FROM scratch\nCOPY busybox /bin/busybox\nCOPY busybox /bin/false\nCOPY index.html /www/\n"
    'STOPSIGNAL SIGKILL\nCMD ["/bin/busybox", "httpd", "-f", "-h", "/www"]\n'
)
_LIMIT: Final = 240
_HURRIED: Final = (
    "from edgewright.gateway import assembly; assembly.MONITORING = 1; from edgewright.cli import main; main()"
)
"""A gateway that lets devices look at their workloads every second, in place of every 15."""


class Reader:
    """Somebody who follows the page."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab, self.folder = lab, folder
        self.cluster = Embedded(lab.desk, "--no-node")
        self.web_servers: dict[str, int] = {}
        """The process of each web server before the last thing that was done to it."""
        self._left_running: list[Process] = []

    def follow(self, command: Command) -> None:
        """Types a command of the page where it belongs."""
        rows = [row for begins, row in TYPED.items() if command.text.startswith(begins)]
        assert len(rows) == 1, f"{command} is no command that this test knows"
        print(command)
        rows[0](self, command)

    def close(self) -> None:
        """Ends what was left running."""
        for each in self._left_running:
            each.kill()
        self.cluster.up.kill()

    # --- at the desk, where the cluster is ----------------------------------------------------------------------------

    def at_desk(self, command: Command) -> None:
        """Types it once: it must work, and print what the page shows."""
        code, printed = self._typed(command.text)
        assert code == 0, f"{command}: {printed}"
        assert not command.output or matches(command.output, printed), f"{command} printed\n{printed}"

    def looks(self, command: Command) -> None:
        """Types it until it prints what the page shows, as somebody does who waits."""
        last = ""

        def shown() -> bool:
            nonlocal last
            code, last = self._typed(command.text)
            return code == 0 and matches(command.output, last)

        try:
            wait_until(shown, what=f"{command} prints what the page shows", timeout=_LIMIT, interval=0.5)
        except AssertionError as error:
            agents = "".join(each.unit.output()[-1500:] for each in self.lab.devices if each.unit)
            raise AssertionError(f"{error}; it printed\n{last}\nagents:\n{agents}") from None

    def in_background(self, command: Command) -> None:
        """Starts it, and waits until it serves; nobody waits here for devices that look four times a minute."""
        text, sign, _ = command.text.rpartition(" &")
        assert sign, command
        name = text.split()[1]
        log = self.folder / f"{name}.log"
        says = {"run": "leading", "gateway": "gateway listening"}[name]
        typed = text.replace("edgewright", f"{sys.executable} -c '{_HURRIED}'", 1) if name == "gateway" else text
        process = Process(name, self._here(f"exec {typed}"), log=log, ready=lambda: says in log.read_text())
        self._left_running.append(process)
        process.start()
        process.wait_ready()

    def copies(self, command: Command) -> None:
        """Stands for `scp`: the disk is the same."""
        (device,) = (each for each in self.lab.devices if command.text == f"scp -r bundle root@{each.place}:")
        shutil.copytree(self.folder / "bundle", device.home / "bundle")

    def applies(self, command: Command) -> None:
        """Changes the workload; what there is then must be good, which takes half a minute on the page and 2 s here."""
        for each in self.lab.devices:
            good = each.folder / "state" / "versions" / "web.json"
            wait_until(good.is_file, what=f"the web server of {each.hostname} is good", timeout=_LIMIT)
            self.web_servers[each.hostname] = each.web_server()
        self.at_desk(command)

    def sees_them_go_on(self, command: Command) -> None:
        """The Events are there, and the web servers are the same as before."""
        self.looks(command)
        assert self.web_servers == {each.hostname: each.web_server() for each in self.lab.devices}

    def removes(self, command: Command) -> None:
        """Deletes the workload: no web server is left."""
        self.at_desk(command)
        for each in self.lab.devices:
            wait_until(lambda each=each: not each.web_server(), what="no web server", timeout=_LIMIT)  # type: ignore[misc]

    def disconnects(self, command: Command) -> None:
        """Deletes the devices: their agents end well."""
        self.at_desk(command)
        for each in self.lab.devices:
            assert each.unit is not None
            wait_until(lambda unit=each.unit: not unit.running, what="the agent ends", timeout=_LIMIT)  # type: ignore[misc]
            assert each.unit.returncode == 0, each.unit.output()

    # --- on the machines ----------------------------------------------------------------------------------------------

    def on_each(self, command: Command) -> None:
        """Types it on both machines."""
        for each in self.lab.devices:
            each.type(command.text)

    def installs(self, _: Command) -> None:
        """Stands for the package index: what is tested here lies where pip would put it."""
        for each in self.lab.devices:
            each.type(f"mkdir -p /opt/edgewright/bin && ln -s {EDGEWRIGHT} /opt/edgewright/bin/")

    def has_podman(self, _: Command) -> None:
        """Stands for systemd: the service of podman runs."""
        for each in self.lab.devices:
            assert each.socket.is_socket()

    def configures(self, command: Command) -> None:
        """Types it; the machines share a disk, and nobody waits half a minute for a version to be good."""
        self.on_each(command)
        for each in self.lab.devices:
            more = (f'state-dir = "{each.folder}/state"', f'podman-socket = "{each.socket}"', "probation-seconds = 2")
            for line in more:
                each.type(f"echo '{line}' >> /etc/edgewright-agent/config.toml")

    def starts_agents(self, command: Command) -> None:
        """Stands for systemd: what the unit says is run."""
        for each in self.lab.devices:
            each.start_unit(command.text.rpartition(" ")[2])

    def kills(self, command: Command) -> None:
        """Kills the container of the first machine: another process takes its place."""
        first = self.lab.first
        before = first.web_server()
        assert before
        printed = first.type(command.text.replace("podman", f"podman --url unix://{first.socket}", 1))
        assert matches(command.output, printed), printed
        wait_until(lambda: first.web_server() not in {0, before}, what="it is restarted", timeout=_LIMIT)

    def reboots(self, _: Command) -> None:
        """Pulls the cable of the first machine and lets all of it end and start."""
        self.lab.first.cable("down")
        self.lab.first.reboot()

    def looks_on_first(self, command: Command) -> None:
        """Types it on the first machine until it works, without the cable, and puts the cable back."""
        first = self.lab.first
        done = lambda: subprocess.run(first.here(command.text), capture_output=True, check=False).returncode == 0  # noqa: E731
        wait_until(done, what=str(command), timeout=_LIMIT, interval=0.5)
        assert self._typed(f"curl -m 1 http://{first.place}:8080/")[0]  # the cable is out
        first.cable("up")

    def _here(self, text: str) -> list[str]:
        places = (sysconfig.get_path("scripts"), str(programs.directory()), os.environ["PATH"])
        path = f"PATH={os.pathsep.join(places)}"
        return self.cluster.inside("env", path, f"HOME={self.folder}", "bash", "-c", f"cd {self.folder} && {text}")

    def _typed(self, text: str) -> tuple[int, str]:
        done = subprocess.run(
            self._here(text), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=_LIMIT, check=False
        )
        return done.returncode, done.stdout


TYPED: Final[dict[str, Callable[[Reader, Command], None]]] = {
    "edgewright crds install ": Reader.at_desk,
    "edgewright run ": Reader.in_background,
    "edgewright gateway ": Reader.in_background,
    "edgewright edge bundle ": Reader.at_desk,
    "scp -r bundle root@": Reader.copies,
    "python3 -m venv /opt/edgewright && /opt/edgewright/bin/pip install edgewright": Reader.installs,
    "ln -s /opt/edgewright/bin/edgewright ": Reader.on_each,
    "systemctl enable --now podman.socket": Reader.has_podman,
    "mkdir -m 700 /etc/edgewright-agent && cp bundle/* ": Reader.configures,
    "edgewright agent --check": Reader.on_each,
    "systemctl enable --now /etc/edgewright-agent/": Reader.starts_agents,
    "kubectl get edgedevices": Reader.looks,
    "kubectl label edgedevice ": Reader.at_desk,
    "kubectl apply -f web.yaml": Reader.at_desk,
    "curl http://192.0.2.": Reader.looks,
    "podman kill web-web": Reader.kills,
    "reboot": Reader.reboots,
    "curl http://localhost:8080/": Reader.looks_on_first,
    "sed ": Reader.applies,
    "kubectl get events --field-selector reason=WorkloadFailed": Reader.sees_them_go_on,
    "kubectl get events --field-selector reason=WorkloadRolledBack": Reader.looks,
    "kubectl delete edgeworkload ": Reader.removes,
    "kubectl delete edgedevice ": Reader.disconnects,
}
"""How each command of the page is typed here, by what it begins with."""


@contextmanager
def reader(folder: Path, image: Path) -> Iterator[Reader]:
    """A reader with a cluster and two machines that have the image which the public registry has for others."""
    with Lab() as lab:
        for each in lab.devices:
            each.load(image)
        made = Reader(lab, folder)
        try:
            made.cluster.up.start()
            made.cluster.up.wait_ready()
            yield made
        finally:
            made.close()


def test_every_command_of_the_tutorial_does_what_the_page_says(tmp_path: Path) -> None:
    context = tmp_path / "nginx" / "context"
    context.mkdir(parents=True)
    (context / "index.html").write_text("Welcome!\n")
    image = build(context.parent, NGINX, _CONTAINERFILE)
    for block in blocks(PAGE):
        if block.file:
            (tmp_path / block.file).write_text(block.text, encoding="utf-8")
    with reader(tmp_path, image) as somebody:
        for command in commands(PAGE):
            somebody.follow(command)


def test_a_command_that_the_table_does_not_know_fails() -> None:
    with pytest.raises(AssertionError, match="no command that this test knows"):
        Reader.follow(Reader.__new__(Reader), Command(PAGE, 1, "kubectl explain edgeworkload", ()))
