"""How much `edgewright up` takes: a thousand watches, readers that do not read, a hundred thousand objects."""

from __future__ import annotations

import asyncio
import functools
import re
import resource
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from edgewright.local.history import StoreKey
from edgewright.local.serving.server import MAX_WATCHES
from edgewright.local.store import Store
from edgewright.runtime import Client, Key, Kind, config
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.errors import TooManyRequests
from edgewright.runtime.objects import RawObject
from tests.harness import LocalPlane

CONFIG_MAP = Kind(group="", version="v1", kind="ConfigMap", plural="configmaps")
PATH = "/api/v1/namespaces/default/configmaps"


def config_map(name: str, text: str) -> RawObject:
    about = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": {"text": text}}


def memory_mb(plane: LocalPlane) -> float:
    status = Path(f"/proc/{plane.api.pid}/status").read_text()
    found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    assert found
    return int(found[1]) / 1024


def connected(plane: LocalPlane, connections: int = 16) -> Client:
    return Client(config.load(kubeconfig=plane.kubeconfig), connections=connections, retries=0, timeout=60)


async def test_a_thousand_watches_are_served_and_one_more_is_told_to_come_later(own_plane: LocalPlane) -> None:
    before = memory_mb(own_plane)
    query = {"watch": "true", "resourceVersion": "1", "timeoutSeconds": "600"}
    handshakes = asyncio.Semaphore(32)

    async with connected(own_plane) as client, asyncio.TaskGroup() as watches:

        async def watch(stands: asyncio.Event) -> None:
            await handshakes.acquire()
            async with client.transport.stream(PATH, query, seconds=600) as parts:
                handshakes.release()
                stands.set()
                async for part in parts:
                    if b'"told-to-all"' in part:
                        return

        standing = [asyncio.Event() for _ in range(MAX_WATCHES)]
        for each in standing:
            watches.create_task(watch(each))
        await asyncio.gather(*(each.wait() for each in standing))
        assert memory_mb(own_plane) - before < 200
        with pytest.raises(TooManyRequests) as refused:
            await client.transport.request("GET", PATH, query=query)
        assert refused.value.retry_after
        await client.raw(CONFIG_MAP).create(config_map("told-to-all", "x"))


async def test_readers_that_do_not_read_cost_little_and_are_cut(own_plane: LocalPlane) -> None:
    """Forty watches that are opened and never read, while a hundred megabytes of changes go by."""
    async with connected(own_plane) as client:
        api = client.raw(CONFIG_MAP)
        await api.create(config_map("large", "0" * 900_000))
        before = memory_mb(own_plane)
        readers: list[asyncio.StreamWriter] = []
        for _ in range(40):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", own_plane.port, ssl=own_plane.admin_tls, server_hostname="localhost", limit=1024
            )
            writer.write(f"GET {PATH}?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            await reader.readline()  # it stands; from here on nobody reads
            readers.append(writer)
        for number in range(1, 110):
            await api.patch(Key("default", "large"), {"data": {"text": str(number % 10) * 900_000}})
        # What waits is there once for all: the limit of one backlog, and something for each connection.
        assert memory_mb(own_plane) - before < 250
        for writer in readers:
            writer.transport.abort()
        assert (await api.get(Key("default", "large")))["data"]["text"][0] == str(109 % 10)


@contextmanager
def few_files(number: int) -> Iterator[int]:
    """As in a shell with a low limit; gives the hard limit, up to which everybody may go."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, hard))
    try:
        yield hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_low_limit_of_open_files_is_raised() -> None:
    with few_files(256) as most:
        plane = LocalPlane()
        try:
            plane.start()
            limits = Path(f"/proc/{plane.api.pid}/limits").read_text()
        finally:
            plane.stop()
    assert re.search(rf"^Max open files +{most} +{most} ", limits, re.MULTILINE)


@pytest.mark.soak
def test_a_hundred_thousand_objects_are_served(own_plane: LocalPlane) -> None:
    pattern = own_plane.request("POST", PATH, config_map("pattern", "x" * 500))
    own_plane.api.terminate()
    asyncio.run(fill(own_plane.data, pattern, 100_000))
    started = time.monotonic()
    own_plane.api.restart()
    print(f"it started in {time.monotonic() - started:.1f} s")
    assert memory_mb(own_plane) < 450
    assert counted(own_plane) == 100_000
    made = own_plane.request("POST", PATH, config_map("many-new", "x"))
    assert own_plane.request("GET", f"{PATH}/many-new") == made
    assert own_plane.request("GET", f"{PATH}/many-099999")["data"] == pattern["data"]
    own_plane.request("DELETE", f"{PATH}/many-000000")
    assert counted(own_plane) == 100_000
    assert memory_mb(own_plane) < 450


async def fill(data: Path, pattern: RawObject, count: int) -> None:
    """Puts copies of an object into the store of a control plane that does not run: faster than asking it for each."""

    def copy(name: str, revision: int) -> bytes:
        about = {**pattern["metadata"], "name": name, "uid": str(uuid.uuid4()), "resourceVersion": str(revision)}
        return msgspec.json.encode({**pattern, "metadata": about})

    store = await Store.open(data, clock=SystemClock())
    try:
        for first in range(0, count, 1000):
            names = [f"many-{number:06d}" for number in range(first, first + 1000)]
            await asyncio.gather(
                *(
                    store.create(StoreKey("configmaps", "default", name), functools.partial(copy, name))
                    for name in names
                )
            )
    finally:
        await store.close()


def counted(plane: LocalPlane) -> int:
    """How many of them a list has, page by page."""
    count, token = 0, ""
    while True:
        page: RawObject = plane.request("GET", f"{PATH}?limit=5000&continue={token}")
        count += len([item for item in page["items"] if item["metadata"]["name"].startswith("many-")])
        token = page["metadata"].get("continue", "")
        if not token:
            return count
