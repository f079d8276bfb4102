"""The shim: what it writes down, what it passes on, and that it never runs what was called off."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edgewright.local.node import shim
from edgewright.local.node.container_start import SHIM
from edgewright.local.node.logfiles import parse


def lines(path: Path) -> list[tuple[str, str, bytes]]:
    entries = [parse(line) for line in path.read_bytes().splitlines()]
    return [(each.stream, "P" if each.partial else "F", each.text) for each in entries if each is not None]


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_a_log_has_a_line_for_each_line_with_its_stream(tmp_path: Path) -> None:
    log = shim.Log(str(tmp_path / "log"), 1 << 20)
    log.take("stdout", b"one\ntw")
    log.take("stderr", b"oops\n")
    log.take("stdout", b"o\n\nrest")
    log.close()
    assert lines(tmp_path / "log") == [
        ("stdout", "F", b"one"),
        ("stderr", "F", b"oops"),
        ("stdout", "F", b"two"),
        ("stdout", "F", b""),
        ("stdout", "F", b"rest"),
    ]


@pytest.mark.parametrize("newline", [b"", b"\n"], ids=["as it comes", "whole"])
def test_a_line_that_is_too_long_is_kept_in_parts(tmp_path: Path, newline: bytes) -> None:
    log = shim.Log(str(tmp_path / "log"), 1 << 20)
    log.take("stdout", b"x" * (shim.MAX_LINE + 10) + newline)
    log.close()
    assert [(tag, len(text)) for _, tag, text in lines(tmp_path / "log")] == [("P", shim.MAX_LINE), ("F", 10)]


def test_a_log_is_turned_over_and_stays_bounded(tmp_path: Path) -> None:
    log = shim.Log(str(tmp_path / "log"), 1000)
    for number in range(100):
        log.take("stdout", f"line {number}\n".encode())
    log.close()
    assert names(tmp_path) == ["log", "log.1"]
    assert all((tmp_path / name).stat().st_size <= 1000 for name in ("log", "log.1"))
    assert lines(tmp_path / "log")[-1][2] == b"line 99"


def test_a_full_disk_costs_lines_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = shim.Log(str(tmp_path / "log"), 1000)
    monkeypatch.setattr(os, "write", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
    log.take("stdout", b"lost\n")
    monkeypatch.undo()
    log.take("stdout", b"kept\n")
    log.close()
    assert [text for _, _, text in lines(tmp_path / "log")] == [b"kept"]


def test_a_file_is_written_once_when_it_must_be_the_first(tmp_path: Path) -> None:
    assert shim.write_once(str(tmp_path), "a", {"n": 1}, first=True)
    assert not shim.write_once(str(tmp_path), "a", {"n": 2}, first=True)
    assert json.loads((tmp_path / "a").read_text()) == {"n": 1}
    assert shim.write_once(str(tmp_path), "a", {"n": 3}, first=False)
    assert json.loads((tmp_path / "a").read_text()) == {"n": 3}
    assert names(tmp_path) == ["a"]


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets the shim run in this process: it must not adopt or end processes that are not its own."""
    monkeypatch.setattr(shim, "_adopt_orphans", lambda: None)
    monkeypatch.setattr(shim, "_children", list)
    kept = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD)
    handlers = {number: signal.getsignal(number) for number in kept}
    monkeypatch.setattr(os, "dup2", lambda *_: None)
    yield
    signal.set_wakeup_fd(-1)
    for number, handler in handlers.items():
        signal.signal(number, handler)


def order(*command: str, **more: Any) -> dict[str, Any]:
    return {"command": list(command), "environment": {"PATH": "/usr/bin:/bin"}, "folder": "/", **more}


@pytest.mark.usefixtures("here")
def test_a_program_is_followed_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the program needs its real output
    monkeypatch.setattr(shim, "_adopt_orphans", lambda: None)
    monkeypatch.setattr(shim, "_children", list)
    saved = os.dup(1)
    try:
        shim.Container(str(tmp_path), order("sh", "-c", "echo out; echo err >&2; exit 3")).run()
    finally:
        os.dup2(saved, 1)
        os.close(saved)
    assert json.loads((tmp_path / "exit.json").read_text())["code"] == 3
    state = json.loads((tmp_path / "state.json").read_text())
    assert state["shim"] == {"pid": os.getpid(), "start": shim.start_time(os.getpid())}
    assert sorted(text for _, _, text in lines(tmp_path / "log")) == [b"err", b"out"]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("number", "ends_by"), [(signal.SIGTERM, 15), (signal.SIGUSR1, 9)], ids=["asked", "killed"])
def test_signals_are_passed_on(tmp_path: Path, number: signal.Signals, ends_by: int) -> None:
    def ask() -> None:
        until = time.monotonic() + 60
        while not (tmp_path / "state.json").exists():  # before it is, the signal would end this process
            assert time.monotonic() < until
            time.sleep(0.01)
        os.kill(os.getpid(), number)

    asking = threading.Thread(target=ask)
    asking.start()
    shim.Container(str(tmp_path), order("sleep", "60")).run()
    asking.join()
    end = json.loads((tmp_path / "exit.json").read_text())
    assert (end["signal"], end["code"]) == (ends_by, 128 + ends_by)


@pytest.mark.usefixtures("here")
def test_what_was_called_off_is_never_run(tmp_path: Path) -> None:
    (tmp_path / "state.json").write_text("{}")
    shim.Container(str(tmp_path), order("touch", str(tmp_path / "it ran"))).run()
    assert names(tmp_path) == ["state.json"]


@pytest.mark.usefixtures("here")
def test_a_program_that_cannot_be_run_is_an_end_with_an_error(tmp_path: Path) -> None:
    shim.Container(str(tmp_path), order("/no/such/program")).run()
    end = json.loads((tmp_path / "exit.json").read_text())
    assert end["code"] == 128
    assert "No such file" in end["error"]


def test_the_program_and_all_that_left_its_group_are_ended_together(tmp_path: Path) -> None:
    script = "setsid sleep 1000 & echo $!; (sleep 1000 & echo $!); true"
    (tmp_path / "order.json").write_text(json.dumps(order("sh", "-c", script)))
    subprocess.run([sys.executable, "-I", "-S", str(SHIM), str(tmp_path)], check=True, timeout=60)
    assert json.loads((tmp_path / "exit.json").read_text())["code"] == 0
    pids = [int(text) for _, _, text in lines(tmp_path / "log")]
    assert len(pids) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


class Recorded:
    """Notes what a child does to itself, instead of doing it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[Any, ...]] = []
        for name in ("setsid", "umask", "setgroups", "setgid", "setuid", "chdir", "dup2", "execvpe"):
            monkeypatch.setattr(os, name, lambda *given, name=name: self.calls.append((name, *given)))
        monkeypatch.setattr(signal, "signal", lambda *_: None)
        monkeypatch.setattr(signal, "set_wakeup_fd", lambda *_: None)
        monkeypatch.setattr(shim, "_forbid_new_privileges", lambda: self.calls.append(("no new privileges",)))

    def names(self) -> list[str]:
        return [call[0] for call in self.calls]


def test_a_child_gives_up_groups_before_its_user_and_rights_before_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[Any] = []
    monkeypatch.setitem(sys.modules, "mountspace", type("Fake", (), {"enter": staticmethod(entered.append)}))
    monkeypatch.setattr(sys, "path", list(sys.path))
    recorded = Recorded(monkeypatch)
    user = {"uid": 7, "gid": 8, "groups": [9]}
    shim.become(order("true", user=user, root={"mounts": []}), stdout=5, stderr=6, ended=7)
    assert entered == [{"mounts": []}]
    wanted = [
        "setsid",
        "umask",
        "setgroups",
        "setgid",
        "setuid",
        "no new privileges",
        "chdir",
        "dup2",
        "dup2",
        "execvpe",
    ]
    assert recorded.names() == wanted


@pytest.mark.parametrize(("go", "code"), [(b"g", 128), (b"", 0)], ids=["let go", "called off"])
def test_a_child_says_why_it_could_not_run_or_ends_in_silence(
    monkeypatch: pytest.MonkeyPatch, go: bytes, code: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(2, "no such thing")

    monkeypatch.setattr(shim, "become", fail)
    left: list[int] = []
    monkeypatch.setattr(os, "_exit", left.append)
    reader, writer = os.pipe()
    problem_reader, problem = os.pipe()
    os.write(writer, go)
    os.close(writer)
    run: Callable[..., None] = shim._run_program  # it never returns, except here
    run(order("true"), reader, problem, stdout=1, stderr=2, ended=3)
    os.close(problem)
    said = shim._read_all(problem_reader)
    os.close(reader)
    assert left == [code]
    assert said == (b"[Errno 2] no such thing" if go else b"")


def test_what_is_left_is_ended_generation_by_generation(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    child = subprocess.Popen(["sleep", "60"])
    monkeypatch.setattr(shim, "_children", lambda: [child.pid] if child.returncode is None else [])
    real = os.waitpid

    def reap(pid: int, flags: int) -> tuple[int, int]:
        done = real(pid, flags)
        child.returncode = -9
        return done

    monkeypatch.setattr(os, "waitpid", reap)
    shim.Container(str(tmp_path), {})._end_the_rest()
    assert child.returncode == -9


def test_children_are_listed_and_a_kernel_that_does_not_tell_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        assert child.pid in shim._children()
        child.kill()
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert shim._children() == []


def test_the_order_in_a_folder_is_carried_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "order.json").write_text('{"command": ["true"]}')
    carried_out: list[Any] = []

    class Fake:
        def __init__(self, folder: str, given: dict[str, Any]) -> None:
            carried_out.append((folder, given))

        def run(self) -> None:
            carried_out.append("run")

    monkeypatch.setattr(os, "setsid", lambda: None)
    monkeypatch.setattr(shim, "Container", Fake)
    shim.main(str(tmp_path))
    assert carried_out == [(str(tmp_path), {"command": ["true"]}), "run"]


def test_the_two_rights_of_a_process_are_set_by_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    import ctypes

    calls: list[tuple[int, ...]] = []
    fake = type("Fake", (), {"prctl": staticmethod(lambda *given: calls.append(given))})
    monkeypatch.setattr(ctypes, "CDLL", lambda _: fake)
    shim._adopt_orphans()
    shim._forbid_new_privileges()
    assert calls == [(36, 1, 0, 0, 0), (38, 1, 0, 0, 0)]
