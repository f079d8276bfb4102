"""A root of its own: what is mounted where, in which order, and that nothing is made on the machine."""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from edgewright.local.node import container_exec, mount_check, mountspace


class Mounts:
    """Notes mounts instead of making them; the folders below the base are made for real."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, machine: Path) -> None:
        self.calls: list[tuple[str, str, int]] = []
        self.fails: set[int] = set()
        self._machine = machine
        monkeypatch.setattr(mountspace, "mount", self._mount)
        monkeypatch.setattr(mountspace, "_libc", self)

    def root(self) -> mountspace.Root:
        """A new root over a machine that is a folder of the test."""
        return mountspace.Root(str(self._machine / "base"), machine=str(self._machine / "machine"))

    def _mount(self, source: str, target: str, kind: str, flags: int, data: str = "") -> None:
        if flags in self.fails:
            raise mountspace.Unmountable(1, "not allowed")
        self.calls.append((self._short(source), self._short(target), flags))
        if flags & 4096 and not flags & 32 and Path(source).is_dir():
            # As a bind mount does: what is in the source is seen at the target.
            for entry in Path(source).iterdir():
                (Path(target) / entry.name).mkdir(exist_ok=True)

    def umount2(self, target: bytes, _flags: int) -> int:
        for entry in Path(os.fsdecode(target)).iterdir():
            entry.rmdir()
        self.calls.append(("umount", self._short(os.fsdecode(target)), 0))
        return 0

    def unshare(self, flags: int) -> int:
        self.calls.append(("unshare", "", flags))
        return 0

    def _short(self, path: str) -> str:
        return path.removeprefix(str(self._machine)) or "/"


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    root = tmp_path / "machine"
    for folder in ("etc/known", "usr/lib", "home/closed/program", "data"):
        (root / folder).mkdir(parents=True)
    (root / "file").touch()
    (root / "lib").symlink_to("usr/lib")
    (root / "home" / "closed").chmod(0o700)
    (tmp_path / "base").mkdir()
    return tmp_path


@pytest.fixture
def mounts(monkeypatch: pytest.MonkeyPatch, machine: Path) -> Mounts:
    return Mounts(monkeypatch, machine)


def test_a_new_root_shows_what_the_machine_has(mounts: Mounts, machine: Path) -> None:
    mounts.root()
    shown = {target for _, target, flags in mounts.calls if flags & 4096}
    assert shown == {"/base/etc", "/base/usr", "/base/home", "/base/data", "/base/file"}
    assert (machine / "base" / "lib").readlink() == Path("usr/lib")


def test_a_mount_path_that_is_not_there_is_made_in_the_new_root_only(mounts: Mounts, machine: Path) -> None:
    root = mounts.root()
    source = machine / "volume"
    source.mkdir()
    root.bind(str(source), "/config/deep", read_only=True)
    assert (machine / "base/config/deep").is_dir()
    assert mounts.calls[-2:] == [
        ("/volume", "/base/config/deep", 4096 | 16384),
        ("none", "/base/config/deep", 4096 | 32 | 1 | 2 | 4),
    ]
    assert not (machine / "machine/config").exists()


def test_a_folder_that_must_hold_a_mount_path_is_unfolded(mounts: Mounts, machine: Path) -> None:
    root = mounts.root()
    file = machine / "message"
    file.touch()
    root.bind(str(file), "/etc/sub/message", read_only=False)
    assert ("umount", "/base/etc", 0) in mounts.calls
    assert ("/machine/etc/known", "/base/etc/known", 4096 | 16384) in mounts.calls
    assert (machine / "base/etc/sub/message").is_file()
    assert not (machine / "machine/etc/sub").exists()


def test_a_mount_without_device_files_is_asked_for_and_given_up_where_it_is_refused(
    mounts: Mounts, machine: Path
) -> None:
    root = mounts.root()
    mounts.fails.add(4096 | 32 | 1 | 2 | 4)
    root.bind(str(machine / "machine/usr"), "/etc/known", read_only=True)
    assert mounts.calls[-1] == ("none", "/base/etc/known", 4096 | 32 | 1)


def test_a_covered_folder_is_empty_and_one_that_is_not_there_needs_no_cover(mounts: Mounts, machine: Path) -> None:
    root = mounts.root()
    root.cover("/data")
    root.cover("/nowhere")
    assert [call[:2] for call in mounts.calls if call[0] == "tmpfs"] == [("tmpfs", "/base"), ("tmpfs", "/base/data")]


def test_a_program_in_a_closed_folder_is_shown_alone(mounts: Mounts, machine: Path) -> None:
    root = mounts.root()
    root.show_alone("/home/closed/program")
    assert mounts.calls[-1] == ("/machine/home/closed/program", "/base/home/closed/program", 4096 | 16384)
    assert [entry.name for entry in (machine / "base/home/closed").iterdir()] == ["program"]


def test_a_file_in_a_closed_folder_is_shown_alone(mounts: Mounts, machine: Path) -> None:
    (machine / "machine/home/closed/script.py").touch()
    root = mounts.root()
    root.show_alone("/home/closed/script.py")
    assert mounts.calls[-1] == ("/machine/home/closed/script.py", "/base/home/closed/script.py", 4096 | 16384)
    assert (machine / "base/home/closed/script.py").is_file()


def test_a_program_that_anybody_may_read_needs_nothing(mounts: Mounts, machine: Path) -> None:
    root = mounts.root()
    before = len(mounts.calls)
    root.show_alone("/usr/lib")
    assert len(mounts.calls) == before


def test_a_folder_with_too_many_entries_is_not_unfolded(
    mounts: Mounts, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = mounts.root()
    monkeypatch.setattr(mountspace, "_MAX_ENTRIES", 0)
    with pytest.raises(mountspace.Unmountable, match="more than 0 entries"):
        root.make_place("/etc/new", folder=True)


def test_entering_mounts_short_paths_first_and_moves_in_last(
    mounts: Mounts, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved: list[str] = []
    monkeypatch.setattr(os, "chdir", moved.append)
    monkeypatch.setattr(os, "chroot", moved.append)
    monkeypatch.setattr(os, "getuid", lambda: 0)
    volume = machine / "volume"
    volume.mkdir()
    root = mountspace.Root
    there = {"machine": str(machine / "machine")}
    monkeypatch.setattr(mountspace, "Root", lambda _: root(str(machine / "base"), **there))
    wanted = [{"source": str(volume), "path": path, "readOnly": False} for path in ("/a/b", "/a")]
    mountspace.enter({"base": "", "shown": ["/usr"], "covered": ["/data"], "mounts": wanted})
    targets = [target for source, target, _ in mounts.calls if source == "/volume"]
    assert targets[0] == "/base/a"
    assert targets[1].startswith("/proc/self/fd/"), "the second lies inside the first"
    assert [target for _, target, _ in mounts.calls[-3:-1]] == ["/base/data", "/base/proc"], "covers come last"
    assert mounts.calls[0] == ("unshare", "", 0x00020000)
    assert moved == [str(machine / "base"), ".", "/"]


def test_with_processes_of_its_own_a_container_gets_a_proc_of_them_in_the_namespaces_that_are_there(
    mounts: Mounts, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("chdir", "chroot"):
        monkeypatch.setattr(os, name, lambda _: None)
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    root = mountspace.Root
    there = {"machine": str(machine / "machine")}
    monkeypatch.setattr(mountspace, "Root", lambda _: root(str(machine / "base"), **there))
    mountspace.enter({"base": "", "mounts": [], "processes": True})
    assert mounts.calls[0] == ("unshare", "", 0x00020000), "the user namespace came with the processes"
    assert mounts.calls[-2] == ("proc", "/base/proc", 2 | 4 | 8)


def test_a_proc_that_the_kernel_refuses_is_an_error_and_never_the_machines(mounts: Mounts) -> None:
    root = mounts.root()
    mounts.fails.add(2 | 4 | 8)
    with pytest.raises(mountspace.Unmountable):
        root.show_own_processes()
    root.hide_processes_of_others()
    assert not [call for call in mounts.calls if call[0] == "proc"]


def test_a_link_in_a_volume_is_never_followed(machine: Path, mounts: Mounts) -> None:
    root = mounts.root()
    volume = machine / "volume"
    volume.mkdir()
    root.bind(str(volume), "/data", read_only=False)
    inside = machine / "base" / "data"
    (inside / "link").symlink_to(machine / "machine" / "usr")
    for path in ("/data/link", "/data/link/new"):
        with pytest.raises(mountspace.Unmountable, match="in a volume"):
            root.bind(str(volume), path, read_only=False)
    assert not (machine / "machine/usr/new").exists()
    place = root.make_place("/data/a/file", folder=False)
    assert place.startswith("/proc/self/fd/")
    assert (inside / "a" / "file").is_file()
    for fd in range(3, 64):
        with contextlib.suppress(OSError):
            if str(Path(f"/proc/self/fd/{fd}").readlink()).startswith(str(inside)):
                os.close(fd)


def test_a_host_name_that_the_kernel_refuses_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mountspace, "_libc", type("Fake", (), {"unshare": staticmethod(lambda _: -1)}))
    with pytest.raises(mountspace.Unmountable, match="cannot have a host name of its own"):
        mountspace.take_name("pod-0")


def test_an_error_of_the_kernel_names_what_was_mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = type("Fake", (), {"mount": staticmethod(lambda *_: -1), "unshare": staticmethod(lambda *_: -1)})
    monkeypatch.setattr(mountspace, "_libc", fake)
    with pytest.raises(mountspace.Unmountable, match="cannot mount /a at /b"):
        mountspace.mount("/a", "/b", "", 0)
    with pytest.raises(mountspace.Unmountable, match="cannot make a mount namespace"):
        mountspace.leave_the_machines_mounts(user=False)
    with pytest.raises(mountspace.Unmountable, match="cannot make a PID namespace"):
        mountspace.leave_the_machines_processes()


def test_an_ordinary_user_stays_who_he_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written: dict[str, str] = {}

    def fake_open(path: str, _mode: str) -> Any:
        return (tmp_path / path.rpartition("/")[2]).open("w")

    calls: list[int] = []

    def unshare(flags: int) -> int:
        calls.append(flags)
        return 0

    fake = type("Fake", (), {"mount": staticmethod(lambda *_: 0), "unshare": staticmethod(unshare)})
    monkeypatch.setattr(mountspace, "_libc", fake)
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    monkeypatch.setattr(os, "getgid", lambda: 100)
    monkeypatch.setattr(mountspace, "open", fake_open, raising=False)
    mountspace.leave_the_machines_mounts(user=True)
    mountspace.leave_the_machines_processes()
    written = {entry.name: entry.read_text() for entry in tmp_path.iterdir()}
    assert written == {"setgroups": "deny", "uid_map": "1000 1000 1", "gid_map": "100 100 1"}
    assert calls == [0x10020000, 0x30000000]


@pytest.mark.skipif(not mount_check.mounts_work(), reason="this machine gives us no mount namespace")
def test_for_real_a_process_sees_its_mounts_and_the_machine_does_not(tmp_path: Path) -> None:
    for name in ("base", "volume", "secret"):
        (tmp_path / name).mkdir()
    (tmp_path / "volume" / "x").write_text("seen")
    (tmp_path / "secret" / "key").write_text("hidden")
    mounts = [{"source": str(tmp_path / "volume"), "path": "/edgewright-test/deep", "readOnly": True}]
    wanted: dict[str, Any] = {"base": str(tmp_path / "base"), "covered": [str(tmp_path / "secret")], "mounts": mounts}
    wanted["hostname"] = "pod-0"
    program = f"""
import os, sys
sys.path.append({str(Path(mountspace.__file__).parent)!r})
import mountspace
mountspace.enter({wanted!r})
print(open("/edgewright-test/deep/x").read(), os.listdir({str(tmp_path / "secret")!r}), os.uname().nodename)
"""
    machine = os.uname().nodename
    said = subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True, capture_output=True, text=True)
    assert said.stdout == "seen [] pod-0\n"
    assert os.uname().nodename == machine
    assert not Path("/edgewright-test").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_for_real_an_ordinary_user_sees_mounts_too_where_the_machine_allows_it(tmp_path: Path) -> None:
    for name in ("base", "volume"):
        (tmp_path / name).mkdir()
    (tmp_path / "volume" / "x").write_text("seen")
    os.chown(tmp_path / "base", 65534, 65534)
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o011)
    mounts = [{"source": str(tmp_path / "volume"), "path": "/edgewright-test/deep", "readOnly": True}]
    wanted = {"base": str(tmp_path / "base"), "covered": [], "mounts": mounts, "hostname": "pod-0"}
    program = f"""
import os, sys
sys.path.append({str(Path(mountspace.__file__).parent)!r})
import mountspace
os.setgroups([]), os.setgid(65534), os.setuid(65534)
mountspace._libc.prctl(4, 1, 0, 0, 0)  # else /proc/self belongs to root still: a new program sets it
try:
    mountspace.leave_the_machines_mounts(user=True)
except OSError:
    sys.exit(77)
mountspace.leave_the_machines_mounts = lambda **_: None
mountspace.enter({wanted!r})
print(open("/edgewright-test/deep/x").read(), os.getuid(), os.uname().nodename)
"""
    said = subprocess.run([sys.executable, "-I", "-S", "-c", program], check=False, capture_output=True, text=True)
    if said.returncode == 77:
        pytest.skip("this machine gives ordinary users no user namespace")
    assert said.stdout == "seen 65534 pod-0\n", said.stderr


def test_a_command_next_to_a_container_enters_its_namespaces_and_becomes_its_user(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls: list[Any] = []

    def setns(_fd: int, _kind: int) -> int:
        calls.append("setns")
        return 0

    fake = type("Fake", (), {"setns": staticmethod(setns)})
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: fake)
    for name in ("setgroups", "setgid", "setuid", "chdir", "execvpe"):
        monkeypatch.setattr(os, name, lambda *given, name=name: calls.append((name, *given)))
    monkeypatch.setattr(os, "getuid", lambda: 1000)
    file = tmp_path / "order.json"
    file.write_text(
        '{"root": {"hostname": "pod"}, "user": {"uid": 1, "gid": 2, "groups": [3]}, '
        '"folder": "/", "environment": {"A": "b"}}'
    )
    container_exec.main({"order": str(file), "pid": os.getpid(), "command": ["true"]})
    assert calls == [
        "setns",
        "setns",
        "setns",
        ("setgroups", [3]),
        ("setgid", 2),
        ("setuid", 1),
        ("chdir", "/"),
        ("execvpe", "true", ["true"], {"A": "b"}),
    ]


@pytest.mark.parametrize(
    ("root", "user", "wanted"),
    [
        ({}, False, ["mnt"]),
        ({"hostname": "pod"}, True, ["user", "mnt", "uts"]),
        ({"hostname": "pod", "processes": True}, False, ["mnt", "uts", "pid"]),
    ],
    ids=["of an earlier node", "of an ordinary user", "with processes of its own"],
)
def test_a_command_enters_what_the_container_has(root: dict[str, Any], user: bool, wanted: list[str]) -> None:
    assert container_exec.namespaces(root, user=user) == wanted


@pytest.mark.parametrize(("script", "code"), [("exit 3", 3), ("kill -9 $$", -9)], ids=["code", "signal"])
def test_a_command_in_another_process_table_ends_as_its_child_did(script: str, code: int) -> None:
    program = f"""
import os, sys
sys.path.append({str(Path(mountspace.__file__).parent)!r})
import container_exec
child = os.fork()
if not child:
    os.execv("/bin/sh", ["sh", "-c", {script!r}])
container_exec.end_as(child)
"""
    assert subprocess.run([sys.executable, "-I", "-S", "-c", program], check=False).returncode == code


def test_a_container_that_cannot_be_entered_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = type("Fake", (), {"setns": staticmethod(lambda *_: -1)})
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: fake)
    with pytest.raises(OSError, match="cannot enter the container"):
        container_exec.enter(os.getpid(), ["mnt"])
