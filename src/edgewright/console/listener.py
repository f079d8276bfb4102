"""The console's port: HTTP or HTTPS, with limits on what a stranger can take.

`edgewright console` opens one. A connection that is not used is closed, one that never asks anything is cut, headers
have a size, and there are only so many connections. It knows nothing of operations.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from edgewright.console.limits import Limits
from edgewright.runtime.config import ConfigError

_IDLE_SECONDS: Final = 75.0
_FIRST_REQUEST_SECONDS: Final = 20.0
_HANDSHAKE_SECONDS: Final = 10.0
_STOP_SECONDS: Final = 2.0
_LINGER_SECONDS: Final = 2.0
_BACKLOG: Final = 256
# aiohttp writes a traceback for each request that is not HTTP: any port scanner could fill the log with them.
_QUIET: Final = logging.getLogger("edgewright.console.http")
_QUIET.setLevel(logging.CRITICAL)


class Connection(RequestHandler):
    """One client's connection, which knows whether it was ever asked anything."""

    __slots__ = ("asked",)

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.asked = False
        """Whether a request has come."""


class Listener:
    """An open port; `close` it."""

    def __init__(self, server: asyncio.Server, runner: web.AppRunner, end_streams: Callable[[], None]) -> None:
        """Made by `listen`."""
        self._server = server
        self._runner = runner
        self._end_streams = end_streams
        self.port: int = server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Takes no more connections, ends streams, lets other requests end for a moment, and cuts the rest."""
        self._server.close()
        self._end_streams()
        handlers = self._runner.server.connections if self._runner.server else []
        transports = [each.transport for each in handlers]
        await self._runner.cleanup()
        for transport in transports:
            if transport is not None:
                with suppress(AttributeError):  # Python 3.11.2, where its TLS is over already
                    transport.abort()
        await asyncio.sleep(0)  # the transports close their sockets in the next round of the loop


async def listen(
    application: web.Application,
    *,
    host: str,
    port: int,
    tls: ssl.SSLContext | None,
    limits: Limits,
    end_streams: Callable[[], None],
) -> Listener:
    """Opens the port (0: any free one) and answers with the application."""
    loop = asyncio.get_running_loop()
    settings: dict[str, Any] = {
        "access_log": None,
        "logger": _QUIET,
        "keepalive_timeout": _IDLE_SECONDS,
        "max_line_size": limits.header_bytes // 4,
        "max_field_size": limits.header_bytes,
        "max_headers": 64,
        "lingering_time": _LINGER_SECONDS,
        "tcp_keepalive": True,
    }

    @web.middleware
    async def remember(request: web.Request, handler: Any) -> web.StreamResponse:
        if isinstance(request.protocol, Connection):
            request.protocol.asked = True
        answer: web.StreamResponse = await handler(request)
        return answer

    application.middlewares.insert(0, remember)
    runner = web.AppRunner(application, handler_cancellation=True, shutdown_timeout=_STOP_SECONDS / 2, **settings)
    await runner.setup()
    http = runner.server
    if http is None:
        raise AssertionError("unreachable: the runner is set up")

    def connection() -> asyncio.BaseProtocol:
        if len(http.connections) >= limits.connections:
            return _Refused()
        made = Connection(http, loop=loop, **settings)

        def cut() -> None:
            if not made.asked and made.transport is not None:
                made.transport.abort()

        loop.call_later(_FIRST_REQUEST_SECONDS, cut)
        return made

    secured: dict[str, Any] = {} if tls is None else {"ssl": tls, "ssl_handshake_timeout": _HANDSHAKE_SECONDS}
    try:
        server = await loop.create_server(connection, host, port, backlog=_BACKLOG, family=socket.AF_UNSPEC, **secured)
    except BaseException:
        await runner.cleanup()
        raise
    return Listener(server, runner, end_streams)


def serving_tls(certificate: Path, key: Path) -> ssl.SSLContext:
    """TLS with a certificate and its key from files; ConfigError says which of them cannot be used."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    for option, file in (("--tls-cert", certificate), ("--tls-key", key)):
        if not file.is_file():
            raise ConfigError(f"{option}: {file}: there is no such file")
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (ssl.SSLError, OSError, ValueError) as error:
        raise ConfigError(f"--tls-cert {certificate} and --tls-key {key}: cannot be used: {error}") from error
    return context


def _no_password() -> str:
    # Without this OpenSSL would ask for the password on the terminal.
    raise ValueError("the key is encrypted with a password, which is not supported")


class _Refused(asyncio.Protocol):
    """The connection that is one too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
