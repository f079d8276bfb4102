"""When `make` installs Debian packages: root at a terminal is asked first, a build machine is not."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "hack" / "debian_package.sh"
TOOLS = ("bash", "env", "cat")
APT = "-".join(("apt", "get"))
"""Only a stand-in for it runs here."""


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """The environment of root on a Debian machine on which its installer notes what it is told."""
    for name in TOOLS:
        found = shutil.which(name)
        assert found
        (tmp_path / name).symlink_to(found)
    for name, text in {"id": "echo ${FAKE_ID:-0}", APT: f'echo "$@" >>{tmp_path}/installed'}.items():
        (tmp_path / name).write_text(f"#!/usr/bin/env bash\n{text}\n")
        (tmp_path / name).chmod(0o755)
    return {"PATH": str(tmp_path)}


def installed(machine: dict[str, str]) -> str:
    file = Path(machine["PATH"]) / "installed"
    return file.read_text() if file.exists() else ""


def run(machine: dict[str, str], *arguments: str, types: str | None = None) -> subprocess.CompletedProcess[str]:
    """The script, without a terminal, or with somebody at one who types an answer."""
    command = [str(SCRIPT), *(arguments or ("boards", "qemu-system-arm", "qemu-system-arm"))]
    if types is None:
        stdin, ours = subprocess.DEVNULL, -1
    else:
        ours, stdin = pty.openpty()
        os.write(ours, f"{types}\n".encode())
    try:
        return subprocess.run(
            command, stdin=stdin, env=machine, capture_output=True, text=True, check=False, timeout=60
        )
    finally:
        for each in (ours, stdin) if types is not None else ():
            os.close(each)


@pytest.mark.parametrize(
    ("more", "types", "installs"),
    [
        ({}, "y", True),
        ({}, "n", False),
        ({}, "", False),
        ({"EDGEWRIGHT_APT": "yes"}, "n", True),
        ({"CI": "true"}, "n", True),
        ({"CI": "true", "EDGEWRIGHT_APT": "no"}, "y", False),
        ({}, None, True),
        ({"EDGEWRIGHT_APT": "no"}, None, False),
        ({"FAKE_ID": "1000"}, "y", False),
        ({"FAKE_ID": "1000"}, None, False),
    ],
)
def test_make_asks_root_before_it_installs_debian_packages(
    machine: dict[str, str], more: dict[str, str], types: str | None, installs: bool
) -> None:
    done = run({**machine, **more}, types=types)
    assert (done.returncode == 0) is installs, done.stderr
    assert ("install" in installed(machine)) is installs
    assert installs or f"{APT} install qemu-system-arm" in done.stderr


@pytest.mark.parametrize(
    ("programs", "types", "said"),
    [(("bash", "cat"), "y", "no"), (("bash", "qemu"), "y", "yes"), (("qemu",), "n", "no"), (("qemu",), None, "yes")],
)
def test_suites_that_run_unseen_are_agreed_to_beforehand(
    machine: dict[str, str], programs: tuple[str, ...], types: str | None, said: str
) -> None:
    done = run(machine, "--consent", *programs, types=types)
    assert (done.returncode, done.stdout.strip()) == (0, said)
    assert installed(machine) == ""


def test_every_package_of_the_makefile_is_asked_for_before_verify() -> None:
    makefile = SCRIPT.parents[1] / "Makefile"
    wanted = set(re.findall(r"^\t\$\(call debian_package,([^,]+),", makefile.read_text(), re.MULTILINE))
    shown = subprocess.run(
        ["make", "-n", "-o", ".venv/.verify.stamp", "verify"],
        cwd=makefile.parent,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    asked = next(line for line in shown.splitlines() if "--consent" in line)
    assert {"podman", "strace"} <= wanted
    assert wanted == set(asked.partition("--consent")[2].partition(")")[0].split())
