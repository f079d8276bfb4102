"""The store: what is acknowledged is there, what is refused changed nothing, damage is told."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.local import store as stores
from edgewright.local.history import Expired, StoreKey
from edgewright.local.store import AlreadyThere, Changed, NotThere, Store, StoreBusy, StoreDamaged, StoreError
from edgewright.runtime.clock import VirtualClock


def key(name: str, namespace: str = "a") -> StoreKey:
    return StoreKey("pods", namespace, name)


async def opened(directory: Path, **settings: int) -> Store:
    return await Store.open(directory, clock=VirtualClock(), **settings)


def body(revision: int) -> bytes:
    return b'{"rv": %d}' % revision


async def test_one_refused_write_does_not_fail_the_others_of_its_group(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    first = await store.create(key("x"), body)

    def fail(revision: int) -> bytes:
        raise ValueError("no body")

    answers = await asyncio.gather(
        store.create(key("y"), body),
        store.create(key("x"), body),
        store.update(key("x"), first.revision, body),
        store.update(key("x"), first.revision, body),
        store.create(key("w"), fail),
        store.delete(key("z")),
        store.delete(key("y")),
        return_exceptions=True,
    )
    kinds = [type(each) for each in answers if isinstance(each, Exception)]
    assert kinds == [AlreadyThere, Changed, ValueError, NotThere]
    assert store.revision == 4
    assert [(each.key.name, each.revision, each.body) for each in store.list("pods").items] == [("x", 3, b'{"rv": 3}')]
    await store.close()


async def test_who_is_refused_because_of_a_write_can_read_what_it_wrote(tmp_path: Path) -> None:
    """Both are in one group: the refusal must not come before the write that it is about is there."""
    store = await opened(tmp_path)

    async def second() -> object:
        try:
            await store.create(key("x"), body)
        except AlreadyThere:
            return store.get(key("x"))
        return "made twice"

    made, seen = await asyncio.gather(store.create(key("x"), body), second())
    assert seen == made
    await store.close()


async def test_who_is_refused_because_of_a_write_that_fails_hears_of_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await opened(tmp_path)

    def full(*_: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(store._database, "commit", full)
    answers = await asyncio.gather(store.create(key("x"), body), store.create(key("x"), body), return_exceptions=True)
    assert [str(each) for each in answers] == ["the disk is full"] * 2
    await store.close()


async def test_pages_of_an_older_revision_are_consistent_until_compacted(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    for name in "dbca":
        await store.create(key(name), body)
    await store.create(key("a", "b"), body)
    page = store.list("pods", "a", limit=2)
    assert ([each.key.name for each in page.items], page.remaining) == (["a", "b"], 2)
    await store.delete(key("c"))
    await store.update(key("d"), 1, body)
    await store.create(key("e"), body)
    rest = await store.list_at(page.revision, "pods", "a", after=page.items[-1].key)
    assert [(each.key.name, each.revision) for each in rest.items] == [("c", 3), ("d", 1)]
    await store.compact(6)
    with pytest.raises(Expired):
        await store.list_at(page.revision, "pods", "a", after=None)
    await store.close()


async def test_the_history_is_bounded_and_the_revision_survives(tmp_path: Path) -> None:
    store = await opened(tmp_path, keep_changes=10, keep_seconds=60)
    for number in range(50):
        await store.create(key(str(number)), body)
    assert 50 - store.history.compacted <= 20
    await store.compact(50)
    await store.close()
    store = await opened(tmp_path)
    assert store.revision == 50
    await store.close()


async def test_the_log_is_copied_into_the_database_and_does_not_grow_while_writes_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "_LOG_BYTES", 100_000)
    monkeypatch.setattr(stores, "_LOG_PAGES", 40)
    store = await opened(tmp_path)
    for name in range(200):
        await store.create(key(str(name)), lambda revision: b" " * 1000)
    assert (tmp_path / "store.db-wal").stat().st_size < 1_000_000  # of three that would be there otherwise
    await store.close()
    again = await opened(tmp_path)
    assert len(again.list("pods").items) == 200
    await again.close()


async def test_a_checkpoint_that_fails_is_tried_again_and_fails_no_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stores, "_LOG_BYTES", 1)
    store = await opened(tmp_path)
    calls = 0

    def full(**_: bool) -> int:
        nonlocal calls
        calls += 1
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    monkeypatch.setattr(store._database, "checkpoint", full)
    for name in "abcdef":
        await store.create(key(name), body)
    await store.close()
    assert calls > 1


async def test_trim_forgets_what_is_old(tmp_path: Path) -> None:
    clock = VirtualClock()
    store = await Store.open(tmp_path, clock=clock, keep_seconds=60)
    await store.create(key("x"), body)
    await clock.advance(61)
    await store.create(key("y"), body)
    await store.trim()
    assert store.history.compacted == 1
    await store.close()


async def test_a_second_opening_of_the_directory_is_refused(tmp_path: Path) -> None:
    store = await opened(tmp_path / "data")
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    with pytest.raises(StoreBusy, match="in use by another process"):
        await opened(tmp_path / "data")
    await store.close()
    with pytest.raises(StoreError, match="closed"):
        await store.create(key("x"), body)


async def test_a_full_disk_is_an_error_and_nothing_is_acknowledged(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.create(key("x"), body)
    pages = store._database.connections[0].execute("PRAGMA page_count").fetchone()[0]
    store._database.connections[0].execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(StoreError, match="full"):
        await store.create(key("y"), lambda revision: b"y" * 100_000)
    assert (store.revision, store.get(key("y"))) == (1, None)
    store._database.connections[0].execute("PRAGMA max_page_count=100000")
    assert (await store.create(key("y"), body)).revision == 2
    await store.close()


async def test_a_backup_is_consistent_and_opens(tmp_path: Path) -> None:
    store = await opened(tmp_path / "data")
    await store.create(key("x"), body)
    (tmp_path / "copy").mkdir()
    await store.backup(tmp_path / "copy" / "store.db")
    await store.create(key("y"), body)
    with pytest.raises(StoreError, match="missing"):
        await store.backup(tmp_path / "missing" / "store.db")
    await store.close()
    copy = await opened(tmp_path / "copy")
    assert [each.key.name for each in copy.list("pods").items] == ["x"]
    await copy.close()


def scribble(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content.replace(b'{"rv": 7}', b'{"rv": 8}'))


def overwrite_a_page(file: Path) -> None:
    with file.open("r+b") as content:
        content.seek(2 * 4096)
        content.write(b"\xff" * 4096)


def lose_the_end(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("DELETE FROM history WHERE revision > 5")
        connection.execute("DELETE FROM objects WHERE revision > 5")
    connection.close()


@pytest.mark.parametrize(
    "harm",
    [
        scribble,
        overwrite_a_page,
        lose_the_end,
        lambda file: file.write_bytes(b"no database" * 1000),
        lambda file: file.write_bytes(b""),
    ],
    ids=["a body", "a page", "acknowledged writes lost", "another file", "an empty file"],
)
async def test_damage_is_told_with_the_name_of_the_file(tmp_path: Path, harm: object) -> None:
    store = await opened(tmp_path)
    for number in range(9):
        await store.create(key(str(number)), body)
    await store.close()
    assert callable(harm)
    harm(tmp_path / "store.db")
    with pytest.raises(StoreDamaged, match=r"store\.db"):
        await opened(tmp_path)


async def test_a_log_that_was_cut_off_is_told(tmp_path: Path) -> None:
    store = await opened(tmp_path / "data")
    for number in range(9):
        await store.create(key(str(number)), body)
    shutil.copytree(tmp_path / "data", tmp_path / "whole")  # as kill -9 leaves it
    shutil.copytree(tmp_path / "data", tmp_path / "cut")
    await store.close()
    log = tmp_path / "cut" / "store.db-wal"
    os.truncate(log, log.stat().st_size - 5000)
    with pytest.raises(StoreDamaged, match="9 was acknowledged"):
        await opened(tmp_path / "cut")
    whole = await opened(tmp_path / "whole")
    assert len(whole.list("pods").items) == 9
    await whole.close()


async def test_a_read_only_file_is_an_error_and_reads_go_on(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    stored = await store.create(key("x"), body)
    store._database.connections[0].execute("PRAGMA query_only=1")
    with pytest.raises(StoreError, match=r"store\.db cannot be .* written: attempt to write a readonly database"):
        await store.delete(key("x"))
    assert store.get(key("x")) == stored
    await store.close()


async def test_a_change_that_is_not_what_was_written_is_never_given_out(tmp_path: Path) -> None:
    store = await opened(tmp_path)
    await store.create(key("x"), body)
    store._database.connections[0].execute("UPDATE history SET type='DELETED'")
    with pytest.raises(StoreDamaged, match="change 1"):
        await store.changes(None, None, 0, 1, -1)
    await store.close()


async def test_a_file_of_a_later_format_is_refused(tmp_path: Path) -> None:
    await (await opened(tmp_path)).close()
    connection = sqlite3.connect(tmp_path / "store.db")
    connection.execute("PRAGMA user_version=99")
    connection.close()
    with pytest.raises(StoreError, match="format 99"):
        await opened(tmp_path)


STEPS = st.lists(st.tuples(st.sampled_from(["create", "update", "delete", "reopen"]), st.sampled_from("xyz")))


@given(STEPS)
def test_the_store_does_what_a_dict_does(steps: list[tuple[str, str]]) -> None:
    async def run(directory: Path) -> None:
        store, model, revision = await opened(directory), dict[str, int](), 0
        for verb, name in steps:
            if verb == "reopen":
                await store.close()
                store = await opened(directory)
            elif (verb == "create") == (name in model):
                with pytest.raises((AlreadyThere, NotThere)):
                    await (store.create(key(name), body) if verb == "create" else store.update(key(name), 0, body))
            else:
                revision += 1
                if verb == "create":
                    await store.create(key(name), body)
                elif verb == "update":
                    await store.update(key(name), model[name], body)
                else:
                    await store.delete(key(name), model[name])
                model.pop(name, None)
                if verb != "delete":
                    model[name] = revision
            assert store.revision == revision
            assert {each.key.name: each.revision for each in store.list("pods").items} == model
        await store.close()

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(run(Path(directory)))
