"""The first process of a room: makes the place private, starts one command, and reaps every orphan.

`room.command_in` runs it as `python -m tests.node.inside FOLDER COMMAND...` in fresh namespaces. When the command ends,
so does this, and with it whatever still runs in the room. What it mounts and sets is seen in the room alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.harness.processes import reap_until
from tests.node.room import FOLDER, PREFIX, make_control_groups

# A kubelet sets these for the whole machine; in the room it writes into files of ours instead.
_SYSCTLS: Final = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops")


def _mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True)


def make_private(folder: Path) -> None:
    """Hides what the programs of a node write to outside their folders, and gives the room its loopback interface."""
    _mount("-t", "tmpfs", "tmpfs", "/run")
    groups = Path("/run/cgroup")
    groups.mkdir()
    _mount("--rbind", "/sys/fs/cgroup", groups)
    _mount("-t", "sysfs", "sysfs", "/sys")  # that of this network
    _mount("--move", groups, "/sys/fs/cgroup")
    _mount("-t", "tmpfs", "tmpfs", "/var/log")
    for name in ("upper", "work"):
        (folder / "var-lib" / name).mkdir(parents=True)
    layers = f"lowerdir=/var/lib,upperdir={folder}/var-lib/upper,workdir={folder}/var-lib/work"
    _mount("-t", "overlay", "-o", layers, "overlay", "/var/lib")
    for name in _SYSCTLS:
        original, ours = Path("/proc/sys") / name, Path("/run/sysctl") / name
        ours.parent.mkdir(parents=True, exist_ok=True)
        ours.write_text(original.read_text())
        _mount("--bind", ours, original)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1")


def main(arguments: Sequence[str]) -> int:
    """Prepares the room and runs the command in it."""
    folder = Path(arguments[0])
    make_control_groups(f"{PREFIX}{folder.name}")
    make_private(folder)
    child = os.posix_spawnp(arguments[1], list(arguments[1:]), {**os.environ, FOLDER: str(folder)})
    code = reap_until(child)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
