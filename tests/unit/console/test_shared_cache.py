"""The shared cache: one watch for all who may see a kind, answers as without it, and never older than a write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgewright.api import Device, FlashJob
from edgewright.console import Settings
from edgewright.console.cached_stream import BATCH_SECONDS
from edgewright.console.shared_cache import IDLE_SECONDS
from edgewright.runtime.clock import VirtualClock
from edgewright.runtime.objects import Key
from tests.harness import wait_until_async
from tests.unit.console.consoles import (
    HERE,
    IN_DEFAULT,
    JOBS,
    PLENTY,
    WIDGETS,
    Application,
    Portal,
    consoles,
    in_front_of,
    job,
    widget,
)
from tests.unit.console.events import Event, events, until
from tests.unit.console.requests_seen import requests_seen
from tests.unit.controllers.flashjob.harness import our_kinds

PATH = FlashJob.kind.path("default")
ALL = FlashJob.kind.path()
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


async def made(portal: Portal, *names: str, **labels: str) -> None:
    """Makes FlashJobs at the API server itself, past the console."""
    for name in names:
        body = {"apiVersion": FlashJob.kind.api_version, "kind": "FlashJob", **job(name)}
        body["metadata"] = {"name": name, "labels": labels}
        await portal.api.made(PATH, body)


async def changed(portal: Portal, name: str, **labels: str) -> None:
    """Changes the labels of a FlashJob past the console."""
    done = await portal.api(
        "PATCH", f"{PATH}/{name}", {"metadata": {"labels": labels}}, media="application/merge-patch+json"
    )
    assert done.code == 200, done.body


async def test_what_comes_from_the_cache_is_what_comes_from_the_server(tmp_path: Path) -> None:
    async with consoles(tmp_path / "a", shared_cache=True) as portal:
        await made(portal, "b", "a", "c", site="here")
        direct = (await portal.api("GET", f"{PATH}/a")).body
        direct["metadata"].pop("managedFields")
        whole = (await portal.api("GET", f"{PATH}?limit=500")).body
        for each in whole["items"]:
            each["metadata"].pop("managedFields")
        await portal("GET", f"{JOBS}/a")
        with requests_seen() as seen:
            one = await portal("GET", f"{JOBS}/a")
            assert (one.status, one.body, one.headers["ETag"]) == (
                200,
                direct,
                f'"{direct["metadata"]["resourceVersion"]}"',
            )
            again = await portal("GET", f"{JOBS}/a", If_None_Match=one.headers["ETag"])
            assert (again.status, again.headers["ETag"]) == (304, one.headers["ETag"])
            listed = await portal("GET", JOBS)
            everywhere = await portal("GET", "/api/v1/flashjobs")
        assert {**listed.body, "metadata": None} == {**whole, "metadata": None}
        assert everywhere.body["items"] == whole["items"]
        assert set(listed.body["metadata"]) == set(whole["metadata"])
        assert set(seen) == {("POST", REVIEWS)}


@pytest.mark.parametrize(
    ("query", "names", "direct"),
    [
        ("labelSelector=site%3Da", ["one", "two"], False),
        ("labelSelector=site%20in%20(b),tier", ["three"], False),
        ("labelSelector=!site", [], False),
        ("limit=3", ["one", "three", "two"], False),
        ("limit=2", ["one", "three"], True),
        ("fieldSelector=metadata.name%3Dtwo", ["two"], True),
        ("namespace=default", ["one", "three", "two"], False),
        ("namespace=other", [], False),
    ],
)
async def test_a_list_is_chosen_as_the_server_chooses_it(
    tmp_path: Path, query: str, names: list[str], direct: bool
) -> None:
    async with consoles(tmp_path, shared_cache=True) as portal:
        await made(portal, "one", "two", site="a")
        await made(portal, "three", site="b", tier="x")
        await portal("GET", "/api/v1/flashjobs")
        with requests_seen() as seen:
            found = await portal("GET", f"/api/v1/flashjobs?{query}")
        assert [each["metadata"]["name"] for each in found.body["items"]] == names
        assert any(method == "GET" for method, _ in seen) is direct


async def test_pages_go_on_at_the_server(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True) as portal:
        await made(portal, "one", "two", "three")
        first = await portal("GET", f"{JOBS}?limit=2")
        token = first.body["metadata"]["continue"]
        rest = await portal("GET", f"{JOBS}?limit=2&continue={token}")
        names = [each["metadata"]["name"] for each in (*first.body["items"], *rest.body["items"])]
        assert names == ["one", "three", "two"]


async def test_what_the_server_refuses_is_refused_in_its_words(tmp_path: Path) -> None:
    async with consoles(tmp_path / "a", shared_cache=True) as cached, consoles(tmp_path / "b") as plain:
        await cached("GET", JOBS)
        for path in (f"{JOBS}?labelSelector=a%3D%3D%3Db", f"{JOBS}/none", "/api/v1/namespaces/UPPER/flashjobs"):
            ours, theirs = await cached("GET", path), await plain("GET", path)
            assert (ours.status, ours.body) == (theirs.status, theirs.body)
        for path in (JOBS, f"{JOBS}/a", "/api/v1/stream?of=flashjobs"):
            answer = await cached("GET", path, token="wrong")
            assert (answer.status, answer.body["detail"]) == (401, "the API server does not know the token")


async def test_a_foreign_kind_is_read_as_its_caller(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True) as portal:
        await portal("PUT", f"{IN_DEFAULT}/one", widget("one"))
        with requests_seen() as seen:
            await portal("GET", f"{IN_DEFAULT}/one")
            await portal("GET", f"/api/v1/{WIDGETS}")
            async with portal.stream(f"of={WIDGETS}") as response:
                await until(events(response), "synced")
        assert ("POST", REVIEWS) not in seen
        assert sum(count for (method, _), count in seen.items() if method == "WATCH") == 1


async def test_many_viewers_cost_one_watch(tmp_path: Path) -> None:
    limits = replace(PLENTY, streams_per_caller=100)
    async with consoles(tmp_path, shared_cache=True, limits=limits) as portal, AsyncExitStack() as stack:
        await made(portal, "one")
        with requests_seen() as seen:

            async def view() -> Any:
                listed = await portal("GET", "/api/v1/flashjobs")
                assert len(listed.body["items"]) == 1
                source = events(await stack.enter_async_context(portal.stream("of=flashjobs")))
                await until(source, "synced")
                return source

            sources = await asyncio.gather(*(view() for _ in range(20)))
            await changed(portal, "one", site="b")
            for source in sources:
                assert (await until(source, "modified"))[-1].what == ("modified", "one")
        assert seen["WATCH", ALL] == 1
        assert not [path for method, path in seen if method == "GET"]


async def test_no_read_is_older_than_a_write_through_this_console(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True) as portal:
        await portal("GET", JOBS)
        for number in range(20):
            written = await portal("PUT", f"{JOBS}/a", job("a", version=f"1.{number}.0"))
            assert written.status in {200, 201}, written.body
            for read in (await portal("GET", f"{JOBS}/a"), await portal("GET", JOBS)):
                found = read.body["items"][0] if "items" in read.body else read.body
                assert found == written.body
        patched = await portal("PATCH", f"{JOBS}/a", {"metadata": {"finalizers": ["a.example/held"]}})
        assert (await portal("GET", f"{JOBS}/a")).body == patched.body
        held = await portal("DELETE", f"{JOBS}/a")
        assert held.status == 202
        assert (await portal("GET", f"{JOBS}/a")).body == held.body
        for number in range(20):
            name = f"b{number}"
            assert (await portal("POST", JOBS, job(name))).status == 201
            names = [each["metadata"]["name"] for each in (await portal("GET", JOBS)).body["items"]]
            assert names == ["a", name]
            assert (await portal("DELETE", f"{JOBS}/{name}")).status == 204
            assert (await portal("GET", f"{JOBS}/{name}")).status == 404
            assert len((await portal("GET", JOBS)).body["items"]) == 1


async def test_the_fleet_is_counted_in_the_cache(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True) as portal:
        for number in range(3):
            body = {"metadata": {"labels": {"site": "ab"[number % 2]}}, "spec": {}}
            assert (await portal("PUT", f"/api/v1/devices/d{number}", body)).status == 201
        await portal("GET", "/api/v1/devices")
        with requests_seen() as seen:
            counted = await portal("GET", "/api/v1/fleet?groupBy=site")
            chosen = await portal("GET", "/api/v1/fleet?labelSelector=site%3Da")
        assert {each["name"]: each["total"] for each in counted.body["groups"]} == {"a": 2, "b": 1}
        assert (counted.body["total"], chosen.body["total"]) == (3, 2)
        assert ("GET", Device.kind.path()) not in seen


async def test_a_dry_run_is_not_waited_for(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True) as portal:
        await made(portal, "one")
        await portal("GET", JOBS)
        assert (await portal("PUT", f"{JOBS}/two?dryRun=All", job("two"))).status == 201
        assert (await portal("DELETE", f"{JOBS}/one?dryRun=All")).status == 204
        with requests_seen() as seen:
            assert len((await portal("GET", JOBS)).body["items"]) == 1
        assert not [path for method, path in seen if method == "GET"]


async def test_a_cache_that_stays_behind_is_passed_by(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with consoles(tmp_path, shared_cache=True, clock=clock) as portal:
        await made(portal, "one")
        await portal("GET", JOBS)
        cache = portal.console.shared_cache
        assert cache is not None
        cache.wrote(FlashJob.kind, "99999999")
        cache.deleted(FlashJob.kind, Key("default", "one"), "no-such-uid")
        with requests_seen() as seen:
            reading = asyncio.create_task(portal("GET", JOBS))
            await advance_until(clock, reading.done, seconds=1.0)
        assert len((await reading).body["items"]) == 1
        assert seen["GET", PATH] == 1


async def advance_until(clock: VirtualClock, done: Callable[[], bool], *, seconds: float) -> None:
    """Moves time on, step by step, until something is so."""

    async def moved() -> bool:
        await clock.advance(seconds)
        return done()

    await wait_until_async(moved, what="time has done it")


async def test_a_kind_is_watched_from_its_first_reader_until_its_last_has_long_gone(tmp_path: Path) -> None:
    clock = VirtualClock()
    rarely = replace(PLENTY, recheck=1e6)  # the time of a review would be over before its answer is here
    async with consoles(tmp_path, shared_cache=True, clock=clock, limits=rarely) as portal:
        cache = portal.console.shared_cache
        assert cache is not None
        assert not cache.watched
        await portal("GET", JOBS)
        assert cache.watched == {FlashJob.kind}
        async with portal.stream("of=flashjobs") as response:
            await until(events(response), "synced")
            await clock.advance(3 * IDLE_SECONDS)
            assert cache.watched == {FlashJob.kind}

        await advance_until(clock, lambda: not cache.watched, seconds=IDLE_SECONDS + 1)
        assert (await portal("GET", JOBS)).status == 200
        assert cache.watched == {FlashJob.kind}


async def test_who_may_not_read_the_kind_itself_serves_it_as_the_caller(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True) as portal:
        portal.api.kinds.set_custom([])
        missing = await portal("GET", JOBS)
        assert missing.status == 404, missing.body


# --- streams --------------------------------------------------------------------------------------------------------


async def test_a_stream_tells_the_state_and_then_every_change(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True) as portal:
        await portal("PUT", f"{JOBS}/one", job("one"))
        async with portal.stream("of=flashjobs&namespace=default") as response:
            source = events(response)
            begin = await until(source, "synced")
            assert [(each.name, each.id) for each in begin] == [("added", ""), ("synced", begin[-1].id)]
            two = await portal("PUT", f"{JOBS}/two", job("two"))
            await portal("PATCH", f"{JOBS}/one", {"spec": {"version": "3.0.0"}})
            await portal("DELETE", f"{JOBS}/two")
            seen = await until(source, "deleted")
            assert [each.what for each in seen] == [("added", "two"), ("modified", "one"), ("deleted", "two")]
            assert seen[0].data == two.body
            assert [each.id for each in seen] == [each.data["metadata"]["resourceVersion"] for each in seen]


async def test_an_object_comes_and_goes_by_the_selector_as_at_the_server(tmp_path: Path) -> None:
    async def told(caller: Application, query: str, count: int) -> list[Event]:
        async with caller.stream(f"of=flashjobs&{query}", Last_Event_ID=last) as response:
            source = (each async for each in events(response) if each.name)
            return [await anext(source) for _ in range(count)]

    async with consoles(tmp_path, shared_cache=True) as portal:
        await made(portal, "two", site="b")
        async with portal.stream("of=flashjobs") as response:
            last = (await until(events(response), "synced"))[-1].id
        await made(portal, "one", site="b")
        for site in ("a", "c", "b", "a"):
            await changed(portal, "one", site=site)
        await portal.api("DELETE", f"{PATH}/one")
        await made(portal, "end", site="a")
        plain = Settings(gate=HERE, limits=PLENTY, page=tmp_path / "not built")
        async with in_front_of(portal.config, plain) as (_, url):
            other = Application(url, portal.session, portal.token)
            queries = {"labelSelector=site%3Da": 5, "labelSelector=site!%3Da": 5, "name=one": 6, "namespace=default": 7}
            for query, count in queries.items():
                assert await told(portal, query, count) == await told(other, query, count), query


async def test_a_stream_goes_on_after_the_last_event_that_was_seen(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True) as portal:
        async with portal.stream("of=flashjobs") as response:
            last = (await until(events(response), "synced"))[-1].id
            await portal("PUT", f"{JOBS}/one", job("one"))
            await portal("PUT", f"{JOBS}/two", job("two"))
        async with portal.stream("of=flashjobs", Last_Event_ID=last) as response:
            first = (await until(events(response), "added"))[-1]
            assert first.what == ("added", "one")
        async with portal.stream("of=flashjobs&name=two", Last_Event_ID=first.id) as response:
            assert (await until(events(response), "added"))[-1].what == ("added", "two")


@pytest.mark.parametrize("last", ["1", "99999999999", "from-another-world"])
async def test_a_place_that_is_not_known_begins_with_a_reset(tmp_path: Path, last: str) -> None:
    async with consoles(tmp_path, shared_cache=True) as portal:
        await portal("PUT", f"{JOBS}/one", job("one"))
        await portal("GET", JOBS)
        async with portal.stream("of=flashjobs", Last_Event_ID=last) as response:
            seen = await until(events(response), "synced")
            assert [each.name for each in seen] == ["reset", "added", "synced"]


async def test_a_place_of_another_console_that_is_ahead_is_gone_on_from(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True) as portal:
        await portal("GET", JOBS)
        ahead = await portal("PUT", f"{IN_DEFAULT}/one", widget("one"))  # of another kind: this cache hears nothing
        place = ahead.body["metadata"]["resourceVersion"]
        async with portal.stream("of=flashjobs", Last_Event_ID=place) as response:
            await portal("PUT", f"{JOBS}/one", job("one"))
            seen = await until(events(response), "added")
            assert [each.what for each in seen] == [("added", "one")]


async def test_batches_come_at_most_twice_per_second(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with consoles(tmp_path, shared_cache=True, clock=clock) as portal, portal.stream("of=flashjobs") as response:
        source = events(response)
        await until(source, "synced")
        await made(portal, "first")
        assert (await until(source, "added"))[-1].what == ("added", "first")
        rest = [f"rest-{number}" for number in range(10)]
        await made(portal, *rest)

        async def there() -> bool:
            return len((await portal("GET", JOBS)).body["items"]) == 11

        await wait_until_async(there, what="the cache has them")
        following = asyncio.create_task(_added(source, 10))
        await clock.advance(BATCH_SECONDS / 2)
        assert not following.done()
        await clock.advance(BATCH_SECONDS / 2)
        assert await following == rest


async def _added(source: Any, count: int) -> list[str]:
    return [(await until(source, "added"))[-1].what[1] for _ in range(count)]


async def test_a_list_that_had_to_be_asked_for_again_resets_open_streams(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True) as portal:
        await made(portal, "one")
        async with portal.stream("of=flashjobs") as response:
            source = events(response)
            await until(source, "synced")
            cache = portal.console.shared_cache
            assert cache is not None
            await cache.of(FlashJob.kind).refresh()
            seen = await until(source, "synced")
            assert [each.name for each in seen] == ["reset", "added", "synced"]
            await changed(portal, "one", site="b")
            assert (await until(source, "modified"))[-1].what == ("modified", "one")


async def test_a_stream_whose_kind_goes_ends_with_the_problem(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with consoles(tmp_path, shared_cache=True, clock=clock) as portal, portal.stream("of=flashjobs") as response:
        source = events(response)
        await until(source, "synced")
        portal.api.kinds.set_custom([])
        ending = asyncio.create_task(until(source, "problem"))
        await advance_until(clock, ending.done, seconds=31)
        assert (await ending)[-1].data["status"] == 404


async def test_a_stream_that_began_without_the_cache_comes_to_it_and_nothing_is_told_twice(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True, limits=replace(PLENTY, recheck=2.0, cache_seconds=0.2)) as portal:
        await made(portal, "one")
        cache = portal.console.shared_cache
        assert cache is not None
        kept = cache.of(FlashJob.kind)
        await wait_until_async(lambda: kept.usable, what="the cache is there")
        kept.report("", "is unavailable")
        async with portal.stream("of=flashjobs") as response:
            source = events(response)
            assert [each.name for each in await until(source, "synced")] == ["added", "synced"]
            assert kept.idle > 0
            await changed(portal, "one", site="b")  # which the cache hears too: it is well again
            await wait_until_async(lambda: kept.idle == 0, what="the stream comes from the cache")
            await made(portal, "two")
            seen = await until(source, "added")
            assert [each.what for each in seen] == [("modified", "one"), ("added", "two")]


async def test_a_stream_waits_for_a_cache_that_fails_at_first(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True) as portal:
        portal.api.kinds.set_custom([])
        assert (await portal("GET", JOBS)).status == 404  # which the cache was told too
        opening = asyncio.create_task(_synced(portal))
        portal.api.kinds.set_custom(our_kinds())
        await opening


async def _synced(portal: Portal) -> None:
    async with portal.stream("of=flashjobs") as response:
        cache = portal.console.shared_cache
        assert cache is not None
        await until(events(response), "synced")
        assert cache.of(FlashJob.kind).idle == 0


async def test_a_cache_that_is_unavailable_for_a_moment_is_waited_for(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True) as portal, portal.stream("of=flashjobs") as response:
        source = events(response)
        await until(source, "synced")
        cache = portal.console.shared_cache
        assert cache is not None
        cache.of(FlashJob.kind).report("", "is unavailable")
        with requests_seen() as seen:
            await made(portal, "one")
            assert (await until(source, "added"))[-1].what == ("added", "one")
        assert ("WATCH", ALL) not in seen
