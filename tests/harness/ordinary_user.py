"""Runs a command as an ordinary user, for suites that root has started: `python -m tests.harness.ordinary_user ...`.

It is run in namespaces of its own (`command_line`), so all that the command has started ends with it. There the way to
this checkout and to its Python is opened where it leads through root's own folders, and `build/` is a folder of that
user's. Nothing of the machine is changed, and the user needs no entry in /etc/passwd.
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from .processes import LAUNCHER, reap_until
from .programs import ROOT

USER: Final = 65533
"""One whom neither Debian nor images give a name; nobody is 65534."""
_UNSHARE: Final = ("--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


def reason_against() -> str:
    """Why nothing can be run as another user here; empty where it can."""
    if os.geteuid() != 0:
        return "only root can run it as somebody else"
    for path in (ROOT / "pyproject.toml", Path(sys.executable)):
        if not path.stat().st_mode & stat.S_IROTH:
            return f"nobody but its owner may read {path}"
    probe = subprocess.run(["unshare", *_UNSHARE, "true"], capture_output=True, text=True, check=False)
    return "" if probe.returncode == 0 else f"namespaces cannot be made: {probe.stderr.strip()}"


def command_line(build: Path, command: Sequence[str]) -> list[str]:
    """What runs a command as the user, with `build` in the place of `build/`, and dies with who starts it."""
    unshare = shutil.which("unshare") or "unshare"
    inside = [sys.executable, "-m", "tests.harness.ordinary_user", str(build), *command]
    return [sys.executable, "-I", "-S", str(LAUNCHER), str(os.getpid()), unshare, *_UNSHARE, "--", *inside]


def closed_folders(paths: Iterable[Path]) -> set[Path]:
    """The outermost folders on the way to some paths that strangers may not enter."""
    ways = ((at for at in reversed(path.parents) if not at.stat().st_mode & stat.S_IXOTH) for path in paths)
    return {closed for way in ways if (closed := next(way, None))}


def open_ways(*paths: Path) -> None:
    """Puts in the place of each closed folder one that holds nothing but the way to these paths."""
    held = {path: os.open(path, os.O_PATH) for path in paths}
    closed = closed_folders(paths)
    for folder in closed:
        _mount("-t", "tmpfs", "-o", "mode=0755", "tmpfs", folder)
    for path, descriptor in held.items():
        if closed.intersection(path.parents):
            path.mkdir(parents=True, exist_ok=True)
            _mount("--no-canonicalize", "--rbind", f"/proc/{os.getpid()}/fd/{descriptor}", path)
        os.close(descriptor)


def _mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *map(str, arguments)], check=True)


def main(arguments: Sequence[str]) -> int:
    """Prepares the place, runs the command in it as the user, and gives its exit code."""
    build, command = Path(arguments[0]), arguments[1:]
    os.chown(build, USER, USER)
    _mount("--bind", build, ROOT / "build")
    open_ways(Path(sys.base_prefix), ROOT)
    environment = {**os.environ, "HOME": str(ROOT / "build"), "USER": "ordinary"}
    child = subprocess.Popen(command, cwd=ROOT, env=environment, user=USER, group=USER, extra_groups=[])
    child.returncode = reap_until(child.pid)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
