"""The reflector: how it lists, follows and lists again, and what it makes of objects that it cannot read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from edgewright.runtime.client import Client
from edgewright.runtime.clock import VirtualClock
from edgewright.runtime.objects import Key
from edgewright.runtime.reflector import Reflector
from tests.unit.runtime.fakeserver import (
    PATH,
    Json,
    Watch,
    Widget,
    bookmark,
    fake_server,
    line,
    listed,
    refusal,
    running,
    streamed,
    until,
    widget,
)
from tests.unit.runtime.reflector_stage import EXPIRED, Copy, following


async def test_a_streamed_list_is_complete_with_its_bookmark_and_followed_by_what_happens() -> None:
    go = asyncio.Event()
    first = line("ADDED", widget("a", 4)) + line("ADDED", widget("b", 2))
    later = line("MODIFIED", widget("b", 6)) + line("DELETED", widget("a", 7)) + bookmark(9)
    async with following(Watch(first, go, bookmark(5, closes_list=True), later, end="close"), Watch()) as it:
        await it.until(lambda: len(it.copy.versions) == 2)
        assert it.copy.completed == 0
        assert it.copy.problems == []
        go.set()
        await it.until(lambda: len(it.server.watches()) == 2)
        assert it.copy.versions == {"b": "6"}
        assert it.copy.completed == 1
        assert it.copy.problem is None
        assert it.versions() == ["list", "9"]


async def test_who_listens_hears_each_event_first_and_knows_the_version_when_a_list_is_complete() -> None:
    told: list[str] = []

    class Told(Copy):
        def drop(self, key: Key) -> None:
            told.append(f"drop {key.name} at {reflector.version}")

        def keep_only(self, namespace: str, present: set[Key]) -> None:
            told.append(f"list at {reflector.version}")

    clock = VirtualClock()
    async with fake_server() as server, Client(server.config, clock=clock) as client:
        later = line("DELETED", widget("a", 7)) + bookmark(9)
        server.on(f"WATCH {PATH}", Watch(line("ADDED", widget("a", 4)), bookmark(5, closes_list=True), later))
        reflector = Reflector(
            client.of(Widget), Told(), clock=clock, heard=lambda event: told.append(f"{event.type} {reflector.version}")
        )
        async with running(reflector.run()):
            await until(lambda: reflector.version == "9", clock=clock, step=0.1)
    assert told == ["ADDED ", "BOOKMARK ", "list at 5", "DELETED 5", "drop a at 5", "BOOKMARK 7"]


async def test_a_streamed_list_that_is_cut_is_asked_for_again_and_not_resumed() -> None:
    cut = Watch(line("ADDED", widget("a", 4)), bookmark(4), line("ADDED", widget("b", 2))[:9], end="cut")
    async with following(cut, Watch(streamed(widget("b", 6), version=9))) as it:
        await it.until(lambda: it.copy.completed)
        assert it.versions() == ["list", "list"]
        assert it.copy.versions == {"b": "6"}, "a was deleted in the gap"


@pytest.mark.parametrize("code", [400, 422])
async def test_a_server_that_does_not_stream_lists_is_asked_for_pages(code: int) -> None:
    lists = (
        listed(widget("a", 1), version=3, more="t"),
        listed(widget("b", 2), version=3),
    )
    async with following(refusal(code), Watch(), lists=lists) as it:
        await it.until(lambda: len(it.server.watches()) == 2)
        assert it.copy.versions == {"a": "1", "b": "2"}
        assert it.copy.completed == 1
        assert it.versions() == ["list", "3"]
        assert [asked.query.get("continue") for asked in it.server.lists()] == [None, "t"]
        assert it.copy.problem is None


async def test_a_410_in_the_watch_lists_again_and_finds_what_was_deleted_in_the_gap() -> None:
    async with following(
        Watch(streamed(widget("a", 1), widget("b", 2), version=5), EXPIRED),
        Watch(streamed(widget("b", 2), widget("c", 8), version=9)),
    ) as it:
        await it.until(lambda: it.copy.completed == 2)
        assert it.copy.versions == {"b": "2", "c": "8"}
        assert it.versions() == ["list", "list"]
        assert set(it.copy.problems) == {None}, "history that ran out is not worth a word"


async def test_a_410_on_resuming_lists_again() -> None:
    async with following(
        Watch(streamed(widget("a", 1), version=5), end="cut"),
        refusal(410, "Expired"),
        Watch(streamed(version=9)),
    ) as it:
        await it.until(lambda: it.copy.completed == 2)
        assert it.versions() == ["list", "5", "list"]
        assert it.copy.versions == {}


async def test_a_list_that_is_forgotten_between_its_pages_is_asked_for_in_one_piece() -> None:
    lists = (
        listed(widget("a", 1), version=3, more="t"),
        refusal(410, "Expired"),
        listed(widget("a", 1), widget("b", 2), version=6),
    )
    async with following(refusal(400), Watch(end="cut"), Watch(EXPIRED), Watch(), lists=lists) as it:
        await it.until(lambda: it.copy.completed == 1)
        assert [asked.query for asked in it.server.lists()] == [
            {"limit": "500"},
            {"limit": "500", "continue": "t"},
            {},
        ]
        await it.until(lambda: len(it.server.lists()) == 4)
        assert it.server.lists()[3].query == {"limit": "500"}, "the next time in pages again"


def unreadable(name: str, version: int) -> dict[str, Any]:
    return widget(name, version, size="big")


async def test_an_object_that_cannot_be_read_is_reported_and_the_rest_goes_on() -> None:
    async with following(
        Watch(
            streamed(widget("a", 1), unreadable("bad", 2), unreadable("worse", 3), version=5),
            line("MODIFIED", unreadable("a", 6)),
            line("DELETED", unreadable("worse", 7)),
            line("ADDED", widget("c", 8)),
            end="close",
        ),
        Watch(),
    ) as it:
        await it.until(lambda: len(it.server.watches()) == 2)
        assert it.copy.unread == {"bad": "2", "a": "6"}
        assert it.copy.versions == {"a": "1", "c": "8"}, "the last readable state stays"
        assert it.versions() == ["list", "8"]
        assert it.copy.problem is None


async def test_an_unread_object_alone_moves_the_watch_on() -> None:
    async with following(
        Watch(streamed(version=5), line("ADDED", unreadable("bad", 6)), end="close"),
        Watch(),
    ) as it:
        await it.until(lambda: len(it.server.watches()) == 2)
        assert it.versions() == ["list", "6"]


async def test_an_object_that_cannot_be_read_in_a_page_is_reported_and_the_rest_goes_on() -> None:
    lists = (listed(widget("a", 1), unreadable("bad", 2), version=3), listed(widget("a", 1), version=9))
    go = asyncio.Event()
    async with following(refusal(422), Watch(go, EXPIRED), Watch(), lists=lists) as it:
        await it.until(lambda: it.copy.completed == 1)
        assert (it.copy.versions, it.copy.unread) == ({"a": "1"}, {"bad": "2"})
        go.set()
        await it.until(lambda: it.copy.completed == 2)
        assert it.copy.unread == {}


async def test_metadata_that_cannot_be_read_whole_still_names_its_object() -> None:
    odd = widget("odd", 2)
    odd["metadata"]["labels"] = {"a": 1}
    async with following(Watch(streamed(widget("odd", 1), version=1), EXPIRED), Watch(streamed(odd, version=5))) as it:
        await it.until(lambda: it.copy.completed == 2)
        assert it.copy.versions == {"odd": "1"}, "it is there still"
        assert it.copy.unread == {"odd": "2"}


async def test_a_kind_that_is_not_served_yet_is_found_when_it_is() -> None:
    async with following(refusal(404), refusal(404), Watch(streamed(widget("a", 1), version=5))) as it:
        await it.until(lambda: it.copy.completed)
        assert [bool(problem) for problem in it.copy.problems] == [True, True, False]
        assert it.copy.versions == {"a": "1"}


async def test_an_optional_kind_that_is_not_served_counts_as_empty_and_is_found_when_it_is() -> None:
    absent = refusal(404, "NotFound")
    there = Watch(streamed(widget("a", 1), version=5))
    async with following(absent, absent, absent, there, optional=True) as it:
        await it.until(lambda: it.copy.completed)
        assert it.copy.problem is None
        await it.until(lambda: len(it.server.watches()) == 3)
        assert it.copy.completed == 1, "said once, not with every try"
        await it.until(lambda: it.copy.versions)
        await it.until(lambda: it.copy.completed == 2)
        assert it.versions() == ["list"] * 4


async def test_an_optional_kind_that_is_taken_away_is_empty_and_listed_again_when_it_is_back() -> None:
    go = asyncio.Event()
    first = Watch(streamed(widget("a", 1), version=5), go, end="close")
    absent = refusal(404, "NotFound")
    async with following(first, absent, Watch(streamed(widget("b", 8), version=9)), optional=True) as it:
        await it.until(lambda: it.copy.versions == {"a": "1"})
        go.set()
        await it.until(lambda: it.copy.versions == {"b": "8"})
        assert it.versions() == ["list", "5", "list"]
        assert it.copy.completed == 3
        assert set(it.copy.problems) == {None}


async def test_an_optional_kind_that_may_not_be_read_is_a_problem_as_any() -> None:
    async with following(refusal(403, "Forbidden"), optional=True) as it:
        await it.until(lambda: it.copy.problem)
        assert it.copy.completed == 0


async def test_an_optional_kind_that_is_not_served_is_asked_for_seldom() -> None:
    async with following(refusal(404, "NotFound"), optional=True) as it:
        await it.until(lambda: it.clock.elapsed() > 60, step=1)
        assert 5 < len(it.server.watches()) < 30


async def test_one_namespace_and_its_selectors_are_asked_for() -> None:
    clock, copy = VirtualClock(), Copy()
    async with fake_server() as server, Client(server.config) as client:
        path = Widget.kind.path("ns")
        server.on(f"WATCH {path}", refusal(400), Watch())
        server.on(f"GET {path}", Json({"metadata": {"resourceVersion": "1"}, "items": []}))
        reflector = Reflector(client.of(Widget), copy, clock=clock, namespace="ns", labels="l=1", fields="f=2")
        async with running(reflector.run()):
            await until(lambda: len(server.watches()) == 2, clock=clock)
        assert {(asked.query["labelSelector"], asked.query["fieldSelector"]) for asked in server.asked} == {
            ("l=1", "f=2")
        }


async def test_a_refresh_lists_again_and_brings_what_the_watch_has_not_told() -> None:
    silent = Watch(streamed(widget("a", 1), widget("b", 2), version=5))
    async with following(silent, Watch(streamed(widget("a", 1), widget("c", 7), version=9))) as it:
        await it.until(lambda: it.copy.completed)
        await it.reflector.refresh()
        assert it.versions() == ["list", "list"]
        assert it.copy.versions == {"a": "1", "c": "7"}


async def test_a_list_under_way_is_too_old_for_a_refresh() -> None:
    never = asyncio.Event()
    begun = Watch(line("ADDED", widget("a", 1)), never)
    async with following(begun, Watch(streamed(widget("b", 2), version=9))) as it:
        await it.until(lambda: "a" in it.copy.versions)
        await it.reflector.refresh()
        assert it.versions() == ["list", "list"]
        assert it.copy.versions == {"b": "2"}


async def test_two_who_ask_for_a_refresh_at_once_share_it_and_one_who_asks_later_has_one_more() -> None:
    lists = [Watch(streamed(widget("a", version), version=version)) for version in (1, 2, 3)]
    async with following(*lists) as it:
        await it.until(lambda: it.copy.completed)
        await asyncio.gather(it.reflector.refresh(), it.reflector.refresh())
        assert it.copy.versions == {"a": "2"}
        await it.reflector.refresh()
        assert it.copy.versions == {"a": "3"}


async def test_a_refresh_does_not_wait_for_the_end_of_a_backoff() -> None:
    async with following(refusal(403, "Forbidden"), Watch(streamed(widget("a", 1), version=5))) as it:
        await until(lambda: it.copy.problem)
        await until(lambda: it.clock._timers)
        await it.reflector.refresh()
        assert it.clock.elapsed() == 0
        assert it.copy.versions == {"a": "1"}


async def test_a_refresh_that_is_refused_is_tried_again_until_it_is_answered() -> None:
    first, again = Watch(streamed(widget("a", 1), version=5)), Watch(streamed(widget("a", 8), version=9))
    async with following(first, refusal(403, "Forbidden"), refusal(503), again) as it:
        await it.until(lambda: it.copy.completed)
        refreshing = asyncio.create_task(it.reflector.refresh())
        await it.until(refreshing.done)
        assert it.versions() == ["list"] * 4
        assert it.copy.versions == {"a": "8"}


async def test_a_kind_that_is_not_served_is_fresh_where_it_is_optional() -> None:
    async with following(refusal(404, "NotFound"), optional=True) as it:
        await it.until(lambda: it.copy.completed)
        await it.reflector.refresh()
        assert it.copy.versions == {}
