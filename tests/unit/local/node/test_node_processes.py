"""Processes and folders: a pid alone is never believed, and what is on disk is whole or not there."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from edgewright.local.node import processes
from edgewright.local.node.folders import Exit, FolderTaken, NodeFolder, PodRecord
from edgewright.local.node.processes import Identity, boot_id, kill_session, open_process, send, start_time
from tests.unit.local.node.podspecs import NOW


def fake_proc(tmp_path: Path, pid: int, *, start: int, session: int = 1, name: str = "a) (b") -> Path:
    folder = tmp_path / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    fields = ["S", "1", "1", str(session), *["0"] * 15, str(start), "0", "0"]
    (folder / "stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")
    return tmp_path


def test_a_start_time_is_found_behind_a_name_with_brackets(tmp_path: Path) -> None:
    assert start_time(7, fake_proc(tmp_path, 7, start=1234)) == 1234
    assert start_time(8, tmp_path) is None
    (tmp_path / "9").mkdir()
    (tmp_path / "9" / "stat").write_text("9 (x) Z 1")
    assert start_time(9, tmp_path) is None


def test_a_boot_has_an_id() -> None:
    assert len(boot_id()) == 36


def test_a_process_is_opened_only_with_its_own_start_time(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        started = start_time(child.pid)
        assert started is not None
        fd = open_process(Identity(pid=child.pid, start=started))
        assert fd is not None
        assert open_process(Identity(pid=child.pid, start=started + 1)) is None
        assert open_process(Identity(pid=0, start=0)) is None
        send(fd, signal.SIGKILL)
        child.wait()
        send(fd, signal.SIGKILL)  # it is gone: nothing happens
        os.close(fd)
        assert open_process(Identity(pid=child.pid, start=started)) is None


def test_a_pid_that_is_gone_between_two_looks_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proc = fake_proc(tmp_path, 2**22 + 5, start=5)
    assert open_process(Identity(pid=2**22 + 5, start=5), proc) is None
    looks = iter([5, 6])
    monkeypatch.setattr(processes, "start_time", lambda *_: next(looks))
    assert open_process(Identity(pid=os.getpid(), start=5)) is None


def test_a_session_is_killed_whole_and_only_where_its_leader_is_the_one_written_down() -> None:
    script = "sleep 60 & sleep 60 & echo up; wait"
    with subprocess.Popen(["sh", "-c", script], start_new_session=True, stdout=subprocess.PIPE) as leader:
        assert leader.stdout is not None
        leader.stdout.readline()
        started = start_time(leader.pid)
        assert started is not None
        assert kill_session(Identity(pid=leader.pid, start=started + 1)) == 0
        assert leader.poll() is None, "somebody else's process was killed"
        assert kill_session(Identity(pid=leader.pid, start=started)) == 3
        assert leader.wait() == -9


def record(uid: str = "u") -> PodRecord:
    return PodRecord(uid=uid, namespace="default", name="pod", boot="b", taken_in=NOW, address="127.1.1.1")


def test_the_nodes_folder_is_closed_to_others_and_swept(tmp_path: Path) -> None:
    node = NodeFolder(tmp_path / "node")
    node.open()
    assert (tmp_path / "node").stat().st_mode & 0o777 == 0o700
    (tmp_path / "node/pods/.old.gone").mkdir()
    node.close()
    node.open()
    assert node.pods() == []
    node.close()
    assert not list((tmp_path / "node/pods").iterdir())


def test_a_folder_has_one_node_at_a_time(tmp_path: Path) -> None:
    one, other = NodeFolder(tmp_path), NodeFolder(tmp_path)
    one.open()
    with pytest.raises(FolderTaken, match="another node works with"):
        other.open()
    other.close()
    one.close()
    other.open()
    other.close()


@pytest.mark.parametrize("uid", ["", "../up", ".hidden", "a/b"])
def test_a_uid_that_is_none_names_no_folder(tmp_path: Path, uid: str) -> None:
    with pytest.raises(ValueError, match="not the uid"):
        NodeFolder(tmp_path).pod(uid)


def test_a_pods_folder_tells_what_was_decided_until_it_is_removed(tmp_path: Path) -> None:
    node = NodeFolder(tmp_path)
    node.open()
    node.close()
    folder = node.pod("u")
    assert folder.record() is None
    folder.take_in(record())
    assert folder.record() == record()
    assert [each.path for each in node.pods()] == [folder.path]
    assert folder.containers() == []
    folder.remove()
    folder.remove()
    assert node.pods() == []


def test_an_attempt_is_there_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = NodeFolder(tmp_path).pod("u")
    folder.take_in(record())
    place = folder.attempt("main", 0)
    assert place.read() is None
    assert folder.attempts("main") == []
    (folder.path / "containers/main/.0").mkdir(parents=True)
    place.prepare({"command": ["x"], "step": 3, "image": "i"})
    attempt = place.read()
    assert attempt is not None
    assert (attempt.step, attempt.image, attempt.begun, attempt.running) == (3, "i", False, False)
    assert attempt.started_at is None
    assert attempt.finished_at is None
    assert folder.containers() == ["main"]


def test_an_attempt_can_be_called_off_once_and_not_after_it_began(tmp_path: Path) -> None:
    place = NodeFolder(tmp_path).pod("u").attempt("main", 0)
    place.prepare({})
    assert place.call_off()
    assert not place.call_off()
    attempt = place.read()
    assert attempt is not None
    assert not attempt.begun


def test_an_attempt_whose_removal_was_cut_off_does_not_stand_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = NodeFolder(tmp_path).pod("u").attempt("main", 0)
    place.prepare({"step": 1})
    with monkeypatch.context() as cut_off:
        cut_off.setattr(shutil, "rmtree", lambda *_, **__: None)
        place.remove()
    assert place.read() is None
    place.prepare({"step": 2})
    place.remove()
    place.remove()
    assert not [entry for entry in place.path.parent.iterdir() if entry.name.isdigit()]


def test_an_end_tells_its_times_and_a_half_written_file_tells_nothing(tmp_path: Path) -> None:
    place = NodeFolder(tmp_path).pod("u").attempt("main", 2)
    place.prepare({})
    place.write_end(Exit(code=1, finished=10**18, started=10**18 - 10**9))
    attempt = place.read()
    assert attempt is not None
    assert attempt.finished_at is not None
    assert attempt.started_at is not None
    assert (attempt.finished_at - attempt.started_at).total_seconds() == 1
    (place.path / "exit.json").write_text('{"code": ')
    assert place.read().end is None  # type: ignore[union-attr]


def test_only_the_last_two_attempts_are_kept(tmp_path: Path) -> None:
    folder = NodeFolder(tmp_path).pod("u")
    for number in range(4):
        folder.attempt("main", number).prepare({})
    folder.forget_old("main", 3)
    folder.forget_old("none", 3)
    assert [attempt.number for attempt in folder.attempts("main")] == [3, 2]


def test_what_a_shim_complained_of_is_its_last_line(tmp_path: Path) -> None:
    place = NodeFolder(tmp_path).pod("u").attempt("main", 0)
    assert place.said() == ""
    place.prepare({})
    (place.path / "shim.err").write_text("Traceback\n  x\nValueError: y\n")
    assert place.said() == "ValueError: y"
    (place.path / "shim.err").write_text("")
    assert place.said() == ""
    place.remove()
    assert not place.path.exists()
