"""Streams of the console that are cut again and again, on either side of it: a client that goes on by Last-Event-ID
sees every change once, in order, on both API servers; from a watch of its own as from the shared cache.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import aiohttp
import pytest

from edgewright.api import FlashJob
from edgewright.console import Settings
from edgewright.runtime import config
from tests.acceptance import console_stage as stage
from tests.acceptance.console_stage import JOB_PATH, MINIMART_PATH, MINIMARTS
from tests.harness import ApiServer, Proxy, wait_until, wait_until_async
from tests.unit.console.consoles import HERE, PLENTY, Application, calling, in_front_of
from tests.unit.console.events import events, until

SEED = os.environ.get("EDGEWRIGHT_SEED", "1")
LIMITS = replace(PLENTY, streams_per_caller=10_000, streams=10_000)
"""A console notices late that a client was cut: its streams must not count for that long."""
LAST = "the-last"
Change: TypeAlias = tuple[str, str, str]
"""What happened to which object, and its version then."""
MERGE = "application/merge-patch+json"
JOBS = "flashjobs"
JOB_SPEC = {"firmware": "registry.example/firmware:1.1.0", "version": "1.1.0", "uuid": ["esp32-nobody-has"]}


def changes(server: ApiServer, namespace: str, kind: str, chance: random.Random, count: int) -> Iterator[Change]:
    """Makes so many changes and at last one object more; gives each as a stream tells of it, with its version."""
    path, there = (JOB_PATH if kind == JOBS else MINIMART_PATH).format(namespace), list[str]()
    made_of = a_job if kind == JOBS else shop
    field = "version" if kind == JOBS else "nameOverride"
    for number in range(count):
        sort = chance.choice(("added", "modified", "modified", "deleted")) if there else "added"
        name = f"shop-{number}" if sort == "added" else chance.choice(there)
        if sort == "added":
            there.append(name)
            made = server.request("POST", path, made_of(name))
        elif sort == "modified":
            made = server.request("PATCH", f"{path}/{name}", {"spec": {field: f"v{number}"}}, content_type=MERGE)
        else:
            there.remove(name)
            server.request("DELETE", f"{path}/{name}")
            made = {"metadata": {"resourceVersion": ""}}  # of the deletion, which the answer does not tell
        yield sort, name, made["metadata"]["resourceVersion"]
    made = server.request("POST", path, made_of(LAST))
    yield "added", LAST, made["metadata"]["resourceVersion"]


def shop(name: str) -> dict[str, object]:
    """A Minimart."""
    return {"apiVersion": "charts.samutup.com/v1alpha1", "kind": "Minimart", "metadata": {"name": name}, "spec": {}}


def a_job(name: str) -> dict[str, object]:
    """A FlashJob."""
    kind = FlashJob.kind
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, "spec": JOB_SPEC}


class Follower:
    """A client that goes on after a place, over as many connections as it takes; what is not whole has not come."""

    def __init__(self, caller: Application, query: str, last: str) -> None:
        self._caller, self._query, self._last = caller, query, last
        self.seen: list[Change] = []
        self.streams = 0
        """How many streams it has opened."""

    async def run(self) -> None:
        """Follows until the last object is there."""
        while not self.seen or self.seen[-1][1] != LAST:
            with suppress(aiohttp.ClientError, OSError):  # cut, or the API server was out of reach for a moment
                async with self._caller.stream(self._query, Last_Event_ID=self._last) as response:
                    if response.status == 200:
                        self.streams += 1
                        await self._read(response)

    async def _read(self, response: aiohttp.ClientResponse) -> None:
        async for event in events(response):
            self._last = event.id or self._last
            assert event.name != "reset", event
            if event.name in {"added", "modified", "deleted"}:
                version = "" if event.name == "deleted" else event.data["metadata"]["resourceVersion"]
                self.seen.append((*event.what, version))
                if event.what == ("added", LAST):
                    return


@pytest.mark.parametrize("kind", [MINIMARTS, JOBS], ids=["as-caller", "shared-cache"])
@pytest.mark.parametrize("side", ["client", "server"])
async def test_a_stream_that_is_cut_again_and_again_tells_every_change_once(
    api_server: ApiServer, namespace: str, side: str, kind: str
) -> None:
    stage.install(api_server)
    token = stage.portal_token(api_server, namespace)
    chance = random.Random(f"{SEED} {side}")
    query = f"of={kind}&namespace={namespace}"
    with api_server.proxy() as upstream:
        kubeconfig = api_server.kubeconfig_for("admin", ["system:masters"], server=upstream.url)
        settings = Settings(gate=HERE, limits=LIMITS, shared_cache=kind == JOBS, page=Path("not built"))
        async with in_front_of(config.load(kubeconfig=kubeconfig), settings) as (_, url), calling() as session:
            with Proxy("127.0.0.1", int(url.rpartition(":")[2])) as proxy:
                caller = Application(f"http://127.0.0.1:{proxy.port}", session, token)

                async def listed() -> bool:  # the API server lists a kind a moment after it serves it
                    return (await caller("GET", f"/api/v1/namespaces/{namespace}/{kind}")).status == 200

                await wait_until_async(listed, what="the kind is known")
                async with caller.stream(query) as response:
                    begin = (await until(events(response), "synced"))[-1].id
                follower = Follower(caller, query, begin)

                def write() -> list[Change]:
                    made: list[Change] = []
                    for each in changes(api_server, namespace, kind, chance, 30):
                        if not made:  # at least one cut is of a stream that stands
                            wait_until(lambda: follower.seen, what="the first change is seen")
                        made.append(each)
                        if side == "client":  # the next connection ends in the middle of something, wherever that is
                            proxy.cut_new_after(chance.randrange(200, 4000))
                        if len(made) == 1 or chance.random() < 0.5:
                            (proxy if side == "client" else upstream).cut()
                    return made

                made, _ = await asyncio.gather(asyncio.to_thread(write), follower.run())
                assert follower.seen == made
                # The cache goes on by itself after a cut behind the console, and its clients notice nothing.
                assert follower.streams > 1 or (side, kind) == ("server", JOBS)
