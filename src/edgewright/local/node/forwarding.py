"""Forwards TCP connections from addresses of Services to those who serve them.

`services` says with `offer` what each Service has to offer; a listener stays open as long as anybody offers something
there, and connections under way are left alone whatever changes. Bytes are copied with back-pressure, each direction
ends on its own, and every wait has a limit. Who connects from outside the ranges of all Services at an address is
refused. It knows nothing of Kubernetes.
"""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
import socket
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from edgewright.local.node.forwarding_datagrams import DatagramListener
from edgewright.local.node.pool import ANYWHERE, Network
from edgewright.runtime import Key, logs

_log = logs.get("local.forwarding")
_CHUNK = 1 << 16
_BACKLOG = 256


class Bind(NamedTuple):
    """Where to listen."""

    protocol: str
    address: str
    port: int

    def __str__(self) -> str:
        """For messages: `127.60.0.1:4433/TCP`."""
        return f"{self.address}:{self.port}/{self.protocol}"


class Backend(NamedTuple):
    """Who serves."""

    address: str
    port: int


@dataclass(frozen=True)
class Route:
    """From whom connections are taken, and who gets them in turn."""

    backends: tuple[Backend, ...]
    ranges: tuple[Network, ...] = (ANYWHERE,)

    def admits(self, peer: str) -> bool:
        """Whether somebody at this address may connect."""
        address = ipaddress.IPv4Address(peer)
        return any(address in network for network in self.ranges)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much is forwarded, and for how long nothing may happen."""

    connections: int = 4096
    """At all listeners together."""
    connections_each: int = 1024
    connect_seconds: float = 5.0
    idle_seconds: float = 900.0
    datagram_idle_seconds: float = 60.0


class Forwarder:
    """All listeners, and the connections through them."""

    def __init__(self, *, limits: Limits | None = None, count: Callable[[str], None] | None = None) -> None:
        self.limits = limits or Limits()
        self.counts: Counter[str] = Counter()
        """What became of connections: forwarded (then idle or broken), refused, no-endpoint, unreachable, too-many."""
        self._count_for_others = count
        self._listeners: dict[Bind, _Listener] = {}
        self._offered: dict[Key, Mapping[Bind, Route]] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._closed = asyncio.Event()

    @property
    def binds(self) -> set[Bind]:
        """Where it listens."""
        return {bind for bind, listener in self._listeners.items() if listener.open}

    @property
    def live(self) -> int:
        """How many TCP connections are under way."""
        return len(self._connections)

    async def offer(self, service: Key, routes: Mapping[Bind, Route]) -> dict[Bind, str]:
        """Makes this all that the Service offers; answers where it cannot listen, with the reason."""
        if self._closed.is_set():
            return {}
        for bind in self._offered.get(service, {}):
            if bind not in routes:
                self._withdraw(service, bind)
        self._offered[service] = dict(routes)
        faults: dict[Bind, str] = {}
        for bind, route in routes.items():
            listener = self._listeners.setdefault(bind, _Listener(bind, self))
            listener.routes[service] = route
            try:
                await listener.start()
            except OSError as error:
                faults[bind] = error.strerror or str(error)
            if self._closed.is_set():  # meanwhile
                listener.stop()
                return {}
        if not routes:
            del self._offered[service]
        return faults

    async def close(self) -> None:
        """Stops listening and ends every connection, for good: what is offered later is not listened for."""
        self._closed.set()
        for listener in self._listeners.values():
            listener.stop()
        self._listeners.clear()
        self._offered.clear()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _withdraw(self, service: Key, bind: Bind) -> None:
        listener = self._listeners[bind]
        listener.routes.pop(service, None)
        if not listener.routes:
            listener.stop()
            del self._listeners[bind]

    def count(self, outcome: str) -> None:
        """Notes what became of a connection."""
        self.counts[outcome] += 1
        if self._count_for_others is not None:
            self._count_for_others(outcome)

    def take(self, listener: _Listener, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves a new connection in a task of its own, if there is room for it."""
        if len(self._connections) >= self.limits.connections or listener.live >= self.limits.connections_each:
            self.count("too-many")
            writer.transport.abort()
            return
        task = asyncio.create_task(listener.serve(reader, writer))
        listener.live += 1
        self._connections.add(task)
        task.add_done_callback(lambda done: self._done(listener, done))

    def _done(self, listener: _Listener, task: asyncio.Task[None]) -> None:
        listener.live -= 1
        self._connections.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("connection could not be forwarded", bind=str(listener.bind), error=error)


@dataclass
class _Listener:
    """One address and port, for one Service or several with different ranges."""

    bind: Bind
    forwarder: Forwarder
    routes: dict[Key, Route] = field(default_factory=dict)
    live: int = 0

    def __post_init__(self) -> None:
        self._server: asyncio.Server | None = None
        self._datagrams: DatagramListener | None = None
        self._turn = itertools.count()
        self._repeated = logs.Repeated(_log)

    @property
    def open(self) -> bool:
        return self._server is not None or self._datagrams is not None

    async def start(self) -> None:
        if self.open:
            return
        _, address, port = self.bind
        if self.bind.protocol == "UDP":
            limits = self.forwarder.limits
            self._datagrams = await DatagramListener.open(
                (address, port),
                route=self._datagram_route,
                peers=limits.connections_each,
                idle_seconds=limits.datagram_idle_seconds,
                count=self.forwarder.count,
            )
            return

        def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.forwarder.take(self, reader, writer)

        self._server = await asyncio.start_server(
            connected, address, port, family=socket.AF_INET, limit=_CHUNK, backlog=_BACKLOG
        )

    def stop(self) -> None:
        """Closes the listening socket; connections under way go on."""
        if self._server is not None:
            self._server.close()
        if self._datagrams is not None:
            self._datagrams.close()
        self._server = self._datagrams = None

    def route_for(self, peer: str) -> Route | None:
        """The route of the Service whose range holds the peer; a stranger is counted, and named in the log."""
        for route in self.routes.values():
            if route.admits(peer):
                return route
        self.forwarder.count("refused")
        self._repeated.warning(
            "connection refused: not in loadBalancerSourceRanges",
            at=str(self.bind),
            error=f"{peer} is in no source range",
        )
        return None

    def _datagram_route(self, peer: str) -> Backend | None:
        route = self.route_for(peer)
        if route is not None and not route.backends:
            self.forwarder.count("no-endpoint")
        if route is None or not route.backends:
            return None
        return route.backends[next(self._turn) % len(route.backends)]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection from begin to end."""
        inner: asyncio.StreamWriter | None = None
        try:
            name = writer.get_extra_info("peername")
            route = self.route_for(name[0]) if name else None  # no name: the peer has gone already
            opened = await self._dial(route) if route is not None else None
            if opened is None:
                writer.transport.abort()
                return
            inner = opened[1]
            self.forwarder.count("forwarded")
            await _join((reader, writer), opened, self.forwarder.limits.idle_seconds)
        except TimeoutError:
            self.forwarder.count("idle")
        except OSError:
            self.forwarder.count("broken")  # one side reset the connection, and so is the other
        finally:
            for each in (writer, inner):
                if each is not None:
                    each.transport.abort()

    async def _dial(self, route: Route) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """A connection to one who serves: to each in turn, and to the next where one cannot be reached."""
        backends = route.backends
        if not backends:
            self.forwarder.count("no-endpoint")
            return None
        start = next(self._turn)
        for step in range(len(backends)):
            backend = backends[(start + step) % len(backends)]
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(self.forwarder.limits.connect_seconds):
                    return await asyncio.open_connection(*backend, limit=_CHUNK)
        self.forwarder.count("unreachable")
        self._repeated.warning(
            "no endpoint of the Service can be reached", at=str(self.bind), error=str(list(backends))
        )
        return None


_Side = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _join(one: _Side, other: _Side, idle_seconds: float) -> None:
    """Copies both ways until both have ended; TimeoutError when nothing moved for too long."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(idle_seconds) as scope:

        def moved() -> None:
            scope.reschedule(loop.time() + idle_seconds)

        there = asyncio.ensure_future(_copy(one[0], other[1], moved))
        back = asyncio.ensure_future(_copy(other[0], one[1], moved))
        try:
            await asyncio.gather(there, back)
        finally:
            for each in (there, back):
                each.cancel()
            await asyncio.gather(there, back, return_exceptions=True)
        for _, writer in (one, other):
            writer.close()
            await writer.wait_closed()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, moved: Callable[[], None]) -> None:
    """Copies until the end, and passes the end on: the other direction may go on."""
    while chunk := await reader.read(_CHUNK):
        moved()
        writer.write(chunk)
        await writer.drain()
        moved()
    writer.write_eof()
