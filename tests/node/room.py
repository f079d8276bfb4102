"""A room for a whole cluster on this machine: its own namespaces for network, mounts and processes; one kill ends it.

`python -m tests.node` enters it with pytest in it. The kernel removes processes, mounts, interfaces and rules when the
first process in the room dies, also by kill -9; what has no namespace, control groups and a folder, is named after the
room and removed by whoever opened it, or by the next one. Nothing of the machine outside is changed.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tests.harness.workspace import Workspace, sweep

ROOT: Final = Path(__file__).resolve().parents[2]
CGROUPS: Final = Path("/sys/fs/cgroup")
PREFIX: Final = "ewnode-"
"""What the names of our control groups begin with; the rest is the name of the room's folder."""
FOLDER: Final = "EDGEWRIGHT_NODE_ROOM"
"""The variable that tells programs in the room where its folder is."""
_LAUNCHER: Final = ROOT / "tests" / "harness" / "launch.py"
_IN_USE: Final = "in-use"


def base() -> Path:
    """Where the folders of rooms are: at a short path, for the name of a socket has at most 108 letters."""
    return Path(tempfile.gettempdir()) / "edgewright-node"


def reason_against() -> str:
    """Why there can be no room on this machine; empty where there can."""
    if sys.platform != "linux":
        return "it needs Linux"
    if os.geteuid() != 0:
        return "it needs root, for namespaces, mounts and control groups"
    if not (CGROUPS / "pids").is_dir():
        return f"it needs control groups of version 1 at {CGROUPS}"
    probe = subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "true"], capture_output=True, check=False)
    return "" if probe.returncode == 0 else f"namespaces cannot be made: {probe.stderr.decode().strip()}"


def control_groups() -> list[Path]:
    """The control groups of rooms, in each hierarchy one."""
    return sorted(CGROUPS.glob(f"*/{PREFIX}*"))


def sweep_rooms() -> None:
    """Removes what rooms have left behind that were killed together with those who opened them."""
    base().mkdir(parents=True, exist_ok=True)
    sweep(base())
    for group in control_groups():
        if not (base() / group.name.removeprefix(PREFIX) / _IN_USE).exists():
            remove_control_group(group)


def remove_control_group(group: Path) -> None:
    """Removes a control group with all in it, the deepest first; one that still has processes stays."""
    for folder, _, _ in os.walk(group, topdown=False):
        with suppress(OSError):
            Path(folder).rmdir()


def make_control_groups(name: str) -> None:
    """A control group of this name in each hierarchy, below which a kubelet keeps those of its Pods."""
    for hierarchy in (each for each in CGROUPS.iterdir() if each.is_dir() and not each.is_symlink()):
        group = hierarchy / name
        group.mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if (hierarchy / setting).exists():
                (group / setting).write_text((hierarchy / setting).read_text())


@contextmanager
def opened() -> Iterator[Path]:
    """The folder of a new room, whose name is that of its control groups; all of it is removed in the end."""
    sweep_rooms()
    workspace = Workspace(base())
    try:
        yield workspace.path
    finally:
        for group in control_groups():
            if group.name == f"{PREFIX}{workspace.path.name}":
                remove_control_group(group)
        workspace.release(keep=False)


def left_behind(folder: Path) -> list[str]:
    """What a room has left on this machine: control groups, mounts, processes, and its folder."""
    found = [str(group) for group in control_groups() if group.name == f"{PREFIX}{folder.name}"]
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    found += [f"the mount {each}" for each in mounts if each.startswith(str(folder))]
    found += [f"process {each}" for each in processes_of(folder)]
    return [*found, str(folder)] if folder.exists() else found


def processes_of(folder: Path) -> list[int]:
    """The processes that have a room's folder on their command line or in their environment; a zombie has neither."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            told = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            if str(folder).encode() in told:
                found.append(int(process.name))
    return found


def command_in(folder: Path, command: Sequence[str]) -> list[str]:
    """The command line that runs a command in a room of this folder, and dies with the process that starts it."""
    inside = [sys.executable, "-m", "tests.node.inside", str(folder), *command]
    unshare = shutil.which("unshare") or "unshare"
    spaces = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    return [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), unshare, *spaces, "--", *inside]


def run(command: Sequence[str], *, logs: Path, environment: Mapping[str, str]) -> int:
    """Runs a command in a room and gives its exit code; where it failed, the logs of the cluster are kept."""

    def end(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        with opened() as folder:
            code = subprocess.run(command_in(folder, command), cwd=ROOT, env=dict(environment), check=False).returncode
            if code != 0:
                keep_logs(folder, logs)
        if left := left_behind(folder):
            print(f"node: left behind on this machine: {', '.join(left)}", file=sys.stderr)
            return code or 1
        return code
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def keep_logs(folder: Path, logs: Path) -> None:
    """Copies the logs of a room to where people find them, instead of those of the run before."""
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    for log in folder.rglob("*.log"):
        if log.is_file() and not log.is_symlink() and "images" not in log.parts:
            shutil.copy(log, logs / "-".join(log.relative_to(folder).parts))
