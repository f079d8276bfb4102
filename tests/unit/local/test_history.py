"""Watching the store: in order, without a hole, from any revision that is kept."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from edgewright.local import history
from edgewright.local.history import ChangeType, Expired, StoreKey, Subscription, TooSlow
from edgewright.local.store import Store
from edgewright.runtime.clock import VirtualClock, settle


def key(name: str, resource: str = "pods", namespace: str = "a") -> StoreKey:
    return StoreKey(resource, namespace, name)


async def take(subscription: Subscription, count: int) -> list[int]:
    """The revisions of the next so many changes."""
    taken: list[int] = []
    while len(taken) < count:
        taken += [change.revision for change in await anext(subscription)]
    return taken


async def test_a_watch_resumes_after_a_restart_and_goes_on_live(tmp_path: Path) -> None:
    store = await Store.open(tmp_path, clock=VirtualClock())
    for number in range(1200):
        await store.create(key(str(number)), lambda revision: b"{}")
    await store.close()
    store = await Store.open(tmp_path, clock=VirtualClock())
    with store.history.subscribe("pods", None, 3) as watch:
        await store.create(key("live"), lambda revision: b"{}")
        assert await take(watch, 1198) == list(range(4, 1202))
        assert watch.revision == 1201
    await store.close()


async def test_a_watch_sees_its_resource_and_namespace_only_with_both_sides_of_a_change(tmp_path: Path) -> None:
    store = await Store.open(tmp_path, clock=VirtualClock())
    with store.history.subscribe("pods", "a", 0) as watch:
        await store.create(key("x", "services"), lambda revision: b"0")
        await store.create(key("x", namespace="b"), lambda revision: b"0")
        await store.create(key("x"), lambda revision: b"1")
        await store.update(key("x"), 3, lambda revision: b"2")
        await store.delete(key("x"), 4, lambda revision: b"3")
        live = await anext(watch)
    seen = [(each.type, each.stored.body, each.previous and each.previous.body) for each in live]
    assert seen == [(ChangeType.ADDED, b"1", None), (ChangeType.MODIFIED, b"2", b"1"), (ChangeType.DELETED, b"3", b"2")]
    assert live == list(await store.changes("pods", "a", 0, 5, -1))
    await store.close()


async def test_a_watch_from_before_a_compaction_is_expired(tmp_path: Path) -> None:
    store = await Store.open(tmp_path, clock=VirtualClock())
    for name in "xyz":
        await store.create(key(name), lambda revision: b"{}")
    early = store.history.subscribe("pods", None, 1)
    await store.compact(2)
    with pytest.raises(Expired):
        store.history.subscribe("pods", None, 1)
    with pytest.raises(Expired):
        await anext(early)
    assert await take(store.history.subscribe("pods", None, 2), 1) == [3]
    await store.close()
    assert [each async for each in early] == []


async def test_a_slow_watch_is_cut(tmp_path: Path) -> None:
    store = await Store.open(tmp_path, clock=VirtualClock())
    watch = store.history.subscribe("pods", None, 0, backlog=2)
    for name in "xyz":
        await store.create(key(name), lambda revision: b"{}")
    with pytest.raises(TooSlow):
        await anext(watch)
    await store.close()


async def test_a_watch_for_which_too_many_bytes_wait_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "_LARGEST_BACKLOG", 1000)
    store = await Store.open(tmp_path, clock=VirtualClock())
    slow, keeping_up = (store.history.subscribe("pods", None, 0) for _ in range(2))
    for name in "xyz":
        await store.create(key(name), lambda revision: b" " * 400)
        assert len(await anext(keeping_up)) == 1
    with pytest.raises(TooSlow):
        await anext(slow)
    await store.close()


async def test_a_watch_that_is_to_finish_delivers_what_waits_and_ends(tmp_path: Path) -> None:
    store = await Store.open(tmp_path, clock=VirtualClock())
    watch = store.history.subscribe("pods", None, 0)
    await store.create(key("x"), lambda revision: b"{}")
    watch.finish()
    assert [[each.revision for each in changes] async for changes in watch] == [[1]]
    await store.close()


async def test_a_waiting_watch_is_woken_by_a_write_and_ended_by_closing(tmp_path: Path) -> None:
    store = await Store.open(tmp_path, clock=VirtualClock())
    watch = store.history.subscribe("pods", None, 0)
    waiting = asyncio.create_task(take(watch, 1))
    await settle()
    assert not waiting.done()
    await store.create(key("x"), lambda revision: b"{}")
    assert await waiting == [1]
    ending = asyncio.ensure_future(anext(watch, []))
    await settle()
    await store.close()
    assert await ending == []
