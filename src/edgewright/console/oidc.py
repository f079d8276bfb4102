"""A provider of OpenID Connect: its discovery document, its keys, and ID tokens for codes and refresh tokens.

`identity` calls it when somebody signs in or a token is about to end. All that dials has limits of time and size,
follows no redirect and takes https alone (plain HTTP on loopback only). Tokens are in bodies, never in a URL or a log.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
import secrets
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

import aiohttp
import msgspec

from edgewright.console.gate import is_loopback
from edgewright.console.id_token import Claims, Expected, Jwk, KeySet, UnknownKey, verified
from edgewright.console.impersonation import Impersonation
from edgewright.console.sessions import Attempt, Session
from edgewright.runtime import logs
from edgewright.runtime.clock import Clock
from edgewright.runtime.errors import UNFIT

T = TypeVar("T")

log = logs.get("console.oidc")

SCOPE: Final = "openid profile email groups"
"""What is asked for unless told otherwise."""
ATTEMPT_SECONDS: Final = 600.0
"""How long somebody may take to sign in."""
CALLBACK: Final = "/sign-in/oidc/callback"
_SECONDS: Final = 30.0
_MAX_BODY: Final = 256 << 10
_CONNECTIONS: Final = 8
_KEPT_SECONDS: Final = 3600.0
"""How long the discovery document and the keys are believed without asking."""
_AGAIN_SECONDS: Final = 30.0
"""How often at most a key that is not known makes us ask for the keys."""
_ERROR: Final = re.compile(r"[a-z_]{1,60}")


class ProviderError(Exception):
    """The provider cannot be used now; the message says what is wrong and has nothing of a token in it."""


class Refused(ProviderError):
    """The provider does not take the code or the refresh token: somebody has to sign in again."""


@dataclass(frozen=True, kw_only=True)
class OidcSettings:
    """Which provider, and as whom the console speaks to it."""

    issuer: str
    client_id: str
    client_secret: str = field(default="", repr=False)
    """Empty: a public client, which PKCE protects."""
    scope: str = SCOPE
    external_url: str = ""
    """Where browsers reach the console, with the path that a proxy cuts off; empty on loopback: whichever they use."""
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    """Whom to trust; None: the authorities of the system."""
    keys: tuple[bytes, ...] = field(default=(), repr=False)
    """What sessions are sealed with; none: a key that ends with the process."""
    impersonation: Impersonation | None = None
    """As whom the console acts for people; None: they act with their ID tokens, which the API server knows."""


class Discovery(msgspec.Struct, frozen=True):
    """What is used of a provider's own description."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    revocation_endpoint: str = ""
    end_session_endpoint: str = ""
    code_challenge_methods_supported: tuple[str, ...] = ("S256",)
    token_endpoint_auth_methods_supported: tuple[str, ...] = ("client_secret_basic",)
    authorization_response_iss_parameter_supported: bool = False


class _Tokens(msgspec.Struct, frozen=True):
    id_token: str = ""
    refresh_token: str = ""


class _Error(msgspec.Struct, frozen=True):
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class Granted:
    """An ID token that is believed, and what comes with it."""

    id_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    """Empty where the provider gave none."""
    claims: Claims


def address_problem(address: str) -> str:
    """What is wrong with an address that is to be dialled, nothing where it is safe."""
    try:
        parts = urlsplit(address)
        parts.port  # noqa: B018 - raises where it is no number
    except ValueError:
        return "is not a URL"
    if (
        not parts.hostname
        or "@" in parts.netloc
        or parts.fragment
        or not (address.isascii() and address.isprintable())
        or " " in address
    ):
        return "is not a URL, such as https://login.example.com"
    if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname)):
        return "must begin with https://"
    return ""


def issuer_problem(issuer: str) -> str:
    """What is wrong with an issuer, nothing where it is one."""
    return address_problem(issuer) or ("must not have a query" if "?" in issuer else "")


def new_attempt(redirect_uri: str, *, now: float) -> Attempt:
    """A sign-in that begins: three secrets that nobody can guess."""
    return Attempt(
        state=secrets.token_urlsafe(32),
        nonce=secrets.token_urlsafe(32),
        verifier=secrets.token_urlsafe(48),
        redirect_uri=redirect_uri,
        until=now + ATTEMPT_SECONDS,
    )


def challenge(verifier: str) -> str:
    """What of a verifier may be seen on the way (PKCE, S256)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def authorization_url(endpoint: str, settings: OidcSettings, attempt: Attempt) -> str:
    """Where the browser goes to sign in; what the endpoint's own query has stays."""
    asked = {
        "response_type": "code",
        "client_id": settings.client_id,
        "redirect_uri": attempt.redirect_uri,
        "scope": settings.scope,
        "state": attempt.state,
        "nonce": attempt.nonce,
        "code_challenge": challenge(attempt.verifier),
        "code_challenge_method": "S256",
    }
    if "offline_access" in settings.scope.split():
        asked["prompt"] = "consent"  # without it a provider need not give a refresh token (OpenID Connect Core, 11)
    return _with_query(endpoint, asked)


def end_session_url(endpoint: str, settings: OidcSettings, console: str) -> str:
    """Where the browser goes to end the session at the provider, which sends it back to the console's address.

    Without the ID token that a provider may be given as a hint: it would be in a URL. So the provider asks the person.
    """
    return _with_query(endpoint, {"client_id": settings.client_id, "post_logout_redirect_uri": f"{console}/"})


def _with_query(endpoint: str, asked: Mapping[str, str]) -> str:
    parts = urlsplit(endpoint)
    query = "&".join(part for part in (parts.query, urlencode(asked)) if part)
    return urlunsplit((parts.scheme, parts.netloc, parts.path, query, ""))


def checked_discovery(body: bytes, issuer: str) -> Discovery:
    """The description, where it is the issuer's own and leads to no unsafe place."""
    try:
        found = msgspec.json.decode(body, type=Discovery)
    except UNFIT as error:
        raise ProviderError("the provider's description cannot be read") from error
    if found.issuer != issuer:
        raise ProviderError("the provider's description is of another issuer: compare --oidc-issuer with it")
    for address in (
        *(found.authorization_endpoint, found.token_endpoint, found.jwks_uri),
        *(found.revocation_endpoint, found.end_session_endpoint),
    ):
        if address and (problem := address_problem(address)):
            raise ProviderError(f"the provider's description has an address that {problem}")
    if "S256" not in found.code_challenge_methods_supported:
        raise ProviderError("the provider does not know PKCE with S256")
    return found


class Provider:
    """One provider; `close` it."""

    def __init__(self, settings: OidcSettings, clock: Clock) -> None:
        """Dials nothing yet."""
        self._settings = settings
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None
        self._asking = asyncio.Lock()
        self._discovery: Discovery | None = None
        self._discovered = 0.0
        self._keys: tuple[Jwk, ...] = ()
        self._fetched: float | None = None

    async def close(self) -> None:
        """Closes the connections."""
        if self._session is not None:
            await self._session.close()

    async def discovery(self) -> Discovery:
        """The provider's description, asked for once an hour."""
        async with self._asking:
            now = self._clock.elapsed()
            if self._discovery is None or now - self._discovered > _KEPT_SECONDS:
                address = f"{self._settings.issuer.rstrip('/')}/.well-known/openid-configuration"
                self._discovery = checked_discovery(await self._get(address), self._settings.issuer)
                self._discovered = now
            return self._discovery

    async def redeem(self, code: str, attempt: Attempt) -> Granted:
        """The tokens for a code."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": attempt.redirect_uri,
            "code_verifier": attempt.verifier,
        }
        tokens = await self._tokens(form)
        expected = Expected(issuer=self._settings.issuer, audience=self._settings.client_id, nonce=attempt.nonce)
        return await self._granted(tokens, expected)

    async def refresh(self, session: Session) -> Granted:
        """The tokens after those of a session, of the same person."""
        tokens = await self._tokens({"grant_type": "refresh_token", "refresh_token": session.refresh_token})
        expected = Expected(
            issuer=self._settings.issuer,
            audience=self._settings.client_id,
            nonce=session.nonce,
            subject=session.subject,
            nonce_required=False,
        )
        kept = tokens.refresh_token or session.refresh_token  # a provider need not give a new one
        return await self._granted(_Tokens(id_token=tokens.id_token, refresh_token=kept), expected)

    async def revoke(self, refresh_token: str) -> None:
        """Makes a refresh token worthless, where the provider can do that."""
        found = await self.discovery()
        if found.revocation_endpoint:
            form = {"token": refresh_token, "token_type_hint": "refresh_token"}
            status, _ = await self._post(found.revocation_endpoint, form, found)
            if status != 200:
                raise ProviderError("the provider did not revoke the refresh token")

    async def _tokens(self, form: Mapping[str, str]) -> _Tokens:
        found = await self.discovery()
        status, body = await self._post(found.token_endpoint, form, found)
        if status == 200:
            return _decoded(body, _Tokens)
        if status in {400, 401}:
            said = _decoded(body, _Error).error
            raise Refused(f"the provider refused: {said if _ERROR.fullmatch(said) else 'without a reason'}")
        raise ProviderError("the provider has trouble")

    async def _granted(self, tokens: _Tokens, expected: Expected) -> Granted:
        if not tokens.id_token:
            raise Refused("the provider gave no ID token")
        now = self._clock.now().timestamp()
        try:
            claims = verified(tokens.id_token, await self._key_set(), expected, now=now)
        except UnknownKey:
            claims = verified(tokens.id_token, await self._key_set(newer=True), expected, now=now)
        return Granted(id_token=tokens.id_token, refresh_token=tokens.refresh_token, claims=claims)

    async def _key_set(self, *, newer: bool = False) -> tuple[Jwk, ...]:
        """The provider's keys; newer ones where a token names one that is not known, and not too often."""
        address = (await self.discovery()).jwks_uri
        async with self._asking:
            now = self._clock.elapsed()
            age = None if self._fetched is None else now - self._fetched
            if age is None or age > (_AGAIN_SECONDS if newer else _KEPT_SECONDS):
                self._keys = _decoded(await self._get(address), KeySet).keys
                self._fetched = now
            return self._keys

    async def _get(self, address: str) -> bytes:
        status, body = await self._ask("GET", address)
        if status != 200:
            raise ProviderError("the provider has trouble")
        return body

    async def _post(self, address: str, form: Mapping[str, str], found: Discovery) -> tuple[int, bytes]:
        secret = self._settings.client_secret
        methods = found.token_endpoint_auth_methods_supported
        if not secret:
            return await self._ask("POST", address, {**form, "client_id": self._settings.client_id})
        if "client_secret_basic" not in methods and "client_secret_post" in methods:
            named = {"client_id": self._settings.client_id, "client_secret": secret}
            return await self._ask("POST", address, {**form, **named})
        pair = f"{quote(self._settings.client_id, safe='')}:{quote(secret, safe='')}"  # as RFC 6749, 2.3.1
        basic = base64.b64encode(pair.encode()).decode()
        return await self._ask("POST", address, form, {"Authorization": f"Basic {basic}"})

    async def _ask(
        self,
        method: str,
        address: str,
        form: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, bytes]:
        """One request: status and body, within limits of time and size. A redirect is an answer like another."""
        given = {"Accept": "application/json", "Accept-Encoding": "identity", **(headers or {})}
        body = bytearray()
        try:
            async with self._opened().request(
                method, address, data=form, headers=given, allow_redirects=False
            ) as answer:
                async for piece in answer.content.iter_chunked(64 << 10):
                    body += piece
                    if len(body) > _MAX_BODY:
                        raise ProviderError("the provider's answer is too large")
                return answer.status, bytes(body)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            # The error's own text may have the address, and that may have been made from what somebody sent.
            log.warning("the OpenID Connect provider cannot be reached", error_type=type(error).__name__)
            raise ProviderError("the provider cannot be reached") from error

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=self._settings.tls or True, limit=_CONNECTIONS, force_close=True),
                timeout=aiohttp.ClientTimeout(total=_SECONDS),
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


def _decoded(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except UNFIT as error:
        raise ProviderError("the provider's answer cannot be read") from error
