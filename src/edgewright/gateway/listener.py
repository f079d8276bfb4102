"""The port that devices dial into: TLS, HTTP, and limits on what a stranger can take.

`gateway` opens one with the server's `handle`. A connection that is not used is closed, one that never asks anything is
cut, and there are only so many. It knows nothing of Kubernetes or of messages.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final, TypeAlias

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from edgewright.gateway.settings import Limits
from edgewright.runtime.health import ListenError

_STOP_SECONDS: Final = 2.0
_BACKLOG: Final = 512
# aiohttp writes a traceback for each request that is not HTTP: any port scanner could fill the log with them.
_QUIET: Final = logging.getLogger("edgewright.gateway.http")
_QUIET.setLevel(logging.CRITICAL)

Handle: TypeAlias = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Connection(RequestHandler):
    """One device's connection, which remembers the certificate that it was opened with."""

    __slots__ = ("_certificate", "asked")

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._certificate: bytes | None = None
        self.asked = False
        """Whether a request has come."""

    @property
    def certificate(self) -> bytes | None:
        """The client's certificate in DER, read once."""
        if self._certificate is None and self.transport is not None:
            tls = self.transport.get_extra_info("ssl_object")
            self._certificate = None if tls is None else tls.getpeercert(binary_form=True)
        return self._certificate


class Listener:
    """An open port; `close` it."""

    def __init__(self, server: asyncio.Server, http: web.Server) -> None:
        self._server = server
        self._http = http
        self.port: int = server.sockets[0].getsockname()[1]

    @property
    def connections(self) -> int:
        """How many connections are open now."""
        return len(self._http.connections)

    async def close(self) -> None:
        """Takes no more connections, lets requests under way end for a moment, and cuts the rest."""
        self._server.close()
        transports = [each.transport for each in self._http.connections]
        await self._http.shutdown(_STOP_SECONDS)
        for transport in transports:
            if transport is not None:
                with suppress(AttributeError):  # Python 3.11.2, where its TLS is over already
                    transport.abort()
        await asyncio.sleep(0)  # the transports close their sockets in the next round of the loop


async def listen(handle: Handle, *, host: str, port: int, tls: ssl.SSLContext, limits: Limits) -> Listener:
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
        "keepalive_timeout": limits.idle_seconds,
        "max_line_size": limits.line_bytes,
        "max_field_size": limits.header_bytes,
        "max_headers": limits.headers,
        "lingering_time": _STOP_SECONDS,
        "tcp_keepalive": True,
    }
    http = web.Server(handled, handler_cancellation=True, **settings)

    def connection() -> asyncio.BaseProtocol:
        if len(http.connections) >= limits.connections:
            return _Refused()
        made = Connection(http, loop=loop, **settings)

        def cut() -> None:
            if not made.asked and made.transport is not None:
                made.transport.abort()

        loop.call_later(limits.first_request_seconds, cut)
        return made

    try:
        server = await loop.create_server(
            connection,
            host or None,
            port,
            ssl=tls,
            backlog=_BACKLOG,
            ssl_handshake_timeout=limits.handshake_seconds,
            family=socket.AF_UNSPEC,
        )
    except OSError as error:
        why = "another program listens there already" if error.errno == errno.EADDRINUSE else error.strerror or error
        raise ListenError(f"cannot listen on {host or '*'}:{port}: {why}") from error
    return Listener(server, http)


class _Refused(asyncio.Protocol):
    """The connection that is one too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
