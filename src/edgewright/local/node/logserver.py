"""Serves the logs of containers as a kubelet does, and sessions in them, so that `kubectl logs` and `exec` work.

GET /containerLogs/NAMESPACE/POD/CONTAINER, /exec/… and /attach/…, over TLS, which demands a client certificate; whether
its user may do that is asked for each request. A reader that is slow is waited for, never buffered for.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from aiohttp import web

from edgewright.local.access.authentication import User, user_of_connection
from edgewright.local.node.logfiles import LogReader, Wanted, selected, shown
from edgewright.local.node.sessions import Session, hold, refuse
from edgewright.runtime.clock import Clock

_LOOK_EVERY = 0.2
_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_MAX_MESSAGE = 1 << 20
_HEARTBEAT_SECONDS = 30.0


@dataclass(frozen=True)
class Found:
    """The log of an attempt to run a container, and whether more may come."""

    path: Path
    running: Callable[[], bool]


@dataclass(frozen=True)
class NoLog:
    """There is no log, and why; a kubelet says 400 where a container has none, and 404 where it has no such Pod."""

    why: str
    status: int = 400


Find = Callable[[str, str, str, bool], Found | NoLog]
"""Finds a log by namespace, Pod, container and whether the previous one is meant."""


FindSession = Callable[[str, str, str, Session], Session | str]
"""Finds what makes a session by namespace, Pod and container; or says why there is none."""

May = Callable[[User, str], Awaitable[bool]]
"""Whether a user may use a part of this node: `log`, or `proxy` for sessions."""


async def nobody(_: User, __: str) -> bool:
    """Lets nobody in."""
    return False


def no_sessions(*_: object) -> str:
    """Finds none."""
    return "this node has no sessions"


class LogServer:
    """A kubelet's log endpoint."""

    def __init__(
        self,
        find: Find,
        *,
        tls: ssl.SSLContext | None,
        host: str,
        port: int,
        clock: Clock,
        may: May = nobody,
        find_session: FindSession = no_sessions,
    ) -> None:
        """Without TLS, which only tests do, nobody can be known and anybody may read."""
        self._find = find
        self._find_session = find_session
        self._may = may
        self._tls = tls
        self._host = host
        self._wanted_port = port
        self._clock = clock
        self._runner: web.AppRunner | None = None
        self._sessions: set[asyncio.Event] = set()
        self.port = 0

    async def start(self) -> None:
        """Listens; the port is known afterwards."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/containerLogs/{namespace}/{pod}/{container}", self._answer),
                web.get("/{verb:exec|attach}/{namespace}/{pod}/{container}", self._session),
                web.get("/healthz", _healthy),
            ]
        )
        runner = self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)
        await runner.setup()
        site = web.TCPSite(runner, self._host, self._wanted_port, ssl_context=self._tls)
        await site.start()
        self.port = runner.addresses[0][1]

    async def close(self) -> None:
        """Ends every connection, and the command that runs for it."""
        if self._runner is not None:
            await self._runner.cleanup()  # it calls sessions off, and does not wait for them
        for ended in list(self._sessions):
            await ended.wait()

    async def _refused(self, request: web.Request, part: str, what: str) -> web.Response | None:
        """The answer to whoever may not do that; None where they may."""
        if self._tls is None:
            return None
        user = user_of_connection(request.get_extra_info("ssl_object"))
        if user is None:
            return web.Response(status=401, text="Unauthorized")
        if not await self._may(user, part):
            return web.Response(status=403, text=f"{user.name} may not {what}")
        return None

    async def _session(self, request: web.Request) -> web.StreamResponse:
        if refused := await self._refused(request, "proxy", "run commands: needs create on nodes/proxy"):
            return refused
        names, query = request.match_info, request.query
        wish = Session(
            verb=names["verb"],
            command=query.getall("command", []),
            stdin=_true(query.get("stdin")),
            stderr=_true(query.get("stderr")),
            tty=_true(query.get("tty")),
        )
        found = self._find_session(names["namespace"], names["pod"], names["container"], wish)
        socket = web.WebSocketResponse(protocols=_PROTOCOLS, max_msg_size=_MAX_MESSAGE, heartbeat=_HEARTBEAT_SECONDS)
        await socket.prepare(request)
        await (refuse(socket, found) if isinstance(found, str) else self._hold(socket, found))
        return socket

    async def _hold(self, socket: web.WebSocketResponse, session: Session) -> None:
        ended = asyncio.Event()
        self._sessions.add(ended)
        try:
            await hold(socket, session)
        finally:
            self._sessions.discard(ended)
            ended.set()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if refused := await self._refused(request, "log", "read logs: needs get on nodes/log"):
            return refused
        query = request.query
        try:
            wanted = wanted_from(query, now=self._clock.now())
        except ValueError as error:
            return web.Response(status=400, text=str(error))
        names = request.match_info
        found = self._find(names["namespace"], names["pod"], names["container"], _true(query.get("previous")))
        if isinstance(found, NoLog):
            return web.Response(status=found.status, text=found.why)
        answer = web.StreamResponse(headers={"Content-Type": "text/plain"})
        answer.enable_chunked_encoding()
        await answer.prepare(request)
        await _send(answer, found, wanted, follow=_true(query.get("follow")), clock=self._clock)
        await answer.write_eof()
        return answer


async def _send(answer: web.StreamResponse, found: Found, wanted: Wanted, *, follow: bool, clock: Clock) -> None:
    left = wanted.limit
    first = True
    with LogReader(found.path) as reader:
        while True:
            running = found.running()
            entries = selected(reader.entries(), wanted if first else Wanted())
            first = False
            for chunk in _chunks(shown(entries, timestamps=wanted.timestamps)):
                piece = chunk if left is None else chunk[:left]
                await answer.write(piece)
                if left is not None:
                    left -= len(piece)
                    if left <= 0:
                        return
            if not follow or (not running and not entries):
                return
            await clock.sleep(_LOOK_EVERY if running else 0)


def _chunks(lines: Iterable[bytes]) -> list[bytes]:
    """Many lines as a few pieces."""
    whole = b"".join(lines)
    return [whole[at : at + (1 << 18)] for at in range(0, len(whole), 1 << 18)]


async def _healthy(_request: web.Request) -> web.Response:
    return web.Response(text="ok")


def _true(text: str | None) -> bool:
    return text is not None and text.lower() in {"true", "1", ""}


def wanted_from(query: Mapping[str, str], *, now: datetime) -> Wanted:
    """The options of a request; ValueError says which one is wrong."""
    get = query.get
    since = ""
    if text := get("sinceTime"):
        since = _stamp(datetime.fromisoformat(text))
    elif text := get("sinceSeconds"):
        since = _stamp(now - timedelta(seconds=_number("sinceSeconds", text, least=1)))
    tail, limit = get("tailLines"), get("limitBytes")
    return Wanted(
        tail=_number("tailLines", tail, least=0) if tail else None,
        limit=_number("limitBytes", limit, least=1) if limit else None,
        since=since,
        timestamps=_true(get("timestamps")),
    )


def _number(name: str, text: str, *, least: int) -> int:
    number = int(text)
    if number < least:
        raise ValueError(f"{name} must be at least {least}")
    return number


def _stamp(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"
