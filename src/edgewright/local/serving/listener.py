"""The port of the API server: TLS, HTTP, and limits on what a stranger can take.

`control_plane` opens one with the server's `handle`. Connections are counted from the moment in which they are
accepted. Whoever is not known yet gets one answer per connection and shares a small quota with all other strangers, in
which the oldest gives way to the newest: nobody who only connects can keep out those who are known.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from edgewright.local.access.authentication import User, user_of_connection
from edgewright.runtime.sockets import accept, cut, readable

MAX_CONNECTIONS: Final = 4096
MAX_HANDSHAKES: Final = 128
"""So many connections may be in their handshake at a time; it takes a client of good will some milliseconds."""
MAX_STRANGERS: Final = 256
"""So many connections may be open on which nobody has shown a certificate or a token yet."""
_IDLE_SECONDS: Final = 75.0
_FIRST_REQUEST_SECONDS: Final = 20.0
_HANDSHAKE_SECONDS: Final = 10.0
_STOP_SECONDS: Final = 2.0
# Who sends too much is read for so long after the answer: else the answer is lost when the connection is cut.
_LINGER_SECONDS: Final = 2.0
_MAX_LINE: Final = 64 * 1024
_BACKLOG: Final = 512
# With no descriptor left nothing can be accepted: asked again after so long, as asyncio does.
_PAUSE_SECONDS: Final = 1.0
_NO_DESCRIPTOR: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
# aiohttp writes a traceback for each request that is not HTTP: any port scanner could fill the log with them.
_QUIET: Final = logging.getLogger("edgewright.local.http")
_QUIET.setLevel(logging.CRITICAL)

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Serve = Callable[[socket.socket], Awaitable[None]]


class Connection(RequestHandler):
    """One client's connection, which remembers whose certificate it was opened with."""

    __slots__ = ("_peer", "_strangers", "asked")

    _UNKNOWN: Final = object()

    def __init__(self, *arguments: Any, strangers: dict[Connection, None], **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._peer: object = self._UNKNOWN
        self._strangers = strangers
        self.asked = False
        """Whether a request has come."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The handshake is over: without a certificate it is a stranger's, and one too many costs the oldest."""
        super().connection_made(transport)
        if self.peer() is None:
            self._strangers[self] = None
            if len(self._strangers) > MAX_STRANGERS:
                next(iter(self._strangers)).cut()

    def connection_lost(self, exc: BaseException | None) -> None:
        """It is over, whoever it was."""
        self._strangers.pop(self, None)
        super().connection_lost(exc)

    def peer(self) -> User | None:
        """The user of the certificate, read once."""
        if self._peer is self._UNKNOWN:
            transport = self.transport
            self._peer = user_of_connection(None if transport is None else transport.get_extra_info("ssl_object"))
        return self._peer if isinstance(self._peer, User) else None

    @property
    def known(self) -> bool:
        """Whether somebody has shown who they are."""
        return self not in self._strangers

    def recognise(self) -> None:
        """Somebody has shown a token: no stranger any more."""
        self._strangers.pop(self, None)

    def cut(self) -> None:
        """Ends it at once."""
        self._strangers.pop(self, None)
        if self.transport is not None:
            self.transport.abort()


class Listener:
    """An open port; `close` it."""

    def __init__(self, sockets: list[socket.socket], http: web.Server, serve: Serve) -> None:
        self._sockets = sockets
        self._http = http
        self._handshakes: dict[asyncio.Task[None], socket.socket] = {}
        self._given_way: set[asyncio.Task[None]] = set()
        self._serve = serve
        self._accepting = [asyncio.create_task(self._accept(each), name="accept") for each in sockets]
        self.port: int = sockets[0].getsockname()[1]

    async def close(self, end_streams: Callable[[], None] = lambda: None) -> None:
        """Takes no more connections, lets requests under way end for a moment, and cuts the rest.

        `end_streams` ends the answers that would go on for ever, such as watches: nobody need wait for them.
        """
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for each in self._sockets:
            each.close()
        for each in self._handshakes.values():
            cut(each)
        await asyncio.gather(*self._handshakes, *self._given_way)
        end_streams()
        transports = [each.transport for each in self._http.connections]
        await self._http.shutdown(_STOP_SECONDS)
        for transport in transports:
            if transport is not None:
                with suppress(AttributeError):  # Python 3.11.2, where its TLS is over already
                    transport.abort()
        await asyncio.sleep(0)  # the transports close their sockets in the next round of the loop

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                callers = await accept(listening)
            except OSError as error:
                if error.errno in _NO_DESCRIPTOR:
                    await asyncio.sleep(_PAUSE_SECONDS)
                continue  # whoever called has gone again
            for accepted, _ in callers:
                if len(self._http.connections) >= MAX_CONNECTIONS:
                    accepted.close()
                    continue
                if len(self._handshakes) >= MAX_HANDSHAKES:
                    self._give_way(next(iter(self._handshakes)))
                task = asyncio.create_task(self._shake_hands(accepted), name="handshake")
                self._handshakes[task] = accepted
                task.add_done_callback(lambda done: self._handshakes.pop(done, None))

    def _give_way(self, oldest: asyncio.Task[None]) -> None:
        cut(self._handshakes.pop(oldest))
        self._given_way.add(oldest)
        oldest.add_done_callback(self._given_way.discard)

    async def _shake_hands(self, accepted: socket.socket) -> None:
        try:
            await self._serve(accepted)
        except (OSError, TimeoutError):
            accepted.close()  # it is no TLS, took too long, or gave way to another


async def listen(handle: Handle, *, host: str, port: int, tls: ssl.SSLContext) -> Listener:
    """Opens the port (0: any free one) and answers every request with `handle`."""
    loop = asyncio.get_running_loop()

    async def handled(request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        if not isinstance(connection, Connection):
            return await handle(request)
        connection.asked = True
        response = await handle(request)
        if not connection.known:
            response.force_close()
        return response

    settings: dict[str, Any] = {
        "access_log": None,
        "logger": _QUIET,
        "keepalive_timeout": _IDLE_SECONDS,
        "max_line_size": _MAX_LINE,
        "max_field_size": _MAX_LINE,
        "lingering_time": _LINGER_SECONDS,
        "tcp_keepalive": True,
    }
    http = web.Server(handled, handler_cancellation=True, **settings)
    strangers: dict[Connection, None] = {}

    async def serve(accepted: socket.socket) -> None:
        # What TLS needs is large: it is made for those only who say something.
        async with asyncio.timeout(_HANDSHAKE_SECONDS):
            await readable(accepted)
        _, made = await loop.connect_accepted_socket(
            lambda: Connection(http, loop=loop, strangers=strangers, **settings),
            accepted,
            ssl=tls,
            ssl_handshake_timeout=_HANDSHAKE_SECONDS,
        )
        loop.call_later(_FIRST_REQUEST_SECONDS, lambda: None if made.asked else made.cut())

    return Listener(await _bound(host, port), http, serve)


async def _bound(host: str, port: int) -> list[socket.socket]:
    """Listening sockets at every address of a host, all at one port."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    opened: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            listening = socket.socket(family, kind, protocol)
            opened.append(listening)
            listening.setblocking(False)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listening.bind(address)
            listening.listen(_BACKLOG)
    except BaseException:
        for each in opened:
            each.close()
        raise
    return opened
