"""A provider of OpenID Connect in the test's own process, which does what it is told: the real one is in tests/cluster.

It speaks HTTP on loopback, gives each code and refresh token away once, and keeps what it was asked.
"""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from aiohttp import web
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from edgewright.console.oidc import challenge
from edgewright.runtime.clock import Clock

_HASHES = {"256": hashes.SHA256(), "384": hashes.SHA384(), "512": hashes.SHA512()}
_CURVES = {"ES256": (ec.SECP256R1(), "P-256"), "ES384": (ec.SECP384R1(), "P-384"), "ES512": (ec.SECP521R1(), "P-521")}
_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)


def encoded(data: bytes) -> str:
    """Base64 as JWTs have it."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _number(value: int, size: int | None = None) -> str:
    return encoded(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))


class Key:
    """A key that signs ID tokens."""

    def __init__(self, algorithm: str = "ES256", *, kid: str = "one") -> None:
        self.algorithm = algorithm
        self.kid = kid
        self.rsa = _RSA if algorithm[:2] in {"RS", "PS"} else None
        self.curve = None if self.rsa else ec.generate_private_key(_CURVES[algorithm][0])

    @property
    def jwk(self) -> dict[str, str]:
        """Its public half, as providers publish it."""
        about = {"kid": self.kid, "use": "sig"}
        if self.rsa is not None:
            numbers = self.rsa.public_key().public_numbers()
            return {**about, "kty": "RSA", "n": _number(numbers.n), "e": _number(numbers.e)}
        assert self.curve is not None
        point, size = self.curve.public_key().public_numbers(), (self.curve.key_size + 7) // 8
        x, y = _number(point.x, size), _number(point.y, size)
        return {**about, "kty": "EC", "crv": _CURVES[self.algorithm][1], "x": x, "y": y}

    def sign(self, claims: Mapping[str, Any], header: Mapping[str, Any] | None = None) -> str:
        """A token; `header` changes what its header says."""
        given = {"alg": self.algorithm, "kid": self.kid, **(header or {})}
        signed = ".".join(encoded(json.dumps(part).encode()) for part in (given, claims))
        return f"{signed}.{encoded(self._signature(signed.encode()))}"

    def _signature(self, signed: bytes) -> bytes:
        digest = _HASHES[self.algorithm[2:]]
        if self.rsa is not None:
            pss = padding.PSS(padding.MGF1(digest), digest.digest_size)
            return self.rsa.sign(signed, pss if self.algorithm.startswith("PS") else padding.PKCS1v15(), digest)
        assert self.curve is not None
        size = (self.curve.key_size + 7) // 8
        halves = decode_dss_signature(self.curve.sign(signed, ec.ECDSA(digest)))
        return b"".join(half.to_bytes(size, "big") for half in halves)


class TestProvider:
    """The provider: what it says of itself, what it gives, and what it was asked."""

    __test__ = False

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.key = Key()
        self.url = ""
        self.client_secret = ""
        self.lifetime = 3600.0
        self.refreshes = True
        """Whether it gives refresh tokens."""
        self.refresh_bytes = 16
        self.claims: dict[str, Any] = {}
        """What ID tokens say besides, or instead."""
        self.description: dict[str, Any] = {}
        """What the discovery document says besides, or instead."""
        self.trouble: dict[str, dict[str, Any]] = {}
        """What it answers under a path instead."""
        self.hold: asyncio.Event | None = None
        """Where there is one, tokens are given only after it."""
        self.asked: list[tuple[str, dict[str, str]]] = []
        """Path and form of each request."""
        self.given: list[str] = []
        """Every ID token."""
        self._codes: dict[str, tuple[dict[str, str], str]] = {}
        self.refresh_tokens: dict[str, str] = {}
        """Whom each of them is for; without it, it is worth nothing."""

    def visit(self, address: str, *, user: str = "jane") -> str:
        """What a browser does there: signs in, and is sent back to this address."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        assert address.startswith(f"{self.url}/authorize?")
        code = secrets.token_urlsafe(16)
        self._codes[code] = asked, user
        return f"{asked['redirect_uri']}?code={code}&state={asked['state']}&iss={self.url}"

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Everything that it can be asked."""
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.asked.append((request.path, form))
        if request.path in self.trouble:
            return web.Response(**self.trouble[request.path])
        if request.path == "/keys":
            return web.json_response({"keys": [self.key.jwk, {"kty": "oct", "k": "c2VjcmV0"}]})
        if request.path == "/revoke":
            self.refresh_tokens.pop(form["token"], None)
            return web.Response()
        if request.path == "/token":
            return await self._tokens(request, form)
        document = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "revocation_endpoint": f"{self.url}/revoke",
            "authorization_response_iss_parameter_supported": True,
        }
        return web.json_response({**document, **self.description})

    async def _tokens(self, request: web.BaseRequest, form: Mapping[str, str]) -> web.Response:
        if self.hold is not None:
            await self.hold.wait()
        if not self._knows_client(request, form):
            return web.json_response({"error": "invalid_client"}, status=401)
        asked: dict[str, str] = {}
        if form["grant_type"] == "refresh_token":
            user = self.refresh_tokens.pop(form["refresh_token"], "")
        else:
            asked, user = self._codes.pop(form["code"], ({}, ""))
            if asked and challenge(form["code_verifier"]) != asked["code_challenge"]:
                user = ""
        if not user:
            return web.json_response({"error": "invalid_grant"}, status=400)
        return web.json_response(self._grant(user, asked))

    def _knows_client(self, request: web.BaseRequest, form: Mapping[str, str]) -> bool:
        basic = base64.b64encode(f"console:{self.client_secret}".encode()).decode()
        if not self.client_secret:
            return form.get("client_id") == "console"
        return (
            request.headers.get("Authorization") == f"Basic {basic}" or form.get("client_secret") == self.client_secret
        )

    def _grant(self, user: str, asked: Mapping[str, str]) -> dict[str, Any]:
        now = self.clock.now().timestamp()
        claims = {"iss": self.url, "aud": "console", "sub": user, "iat": int(now), "exp": int(now + self.lifetime)}
        if "nonce" in asked:
            claims["nonce"] = asked["nonce"]
        token = self.key.sign({**claims, "jti": secrets.token_urlsafe(8), **self.claims})
        self.given.append(token)
        answer = {"id_token": token, "access_token": "unused", "token_type": "Bearer"}
        if self.refreshes:
            fresh = secrets.token_urlsafe(self.refresh_bytes)
            self.refresh_tokens[fresh] = user
            answer["refresh_token"] = fresh
        return answer


@asynccontextmanager
async def providing(clock: Clock) -> AsyncIterator[TestProvider]:
    """A provider that serves until the end of the block."""
    provider = TestProvider(clock)
    server = web.Server(provider.answer, access_log=None)
    runner = web.ServerRunner(server, shutdown_timeout=1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        port = runner.addresses[0][1]
        provider.url = f"http://127.0.0.1:{port}"
        yield provider
    finally:
        await runner.cleanup()
