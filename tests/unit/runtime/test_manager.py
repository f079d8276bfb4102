"""The manager: the gate before the work, the drain after it, and what ends it at once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from edgewright.runtime.client import Client
from edgewright.runtime.clock import VirtualClock
from edgewright.runtime.controller import For
from edgewright.runtime.errors import LeaseLost
from edgewright.runtime.lease import Lease
from edgewright.runtime.manager import LeaseSettings, Manager
from edgewright.runtime.objects import Key, Kind, Resource
from tests.unit.runtime.fakeserver import (
    PATH,
    Answer,
    Asked,
    FakeServer,
    Json,
    Watch,
    Widget,
    fake_server,
    key,
    refusal,
    running,
    streamed,
    until,
    widget,
)

LEASE = LeaseSettings(name="operator", namespace="system", identity="me")
LEASE_PATH = Lease.kind.path("system", "operator")
EVENTS = "POST /api/v1/namespaces/default/events"


def lease_answer(asked: Asked) -> Answer:
    """The server grants whatever is asked of the lease."""
    spec = asked.json.get("spec", {}) if asked.body else {}
    return Json({"metadata": {"name": "operator", "namespace": "system", "resourceVersion": "1"}, "spec": spec})


class Stage:
    def __init__(self, server: FakeServer, clock: VirtualClock, manager: Manager) -> None:
        self.server, self.clock, self.manager = server, clock, manager
        self.passes: list[Key] = []
        self.ended: list[Key] = []
        self.block: asyncio.Event | None = None

    async def reconcile(self, key: Key) -> None:
        self.passes.append(key)
        if self.block is not None:
            await self.block.wait()
        self.ended.append(key)

    async def until(self, condition: Any, *, step: float = 0.1) -> None:
        await until(condition, clock=self.clock, step=step)

    async def page(self, which: str, path: str) -> tuple[int, str]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self.manager.listening[which]}{path}") as answer,
        ):
            return answer.status, await answer.text()


@asynccontextmanager
async def stage(**settings: Any) -> AsyncIterator[Stage]:
    clock = VirtualClock()
    async with fake_server() as server:
        manager = Manager(Client(server.config, clock=clock), clock=clock, **settings)
        server.on(f"GET {LEASE_PATH}", refusal(404, "NotFound"))
        server.on("POST /apis/coordination.k8s.io/v1/namespaces/system/leases", lease_answer)
        yield Stage(server, clock, manager)


def one_widget(server: FakeServer) -> None:
    server.on(f"WATCH {PATH}", Watch(streamed(widget("a", 1), version=5)))


async def test_nothing_is_reconciled_before_every_cache_is_full_and_this_process_leads() -> None:
    class Gadget(Resource, frozen=True, gc=False, kw_only=True):
        kind = Kind(group="example.dev", version="v1", kind="Gadget", plural="gadgets")

    async with stage(lease=LEASE) as it:
        go = asyncio.Event()
        one_widget(it.server)
        it.server.on(f"WATCH {Gadget.kind.path()}", Watch(go, streamed(version=3)))
        it.server.on(f"PATCH {LEASE_PATH}", lease_answer)
        it.manager.cache(Gadget)
        it.manager.controller("c", it.reconcile, For(it.manager.cache(Widget)))
        async with running(it.manager.run()):
            await it.until(lambda: it.manager.cache(Widget).synced and it.clock.elapsed() > 5)
            assert it.passes == []
            assert it.server.writes() == [], "nor is the lease asked for"
            go.set()
            await it.until(lambda: it.passes)
            assert it.passes == [key("a")]
            assert it.server.writes()[0].json["spec"]["holderIdentity"] == "me"


async def test_a_new_leader_works_when_its_caches_have_what_its_predecessor_wrote_last() -> None:
    async with stage(lease=LEASE) as it:
        go = asyncio.Event()
        one_widget(it.server)
        it.server.on(f"WATCH {PATH}", Watch(go, streamed(widget("a", 9), version=12)))
        it.server.on(f"PATCH {LEASE_PATH}", lease_answer)
        cache = it.manager.cache(Widget)
        versions = []

        async def reconcile(key: Key) -> None:
            seen = cache.get(key)
            versions.append(seen and seen.metadata.resource_version)

        it.manager.controller("c", reconcile, For(cache))
        async with running(it.manager.run()):
            await it.until(lambda: len(it.server.watches()) == 2 and it.clock.elapsed() > 30)
            assert it.server.writes()[0].json["spec"]["holderIdentity"] == "me"
            assert it.manager.leads, "the lease is held meanwhile"
            assert versions == []
            go.set()
            await it.until(lambda: versions)
            assert versions == ["9"]


async def test_a_stop_before_a_new_leader_has_caught_up_gives_the_lease_back() -> None:
    async with stage(lease=LEASE) as it:
        one_widget(it.server)
        it.server.on(f"WATCH {PATH}", Watch())
        it.server.on(f"PATCH {LEASE_PATH}", lease_answer)
        it.manager.controller("c", it.reconcile, For(it.manager.cache(Widget)))
        async with running(it.manager.run()) as task:
            await it.until(lambda: len(it.server.watches()) == 2)
            it.manager.stop()
            await until(task.done)
            task.result()
        assert it.passes == []
        assert it.server.writes()[-1].json["spec"]["holderIdentity"] is None


async def test_a_stop_lets_the_pass_under_way_end_and_gives_the_lease_back() -> None:
    async with stage(lease=LEASE) as it:
        one_widget(it.server)
        it.server.on(f"PATCH {LEASE_PATH}", lease_answer)
        it.block = asyncio.Event()
        it.manager.controller("c", it.reconcile, For(it.manager.cache(Widget)))
        async with running(it.manager.run()) as task:
            await it.until(lambda: it.passes)
            it.manager.stop()
            it.manager.stop()
            await it.clock.advance(1)
            assert not task.done()
            it.block.set()
            await until(task.done)
        assert it.ended == [key("a")]
        assert it.server.writes()[-1].json["spec"]["holderIdentity"] is None


async def test_a_pass_that_does_not_end_is_cut_off_after_the_drain_time_and_the_lease_is_left_to_run_out() -> None:
    async with stage(lease=LEASE, drain_seconds=30) as it:
        one_widget(it.server)
        it.server.on(f"PATCH {LEASE_PATH}", lease_answer)
        it.block = asyncio.Event()
        it.manager.controller("c", it.reconcile, For(it.manager.cache(Widget)), deadline=1000)
        async with running(it.manager.run()) as task:
            await it.until(lambda: it.passes)
            it.manager.stop()
            begun = it.clock.elapsed()
            await it.until(task.done)
            assert 29 <= it.clock.elapsed() - begun <= 31
        assert it.ended == []
        assert not [asked for asked in it.server.writes() if asked.json["spec"].get("holderIdentity", "") is None]


async def test_without_a_lease_the_work_begins_when_the_caches_are_full() -> None:
    async with stage() as it:
        one_widget(it.server)
        it.manager.controller("c", it.reconcile, For(it.manager.cache(Widget)), workers=3)
        assert it.manager.client.transport.connections == 4
        async with running(it.manager.run()) as task:
            await it.until(lambda: it.ended)
            it.manager.stop()
            await until(task.done)
        assert it.server.writes() == []


async def test_an_optional_kind_that_is_not_installed_keeps_nothing_from_working_or_being_ready() -> None:
    class Gadget(Resource, frozen=True, gc=False, kw_only=True):
        kind = Kind(group="example.dev", version="v1", kind="Gadget", plural="gadgets")

    async with stage(health_port=0) as it:
        one_widget(it.server)
        it.server.on(f"WATCH {Gadget.kind.path()}", refusal(404, "NotFound"))
        gadgets = it.manager.cache(Gadget, optional=True)
        it.manager.controller("c", it.reconcile, For(it.manager.cache(Widget)))
        async with running(it.manager.run()):
            await it.until(lambda: it.passes)
            assert it.passes == [key("a")]
            assert gadgets.synced
            assert len(gadgets) == 0
            assert (await it.page("health", "/readyz"))[0] == 200


async def test_a_lost_lease_ends_everything_at_once() -> None:
    async with stage(lease=LEASE) as it:
        one_widget(it.server)
        it.server.on(f"PATCH {LEASE_PATH}", refusal(500))
        it.block = asyncio.Event()
        it.manager.controller("c", it.reconcile, For(it.manager.cache(Widget)), deadline=1000)
        task = asyncio.create_task(it.manager.run())
        await it.until(task.done)
        with pytest.raises(LeaseLost):
            await task
        assert it.passes == [key("a")]
        assert it.ended == []
        assert 10 <= it.clock.elapsed() <= 13, "no drain"


async def test_a_stop_before_the_caches_are_full_ends_it() -> None:
    async with stage(lease=LEASE) as it:
        it.server.on(f"WATCH {PATH}", Watch())
        it.manager.controller("c", it.reconcile, For(it.manager.cache(Widget)))
        async with running(it.manager.run()) as task:
            await it.until(it.server.watches)
            it.manager.stop()
            await until(task.done)
        assert it.server.writes() == []


async def test_a_stop_while_another_leads_ends_it() -> None:
    async with stage(lease=LEASE) as it:
        one_widget(it.server)
        other = {"metadata": {"resourceVersion": "1"}, "spec": {"holderIdentity": "other"}}
        it.server._scripts[f"GET {LEASE_PATH}"].clear()
        it.server.on(f"GET {LEASE_PATH}", Json(other))
        it.manager.controller("c", it.reconcile, For(it.manager.cache(Widget)))
        async with running(it.manager.run()) as task:
            await it.until(lambda: any(asked.path == LEASE_PATH for asked in it.server.asked))
            it.manager.stop()
            await until(task.done)
        assert it.passes == []


async def test_a_controller_that_raises_does_not_stop_the_others() -> None:
    async def broken(_: Key) -> None:
        raise RuntimeError("always")

    async with stage() as it:
        one_widget(it.server)
        it.manager.controller("broken", broken, For(it.manager.cache(Widget)))
        it.manager.controller("fine", it.reconcile, For(it.manager.cache(Widget)))
        async with running(it.manager.run()):
            await it.until(lambda: it.clock.elapsed() > 5)
            assert it.ended == [key("a")]


async def test_the_pages_tell_what_is_wrong_and_what_happened() -> None:
    async with stage(health_port=0, metrics_port=0, lease=LEASE) as it:
        it.server.on(f"WATCH {PATH}", refusal(403, "Forbidden", "may not watch"), Watch(streamed(version=5)))
        it.server.on(f"PATCH {LEASE_PATH}", lease_answer)
        it.manager.controller("c", it.reconcile, For(it.manager.cache(Widget)))
        cache = it.manager.cache(Widget)
        async with running(it.manager.run()):
            await until(lambda: "may not" in (cache.problem or "") and len(it.manager.listening) == 2)
            status, text = await it.page("health", "/readyz")
            assert status == 503
            assert "cache of widgets.example.dev failed" in text
            assert "may not watch" in text
            assert (await it.page("health", "/livez"))[0] == 200
            await it.until(lambda: it.manager.leadership and it.manager.leadership.leading)
            assert (await it.page("health", "/readyz"))[0] == 200
            text = (await it.page("metrics", "/metrics"))[1]
            assert 'leader_election_master_status{name="operator"} 1.0' in text
            assert 'code="403"' in text
            assert 'controller_runtime_max_concurrent_reconciles{controller="c"} 1.0' in text


async def test_a_port_that_is_taken_is_said_and_nothing_is_left_open() -> None:
    from edgewright.runtime.health import ListenError

    async with stage(metrics_port=0) as first, running(first.manager.run()):
        await until(lambda: first.manager.listening)
        async with stage(metrics_port=0, health_port=first.manager.listening["metrics"]) as second:
            with pytest.raises(ListenError, match="another program listens there already"):
                await second.manager.run()


async def test_caches_are_shared_and_follow_the_managers_namespaces() -> None:
    class Zone(Resource, frozen=True, gc=False, kw_only=True):
        kind = Kind(group="", version="v1", kind="Zone", plural="zones", namespaced=False)

    async with stage(namespaces=("one", "two")) as it:
        assert it.manager.cache(Widget) is it.manager.cache(Widget)
        assert it.manager.cache(Widget) is not it.manager.cache(Widget, labels="a=b")
        it.manager.cache(Zone)
        for path in (Widget.kind.path("one"), Widget.kind.path("two"), "/api/v1/zones"):
            it.server.on(f"WATCH {path}", Watch(streamed(version=1)))
        async with running(it.manager.run()):
            await it.until(lambda: it.manager.cache(Zone).synced and it.manager.cache(Widget).synced)
            await it.until(lambda: it.manager.cache(Widget, labels="a=b").synced)
        assert sorted({asked.path for asked in it.server.watches()}) == [
            "/api/v1/zones",
            "/apis/example.dev/v1/namespaces/one/widgets",
            "/apis/example.dev/v1/namespaces/two/widgets",
        ]


async def test_events_under_way_are_sent_before_the_end() -> None:
    async with stage() as it:
        one_widget(it.server)
        it.server.on(EVENTS, lambda asked: Json(asked.json))

        async def reconcile(key: Key) -> None:
            found = it.manager.cache(Widget).get(key)
            assert found is not None
            it.manager.recorder.record(found, "Normal", "Seen", "it was seen")
            it.manager.stop()

        it.manager.controller("c", reconcile, For(it.manager.cache(Widget)))
        async with running(it.manager.run()) as task:
            await until(task.done)
        assert [asked.json["reason"] for asked in it.server.writes()] == ["Seen"]


async def test_a_part_that_ends_by_itself_ends_the_whole() -> None:
    async with stage() as it:
        one_widget(it.server)
        controller = it.manager.controller("c", it.reconcile, For(it.manager.cache(Widget)))
        task = asyncio.create_task(it.manager.run())
        await it.until(lambda: it.ended)
        controller.stop()
        await until(task.done)
        with pytest.raises(RuntimeError, match="controller c ended by itself"):
            await task


async def test_signals_are_heard_while_it_runs_and_left_alone_afterwards() -> None:
    before = signal.getsignal(signal.SIGTERM)
    async with stage() as it:
        one_widget(it.server)
        it.manager.cache(Widget)
        async with running(it.manager.run(signals=True)) as task:
            await it.until(lambda: it.manager.cache(Widget).synced)
            os.kill(os.getpid(), signal.SIGTERM)
            await until(task.done)
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
async def test_a_signal_drains_a_process(number: signal.Signals) -> None:
    root = Path(__file__).parents[3]
    async with fake_server() as server:
        one_widget(server)
        go = asyncio.Event()

        async def goodbye(_: Asked) -> Answer:
            await go.wait()
            return Json({})

        server.on("GET /hello", Json({}))
        server.on("GET /goodbye", goodbye)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.unit.runtime.operator_process", server.url),
            cwd=root,
            env={**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            await until(lambda: any(asked.path == "/goodbye" for asked in server.asked))
            process.send_signal(number)
            go.set()
            async with asyncio.timeout(120):
                output, errors = await process.communicate()
            assert (process.returncode, output, errors) == (0, b"drained\n", b"")
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()


async def test_work_in_the_background_runs_while_this_process_leads_and_ends_before_the_lease_is_given_back() -> None:
    seen: list[str] = []

    async def work() -> None:
        seen.append("began")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(f"ended, leading: {leadership.leading}")

    async with stage(lease=LEASE) as it:
        one_widget(it.server)
        it.server.on(f"PATCH {LEASE_PATH}", lease_answer)
        assert it.manager.leadership is not None
        leadership = it.manager.leadership
        it.manager.controller("c", it.reconcile, For(it.manager.cache(Widget)))
        it.manager.background("work", work)
        async with running(it.manager.run()) as task:
            await it.until(lambda: it.ended)
            assert seen == ["began"]
            it.manager.stop()
            await until(task.done)
    assert seen == ["began", "ended, leading: True"]
