"""Lists and streams over all namespaces: who may read in some of them alone sees those, and nothing of the others."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from edgewright.api import FlashJob
from edgewright.console import views
from edgewright.console.kind_cache import KindCache
from edgewright.console.views import View
from tests.harness import wait_until_async
from tests.unit.console.consoles import PLENTY, WIDGETS, Answer, Application, Portal, consoles
from tests.unit.console.events import Event, events, until
from tests.unit.console.narrow import deny, grant, jobs, narrow
from tests.unit.console.requests_seen import requests_seen
from tests.unit.local.serving.inprocess import namespace

EVERYWHERE = "/api/v1/flashjobs"
REVIEWS = ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
OFTEN = replace(PLENTY, recheck=0.5)
"""Rights are asked for again so soon that a test can wait for it."""


def names(answer: Answer) -> list[str]:
    """What a list shows, with the namespaces."""
    assert answer.status == 200, answer.body
    return [f"{each['metadata']['namespace']}/{each['metadata']['name']}" for each in answer.body["items"]]


async def until_listed(caller: Application, wanted: list[str], query: str = "") -> Answer:
    """Waits until the cache has heard of all that was written past the console."""

    async def listed() -> Answer | None:
        answer = await caller("GET", EVERYWHERE + query)
        return answer if answer.status == 200 and names(answer) == wanted else None

    return await wait_until_async(listed, what=f"the list is {wanted}")


@pytest.mark.parametrize(
    ("before", "after", "follows"),
    [
        (None, None, True),
        ({"a": True}, {"a": True, "b": False}, True),
        ({"a": True}, {"a": True, "b": True}, True),  # what is in b has happened since
        ({"a": True, "b": False}, {"a": True}, True),  # nothing is in b any more
        ({"a": True, "b": False}, {"a": True, "b": True}, False),
        ({"a": True, "b": True}, {"a": True, "b": False}, False),
        (None, {"a": True}, False),
        ({"a": True}, None, False),
    ],
)
def test_who_was_shown_one_view_goes_on_with_another_unless_rights_have_changed(
    before: dict[str, bool] | None, after: dict[str, bool] | None, follows: bool
) -> None:
    kept = cast(KindCache, None)
    now = View(kept=kept, until=0, verdicts=after)
    assert now.follows(View(kept=kept, until=0, verdicts=before)) is follows
    assert now.follows(None) is now.whole


async def test_a_list_over_all_namespaces_shows_those_in_which_the_caller_may_list(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True) as portal:
        caller = await narrow(portal, "a", "c")
        await portal.api.made("/api/v1/namespaces", namespace("b"))
        for place in "abc":
            await jobs(portal, place, "one", "two")
        found = await until_listed(caller, ["a/one", "a/two", "c/one", "c/two"])
        assert names(await portal("GET", EVERYWHERE)) == [
            f"{place}/{name}" for place in "abc" for name in ("one", "two")
        ]
        shown = []
        for place in "ac":
            direct = (await portal.api("GET", FlashJob.kind.path(place))).body["items"]
            for each in direct:
                each["metadata"].pop("managedFields")
            shown += direct
        assert found.body["items"] == shown
        with requests_seen() as seen:
            assert names(await caller("GET", EVERYWHERE)) == names(found)
        assert not seen  # what the API server said of the caller's rights counts for a while


async def test_who_may_list_in_no_namespace_is_refused_in_the_servers_words(tmp_path: Path) -> None:
    async with consoles(tmp_path / "a", shared_cache=True) as portal, consoles(tmp_path / "b") as plain:
        caller, other = await narrow(portal), await narrow(plain)
        await jobs(portal, "default", "one")
        for path in (EVERYWHERE, "/api/v1/stream?of=flashjobs"):
            ours, theirs = await caller("GET", path), await other("GET", path)
            assert (ours.status, ours.body) == (theirs.status, theirs.body)
            assert ours.status == 403


async def test_a_foreign_kind_is_refused_over_all_namespaces(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True) as portal:
        caller = await narrow(portal, "default")
        assert (await caller("GET", f"/api/v1/{WIDGETS}")).status == 403


async def test_an_empty_namespace_of_ones_own_is_an_empty_list_where_another_kind_is_in_it(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True) as portal:
        caller = await narrow(portal, "default")
        assert (await caller("GET", EVERYWHERE)).status == 403  # nobody knows of any namespace
        body = {"spec": {"firmware": "registry.example/thermo:2", "version": "2"}}
        assert (await portal("PUT", "/api/v1/namespaces/default/rollouts/thermo", body)).status == 201
        assert len((await portal("GET", "/api/v1/rollouts")).body["items"]) == 1
        assert names(await caller("GET", EVERYWHERE)) == []


async def test_pages_of_such_a_list_hold_all_of_it(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True) as portal:
        caller = await narrow(portal, "a", "b")
        wanted = [f"{place}/{name}" for place in "ab" for name in ("one", "three", "two")]
        for place in "ab":
            await jobs(portal, place, "one", "two", "three")
        await until_listed(caller, wanted)
        found: list[str] = []
        left: list[int] = []
        place = ""
        while not left or place:
            page = await caller("GET", f"{EVERYWHERE}?limit=4{f'&continue={place}' if place else ''}")
            found += names(page)
            place = page.body["metadata"]["continue"]
            left.append(page.body["metadata"].get("remainingItemCount", 0))
        assert (found, left) == (wanted, [2, 0])


async def test_where_objects_are_in_very_many_namespaces_one_has_to_be_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(views, "MAX_NAMESPACES", 1)
    async with consoles(tmp_path, shared_cache=True) as portal:
        caller = await narrow(portal, "a", "b")
        await jobs(portal, "a", "one")
        await until_listed(caller, ["a/one"])
        await jobs(portal, "b", "one")
        await until_listed(portal, ["a/one", "b/one"])
        assert (await caller("GET", EVERYWHERE)).status == 403
        assert names(await caller("GET", f"{EVERYWHERE}?namespace=b")) == ["b/one"]


async def test_a_copy_that_is_not_kept_up_is_told_of_and_nobody_is_refused_for_it(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True, limits=replace(PLENTY, cache_seconds=0.2)) as portal:
        caller = await narrow(portal, "a")
        await jobs(portal, "a", "one")
        await until_listed(caller, ["a/one"])
        cache = portal.console.shared_cache
        assert cache is not None
        kept = cache.of(FlashJob.kind)
        kept.report("", "is unavailable")
        for path in (EVERYWHERE, "/api/v1/stream?of=flashjobs"):
            answer = await caller("GET", path)
            assert (answer.status, answer.headers["Retry-After"]) == (503, "2"), answer.body
        assert names(await portal("GET", EVERYWHERE)) == ["a/one"]  # who may see all is shown it by the API server
        kept.report("", None)
        assert names(await caller("GET", EVERYWHERE)) == ["a/one"]


# --- streams --------------------------------------------------------------------------------------------------------


async def told(source: AsyncIterator[Event], name: str) -> list[tuple[str, str]]:
    """What a stream tells up to an event of this name, with the namespaces."""
    return [
        (each.name, f"{about['namespace']}/{about['name']}" if (about := each.data.get("metadata")) else "")
        for each in await until(source, name)
    ]


async def test_a_stream_over_all_namespaces_tells_of_those_in_which_the_caller_may_watch(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True) as portal:
        caller = await narrow(portal, "a", "new")
        await portal.api.made("/api/v1/namespaces", namespace("b"))
        for place in "ab":
            await jobs(portal, place, "one")
        await until_listed(portal, ["a/one", "b/one"])
        async with caller.stream("of=flashjobs") as response:
            source = events(response)
            assert await told(source, "synced") == [("added", "a/one"), ("synced", "")]
            await jobs(portal, "b", "two")
            await jobs(portal, "new", "one")  # in a namespace that held nothing when the stream began
            assert await told(source, "added") == [("added", "new/one")]
            for place in ("b", "a"):
                assert (await portal("DELETE", f"/api/v1/namespaces/{place}/flashjobs/one")).status == 204
            assert await told(source, "deleted") == [("deleted", "a/one")]  # which was the last one there
            await jobs(portal, "a", "three")
            last = (await until(source, "added"))[-1]
            assert last.what == ("added", "three")
        # Its rights may be others when it comes again: then the state is told again.
        async with caller.stream("of=flashjobs", Last_Event_ID=last.id) as response:
            again = await told(events(response), "synced")
            assert again == [("reset", ""), ("added", "a/three"), ("added", "new/one"), ("synced", "")]


async def test_a_right_that_is_taken_or_given_counts_on_an_open_stream(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True, limits=OFTEN) as portal:
        caller = await narrow(portal, "a", "b")
        for place in "ab":
            await jobs(portal, place, "one")
        await until_listed(portal, ["a/one", "b/one"])
        async with caller.stream("of=flashjobs") as response:
            source = events(response)
            assert await told(source, "synced") == [("added", "a/one"), ("added", "b/one"), ("synced", "")]
            await deny(portal, "b")
            assert await told(source, "synced") == [("reset", ""), ("added", "a/one"), ("synced", "")]
            await jobs(portal, "b", "two")
            await grant(portal, "b")
            whole = [("reset", ""), ("added", "a/one"), ("added", "b/one"), ("added", "b/two"), ("synced", "")]
            assert await told(source, "synced") == whole
            for place in "ab":
                await deny(portal, place)
            *_, last = await until(source, "problem")
            assert (last.data["status"], last.data["verb"]) == (403, "watch")


async def test_who_loses_the_right_to_all_keeps_that_to_some(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True, limits=OFTEN) as portal:
        caller = await narrow(portal, "a")
        everywhere: dict[str, Any] = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "everywhere"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reads"},
            "subjects": [{"kind": "ServiceAccount", "name": "narrow", "namespace": "default"}],
        }
        bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
        await portal.api.made(bindings, everywhere)
        await jobs(portal, "a", "one")
        await jobs(portal, "default", "one")
        await until_listed(caller, ["a/one", "default/one"])
        async with caller.stream("of=flashjobs") as response:
            source = events(response)
            await until(source, "synced")
            assert (await portal.api("DELETE", f"{bindings}/everywhere")).code == 200
            assert await told(source, "synced") == [("reset", ""), ("added", "a/one"), ("synced", "")]
            await portal.api.made(bindings, everywhere)
            assert (await told(source, "synced"))[1:3] == [("added", "a/one"), ("added", "default/one")]


async def test_a_copy_that_comes_back_goes_on_with_the_stream(tmp_path: Path) -> None:
    async with consoles(tmp_path, shared_cache=True, limits=replace(OFTEN, cache_seconds=0.2)) as portal:
        caller = await narrow(portal, "a")
        await jobs(portal, "a", "one")
        await until_listed(caller, ["a/one"])
        async with caller.stream("of=flashjobs") as response:
            source = events(response)
            await until(source, "synced")
            await stays_away(portal)
            await jobs(portal, "a", "two")  # which the cache hears: it is well again
            assert await told(source, "added") == [("added", "a/two")]


async def stays_away(portal: Portal) -> None:
    """The copy is not kept up for longer than anybody waits for it."""
    cache = portal.console.shared_cache
    assert cache is not None
    kept = cache.of(FlashJob.kind)
    kept.report("", "is unavailable")
    await wait_until_async(lambda: kept.away > 1.0, what="the copy was away for long")
