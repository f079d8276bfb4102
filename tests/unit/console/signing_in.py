"""Somebody who signs in at a provider, in the test's own process: a browser's cookies, the console, and the API server.

The real provider and a real API server are in tests/cluster.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

from edgewright.console.identity import ATTEMPT_COOKIE, START
from edgewright.console.oidc import OidcSettings
from edgewright.local.access.authentication import Recognised, User
from edgewright.runtime.clock import SystemClock, VirtualClock
from tests.unit.console.consoles import Portal, consoles
from tests.unit.console.providers import TestProvider, providing

KEYS = (b"a key that is long enough to be one",)


class Knows:
    """An API server's side: it takes the tokens that a provider gave, and no other."""

    def __init__(self, provider: TestProvider) -> None:
        self.provider = provider
        self.off = False

    def read(self, token: str, audiences: Sequence[str]) -> Recognised | None:
        if self.off or token not in self.provider.given:
            return None
        body = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        return Recognised(user=User(name=f"oidc:{claims['sub']}", groups=("system:masters", "system:authenticated")))


class Browser:
    """A browser with its cookies, which sends Strict ones only to where its own page is."""

    def __init__(self, portal: Portal, provider: TestProvider, api: Knows) -> None:
        self.portal = portal
        self.provider = provider
        self.api = api
        self.cookies: dict[str, str] = {}
        self.lax: set[str] = set()
        self.headers: dict[str, str] = {}
        """What a proxy in between adds."""

    async def __call__(self, method: str, path: str, body: Any = None, *, site: str = "same-origin") -> Any:
        """A request of the console's page, or of another."""
        sent = {name: value for name, value in self.cookies.items() if site == "same-origin" or name in self.lax}
        headers = {"Sec-Fetch-Site": site, **self.headers}
        if sent:
            headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in sent.items())
        data = None if body is None else json.dumps(body).encode()
        if data is not None:
            headers["Content-Type"] = "application/json"
        async with self.portal.session.request(
            method, self.portal.url + path, data=data, headers=headers, allow_redirects=False
        ) as answer:
            for header in answer.headers.getall("Set-Cookie", []):
                self.take(header)
            text = await answer.text()
            shown = json.loads(text) if text and "json" in answer.content_type else text
            return answer.status, answer.headers, shown

    def take(self, header: str) -> None:
        """Keeps a cookie, or forgets it."""
        for name, morsel in SimpleCookie(header).items():
            assert morsel["secure"], header
            assert (morsel["path"], morsel["domain"], bool(morsel["httponly"])) == ("/", "", True)
            assert morsel["samesite"] == ("Lax" if name.startswith(ATTEMPT_COOKIE) else "Strict")
            assert len(header) < 4096
            if int(morsel["max-age"]) > 0:
                self.cookies[name] = morsel.value
                self.lax |= {name} if morsel["samesite"] == "Lax" else set()
            else:
                self.cookies.pop(name, None)

    async def begin(self) -> str:
        """Presses the button: where the provider is."""
        status, headers, _ = await self("GET", START)
        assert status == 303
        return str(headers["Location"])

    async def come_back(self, address: str) -> Any:
        """The provider sends it back."""
        return await self("GET", address.removeprefix(self.portal.url), site="cross-site")

    async def sign_in(self, user: str = "jane") -> None:
        """The whole way."""
        status, headers, shown = await self.come_back(self.provider.visit(await self.begin(), user=user))
        assert (status, headers["Location"]) == (303, "/"), shown
        assert ATTEMPT_COOKIE not in self.cookies

    async def me(self) -> Any:
        """Status, and as whom the API server knows it or why it does not."""
        status, _, shown = await self("GET", "/api/v1/me")
        return status, shown["user"]["name"] if status == 200 else shown["detail"]


@asynccontextmanager
async def browsing(
    tmp_path: Path, *, clock: VirtualClock | None = None, behind_proxy: bool = False, **changes: Any
) -> AsyncIterator[tuple[Browser, TestProvider]]:
    """A browser, a console with a provider, and an API server that knows the same provider."""
    async with providing(clock or SystemClock()) as provider:
        settings = replace(OidcSettings(issuer=provider.url, client_id="console", keys=KEYS), **changes)
        async with consoles(tmp_path, oidc=settings, clock=clock, behind_proxy=behind_proxy) as portal:
            api = Knows(provider)
            portal.api.authentication.reader = api
            yield Browser(portal, provider, api), provider
