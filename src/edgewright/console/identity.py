"""Who is calling, and how that reaches the API server: a Bearer token passed on, or a session.

A session comes from a one-time link or from a provider of OpenID Connect (`oidc`), and is in cookies of the browser.
`server` finds the caller of each request; requests to the API server go out with that caller's token and nothing else,
or where impersonation is switched on as that person. No token is written down, and none is ever in a URL.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar
from urllib.parse import urlsplit

import msgspec
from aiohttp import web
from multidict import CIMultiDict

from edgewright.console import pages
from edgewright.console.gate import check_same_origin
from edgewright.console.id_token import TokenError
from edgewright.console.impersonation import Person, person_of
from edgewright.console.oidc import (
    ATTEMPT_SECONDS,
    CALLBACK,
    Granted,
    OidcSettings,
    Provider,
    ProviderError,
    Refused,
    authorization_url,
    end_session_url,
    new_attempt,
)
from edgewright.console.problems import Refusal, unauthorized
from edgewright.console.sessions import Attempt, NotSealed, Sealer, Session, TooBig, chunked, joined, new_keys, present
from edgewright.console.site import place_of
from edgewright.runtime import logs
from edgewright.runtime.clock import Clock
from edgewright.runtime.config import Config, ConfigError
from edgewright.runtime.credentials import Credentials, CredentialsError, Headers, Impersonated, bearer
from edgewright.runtime.tls import ClientTls

COOKIE: Final = "__Host-edgewright-session"
LINK_SECONDS: Final = 600.0
"""How long the one-time link can be used."""
SESSION_SECONDS: Final = 12 * 3600.0
"""How long a session lasts."""
START: Final = "/sign-in/oidc"
"""Where a person goes to sign in at the provider."""
OIDC_COOKIE: Final = "__Host-edgewright-oidc"
"""What the cookies of such a session are called, before their numbers; `_named` adds the path of the console."""
ATTEMPT_COOKIE: Final = "__Host-edgewright-sign-in"
"""The cookie of a sign-in that has begun, named by the path too."""
_MAX_TOKEN: Final = 16 << 10
_MARGIN: Final = 30.0
"""So long before its end a token is refreshed."""
_TRY_AGAIN: Final = 10.0
_REMEMBERED: Final = 1024
"""How many sessions that were refreshed or ended are known here: each takes a few kilobytes."""
_NOT_TAKEN: Final = (
    "the API server does not take the ID token of this sign-in: it must know the same issuer and client, "
    "or the console must act for people"
)
_NOT_KNOWN: Final = "the API server does not know the console, which acts for you: look at its credentials"
_SENT: Final = web.RequestKey("cookies", list[str])
_SESSION: Final = web.RequestKey("session", Session)

T = TypeVar("T")

log = logs.get("console.identity")


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Whoever sent a request."""

    digest: str
    """Tells callers apart, and cannot be turned back into a token."""
    token: str = field(default="", repr=False)
    """What goes to the API server; empty after the one-time link, which acts as the kubeconfig's user."""
    person: Person | None = None
    """As whom the console acts, where it impersonates; there is no token then."""
    expires: float = 0.0
    """When the token of a session ends, in seconds since 1970; 0 where that is not known."""
    session: str = ""
    """How it began: `link` or `oidc`; empty for who sent a token."""


_caller: ContextVar[Caller | None] = ContextVar("edgewright_console_caller", default=None)


class PassedOn:
    """The credentials of whoever the present request comes from; without one, nothing is sent."""

    def __repr__(self) -> str:
        """No token: which one it is depends on the request."""
        return "PassedOn()"

    async def headers(self) -> Headers:
        """The header with the caller's token."""
        caller = _caller.get()
        if caller is None or not caller.token:
            raise CredentialsError("the caller's token: is missing")
        return bearer(caller.token, origin="the caller's token")

    def refused(self) -> None:
        """It is the caller's business: nothing is kept."""


@dataclass(frozen=True)
class OnBehalf:
    """The console's own credentials, for the person of the present request; without one, nothing is sent."""

    inner: Credentials

    async def headers(self) -> Headers:
        """The headers by which the console acts as somebody else."""
        caller = _caller.get()
        if caller is None or caller.person is None:
            raise CredentialsError("the person to act for: is missing")
        person = caller.person
        return await Impersonated(inner=self.inner, user=person.user, groups=person.groups).headers()

    def refused(self) -> None:
        """It is the console's own credentials that the server did not take."""
        self.inner.refused()


@contextmanager
def acting_as(caller: Caller | None) -> Iterator[None]:
    """Requests to the API server within the block go out as the caller."""
    reset = _caller.set(caller)
    try:
        yield
    finally:
        _caller.reset(reset)


def on_behalf(config: Config) -> Config:
    """The same API server and credentials, for each request as the person that it comes from."""
    return replace(config, credentials=OnBehalf(config.credentials))


def passing_on(config: Config) -> Config:
    """The same API server, as whom each request's caller is: neither the kubeconfig's token nor its certificate."""
    if config.tls is None:
        raise ConfigError(
            f"{config.source}: {config.server} is plain HTTP, over which callers' tokens are not sent: use https"
        )
    if not isinstance(config.tls, ClientTls):
        raise ConfigError(f"{config.source}: the client certificate cannot be left out")
    return replace(config, tls=config.tls.without_certificate(), credentials=PassedOn())


def bearer_token(headers: Mapping[str, str]) -> str:
    """The token in the header Authorization, empty where there is no such header."""
    given = headers.get("Authorization")
    if given is None:
        return ""
    scheme, _, token = given.strip().partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token or len(token) > _MAX_TOKEN or not token.isascii() or " " in token:
        raise unauthorized("the header Authorization must be: Bearer TOKEN")
    return token


def as_bytes(text: str) -> bytes:
    """What somebody sent, also where its bytes were no text."""
    return text.encode(errors="surrogatepass")


def digest_of(secret: str) -> str:
    """What a secret is remembered as."""
    return hashlib.sha256(b"edgewright console\0" + as_bytes(secret)).hexdigest()


class SignIn:
    """The one-time link of a console on one's own machine, and the sessions that come from it."""

    def __init__(self, clock: Clock) -> None:
        """One link, for now."""
        self._clock = clock
        self.secret = secrets.token_urlsafe(32)
        """What the link carries in its fragment, which browsers do not send."""
        self._link: str | None = digest_of(self.secret)
        self._until = clock.elapsed() + LINK_SECONDS
        self._sessions: dict[str, float] = {}

    def redeem(self, secret: str) -> str:
        """A session's cookie for the link's secret, which is worth nothing afterwards."""
        good = self._link is not None and hmac.compare_digest(self._link, digest_of(secret))
        if not good or self._clock.elapsed() > self._until:
            raise unauthorized("the link was used already, or is too old: start the console again for a new one")
        self._link = None
        cookie = secrets.token_urlsafe(32)
        self._sessions[digest_of(cookie)] = self._clock.elapsed() + SESSION_SECONDS
        return cookie

    def caller(self, cookie: str) -> Caller:
        """Whose cookie it is."""
        digest = digest_of(cookie)
        if self._sessions.get(digest, 0.0) < self._clock.elapsed():
            raise unauthorized("the session is over: start the console again for a new link")
        return Caller(digest=digest, session="link")

    def end(self, cookie: str) -> None:
        """The session of this cookie is over."""
        self._sessions.pop(digest_of(cookie), None)


class OidcSignIn:
    """Sign-in at a provider of OpenID Connect, and the sessions that come from it: none is stored here."""

    def __init__(self, settings: OidcSettings, clock: Clock, *, secure: bool) -> None:
        """Dials nothing yet."""
        self._settings = settings
        self._clock = clock
        self._provider = Provider(settings, clock)
        # What was sealed under other rules has other names in it, or none.
        rules = settings.impersonation.words if settings.impersonation else ()
        context = "\0".join((settings.issuer, settings.client_id, *rules))
        self._sealer = Sealer(list(settings.keys) or new_keys(), context=context)
        self._secure = secure
        self._renewing: dict[str, asyncio.Task[tuple[str, Session] | Exception]] = {}
        self._renewed: OrderedDict[str, tuple[str, Session]] = OrderedDict()
        self._failed: OrderedDict[str, tuple[float, Exception]] = OrderedDict()
        self._ended: OrderedDict[str, None] = OrderedDict()

    async def close(self) -> None:
        """Ends what is under way."""
        for task in [*self._renewing.values()]:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        await self._provider.close()

    # Signing in

    async def begin(self, request: web.Request) -> web.StreamResponse:
        """Sends the browser to the provider, and remembers in a cookie of its own what must come back."""
        try:
            check_same_origin(request.headers, scheme=self._scheme)
            found = await self._provider.discovery()
        except (Refusal, ProviderError) as error:
            return _refused(request, error)
        attempt = new_attempt(self._address(request) + CALLBACK, now=self._now())
        cookie = _attempt_cookie(request, self._sealer.seal("attempt", attempt), ATTEMPT_SECONDS)
        return _see(authorization_url(found.authorization_endpoint, self._settings, attempt), [cookie])

    async def finish(self, request: web.Request) -> web.StreamResponse:
        """Turns what the provider sent back into a session."""
        try:
            attempt = self._attempt(request)
            granted = await self._provider.redeem(await self._code(request), attempt)
            now = self._now()
            session = self._session(granted, secrets.token_urlsafe(16), attempt.nonce, now + SESSION_SECONDS)
            cookies = self._cookies(request, self._sealer.seal("session", session), session)
        except (Refusal, ProviderError, TokenError) as error:
            return _refused(request, error, [_attempt_cookie(request, "", 0)])
        log.info("signed in by OpenID Connect")
        return _see("/", [*cookies, _attempt_cookie(request, "", 0)])

    def _attempt(self, request: web.Request) -> Attempt:
        """The sign-in that this browser began, where what came back belongs to it."""
        try:
            attempt = self._sealer.unseal("attempt", request.cookies.get(_named(ATTEMPT_COOKIE, request), ""), Attempt)
        except NotSealed:
            raise Refusal("bad-request", "this browser began no sign-in, or too long ago: sign in again") from None
        given = request.query.get("state", "")
        if attempt.until < self._now() or not hmac.compare_digest(as_bytes(attempt.state), as_bytes(given)):
            raise Refusal("bad-request", "the answer belongs to another sign-in, or is too late: sign in again")
        return attempt

    async def _code(self, request: web.Request) -> str:
        """The code for the tokens; a Refusal where the provider gave none, or another provider gave it."""
        query = request.query
        issuer = query.get("iss", "")
        wants_issuer = (await self._provider.discovery()).authorization_response_iss_parameter_supported
        if issuer != self._settings.issuer and (issuer or wants_issuer):
            raise Refusal("bad-request", "the answer comes from another provider")
        if "error" in query:
            denied = query["error"] == "access_denied"
            raise Refusal("forbidden", "the provider did not let you in" if denied else "the provider gave an error")
        if not (code := query.get("code", "")):
            raise Refusal("bad-request", "the provider sent no code")
        return code

    # Sessions

    async def caller(self, request: web.Request) -> Caller | None:
        """Whose session's cookies a request has, with a token that lasts; None where it has none."""
        if not present(_named(OIDC_COOKIE, request), request.cookies):
            return None
        check_same_origin(request.headers, scheme=self._scheme)
        sent = joined(_named(OIDC_COOKIE, request), request.cookies)
        try:
            value, session = await self._current(sent, self._opened(sent))
            request[_SENT] = self._cookies(request, value, session) if value != sent else []
        except Refusal as refusal:
            if refusal.problem.status == 401:
                request[_SENT] = self._cleared(request)
            raise
        request[_SESSION] = session
        person = Person(user=session.user, groups=session.groups) if self._settings.impersonation else None
        return Caller(
            digest=digest_of(session.id_token),
            token="" if person else session.id_token,
            person=person,
            expires=session.expires,
            session="oidc",
        )

    async def end(self, request: web.Request) -> str:
        """Signs out: the cookies go, the session counts no more here, and its refresh token nowhere.

        Gives the address where the session at the provider can be ended too, empty where it has none.
        """
        session = request[_SESSION]
        _remember(self._ended, session.id, None)
        request[_SENT] = self._cleared(request)
        if session.refresh_token:
            try:
                await self._provider.revoke(session.refresh_token)
            except ProviderError as error:
                log.warning("the refresh token of a session that ended was not revoked", error=str(error))
        try:
            endpoint = (await self._provider.discovery()).end_session_endpoint
        except ProviderError:
            return ""
        return end_session_url(endpoint, self._settings, self._address(request)) if endpoint else ""

    def hinted(self, request: web.Request, refusal: Refusal) -> Refusal:
        """A 401 that says where to sign in, and whose fault it is where the API server does not take the ID token."""
        if refusal.problem.status == 401:
            refusal.problem = msgspec.structs.replace(refusal.problem, sign_in=START)
            if _SESSION in request:
                detail = _NOT_KNOWN if self._settings.impersonation else _NOT_TAKEN
                refusal.problem = msgspec.structs.replace(refusal.problem, detail=detail)
        return refusal

    def _opened(self, value: str) -> Session:
        try:
            session = self._sealer.unseal("session", value, Session)
        except NotSealed:
            raise unauthorized("the session is not known: sign in again") from None
        if session.ends <= self._now() or session.id in self._ended:
            raise unauthorized("the session is over: sign in again")
        return session

    async def _current(self, value: str, session: Session) -> tuple[str, Session]:
        """The session with a token that lasts: where others asked for one at the same time, what they got."""
        while kept := self._renewed.get(digest_of(value)):
            value, session = kept
        if self._now() < session.renew_at or (not session.refresh_token and self._now() < session.expires):
            return value, session
        if not session.refresh_token:
            raise unauthorized("the session is over: sign in again")
        result = await self._renew(value, session)
        if not isinstance(result, Exception):
            return result
        if self._now() < session.expires:
            return value, session
        if isinstance(result, Refused | TokenError):
            raise unauthorized("the provider ended the session: sign in again") from result
        raise Refusal("unavailable", str(result), headers={"Retry-After": "5"}) from result

    async def _renew(self, value: str, session: Session) -> tuple[str, Session] | Exception:
        """A new token, asked for once however many wait for it, and also where all of them have gone."""
        digest = digest_of(value)
        until, why = self._failed.get(digest, (0.0, None))
        if why is not None and self._clock.elapsed() < until:
            return why
        if digest not in self._renewing:
            task = asyncio.create_task(self._ask(digest, session))
            self._renewing[digest] = task
            task.add_done_callback(lambda _: self._renewing.pop(digest, None))
        return await asyncio.shield(self._renewing[digest])

    async def _ask(self, digest: str, session: Session) -> tuple[str, Session] | Exception:
        try:
            granted = await self._provider.refresh(session)
            renewed = self._session(granted, session.id, session.nonce, session.ends)
        except (ProviderError, TokenError) as error:
            log.warning("the token of a session was not refreshed", error=str(error))
            _remember(self._failed, digest, (self._clock.elapsed() + _TRY_AGAIN, error))
            return error
        result = self._sealer.seal("session", renewed), renewed
        _remember(self._renewed, digest, result)
        return result

    def _session(self, granted: Granted, identifier: str, nonce: str, ends: float) -> Session:
        expires, now = granted.claims.expires, self._now()
        rules = self._settings.impersonation
        person = person_of(granted.claims.said, rules) if rules else Person(user="")
        return Session(
            id=identifier,
            id_token=granted.id_token,
            refresh_token=granted.refresh_token,
            subject=granted.claims.subject,
            nonce=nonce,
            expires=expires,
            renew_at=expires - min(_MARGIN, (expires - now) / 3),
            ends=ends,
            user=person.user,
            groups=person.groups,
        )

    def _cookies(self, request: web.Request, value: str, session: Session) -> list[str]:
        """The cookies of a session; those that are left from a longer one go."""
        name = _named(OIDC_COOKIE, request)
        try:
            parts = dict(chunked(name, value))
        except TooBig:
            detail = "the provider's tokens are too big for cookies: fewer groups or claims make them smaller"
            raise Refusal("too-large", detail) from None
        old = [_cookie(each, "", 0) for each in present(name, request.cookies) if each not in parts]
        return [*(_cookie(each, part, session.ends - self._now()) for each, part in parts.items()), *old]

    def _cleared(self, request: web.Request) -> list[str]:
        return [_cookie(name, "", 0) for name in present(_named(OIDC_COOKIE, request), request.cookies)]

    def _address(self, request: web.Request) -> str:
        """Where the browser reaches the console: its host, and the path of a proxy."""
        known = urlsplit(self._settings.external_url)
        return f"{self._scheme}://{known.netloc or request.host}{place_of(request)}"

    @property
    def _scheme(self) -> str:
        return urlsplit(self._settings.external_url).scheme or ("https" if self._secure else "http")

    def _now(self) -> float:
        return self._clock.now().timestamp()


def add_cookies(request: web.Request, answer: web.StreamResponse) -> None:
    """Puts the cookies that a session needs into an answer, whatever else it is."""
    for cookie in request.get(_SENT, ()):
        answer.headers.add("Set-Cookie", cookie)


def _named(name: str, request: web.Request) -> str:
    """A cookie's name, another one below each path: `__Host-` means Path=/, so that all consoles of a host get it."""
    place = place_of(request)
    return f"{name}-{digest_of(place)[:8]}" if place else name


def _attempt_cookie(request: web.Request, value: str, seconds: float) -> str:
    # Lax, unlike all others: it must come along when the provider sends the browser back.
    return _cookie(_named(ATTEMPT_COOKIE, request), value, seconds, same_site="Lax")


def _cookie(name: str, value: str, seconds: float, *, same_site: str = "Strict") -> str:
    return f"{name}={value}; Max-Age={max(0, int(seconds))}; Path=/; Secure; HttpOnly; SameSite={same_site}"


def _see(address: str, cookies: list[str]) -> web.Response:
    headers = CIMultiDict([("Location", address), *(("Set-Cookie", cookie) for cookie in cookies)])
    return web.Response(status=303, headers=headers)


def _refused(request: web.Request, error: Exception, cookies: list[str] | None = None) -> web.Response:
    """A page that says why somebody is not signed in."""
    status = (
        error.problem.status if isinstance(error, Refusal) else 401 if isinstance(error, Refused | TokenError) else 503
    )
    detail = error.problem.detail if isinstance(error, Refusal) else str(error)
    log.warning("a sign-in by OpenID Connect failed", status=status, error=detail)
    headers = CIMultiDict([("Set-Cookie", cookie) for cookie in cookies or ()])
    return web.Response(
        status=status,
        text=pages.not_signed_in(detail, place_of(request) + START),
        content_type="text/html",
        charset="utf-8",
        headers=headers,
    )


def _remember(known: OrderedDict[str, T], name: str, value: T) -> None:
    """Keeps it, and forgets the oldest where there are too many."""
    known[name] = value
    while len(known) > _REMEMBERED:
        known.popitem(last=False)
