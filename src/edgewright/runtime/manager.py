"""Puts the parts together and runs them: caches, the gate, leader election, controllers, metrics and health.

A program creates one Manager, asks it for caches, adds controllers and awaits `run`. The order is the same always:
listen, fill the caches, become the leader, catch up with what the leader before wrote last, work; and backwards when
asked to stop: no new passes, those under way get up to 30 seconds, the lease is given back, everything is closed. A
leader that loses its lease stops at once with LeaseLost.
"""

from __future__ import annotations

import asyncio
import signal
import ssl
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, TypeVar

from edgewright.runtime import logs
from edgewright.runtime.cache import Cache
from edgewright.runtime.client import Client
from edgewright.runtime.clock import Clock, SystemClock
from edgewright.runtime.controller import Controller, Reconcile, Source
from edgewright.runtime.events import Recorder
from edgewright.runtime.health import Health, metrics_page, serve
from edgewright.runtime.lease import Leadership
from edgewright.runtime.metrics import Metrics
from edgewright.runtime.metrics_access import MetricsAccess
from edgewright.runtime.objects import Key, Resource

R = TypeVar("R", bound=Resource)

_log = logs.get("runtime.manager")


@dataclass(frozen=True, kw_only=True)
class LeaseSettings:
    """Which lease makes the leader, and its times in seconds."""

    name: str
    namespace: str
    identity: str | None = None
    duration: float = 15.0
    renew_within: float = 10.0
    retry_every: float = 2.0


class Manager:
    """One program's caches and controllers, from start to stop."""

    def __init__(
        self,
        client: Client,
        *,
        name: str = "edgewright",
        lease: LeaseSettings | None = None,
        namespaces: Sequence[str] = (),
        metrics_port: int | None = None,
        health_port: int | None = None,
        host: str = "127.0.0.1",
        metrics_tls: ssl.SSLContext | None = None,
        drain_seconds: float = 30.0,
        clock: Clock | None = None,
    ) -> None:
        """With `metrics_tls` metrics are served over TLS, to those alone whom the API server lets get /metrics."""
        self.metrics = Metrics()
        self.health = Health()
        self._reader = client
        self._clock = clock or SystemClock()
        self._namespaces = tuple(namespaces) or ("",)
        self._ports = {"metrics": metrics_port, "health": health_port}
        self._host = host
        self._metrics_tls = metrics_tls
        self._drain_seconds = drain_seconds
        self._caches: dict[tuple[type[Resource], str, str], Cache[Any]] = {}
        self._controllers: list[Controller] = []
        self._at_stop: list[Callable[[], None]] = []
        self._background: list[tuple[str, Callable[[], Coroutine[Any, Any, None]]]] = []
        self._stop = asyncio.Event()
        self.listening: dict[str, int] = {}
        """The ports that are served, by page, once `run` has begun."""

        server = client.config.server
        client.transport.on_answer = lambda method, code: self.metrics.request(code=code, method=method, host=server)
        self.leadership: Leadership | None = None
        if lease is not None:
            leadership = self.leadership = Leadership(
                client,
                Key(lease.namespace, lease.name),
                identity=lease.identity,
                duration=lease.duration,
                renew_within=lease.renew_within,
                retry_every=lease.retry_every,
                clock=self._clock,
            )
            self.metrics.leading(lease.name, lambda: leadership.leading)
            self.health.add_readiness(f"lease {leadership.key}", lambda: leadership.problem)
        self.client = client.fenced(self.leadership) if self.leadership else client
        """What controllers write with: under a lease it sends nothing once the lease is over."""
        self.recorder = Recorder(self.client, name, clock=self._clock, dropped=self.metrics.event_dropped)

    def cache(self, resource: type[R], *, labels: str = "", fields: str = "", optional: bool = False) -> Cache[R]:
        """The cache of a kind in the manager's namespaces; asked for again, it is the same one.

        A kind must be installed before anything is reconciled, unless whoever asks first says that it is `optional`:
        then one that is not installed counts as empty.
        """
        key = (resource, labels, fields)
        known = self._caches.get(key)
        if known is None:
            name = ",".join(filter(None, (resource.kind.resource, labels, fields)))
            metrics = self.metrics.for_cache(name)
            cache = known = Cache(
                self._reader.of(resource),
                namespaces=self._namespaces if resource.kind.namespaced else ("",),
                labels=labels,
                fields=fields,
                optional=optional,
                clock=self._clock,
                listed=metrics.listed,
            )
            metrics.ask(objects=lambda: len(cache), undecodable=lambda: len(cache.unread))
            self.health.add_readiness(f"cache of {name}", lambda: cache.problem)
            self._caches[key] = cache
        return known

    def controller(
        self, name: str, reconcile: Reconcile, *sources: Source, workers: int = 1, deadline: float = 60.0
    ) -> Controller:
        """Adds a controller; it works while this process leads."""
        controller = Controller(
            name, reconcile, *sources, workers=workers, deadline=deadline, clock=self._clock, metrics=self.metrics
        )
        self._controllers.append(controller)
        # A connection per worker, and one for events: more would only queue in the server.
        self.client.transport.connections = max(1, sum(each.workers for each in self._controllers)) + 1
        return controller

    def watches(self, namespace: str) -> bool:
        """Whether the caches hold what is in this namespace."""
        return "" in self._namespaces or namespace in self._namespaces

    @property
    def leads(self) -> bool:
        """Whether this process does the work: it holds the lease, or there is none."""
        return self.leadership is None or self.leadership.leading

    def background(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Has `work` run next to the controllers while this process leads; it goes on until it is cancelled."""
        self._background.append((name, work))

    def at_stop(self, call: Callable[[], None]) -> None:
        """Has `call` called when no new pass is started any more, to cut short what passes under way wait for."""
        self._at_stop.append(call)

    def stop(self) -> None:
        """Asks `run` to stop in good order; it may be called at any time, also twice."""
        self._stop.set()

    async def run(self, *, signals: bool = False) -> None:
        """Runs until `stop` (or SIGTERM and SIGINT, with `signals`); raises what ended it otherwise."""
        tasks: list[asyncio.Task[None]] = []
        with self._signals() if signals else nullcontext():
            try:
                async with self._listening():
                    tasks += [asyncio.create_task(each.run(), name=str(each.kind)) for each in self._caches.values()]
                    if await self._finished(self._prepare(), unless=tasks):
                        await self._work(tasks)
            finally:
                await _cancel(tasks)
                await self.client.close()
                await self._reader.close()

    async def _prepare(self) -> None:
        """The gate: nothing is reconciled before every cache is filled and this process leads."""
        for cache in self._caches.values():
            await cache.wait_synced()
        if self.leadership is not None:
            await self.leadership.acquire()

    async def _catch_up(self) -> None:
        """Lets every cache see the last writes of the leader before, all of which were answered before we led.

        Controllers rely on it: from here on they are the only ones who write what they count, and they know that.
        """
        await asyncio.gather(*(cache.refresh() for cache in self._caches.values()))

    async def _work(self, tasks: list[asyncio.Task[None]]) -> None:
        """Runs the controllers until a stop, then drains them and gives the lease back; their tasks join `tasks`."""
        if self.leadership is not None:
            tasks.append(asyncio.create_task(self.leadership.hold(), name="lease"))
            if not await self._finished(self._catch_up(), unless=tasks):
                await _cancel(tasks)
                await self.leadership.release()
                return
        tasks.append(asyncio.create_task(self.recorder.run(), name="events"))
        tasks += [asyncio.create_task(work(), name=name) for name, work in self._background]
        passes = [asyncio.create_task(each.run(), name=f"controller {each.name}") for each in self._controllers]
        tasks += passes
        await self._finished(self._stop.wait(), unless=tasks)
        for controller in self._controllers:
            controller.stop()
        for call in self._at_stop:
            call()
        try:
            async with self._clock.timeout(self._drain_seconds):
                await asyncio.gather(*passes)
                await self.recorder.flush()
        except TimeoutError:
            # What they sent last may still take effect: the lease is not given back, and runs out before another leads.
            _log.warning("reconciles still running at shutdown were cancelled", after_seconds=self._drain_seconds)
            return
        if self.leadership is not None:
            await _cancel(tasks)
            await self.leadership.release()

    async def _finished(self, work: Coroutine[Any, Any, object], *, unless: Collection[asyncio.Task[None]]) -> bool:
        """Whether `work` ended before a stop was asked for; raises where one of the tasks that must go on ended."""
        working, stopping = asyncio.create_task(work), asyncio.create_task(self._stop.wait())
        try:
            done, _ = await asyncio.wait([working, stopping, *unless], return_when=asyncio.FIRST_COMPLETED)
            for task in unless:
                if task in done:
                    task.result()
                    raise RuntimeError(f"{task.get_name()} ended by itself")
            if working in done:
                working.result()
            return working in done
        finally:
            await _cancel([working, stopping])

    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[None]:
        listeners = []
        try:
            tls = self._metrics_tls
            access = None if tls is None else MetricsAccess(self._reader, clock=self._clock)
            pages = {"metrics": lambda: metrics_page(self.metrics, access=access), "health": self.health.pages}
            for name, port in self._ports.items():
                if port is None:
                    continue  # a page that nobody can ask for is not made either: its library takes long to import
                secured = tls if name == "metrics" else None
                listener = await serve(pages[name](), host=self._host, port=port, tls=secured)
                listeners.append(listener)
                self.listening[name] = listener.port
            yield
        finally:
            for listener in listeners:
                await listener.close()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(number)


async def _cancel(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Ends tasks and waits until they have ended; how they ended is no longer needed."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
