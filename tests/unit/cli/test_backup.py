"""`edgewright backup`: a copy that can be restored, made while the store is written to, or no file at all."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from edgewright.cli.backup import backup as command
from edgewright.cli.failure import Failed
from edgewright.local.backup import backup
from edgewright.local.history import StoreKey
from edgewright.local.store import Store, StoreDamaged, StoreError
from edgewright.runtime.clock import SystemClock
from tests.unit.cli.command import edgewright, sentence


def key(name: str) -> StoreKey:
    return StoreKey("widgets", "default", name)


def body(name: str) -> Callable[[int], bytes]:
    return lambda revision: f"{name} {revision}".encode()


async def filled(data: Path, names: range) -> None:
    """Leaves a store with these objects in a directory."""
    store = await Store.open(data, clock=SystemClock())
    try:
        for number in names:
            await store.create(key(f"w{number}"), body(f"w{number}"))
    finally:
        await store.close()


async def names_in(data: Path) -> tuple[list[str], int]:
    """What somebody finds who starts with this directory."""
    store = await Store.open(data, clock=SystemClock())
    try:
        return [item.key.name for item in store.list("widgets").items], store.revision
    finally:
        await store.close()


def restored(file: Path, data: Path) -> tuple[list[str], int]:
    """A restore as the help of the command has it."""
    data.mkdir()
    (data / "store.db").write_bytes(file.read_bytes())
    return asyncio.run(names_in(data))


def test_a_copy_is_restored_as_store_db_in_a_new_directory(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "copy.db"
    asyncio.run(filled(data, range(3)))
    done = edgewright("backup", file, "--data", data)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{file} holds the objects of {data} as of resourceVersion 3\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert {path.name for path in tmp_path.iterdir()} == {"data", "copy.db"}
    assert restored(file, tmp_path / "new") == (["w0", "w1", "w2"], 3)


async def test_a_copy_is_made_while_another_process_holds_the_directory_and_writes(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "copy.db"
    store = await Store.open(data, clock=SystemClock())
    stop = asyncio.Event()

    async def write() -> int:
        count = 0
        while not stop.is_set():
            await store.create(key(f"w{count:05}"), body("w"))
            count += 1
        return count

    try:
        writing = asyncio.create_task(write())
        await store.create(key("before"), body("before"))
        acknowledged = store.revision
        done = await asyncio.to_thread(edgewright, "backup", file, "--data", data)
        stop.set()
        written = await writing
    finally:
        await store.close()
    assert done.returncode == 0, done.stderr
    names, revision = await asyncio.to_thread(restored, file, tmp_path / "new")
    assert acknowledged <= revision <= written + 1
    assert len(names) == revision  # nothing was deleted: every write up to that one, and none after it
    assert "before" in names


def test_a_file_that_is_there_is_kept_unless_told_otherwise(tmp_path: Path) -> None:
    data, file = tmp_path / "data", tmp_path / "copy.db"
    asyncio.run(filled(data, range(1)))
    file.write_text("precious")
    done = edgewright("backup", file, "--data", data)
    assert (done.returncode, done.stdout) == (1, "")
    assert sentence(done) == f"{file} is there already: name another file, or replace it with --force"
    assert file.read_text() == "precious"
    assert edgewright("backup", file, "--data", data, "--force").returncode == 0
    assert restored(file, tmp_path / "new") == (["w0"], 1)


def test_a_directory_without_a_store_is_named(tmp_path: Path) -> None:
    done = edgewright("backup", tmp_path / "copy.db", env={"XDG_DATA_HOME": str(tmp_path)})
    assert done.returncode == 1
    assert sentence(done) == f"{tmp_path / 'edgewright'} is no data directory: there is no store.db in it"
    assert list(tmp_path.iterdir()) == []


def test_a_directory_in_the_place_of_the_file_is_named(tmp_path: Path) -> None:
    done = edgewright("backup", tmp_path, "--data", tmp_path, "--force")
    assert (done.returncode, sentence(done)) == (1, f"{tmp_path} is a directory: name a file")


def change(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(statement)


@pytest.mark.parametrize(
    ("spoil", "kind", "said"),
    [
        (lambda file: file.write_bytes(b"no database" * 100), StoreDamaged, "cannot be copied"),
        (lambda file: change(file, "UPDATE objects SET body = X'78'"), StoreDamaged, "is not what was written"),
        (lambda file: change(file, "DELETE FROM history"), StoreDamaged, "is damaged"),
        (
            lambda file: change(file, "PRAGMA user_version = 99"),
            StoreError,
            "has format 99; this program copies format",
        ),
    ],
    ids=["no database", "a changed object", "lost changes", "a format of the future"],
)
def test_what_could_not_be_restored_is_no_backup(
    tmp_path: Path, spoil: Callable[[Path], object], kind: type[StoreError], said: str
) -> None:
    data, file = tmp_path / "data", tmp_path / "copy.db"
    asyncio.run(filled(data, range(3)))
    spoil(data / "store.db")
    with pytest.raises(kind, match=said):
        backup(data, file)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_place_where_nothing_can_be_written_is_named(tmp_path: Path) -> None:
    data = tmp_path / "data"
    asyncio.run(filled(data, range(1)))
    with pytest.raises(StoreError, match=r"missing/copy\.db cannot be written: No such file or directory"):
        backup(data, tmp_path / "missing" / "copy.db")


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    asyncio.run(filled(data, range(1)))

    def full(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(StoreError, match=r"copy\.db cannot be written: No space left on device"):
        backup(data, tmp_path / "copy.db")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_restored_directory_can_be_copied_before_it_was_ever_started(tmp_path: Path) -> None:
    data, file, again = tmp_path / "data", tmp_path / "copy.db", tmp_path / "again.db"
    asyncio.run(filled(data, range(2)))
    backup(data, file)
    (tmp_path / "new").mkdir()
    file.rename(tmp_path / "new" / "store.db")
    assert backup(tmp_path / "new", again) == 2


def test_the_command_says_what_it_has_copied_or_why_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data, file = tmp_path / "data", tmp_path / "copy.db"
    asyncio.run(filled(data, range(2)))
    command(file, data=data)
    assert capsys.readouterr().out.endswith("as of resourceVersion 2\n")
    for path, directory, said in (
        (file, data, "is there already"),
        (tmp_path / "other.db", tmp_path / "empty", "is no data directory"),
    ):
        with pytest.raises(Failed, match=said):
            command(path, data=directory)
    with pytest.raises(Failed, match="is a directory"):
        command(tmp_path, data=data, force=True)
