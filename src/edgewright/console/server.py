"""The REST API as a server: routes from the table of operations, and what every request goes through before a handler.

In order: limits of the connection, the Host header, pages of other sites, who is calling, how often, the parameters,
a time limit. Whatever is raised ends here as a problem; what is logged has a method, a path and a status, and never a
header, a query or a body.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec
from aiohttp import web

from edgewright.console import pages, site
from edgewright.console.call import Call, Shared
from edgewright.console.fleet_index import FleetIndex
from edgewright.console.gate import Gate, check_same_origin
from edgewright.console.identity import (
    COOKIE,
    START,
    Caller,
    OidcSignIn,
    SignIn,
    acting_as,
    add_cookies,
    bearer_token,
    digest_of,
    on_behalf,
    passing_on,
)
from edgewright.console.kinds import Kinds
from edgewright.console.limits import Limits, Rates, Streams
from edgewright.console.objects import if_match
from edgewright.console.oidc import CALLBACK, OidcSettings
from edgewright.console.operation import Operation, read_query
from edgewright.console.operations import OPERATIONS
from edgewright.console.problems import MEDIA, Refusal, refusal_for, unauthorized
from edgewright.console.schemas import Schemas
from edgewright.console.shared_cache import SharedCache
from edgewright.runtime import logs
from edgewright.runtime.client import Client
from edgewright.runtime.clock import Clock, SystemClock
from edgewright.runtime.config import Config
from edgewright.runtime.errors import KubernetesError

Handle = Callable[[web.Request], Awaitable[web.StreamResponse]]

log = logs.get("console")

STREAM_MARGIN: Final = 15.0
"""So many seconds before a session's token ends do its streams: by then it can be refreshed."""
_CONNECTIONS: Final = 32
_SAFE: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": pages.CSP,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_BY_STATUS: Final = {404: "not-found", 405: "method-not-allowed", 413: "too-large"}


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How one console behaves."""

    gate: Gate
    limits: Limits = field(default_factory=Limits)
    as_me: bool = False
    """Whether the person with the one-time link acts as the kubeconfig's user."""
    oidc: OidcSettings | None = None
    """The provider at which people sign in, where there is one."""
    secure: bool = False
    """Whether it speaks TLS itself."""
    behind_proxy: bool = False
    """Whether a proxy speaks with the callers, which says under which path they find the console."""
    shared_cache: bool = False
    """Whether our kinds are read once for all callers, as the kubeconfig's user, and shown by each caller's rights."""
    cache_granted: bool = False
    """Whether that is so too for foreign kinds that this user may list and watch."""
    page: Path = site.STATIC
    """Where `make web` has built the page, where it has."""


class Console:
    """The REST API in front of one API server."""

    def __init__(self, config: Config, settings: Settings, *, clock: Clock | None = None) -> None:
        """Opens nothing yet.

        Requests go out as their callers, or after the one-time link as the kubeconfig's user, who also acts for people
        where impersonation is switched on.
        """
        clock = clock or SystemClock()
        limits = settings.limits
        self.settings = settings
        self.sign_in = SignIn(clock) if settings.as_me else None
        self._oidc = OidcSignIn(settings.oidc, clock, secure=settings.secure) if settings.oidc else None
        # Never tried again here: who called is told when to come again.
        self._callers = Client(passing_on(config), connections=_CONNECTIONS, retries=0)
        self._own = Client(config, connections=_CONNECTIONS, retries=0) if settings.as_me else None
        impersonates = settings.oidc is not None and settings.oidc.impersonation is not None
        self._on_behalf = Client(on_behalf(config), connections=_CONNECTIONS, retries=0) if impersonates else None
        self._rates = Rates(limits, clock)
        self._stopping = asyncio.Event()
        self._clock = clock
        self.shared_cache = (
            SharedCache(
                Client(config, connections=2),
                clock,
                review_seconds=limits.recheck,
                granted=settings.cache_granted,
            )
            if settings.shared_cache
            else None
        )
        """Our kinds, read once for all callers, where that is switched on."""
        self._shared = Shared(
            limits=limits,
            clock=clock,
            kinds=Kinds(clock),
            schemas=Schemas(clock),
            streams=Streams(limits),
            sign_in=self.sign_in,
            oidc=self._oidc,
            stopping=self._stopping,
            cache=self.shared_cache,
            fleet=FleetIndex(),
        )

    def application(self) -> web.Application:
        """What answers requests."""
        app = web.Application(middlewares=[self._guard], client_max_size=self.settings.limits.body_bytes)
        app.on_response_prepare.append(self._add_headers)
        for operation in OPERATIONS:
            app.router.add_route(operation.method, operation.path, self._handle(operation))
        built = site.is_built(self.settings.page)
        for path, (media, text) in pages.PAGES.items():
            if (self.sign_in is not None or not path.startswith("/sign-in")) and not (built and path == "/"):
                app.router.add_get(path, _page(media, text))
        if self._oidc is not None:
            app.router.add_get(START, self._sign_in(self._oidc.begin))
            app.router.add_get(CALLBACK, self._sign_in(self._oidc.finish))
        if built:
            site.add_routes(app, self.settings.page)
        return app

    def stop_streams(self) -> None:
        """Ends every stream; their clients come again when there is a console."""
        self._stopping.set()

    async def close(self) -> None:
        """Closes the connections to the API server."""
        self.stop_streams()
        if self._oidc is not None:
            await self._oidc.close()
        if self.shared_cache is not None:
            await self.shared_cache.close()
        for client in (self._callers, self._own, self._on_behalf):
            if client is not None:
                await client.close()

    def _handle(self, operation: Operation) -> Handle:
        async def handle(request: web.Request) -> web.StreamResponse:
            caller = await self._caller(request, operation)
            self._rates.take(caller.digest if caller else "", writes=operation.writes)
            query = read_query(operation.parameters, request.query.items())
            call = Call(
                request=request,
                operation=operation,
                query=query,
                shared=self._while_it_lasts(caller),
                caller=caller,
                server=self._server_for(caller),
            )
            with acting_as(caller):
                if operation.endless:
                    return await operation.handler(call)
                try:
                    async with asyncio.timeout(self.settings.limits.seconds):
                        return await operation.handler(call)
                except TimeoutError:
                    raise Refusal("timed-out", "it took too long") from None
                except KubernetesError as error:
                    raise refusal_for(error, conditional=bool(if_match(call))) from error

        return handle

    def _server_for(self, caller: Caller | None) -> Client | None:
        """The API server as the caller."""
        if caller is None:
            return None
        if caller.person is not None:
            return self._on_behalf
        return self._callers if caller.token else self._own

    def _while_it_lasts(self, caller: Caller | None) -> Shared:
        """Streams of a session end before its token does; their client comes again, and the token is refreshed."""
        if caller is None or not caller.expires:
            return self._shared
        left = max(1.0, caller.expires - self._clock.now().timestamp() - STREAM_MARGIN)
        limits = self._shared.limits
        return replace(self._shared, limits=replace(limits, stream_seconds=min(left, limits.stream_seconds)))

    def _sign_in(self, step: Handle) -> Handle:
        """A step of the sign-in at a provider, with the limits of who is not known."""

        async def handle(request: web.Request) -> web.StreamResponse:
            self._rates.take("", writes=False)
            try:
                async with asyncio.timeout(self.settings.limits.seconds):
                    return await step(request)
            except TimeoutError:
                raise Refusal("timed-out", "it took too long") from None

        return handle

    async def _caller(self, request: web.Request, operation: Operation) -> Caller | None:
        if token := bearer_token(request.headers):
            return Caller(digest=digest_of(token), token=token)
        cookie = request.cookies.get(COOKIE, "")
        if cookie and self.sign_in is not None:
            check_same_origin(request.headers, scheme="https" if self.settings.secure else "http")
            return self.sign_in.caller(cookie)
        if self._oidc is not None and (caller := await self._oidc.caller(request)) is not None:
            return caller
        if operation.public:
            if operation.writes:
                check_same_origin(request.headers, scheme="https" if self.settings.secure else "http")
            return None
        first = "sign in, or " if self._oidc is not None else ""
        raise unauthorized(f"{first}send the header Authorization: Bearer TOKEN")

    def _hinted(self, request: web.Request, refusal: Refusal) -> Refusal:
        return refusal if self._oidc is None else self._oidc.hinted(request, refusal)

    async def _add_headers(self, request: web.Request, answer: web.StreamResponse) -> None:
        """Says with every answer, streams as well, what a browser may do with it."""
        for name, value in {**_SAFE, **self.settings.gate.cors(request.headers)}.items():
            answer.headers.setdefault(name, value)
        if answer.headers.get("Location", "").startswith("/"):
            answer.headers["Location"] = site.place_of(request) + answer.headers["Location"]
        add_cookies(request, answer)

    def _place(self, request: web.Request) -> str:
        """Below which path the browser finds the console: as the proxy says, or else as the console's own address."""
        if not self.settings.behind_proxy:
            return ""
        oidc = self.settings.oidc
        return site.prefix_of(request.headers) or (urlsplit(oidc.external_url).path if oidc else "")

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handle) -> web.StreamResponse:
        """Everything that is the same for all requests."""
        gate = self.settings.gate
        began = self._clock.elapsed()
        try:
            gate.check_host(request.headers)
            request[site.PLACE] = self._place(request)
            if request.method == "OPTIONS":
                answer: web.StreamResponse = _preflight(gate, request)
            else:
                answer = await handler(request)
        except Refusal as refusal:
            answer = _problem(self._hinted(request, refusal))
        except KubernetesError as error:
            answer = _problem(self._hinted(request, refusal_for(error)))
        except web.HTTPException as raised:
            answer = _problem(_refusal(raised))
        except Exception as error:
            log.error("request failed", method=request.method, path=request.path, error=error)  # noqa: TRY400 - it has the traceback
            answer = _problem(Refusal("internal", "the console failed; its log has more"))
        level = log.debug if request.method in {"GET", "OPTIONS"} and answer.status < 400 else log.info
        seconds = round(self._clock.elapsed() - began, 3)
        level("request", method=request.method, path=request.path, status=answer.status, seconds=seconds)
        return answer


def _problem(refusal: Refusal) -> web.Response:
    body = msgspec.json.encode(refusal.problem)
    return web.Response(status=refusal.problem.status, body=body, content_type=MEDIA, headers=dict(refusal.headers))


def _refusal(raised: web.HTTPException) -> Refusal:
    """What the router refused, as a problem."""
    sort = _BY_STATUS.get(raised.status, "bad-request")
    details = {
        "not-found": "there is nothing under this path",
        "method-not-allowed": "this path does not have that method",
        "too-large": "the body is too large",
    }
    headers = {"Allow": raised.headers["Allow"]} if "Allow" in raised.headers else {}
    return Refusal(sort, details.get(sort, "the request cannot be read"), headers=headers)


def _preflight(gate: Gate, request: web.Request) -> web.Response:
    return web.Response(status=204, headers=gate.preflight(request.headers, "GET, POST, PUT, PATCH, DELETE"))


def _page(media: str, text: str) -> Handle:
    async def page(_request: web.Request) -> web.StreamResponse:
        return web.Response(text=text, content_type=media, charset="utf-8")

    return page
