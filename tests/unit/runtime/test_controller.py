"""Controllers: which keys a change brings, and what follows from how a pass ends. All on a virtual clock."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from edgewright.runtime.cache import Cache, Change
from edgewright.runtime.client import Client
from edgewright.runtime.clock import VirtualClock, settle
from edgewright.runtime.config import Config
from edgewright.runtime.controller import DONE, Controller, For, Maps, Owns, Result, requeue_after
from edgewright.runtime.errors import Conflict, LeaseLost, Status
from edgewright.runtime.metrics import Metrics
from edgewright.runtime.objects import Key, Kind
from edgewright.runtime.predicates import anything
from tests.unit.runtime.fakeserver import Widget, key, typed, widget

GADGET = Kind(group="example.dev", version="v1", kind="Gadget", plural="gadgets")
CLUSTER_GADGET = Kind(group="example.dev", version="v1", kind="Gadget", plural="gadgets", namespaced=False)


def widgets() -> Cache[Widget]:
    """A cache that nothing feeds but the test."""
    return Cache(Client(Config(server="http://127.0.0.1:1")).of(Widget), clock=VirtualClock())


class Passes:
    """A reconcile function that notes its passes and does what the test says."""

    def __init__(self, does: Callable[[Key, int], Awaitable[Any]] | None = None) -> None:
        self.seen: list[Key] = []
        self.at_once = 0
        self.most_at_once = 0
        self._does = does

    async def __call__(self, key: Key) -> Result | None:
        self.seen.append(key)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if self._does is None:
                return None
            result: Result | None = await self._does(key, self.seen.count(key))
            return result
        finally:
            self.at_once -= 1


@asynccontextmanager
async def working(controller: Controller) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(controller.run())
    await settle()
    try:
        yield task
    finally:
        controller.stop()
        await settle()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def value(metrics: Metrics, name: str, /, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


@pytest.mark.parametrize("count", [0, 2], ids=["none", "two"])
def test_a_controller_is_for_exactly_one_kind(count: int) -> None:
    with pytest.raises(ValueError, match=f"needs exactly one For, has {count}"):
        Controller("c", Passes(), *[For(widgets()) for _ in range(count)])


def test_a_controller_has_a_worker() -> None:
    with pytest.raises(ValueError, match="at least one worker"):
        Controller("c", Passes(), For(widgets()), workers=0)


async def test_what_is_there_is_passed_over_once_and_then_what_changes() -> None:
    cache, passes = widgets(), Passes()
    cache.put(typed(widget("old", 1)))
    async with working(Controller("c", passes, For(cache), clock=VirtualClock())):
        assert passes.seen == [key("old")]
        cache.put(typed(widget("new", 2)))
        await settle()
        status_only = widget("new", 2)
        status_only["metadata"]["resourceVersion"] = "3"
        cache.put(typed(status_only))
        await settle()
        assert passes.seen == [key("old"), key("new")]
        cache.drop(key("new"))
        await settle()
        assert passes.seen[2:] == [key("new")]


async def test_initial_objects_go_behind_what_happens_now() -> None:
    cache, passes = widgets(), Passes()
    for number in range(3):
        cache.put(typed(widget(f"old-{number}", 1)))  # before the first list is complete: initial
    controller = Controller("c", passes, For(cache), clock=VirtualClock())
    task = asyncio.create_task(controller.run())
    cache.keep_only("", {key(f"old-{number}") for number in range(3)})
    asyncio.get_running_loop().call_soon(lambda: cache.put(typed(widget("now", 5))))
    await settle()
    controller.stop()
    await task
    assert passes.seen == [key("now"), key("old-0"), key("old-1"), key("old-2")]


def owned(version: int, *owners: tuple[str, str, str, bool | None]) -> Widget:
    raw = widget("child", version)
    raw["metadata"]["ownerReferences"] = [
        {"apiVersion": api, "kind": kind, "name": name, "uid": "u", **({} if flag is None else {"controller": flag})}
        for api, kind, name, flag in owners
    ]
    return typed(raw)


@pytest.mark.parametrize(
    ("owners", "controlled", "primary", "expected"),
    [
        ([("example.dev/v1", "Gadget", "g", True)], True, GADGET, {Key("default", "g")}),
        ([("example.dev/v2beta1", "Gadget", "g", True)], True, GADGET, {Key("default", "g")}),
        ([("other.dev/v1", "Gadget", "g", True)], True, GADGET, set()),
        ([("example.dev/v1", "Gizmo", "g", True)], True, GADGET, set()),
        ([("example.dev/v1", "Gadget", "g", None)], True, GADGET, set()),
        ([("example.dev/v1", "Gadget", "g", False)], False, GADGET, {Key("default", "g")}),
        ([("example.dev/v1", "Gadget", "g", True)], True, CLUSTER_GADGET, {Key("", "g")}),
        ([("v1", "Gadget", "g", True)], True, GADGET, set()),
        ([], True, GADGET, set()),
    ],
    ids=[
        *("owner", "other version", "other group", "other kind", "not controlling", "any owner", "cluster-scoped"),
        *("core group", "nobody"),
    ],
)
def test_owns_finds_the_owner(owners: Any, controlled: bool, primary: Kind, expected: set[Key]) -> None:
    source = Owns(widgets(), controlled=controlled)
    assert set(source.keys(Change(None, owned(1, *owners)), primary)) == expected


def test_a_child_that_changes_owners_concerns_both() -> None:
    before = owned(1, ("example.dev/v1", "Gadget", "a", True))
    after = owned(2, ("example.dev/v1", "Gadget", "b", True))
    assert set(Owns(widgets()).keys(Change(before, after), GADGET)) == {Key("default", "a"), Key("default", "b")}


def test_maps_asks_before_and_after_the_change() -> None:
    source = Maps(widgets(), to=lambda obj: [Key("x", f"size-{obj.spec.size}")])
    change = Change(typed(widget("w", 1, size=1)), typed(widget("w", 2, size=2)))
    assert set(source.keys(change, GADGET)) == {Key("x", "size-1"), Key("x", "size-2")}
    assert set(source.keys(Change(None, typed(widget("w", 1, size=3))), GADGET)) == {Key("x", "size-3")}


@pytest.mark.parametrize("when", ["before the start", "while running"])
async def test_a_map_that_raises_for_one_object_does_not_cost_the_others_their_pass(when: str) -> None:
    def to(obj: Widget) -> list[Key]:
        if obj.metadata.name == "bad":
            raise KeyError("surprise")
        return [Key("mapped", obj.metadata.name)]

    cache, passes = widgets(), Passes()
    objects = [typed(widget(name, 1)) for name in ("bad", "good")]
    if when == "before the start":
        for obj in objects:
            cache.put(obj)
    async with working(Controller("c", passes, For(widgets()), Maps(cache, to=to), clock=VirtualClock())) as task:
        if when == "while running":
            for obj in objects:
                cache.put(obj)
            await settle()
        assert not task.done()
        assert passes.seen == [Key("mapped", "good")]


@pytest.mark.parametrize("result", [None, DONE], ids=["nothing", "done"])
async def test_a_pass_that_went_well_is_not_repeated(result: Result | None) -> None:
    async def does(_: Key, __: int) -> Result | None:
        return result

    clock, metrics, passes, cache = VirtualClock(), Metrics(process=False), Passes(does), widgets()
    cache.put(typed(widget("x", 1)))
    async with working(Controller("c", passes, For(cache), clock=clock, metrics=metrics)):
        await clock.advance(5000)
    assert len(passes.seen) == 1
    assert value(metrics, "controller_runtime_reconcile_total", controller="c", result="success") == 1


async def test_again_after_asks_for_another_pass_at_that_time() -> None:
    async def does(_: Key, count: int) -> Result:
        return requeue_after(30) if count < 3 else DONE

    clock, metrics, passes, cache = VirtualClock(), Metrics(process=False), Passes(does), widgets()
    cache.put(typed(widget("x", 1)))
    async with working(Controller("c", passes, For(cache), clock=clock, metrics=metrics)):
        await clock.advance(29.9)
        assert len(passes.seen) == 1
        await clock.advance(0.1)
        assert len(passes.seen) == 2
        await clock.advance(300)
    assert len(passes.seen) == 3
    assert value(metrics, "controller_runtime_reconcile_total", controller="c", result="requeue_after") == 2


async def test_a_pass_that_asks_for_the_next_at_once_leaves_others_their_turn() -> None:
    async def at_once(_: Key, count: int) -> Result:
        return requeue_after(0) if count < 10_000 else DONE

    passes = Passes(at_once)
    controller = Controller("c", passes, For(widgets()), clock=VirtualClock())
    async with working(controller):
        controller.queue.add(key("a"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert 0 < len(passes.seen) < 10


async def cancelled_inside() -> None:
    inner = asyncio.get_running_loop().create_future()
    inner.cancel()
    await inner


async def raising(error: Exception) -> None:
    raise error


async def returning(what: Any) -> Any:
    return what


@pytest.mark.parametrize(
    "fails",
    [
        lambda: raising(RuntimeError("boom")),
        lambda: raising(Conflict(Status(code=409))),
        lambda: raising(LeaseLost("for a moment")),
        lambda: raising(TimeoutError()),
        lambda: raising(ExceptionGroup("several", [ValueError("one")])),
        cancelled_inside,
        lambda: returning("again please"),
        lambda: returning(requeue_after("soon")),  # type: ignore[arg-type]  # what a careless author may return
    ],
    ids=["error", "conflict", "lease", "timeout", "group", "cancelled inside", "no result", "no number"],
)
async def test_a_pass_that_fails_is_tried_again_and_stops_nobody(fails: Callable[[], Awaitable[Any]]) -> None:
    async def does(key: Key, count: int) -> Any:
        return await fails() if key.name == "bad" and count < 4 else None

    clock, metrics, passes, cache = VirtualClock(), Metrics(process=False), Passes(does), widgets()
    cache.put(typed(widget("bad", 1)))
    cache.put(typed(widget("good", 1)))
    controller = Controller("c", passes, For(cache), clock=clock, metrics=metrics)
    async with working(controller) as task:
        assert passes.seen == [key("bad"), key("good")]
        assert controller.queue.failures(key("bad")) == 1
        await clock.advance(10)
        assert passes.seen.count(key("bad")) == 4
        assert controller.queue.failures(key("bad")) == 0
        await clock.advance(5000)
        assert len(passes.seen) == 5
        assert not task.done()
    assert value(metrics, "controller_runtime_reconcile_total", controller="c", result="error") == 3
    assert value(metrics, "controller_runtime_reconcile_total", controller="c", result="success") == 2
    assert value(metrics, "controller_runtime_active_workers", controller="c") == 0


async def test_a_pass_that_takes_too_long_is_ended_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    async def does(_: Key, count: int) -> None:
        if count == 1:
            await asyncio.Event().wait()

    clock, passes, cache = VirtualClock(), Passes(does), widgets()
    cache.put(typed(widget("slow", 1)))
    async with working(Controller("c", passes, For(cache), clock=clock, deadline=7)):
        await clock.advance(6.9)
        assert passes.at_once == 1
        await clock.advance(0.1)
        assert passes.at_once == 0
        await clock.advance(1)
        assert len(passes.seen) == 2
    assert ["timed out after 7 s" in record.getMessage() for record in caplog.records] == [True]


async def test_a_conflict_is_ordinary_and_no_error_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def does(_: Key, count: int) -> None:
        if count == 1:
            raise Conflict(Status(code=409))

    clock, passes, cache = VirtualClock(), Passes(does), widgets()
    cache.put(typed(widget("x", 1)))
    async with working(Controller("c", passes, For(cache), clock=clock)):
        await clock.advance(1)
    assert len(passes.seen) == 2
    assert not [record for record in caplog.records if record.levelno > logging.DEBUG]


async def test_workers_share_the_keys_and_never_one_key() -> None:
    release = asyncio.Event()

    async def does(_: Key, __: int) -> None:
        await release.wait()

    cache, metrics, passes, clock = widgets(), Metrics(process=False), Passes(does), VirtualClock()
    for number in range(5):
        cache.put(typed(widget(f"w{number}", 1)))
    controller = Controller("c", passes, For(cache, when=anything), workers=3, clock=clock, metrics=metrics)
    async with working(controller):
        assert passes.most_at_once == 3
        cache.put(typed(widget("w0", 2)))
        await clock.advance(4)
        assert passes.seen.count(key("w0")) == 1
        assert value(metrics, "workqueue_depth", name="c") == 2
        assert value(metrics, "workqueue_longest_running_processor_seconds", name="c") == 4
        assert value(metrics, "workqueue_unfinished_work_seconds", name="c") == 12
        assert value(metrics, "controller_runtime_max_concurrent_reconciles", controller="c") == 3
        release.set()
        await settle()
    assert passes.seen.count(key("w0")) == 2
    assert len(passes.seen) == 6
    assert passes.most_at_once == 3


async def test_a_stop_lets_the_pass_under_way_end_and_starts_no_other() -> None:
    release = asyncio.Event()

    async def does(_: Key, __: int) -> Result:
        await release.wait()
        return requeue_after(1)

    cache, passes, clock = widgets(), Passes(does), VirtualClock()
    cache.put(typed(widget("a", 1)))
    cache.put(typed(widget("b", 1)))
    controller = Controller("c", passes, For(cache), clock=clock)
    task = asyncio.create_task(controller.run())
    await settle()
    controller.stop()
    await settle()
    assert not task.done()
    release.set()
    await task
    await clock.advance(10)
    assert passes.seen == [key("a")]


async def test_a_controller_that_is_cancelled_ends() -> None:
    async def does(_: Key, __: int) -> None:
        await asyncio.Event().wait()

    cache, passes = widgets(), Passes(does)
    cache.put(typed(widget("a", 1)))
    task = asyncio.create_task(Controller("c", passes, For(cache)).run())
    await settle()
    assert passes.at_once == 1
    task.cancel()
    async with asyncio.timeout(180):
        await asyncio.gather(task, return_exceptions=True)
    assert task.cancelled()
    assert passes.at_once == 0
