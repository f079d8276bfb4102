"""The reflector: whatever a server answers, the copy becomes true again, and no answer makes it run hot."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from edgewright.runtime.client import Client
from edgewright.runtime.clock import VirtualClock
from edgewright.runtime.config import Config
from edgewright.runtime.credentials import CredentialsError
from edgewright.runtime.reflector import Reflector
from tests.unit.runtime.fakeserver import (
    PATH,
    Answer,
    Raw,
    Script,
    Watch,
    Widget,
    bookmark,
    fake_server,
    line,
    refusal,
    running,
    socket_server,
    streamed,
    until,
    widget,
)
from tests.unit.runtime.reflector_stage import EXPIRED, Copy, following


async def test_a_bad_request_that_is_not_about_streaming_is_reported_and_tried_less_and_less_often() -> None:
    async with following(refusal(400, "BadRequest", "wrong"), lists=(refusal(400, "BadRequest", "selector"),)) as it:
        await it.until(lambda: "selector" in (it.copy.problem or ""))
        before = it.clock.elapsed()
        count = len(it.server.lists())
        await it.until(lambda: it.clock.elapsed() >= before + 60)
        assert 5 <= len(it.server.lists()) - count <= 25


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
