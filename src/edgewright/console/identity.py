"""Who is calling, and how that reaches the API server: a Bearer token passed on, or a session after a one-time link.

`server` finds the caller of each request; requests to the API server go out with that caller's token and nothing else.
The console has no rights of its own here, no token is written down, and none is ever in a URL.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Final

from edgewright.console.problems import unauthorized
from edgewright.runtime.clock import Clock
from edgewright.runtime.config import Config, ConfigError
from edgewright.runtime.credentials import CredentialsError, Headers, bearer
from edgewright.runtime.tls import ClientTls

COOKIE: Final = "__Host-edgewright-session"
LINK_SECONDS: Final = 600.0
"""How long the one-time link can be used."""
SESSION_SECONDS: Final = 12 * 3600.0
"""How long a session lasts."""
_MAX_TOKEN: Final = 16 << 10

_token: ContextVar[str] = ContextVar("edgewright_console_token", default="")


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Whoever sent a request."""

    digest: str
    """Tells callers apart, and cannot be turned back into a token."""
    token: str = field(default="", repr=False)
    """What goes to the API server; empty for a session, which acts as the kubeconfig's user."""

    @property
    def is_session(self) -> bool:
        """Whether it is the person who opened the one-time link."""
        return not self.token


class PassedOn:
    """The credentials of whoever the present request comes from; without one, nothing is sent."""

    def __repr__(self) -> str:
        """No token: which one it is depends on the request."""
        return "PassedOn()"

    async def headers(self) -> Headers:
        """The header with the caller's token."""
        token = _token.get()
        if not token:
            raise CredentialsError("the caller's token: is missing")
        return bearer(token, origin="the caller's token")

    def refused(self) -> None:
        """It is the caller's business: nothing is kept."""


@contextmanager
def acting_as(caller: Caller) -> Iterator[None]:
    """Requests to the API server within the block go out with the caller's token."""
    reset = _token.set(caller.token)
    try:
        yield
    finally:
        _token.reset(reset)


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


def digest_of(secret: str) -> str:
    """What a secret is remembered as."""
    return hashlib.sha256(b"edgewright console\0" + secret.encode()).hexdigest()


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
        return Caller(digest=digest)
