"""The control plane as a whole, in the test's process: it begins with what every cluster has, serves, and ends."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from edgewright.local import bootstrap, control_plane
from edgewright.runtime.client import Client
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.config import Config
from edgewright.runtime.errors import ServiceUnavailable
from edgewright.runtime.objects import Kind
from tests.harness.waiting import wait_until_async

NAMESPACES = Kind(group="", version="v1", kind="Namespace", plural="namespaces", namespaced=False)
SERVICES = Kind(group="", version="v1", kind="Service", plural="services")
SLICES = Kind(group="discovery.k8s.io", version="v1", kind="EndpointSlice", plural="endpointslices")
ACCOUNTS = Kind(group="", version="v1", kind="ServiceAccount", plural="serviceaccounts")
NODES = Kind(group="", version="v1", kind="Node", plural="nodes", namespaced=False)


@asynccontextmanager
async def planes(data: Path, **settings: Any) -> AsyncIterator[tuple[control_plane.Running, Client]]:
    async with control_plane.open(control_plane.Settings(data=data, port=0, **settings)) as running:
        config = Config(server=running.url, tls=running.entrance.component("test"), source="test")
        stop = asyncio.Event()
        serving = asyncio.create_task(running.serve_until(stop))
        async with Client(config, clock=SystemClock()) as client:
            await ready(client)
            yield running, client
        stop.set()
        await asyncio.wait([serving])
        serving.exception()  # it is for the test to say whether there may be one


async def ready(client: Client) -> None:
    """Waits until all parts say that they are."""

    async def said() -> bool:
        try:
            return await client.get_path("/readyz") == b"ok"
        except ServiceUnavailable:
            return False

    await wait_until_async(said, what="it is ready")


async def test_a_new_one_has_the_namespaces_and_the_service_that_every_cluster_has(tmp_path: Path) -> None:
    async with planes(tmp_path / "data") as (running, client):
        names = {each["metadata"]["name"] for each in (await client.raw(NAMESPACES).list()).items}
        assert names == set(bootstrap.NAMESPACES)
        (service,) = (await client.raw(SERVICES).list()).items
        assert (service["metadata"]["name"], service["spec"]["clusterIP"]) == ("kubernetes", "127.96.0.1")
        (endpoints,) = (await client.raw(SLICES).list()).items
        assert endpoints["endpoints"][0]["addresses"] == ["127.0.0.1"]
        assert endpoints["ports"][0]["port"] == service["spec"]["ports"][0]["targetPort"] == running.port


async def test_its_controllers_work_and_it_is_ready_when_they_do(tmp_path: Path) -> None:
    async with planes(tmp_path / "data") as (_, client):

        async def accounts() -> bool:
            found = (await client.raw(ACCOUNTS).list()).items
            return {each["metadata"]["namespace"] for each in found} == set(bootstrap.NAMESPACES)

        await wait_until_async(accounts, what="every namespace has a ServiceAccount")


async def test_after_a_second_start_everything_is_there_and_the_service_leads_to_the_new_port(tmp_path: Path) -> None:
    async with planes(tmp_path / "data") as (_, client):
        made = await client.raw(NAMESPACES).create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}}
        )
        (service,) = (await client.raw(SERVICES).list()).items
    async with planes(tmp_path / "data") as (running, client):
        kept = {each["metadata"]["name"]: each for each in (await client.raw(NAMESPACES).list()).items}
        assert set(kept) == {*bootstrap.NAMESPACES, "mine"}
        assert kept["mine"]["metadata"]["uid"] == made["metadata"]["uid"]
        (moved,) = (await client.raw(SERVICES).list()).items
        assert moved["metadata"]["uid"] == service["metadata"]["uid"]
        assert moved["spec"]["ports"][0]["targetPort"] == running.port
        (endpoints,) = (await client.raw(SLICES).list()).items
        assert endpoints["ports"][0]["port"] == running.port


async def test_it_is_not_ready_before_whoever_opened_it_has_done_the_rest(tmp_path: Path) -> None:
    async with control_plane.open(control_plane.Settings(data=tmp_path / "data", port=0)) as running:
        config = Config(server=running.url, tls=running.entrance.component("test"), source="test")
        async with Client(config, clock=SystemClock()) as client:

            async def waits_for_the_rest() -> bool:
                with pytest.raises(ServiceUnavailable) as refused:
                    await client.get_path("/readyz")
                return str(refused.value).endswith("[-]start failed: is not complete yet")

            await wait_until_async(waits_for_the_rest, what="everything else is ready")
            stop = asyncio.Event()
            serving = asyncio.create_task(running.serve_until(stop))
            await ready(client)
            stop.set()
            await serving


async def test_with_a_node_there_is_a_node(tmp_path: Path) -> None:
    async with planes(tmp_path / "data", node="here") as (_, client):

        async def registered() -> bool:
            return [each["metadata"]["name"] for each in (await client.raw(NODES).list()).items] == ["here"]

        await wait_until_async(registered, what="the node is registered")


async def test_it_serves_until_it_is_told_to_stop_and_frees_its_port(tmp_path: Path) -> None:
    stop = asyncio.Event()
    async with planes(tmp_path / "data") as (running, _):
        serving = asyncio.create_task(running.serve_until(stop))
        await asyncio.sleep(0)
        assert not serving.done()
        stop.set()
        await serving
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", running.port))


async def test_a_watch_ends_with_it_and_in_good_order(tmp_path: Path) -> None:
    async with AsyncExitStack() as longer:
        async with control_plane.open(control_plane.Settings(data=tmp_path / "data", port=0)) as running:
            config = Config(server=running.url, tls=running.entrance.component("test"), source="test")
            client = await longer.enter_async_context(Client(config, clock=SystemClock()))
            begun = asyncio.Event()

            async def follow() -> None:
                async for _ in client.raw(NAMESPACES).watch(seconds=600):
                    begun.set()

            watching = asyncio.create_task(follow())
            await begun.wait()
        await watching  # it was cut where this raises


async def test_a_part_that_ends_by_itself_ends_the_whole_and_says_which(tmp_path: Path) -> None:
    async def done() -> None:
        """A part with nothing to do."""

    async def broken() -> None:
        raise OSError("no more files")

    async with planes(tmp_path / "data") as (running, _):
        running.go_on("a short part", done())
        with pytest.raises(RuntimeError, match="a short part ended by itself"):
            await running.serve_until(asyncio.Event())
    async with planes(tmp_path / "data") as (running, _):
        running.go_on("a broken part", broken())
        with pytest.raises(OSError, match="no more files"):
            await running.serve_until(asyncio.Event())


async def test_a_port_that_is_taken_is_an_error_and_nothing_stays_open(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = control_plane.Settings(data=tmp_path / "data", port=taken.getsockname()[1])
        with pytest.raises(OSError, match=r"(?i)address already in use"):
            async with control_plane.open(settings):
                raise AssertionError("it must not open")
    async with planes(tmp_path / "data"):
        pass  # the store is not locked


@pytest.mark.parametrize(
    ("host", "url"), [("0.0.0.0", "https://127.0.0.1:"), ("127.0.0.1", "https://127.0.0.1:"), ("::1", "https://[::1]:")]
)
async def test_it_is_reached_from_this_machine_wherever_it_listens(tmp_path: Path, host: str, url: str) -> None:
    async with planes(tmp_path / "data", host=host) as (running, client):
        assert running.url == f"{url}{running.port}"
        assert await client.get_path("/livez") == b"ok"
