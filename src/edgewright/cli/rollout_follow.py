"""Following a rollout until it ends: drawn again in its place on a terminal, a dated line per change elsewhere.

`rollout watch`, `status` and `create --watch` call it. It only reads.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TextIO

from edgewright.api.firmwarerollout import ROLLOUT_UID_LABEL, FirmwareRollout
from edgewright.api.flashjob import FlashJob
from edgewright.api.fleet import FLEET, Fleet
from edgewright.cli import rollout_text, terminal
from edgewright.cli.cluster import Place, missing
from edgewright.cli.failure import Failed, TimeIsUp
from edgewright.controllers.rollout.changes import has_ended
from edgewright.runtime import spans
from edgewright.runtime.cache import Cache
from edgewright.runtime.client import Client
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.errors import Forbidden, NotFound
from edgewright.runtime.objects import Key

UNSEEN: Final = 20.0
"""After so many seconds it is said that nobody has looked at a rollout."""
LATE: Final = 5.0
"""So many seconds FlashJobs get to tell of devices that the rollout knows to be done: it reads the devices itself."""
Show = Callable[[FirmwareRollout, list[FlashJob]], None]


class Display:
    """Shows how a rollout goes on, in the way that its stream asks for."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._screen = terminal.Screen(stream) if terminal.is_terminal(stream) else None
        self._colour = terminal.coloured(stream)
        self._twigs = rollout_text.UNICODE if terminal.unicode(stream) else rollout_text.ASCII
        self._told: dict[str, str] = {}

    def show(self, rollout: FirmwareRollout, jobs: list[FlashJob]) -> None:
        """Shows it as it is now."""
        now = SystemClock().now()
        if self._screen is not None:
            width = terminal.width(self._stream)
            lines = rollout_text.tree(rollout, jobs, now=now, twigs=self._twigs, colour=self._colour, width=width)
            self._screen.draw(lines)
            return
        told = rollout_text.facts(rollout, jobs)
        for line in rollout_text.news(self._told, told, now):
            print(line, file=self._stream, flush=True)
        self._told = told


@asynccontextmanager
async def kept(*caches: Cache[Any]) -> AsyncIterator[asyncio.Event]:
    """Keeps caches, which are filled from the beginning; the event is set by every change."""
    changed = asyncio.Event()
    for cache in caches:
        cache.subscribe(lambda _: changed.set())
    tasks = [asyncio.create_task(cache.run()) for cache in caches]
    try:
        for cache in caches:
            await cache.wait_synced()
        yield changed
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def get(client: Client, where: Place, name: str) -> FirmwareRollout:
    """The rollout of a name; Failed where there is none."""
    try:
        return await client.of(FirmwareRollout).get(where.key(name))
    except NotFound as error:
        raise missing(FirmwareRollout.kind, name, where, error) from None


async def frozen(client: Client) -> str:
    """Why the fleet is frozen; empty where it is not, or nobody here may know."""
    try:
        fleet = await client.of(Fleet).get(Key("", FLEET))
    except (NotFound, Forbidden):
        return ""
    return (fleet.spec.reason or "no reason was given") if fleet.spec.frozen else ""


async def follow(
    client: Client,
    where: Place,
    name: str,
    *,
    show: Show,
    until: Callable[[FirmwareRollout], bool],
    limit: float | None = None,
) -> FirmwareRollout:
    """The rollout once it is as it was waited for; TimeIsUp where that takes longer than it may."""
    last = await get(client, where, name)
    uid = last.metadata.uid
    rollouts = Cache(client.of(FirmwareRollout), namespaces=[where.namespace], fields=f"metadata.name={name}")
    jobs = Cache(client.of(FlashJob), namespaces=[where.namespace], labels=f"{ROLLOUT_UID_LABEL}={uid}")
    try:
        async with asyncio.timeout(limit), kept(rollouts, jobs) as changed:
            while True:
                changed.clear()
                now = rollouts.get(where.key(name))
                if now is None or now.metadata.uid != uid:
                    raise Failed(f"rollout {name} was deleted meanwhile")
                last = now
                show(now, sorted(jobs, key=lambda each: each.metadata.name))
                if until(now):
                    if has_ended(now) and not _all_told(jobs):
                        await _told_late(jobs, changed)
                        show(now, sorted(jobs, key=lambda each: each.metadata.name))
                    return now
                if now.status.phase or not await _unseen(changed):
                    await changed.wait()
    except TimeoutError:
        where_now = rollout_text.headline(last)
        raise TimeIsUp(f"rollout {name} is not there yet after {spans.span(limit or 0)}: {where_now}") from None


def _all_told(jobs: Iterable[FlashJob]) -> bool:
    """Whether each job has told of its end, unless it is kept from it."""
    return all(job.status.completion_time is not None or job.spec.paused for job in jobs)


async def _told_late(jobs: Iterable[FlashJob], changed: asyncio.Event) -> None:
    """Waits for the jobs to tell of their end; not for long, for one that goes on is none of this."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LATE):
            while not _all_told(jobs):
                changed.clear()
                await changed.wait()


async def _unseen(changed: asyncio.Event) -> bool:
    """Waits for a change of a rollout that no operator has looked at; False, and said, where none comes for long."""
    try:
        async with asyncio.timeout(UNSEEN):
            await changed.wait()
    except TimeoutError:
        terminal.say("No operator has looked at it yet: is one running, with the controller of rollouts?")
        return False
    return True


def display(stream: TextIO | None = None) -> Display:
    """What shows a rollout on standard output, or elsewhere."""
    return Display(stream or sys.stdout)
