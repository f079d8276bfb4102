"""Probes: what is asked, how often, and what follows from the answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from edgewright.local.node.folders import PodRecord
from edgewright.local.node.pods import Pod
from edgewright.local.node.probe_actions import Asker
from edgewright.local.node.probes import Probes, ProbeTarget, ask_http, ask_tcp, port_of
from edgewright.runtime.clock import VirtualClock
from edgewright.runtime.objects import Key, RawObject
from tests.unit.local.node.podspecs import NOW, pod, ran

RECORD = PodRecord(uid="u", namespace="default", name="pod", boot="b", taken_in=NOW, address="127.0.0.1")


class World:
    """Probes with answers that a test chooses, on a clock that it owns."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.answers: dict[str, str | Exception | None] = {}
        self.asked: list[str] = []
        self.changed: list[Key] = []
        self.said: list[str] = []
        self.hangs = False
        self.probes = Probes(
            self.ask, clock=self.clock, changed=self.changed.append, unhealthy=lambda _, text: self.said.append(text)
        )

    async def ask(self, asked: ProbeTarget, probe: RawObject) -> str | None:
        self.asked.append(probe["id"])
        if self.hangs:
            await asyncio.Event().wait()
        answer = self.answers.get(probe["id"])
        if isinstance(answer, Exception):
            raise answer
        return answer

    def follow(self, what: Pod, **attempts: Any) -> None:
        self.probes.follow(what, RECORD, attempts)


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    made = World()
    try:
        yield made
    finally:
        await made.probes.close()


def probed(**probes: dict[str, Any]) -> Pod:
    given = {f"{kind}Probe": {"id": kind, "periodSeconds": 1, **more} for kind, more in probes.items()}
    return pod(containers=[{"name": "main", **given}])


async def test_a_container_without_probes_is_started_and_ready() -> None:
    async with world() as here:
        here.follow(pod(), main=[ran()])
        assert here.probes.started("u") == here.probes.ready("u") == {"main": True}
        assert here.probes.failing("u") == frozenset()


async def test_readiness_follows_the_answers_by_their_thresholds() -> None:
    async with world() as here:
        here.answers["readiness"] = "not yet"
        here.follow(
            probed(readiness={"initialDelaySeconds": 2, "failureThreshold": 2, "successThreshold": 2}), main=[ran()]
        )
        assert here.probes.ready("u") == {"main": False}
        await here.clock.advance(2)
        assert here.said == ["Readiness probe failed: not yet"]
        here.answers["readiness"] = None
        await here.clock.advance(1)
        assert here.probes.ready("u") == {"main": False}
        await here.clock.advance(1)
        assert here.probes.ready("u") == {"main": True}
        here.answers["readiness"] = OSError("refused")
        await here.clock.advance(1)
        assert here.probes.ready("u") == {"main": True}
        await here.clock.advance(1)
        assert here.probes.ready("u") == {"main": False}
        assert here.changed == [Key("default", "pod")] * 2


async def test_the_others_wait_for_the_startup_probe() -> None:
    async with world() as here:
        here.answers["startup"] = "no"
        here.follow(probed(startup={"failureThreshold": 5}, liveness={}, readiness={}), main=[ran()])
        await here.clock.advance(0)
        assert here.asked == ["startup"]
        assert here.probes.started("u") == {"main": False}
        here.answers["startup"] = None
        await here.clock.advance(1)
        assert here.probes.started("u") == {"main": True}
        assert set(here.asked) == {"startup", "liveness", "readiness"}


@pytest.mark.parametrize("kind", ["startup", "liveness"])
async def test_a_container_that_fails_its_probe_too_often_must_be_ended(kind: str) -> None:
    async with world() as here:
        here.answers[kind] = "dead"
        here.follow(probed(**{kind: {"failureThreshold": 2}}), main=[ran()])
        await here.clock.advance(0)
        assert here.probes.failing("u") == frozenset()
        await here.clock.advance(1)
        assert here.probes.failing("u") == {"main"}
        here.follow(probed(**{kind: {}}), main=[ran(1)])
        assert here.probes.failing("u") == frozenset(), "the next attempt begins again"


async def test_an_answer_that_does_not_come_in_time_is_a_failure() -> None:
    async with world() as here:
        here.hangs = True
        here.follow(probed(readiness={"timeoutSeconds": 3}), main=[ran()])
        await here.clock.advance(3)
        assert here.said == ["Readiness probe failed: no answer in 3 s"]


async def test_a_container_that_ended_is_not_asked_any_more() -> None:
    async with world() as here:
        here.follow(probed(liveness={}), main=[ran()])
        await here.clock.advance(1)
        asked = len(here.asked)
        here.follow(probed(liveness={}), main=[ran(code=0)])
        await here.clock.advance(10)
        assert len(here.asked) == asked
        here.follow(probed(liveness={}), main=[ran(1)])
        here.probes.drop("u")
        assert here.probes.started("u") == {}


async def test_who_was_asked_last_is_waited_for_though_its_container_ended_before() -> None:
    asked, ended, done = asyncio.Event(), asyncio.Event(), []

    async def ask(*_: object) -> str | None:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            await ended.wait()  # as long as it takes to end a command next to the program
            done.append(True)
        return None

    clock = VirtualClock()
    probes = Probes(ask, clock=clock, changed=lambda _: None, unhealthy=lambda *_: None)
    probes.follow(probed(readiness={}), RECORD, {"main": [ran()]})
    await clock.advance(0)
    assert asked.is_set()
    probes.drop("u")
    closing = asyncio.create_task(probes.close())
    await asyncio.wait([closing], timeout=0.05)
    early = closing.done()
    ended.set()
    await closing
    assert (early, done) == (False, [True])


def test_a_port_by_number_or_name() -> None:
    container = {"ports": [{"name": "web", "containerPort": 80}]}
    assert port_of(container, 8080) == 8080
    assert port_of(container, "web") == 80
    assert port_of(container, "81") == 81
    with pytest.raises(OSError, match="no port named"):
        port_of(container, "other")


@asynccontextmanager
async def listening(answer: bytes) -> AsyncIterator[tuple[int, list[bytes]]]:
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(4096))
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], heard
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", None),
        (b"HTTP/1.1 503 No\r\n\r\n", "HTTP probe failed with statuscode: 503"),
        (b"rubbish\r\n", "HTTP probe failed with statuscode: 0"),
    ],
    ids=["good", "bad", "rubbish"],
)
async def test_an_http_probe_is_a_get(answer: bytes, problem: str | None) -> None:
    async with listening(answer) as (port, heard):
        probe = {"httpGet": {"path": "/ok", "port": port, "httpHeaders": [{"name": "X-A", "value": "b"}]}}
        assert await ask_http("127.0.0.1", {}, probe) == problem
        assert heard[0].startswith(b"GET /ok HTTP/1.1\r\n")
        assert b"X-A: b\r\n" in heard[0]


async def test_an_https_probe_on_a_port_without_tls_is_an_error() -> None:
    async with listening(b"no tls here\r\n") as (port, _):
        with pytest.raises(OSError, match=r".+"):
            await ask_http("127.0.0.1", {}, {"httpGet": {"port": port, "scheme": "HTTPS"}})


async def test_a_tcp_probe_is_a_connection() -> None:
    async with listening(b"") as (port, _):
        assert await ask_tcp("127.0.0.1", {}, {"tcpSocket": {"port": port}}) is None
    with pytest.raises(OSError, match=r".+"):
        await ask_tcp("127.0.0.1", {}, {"tcpSocket": {"port": port}})


class NoRuns:
    def get(self, uid: str) -> None:
        return None


@pytest.mark.parametrize(
    ("probe", "problem"),
    [({"exec": {"command": ["true"]}}, "there is nothing to run"), ({"grpc": {"port": 1}}, "grpc are not supported")],
    ids=["exec", "grpc"],
)
async def test_what_cannot_be_asked_is_a_failure(probe: RawObject, problem: str) -> None:
    asked = ProbeTarget(pod(), RECORD, {"name": "main"}, ran())
    answer = await Asker(NoRuns()).ask(asked, probe)  # type: ignore[arg-type]
    assert answer is not None
    assert problem in answer


async def test_each_kind_of_probe_goes_its_way() -> None:
    asked = ProbeTarget(pod(), RECORD, {"name": "main"}, ran())
    ask: Callable[..., Any] = Asker(NoRuns()).ask  # type: ignore[arg-type]
    async with listening(b"HTTP/1.1 200 OK\r\n\r\n") as (port, _):
        assert await ask(asked, {"tcpSocket": {"port": port}}) is None
        assert await ask(asked, {"httpGet": {"port": port}}) is None
