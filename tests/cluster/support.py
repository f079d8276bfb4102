"""How the tests of the runtime reach a control plane, run what they test, wait, and note what they see.

Every test in `tests/cluster` that talks through `edgewright.runtime` uses these. Nothing here knows a kind.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

import aiohttp

from edgewright.runtime import Cache, Change, Client, Key, Manager, Resource, config
from tests.harness import ApiServer, wait_until_async
from tests.harness.waiting import PATIENCE

T = TypeVar("T")
R = TypeVar("R", bound=Resource)


async def eventually(condition: Callable[[], object], *, timeout: float = PATIENCE, what: str) -> None:
    """Asks the condition (a function or a coroutine function) until it says something true."""
    await wait_until_async(condition, timeout=timeout, what=what)


@asynccontextmanager
async def connected(
    to: ApiServer | Path, *, connections: int = 16, timeout: float = 30.0, retries: int = 5
) -> AsyncIterator[Client]:
    """A client as the administrator of an API server, or as whom a kubeconfig names."""
    file = to.kubeconfig if isinstance(to, ApiServer) else to
    loaded = config.load(kubeconfig=file)
    async with Client(loaded, connections=connections, timeout=timeout, retries=retries) as client:
        yield client


class Seen(Generic[R]):
    """Notes every change that a cache tells of."""

    def __init__(self, cache: Cache[R]) -> None:
        self.changes: list[Change[R]] = []
        cache.subscribe(self.changes.append)

    @property
    def deleted(self) -> Counter[Key]:
        """How many times each object was said to be gone."""
        return Counter(change.latest.key for change in self.changes if change.new is None)

    @property
    def added(self) -> Counter[Key]:
        """How many times each object was said to be new."""
        return Counter(change.latest.key for change in self.changes if change.old is None)

    def versions(self, key: Key) -> list[str]:
        """The versions of one object, in the order in which they were told; a deletion counts as `gone`."""
        return [
            change.new.metadata.resource_version if change.new else "gone"
            for change in self.changes
            if change.latest.key == key
        ]


@asynccontextmanager
async def following(*caches: Cache[Any], synced: bool = True) -> AsyncIterator[None]:
    """Keeps caches true for the length of the block; waits until they are filled, unless told not to."""
    tasks = [asyncio.create_task(cache.run()) for cache in caches]
    try:
        if synced:
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*(cache.wait_synced() for cache in caches))
        yield
    finally:
        await _end(tasks)


@asynccontextmanager
async def running(manager: Manager) -> AsyncIterator[asyncio.Task[None]]:
    """Runs a manager for the length of the block and stops it in good order; what it raises comes out at the end."""
    task = asyncio.create_task(manager.run())
    try:
        await eventually(lambda: task.done() or "health" in manager.listening, what="the manager listens")
        yield task
        manager.stop()
        async with asyncio.timeout(PATIENCE):
            await task
    finally:
        await _end([task])


async def _end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task


async def readiness(manager: Manager) -> tuple[int, str]:
    """What a kubelet would read on the manager's /readyz."""
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{manager.listening['health']}/readyz") as answer,
    ):
        return answer.status, await answer.text()


async def ready(manager: Manager) -> bool:
    """Whether the manager's /readyz says so."""
    return (await readiness(manager))[0] == 200


def requests(manager: Manager, *methods: str, code: str = "") -> int:
    """How many requests of these methods (WATCH is one) the manager has had answered so far, by its own metrics.

    With a `code`, those whose answer begins with it: 2 for what was done.
    """
    return sum(
        int(sample.value)
        for metric in manager.metrics.rest_client_requests_total.collect()
        for sample in metric.samples
        if sample.name.endswith("_total")
        and (not methods or sample.labels["method"] in methods)
        and sample.labels["code"].startswith(code)
    )


async def in_parallel(jobs: Iterable[Awaitable[T]], *, at_once: int = 16) -> list[T]:
    """Awaits all, a few at a time."""
    gate = asyncio.Semaphore(at_once)

    async def gated(job: Awaitable[T]) -> T:
        async with gate:
            return await job

    return list(await asyncio.gather(*(gated(job) for job in jobs)))
