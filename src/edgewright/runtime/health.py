"""What the outside may ask a running program: is it alive, is it ready, its metrics. Small pages over HTTP, or TLS.

The manager names the checks, and serves the pages of `Health` on one port and `metrics_page` on another. What listens
here is open to the whole cluster, so each connection gets one request, little room and little time; it never reads a
request's body, never changes anything, and never shows a secret.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, overload

from edgewright.runtime import logs
from edgewright.runtime.metrics import CONTENT_TYPE, Metrics
from edgewright.runtime.redaction import mask
from edgewright.runtime.sockets import abort

if TYPE_CHECKING:  # imported where pages are made: a command that serves none starts in half the time
    import ssl

    from aiohttp import web

    from edgewright.runtime.metrics_access import MetricsAccess

Check: TypeAlias = Callable[[], str | None]
"""Returns None when all is well, else a sentence why not; must not block."""

log = logs.get("runtime.health")
# aiohttp writes a traceback for each request that is not HTTP: any port scanner could fill the log with them.
_QUIET: Final = logging.getLogger("edgewright.runtime.health.http")
_QUIET.setLevel(logging.CRITICAL)

_PLAIN: Final = {"Content-Type": "text/plain; charset=utf-8", "X-Content-Type-Options": "nosniff"}
_WHY: Final[Mapping[int, str]] = {
    errno.EADDRINUSE: "another program listens there already",
    errno.EACCES: "this user may not use that port",
    errno.EADDRNOTAVAIL: "this machine does not have that address",
}


class ListenError(Exception):
    """Says in one sentence why a port could not be opened."""


class Verdict(NamedTuple):
    """What one check said; `why` is None when it is fine."""

    name: str
    why: str | None


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much of everything one listener gives away."""

    seconds: float = 10.0
    """The whole life of a connection, from its first packet to the last byte of the answer."""
    shutdown_seconds: float = 0.8
    connections: int = 64
    line_bytes: int = 4096
    header_bytes: int = 8192
    headers: int = 64


DEFAULT_LIMITS: Final = Limits()


class Health:
    """The named checks of one program, and the pages that show them."""

    def __init__(self) -> None:
        """Begin without checks: alive and ready."""
        self._readiness: dict[str, Check] = {}

    def add_readiness(self, name: str, check: Check) -> None:
        """Add a check that, when it fails, keeps traffic and roll-outs waiting."""
        _add(self._readiness, name, check)

    def alive(self) -> list[Verdict]:
        """What speaks against the program being alive: nothing, where it can be asked."""
        return []

    def ready(self) -> list[Verdict]:
        """What the readiness checks say now."""
        return [_ask(name, check) for name, check in self._readiness.items()]

    def pages(self) -> list[web.RouteDef]:
        """`/healthz`, `/livez` and `/readyz`; each also with the name of one check behind it."""
        from aiohttp import web  # noqa: PLC0415

        pages: list[web.RouteDef] = []
        for path, checks in (
            ("/healthz", {}),
            ("/livez", {}),
            ("/readyz", self._readiness),
        ):
            pages += [web.get(path, _page(path[1:], checks)), web.get(path + "/{check}", _page(path[1:], checks))]
        return pages


def metrics_page(metrics: Metrics, *, access: MetricsAccess | None = None) -> list[web.RouteDef]:
    """`/metrics`, for Prometheus; with `access` for those alone whom that does not refuse."""
    from aiohttp import web  # noqa: PLC0415

    async def page(request: web.Request) -> web.Response:
        refused = None if access is None else await access.refusal(request.headers)
        if refused is not None:
            asks = {"WWW-Authenticate": "Bearer"} if refused.status == 401 else {}
            return web.Response(status=refused.status, text=f"{refused.why}\n", headers={**_PLAIN, **asks})
        return web.Response(body=metrics.render(), headers={"Content-Type": CONTENT_TYPE})

    return [web.get("/metrics", page)]


def summary(page: str, verdicts: Iterable[Verdict], *, verbose: bool) -> tuple[int, str]:
    """The status code and the text for what the checks said, in the words that kube-apiserver uses."""
    verdicts = list(verdicts)
    failing = [each for each in verdicts if each.why is not None]
    if not failing and not verbose:
        return 200, "ok"
    shown = verdicts if verbose else failing
    lines = [f"[+]{each.name} ok" if each.why is None else f"[-]{each.name} failed: {each.why}" for each in shown]
    if verbose:
        lines.append(f"{page} check {'failed' if failing else 'passed'}")
    return (503 if failing else 200), "\n".join(lines) + "\n"


class Listener:
    """An open port; `close` it."""

    def __init__(self, runner: web.AppRunner, server: asyncio.Server, *, host: str, port: int) -> None:
        """Made by `serve`."""
        self._runner = runner
        self._server = server
        self.host = host
        self.port = port

    @property
    def connections(self) -> int:
        """How many connections are open now."""
        return len(self._runner.server.connections) if self._runner.server else 0

    async def close(self) -> None:
        """Stop listening, let requests under way end within a second, cut those that do not; may be called twice."""
        self._server.close()
        handlers = self._runner.server.connections if self._runner.server else []
        transports = [each.transport for each in handlers]
        await self._runner.cleanup()
        for transport in transports:
            if transport is not None:
                abort(transport)
        await asyncio.sleep(0)  # the transports close their sockets in the next round of the loop


@overload
async def serve(
    pages: Iterable[web.RouteDef],
    *,
    port: int,
    host: str = ...,
    limits: Limits = ...,
    tls: ssl.SSLContext | None = ...,
) -> Listener: ...
@overload
async def serve(
    pages: Iterable[web.RouteDef],
    *,
    port: int | None,
    host: str = ...,
    limits: Limits = ...,
    tls: ssl.SSLContext | None = ...,
) -> Listener | None: ...
async def serve(
    pages: Iterable[web.RouteDef],
    *,
    port: int | None,
    host: str = "",
    limits: Limits = DEFAULT_LIMITS,
    tls: ssl.SSLContext | None = None,
) -> Listener | None:
    """Listen on `port` (0: any free one; None: not at all) of `host` (empty: every address) and answer with `pages`."""
    if port is None:
        return None
    from aiohttp import web  # noqa: PLC0415

    app = web.Application(middlewares=[_guard(limits)], client_max_size=1)
    app.add_routes(pages)
    runner = web.AppRunner(
        app,
        access_log=None,
        logger=_QUIET,
        handler_cancellation=True,
        shutdown_timeout=limits.shutdown_seconds / 2,  # aiohttp waits twice as long
        lingering_time=0,
        max_line_size=limits.line_bytes,
        max_field_size=limits.header_bytes,
        max_headers=limits.headers,
    )
    listening = await _open(host, port)
    try:
        await runner.setup()
        server = await asyncio.get_running_loop().create_server(
            _connections(runner, limits),
            sock=listening,
            ssl=tls,
            ssl_handshake_timeout=None if tls is None else limits.seconds,
            ssl_shutdown_timeout=None if tls is None else limits.shutdown_seconds,
        )
    except BaseException:
        listening.close()
        await runner.cleanup()
        raise
    return Listener(runner, server, host=host, port=listening.getsockname()[1])


def _add(checks: dict[str, Check], name: str, check: Check) -> None:
    if name in checks:
        raise ValueError(f"there is a check named {name!r} already")
    checks[name] = check


def _ask(name: str, check: Check) -> Verdict:
    try:
        why = check()
    except Exception as error:  # a check that cannot be made is one that failed
        why = f"{type(error).__name__}: {error}"
    return Verdict(name, why if why is None else mask(" ".join(why.split())))


def _page(name: str, checks: Mapping[str, Check]) -> Callable[[web.Request], Awaitable[web.Response]]:
    from aiohttp import web  # noqa: PLC0415

    async def page(request: web.Request) -> web.Response:
        chosen: Mapping[str, Check] = checks
        if (one := request.match_info.get("check")) is not None:
            if one not in checks:
                raise web.HTTPNotFound(text="there is no such check\n")
            chosen = {one: checks[one]}
        verdicts = [_ask(each, check) for each, check in chosen.items()]
        status, text = summary(name, verdicts, verbose="verbose" in request.query)
        return web.Response(status=status, text=text, headers=_PLAIN)

    return page


def _guard(limits: Limits) -> Callable[..., Awaitable[web.StreamResponse]]:
    """One request a connection, GET and HEAD only, and no details for strangers when a page fails."""
    from aiohttp import web  # noqa: PLC0415

    @web.middleware
    async def guard(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        answer: web.StreamResponse
        if request.method not in {"GET", "HEAD"}:
            answer = web.Response(status=405, text="only GET and HEAD\n", headers={"Allow": "GET, HEAD"})
        else:
            try:
                async with asyncio.timeout(limits.seconds):
                    answer = await handler(request)
            except web.HTTPException as refusal:
                answer = web.Response(status=refusal.status, text=f"{refusal.text}\n")
            except Exception as error:
                log.error("health page failed", page=request.path, error=error)  # noqa: TRY400 - it has the traceback
                answer = web.Response(status=500, text="internal error\n")
        answer.force_close()
        return answer

    return guard


def _connections(runner: web.AppRunner, limits: Limits) -> Callable[[], asyncio.BaseProtocol]:
    """Make the protocol of each new connection, with an end to its life that does not depend on what it sends.

    aiohttp itself gives the headers of the first request, and a client that does not read, all the time in the world.
    """
    loop = asyncio.get_running_loop()

    def connection() -> asyncio.BaseProtocol:
        server = runner.server
        if server is None or len(server.connections) >= limits.connections:
            return _Refused()
        protocol = server()

        def cut() -> None:
            if protocol.transport is not None:
                abort(protocol.transport)

        loop.call_later(limits.seconds, cut)
        return protocol

    return connection


class _Refused(asyncio.Protocol):
    """The connection that is one too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


async def _open(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:
        raise ListenError(f"cannot listen on port {port}: a port is a number from 0 to 65535")
    where = f"{host or '*'}:{port}"
    try:
        if not host:
            return _every_address(port)
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        family, _, _, _, address = found[0]
        return socket.create_server((address[0], port), family=family)
    except OSError as error:
        why = "no such host" if isinstance(error, socket.gaierror) else _WHY.get(error.errno or 0, error.strerror)
        raise ListenError(f"cannot listen on {where}: {why}") from error


def _every_address(port: int) -> socket.socket:
    """One socket for IPv4 and IPv6 together where the machine has both, so that port 0 gives one port."""
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError as error:
            if error.errno not in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT}:  # IPv6 is compiled in and switched off
                raise
    return socket.create_server(("0.0.0.0", port))  # noqa: S104 - probes and Prometheus come from other machines
