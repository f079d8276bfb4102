"""`edgewright gateway` as a process; what it answers devices is tested on the gateway itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.harness.processes import free_port
from tests.harness.waiting import wait_until
from tests.unit.cli.command import PROGRAM, environment
from tests.unit.cli.typed import Plane


def open_files(pid: int) -> tuple[str, str]:
    """How many files a process may open, and how many it may ask for."""
    lines = Path(f"/proc/{pid}/limits").read_text(encoding="utf-8").splitlines()
    words = next(line for line in lines if line.startswith("Max open files")).split()
    return words[3], words[4]


def test_a_gateway_holds_as_many_devices_as_the_system_has_open_files_for(plane: Plane, tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [str(PROGRAM), "gateway", "--kubeconfig", str(plane.kubeconfig), "--namespace", "default"]
    command += ["--host", "127.0.0.1", "--port", str(free_port())]
    with log.open("wb") as said:
        # As most systems start a program: it may have 1,024, and more if it asks for them.
        limited = ["prlimit", "--nofile=1024:4096", *command]
        process = subprocess.Popen(limited, stdout=said, stderr=said, env=environment())
    try:
        wait_until(lambda: "gateway listening" in log.read_text(), what="the gateway listens", timeout=120)
        assert open_files(process.pid) == ("4096", "4096")
    finally:
        process.terminate()
        code = process.wait(120)
    assert code == 0, log.read_text()
