"""Managers at work on both API servers: which objects they reconcile, when, and how it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from edgewright.runtime import For, Key, Maps, ObjectMeta, Owns, Result, requeue_after
from edgewright.runtime.errors import NotFound
from edgewright.runtime.objects import owner_reference
from tests.cluster.kinds import Loose, Widget, WidgetStatus, install, widget
from tests.cluster.managers import manager_for
from tests.cluster.support import connected, eventually, in_parallel, ready, requests, running
from tests.harness import ApiServer


async def test_a_manager_of_some_namespaces_works_on_those_only(api_server: ApiServer, namespace: str) -> None:
    second, third = [await asyncio.to_thread(api_server.create_namespace, "other") for _ in range(2)]
    passes: set[Key] = set()

    async def reconcile(key: Key) -> None:
        passes.add(key)

    async with connected(api_server) as client:
        await install(client, Widget)
        api = client.of(Widget)
        for each in (namespace, second, third):
            await api.create(widget(each, "before"))
        manager = manager_for(api_server.kubeconfig, namespaces=[namespace, second])
        manager.controller("widget", reconcile, For(manager.cache(Widget)))
        async with running(manager):
            await eventually(lambda: len(passes) == 2, what="what was there is reconciled")
            for each in (third, second, namespace):
                await api.create(widget(each, "after"))
            await eventually(lambda: len(passes) == 4, what="what came is reconciled")
        assert passes == {Key(each, name) for each in (namespace, second) for name in ("before", "after")}


async def test_a_pass_whose_object_changed_meanwhile_is_made_again_and_ends_right(
    api_server: ApiServer, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        api = client.of(Widget)
        made = await api.create(widget(namespace, "one", count=1))
        manager = manager_for(api_server.kubeconfig, namespaces=[namespace])
        cache = manager.cache(Widget)
        passes = 0

        async def reconcile(key: Key) -> None:
            nonlocal passes
            passes += 1
            obj = cache.get(key)
            assert obj is not None
            if passes == 1:
                await api.patch(key, {"spec": {"count": 2}})  # somebody else is faster
            await manager.client.of(Widget).write_status(obj, WidgetStatus(count=obj.spec.count))

        manager.controller("widget", reconcile, For(cache))
        async with running(manager):

            async def right() -> bool:
                return (await api.get(made.key)).status == WidgetStatus(count=2)

            await eventually(right, what="the status shows the last count")
            # The server shows a write before its answer is counted.
            await eventually(lambda: requests(manager, "PATCH") >= 2, what="the refused write was made again")
        assert not [record for record in caplog.records if record.levelno >= logging.WARNING], "conflicts are ordinary"


async def test_two_controllers_that_write_the_same_object_both_end_right(api_server: ApiServer, namespace: str) -> None:
    async with connected(api_server) as client:
        await install(client, Widget)
        api = client.of(Widget)
        await in_parallel(api.create(widget(namespace, f"w{index:02}", count=index)) for index in range(30))
        manager = manager_for(api_server.kubeconfig, namespaces=[namespace])
        cache = manager.cache(Widget)

        def writer(change: Callable[[Widget], WidgetStatus]) -> Callable[[Key], Awaitable[None]]:
            async def reconcile(key: Key) -> None:
                obj = cache.get(key)
                if obj is not None:
                    await manager.client.of(Widget).write_status(obj, change(obj))

            return reconcile

        def phased(obj: Widget) -> WidgetStatus:
            return WidgetStatus(phase="Done", count=obj.status.count if obj.status else 0)

        def counted(obj: Widget) -> WidgetStatus:
            return WidgetStatus(phase=obj.status.phase if obj.status else "", count=obj.spec.count)

        manager.controller("phase", writer(phased), For(cache), workers=4)
        manager.controller("count", writer(counted), For(cache), workers=4)
        async with running(manager):

            async def right() -> bool:
                items = (await api.list(namespace)).items
                return all(each.status == WidgetStatus(phase="Done", count=each.spec.count) for each in items)

            await eventually(right, what="every status is whole")


async def test_an_object_that_did_not_decode_is_reconciled_once_it_is_repaired(
    api_server: ApiServer, namespace: str
) -> None:
    async with connected(api_server) as client:
        await install(client, Loose)
        raw = client.raw(Loose.kind)
        for name, count in (("bad", "three"), ("good", 1)):
            await raw.create(
                {
                    "apiVersion": Loose.kind.api_version,
                    "kind": "Loose",
                    "metadata": {"name": name, "namespace": namespace},
                    "spec": {"count": count},
                }
            )
        manager = manager_for(api_server.kubeconfig, namespaces=[namespace])
        cache = manager.cache(Loose)
        counts: dict[str, int] = {}

        async def reconcile(key: Key) -> None:
            obj = cache.get(key)
            if obj is not None:
                counts[key.name] = obj.spec.count

        manager.controller("loose", reconcile, For(cache))
        async with running(manager):
            await eventually(lambda: counts == {"good": 1}, what="the readable one is reconciled")
            assert await ready(manager)
            page = manager.metrics.render().decode()
            assert f'edgewright_cache_undecodable_objects{{kind="{Loose.kind.resource}"}} 1.0' in page
            await raw.patch(Key(namespace, "good"), {"spec": {"count": 2}})
            await eventually(lambda: counts == {"good": 2}, what="the rest goes on")
            await raw.patch(Key(namespace, "bad"), {"spec": {"count": 3}})
            await eventually(lambda: counts == {"good": 2, "bad": 3}, what="the repaired one is reconciled")


async def test_a_controller_hears_of_what_its_objects_own_and_of_what_concerns_them(
    api_server: ApiServer, namespace: str
) -> None:
    """Each `parent-…` has a child of its name; a widget called `wake` concerns them all."""
    async with connected(api_server) as client:
        await install(client, Widget)
        api = client.of(Widget)
        manager = manager_for(api_server.kubeconfig, namespaces=[namespace])
        widgets = manager.cache(Widget)
        children = manager.cache(Widget, labels="role=child")
        passes: list[str] = []

        async def reconcile(key: Key) -> Result | None:
            parent = widgets.get(key)
            if parent is None or not key.name.startswith("parent-"):
                return None
            passes.append(key.name)
            name = f"child-{key.name}"
            if children.get(Key(namespace, name)) is None:
                metadata = ObjectMeta(
                    name=name,
                    namespace=namespace,
                    labels={"role": "child"},
                    owner_references=(owner_reference(parent),),
                )
                await manager.client.of(Widget).create(Widget(metadata=metadata))
            return requeue_after(after=3600)

        def parents(obj: Widget) -> list[Key]:
            names = ("parent-a", "parent-b")
            return [Key(namespace, name) for name in names] if obj.metadata.name == "wake" else []

        manager.controller("parent", reconcile, For(widgets), Owns(children), Maps(widgets, parents))
        async with running(manager):
            for name in ("parent-a", "parent-b"):
                await api.create(widget(namespace, name))
            child = Key(namespace, "child-parent-a")
            await eventually(lambda: children.get(child), what="the child is there")
            first = children.get(child)
            assert first is not None
            await eventually(lambda: len(children) == 2, what="both children are there")
            await api.delete(child)

            async def recreated() -> bool:
                try:
                    return (await api.get(child)).metadata.uid != first.metadata.uid
                except NotFound:
                    return False

            await eventually(recreated, what="the child was made again")
            before = len(passes)
            await api.create(widget(namespace, "wake"))
            await eventually(lambda: {"parent-a", "parent-b"} <= set(passes[before:]), what="both were woken")
