"""Garbage collection on a small server: background, foreground, orphans, circles, and kinds that come and go."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from edgewright.local.controllers import ServedKinds
from edgewright.local.controllers.garbage import GarbageCollector
from edgewright.runtime import Kind, Manager, RawObject
from tests.unit.local.controllers.miniature import (
    CONFIG_MAP,
    EVENT,
    NODE,
    WIDGET,
    Miniature,
    controlled,
    miniature,
    settled,
    until,
)


class Collecting:
    """A collector and the kinds that it goes by."""

    def __init__(self, server: Miniature, manager: Manager) -> None:
        self.more: list[Kind] = []
        self.kinds = ServedKinds(manager.client, given=lambda: [*server.kinds, *self.more])
        self.collector = GarbageCollector(manager, kinds=self.kinds)
        self.run = self.collector.run


@asynccontextmanager
async def collecting(server: Miniature) -> AsyncIterator[Collecting]:
    async with controlled(server, lambda manager: Collecting(server, manager)) as stage:
        await until(lambda: stage.collector.synced)
        yield stage


def owned(server: Miniature, name: str, *owners: RawObject, block: bool = False, **rest: Any) -> RawObject:
    references = [
        {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": block,
        }
        for owner in owners
    ]
    return server.make(CONFIG_MAP, name, metadata={"ownerReferences": references, **rest})


def gone(server: Miniature, *names: str) -> bool:
    return not any(server.get(CONFIG_MAP, name) for name in names)


async def test_dependents_go_after_their_owner() -> None:
    async with miniature() as server, collecting(server):
        owner = server.make(CONFIG_MAP, "owner")
        child = owned(server, "child", owner)
        owned(server, "grandchild", child)
        await settled(server)
        server.delete(CONFIG_MAP, "owner")
        await until(lambda: gone(server, "owner", "child", "grandchild"))


async def test_what_lost_its_owner_while_nobody_looked_goes_at_the_start() -> None:
    async with miniature() as server:
        keeper = server.make(CONFIG_MAP, "keeper")
        owned(server, "kept", keeper)
        owned(server, "dangling", {**keeper, "metadata": {"name": "gone", "uid": "gone"}})
        owned(server, "other-uid", {**keeper, "metadata": {"name": "keeper", "uid": "other"}})
        async with collecting(server):
            await until(lambda: gone(server, "dangling", "other-uid"))
            await settled(server)
            assert server.get(CONFIG_MAP, "kept") is not None
            assert not [path for method, path in server.asked if method == "GET" and path.endswith("/kept")]


async def test_an_owner_waits_in_the_foreground_until_what_blocks_it_is_gone() -> None:
    async with miniature() as server, collecting(server):
        owner = server.make(CONFIG_MAP, "owner")
        owned(server, "child", owner, block=True, finalizers=["test/hold"])
        owned(server, "loose", owner, finalizers=["test/hold"])
        await settled(server)
        server.delete(CONFIG_MAP, "owner", propagation="Foreground")
        await until(lambda: "deletionTimestamp" in (server.get(CONFIG_MAP, "child") or {})["metadata"])
        await settled(server)
        assert server.get(CONFIG_MAP, "owner") is not None
        server.make(CONFIG_MAP, "child", metadata={"finalizers": []})
        await until(lambda: gone(server, "owner", "child"))
        assert server.get(CONFIG_MAP, "loose") is not None


async def test_a_circle_goes_in_the_foreground() -> None:
    async with miniature() as server, collecting(server):
        first = server.make(CONFIG_MAP, "first")
        second = owned(server, "second", first, block=True)
        owned(server, "first", second, block=True)
        await settled(server)
        server.delete(CONFIG_MAP, "first", propagation="Foreground")
        await until(lambda: gone(server, "first", "second"))


async def test_orphans_lose_their_reference_and_stay() -> None:
    async with miniature() as server, collecting(server):
        owner, other = server.make(CONFIG_MAP, "owner"), server.make(CONFIG_MAP, "other")
        owned(server, "child", owner)
        owned(server, "shared", owner, other)
        await settled(server)
        server.delete(CONFIG_MAP, "owner", propagation="Orphan")
        await until(lambda: gone(server, "owner"))
        assert "ownerReferences" not in (server.get(CONFIG_MAP, "child") or {})["metadata"]
        left = (server.get(CONFIG_MAP, "shared") or {})["metadata"]["ownerReferences"]
        assert [each["name"] for each in left] == ["other"]


async def test_one_owner_of_two_is_stripped_when_it_goes() -> None:
    async with miniature() as server, collecting(server):
        going, staying = server.make(CONFIG_MAP, "going"), server.make(CONFIG_MAP, "staying")
        owned(server, "child", going, staying)
        await settled(server)
        server.delete(CONFIG_MAP, "going")
        await until(
            lambda: (
                [each["name"] for each in (server.get(CONFIG_MAP, "child") or {})["metadata"]["ownerReferences"]]
                == ["staying"]
            )
        )


async def test_a_conflict_is_tried_again() -> None:
    async with miniature() as server, collecting(server):
        owner = server.make(CONFIG_MAP, "owner")
        owned(server, "child", owner)
        await settled(server)
        server.refuse("DELETE", "/api/v1/namespaces/default/configmaps/child", 409, "Conflict", times=2)
        server.delete(CONFIG_MAP, "owner")
        await until(lambda: gone(server, "child"))


async def test_owners_that_cannot_be_resolved_keep_their_dependents() -> None:
    async with miniature() as server, collecting(server):
        unknown = {"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "x", "uid": "y"}}
        owned(server, "child", unknown)
        owner = server.make(CONFIG_MAP, "owner")
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
        server.make(NODE, "wide", metadata={"ownerReferences": [reference]})
        await settled(server)
        assert server.get(CONFIG_MAP, "child") is not None
        assert server.get(NODE, "wide") is not None


async def test_kinds_that_come_and_go_are_followed() -> None:
    async with miniature() as server, collecting(server) as stage:
        unknown = {"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "never", "uid": "y"}}
        owned(server, "dangling", unknown)
        await settled(server)
        server.kinds.append(WIDGET)
        stage.kinds.changed()
        await until(lambda: gone(server, "dangling"))
        widget = server.make(WIDGET, "owner")
        owned(server, "child", widget)
        await until(lambda: stage.collector.synced)
        await settled(server)
        server.kinds.remove(WIDGET)
        stage.kinds.changed()
        await settled(server)
        assert server.get(CONFIG_MAP, "child") is not None
        server.kinds.append(WIDGET)
        stage.kinds.changed()
        await settled(server)
        server.delete(WIDGET, "owner")
        await until(lambda: gone(server, "child"))


async def test_an_object_made_again_under_its_name_is_not_the_owner() -> None:
    async with miniature() as server, collecting(server) as stage:
        owner = server.make(CONFIG_MAP, "owner")
        owned(server, "child", owner)
        await settled(server)
        server.make(CONFIG_MAP, "owner", metadata={"uid": "another"})
        await until(lambda: gone(server, "child"))
        assert server.get(CONFIG_MAP, "owner") is not None
        assert stage.collector.synced


async def test_events_are_not_collected() -> None:
    async with miniature() as server, collecting(server):
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "never", "uid": "never"}
        server.make(EVENT, "happened", metadata={"ownerReferences": [reference]})
        await settled(server)
        assert server.get(EVENT, "happened") is not None


async def test_a_kind_that_is_gone_for_a_moment_costs_nobody_their_dependents() -> None:
    async with miniature() as server:
        keeper = server.make(CONFIG_MAP, "keeper")
        owned(server, "child", {**keeper, "metadata": {"name": "gone", "uid": "gone"}})
        path = "/api/v1/namespaces/default/configmaps/gone"
        server.refuse("GET", path, 404, "NotFound", times=3)
        async with collecting(server):
            await until(lambda: gone(server, "child"))
            assert server.asked.count(("GET", path)) == 4


async def test_dependents_of_which_the_watch_has_not_told_yet_are_left_behind_too() -> None:
    async with miniature() as server:
        server.kinds.append(WIDGET)
        async with collecting(server):
            owner = server.make(CONFIG_MAP, "owner")
            await settled(server)
            reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
            with server.silence(WIDGET):
                server.make(WIDGET, "child", metadata={"ownerReferences": [reference]})
                server.delete(CONFIG_MAP, "owner", propagation="Orphan")
                await until(lambda: gone(server, "owner"))
            await settled(server)
            assert "ownerReferences" not in (server.get(WIDGET, "child") or {})["metadata"]


async def test_a_blocking_dependent_of_which_the_watch_has_not_told_yet_is_waited_for() -> None:
    async with miniature() as server:
        server.kinds.append(WIDGET)
        async with collecting(server):
            owner = server.make(CONFIG_MAP, "owner")
            await settled(server)
            reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
            with server.silence(WIDGET):
                server.make(WIDGET, "child", metadata={"ownerReferences": [{**reference, "blockOwnerDeletion": True}]})
                server.delete(CONFIG_MAP, "owner", propagation="Foreground")
                await until(lambda: ("GET", "/apis/example.dev/v1/namespaces/default/widgets") in server.asked)
                await settled(server)
                assert not gone(server, "owner")
            await until(lambda: gone(server, "owner") and server.get(WIDGET, "child") is None)


async def test_two_owners_of_which_one_is_of_an_unknown_kind_change_nothing() -> None:
    async with miniature() as server, collecting(server):
        unknown = {"apiVersion": "example.dev/v1", "kind": "Widget", "metadata": {"name": "x", "uid": "y"}}
        owner = server.make(CONFIG_MAP, "owner")
        owned(server, "child", unknown, owner)
        await settled(server)
        server.delete(CONFIG_MAP, "owner")
        await settled(server)
        assert len((server.get(CONFIG_MAP, "child") or {})["metadata"]["ownerReferences"]) == 2


async def test_a_kind_that_cannot_be_listed_holds_up_only_those_who_need_to_know_all_dependents() -> None:
    async with miniature() as server, collecting(server) as stage:
        ghost = Kind(group="ghost.dev", version="v1", kind="Ghost", plural="ghosts")
        stage.more.append(ghost)
        stage.kinds.changed()
        await until(lambda: not stage.collector.synced)
        owner, other = server.make(CONFIG_MAP, "owner"), server.make(CONFIG_MAP, "other")
        owned(server, "child", owner)
        server.delete(CONFIG_MAP, "owner")
        await until(lambda: gone(server, "child"))
        owned(server, "orphan", other)
        server.delete(CONFIG_MAP, "other", propagation="Orphan")
        await settled(server)
        assert not gone(server, "other")
        stage.more.clear()
        stage.kinds.changed()
        await until(lambda: gone(server, "other"))
        assert server.get(CONFIG_MAP, "orphan") is not None


async def test_an_owner_that_the_watch_does_not_know_yet_keeps_its_dependents() -> None:
    async with miniature() as server:
        server.kinds.append(WIDGET)
        async with collecting(server):
            with server.silence(WIDGET):
                owner = server.make(WIDGET, "owner")
                going = server.make(WIDGET, "going", metadata={"finalizers": ["test/hold"]})
                owned(server, "child", owner)
                server.delete(WIDGET, "going", propagation="Foreground")
                owned(server, "waited-for", going)
                await until(lambda: gone(server, "waited-for"))
                assert not gone(server, "child")
