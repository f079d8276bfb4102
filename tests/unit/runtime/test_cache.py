"""The cache: what it holds, who hears of it, and how several namespaces and unread objects are kept apart."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from edgewright.runtime.backoff import Backoff
from edgewright.runtime.cache import Cache, Change
from edgewright.runtime.client import Client, Unread
from edgewright.runtime.clock import VirtualClock
from edgewright.runtime.config import Config
from tests.unit.runtime.fakeserver import (
    PATH,
    FakeServer,
    Json,
    Watch,
    Widget,
    fake_server,
    key,
    path_of,
    refusal,
    running,
    streamed,
    typed,
    until,
    widget,
)


def empty(*namespaces: str) -> Cache[Widget]:
    api = Client(Config(server="http://127.0.0.1:1")).of(Widget)
    return Cache(api, namespaces=namespaces or ("",), clock=VirtualClock())


class Ear:
    """A subscriber that notes changes as (old version, new version, initial)."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, str | None, str | None, bool]] = []

    def __call__(self, change: Change[Widget]) -> None:
        old = change.old.metadata.resource_version if change.old else None
        new = change.new.metadata.resource_version if change.new else None
        self.heard.append((change.latest.metadata.name, old, new, change.initial))


@asynccontextmanager
async def following(server: FakeServer, *namespaces: str) -> AsyncIterator[Cache[Widget]]:
    async with Client(server.config) as client:
        cache = Cache(client.of(Widget), namespaces=namespaces or ("",), backoff=lambda: Backoff(base=0.001, cap=0.002))
        async with running(cache.run()):
            yield cache


def test_a_subscriber_hears_what_is_there_and_then_what_changes() -> None:
    cache, ear = empty(), Ear()
    cache.put(typed(widget("a", 1)))
    cache.subscribe(ear)
    cache.keep_only("", {key("a")})
    cache.put(typed(widget("a", 2)))
    cache.put(typed(widget("a", 2)))
    cache.put(typed(widget("b", 3)))
    cache.drop(key("a"))
    cache.drop(key("a"))
    assert ear.heard == [
        ("a", None, "1", True),
        ("a", "1", "2", False),
        ("b", None, "3", False),
        ("a", "2", None, False),
    ]


def test_a_subscriber_that_fails_does_not_cost_the_others_their_change(caplog: pytest.LogCaptureFixture) -> None:
    def fails(_: Change[Widget]) -> None:
        raise RuntimeError("mine")

    cache, ear = empty(), Ear()
    cache.put(typed(widget("a", 1)))
    cache.subscribe(fails)
    cache.subscribe(ear)
    cache.put(typed(widget("b", 2)))
    assert [name for name, *_ in ear.heard] == ["a", "b"]
    assert [record.getMessage() for record in caplog.records] == ["cache subscriber failed"] * 2


def test_an_object_that_was_made_again_is_a_deletion_and_an_addition() -> None:
    cache, ear = empty(), Ear()
    cache.add_index("size", lambda obj: [obj.spec.size])
    cache.subscribe(ear)
    cache.put(typed(widget("a", 1, uid="first", size=1)))
    cache.put(typed(widget("a", 5, uid="second", size=2)))
    assert ear.heard == [("a", None, "1", True), ("a", "1", None, False), ("a", None, "5", True)]
    assert cache.by("size", 1) == []
    assert [obj.metadata.uid for obj in cache.by("size", 2)] == ["second"]


def test_an_index_follows_the_objects() -> None:
    cache = empty()
    cache.put(typed(widget("a", 1, size=1)))
    cache.add_index("size", lambda obj: [obj.spec.size])
    cache.put(typed(widget("b", 2, size=1)))
    assert [obj.metadata.name for obj in cache.by("size", 1)] == ["a", "b"]
    assert cache.keys("size", 1) == [key("a"), key("b")]
    assert cache.keys("size", 2) == []
    cache.put(typed(widget("a", 3, size=2)))
    assert [obj.metadata.name for obj in cache.by("size", 1)] == ["b"]
    assert [obj.metadata.name for obj in cache.by("size", 2)] == ["a"]
    cache.drop(key("b"))
    assert cache.by("size", 1) == []
    with pytest.raises(ValueError, match="has an index 'size' already"):
        cache.add_index("size", lambda _: [])
    with pytest.raises(KeyError):
        cache.by("colour", "red")


def test_an_index_function_that_fails_for_an_object_leaves_it_out(caplog: pytest.LogCaptureFixture) -> None:
    cache = empty()
    cache.add_index("inverse", lambda obj: [12 // obj.spec.size])
    cache.put(typed(widget("odd", 1, size=0)))
    cache.put(typed(widget("fine", 2, size=3)))
    assert [obj.metadata.name for obj in cache.by("inverse", 4)] == ["fine"]
    assert len(cache) == 2
    cache.put(typed(widget("odd", 3, size=4)))
    assert [obj.metadata.name for obj in cache.by("inverse", 3)] == ["odd"]
    assert {record.getMessage() for record in caplog.records} == {"index function failed"}


def test_walking_the_cache_is_not_disturbed_by_changes() -> None:
    cache = empty()
    for name in "abc":
        cache.put(typed(widget(name, 1)))
    seen = []
    for obj in cache:
        cache.drop(obj.key)
        seen.append(obj.metadata.name)
    assert seen == ["a", "b", "c"]
    assert len(cache) == 0


def test_a_list_of_one_namespace_says_nothing_about_another() -> None:
    cache = empty("one", "two")
    cache.put(typed(widget("a", 1, namespace="one")))
    cache.put(typed(widget("b", 1, namespace="two")))
    cache.put_unread(Unread(key("c", "two"), "1", "bad"))
    cache.keep_only("one", set())
    assert [str(obj.key) for obj in cache] == ["two/b"]
    assert [str(each.key) for each in cache.unread] == ["two/c"]
    before = cache.synced
    cache.keep_only("two", {key("b", "two")})
    assert (before, cache.synced) == (False, True)
    assert not cache.unread
    assert cache.relists == 0
    cache.keep_only("two", set())
    assert len(cache) == 0
    assert cache.relists == 1


def test_the_problem_is_that_of_any_namespace_until_all_are_well() -> None:
    cache = empty("one", "two")
    assert cache.problem == "widgets.example.dev: has not been listed yet"
    cache.report("one", None)
    cache.report("two", "may not")
    assert cache.problem == "widgets.example.dev: may not"
    cache.report("two", None)
    cache.report("two", None)
    assert cache.problem is None


def test_an_object_that_cannot_be_read_is_reported_once_a_version_and_keeps_its_last_state(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cache = empty()
    cache.put(typed(widget("a", 1)))
    for version in ("2", "2", "3"):
        cache.put_unread(Unread(key("a"), version, "bad"))
    assert len(caplog.records) == 2
    assert [each.resource_version for each in cache.unread] == ["3"]
    kept = cache.get(key("a"))
    assert kept is not None
    assert kept.metadata.resource_version == "1"
    cache.put(typed(widget("a", 4)))
    assert not cache.unread
    cache.put_unread(Unread(key("a"), "5", "bad"))
    cache.drop(key("a"))
    assert not cache.unread
    assert cache.get(key("a")) is None


async def test_fetch_asks_the_server_and_leaves_the_copy_as_it_is() -> None:
    async with fake_server() as server, Client(server.config) as client:
        server.on(f"GET {path_of('a')}", Json(widget("a", 9)), refusal(404, "NotFound"))
        cache = Cache(client.of(Widget))
        fetched = await cache.fetch(key("a"))
        assert fetched is not None
        assert fetched.metadata.resource_version == "9"
        assert await cache.fetch(key("a")) is None
        assert cache.get(key("a")) is None
        assert cache.kind is Widget.kind


async def test_several_namespaces_are_followed_each_by_itself() -> None:
    async with fake_server() as server:
        for namespace in ("one", "two"):
            server.on(
                f"WATCH {Widget.kind.path(namespace)}",
                Watch(streamed(widget("x", 1, namespace=namespace), version=5)),
            )
        async with following(server, "one", "two") as cache:
            await cache.wait_synced()
            assert sorted(str(obj.key) for obj in cache) == ["one/x", "two/x"]
            assert cache.problem is None


async def test_a_namespace_that_may_not_be_read_keeps_the_cache_from_being_synced() -> None:
    async with fake_server() as server:
        server.on(f"WATCH {Widget.kind.path('one')}", Watch(streamed(version=5)))
        server.on(f"WATCH {Widget.kind.path('two')}", refusal(403, "Forbidden", "not in two"))
        async with following(server, "one", "two") as cache:
            await until(lambda: "not in two" in (cache.problem or ""))
            assert not cache.synced


async def test_a_selector_goes_with_every_request() -> None:
    async with fake_server() as server, Client(server.config) as client:
        server.on(f"WATCH {PATH}", Watch(streamed(version=1)))
        cache = Cache(client.of(Widget), labels="a=b", fields="metadata.name=x")
        async with running(cache.run()):
            await cache.wait_synced()
        (asked,) = server.watches()
        assert (asked.query["labelSelector"], asked.query["fieldSelector"]) == ("a=b", "metadata.name=x")
