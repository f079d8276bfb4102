from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from edgewright.console.id_token import TokenError
from edgewright.console.oidc import (
    CALLBACK,
    OidcSettings,
    Provider,
    ProviderError,
    Refused,
    address_problem,
    authorization_url,
    challenge,
    checked_discovery,
    issuer_problem,
    new_attempt,
)
from edgewright.console.sessions import Attempt, Session
from edgewright.runtime.clock import VirtualClock
from tests.unit.console.providers import Key, TestProvider, providing

BACK = "https://console.example.com" + CALLBACK
ISSUER = "https://login.example.com"
DOCUMENT = {
    "issuer": ISSUER,
    "authorization_endpoint": f"{ISSUER}/authorize",
    "token_endpoint": f"{ISSUER}/token",
    "jwks_uri": f"{ISSUER}/keys",
}


# --- pure parts -----------------------------------------------------------------------------------------------------


def test_the_challenge_is_that_of_the_standard() -> None:
    verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"  # RFC 7636, appendix B
    assert challenge(verifier) == "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"


def test_each_attempt_has_secrets_of_its_own() -> None:
    one, two = new_attempt(BACK, now=5.0), new_attempt(BACK, now=5.0)
    assert {one.state, one.nonce, one.verifier}.isdisjoint({two.state, two.nonce, two.verifier})
    assert all(len(secret) >= 43 for secret in (one.state, one.nonce, one.verifier))
    assert (one.until, one.redirect_uri) == (605.0, BACK)


def test_the_address_of_the_sign_in_has_all_that_it_needs_and_no_secret() -> None:
    settings = OidcSettings(issuer=ISSUER, client_id="a client&", client_secret="hidden")
    attempt = new_attempt(BACK, now=0.0)
    address = authorization_url(f"{ISSUER}/authorize?tenant=a#x", settings, attempt)
    assert address.startswith(f"{ISSUER}/authorize?tenant=a&")
    assert {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()} == {
        "tenant": "a",
        "response_type": "code",
        "client_id": "a client&",
        "redirect_uri": BACK,
        "scope": "openid profile email groups",
        "state": attempt.state,
        "nonce": attempt.nonce,
        "code_challenge": challenge(attempt.verifier),
        "code_challenge_method": "S256",
    }
    assert "hidden" not in address
    assert attempt.verifier not in address
    assert "hidden" not in repr(settings)


def test_who_asks_for_offline_access_asks_for_consent() -> None:
    settings = OidcSettings(issuer=ISSUER, client_id="a", scope="openid offline_access")
    assert "prompt=consent" in authorization_url(f"{ISSUER}/a", settings, new_attempt(BACK, now=0.0))


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("https://login.example.com", ""),
        ("https://login.example.com:8443/realms/a?b=c", ""),
        ("http://127.0.0.1:8080", ""),
        ("http://localhost/a", ""),
        ("http://[::1]:1", ""),
        ("http://login.example.com", "must begin with https://"),
        ("http://127.0.0.1.evil.example", "must begin with https://"),
        ("ftp://127.0.0.1", "must begin with https://"),
        ("file:///etc/passwd", "is not a URL, such as https://login.example.com"),
        ("https://", "is not a URL, such as https://login.example.com"),
        ("https://a@b.example", "is not a URL, such as https://login.example.com"),
        ("https://b.example/#a", "is not a URL, such as https://login.example.com"),
        ("https://b.example/\r\nX: y", "is not a URL, such as https://login.example.com"),
        ("https://bücher.example", "is not a URL, such as https://login.example.com"),
        ("https://b.example:port", "is not a URL"),
        ("login.example.com", "is not a URL, such as https://login.example.com"),
    ],
)
def test_only_safe_addresses_are_dialled(address: str, problem: str) -> None:
    assert address_problem(address) == problem


def test_an_issuer_has_no_query() -> None:
    assert issuer_problem("https://login.example.com/a") == ""
    assert issuer_problem("https://login.example.com/a?b") == "must not have a query"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"issuer": ISSUER + "/"}, "of another issuer"),
        ({"token_endpoint": "http://login.example.com/token"}, "an address that must begin with https"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "an address that is not a URL"),
        ({"jwks_uri": "file:///keys"}, "an address that is not a URL"),
        ({"revocation_endpoint": "http://10.0.0.1/"}, "an address that must begin with https"),
        ({"code_challenge_methods_supported": ["plain"]}, "does not know PKCE"),
        ({"token_endpoint": 7}, "cannot be read"),
    ],
)
def test_a_description_that_leads_elsewhere_is_refused(change: dict[str, Any], why: str) -> None:
    assert checked_discovery(json.dumps(DOCUMENT).encode(), ISSUER).jwks_uri == f"{ISSUER}/keys"
    with pytest.raises(ProviderError, match=why):
        checked_discovery(json.dumps({**DOCUMENT, **change}).encode(), ISSUER)


# --- what is dialled ------------------------------------------------------------------------------------------------


@asynccontextmanager
async def known(*, secret: str = "") -> AsyncIterator[tuple[TestProvider, Provider, VirtualClock]]:
    """A provider, the console's side of it, and the clock of both."""
    clock = VirtualClock()
    async with providing(clock) as there:
        there.client_secret = secret
        provider = Provider(OidcSettings(issuer=there.url, client_id="console", client_secret=secret), clock)
        try:
            yield there, provider, clock
        finally:
            await provider.close()


async def code_for(there: TestProvider, provider: Provider) -> tuple[str, Attempt]:
    """A code, as the browser brings it back."""
    attempt = new_attempt(BACK, now=there.clock.now().timestamp())
    settings = OidcSettings(issuer=there.url, client_id="console")
    back = there.visit(authorization_url((await provider.discovery()).authorization_endpoint, settings, attempt))
    return parse_qs(urlsplit(back).query)["code"][0], attempt


def session(there: TestProvider, refresh_token: str, *, subject: str = "jane") -> Session:
    """A session with this refresh token."""
    return Session(
        id="s", id_token="t", refresh_token=refresh_token, subject=subject, nonce="n", expires=0, renew_at=0, ends=0
    )


async def test_a_code_is_worth_tokens_once() -> None:
    async with known() as (there, provider, _):
        code, attempt = await code_for(there, provider)
        granted = await provider.redeem(code, attempt)
        assert (granted.id_token, granted.claims.subject) == (there.given[0], "jane")
        assert granted.id_token not in repr(granted)
        with pytest.raises(Refused, match="the provider refused: invalid_grant"):
            await provider.redeem(code, attempt)


async def test_a_code_is_worth_nothing_without_the_verifier() -> None:
    async with known() as (there, provider, _):
        code, _ = await code_for(there, provider)
        with pytest.raises(Refused, match="invalid_grant"):
            await provider.redeem(code, new_attempt(BACK, now=0.0))


@pytest.mark.parametrize("methods", [["client_secret_basic", "client_secret_post"], ["client_secret_post"]])
async def test_a_client_with_a_secret_shows_it_in_the_way_that_the_provider_knows(methods: list[str]) -> None:
    async with known(secret="a:secret") as (there, provider, _):
        there.description["token_endpoint_auth_methods_supported"] = methods
        there.client_secret = "a:secret" if "client_secret_basic" not in methods else "a%3Asecret"
        code, attempt = await code_for(there, provider)
        assert (await provider.redeem(code, attempt)).claims.subject == "jane"
        there.client_secret = "another"
        with pytest.raises(Refused, match="invalid_client"):
            await provider.redeem(code, attempt)


async def test_a_refresh_token_is_worth_a_newer_token_of_the_same_person() -> None:
    async with known() as (there, provider, _):
        there.refresh_tokens.update(one="jane", two="joe", three="jane")
        granted = await provider.refresh(session(there, "one"))
        assert granted.refresh_token in there.refresh_tokens
        with pytest.raises(TokenError, match="somebody else"):
            await provider.refresh(session(there, "two"))
        there.refreshes = False
        assert (await provider.refresh(session(there, "three"))).refresh_token == "three"
        with pytest.raises(Refused, match="invalid_grant"):
            await provider.refresh(session(there, "one"))


async def test_a_revoked_refresh_token_is_worth_nothing() -> None:
    async with known() as (there, provider, _):
        there.refresh_tokens["one"] = "jane"
        await provider.revoke("one")
        assert there.refresh_tokens == {}
        there.trouble["/revoke"] = {"status": 503}
        with pytest.raises(ProviderError, match="did not revoke"):
            await provider.revoke("one")


async def test_a_provider_that_cannot_revoke_is_not_asked_to() -> None:
    async with known() as (there, provider, _):
        there.description["revocation_endpoint"] = ""
        await provider.revoke("one")
        assert [path for path, _ in there.asked] == ["/.well-known/openid-configuration"]


async def test_description_and_keys_are_asked_for_once_an_hour() -> None:
    async with known() as (there, provider, clock):
        for _ in range(3):
            await provider.redeem(*await code_for(there, provider))
        paths = [path for path, _ in there.asked]
        assert (paths.count("/.well-known/openid-configuration"), paths.count("/keys")) == (1, 1)
        await clock.advance(3601)
        await provider.redeem(*await code_for(there, provider))
        paths = [path for path, _ in there.asked]
        assert (paths.count("/.well-known/openid-configuration"), paths.count("/keys")) == (2, 2)


async def test_a_new_key_of_the_provider_is_found_and_nobody_can_make_us_ask_all_the_time() -> None:
    async with known() as (there, provider, clock):
        await provider.redeem(*await code_for(there, provider))
        there.key = Key("RS256", kid="two")
        await clock.advance(31)
        assert (await provider.redeem(*await code_for(there, provider))).claims.subject == "jane"
        there.key = Key("ES256", kid="three")
        with pytest.raises(TokenError, match="no key of the provider fits"):
            await provider.redeem(*await code_for(there, provider))
        assert [path for path, _ in there.asked].count("/keys") == 2


@pytest.mark.parametrize(
    ("path", "answer", "why"),
    [
        ("/.well-known/openid-configuration", {"status": 500}, "has trouble"),
        ("/.well-known/openid-configuration", {"body": b"x" * 300_000}, "too large"),
        ("/.well-known/openid-configuration", {"text": "[]"}, "cannot be read"),
        ("/.well-known/openid-configuration", {"status": 302, "headers": {"Location": "/keys"}}, "has trouble"),
        ("/keys", {"status": 404}, "has trouble"),
        ("/keys", {"text": '{"keys": 1}'}, "cannot be read"),
        ("/token", {"status": 503}, "has trouble"),
        ("/token", {"status": 307, "headers": {"Location": "/elsewhere"}}, "has trouble"),
        ("/token", {"text": "no JSON"}, "cannot be read"),
        ("/token", {"text": "{}"}, "gave no ID token"),
        ("/token", {"status": 400, "text": '{"error": "<b>"}'}, "refused: without a reason"),
        ("/token", {"text": '{"id_token": "a.b.c"}'}, "not a signed JWT|cannot be read"),
    ],
)
async def test_trouble_of_the_provider_has_a_name(path: str, answer: dict[str, Any], why: str) -> None:
    async with known() as (there, provider, _):
        code, attempt = "code", new_attempt(BACK, now=0.0)
        if path == "/keys":
            code, attempt = await code_for(there, provider)
        there.trouble[path] = answer
        with pytest.raises((ProviderError, TokenError), match=why):
            await provider.redeem(code, attempt)
        assert "/elsewhere" not in [each for each, _ in there.asked]


async def test_a_provider_that_is_not_there_is_not_reached_and_no_address_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, logger="edgewright")
    async with known() as (there, _, clock):
        gone = OidcSettings(issuer=there.url, client_id="console")
    provider = Provider(gone, clock)
    with pytest.raises(ProviderError, match="cannot be reached"):
        await provider.discovery()
    await provider.close()
    told = repr([each.__dict__ for each in caplog.records if each.name.startswith("edgewright")])
    assert "cannot be reached" in told
    assert gone.issuer not in told.replace(repr(caplog.records[0].exc_info), "")
