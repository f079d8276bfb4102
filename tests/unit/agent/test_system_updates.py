"""Updates of the operating system: what follows from where one stands, and the hooks that the examples hold."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from edgewright.agent.events import Events
from edgewright.agent.programs import ProgramError, run_program
from edgewright.agent.state import State
from edgewright.agent.system_updates import Record, Step, SystemUpdates, next_step
from edgewright.api.edge_protocol import (
    DeviceConfiguration,
    DeviceConfigurationMessage,
    HeartbeatConfiguration,
    OsInformation,
)
from edgewright.runtime.clock import VirtualClock
from tests.harness.waiting import wait_until_async

HOOKS = Path(__file__).parents[3] / "examples" / "os-hooks"
WANTED = OsInformation(commit_id="v2", automatically_upgrade=True, hosted_objects_url="https://images.example")
BEGUN = Record(wanted="v2", boot="b1", status="begun")
FAILED = Record(wanted="v2", boot="b1", status="failed")


@pytest.mark.parametrize(
    ("record", "current", "boot", "wanted", "step"),
    [
        (Record(), "v1", "b1", None, Step.NOTHING),
        (Record(), "v1", "b1", OsInformation(commit_id="v2"), Step.NOTHING),
        (Record(), "v2", "b1", WANTED, Step.NOTHING),
        (Record(), "v1", "b1", WANTED, Step.UPGRADE),
        (BEGUN, "v1", "b1", WANTED, Step.NOTHING),
        (BEGUN, "v2", "b1", WANTED, Step.SUCCEEDED),
        (BEGUN, "v2", "b2", None, Step.SUCCEEDED),
        (BEGUN, "v1", "b2", WANTED, Step.FELL_BACK),
        (FAILED, "v1", "b2", WANTED, Step.NOTHING),
        (FAILED, "v1", "b2", OsInformation(commit_id="v3", automatically_upgrade=True), Step.UPGRADE),
    ],
)
def test_what_follows(record: Record, current: str, boot: str, wanted: OsInformation | None, step: Step) -> None:
    assert next_step(record, current=current, boot=boot, wanted=wanted) is step


class Machine:
    """A machine with a hook, which may be restarted."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.events = folder, Events()
        self.runs, self.current, self.fail = list[Sequence[str]](), "v1", ""
        self.boot = folder / "boot"
        self.boot.write_text("b1\n")
        self.restart()

    def restart(self) -> None:
        self.system = SystemUpdates(
            "/hook", state=State(self.folder), events=self.events, clock=VirtualClock(), run=self.run, boot=self.boot
        )

    async def run(self, command: Sequence[str], seconds: float) -> str:
        self.runs.append(command[1:])
        if self.fail and command[1] == "upgrade":
            raise ProgramError(self.fail)
        return f"{self.current}\n"


async def test_an_update_is_begun_once_and_told_when_the_machine_came_back_with_it(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for _ in range(2):
        await machine.system.look(WANTED)
    assert machine.runs.count(["upgrade", "v2", "https://images.example"]) == 1
    assert machine.system.status.last_upgrade_status == ""
    machine.current = "v2"
    machine.boot.write_text("b2")
    machine.restart()
    await machine.system.look(WANTED)
    status = machine.system.status
    assert (status.current_commit_id, status.last_upgrade_status) == ("v2", "succeeded")
    assert status.last_upgrade_time.startswith("2026")


@pytest.mark.parametrize("how", ["refused", "fell back"])
async def test_an_update_that_failed_is_told_and_not_tried_again(tmp_path: Path, how: str) -> None:
    machine = Machine(tmp_path)
    machine.fail = "no space" if how == "refused" else ""
    await machine.system.look(WANTED)
    if how == "fell back":
        machine.boot.write_text("b2")
        machine.restart()
        await machine.system.look(WANTED)
    assert machine.system.status.last_upgrade_status == "failed"
    assert ("no space" if how == "refused" else "came back with v1") in machine.events.problems["system"]
    machine.restart()
    await machine.system.look(WANTED)
    assert sum(run[0] == "upgrade" for run in machine.runs) == 1


async def test_what_is_no_version_never_reaches_the_hook(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    for bad in (
        OsInformation(commit_id="-x", automatically_upgrade=True),
        OsInformation(commit_id="v2", automatically_upgrade=True, hosted_objects_url="file:///etc"),
    ):
        with pytest.raises(ProgramError, match="cannot be used"):
            await machine.system.look(bad)
    assert all(run[0] == "current" for run in machine.runs)


async def test_the_loop_tells_of_a_hook_that_fails_and_without_a_hook_does_nothing(tmp_path: Path) -> None:
    clock, events = VirtualClock(), Events()
    device = DeviceConfiguration(heartbeat=HeartbeatConfiguration(), os=WANTED)
    configuration = DeviceConfigurationMessage(configuration=device)
    system = SystemUpdates(str(tmp_path / "none"), state=State(tmp_path), events=events, clock=clock)
    task = asyncio.create_task(system.run(lambda: configuration))
    await wait_until_async(lambda: events.problems, what="a problem")
    assert "cannot be run" in events.problems["system"]
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    await SystemUpdates("", state=State(tmp_path), events=events, clock=clock).run(lambda: configuration)
    (tmp_path / "system.json").write_text("{")
    assert SystemUpdates("", state=State(tmp_path), events=events, clock=clock).status.last_upgrade_status == ""


async def test_a_program_that_hangs_is_ended_and_one_that_fails_is_quoted() -> None:
    with pytest.raises(ProgramError, match=r"did not end within 0\.1 s"):
        await run_program(["/bin/sh", "-c", "sleep 60 & wait"], seconds=0.1)
    with pytest.raises(ProgramError, match="exit code 3"):
        await run_program(["/bin/sh", "-c", "exit 3"])
    assert await run_program(["/bin/cat"], script="x") == "x"


@pytest.mark.parametrize("damaged", [False, True])
def test_the_example_for_two_partitions_writes_the_one_that_does_not_run(tmp_path: Path, damaged: bool) -> None:
    here, images = tmp_path / "ab", tmp_path / "images"
    here.mkdir()
    images.mkdir()
    for name, text in (("running", "echo A"), ("try", f'echo "$1" > {here}/tried')):
        (here / name).write_text(f"#!/bin/sh\n{text}\n")
        (here / name).chmod(0o755)
    for slot in "AB":
        (tmp_path / f"partition-{slot}").write_text("old")
        (here / f"slot-{slot}").symlink_to(tmp_path / f"partition-{slot}")
    (here / "version-A").write_text("v1\n")
    (images / "v2.img").write_bytes(b"new system")
    digest = hashlib.sha256(b"other" if damaged else b"new system").hexdigest()
    (images / "v2.img.sha256").write_text(f"{digest}  v2.img\n")
    fetcher = tmp_path / "bin"
    fetcher.mkdir()
    (fetcher / "curl").write_text(  # the real one is not everywhere; what the hook does with the image is the subject
        '#!/bin/sh\nwhile [ $# -gt 1 ]; do [ "$1" = -o ] && out=$2; shift; done\n'
        'cat "${1#file://}" > "${out:-/dev/stdout}"\n'
    )
    (fetcher / "curl").chmod(0o755)
    environment = {"EDGEWRIGHT_AB": str(here), "PATH": f"{fetcher}:/usr/bin:/bin"}

    def hook(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(HOOKS / "ab-image"), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert hook("current").stdout == "v1\n"
    done = hook("upgrade", "v2", f"file://{images}")
    assert (done.returncode == 0) is not damaged, done.stderr
    assert (tmp_path / "partition-A").read_text() == "old"
    assert (here / "tried").exists() is not damaged
    if damaged:
        assert "not what its checksum says" in done.stderr
    else:
        assert (tmp_path / "partition-B").read_text() == "new system"
        assert (here / "version-B").read_text() == "v2\n"
    assert hook().returncode == 64


class OstreeHook:
    """The example for rpm-ostree with stand-ins that note how they were called, and remember the URLs of remotes.

    The real programs need a machine that ostree has booted; tests/edge has the real ostree.
    """

    remembers = """
    case "$*" in
    "remote show-url "*) cat "$REMOTES/$3" ;;
    "remote add "*)
        while [ $# -gt 2 ]; do
            case $1 in --if-not-exists) keep=yes ;; --force) replace=yes ;; esac
            shift
        done
        if [ -e "$REMOTES/$1" ]; then
            [ -z "${keep:-}" ] || exit 0
            [ -n "${replace:-}" ] || exit 1
        fi
        echo "$2" > "$REMOTES/$1" ;;
    esac"""

    def __init__(self, folder: Path, **programs: str) -> None:
        self.said = folder / "said"
        self.remotes = folder / "remotes"
        self._programs = folder / "bin"
        self.origin = "fedora-iot:fedora/stable/x86_64/iot"
        for each in (self.remotes, self._programs):
            each.mkdir()
        for name, text in ({"ostree": self.remembers, "systemctl": ""} | programs).items():
            self._make(name, text)

    def run(self, *arguments: str, fails: bool = False, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs the hook, where rpm-ostree deploys or fails to."""
        booted = json.dumps({"deployments": [{"booted": True, "checksum": "c1", "origin": self.origin}]})
        self._make("rpm-ostree", f"[ \"$1\" = status ] && echo '{booted}' && exit\nexit {int(fails)}")
        self.said.write_text("")
        environment = {"PATH": f"{self._programs}:/usr/bin:/bin", "REMOTES": str(self.remotes), **variables}
        command = [str(HOOKS / "rpm-ostree"), *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    @property
    def changes(self) -> list[str]:
        """What was called that changes something, in the last run."""
        looks = ("rpm-ostree status", "ostree remote show-url")
        return [each for each in self.said.read_text().splitlines() if not each.startswith(looks)]

    def _make(self, name: str, text: str) -> None:
        program = self._programs / name
        program.write_text(f'#!/bin/sh\necho "{name} $*" >> {self.said}\n{text}\n')
        program.chmod(0o755)


@pytest.mark.parametrize("fails", [False, True])
def test_the_example_for_rpm_ostree_deploys_the_commit_and_restarts_only_with_it(tmp_path: Path, fails: bool) -> None:
    hook = OstreeHook(tmp_path)
    assert hook.run("current").stdout == "c1\n"
    done = hook.run("upgrade", "c2", fails=fails)
    assert hook.changes == ["rpm-ostree deploy c2", *([] if fails else ["systemctl reboot"])]
    assert (done.returncode != 0) is fails
    assert hook.run().returncode == 64


def test_the_example_for_rpm_ostree_takes_the_commit_from_the_url_that_it_is_given_now(tmp_path: Path) -> None:
    hook = OstreeHook(tmp_path)
    hook.run("upgrade", "c2", "https://one.example", EDGEWRIGHT_OSTREE_OPTIONS="--no-gpg-verify --set=http2=false")
    assert hook.changes == [
        "ostree remote add --force --no-gpg-verify --set=http2=false edgewright https://one.example",
        "rpm-ostree rebase edgewright: c2",
        "systemctl reboot",
    ]
    hook.origin = "edgewright:fedora/stable/x86_64/iot"
    hook.run("upgrade", "c3", "https://one.example")
    assert hook.changes == ["rpm-ostree deploy c3", "systemctl reboot"]  # the remote keeps its other settings
    hook.run("upgrade", "c4", "https://two.example")
    assert (hook.remotes / "edgewright").read_text() == "https://two.example\n"
    assert hook.changes[1:] == ["rpm-ostree deploy c4", "systemctl reboot"]
    assert hook.run("upgrade", "c5", "https://two.example", EDGEWRIGHT_OSTREE_REMOTE="mine").returncode == 0
    assert hook.changes[1:] == ["rpm-ostree rebase mine: c5", "systemctl reboot"]
