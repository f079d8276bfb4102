"""Events: sent in the background, added up, never in anybody's way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from edgewright.runtime import events
from edgewright.runtime.client import Client
from edgewright.runtime.clock import VirtualClock
from edgewright.runtime.events import Event, ObjectReference, Recorder, event_key
from edgewright.runtime.objects import Condition, Key
from tests.unit.runtime.fakeserver import Answer, Asked, FakeServer, Json, fake_server, refusal, running, typed, widget

POST = "POST /api/v1/namespaces/default/events"
X = typed(widget("x", 1))


def place(reason: str, message: str = "it did", kind: str = "Normal", about: str = "x") -> Key:
    """Where the event about a widget lives."""
    return event_key(ObjectReference(namespace="default", name=about, uid=f"uid-of-{about}"), kind, reason, message)


def at(key: Key) -> str:
    return Event.kind.path(*key)


def made(asked: Asked) -> Answer:
    """The server's answer to a create."""
    return Json({**asked.json, "metadata": {**asked.json["metadata"], "resourceVersion": "1"}})


def stored(count: int, version: str) -> Json:
    return Json({"metadata": {"name": "e", "namespace": "default", "resourceVersion": version}, "count": count})


class Desk:
    def __init__(self, server: FakeServer, recorder: Recorder, dropped: list[str], clock: VirtualClock) -> None:
        self.server, self.recorder, self.dropped, self.clock = server, recorder, dropped, clock

    async def sent(self) -> list[Asked]:
        """Everything that was written once all is said."""
        async with asyncio.timeout(180):
            await self.recorder.flush()
        return self.server.writes()


@asynccontextmanager
async def recording(*, running_already: bool = True, **settings: Any) -> AsyncIterator[Desk]:
    dropped: list[str] = []
    clock = VirtualClock()
    async with fake_server() as server, Client(server.config, clock=clock) as client:
        recorder = Recorder(client, "tests", clock=clock, dropped=dropped.append, **settings)
        desk = Desk(server, recorder, dropped, clock)
        if not running_already:
            yield desk
            return
        async with running(recorder.run()):
            yield desk


async def test_an_event_says_what_happened_to_whom() -> None:
    async with recording() as desk:
        desk.server.on(POST, made)
        desk.recorder.record(X, "Warning", "Broke", "it broke")
        (asked,) = await desk.sent()
        assert asked.json == {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": place("Broke", "it broke", "Warning").name, "namespace": "default"},
            "involvedObject": {
                "apiVersion": "example.dev/v1",
                "kind": "Widget",
                "namespace": "default",
                "name": "x",
                "uid": "uid-of-x",
                "resourceVersion": "1",
            },
            "type": "Warning",
            "reason": "Broke",
            "message": "it broke",
            "count": 1,
            "firstTimestamp": "2026-01-01T00:00:00Z",
            "lastTimestamp": "2026-01-01T00:00:00Z",
            "source": {"component": "tests"},
            "reportingComponent": "tests",
        }


async def test_what_repeats_before_it_is_sent_is_one_event_and_afterwards_a_count() -> None:
    async with recording() as desk:
        desk.server.on(POST, made)
        desk.server.on(f"PATCH {at(place('Did'))}", stored(5, "2"), stored(6, "3"))
        for _ in range(3):
            desk.recorder.record(X, "Normal", "Did", "it did")
        await desk.sent()
        await desk.clock.advance(60)
        for times in (2, 1):
            for _ in range(times):
                desk.recorder.record(X, "Normal", "Did", "it did")
            await desk.sent()
        create, *counts = await desk.sent()
        assert create.json["count"] == 3
        assert [asked.json for asked in counts] == [
            {"count": 5, "lastTimestamp": "2026-01-01T00:01:00Z", "metadata": {"resourceVersion": "1"}},
            {"count": 6, "lastTimestamp": "2026-01-01T00:01:00Z", "metadata": {"resourceVersion": "2"}},
        ]


@pytest.mark.parametrize("collision", ["made before us", "counted meanwhile"])
async def test_an_event_that_is_there_already_is_counted_on(collision: str) -> None:
    async with recording() as desk:
        path = at(place("Did"))
        desk.server.on(f"GET {path}", stored(7, "20"))
        if collision == "made before us":
            desk.server.on(POST, refusal(409, "AlreadyExists"))
            desk.server.on(f"PATCH {path}", stored(8, "21"))
        else:
            desk.server.on(POST, made)
            desk.server.on(f"PATCH {path}", refusal(409, "Conflict"), stored(8, "21"))
            desk.recorder.record(X, "Normal", "Did", "it did")
            await desk.sent()
        desk.recorder.record(X, "Normal", "Did", "it did")
        last = (await desk.sent())[-1]
        assert (last.json["count"], last.json["metadata"]) == (8, {"resourceVersion": "20"})
        assert desk.dropped == []


async def test_an_event_that_the_server_let_expire_is_made_again() -> None:
    async with recording() as desk:
        desk.server.on(POST, made)
        desk.server.on(f"PATCH {at(place('Did'))}", refusal(404, "NotFound"))
        for _ in range(2):
            desk.recorder.record(X, "Normal", "Did", "it did")
            await desk.sent()
        assert [asked.method for asked in await desk.sent()] == ["POST", "PATCH", "POST"]
        assert desk.dropped == []


async def test_an_event_that_others_keep_changing_is_given_up() -> None:
    async with recording() as desk:
        desk.server.on(POST, refusal(409, "AlreadyExists"))
        desk.server.on(f"GET {at(place('Did'))}", stored(1, "5"))
        desk.server.on(f"PATCH {at(place('Did'))}", refusal(409, "Conflict"))
        desk.recorder.record(X, "Normal", "Did", "it did")
        assert len(await desk.sent()) == 3
        assert desk.dropped == ["contended"]


@pytest.mark.parametrize("answer", [refusal(404, "NotFound"), refusal(403), refusal(500)], ids=["404", "403", "500"])
async def test_an_event_that_is_refused_is_dropped_and_the_next_one_is_sent(answer: Answer) -> None:
    async with recording() as desk:
        desk.server.on(POST, answer, made)
        desk.recorder.record(X, "Normal", "First", "it did")
        desk.recorder.record(X, "Normal", "Second", "it did")
        assert [asked.json["reason"] for asked in await desk.sent()] == ["First", "Second"]
        assert desk.dropped == ["refused"]


async def test_events_are_sent_in_the_order_in_which_they_happened() -> None:
    async with recording(running_already=False) as desk:
        desk.server.on(POST, made)
        for number in range(20):
            desk.recorder.record(X, "Normal", f"Reason{number}", "it did")
        async with running(desk.recorder.run()):
            assert [asked.json["reason"] for asked in await desk.sent()] == [f"Reason{n}" for n in range(20)]


async def test_more_than_fits_is_dropped_and_repeats_still_count() -> None:
    async with recording(running_already=False, capacity=2) as desk:
        desk.server.on(POST, made)
        for reason in ("A", "B", "C", "A", "C"):
            desk.recorder.record(X, "Normal", reason, "it did")
        assert desk.dropped == ["full", "full"]
        async with running(desk.recorder.run()):
            assert [(asked.json["reason"], asked.json["count"]) for asked in await desk.sent()] == [("A", 2), ("B", 1)]


async def test_a_recorder_that_nobody_listens_to_drops_silently() -> None:
    async with fake_server() as server, Client(server.config) as client:
        recorder = Recorder(client, "tests", capacity=0)
        recorder.record(X, "Normal", "Did", "it did")
        await recorder.flush()


async def test_only_so_many_events_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_REMEMBERED", 2)
    async with recording() as desk:
        desk.server.on(POST, made)
        for reason in ("A", "B", "C"):
            desk.recorder.record(X, "Normal", reason, "it did")
            await desk.sent()
        assert list(desk.recorder._known) == [place("B"), place("C")]


async def test_a_long_message_is_cut_to_what_the_server_takes() -> None:
    async with recording() as desk:
        desk.server.on(POST, made)
        desk.recorder.record(X, "Normal", "Long", "m" * 5000)
        (asked,) = await desk.sent()
        assert asked.json["message"] == "m" * 1024


async def test_conditions_become_events_only_when_status_or_reason_changes() -> None:
    before = (
        Condition(type="Ready", status="True", reason="Fine", message="old words"),
        Condition(type="Stalled", status="False", reason="Going"),
        Condition(type="Quiet", status="False"),
    )
    after = (
        Condition(type="Ready", status="True", reason="Fine", message="new words"),
        Condition(type="Stalled", status="True", reason="Stuck", message="it is stuck"),
        Condition(type="Reconciling", status="True", reason="Bad", message="bad luck"),
        Condition(type="Working", status="True", reason="Working", message="on it"),
        Condition(type="Quiet", status="True"),
    )
    async with recording() as desk:
        desk.server.on(POST, made)
        desk.recorder.record_transitions(X, before, after, bad=frozenset({"Bad"}))
        said = [(asked.json["reason"], asked.json["type"]) for asked in await desk.sent()]
        assert sorted(said) == [("Bad", "Warning"), ("Stuck", "Warning"), ("Working", "Normal")]
        desk.recorder.record_transitions(X, after, after)
        assert len(await desk.sent()) == 3


@pytest.mark.parametrize(
    ("name", "namespace", "start"),
    [
        ("x", "ns", Key("ns", "x.")),
        ("node-1", "", Key("default", "node-1.")),
        ("a" * 253, "ns", Key("ns", "a" * 230 + ".")),
        ("a" * 229 + "." + "b" * 20, "ns", Key("ns", "a" * 229 + ".")),
    ],
    ids=["namespaced", "cluster-scoped", "long", "cut at a dot"],
)
def test_where_an_event_lives(name: str, namespace: str, start: Key) -> None:
    about = ObjectReference(namespace=namespace, name=name, uid="u")
    key = event_key(about, "Normal", "R", "m")
    assert key.namespace == start.namespace
    assert key.name.startswith(start.name)
    assert len(key.name) == len(start.name) + 16 <= 253
    assert key == event_key(about, "Normal", "R", "m")
    assert key != event_key(about, "Normal", "R", "other")
