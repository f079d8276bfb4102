"""The client's watches: what they ask for, and how events are put together from whatever bytes arrive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.runtime import errors
from edgewright.runtime.client import Client, WatchEvent, read_metadata
from edgewright.runtime.errors import ApiError, Expired, InternalError, Undecodable, Unreachable
from tests.unit.runtime.fakeserver import (
    NESTED,
    PATH,
    FakeServer,
    Watch,
    Widget,
    bookmark,
    fake_server,
    line,
    status_body,
    widget,
)


async def watched(server: FakeServer, client: Client, **settings: Any) -> list[tuple[str, str]]:
    """The whole of a watch that ends, as (type, version)."""
    server.on(f"WATCH {PATH}", Watch(end="close"))
    seen = []
    async for events in client.of(Widget).watch(**settings):
        seen += [(event.type, read_metadata(event.object).resource_version) for event in events]
    return seen


async def test_a_watch_asks_for_what_it_needs() -> None:
    async with fake_server() as server, Client(server.config) as client:
        assert await watched(server, client, resource_version="5", seconds=7.9, labels="a=b") == []
        assert await watched(server, client, initial=True) == []
        first, second = (asked.query for asked in server.asked)
        assert first == {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": "7",
            "resourceVersion": "5",
            "labelSelector": "a=b",
        }
        assert 300 <= int(second.pop("timeoutSeconds")) <= 600
        assert second == {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
        }


async def test_the_first_batch_says_that_the_watch_stands() -> None:
    async with fake_server() as server, Client(server.config) as client:
        server.on(f"WATCH {PATH}", Watch())
        watch = client.of(Widget).watch()
        assert await anext(watch) == []
        await watch.aclose()


class Chunks:
    """A transport whose stream comes in just these chunks."""

    fence = None

    def __init__(self, chunks: list[bytes]) -> None:
        self.chunks = chunks

    def stream(self, *_: Any, **__: Any) -> Chunks:
        return self

    async def __aenter__(self) -> AsyncIterator[bytes]:
        return self._parts()

    async def __aexit__(self, *_: object) -> None:
        pass

    async def _parts(self) -> AsyncIterator[bytes]:
        for chunk in self.chunks:
            yield chunk


@given(
    cuts=st.sets(st.integers(1, 400), max_size=20),
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=6),
    rest=st.sampled_from([b"", b'{"type":"AD', b"\n", b"\n\n"]),
)
def test_events_are_the_same_however_the_bytes_are_cut(cuts: set[int], sizes: list[int], rest: bytes) -> None:
    from edgewright.runtime.client import Api

    expected = [("ADDED", "x" * size) for size in sizes]
    whole = b"".join(line(kind, text) for kind, text in expected) + rest
    places = [0, *sorted(cut for cut in cuts if cut < len(whole)), len(whole)]
    chunks = [whole[start:end] for start, end in pairwise(places)]

    async def run() -> list[WatchEvent]:
        api: Any = Api(Chunks(chunks), Widget.kind, Widget)  # type: ignore[arg-type]  # only its stream is used
        return [event async for batch in api.watch() for event in batch]

    assert [(event.type, msgspec.json.decode(event.object)) for event in asyncio.run(run())] == expected


async def test_a_large_object_comes_through_in_many_chunks() -> None:
    large = line("ADDED", widget("large", 1, note="x" * (3 << 20)))
    pieces = [large[start : start + 10_000] for start in range(0, len(large), 10_000)]
    async with fake_server() as server, Client(server.config) as client:
        server.on(f"WATCH {PATH}", Watch(*pieces, bookmark(2), end="close"))
        assert await watched(server, client) == [("ADDED", "1"), ("BOOKMARK", "2")]


async def test_a_line_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgewright.runtime.client._LARGEST_WATCH_LINE", 100_000)
    async with fake_server() as server, Client(server.config) as client:
        server.on(f"WATCH {PATH}", Watch(*[b"x" * 10_000] * 100))
        with pytest.raises(Undecodable, match="a watch event of more than"):
            await watched(server, client)


async def test_a_watch_that_is_cut_in_mid_line_is_unreachable() -> None:
    async with fake_server() as server, Client(server.config) as client:
        server.on(f"WATCH {PATH}", Watch(line("ADDED", widget("a", 1))[:20], end="cut"))
        with pytest.raises(Unreachable):
            await watched(server, client)


@pytest.mark.parametrize(
    ("sent_line", "expected", "message"),
    [
        (line("ERROR", status_body(410, "Expired", "too old")), Expired, "watch of widgets.*410 too old"),
        (line("ERROR", status_body(500, "InternalError")), InternalError, "500"),
        (line("ERROR", []), ApiError, r"\[\]"),
        (line("ERROR", None), ApiError, "null"),
        (line("ERROR", {"code": "x"}), ApiError, "code"),
        (line("ERROR", {"message": None, "code": 410}), ApiError, "410"),
        (b"garbage\n", Undecodable, "not JSON"),
        (b'{"type":"ADDED"}\n', Undecodable, "not JSON"),
        (b'{"type":"ADDED","object":' + NESTED + b"}\n", Undecodable, "not JSON"),
    ],
    ids=["410", "500", "a list", "null", "no number", "nulls", "garbage", "no object", "nested without end"],
)
async def test_a_watch_line_that_is_no_event_is_an_error_of_ours(
    sent_line: bytes, expected: type[errors.KubernetesError], message: str
) -> None:
    async with fake_server() as server, Client(server.config) as client:
        server.on(f"WATCH {PATH}", Watch(sent_line, end="close"))
        with pytest.raises(expected, match=message):
            await watched(server, client)


async def test_what_came_in_one_breath_with_an_error_is_given_out_first() -> None:
    body = line("ADDED", widget("a", 1)) + line("ERROR", status_body(410, "Expired"))
    async with fake_server() as server, Client(server.config) as client:
        server.on(f"WATCH {PATH}", Watch(body))
        watch = client.of(Widget).watch()
        assert await anext(watch) == []
        seen: list[WatchEvent] = []
        while not seen:
            seen += await anext(watch)
        assert [event.type for event in seen] == ["ADDED"]
        with pytest.raises(Expired):
            await anext(watch)
