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
from asyncio import sslproto
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from edgewright.gateway.settings import Limits
from edgewright.runtime.health import ListenError
from edgewright.runtime.sockets import abort, accept, cut

_STOP_SECONDS: Final = 2.0
_BACKLOG: Final = 1024
_READ_BUFFER: Final = 16 * 1024
_PASSING: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED})
_PAUSE: Final = 0.1
# No address takes more than one part in so many of the handshakes that may be under way.
_SHARE: Final = 4
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

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what is not HTTP, or too much of it: without aiohttp's text, which agents could not read."""
        answer = web.Response(status=super().handle_error(request, status, exc, message).status)
        answer.force_close()
        return answer


class Listener:
    """An open port; `close` it."""

    def __init__(self, door: _Door, http: web.Server) -> None:
        self._door = door
        self._http = http
        self.port = door.port

    @property
    def connections(self) -> int:
        """How many connections are open now."""
        return len(self._http.connections)

    async def close(self) -> None:
        """Takes no more connections, lets requests under way end for a moment, and cuts the rest."""
        await self._door.close()
        transports = [each.transport for each in self._http.connections]
        await self._http.shutdown(_STOP_SECONDS)
        for transport in transports:
            if transport is not None:
                abort(transport)
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

    def connection() -> Connection:
        made = Connection(http, loop=loop, **settings)

        def cut() -> None:
            if not made.asked and made.transport is not None:
                abort(made.transport)

        loop.call_later(limits.first_request_seconds, cut)
        return made

    # asyncio takes 256 KiB for each TLS connection to read into; ten thousand devices that say little need less.
    sslproto.SSLProtocol.max_size = _READ_BUFFER
    try:
        opened = await asyncio.to_thread(_opened, host, port)
    except OSError as error:
        why = "another program listens there already" if error.errno == errno.EADDRINUSE else error.strerror or error
        raise ListenError(f"cannot listen on {host or '*'}:{port}: {why}") from error
    return Listener(_Door(opened, connection, tls=tls, limits=limits, inside=lambda: len(http.connections)), http)


def _opened(host: str, port: int) -> socket.socket:
    """A socket that listens, on every address where no host is named."""
    if not host:
        both = socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both else socket.AF_INET
        made = socket.create_server(("", port), family=family, backlog=_BACKLOG, dualstack_ipv6=both)
    else:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    made.setblocking(False)
    return made


class _Door:
    """Takes connections, and shakes hands with a bounded number of strangers at a time, of one address with fewer."""

    def __init__(
        self,
        opened: socket.socket,
        made: Callable[[], asyncio.BaseProtocol],
        *,
        tls: ssl.SSLContext,
        limits: Limits,
        inside: Callable[[], int],
    ) -> None:
        self._socket = opened
        self._made = made
        self._tls = tls
        self._limits = limits
        self._inside = inside
        self._shaking: dict[asyncio.Task[None], tuple[socket.socket, str]] = {}
        self.port: int = opened.getsockname()[1]
        self._taking = asyncio.create_task(self._take(), name="gateway door")

    async def close(self) -> None:
        """Takes nobody any more."""
        self._taking.cancel()
        await asyncio.gather(self._taking, return_exceptions=True)
        self._socket.close()
        for taken, _ in self._shaking.values():
            cut(taken)
        await asyncio.gather(*self._shaking)

    async def _take(self) -> None:
        while True:
            try:
                callers = await accept(self._socket)
            except OSError as error:
                if error.errno not in _PASSING:
                    raise
                await asyncio.sleep(_PAUSE)  # out of files or memory: those who are inside go on
                continue
            for taken, address in callers:
                if self._is_full(address[0]):
                    taken.close()
                    continue
                task = asyncio.create_task(self._shake(taken))
                self._shaking[task] = taken, address[0]
                task.add_done_callback(lambda done: self._shaking.pop(done, None))

    def _is_full(self, address: str) -> bool:
        shaking, limits = len(self._shaking), self._limits
        if shaking + self._inside() >= limits.connections or shaking >= limits.handshakes:
            return True
        share = max(1, limits.handshakes // _SHARE)
        return shaking >= share and sum(each == address for _, each in self._shaking.values()) >= share

    async def _shake(self, taken: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                self._made, taken, ssl=self._tls, ssl_handshake_timeout=self._limits.handshake_seconds
            )
        except OSError:  # no certificate, a foreign one, too slow, gone
            taken.close()
