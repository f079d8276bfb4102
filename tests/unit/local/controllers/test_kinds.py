"""Which kinds a server serves: by discovery, again after changes, and without forgetting what cannot be asked."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from edgewright.local.controllers.discovery import ServedKinds, kinds_in, one_version_each, versions_in
from edgewright.runtime import Kind
from tests.unit.local.controllers.miniature import (
    CONFIG_MAP,
    KINDS,
    WIDGET,
    Miniature,
    client_of,
    miniature,
    until,
)
from tests.unit.runtime.fakeserver import running


@asynccontextmanager
async def discovering(server: Miniature) -> AsyncIterator[ServedKinds]:
    async with client_of(server) as client:
        kinds = ServedKinds(client)
        async with running(kinds.run()):
            yield kinds


def test_only_what_can_be_listed_watched_and_deleted_counts() -> None:
    verbs = ["list", "watch", "delete"]
    document = {
        "resources": [
            {"name": "pods", "kind": "Pod", "namespaced": True, "verbs": verbs},
            {"name": "pods/status", "kind": "Pod", "namespaced": True, "verbs": verbs},
            {"name": "bindings", "kind": "Binding", "namespaced": True, "verbs": ["create"]},
        ]
    }
    found = kinds_in("", "v1", msgspec.json.encode(document))
    assert found == [Kind(group="", version="v1", kind="Pod", plural="pods")]


def test_the_preferred_version_comes_first_and_stands_for_all() -> None:
    versions = [{"version": "v1"}, {"version": "v2"}]
    body = msgspec.json.encode({"groups": [{"name": "a", "versions": versions, "preferredVersion": versions[1]}]})
    assert versions_in(body) == [("a", "v2"), ("a", "v1")]
    kinds = [Kind(group=g, version=v, kind="A", plural="as") for g, v in versions_in(body)]
    assert one_version_each(kinds) == kinds[:1]


async def test_kinds_are_found_and_again_after_a_change() -> None:
    async with miniature() as server, discovering(server) as kinds:
        told: list[int] = []
        kinds.subscribe(lambda: told.append(len(kinds())))
        assert kinds.problem
        await until(lambda: not kinds.problem)
        assert {*kinds()} == {*KINDS}
        assert kinds.find("v1", "ConfigMap") == CONFIG_MAP
        assert kinds.find("example.dev/v1", "Widget") is None
        server.kinds.append(WIDGET)
        kinds.changed()
        await until(lambda: kinds.find("example.dev/v1", "Widget") == WIDGET)
        assert told == [len(KINDS), len(KINDS) + 1]


async def test_a_group_that_does_not_answer_is_a_problem_and_its_kinds_stay_known() -> None:
    async with miniature() as server, discovering(server) as kinds:
        server.kinds.append(WIDGET)
        server.refuse("GET", "/apis", 500, "InternalError")
        await until(lambda: kinds.find("example.dev/v1", "Widget"))
        server.refuse("GET", "/apis/example.dev/v1", 503, "ServiceUnavailable", times=1000)
        kinds.changed()
        await until(lambda: "example.dev" in kinds.problem)
        assert kinds.find("example.dev/v1", "Widget") == WIDGET
        server.refusals.clear()
        kinds.changed()
        await until(lambda: not kinds.problem)


async def test_kinds_that_are_given_are_not_asked_for() -> None:
    async with miniature() as server, client_of(server) as client:
        kinds = ServedKinds(client, given=lambda: [CONFIG_MAP])
        told: list[bool] = []
        kinds.subscribe(lambda: told.append(True))
        async with running(kinds.run()):
            await until(lambda: told)
            kinds.changed()
            assert len(told) == 2
        assert (list(kinds()), kinds.problem, server.asked) == ([CONFIG_MAP], "", [])
