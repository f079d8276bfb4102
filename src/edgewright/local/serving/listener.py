"""The port of the API server: TLS, HTTP, and limits on what a stranger can take.

`control_plane` opens one with the server's `handle`. A connection that is not used is closed, one that never asks
anything is cut, and there are only so many. It knows nothing of Kubernetes.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from edgewright.local.access.authentication import User, user_of_connection

MAX_CONNECTIONS: Final = 4096
_IDLE_SECONDS: Final = 75.0
_FIRST_REQUEST_SECONDS: Final = 20.0
_HANDSHAKE_SECONDS: Final = 10.0
_STOP_SECONDS: Final = 2.0
# Who sends too much is read for so long after the answer: else the answer is lost when the connection is cut.
_LINGER_SECONDS: Final = 2.0
_MAX_LINE: Final = 64 * 1024
_BACKLOG: Final = 512
# aiohttp writes a traceback for each request that is not HTTP: any port scanner could fill the log with them.
_QUIET: Final = logging.getLogger("edgewright.local.http")
_QUIET.setLevel(logging.CRITICAL)

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Connection(RequestHandler):
    """One client's connection, which remembers whose certificate it was opened with."""

    __slots__ = ("_peer", "asked")

    _UNKNOWN: Final = object()

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._peer: object = self._UNKNOWN
        self.asked = False
        """Whether a request has come."""

    def peer(self) -> User | None:
        """The user of the certificate, read once."""
        if self._peer is self._UNKNOWN:
            transport = self.transport
            self._peer = user_of_connection(None if transport is None else transport.get_extra_info("ssl_object"))
        return self._peer if isinstance(self._peer, User) else None


class Listener:
    """An open port; `close` it."""

    def __init__(self, server: asyncio.Server, http: web.Server) -> None:
        self._server = server
        self._http = http
        self.port: int = server.sockets[0].getsockname()[1]

    async def close(self, end_streams: Callable[[], None] = lambda: None) -> None:
        """Takes no more connections, lets requests under way end for a moment, and cuts the rest.

        `end_streams` ends the answers that would go on for ever, such as watches: nobody need wait for them.
        """
        self._server.close()
        end_streams()
        transports = [each.transport for each in self._http.connections]
        await self._http.shutdown(_STOP_SECONDS)
        for transport in transports:
            if transport is not None:
                with suppress(AttributeError):  # Python 3.11.2, where its TLS is over already
                    transport.abort()
        await asyncio.sleep(0)  # the transports close their sockets in the next round of the loop


async def listen(handle: Handle, *, host: str, port: int, tls: ssl.SSLContext) -> Listener:
    """Opens the port (0: any free one) and answers every request with `handle`."""
    loop = asyncio.get_running_loop()

    async def handled(request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        if isinstance(connection, Connection):
            connection.asked = True
        return await handle(request)

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

    def connection() -> asyncio.BaseProtocol:
        if len(http.connections) >= MAX_CONNECTIONS:
            return _Refused()
        made = Connection(http, loop=loop, **settings)

        def cut() -> None:
            if not made.asked and made.transport is not None:
                made.transport.abort()

        loop.call_later(_FIRST_REQUEST_SECONDS, cut)
        return made

    server = await loop.create_server(
        connection,
        host,
        port,
        ssl=tls,
        backlog=_BACKLOG,
        ssl_handshake_timeout=_HANDSHAKE_SECONDS,
        family=socket.AF_UNSPEC,
    )
    return Listener(server, http)


class _Refused(asyncio.Protocol):
    """The connection that is one too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
