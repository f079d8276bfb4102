"""Sign-in at a provider: what a browser sees of it. The real provider and a real API server are in tests/cluster."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from edgewright.console.identity import ATTEMPT_COOKIE, COOKIE, OIDC_COOKIE, SESSION_SECONDS, START
from edgewright.console.oidc import ATTEMPT_SECONDS, CALLBACK, OidcSettings
from edgewright.console.server import STREAM_MARGIN
from edgewright.runtime.clock import VirtualClock
from tests.harness import wait_until_async
from tests.harness.waiting import PATIENCE
from tests.unit.console.consoles import JOBS, consoles, job
from tests.unit.console.providers import providing
from tests.unit.console.signing_in import KEYS, Browser, Knows, browsing


async def test_who_signs_in_acts_with_the_rights_of_the_own_token(tmp_path: Path) -> None:
    async with browsing(tmp_path) as (browser, provider):
        status, headers, shown = await browser("GET", "/api/v1/me")
        assert (status, shown["signIn"]) == (401, START)
        await browser.sign_in()
        status, headers, shown = await browser("GET", "/api/v1/me")
        assert (status, shown["user"]["name"], shown["session"]) == (200, "oidc:jane", "oidc")
        assert "Set-Cookie" not in headers
        status, _, made = await browser("PUT", f"{JOBS}/a", job("a"))
        assert (status, made["metadata"]["name"]) == (201, "a")
        form = dict(provider.asked)["/token"]
        assert form["redirect_uri"] == browser.portal.url + CALLBACK
        assert (form["client_id"], form["grant_type"]) == ("console", "authorization_code")


async def test_a_page_of_another_site_can_use_no_session_and_begin_none(tmp_path: Path) -> None:
    async with browsing(tmp_path) as (browser, _):
        await browser.sign_in()
        cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        for headers in ({"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"}, {"Origin": "https://evil"}):
            for method, path in (("GET", JOBS), ("DELETE", "/api/v1/session")):
                refused = await browser.portal(method, path, token="", Cookie=cookies, **headers)
                assert (refused.status, refused.headers.get("Set-Cookie")) == (403, None)
        status, headers_, shown = await browser("GET", START, site="cross-site")
        assert (status, "Set-Cookie" in headers_) == (403, False)
        assert "a page of another site may not act for you" in shown
        assert (await browser.me())[0] == 200


async def test_an_answer_that_belongs_to_another_sign_in_is_refused(tmp_path: Path) -> None:
    async with browsing(tmp_path) as (browser, provider):
        # Somebody else's answer, sent to a browser that began nothing: it would be signed in as somebody else.
        theirs = provider.visit(await browser.begin(), user="mallory")
        browser.cookies.clear()
        status, _, shown = await browser.come_back(theirs)
        assert (status, "this browser began no sign-in" in shown) == (400, True)
        # The same, to a browser that began one of its own.
        await browser.begin()
        status, _, shown = await browser.come_back(theirs)
        assert (status, "the answer belongs to another sign-in" in shown) == (400, True)
        assert browser.cookies == {}
        assert "/token" not in dict(provider.asked)
        assert (await browser.me())[0] == 401


@pytest.mark.parametrize(
    ("change", "status", "why"),
    [
        (("&iss=", "&iss=https://evil.example&x="), 400, "another provider"),
        (("&iss=", "&x="), 400, "another provider"),
        (("?code=", "?error=access_denied&x="), 403, "did not let you in"),
        (("?code=", "?error=%3Cscript%3E&x="), 403, "the provider gave an error"),
        (("?code=", "?x="), 400, "sent no code"),
        (("?code=", "?code=wrong"), 401, "the provider refused: invalid_grant"),
    ],
)
async def test_an_answer_without_a_good_code_is_told(
    tmp_path: Path, change: tuple[str, str], status: int, why: str
) -> None:
    async with browsing(tmp_path) as (browser, provider):
        back = provider.visit(await browser.begin())
        got, headers, shown = await browser.come_back(back.replace(*change))
        assert (got, why in shown, headers["Content-Type"]) == (status, True, "text/html; charset=utf-8"), shown
        assert f'href="{START}"' in shown
        assert "<script" not in shown
        assert browser.cookies == {}


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.example"},
        {"aud": "other"},
        {"exp": 1},
        {"nonce": "other"},
    ],
)
async def test_a_token_that_is_not_for_this_sign_in_makes_no_session(tmp_path: Path, claims: dict[str, Any]) -> None:
    async with browsing(tmp_path) as (browser, provider):
        provider.claims = claims
        status, _, shown = await browser.come_back(provider.visit(await browser.begin()))
        assert (status, "You are not signed in: the ID token" in shown) == (401, True), shown
        assert browser.cookies == {}


async def test_who_takes_too_long_begins_again(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with browsing(tmp_path, clock=clock) as (browser, provider):
        back = provider.visit(await browser.begin())
        await clock.advance(ATTEMPT_SECONDS + 1)
        status, _, shown = await browser.come_back(back)
        assert (status, "is too late" in shown) == (400, True)


async def test_a_provider_in_trouble_is_told_and_nothing_is_kept(tmp_path: Path) -> None:
    async with browsing(tmp_path) as (browser, provider):
        provider.trouble["/.well-known/openid-configuration"] = {"status": 500}
        status, _, shown = await browser("GET", START)
        assert (status, "the provider has trouble" in shown, browser.cookies) == (503, True, {})


async def test_behind_a_proxy_the_way_back_is_the_address_that_browsers_know(tmp_path: Path) -> None:
    async with browsing(tmp_path, external_url="https://console.example.com") as (browser, provider):
        back = provider.visit(await browser.begin())
        assert back.startswith(f"https://console.example.com{CALLBACK}?code=")


@pytest.mark.parametrize(
    ("external_url", "headers"),
    [
        ("https://tools.example.com/edge", {}),
        ("https://tools.example.com/edge", {"X-Forwarded-Prefix": "/edge"}),
        ("https://tools.example.com", {"X-Forwarded-Prefix": "/edge/"}),
        ("https://tools.example.com/other", {"X-Forwarded-Prefix": "/edge"}),
    ],
)
async def test_below_a_path_somebody_signs_in_and_out(
    tmp_path: Path, external_url: str, headers: dict[str, str]
) -> None:
    there = "https://tools.example.com/edge"
    async with browsing(tmp_path, behind_proxy=True, external_url=external_url) as (browser, provider):
        provider.description["end_session_endpoint"] = f"{provider.url}/end"
        browser.headers = headers
        back = provider.visit(await browser.begin())
        assert back.startswith(f"{there}{CALLBACK}?code=")
        status, answered, shown = await browser.come_back(back.removeprefix(there))
        assert (status, answered["Location"]) == (303, "/edge/"), shown
        assert await browser.me() == (200, "oidc:jane")
        assert dict(provider.asked)["/token"]["redirect_uri"] == there + CALLBACK
        _, _, ended = await browser("DELETE", "/api/v1/session")
        asked = parse_qs(ended["provider"].partition("?")[2])
        assert asked["post_logout_redirect_uri"] == [f"{there}/"]
        assert browser.cookies == {}
        _, _, shown = await browser.come_back(back.removeprefix(there))
        assert f'href="/edge{START}"' in shown


async def test_consoles_below_two_paths_of_one_host_have_sessions_of_their_own(tmp_path: Path) -> None:
    host = "https://tools.example.com"
    async with browsing(tmp_path, behind_proxy=True, external_url=host) as (browser, provider):
        for path, user in (("/one", "jane"), ("/two", "joe")):
            browser.headers = {"X-Forwarded-Prefix": path}
            back = provider.visit(await browser.begin(), user=user)
            assert (await browser.come_back(back.removeprefix(host + path)))[0] == 303
        assert await browser.me() == (200, "oidc:joe")
        assert (await browser("DELETE", "/api/v1/session"))[0] == 204
        assert (await browser.me())[0] == 401
        browser.headers = {"X-Forwarded-Prefix": "/one"}
        assert await browser.me() == (200, "oidc:jane")


async def test_without_a_proxy_nobody_says_below_which_path_the_console_is(tmp_path: Path) -> None:
    async with browsing(tmp_path) as (browser, provider):
        browser.headers = {"X-Forwarded-Prefix": "/edge"}
        assert provider.visit(await browser.begin()).startswith(f"{browser.portal.url}{CALLBACK}?code=")


# --- cookies --------------------------------------------------------------------------------------------------------


async def test_a_changed_cookie_is_nobody_and_goes(tmp_path: Path) -> None:
    async with browsing(tmp_path) as (browser, _):
        await browser.sign_in()
        good = dict(browser.cookies)
        first = good[f"{OIDC_COOKIE}-0"]
        for wrong in ("", "1.", "x", "2" + first[1:], first[:-9] + "A" * 9, first[:40] + "AAAA" + first[44:]):
            browser.cookies = {**good, f"{OIDC_COOKIE}-0": wrong}
            assert await browser.me() == (401, "the session is not known: sign in again")
            assert browser.cookies == {}
        browser.cookies = good
        assert await browser.me() == (200, "oidc:jane")


async def test_the_cookie_of_a_sign_in_that_has_begun_is_no_session(tmp_path: Path) -> None:
    async with browsing(tmp_path) as (browser, _):
        await browser.begin()
        browser.cookies = {f"{OIDC_COOKIE}-0": f"1.{browser.cookies[ATTEMPT_COOKIE]}"}
        assert await browser.me() == (401, "the session is not known: sign in again")


async def test_a_big_token_is_in_several_cookies_which_go_when_a_smaller_one_comes(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with browsing(tmp_path, clock=clock) as (browser, provider):
        provider.claims = {"groups": [f"a-group-with-a-long-name-{number}" for number in range(250)]}
        await browser.sign_in()
        assert len(browser.cookies) == 4
        assert await browser.me() == (200, "oidc:jane")
        provider.claims = {}
        await clock.advance(3590)
        assert await browser.me() == (200, "oidc:jane")
        assert list(browser.cookies) == [f"{OIDC_COOKIE}-0"]


async def test_a_token_that_is_too_big_for_cookies_is_told(tmp_path: Path) -> None:
    async with browsing(tmp_path) as (browser, provider):
        provider.claims = {"groups": ["x" * 100] * 115}
        await browser.sign_in()
        assert len(browser.cookies) == 6
        assert await browser.me() == (200, "oidc:jane")
        browser.cookies.clear()
        provider.refresh_bytes = 2000
        status, _, shown = await browser.come_back(provider.visit(await browser.begin()))
        assert (status, "too big for cookies" in shown) == (413, True), shown
        provider.claims = {"groups": ["x" * 100] * 1000}
        status, _, shown = await browser.come_back(provider.visit(await browser.begin()))
        assert (status, "has more than 16384 characters" in shown) == (401, True), shown


async def test_consoles_with_the_same_key_share_sessions_and_others_do_not(tmp_path: Path) -> None:
    async with browsing(tmp_path / "a") as (browser, provider):
        await browser.sign_in()
        settings = OidcSettings(issuer=provider.url, client_id="console", keys=KEYS)
        for keys, expected in ((KEYS, 200), ((b"another key that is long enough",), 401), ((), 401)):
            folder = tmp_path / str(len(keys) + expected)
            async with consoles(folder, oidc=replace(settings, keys=keys)) as portal:
                portal.api.authentication.reader = browser.api
                other = Browser(portal, provider, browser.api)
                other.cookies = dict(browser.cookies)
                assert (await other.me())[0] == expected


# --- how long a session lasts ---------------------------------------------------------------------------------------


async def test_a_token_is_refreshed_before_it_ends_once_for_all_who_wait(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with browsing(tmp_path, clock=clock) as (browser, provider):
        await browser.sign_in()
        before = dict(browser.cookies)
        await clock.advance(3569)
        assert await browser.me() == (200, "oidc:jane")
        assert len(provider.given) == 1
        await clock.advance(2)
        provider.hold = asyncio.Event()
        asking = [asyncio.create_task(browser.me()) for _ in range(5)]
        await wait_until_async(lambda: len(provider.asked) == 4, what="the refresh is asked for")
        provider.hold.set()
        assert set(await asyncio.gather(*asking)) == {(200, "oidc:jane")}
        assert len(provider.given) == 2
        assert browser.cookies != before
        # A request that was under way with the old cookie, whose refresh token is worth nothing any more.
        browser.cookies = dict(before)
        assert await browser.me() == (200, "oidc:jane")
        assert len(provider.given) == 2
        assert browser.cookies != before
        # And on and on, from whichever cookie.
        for cookies in (before, browser.cookies):
            await clock.advance(3580)
            browser.cookies = dict(cookies)
            assert await browser.me() == (200, "oidc:jane")


async def test_a_refresh_goes_on_when_who_waited_for_it_has_gone(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with browsing(tmp_path, clock=clock) as (browser, provider):
        await browser.sign_in()
        await clock.advance(3590)
        provider.hold = asyncio.Event()
        asking = asyncio.create_task(browser.me())
        await wait_until_async(lambda: len(provider.asked) == 4, what="the refresh is asked for")
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        provider.hold.set()
        await wait_until_async(lambda: len(provider.given) == 2, what="the refresh is answered")
        assert await browser.me() == (200, "oidc:jane")
        assert len(provider.given) == 2


async def test_a_console_that_stops_waits_for_no_refresh(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with providing(clock) as provider:
        settings = OidcSettings(issuer=provider.url, client_id="console", keys=KEYS)
        async with consoles(tmp_path, oidc=settings, clock=clock) as portal:
            browser = Browser(portal, provider, Knows(provider))
            await browser.sign_in()
            await clock.advance(3590)
            provider.hold = asyncio.Event()
            asking = asyncio.create_task(browser.me())
            await wait_until_async(lambda: len(provider.asked) == 4, what="the refresh is asked for")
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        assert len(provider.given) == 1
        provider.hold.set()


async def test_only_so_much_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edgewright.console.identity._REMEMBERED", 1)
    async with browsing(tmp_path) as (browser, _):
        copies = []
        for _ in range(2):
            await browser.sign_in()
            copies.append(dict(browser.cookies))
            assert (await browser("DELETE", "/api/v1/session"))[0] == 204
        answers = []
        for copy in copies:
            browser.cookies = copy
            answers.append(await browser.me())
        assert answers == [(200, "oidc:jane"), (401, "the session is over: sign in again")]


async def test_a_provider_that_does_not_answer_ends_no_session_before_its_token(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with browsing(tmp_path, clock=clock) as (browser, provider):
        await browser.sign_in()
        await clock.advance(3580)
        provider.trouble["/token"] = {"status": 503}
        assert await browser.me() == (200, "oidc:jane")
        assert await browser.me() == (200, "oidc:jane")
        assert [path for path, _ in provider.asked].count("/token") == 2  # not at every request
        await clock.advance(21)
        status, headers, shown = await browser("GET", "/api/v1/me")
        assert (status, headers["Retry-After"], shown["detail"]) == (503, "5", "the provider has trouble")
        assert browser.cookies
        provider.trouble.clear()
        await clock.advance(11)
        assert await browser.me() == (200, "oidc:jane")


async def test_a_session_that_the_provider_ended_is_over_with_its_token(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with browsing(tmp_path, clock=clock) as (browser, provider):
        await browser.sign_in()
        provider.refresh_tokens.clear()
        await clock.advance(3580)
        assert await browser.me() == (200, "oidc:jane")
        await clock.advance(21)
        assert await browser.me() == (401, "the provider ended the session: sign in again")
        assert browser.cookies == {}


async def test_without_a_refresh_token_a_session_is_over_with_its_token(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with browsing(tmp_path, clock=clock) as (browser, provider):
        provider.refreshes = False
        await browser.sign_in()
        await clock.advance(3599)
        assert await browser.me() == (200, "oidc:jane")
        await clock.advance(2)
        assert await browser.me() == (401, "the session is over: sign in again")


async def test_a_session_has_an_end_however_often_its_token_was_refreshed(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with browsing(tmp_path, clock=clock) as (browser, provider):
        provider.lifetime = 5 * 3600
        await browser.sign_in()
        for _ in range(2):
            await clock.advance(5 * 3600 - 10)
            assert await browser.me() == (200, "oidc:jane")
        await clock.advance(SESSION_SECONDS - 2 * (5 * 3600 - 10))
        assert await browser.me() == (401, "the session is over: sign in again")
        assert len(provider.given) == 3


async def test_a_stream_ends_before_the_token_of_its_session(tmp_path: Path) -> None:
    # Time stands still here but for the length of the stream: what is left of the token without the margin.
    async with browsing(tmp_path, clock=VirtualClock()) as (browser, provider):
        provider.lifetime = STREAM_MARGIN + 2
        await browser.sign_in()
        cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        async with browser.portal.session.get(
            f"{browser.portal.url}/api/v1/stream?of=flashjobs",
            headers={"Cookie": cookies, "Sec-Fetch-Site": "same-origin"},
        ) as stream:
            assert stream.status == 200
            async with asyncio.timeout(PATIENCE):
                told = await stream.text()
        assert "retry: " in told
        assert "problem" not in told


# --- the end --------------------------------------------------------------------------------------------------------


async def test_who_signs_out_is_nobody_and_a_copy_of_the_cookie_is_worth_nothing(tmp_path: Path) -> None:
    async with browsing(tmp_path) as (browser, provider):
        await browser.sign_in()
        copy = dict(browser.cookies)
        assert (await browser("DELETE", "/api/v1/session"))[0] == 204
        assert (browser.cookies, provider.refresh_tokens) == ({}, {})
        assert (await browser.me())[0] == 401
        browser.cookies = copy
        assert await browser.me() == (401, "the session is over: sign in again")


async def test_who_signs_out_is_told_where_the_provider_ends_its_own_session(tmp_path: Path) -> None:
    async with browsing(tmp_path) as (browser, provider):
        provider.description["end_session_endpoint"] = f"{provider.url}/end?tenant=a"
        await browser.sign_in()
        status, _, shown = await browser("DELETE", "/api/v1/session")
        assert (status, browser.cookies) == (200, {})
        address, _, query = shown["provider"].partition("?")
        assert address == f"{provider.url}/end"
        # No ID token as a hint: it would be in a URL.
        back = f"{browser.portal.url}/"
        assert parse_qs(query) == {"tenant": ["a"], "client_id": ["console"], "post_logout_redirect_uri": [back]}


async def test_who_signs_out_is_signed_out_also_where_the_provider_is_in_trouble(tmp_path: Path) -> None:
    async with browsing(tmp_path) as (browser, provider):
        await browser.sign_in()
        provider.trouble["/revoke"] = {"status": 500}
        assert (await browser("DELETE", "/api/v1/session"))[0] == 204
        assert browser.cookies == {}


async def test_a_token_is_no_session_that_could_end_and_the_one_time_link_s_is(tmp_path: Path) -> None:
    async with consoles(tmp_path, as_me=True) as portal:
        assert (await portal("DELETE", "/api/v1/session")).status == 404
        assert portal.console.sign_in is not None
        opened = await portal("POST", "/api/v1/session", {"secret": portal.console.sign_in.secret}, token="")
        cookie = {"Cookie": opened.headers["Set-Cookie"].partition(";")[0], "token": ""}
        assert (await portal("GET", "/api/v1/me", **cookie)).body["session"] == "link"
        ended = await portal("DELETE", "/api/v1/session", **cookie)
        assert (ended.status, "Max-Age=0" in ended.headers["Set-Cookie"]) == (204, True)
        assert (await portal("GET", "/api/v1/me", **cookie)).status == 401


async def test_an_api_server_that_does_not_know_the_issuer_is_named(tmp_path: Path) -> None:
    async with browsing(tmp_path) as (browser, _):
        await browser.sign_in()
        browser.api.off = True
        for path in ("/api/v1/me", JOBS, "/api/v1/stream?of=flashjobs"):
            status, _, shown = await browser("GET", path)
            assert (status, shown["signIn"]) == (401, START)
            assert "the API server does not take the ID token of this sign-in" in shown["detail"]


async def test_no_token_no_code_and_no_secret_is_in_the_log_or_in_an_address(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="edgewright")
    async with browsing(tmp_path) as (browser, provider):
        back = provider.visit(await browser.begin())
        await browser.come_back(back.replace("code=", "code=wrong"))
        await browser.sign_in()
        await browser.me()
        secrets = [*provider.given, *provider.refresh_tokens, *browser.cookies.values()]
        secrets += [form[name] for _, form in provider.asked for name in ("code", "code_verifier") if name in form]
        await browser("DELETE", "/api/v1/session")
        told = repr([each.__dict__ for each in caplog.records])
        assert "signed in by OpenID Connect" in told
        assert [each for each in secrets if each in told] == []


async def test_without_a_provider_there_is_no_such_page_and_no_hint(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        for path in (START, CALLBACK):
            assert (await portal("GET", path, token="")).status == 404
        assert "signIn" not in (await portal("GET", "/api/v1/me", token="")).body
        assert (await portal("GET", JOBS, token="", Cookie=f"{OIDC_COOKIE}-0=1.a")).status == 401


@pytest.mark.parametrize(
    ("path", "cookie", "status"),
    [
        ("/api/v1/me", f"{OIDC_COOKIE}-0=1.\xff\xfe", 401),
        ("/api/v1/me", f"{OIDC_COOKIE}-0=\xff.a", 401),
        (f"{CALLBACK}?state=%ff%fe&code=%ed%a0%80", "{}", 400),
        (f"{CALLBACK}?state=\xff&code=a", "{}", 400),
        (f"{CALLBACK}?state=a&code=a", f"{ATTEMPT_COOKIE}=\xff", 400),
    ],
)
async def test_bytes_that_are_no_text_are_nobody_s(tmp_path: Path, path: str, cookie: str, status: int) -> None:
    async with browsing(tmp_path) as (browser, _):
        await browser.begin()
        attempt = f"{ATTEMPT_COOKIE}={browser.cookies[ATTEMPT_COOKIE]}"
        assert await raw(browser.portal.url, path, cookie.replace("{}", attempt)) == status


async def test_bytes_that_are_no_text_are_no_session_of_a_link(tmp_path: Path) -> None:
    async with consoles(tmp_path, as_me=True) as portal:
        assert await raw(portal.url, "/api/v1/me", f"{COOKIE}=\xff\xfe") == 401


async def raw(url: str, path: str, cookie: str) -> int:
    """The status of an answer to a request with these very bytes."""
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = (f"GET {path} HTTP/1.1", f"Host: {host}:{port}", f"Cookie: {cookie}", "Connection: close", "", "")
    writer.write("\r\n".join(lines).encode("latin-1"))
    status = (await reader.readline()).split()[1]
    writer.close()
    await writer.wait_closed()
    return int(status)
