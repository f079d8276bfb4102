"""The console's shared cache on both API servers: many viewers, one watch per kind, and each sees what they may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from edgewright.api import Device, FlashJob
from edgewright.console import Limits, Settings
from edgewright.runtime import config
from tests.acceptance import console_stage as stage
from tests.harness import ApiServer, wait_until_async
from tests.unit.console.consoles import HERE, PLENTY, Application, calling, in_front_of, job
from tests.unit.console.events import Event, events, until
from tests.unit.console.requests_seen import requests_seen

VIEWERS = 20
RBAC = "/apis/rbac.authorization.k8s.io/v1"
WRITES = ("create", "patch", "delete")
RULES = [
    {"apiGroups": [kind.group], "resources": [kind.plural], "verbs": ["get", "list", "watch", *WRITES]}
    for kind in (FlashJob.kind, Device.kind)
]


@dataclass(frozen=True)
class Viewers:
    """Who looks on, each with a token of their own, and the role that lets them."""

    server: ApiServer
    namespace: str
    tokens: list[str]

    @property
    def role(self) -> str:
        """Where their ClusterRole is."""
        return f"{RBAC}/clusterroles/{self.namespace}"


@pytest.fixture
def viewers(api_server: ApiServer, namespace: str) -> Iterator[Viewers]:
    """Twenty of them, who may read and write FlashJobs and Devices everywhere."""
    stage.install(api_server)
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    api_server.request("POST", accounts, {"metadata": {"name": "viewer"}})
    token = {"spec": {"expirationSeconds": 3600}}
    tokens = [
        str(api_server.request("POST", f"{accounts}/viewer/token", token)["status"]["token"]) for _ in range(VIEWERS)
    ]
    api_server.request("POST", f"{RBAC}/clusterroles", {"metadata": {"name": namespace}, "rules": RULES})
    binding = {
        "metadata": {"name": namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": namespace},
        "subjects": [{"kind": "ServiceAccount", "name": "viewer", "namespace": namespace}],
    }
    api_server.request("POST", f"{RBAC}/clusterrolebindings", binding)
    yield Viewers(api_server, namespace, tokens)
    for kind in ("clusterrolebindings", "clusterroles"):
        api_server.request("DELETE", f"{RBAC}/{kind}/{namespace}")


@asynccontextmanager
async def calling_one_console(viewers: Viewers, limits: Limits = PLENTY) -> AsyncIterator[list[Application]]:
    """The viewers as callers of one console with a shared cache, once the API server knows their rights."""
    settings = Settings(gate=HERE, limits=limits, shared_cache=True, page=Path("not built"))
    loaded = config.load(kubeconfig=viewers.server.kubeconfig)
    async with in_front_of(loaded, settings) as (_, url), calling() as session:
        found = [Application(url, session, each) for each in viewers.tokens]

        async def known() -> bool:
            told = [await found[0]("GET", f"/api/v1/me?of={kind}") for kind in ("flashjobs", "devices")]
            return all(each.status == 200 and each.body["rights"]["verbs"]["watch"] for each in told)

        await wait_until_async(known, what="the viewers have their rights")
        yield found


async def test_twenty_viewers_cost_the_api_server_one_watch_per_kind(viewers: Viewers) -> None:
    path = FlashJob.kind.path(viewers.namespace)
    body = {"apiVersion": FlashJob.kind.api_version, "kind": "FlashJob", **job("one")}
    viewers.server.request("POST", path, body)
    inside = f"&namespace={viewers.namespace}"
    async with calling_one_console(viewers) as callers, AsyncExitStack() as stack:

        async def view(caller: Application) -> AsyncIterator[Event]:
            listed = await caller("GET", f"/api/v1/namespaces/{viewers.namespace}/flashjobs")
            assert [each["metadata"]["name"] for each in listed.body["items"]] == ["one"], listed.body
            assert (await caller("GET", "/api/v1/devices")).status == 200
            sources = [
                events(await stack.enter_async_context(caller.stream(query)))
                for query in (f"of=flashjobs{inside}", "of=devices")
            ]
            for source in sources:
                await until(source, "synced")
            return sources[0]

        # One watch for each kind stands; an API server may refuse it for a moment where the kind is quite new.
        for kind in ("flashjobs", "devices"):
            async with callers[0].stream(f"of={kind}") as response:
                await until(events(response), "synced")
        with requests_seen() as seen:
            sources = await asyncio.gather(*(view(each) for each in callers))
            change = {"metadata": {"labels": {"site": "b"}}}
            viewers.server.request("PATCH", f"{path}/one", change, content_type="application/merge-patch+json")
            told = [(await until(source, "modified"))[-1] for source in sources]
        assert {each.what for each in told} == {("modified", "one")}
        assert not [path for method, path in seen if method in {"GET", "WATCH"}]


async def test_answers_are_those_of_the_api_server(viewers: Viewers) -> None:
    async def answers(caller: Application) -> list[Any]:
        found = [await caller("GET", path) for path in (base, f"{base}/one", f"{base}?labelSelector=site%3Db", every)]
        for each in found:
            assert each.status == 200, each.body
            if "items" in each.body:
                each.body["metadata"]["resourceVersion"] = ""  # of the whole server, which other tests change
        return [(each.body, each.headers.get("ETag")) for each in found]

    async def told(caller: Application, query: str, count: int) -> list[Event]:
        async with caller.stream(f"of=flashjobs&namespace={viewers.namespace}{query}", Last_Event_ID=last) as response:
            source = (each async for each in events(response) if each.name)
            return [await anext(source) for _ in range(count)]

    server, path = viewers.server, FlashJob.kind.path(viewers.namespace)
    base = f"/api/v1/namespaces/{viewers.namespace}/flashjobs"
    every = f"/api/v1/flashjobs?labelSelector=only%3D{viewers.namespace}"
    for name in ("two", "one", "one-a"):
        body = {"apiVersion": FlashJob.kind.api_version, "kind": "FlashJob", **job(name)}
        body["metadata"] |= {"labels": {"site": "b", "only": viewers.namespace}}
        server.request("POST", path, body)
    async with calling_one_console(viewers) as callers, calling() as session:
        plain = Settings(gate=HERE, limits=PLENTY, page=Path("not built"))
        async with in_front_of(config.load(kubeconfig=server.kubeconfig), plain) as (_, url):
            cached, direct = callers[0], Application(url, session, viewers.tokens[0])
            assert await answers(cached) == await answers(direct)
            async with cached.stream("of=flashjobs") as response:
                last = (await until(events(response), "synced"))[-1].id
            for site in ("a", "c", "b"):
                change = {"metadata": {"labels": {"site": site}}}
                server.request("PATCH", f"{path}/one", change, content_type="application/merge-patch+json")
            server.request("DELETE", f"{path}/one")
            queries = {"": 4, "&name=one": 4, "&labelSelector=site%3Da": 2, "&labelSelector=site!%3Db": 3}
            for query, count in queries.items():
                assert await told(cached, query, count) == await told(direct, query, count), query


async def test_no_read_is_older_than_a_write_through_the_same_console(viewers: Viewers) -> None:
    jobs = f"/api/v1/namespaces/{viewers.namespace}/flashjobs"
    async with calling_one_console(viewers) as callers:
        caller = callers[0]
        await caller("GET", jobs)
        for number in range(10):
            name = f"job-{number}"
            made = await caller("POST", jobs, job(name))
            assert made.status == 201, made.body
            assert [each["metadata"]["name"] for each in (await caller("GET", jobs)).body["items"]] == [name]
            for version in ("2.0.0", "3.0.0"):
                written = await caller("PATCH", f"{jobs}/{name}", {"spec": {"version": version}})
                assert written.status == 200, written.body
                assert (await caller("GET", f"{jobs}/{name}")).body == written.body
            assert (await caller("DELETE", f"{jobs}/{name}")).status == 204
            assert (await caller("GET", f"{jobs}/{name}")).status == 404
            assert (await caller("GET", jobs)).body["items"] == []


async def test_who_loses_the_right_sees_no_more(viewers: Viewers) -> None:
    async with calling_one_console(viewers, replace(PLENTY, recheck=2.0)) as callers:
        await check_refused(viewers, callers[0])


async def check_refused(viewers: Viewers, caller: Application) -> None:
    """Takes the right away: the open stream ends with the API server's words, and reads are refused with them."""
    async with caller.stream("of=flashjobs") as response:
        source = events(response)
        await until(source, "synced")
        merge = "application/merge-patch+json"
        viewers.server.request("PATCH", viewers.role, {"rules": []}, content_type=merge)
        last = (await until(source, "problem"))[-1].data
        assert (last["status"], last["verb"], last["user"]) == (
            403,
            "watch",
            f"system:serviceaccount:{viewers.namespace}:viewer",
        )
        assert [each async for each in source] == []

    async def refused(path: str) -> Any:
        answer = await caller("GET", path)
        return answer if answer.status != 200 else None

    path = f"/api/v1/namespaces/{viewers.namespace}/flashjobs"
    for each, verb in ((path, "list"), ("/api/v1/flashjobs", "list"), (f"{path}/one", "get")):
        answer = await wait_until_async(partial(refused, each), what=f"{each} is refused")
        assert (answer.status, answer.body["verb"]) == (403, verb)
