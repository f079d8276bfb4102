"""The reflector: whatever a server answers, the copy becomes true again, and no answer makes it run hot."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from edgewright.runtime.client import Client, Unread
from edgewright.runtime.clock import VirtualClock
from edgewright.runtime.config import Config
from edgewright.runtime.credentials import CredentialsError
from edgewright.runtime.objects import Key
from edgewright.runtime.reflector import Reflector
from tests.unit.runtime.fakeserver import (
    PATH,
    Answer,
    FakeServer,
    Json,
    Raw,
    Script,
    Watch,
    Widget,
    bookmark,
    fake_server,
    line,
    listed,
    refusal,
    running,
    socket_server,
    status_body,
    streamed,
    until,
    widget,
)

EXPIRED = line("ERROR", status_body(410, "Expired", "too old"))


class Copy:
    """A sink that keeps versions by name and notes what it was told."""

    def __init__(self) -> None:
        self.versions: dict[str, str] = {}
        self.unread: dict[str, str] = {}
        self.completed = 0
        self.problems: list[str | None] = []
        self.told: list[str] = []

    def put(self, obj: Widget) -> None:
        self.versions[obj.metadata.name] = obj.metadata.resource_version
        self.told.append(f"put {obj.metadata.name}")

    def put_unread(self, unread: Unread) -> None:
        self.unread[unread.key.name] = unread.resource_version
        self.told.append(f"unread {unread.key.name}")

    def drop(self, key: Key) -> None:
        self.versions.pop(key.name, None)
        self.unread.pop(key.name, None)
        self.told.append(f"drop {key.name}")

    def keep_only(self, namespace: str, present: set[Key]) -> None:
        names = {key.name for key in present}
        self.versions = {name: version for name, version in self.versions.items() if name in names}
        self.unread = {name: version for name, version in self.unread.items() if name in names}
        self.completed += 1

    def report(self, namespace: str, problem: str | None) -> None:
        self.problems.append(problem)

    @property
    def problem(self) -> str | None:
        return self.problems[-1] if self.problems else None


class Follower:
    """A reflector at work in virtual time."""

    def __init__(
        self, server: FakeServer, client: Client, clock: VirtualClock, copy: Copy, reflector: Reflector[Widget]
    ) -> None:
        self.server, self.client, self.clock, self.copy, self.reflector = server, client, clock, copy, reflector

    async def until(self, condition: Any, *, step: float = 0.1) -> None:
        await until(condition, clock=self.clock, step=step)

    def versions(self) -> list[str]:
        """The version that each watch started from; "list" for a streamed list."""
        return [
            "list" if asked.query.get("sendInitialEvents") else asked.query["resourceVersion"]
            for asked in self.server.watches()
        ]


@asynccontextmanager
async def following(
    *watches: Script, lists: tuple[Script, ...] = (), optional: bool = False
) -> AsyncIterator[Follower]:
    """A reflector on a server that gives these answers; nothing may end it but the end of the test."""
    clock, copy = VirtualClock(), Copy()
    async with fake_server() as server, Client(server.config, clock=clock) as client:
        server.on(f"WATCH {PATH}", *watches)
        server.on(f"GET {PATH}", *lists)
        reflector = Reflector(client.of(Widget), copy, clock=clock, optional=optional)
        async with running(reflector.run()):
            yield Follower(server, client, clock, copy, reflector)


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


async def test_a_bad_request_that_is_not_about_streaming_is_reported_and_tried_less_and_less_often() -> None:
    async with following(refusal(400, "BadRequest", "wrong"), lists=(refusal(400, "BadRequest", "selector"),)) as it:
        await it.until(lambda: "selector" in (it.copy.problem or ""))
        before = it.clock.elapsed()
        count = len(it.server.lists())
        await it.until(lambda: it.clock.elapsed() >= before + 60)
        assert 5 <= len(it.server.lists()) - count <= 25


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


async def test_a_410_at_every_list_does_not_run_hot() -> None:
    async with following(refusal(410, "Expired")) as it:
        await it.until(lambda: it.clock.elapsed() >= 60)
        assert 20 <= len(it.server.watches()) <= 60


@pytest.mark.parametrize(
    "ended",
    [
        Watch(end="close"),
        Watch(bookmark(6), end="close"),
        Watch(end="cut"),
        Watch(bookmark(6), end="cut"),
        Watch(bookmark(6), EXPIRED),
        refusal(503),
        refusal(500),
        refusal(429, retry_after="1"),
        refusal(401),
        refusal(403),
        refusal(404),
        refusal(410),
        Raw(b"<html>", 502),
        Raw(b"", 302, {"Location": PATH}),
        Watch(b"garbage\n"),
        Watch(line("ERROR", []), end="close"),
        Watch(line("BOOKMARK", 5), end="close"),
        Watch(line("BOOKMARK", {}), end="close"),
        Watch(line("ADDED", "text"), end="close"),
    ],
    ids=[
        *("closed", "closed after an event", "cut", "cut after an event", "410 after an event", "503", "500", "429"),
        *("401", "403", "404", "410", "502", "302", "garbage", "no status", "no bookmark", "empty bookmark", "text"),
    ],
)
async def test_no_answer_makes_it_run_hot_and_none_ends_it(ended: Answer) -> None:
    def always(asked: Any) -> Answer:
        return Watch(streamed(version=5), end="close") if asked.query.get("sendInitialEvents") else ended

    async with following(always) as it:
        # Steps that are shorter than the shortest wait, so that each wait is seen.
        await it.until(lambda: it.clock.elapsed() >= 3, step=0.02)
        assert 2 <= len(it.server.watches()) <= 60
        if isinstance(ended, Watch) and ended.end == "close" and not ended.parts:
            assert len(it.server.watches()) <= 8, "nothing came: it must slow down"


@pytest.mark.parametrize(("asked_for", "waits"), [("4", 4.0), ("9999", 30.0)], ids=["4 s", "too long"])
async def test_a_server_that_asks_to_stay_away_is_left_alone_so_long(asked_for: str, waits: float) -> None:
    async with following(refusal(429, retry_after=asked_for), Watch(streamed(version=1))) as it:
        await until(lambda: it.copy.problem)
        await until(lambda: it.clock._timers)
        await it.clock.advance(waits - 0.1)
        assert len(it.server.watches()) == 1
        await it.clock.advance(0.2)
        await until(lambda: it.copy.completed)


async def test_a_server_that_has_forgotten_is_there_and_is_listed_soon() -> None:
    away = [refusal(503)] * 8
    async with following(
        Watch(streamed(version=5), end="close"), *away, refusal(410), Watch(streamed(version=9))
    ) as it:
        await it.until(lambda: len(it.server.watches()) == 10, step=0.02)
        before = it.clock.elapsed()
        await it.until(lambda: it.copy.completed == 2, step=0.02)
        assert it.clock.elapsed() - before < 0.5


async def test_a_server_that_cannot_be_reached_does_not_run_hot_and_is_met_soon_after_its_return() -> None:
    async with socket_server(b"") as gone:
        config = Config(server=gone.url)
    clock, copy = VirtualClock(), Copy()
    async with Client(config, clock=clock) as client:
        reflector = Reflector(client.of(Widget), copy, clock=clock)
        async with running(reflector.run()):
            await until(lambda: clock.elapsed() >= 60, clock=clock)
            assert 20 <= len(copy.problems) <= 60
            assert "widgets at http://127.0.0.1" in (copy.problem or "")


async def test_credentials_that_fail_for_a_while_end_nothing() -> None:
    class Credentials:
        failing = True

        async def headers(self) -> Mapping[str, str]:
            if self.failing:
                raise CredentialsError("user me: the token file is gone")
            return {}

        def refused(self) -> None:
            pass

    clock, copy, credentials = VirtualClock(), Copy(), Credentials()
    async with fake_server() as server:
        server.on(f"WATCH {PATH}", Watch(streamed(version=1)))
        client = Client(Config(server=server.url, credentials=credentials), clock=clock)
        async with client, running(Reflector(client.of(Widget), copy, clock=clock).run()):
            await until(lambda: len(copy.problems) > 2, clock=clock)
            assert copy.problem == "user me: the token file is gone"
            credentials.failing = False
            await until(lambda: copy.completed, clock=clock)
            assert copy.problem is None


async def test_a_broken_watch_is_resumed_where_it_stood() -> None:
    async with following(
        Watch(streamed(widget("a", 1), version=5), line("ADDED", widget("b", 6)), end="cut"),
        refusal(503),
        refusal(500),
        Watch(line("DELETED", widget("b", 8))),
    ) as it:
        await it.until(lambda: "drop b" in it.copy.told)
        await it.until(lambda: it.copy.problem is None)
        # aiohttp throws away what it holds when the connection breaks; what was not seen is asked for again.
        assert it.versions() in (["list", "6", "6", "6"], ["list", "5", "5", "5"], ["list", "list", "5", "5"])
        assert it.copy.completed == 1
        assert it.copy.versions == {"a": "1"}


async def test_what_came_before_garbage_is_not_lost() -> None:
    async with following(
        Watch(streamed(version=5), line("ADDED", widget("b", 6)) + b"garbage\n"),
        Watch(streamed(widget("b", 6), version=7)),
    ) as it:
        await it.until(lambda: it.copy.completed == 2)
        assert it.copy.versions == {"b": "6"}
        assert it.versions() == ["list", "list"], "after garbage nothing is believed"
        assert "not JSON" in " ".join(filter(None, it.copy.problems))


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


async def test_each_problem_is_said_once_and_another_one_at_once(caplog: pytest.LogCaptureFixture) -> None:
    answers: list[Script] = [refusal(403, "Forbidden", "may not")] * 4
    answers += [refusal(500, "", "broken")] * 4
    answers.append(Watch(streamed(version=1)))
    async with following(*answers) as it:
        await it.until(lambda: it.copy.completed)
    said = [str(getattr(record, "fields", {}).get("error")) for record in caplog.records]
    assert [text.rpartition(" ")[2] for text in said] == ["not", "broken"]


async def test_a_watch_that_lasted_counts_as_good_though_nothing_happened() -> None:
    ends = [asyncio.Event() for _ in range(4)]
    async with following(
        Watch(streamed(version=5), end="close"), *[Watch(event, end="close") for event in ends], Watch()
    ) as it:
        for number, event in enumerate(ends):
            await it.until(lambda number=number: len(it.server.watches()) == number + 2)
            await it.clock.advance(10)
            event.set()
        before = it.clock.elapsed()
        await it.until(lambda: len(it.server.watches()) == 6, step=0.02)
        assert it.clock.elapsed() - before < 1


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
