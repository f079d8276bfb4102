"""Events go an hour after they were last written; the next sweep is when the next one is due."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from edgewright.local.controllers.expiry import EventExpiry, written_at
from edgewright.local.controllers.resources import OldEvent
from edgewright.runtime import VirtualClock
from tests.unit.local.controllers.miniature import EVENT, client_of, miniature, until


@pytest.mark.parametrize(
    ("body", "hour"),
    [
        ({}, None),
        ({"metadata": {"creationTimestamp": "2026-01-01T01:00:00Z"}}, 1),
        ({"metadata": {"creationTimestamp": "2026-01-01T01:00:00Z"}, "lastTimestamp": "2026-01-01T02:00:00Z"}, 2),
        ({"eventTime": "2026-01-01T03:00:00.000000Z", "lastTimestamp": None}, 3),
        (
            {
                "eventTime": "2026-01-01T03:00:00.000000Z",
                "series": {"count": 2, "lastObservedTime": "2026-01-01T04:00:00.000000Z"},
            },
            4,
        ),
    ],
    ids=["nothing", "made", "repeated", "new kind", "series"],
)
def test_when_an_event_was_last_written(body: Any, hour: int | None) -> None:
    expected = None if hour is None else datetime(2026, 1, 1, hour, tzinfo=UTC)
    assert written_at(msgspec.convert(body, OldEvent)) == expected


async def test_only_old_events_go_and_the_next_sweep_is_when_one_is_due() -> None:
    clock = VirtualClock(datetime(2026, 1, 1, 1, 30, tzinfo=UTC))
    async with miniature() as server, client_of(server) as client:
        for number in range(20):
            server.make(EVENT, f"old-{number}")
        server.make(EVENT, "young", lastTimestamp="2026-01-01T01:00:00Z")
        server.make(EVENT, "silent", metadata={"creationTimestamp": None})
        expiry = EventExpiry(client, clock=clock)
        assert await expiry.sweep() == 30 * 60
        assert sorted(key.name for key in server.all(EVENT)) == ["silent", "young"]
        assert await EventExpiry(client, clock=VirtualClock(datetime(2026, 1, 1, tzinfo=UTC))).sweep() == 3600


async def test_an_event_that_is_written_again_meanwhile_stays() -> None:
    clock = VirtualClock(datetime(2026, 1, 1, 1, 30, tzinfo=UTC))
    async with miniature() as server, client_of(server) as client:
        server.make(EVENT, "again")
        server.refuse("DELETE", "/api/v1/namespaces/default/events/again", 409, "Conflict")
        await EventExpiry(client, clock=clock).sweep()
        assert server.get(EVENT, "again") is not None


async def test_it_sweeps_again_and_again_and_gets_over_failures() -> None:
    from tests.unit.runtime.fakeserver import running

    clock = VirtualClock(datetime(2026, 1, 1, 0, 59, tzinfo=UTC))
    async with miniature() as server, client_of(server) as client:
        server.make(EVENT, "first")
        server.refuse("GET", "/api/v1/events", 500, "InternalError")
        async with running(EventExpiry(client, clock=clock).run()):
            await until(lambda: ("GET", "/api/v1/events") in server.asked)
            async with _advancing(clock):
                await until(lambda: server.get(EVENT, "first") is None)
                server.make(EVENT, "second")
                await until(lambda: server.get(EVENT, "second") is None)


def _advancing(clock: VirtualClock) -> Any:
    import asyncio

    from tests.unit.runtime.fakeserver import running

    async def advance() -> None:
        while True:
            await clock.advance(30)
            await asyncio.sleep(0.001)

    return running(advance())
