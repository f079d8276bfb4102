"""Streams: the present state, every change, and going on after a cut."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from edgewright.console.limits import Limits
from edgewright.console.messages import message
from tests.harness import wait_until_async
from tests.unit.console.consoles import IN_DEFAULT, PLENTY, WIDGETS, Portal, consoles, widget
from tests.unit.console.events import Event, events, until


async def test_the_state_comes_first_and_then_every_change(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        await portal("PUT", f"{IN_DEFAULT}/one", widget("one"))
        async with portal.stream(f"of={WIDGETS}&namespace=default") as response:
            assert (response.status, response.headers["Content-Type"]) == (200, "text/event-stream")
            source = events(response)
            begin = await until(source, "synced")
            assert [each.name for each in begin] == ["added", "synced"]
            assert begin[0].what == ("added", "one")
            assert begin[0].id == ""
            assert begin[1].id
            await portal("PUT", f"{IN_DEFAULT}/two", widget("two"))
            await portal("PATCH", f"{IN_DEFAULT}/one", {"spec": {"size": 8}})
            await portal("DELETE", f"{IN_DEFAULT}/two")
            seen = await until(source, "deleted")
            assert [each.what for each in seen] == [("added", "two"), ("modified", "one"), ("deleted", "two")]
            assert all(each.id and "managedFields" not in each.data["metadata"] for each in seen)


async def test_a_stream_goes_on_after_the_last_event_that_was_seen(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        async with portal.stream(f"of={WIDGETS}") as response:
            last = (await until(events(response), "synced"))[-1].id
        await portal("PUT", f"{IN_DEFAULT}/one", widget("one"))
        await portal("PUT", f"{IN_DEFAULT}/two", widget("two"))
        async with portal.stream(f"of={WIDGETS}", Last_Event_ID=last) as response:
            source = events(response)
            first = (await until(source, "added"))[-1]
            assert first.what == ("added", "one")
        async with portal.stream(f"of={WIDGETS}&name=two", Last_Event_ID=first.id) as response:
            assert (await until(events(response), "added"))[-1].what == ("added", "two")


@pytest.mark.parametrize("last", ["99999999999", "from-another-world"])
async def test_a_place_that_nobody_knows_begins_with_a_reset(tmp_path: Path, last: str) -> None:
    async with consoles(tmp_path) as portal:
        await portal("PUT", f"{IN_DEFAULT}/one", widget("one"))
        async with portal.stream(f"of={WIDGETS}", Last_Event_ID=last) as response:
            seen = await until(events(response), "synced")
            assert [each.name for each in seen] == ["reset", "added", "synced"]


async def test_a_place_that_is_too_old_begins_with_a_reset(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        async with portal.stream(f"of={WIDGETS}") as response:
            last = (await until(events(response), "synced"))[-1].id
        await portal("PUT", f"{IN_DEFAULT}/one", widget("one"))
        await portal("PUT", f"{IN_DEFAULT}/one", widget("one", size=9))
        await portal.api.store.compact(portal.api.store.revision)
        async with portal.stream(f"of={WIDGETS}", Last_Event_ID=last) as response:
            seen = await until(events(response), "synced")
            assert [each.name for each in seen] == ["reset", "added", "synced"]


async def test_a_quiet_stream_says_that_it_is_still_there_and_outlives_its_watch(tmp_path: Path) -> None:
    quick = replace(PLENTY, heartbeat=0.05, recheck=1.0)
    async with consoles(tmp_path, limits=quick) as portal, portal.stream(f"of={WIDGETS}") as response:
        source = events(response)
        await until(source, "synced")
        beats = 0
        async for event in source:
            beats += event.comment == "still here"
            if beats > 30:
                break
        await portal("PUT", f"{IN_DEFAULT}/one", widget("one"))
        assert (await until(source, "added"))[-1].what == ("added", "one")


async def test_a_stream_has_an_end_and_the_client_comes_again(tmp_path: Path) -> None:
    async with consoles(tmp_path, limits=replace(PLENTY, stream_seconds=0.2)) as portal:
        async with portal.stream(f"of={WIDGETS}") as response:
            text = (await response.read()).decode()
        assert text.startswith("retry: 3000\n\n")
        assert "event: synced" in text


async def test_streams_are_counted_by_caller_and_free_again_afterwards(tmp_path: Path) -> None:
    async with consoles(tmp_path, limits=replace(PLENTY, streams_per_caller=1)) as portal:
        async with portal.stream(f"of={WIDGETS}") as response:
            await until(events(response), "synced")
            async with portal.stream(f"of={WIDGETS}") as refused:
                assert (refused.status, refused.headers["Retry-After"]) == (429, "5")

        async def taken() -> bool:
            async with portal.stream(f"of={WIDGETS}") as again:
                return bool(again.status == 200)

        await wait_until_async(taken, what="the stream that was left is counted no more")


async def test_a_stream_that_nobody_may_open_is_a_problem_and_not_a_stream(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        answer = await portal("GET", f"/api/v1/stream?of={WIDGETS}", token="wrong")
        assert (answer.status, answer.body["type"]) == (401, "/api/v1/problems/unauthorized")


async def test_a_stream_ends_with_the_problem_when_the_server_goes(tmp_path: Path) -> None:
    quick = replace(PLENTY, recheck=1.0)
    async with consoles(tmp_path, limits=quick) as portal, portal.stream(f"of={WIDGETS}") as response:
        source = events(response)
        await until(source, "synced")
        portal.api.kinds.set_custom([])
        last = (await until(source, "problem"))[-1]
        assert last.data["status"] == 404
        assert [event async for event in source] == []


async def test_the_end_of_the_console_ends_its_streams(tmp_path: Path) -> None:
    async def follow(portal: Portal, begun: asyncio.Event) -> list[Event]:
        async with portal.stream(f"of={WIDGETS}") as response:
            source = events(response)
            await until(source, "synced")
            begun.set()
            return [event async for event in source]

    async with consoles(tmp_path) as portal:
        begun = asyncio.Event()
        following = asyncio.create_task(follow(portal, begun))
        await begun.wait()
        portal.console.stop_streams()
        assert [event for event in await following if event.name] == []


def test_an_event_is_one_line_per_field() -> None:
    assert message("added", {"a": "b\nc"}, identifier="7") == b'id: 7\nevent: added\ndata: {"a":"b\\nc"}\n\n'
    assert message("synced", {}) == b"event: synced\ndata: {}\n\n"


def test_the_limits_that_the_pages_name_are_those_of_the_code() -> None:
    limits = Limits()
    assert (limits.heartbeat, limits.body_bytes, limits.streams_per_caller) == (15.0, 1 << 20, 5)
    assert (limits.reads_per_second, limits.writes_per_second, limits.recheck) == (20.0, 5.0, 30.0)
