"""The cache and its reflector on both API servers, behind a network that misbehaves; the server itself stays well."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from edgewright.runtime import Cache, Client, Key, ObjectMeta, http, transport
from edgewright.runtime.backoff import Backoff
from tests.cluster.kinds import Loose, Widget, WidgetSpec, install, widget
from tests.cluster.support import Seen, connected, eventually, following, in_parallel
from tests.harness import ApiServer, ControlPlane, Proxy


@pytest.fixture
def proxy(api_server: ApiServer) -> Iterator[Proxy]:
    with api_server.proxy() as made:
        yield made


@asynccontextmanager
async def through(proxy: Proxy, api_server: ApiServer) -> AsyncIterator[tuple[Client, Client]]:
    """A client next to the proxy, for the test's own writes, and one through it, for what is tested."""
    kubeconfig = api_server.kubeconfig_for("admin", ["system:masters"], server=proxy.url)
    async with connected(api_server) as direct, connected(kubeconfig) as client:
        await install(direct, Widget, Loose)
        yield direct, client


def same(cache: Cache[Widget], items: list[Widget]) -> bool:
    return {each.key: each for each in cache} == {each.key: each for each in items}


# What a cache shows


async def test_a_cache_follows_what_is_created_changed_and_deleted(api_server: ApiServer, namespace: str) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        api = client.of(Widget)
        before = await api.create(widget(namespace, "before"))
        cache = Cache(api, namespaces=[namespace])
        cache.add_index("text", lambda each: [each.spec.text])
        seen = Seen(cache)
        async with following(cache):
            assert list(cache) == [before]
            assert [change.initial for change in seen.changes] == [True]
            made = await api.create(widget(namespace, "one", text="a"))
            await eventually(lambda: cache.get(made.key) == made, what="the new object is there")
            assert cache.by("text", "a") == [made]
            changed = await api.patch(made.key, {"spec": {"text": "b"}})
            await eventually(lambda: cache.get(made.key) == changed, what="its change is there")
            assert (cache.by("text", "a"), cache.by("text", "b")) == ([], [changed])
            await api.delete(made.key)
            await eventually(lambda: cache.get(made.key) is None, what="it is gone")
            assert cache.by("text", "b") == []
            assert not any(change.initial for change in seen.changes[1:])
            assert [(c.old, c.new) for c in seen.changes[1:]] == [(None, made), (made, changed), (changed, None)]
            assert cache.relists == 0
            assert await cache.fetch(before.key) == before
            assert await cache.fetch(made.key) is None


async def test_a_cache_holds_what_its_selector_says_and_lets_go_of_what_leaves_it(
    api_server: ApiServer, namespace: str
) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        api = client.of(Widget)
        await api.create(widget(namespace, "other", labels={"colour": "blue"}))
        red = await api.create(widget(namespace, "one", labels={"colour": "red"}))
        cache = Cache(api, namespaces=[namespace], labels="colour=red")
        seen = Seen(cache)
        async with following(cache):
            assert list(cache) == [red]
            await api.patch(red.key, {"metadata": {"labels": {"colour": "blue"}}})
            await eventually(lambda: not len(cache), what="the object that is not red any more has left")
            await api.patch(red.key, {"metadata": {"labels": {"colour": "red"}}})
            await eventually(lambda: len(cache), what="it has come back")
            assert seen.deleted[red.key] == 1
            assert seen.added[red.key] == 2


async def test_a_cache_of_some_namespaces_sees_only_those(api_server: ApiServer, namespace: str) -> None:
    others = [await asyncio.to_thread(api_server.create_namespace, "other") for _ in range(2)]
    async with connected(api_server) as client:
        await install(client, Widget)
        api = client.of(Widget)
        made = [await api.create(widget(each, "one")) for each in (namespace, *others)]
        cache = Cache(api, namespaces=[namespace, others[0]])
        async with following(cache):
            assert {each.key for each in cache} == {each.key for each in made[:2]}
            await api.create(widget(others[1], "two"))
            last = await api.create(widget(others[0], "two"))
            await eventually(lambda: cache.get(last.key), what="the last object is there")
            assert {each.metadata.namespace for each in cache} == {namespace, others[0]}


async def test_the_fields_that_nobody_uses_are_not_kept(api_server: ApiServer, namespace: str) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        made = await client.of(Widget).apply(widget(namespace, "one", count=1))
        assert "managedFields" in (await client.raw(Widget.kind).get(made.key))["metadata"]
        cache = Cache(client.of(Widget), namespaces=[namespace])
        async with following(cache):
            kept = cache.get(made.key)
            assert kept is not None
            assert "managedFields" not in kept.to_raw()["metadata"]
            with pytest.raises(AttributeError):
                kept.metadata.name = "another"  # type: ignore[misc] # that it cannot is what is tested


# Lists


async def test_a_streamed_and_a_paged_list_bring_the_same_two_thousand_objects(
    api_server: ApiServer, namespace: str
) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        api = client.of(Widget)
        await in_parallel(api.create(widget(namespace, f"w{index:04}", count=index)) for index in range(2000))
        streamed, paged = (Cache(api, namespaces=[namespace]) for _ in range(2))
        paged._reflectors[0]._streams_lists = False
        methods: list[str] = []
        client.transport.on_answer = lambda method, code: methods.append(f"{method} {code}")
        async with following(streamed):
            assert methods == ["WATCH 200"]
            methods.clear()
            async with following(paged):
                await eventually(lambda: "WATCH 200" in methods, what="the watch that follows the list stands")
                assert methods == ["GET 200"] * 4 + ["WATCH 200"]
                fresh = (await api.list(namespace)).items
                assert len(fresh) == 2000
                assert same(streamed, fresh)
                assert same(paged, fresh)
                last = await api.create(widget(namespace, "last"))
                await eventually(lambda: streamed.get(last.key) == paged.get(last.key) == last, what="both watch on")


async def test_a_paged_list_while_others_write_ends_with_what_is_true(api_server: ApiServer, namespace: str) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        api = client.of(Widget)
        await in_parallel(api.create(widget(namespace, f"w{index:04}")) for index in range(1200))

        async def write() -> None:
            for index in range(150):
                await api.patch(Key(namespace, f"w{index * 7:04}"), {"spec": {"count": 1}})
                await api.delete(Key(namespace, f"w{index * 7 + 1:04}"))
                await api.create(widget(namespace, f"x{index:04}"))

        cache = Cache(api, namespaces=[namespace])
        cache._reflectors[0]._streams_lists = False
        writing = asyncio.create_task(write())
        async with following(cache):
            await writing
            fresh = (await api.list(namespace)).items
            await eventually(lambda: same(cache, fresh), what="the cache is what a fresh list says")
            assert len(fresh) == 1200


@pytest.mark.parametrize(
    "own_cluster", [{"api_flags": ["--feature-gates=WatchList=false"]}], indirect=True, ids=["without streamed lists"]
)
async def test_a_server_that_does_not_stream_lists_is_asked_for_pages(own_cluster: ControlPlane) -> None:
    async with connected(own_cluster) as client:
        await install(client, Widget)
        api = client.of(Widget)
        made = [await api.create(widget("default", f"w{index}")) for index in range(3)]
        codes: list[str] = []
        client.transport.on_answer = lambda method, code: codes.append(f"{method} {code}")
        cache = Cache(api, namespaces=["default"])
        async with following(cache):
            await eventually(lambda: codes.count("WATCH 200"), what="the watch stands")
            assert codes == ["WATCH 422", "GET 200", "WATCH 200"]
            assert list(cache) == made
            assert cache.problem is None
            last = await api.create(widget("default", "last"))
            await eventually(lambda: cache.get(last.key) == last, what="it watches on")


# Objects that cannot be read


def loose(namespace: str, name: str, count: object) -> dict[str, object]:
    return {
        "apiVersion": Loose.kind.api_version,
        "kind": "Loose",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"count": count},
    }


@pytest.mark.parametrize("streams", [True, False], ids=["streamed list", "paged list"])
async def test_an_object_that_does_not_decode_is_reported_once_and_the_rest_goes_on(
    api_server: ApiServer, namespace: str, streams: bool, caplog: pytest.LogCaptureFixture
) -> None:
    def reports() -> list[logging.LogRecord]:
        return [each for each in caplog.records if "cannot be decoded" in each.getMessage()]

    async with connected(api_server) as client:
        await install(client, Loose)
        api, raw = client.of(Loose), client.raw(Loose.kind)
        await raw.create(loose(namespace, "good", 1))
        await raw.create(loose(namespace, "bad", "three"))
        cache = Cache(api, namespaces=[namespace])
        cache._reflectors[0]._streams_lists = streams
        seen = Seen(cache)
        async with following(cache):
            # In the list.
            assert [each.metadata.name for each in cache] == ["good"]
            assert [(each.key.name, "spec.count" in each.problem) for each in cache.unread] == [("bad", True)]
            assert len(reports()) == 1
            assert cache.problem is None
            # In the watch: one that is new, and one that was good before, whose last good state is kept.
            await raw.create(loose(namespace, "worse", ["three"]))
            await raw.patch(Key(namespace, "good"), {"spec": {"count": "one"}})
            await eventually(lambda: len(cache.unread) == 3, what="all three are known to be unreadable")
            assert len(reports()) == 3
            kept = cache.get(Key(namespace, "good"))
            assert kept is not None
            assert kept.spec.count == 1
            # The rest goes on, on the same watch.
            last = await api.create(Loose(metadata=ObjectMeta(name="last", namespace=namespace)))
            await eventually(lambda: cache.get(last.key), what="what comes after is seen")
            assert cache.relists == 0
            # Repaired, they are objects as others; deleted, they are gone.
            await raw.patch(Key(namespace, "bad"), {"spec": {"count": 3}})
            await raw.patch(Key(namespace, "good"), {"spec": {"count": 2}})
            await raw.delete(Key(namespace, "worse"))
            await eventually(lambda: not cache.unread, what="nothing is unreadable any more")
            repaired = cache.get(Key(namespace, "bad"))
            assert repaired is not None
            assert repaired.spec == WidgetSpec(count=3)
            assert seen.added == dict.fromkeys([Key(namespace, name) for name in ("good", "last", "bad")], 1)
            assert len(reports()) == 3


async def test_an_object_that_does_not_decode_is_reported_once_however_often_it_is_listed(
    api_server: ApiServer, namespace: str, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    async with through(proxy, api_server) as (direct, client):
        await direct.raw(Loose.kind).create(loose(namespace, "bad", "three"))
        cache = Cache(client.of(Loose), namespaces=[namespace])
        async with following(cache):
            for _ in range(2):
                times = cache.relists
                cache._reflectors[0]._version = ""  # as after a 410
                proxy.cut()
                await eventually(functools.partial(lambda before: cache.relists > before, times), what="a new list")
            assert cache.relists == 2
            assert len(cache.unread) == 1
        assert sum("cannot be decoded" in each.getMessage() for each in caplog.records) == 1


# A network that misbehaves


async def test_a_connection_that_is_cut_is_resumed_where_it_was(
    api_server: ApiServer, namespace: str, proxy: Proxy
) -> None:
    async with through(proxy, api_server) as (direct, client):
        api = direct.of(Widget)
        cache = Cache(client.of(Widget), namespaces=[namespace])
        seen = Seen(cache)
        async with following(cache):
            doomed = await api.create(widget(namespace, "doomed"))
            await eventually(lambda: cache.get(doomed.key), what="the first object is there")
            proxy.refuse()
            proxy.cut()
            await api.delete(doomed.key)
            made = await api.create(widget(namespace, "one"))
            changed = await api.patch(made.key, {"spec": {"count": 1}})
            await eventually(lambda: cache.problem, what="it is known that watch failed")
            proxy.accept()
            await eventually(lambda: cache.get(made.key) == changed, what="what happened meanwhile is there")
            assert seen.deleted == {doomed.key: 1}
            assert seen.versions(made.key) == [made.metadata.resource_version, changed.metadata.resource_version]
            assert cache.relists == 0
            assert cache.problem is None


@pytest.mark.parametrize("size", [1, 300, 1000, 5000], ids="after {} bytes".format)
async def test_a_line_that_is_cut_in_the_middle_is_neither_lost_nor_doubled(
    api_server: ApiServer, namespace: str, proxy: Proxy, size: int
) -> None:
    async with through(proxy, api_server) as (direct, client):
        api = direct.of(Widget)
        cache = Cache(client.of(Widget), namespaces=[namespace])
        seen = Seen(cache)
        async with following(cache):
            connections = proxy.count
            proxy.cut_after(size)
            made = [await api.create(widget(namespace, f"w{index}", text="x" * 300)) for index in range(20)]
            await api.delete(made[0].key)
            await eventually(lambda: cache.get(made[-1].key) and not cache.get(made[0].key), what="all have come")
            assert proxy.count > connections, "nothing was cut"
            assert same(cache, made[1:])
            assert seen.added == {each.key: 1 for each in made}
            assert seen.deleted == {made[0].key: 1}
            assert cache.relists == 0


async def test_a_list_that_is_cut_in_the_middle_is_asked_for_again(
    api_server: ApiServer, namespace: str, proxy: Proxy
) -> None:
    async with through(proxy, api_server) as (direct, client):
        api = direct.of(Widget)
        made = await in_parallel(api.create(widget(namespace, f"w{index:02}", text="x" * 1000)) for index in range(60))
        proxy.cut_new_after(30_000)
        cache = Cache(client.of(Widget), namespaces=[namespace])
        seen = Seen(cache)
        async with following(cache, synced=False):
            await eventually(lambda: len(cache), what="a part has come")
            await eventually(lambda: proxy.count >= 2, what="it was tried again")
            assert not cache.synced
            proxy.cut_new_after(None)
            await eventually(lambda: cache.synced, what="the list is whole")
            assert same(cache, made)
            assert seen.added == {each.key: 1 for each in made}
            assert not seen.deleted


async def test_a_slow_watch_catches_up(api_server: ApiServer, namespace: str, proxy: Proxy) -> None:
    async with through(proxy, api_server) as (direct, client):
        api = direct.of(Widget)
        cache = Cache(client.of(Widget), namespaces=[namespace])
        seen = Seen(cache)
        async with following(cache):
            proxy.slow(30_000)
            made = await in_parallel(
                api.create(widget(namespace, f"w{index:02}", text="x" * 1000)) for index in range(60)
            )
            await eventually(lambda: 0 < len(cache) < 40, what="the cache is behind")
            proxy.slow(None)
            await eventually(lambda: same(cache, made), what="the cache has caught up")
            assert seen.added == {each.key: 1 for each in made}
            assert cache.relists == 0


async def test_a_connection_that_goes_silent_is_given_up_and_resumed(
    api_server: ApiServer, namespace: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "WATCH_IDLE_SECONDS", 0.5)
    monkeypatch.setattr(http, "CONNECT_SECONDS", 0.5)
    async with through(proxy, api_server) as (direct, client):
        api = direct.of(Widget)
        cache = Cache(client.of(Widget), namespaces=[namespace])
        async with following(cache):
            proxy.pause()
            made = await api.create(widget(namespace, "one"))
            await eventually(lambda: cache.problem, what="the silence is noticed")
            assert "no answer in time" in str(cache.problem)
            proxy.resume()
            await eventually(lambda: cache.get(made.key) == made, what="what happened meanwhile is there")
            await eventually(lambda: cache.problem is None, what="all is well again")
            assert cache.relists == 0


async def test_a_server_that_stays_away_is_asked_less_and_less_often(
    api_server: ApiServer, namespace: str, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    async with through(proxy, api_server) as (_, client):
        proxy.cut_new_after(0)
        cache = Cache(client.of(Widget), namespaces=[namespace], backoff=lambda: Backoff(base=0.05, cap=0.2, jitter=0))
        async with following(cache, synced=False):
            started = asyncio.get_running_loop().time()
            await eventually(lambda: proxy.count >= 10, what="it was tried ten times")
            # 0.05 + 0.1 + 7 times 0.2
            assert asyncio.get_running_loop().time() - started >= 1.5
            assert cache.problem is not None
            assert not cache.synced
        said = [each for each in caplog.records if each.name == "edgewright.runtime.reflector"]
        assert [each.getMessage() for each in said] == ["watch failed; retrying"]
        assert all(each.exc_info is None for each in said)
