"""Processes of its own for a container: its init passes signals on, reaps, tells how the program ended, ends the rest.

Most of it runs the real shim, as root or as an ordinary user in a user namespace; where the kernel refuses, nothing.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from edgewright.local.node import container_init
from edgewright.local.node.container_exec import __file__ as container_exec
from edgewright.local.node.container_start import SHIM, program_folders
from edgewright.local.node.logfiles import parse
from edgewright.local.node.mount_check import processes_work
from tests.harness import wait_until
from tests.unit.local.node.fakeapi import FakeApi
from tests.unit.local.node.test_node_runs import directory, one, running, until_phase

__all__ = ["directory"]

own_processes = pytest.mark.skipif(not processes_work(), reason="this machine gives us no PID namespace")


def start(folder: Path, script: str, **more: Any) -> subprocess.Popen[bytes]:
    (folder / "base").mkdir()
    root = {
        "base": str(folder / "base"),
        "hostname": "pod",
        "processes": True,
        "shown": [str(path) for path in program_folders()],
        "mounts": [],
    }
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    order = {"command": ["sh", "-c", script], "environment": environment, "folder": "/", "root": root, **more}
    if os.geteuid() == 0:
        order["user"] = {"uid": 2_000_000_000, "gid": 2_000_000_000, "groups": []}
    (folder / "order.json").write_text(json.dumps(order))
    return subprocess.Popen([sys.executable, "-I", "-S", "-B", str(SHIM), str(folder)], stdin=subprocess.DEVNULL)


def said(folder: Path) -> list[str]:
    log = folder / "log"
    entries = [parse(line) for line in log.read_bytes().splitlines()] if log.exists() else []
    return [entry.text.decode() for entry in entries if entry is not None]


def ended(folder: Path, shim: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert shim.wait(60) == 0
    end: dict[str, Any] = json.loads((folder / "exit.json").read_text())
    return end


@own_processes
def test_a_program_sees_its_own_processes_and_an_init_that_it_may_not_look_into(tmp_path: Path) -> None:
    look = "cat /proc/1/environ /proc/1/root/etc/passwd; ls -d /proc/[0-9]*; exit 3"
    end = ended(tmp_path, start(tmp_path, f"echo $$; {look}"))
    assert end["code"] == 3
    pid, *rest = said(tmp_path)
    assert pid == "2"
    assert [line for line in rest if "denied" not in line] == ["/proc/1", "/proc/2"]
    assert sum("denied" in line for line in rest) == 2


@own_processes
@pytest.mark.parametrize(
    ("stop", "script", "expected"),
    [
        (signal.SIGTERM, "echo begun; exec sleep 600", {"code": 143, "signal": 15}),
        (signal.SIGTERM, "trap 'exit 7' TERM; echo begun; sleep 600 & wait", {"code": 7}),
        (signal.SIGINT, "trap 'exit 8' INT; echo begun; sleep 600 & wait", {"code": 8}),
        (signal.SIGKILL, "trap '' TERM; echo begun; sleep 600 & wait", {"code": 137, "signal": 9}),
    ],
    ids=["by its default", "by its handler", "another signal", "that cannot be handled"],
)
def test_a_program_is_stopped_by_its_signal_though_it_has_a_table_of_its_own(
    tmp_path: Path, stop: signal.Signals, script: str, expected: dict[str, int]
) -> None:
    shim = start(tmp_path, script, stopSignal=int(stop))
    wait_until(lambda: said(tmp_path) == ["begun"], what="the program runs")
    shim.terminate()
    end = ended(tmp_path, shim)
    assert {key: value for key, value in end.items() if key in {"code", "signal"}} == expected


@own_processes
def test_whoever_kills_the_container_ends_all_of_it(tmp_path: Path) -> None:
    shim = start(tmp_path, "setsid sleep 600 & sleep 600 & echo begun; trap '' TERM; wait")
    wait_until(lambda: said(tmp_path) == ["begun"], what="the program runs")
    table = Path(f"/proc/{json.loads((tmp_path / 'state.json').read_text())['main']['pid']}/ns/pid").readlink()
    assert len(members(table)) >= 3
    shim.send_signal(signal.SIGUSR1)
    assert ended(tmp_path, shim)["signal"] == signal.SIGKILL
    assert members(table) == []


def members(table: Path) -> list[int]:
    """The processes of the machine that are in a PID namespace."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if (place / "ns/pid").readlink() == table:
                found.append(int(place.name))
        except OSError:
            continue
    return found


@own_processes
def test_what_a_program_leaves_behind_is_reaped_while_it_runs_and_ended_with_it(tmp_path: Path) -> None:
    orphans = "orphan=$(sleep 0.05 >/dev/null & echo $!); (setsid sleep 600 &)"
    waiting = "while [ -e /proc/$orphan ]; do sleep 0.05; done"  # one that ended is there until it is reaped
    end = ended(tmp_path, start(tmp_path, f"{orphans}; {waiting}; kill -9 $$"))
    assert (end["code"], end["signal"]) == (137, 9)


@own_processes
def test_a_program_that_cannot_be_run_is_told_of(tmp_path: Path) -> None:
    end = ended(tmp_path, start(tmp_path, "true", command=["/no/such/program"]))
    assert end["code"] == 128
    assert "No such file" in end["error"]


@own_processes
def test_a_command_next_to_the_program_is_in_the_same_table(tmp_path: Path) -> None:
    shim = start(tmp_path, "echo begun; exec sleep 600")
    wait_until(lambda: said(tmp_path) == ["begun"], what="the program runs")
    pid = json.loads((tmp_path / "state.json").read_text())["main"]["pid"]

    def ask(script: str) -> subprocess.CompletedProcess[str]:
        order = {"order": str(tmp_path / "order.json"), "pid": pid, "command": ["sh", "-c", script]}
        command = [sys.executable, "-I", "-S", container_exec, json.dumps(order)]
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)

    seen = ask("tr '\\0' ' ' < /proc/2/cmdline; hostname; id -u; exit 4")
    owner = 2_000_000_000 if os.geteuid() == 0 else os.geteuid()
    assert (seen.returncode, seen.stdout) == (4, f"sleep 600 pod\n{owner}\n"), seen.stderr
    assert ask("kill -9 $$").returncode == -9
    shim.terminate()
    assert ended(tmp_path, shim)["code"] == 143


async def test_where_the_kernel_refuses_pods_run_all_the_same_and_the_log_says_so(
    directory: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("edgewright.local.node.node.mounts_work", lambda: True)
    monkeypatch.setattr("edgewright.local.node.node.processes_work", lambda: False)
    api = FakeApi()
    async with running(api, directory):
        assert "Pods share the process table of the machine" in caplog.text
        api.add_pod(**one("test $$$$ -ne 2"))
        await until_phase(api, "Succeeded")


@own_processes
async def test_where_the_kernel_allows_it_every_pod_has_a_table_of_its_own(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    api = FakeApi()
    async with running(api, directory):
        assert "process table" not in caplog.text
        api.add_pod(**one("test $$$$ -eq 2"))
        await until_phase(api, "Succeeded")


def test_an_init_passes_signals_on_and_says_how_the_program_ended() -> None:
    reader, writer = os.pipe()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGTERM})
    try:
        init = os.fork()
        if not init:
            program = os.fork()
            if not program:
                signal.pthread_sigmask(signal.SIG_SETMASK, ())
                os.execv("/bin/sleep", ["sleep", "600"])
            os.kill(os.getpid(), signal.SIGTERM)  # blocked, and waits for whoever asks
            container_init.serve_as_init(program, signal.SIGTERM, writer)
        os.close(writer)
        assert os.waitpid(init, 0)[1] == 0
        assert int(os.read(reader, 16)) == signal.SIGTERM
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(reader)


def test_what_ended_is_reaped_until_it_is_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [(7, 0), (8, 256), (0, 0)]
    monkeypatch.setattr(os, "waitpid", lambda *_: answers.pop(0))
    assert container_init._reap(8) == 256
    assert container_init._reap(8) is None
