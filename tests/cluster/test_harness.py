"""The harness itself on the real programs: what it promises to the other tests, each promise tried."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness import (
    NODE,
    ControlPlane,
    KubectlError,
    NotBuiltError,
    PortTakenError,
    Process,
    ProcessError,
    Proxy,
    RequestError,
    WaitError,
    free_port,
    programs,
    wait_until,
    wait_until_async,
)

ROOT = Path(__file__).resolve().parents[2]


def _alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has waited for does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def _config_map(name: str, size: int = 0) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": "x" * size}}


# Waiting


def test_waiting_returns_what_the_condition_returns() -> None:
    answers = iter([0, 0, 7])
    assert wait_until(lambda: next(answers), what="seven") == 7


async def test_waiting_in_an_event_loop_returns_what_the_condition_returns() -> None:
    answers = iter([0, 0, 7])
    assert await wait_until_async(lambda: next(answers), what="seven") == 7


def test_waiting_in_vain_says_for_what() -> None:
    with pytest.raises(WaitError, match="waited 0 s in vain: the moon"):
        wait_until(lambda: False, timeout=0, what="the moon")


# Processes


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[Process]:
    process = Process("sleeper", [shutil.which("sleep") or "sleep", "600"], log=tmp_path / "log", ready=lambda: True)
    process.start()
    yield process
    process.kill()


def _state(process: Process) -> str:
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_process_is_stopped_and_continued(sleeper: Process) -> None:
    sleeper.stop()
    wait_until(lambda: _state(sleeper) == "T", what="it is stopped")
    sleeper.resume()
    wait_until(lambda: _state(sleeper) != "T", what="it goes on")
    assert sleeper.running


def test_a_stopped_process_can_be_terminated(sleeper: Process) -> None:
    sleeper.stop()
    sleeper.terminate()
    assert not sleeper.running


def test_a_process_that_does_not_obey_is_killed(tmp_path: Path) -> None:
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
    )
    process = Process(
        "deaf", [sys.executable, "-c", deaf], log=tmp_path / "log", ready=lambda: "deaf" in process.output()
    )
    process.start()
    process.wait_ready()
    process.terminate(timeout=0.1)
    assert not process.running


def test_a_process_started_in_a_thread_outlives_the_thread(sleeper: Process) -> None:
    sleeper.kill()
    thread = threading.Thread(target=sleeper.restart)
    thread.start()
    thread.join()
    # The kernel sends the signal of a dead parent before the thread counts as joined; a second program proves the order.
    assert not wait_is_gone(sleeper.pid)


def wait_is_gone(pid: int, timeout: float = 0.2) -> bool:
    try:
        wait_until(lambda: not _alive(pid), timeout=timeout, what="it is gone")
    except WaitError:
        return False
    return True


@pytest.mark.parametrize(
    ("text", "error"),
    [("no such luck", ProcessError), ("listen tcp 127.0.0.1:1: bind: address already in use", PortTakenError)],
    ids=["ended", "port taken"],
)
def test_a_process_that_ends_too_early_shows_its_log(tmp_path: Path, text: str, error: type[ProcessError]) -> None:
    process = Process("poor", [sys.executable, "-c", f"exit({text!r})"], log=tmp_path / "log", ready=lambda: False)
    process.start()
    with pytest.raises(ProcessError, match=text) as raised:
        process.wait_ready()
    assert type(raised.value) is error


def test_every_process_dies_when_the_test_process_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from tests.harness import ControlPlane\n"
        "control_plane = ControlPlane(directory=Path(sys.argv[1])); control_plane.start()\n"
        "print(*[process.pid for process in control_plane.processes], flush=True); time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, tmp_path], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        pids = [int(word) for word in child.stdout.readline().split()]
        assert [_alive(pid) for pid in pids] == [True, True]
        child.kill()
    wait_until(lambda: not any(_alive(pid) for pid in pids), timeout=5, what="etcd and the API server are gone")


# The control plane


def test_a_missing_program_is_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(programs, "directory", lambda: tmp_path)
    with pytest.raises(NotBuiltError, match="^etcd is not built: run make kubernetes first$"):
        ControlPlane()


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(
        ValueError, match="unknown parts \\['cloud'\\]: choose from controller-manager, scheduler, kwok"
    ):
        ControlPlane(parts={"cloud"})


def test_a_taken_port_is_replaced_by_another(own_cluster: ControlPlane, tmp_path: Path) -> None:
    with ControlPlane(directory=tmp_path) as unused:
        pass
    assert not unused.directory.exists()


def test_two_control_planes_run_side_by_side(cluster: ControlPlane, own_cluster: ControlPlane) -> None:
    own_cluster.request("POST", "/api/v1/namespaces/default/configmaps", _config_map("here"))
    assert own_cluster.exists("/api/v1/namespaces/default/configmaps/here")
    assert not cluster.exists("/api/v1/namespaces/default/configmaps/here")
    with pytest.raises(ssl.SSLCertVerificationError):
        _connect(cluster.admin_tls, own_cluster.server).request("GET", "/version")


def _connect(tls: ssl.SSLContext, url: str) -> http.client.HTTPSConnection:
    return http.client.HTTPSConnection(urllib.parse.urlsplit(url).netloc, context=tls, timeout=10)
