"""Who is calling: tokens that are passed on, the one-time link, and pages of other sites."""

from __future__ import annotations

import logging
import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from edgewright.console.gate import Gate
from edgewright.console.identity import COOKIE, LINK_SECONDS, SESSION_SECONDS, Caller, PassedOn, SignIn, passing_on
from edgewright.console.limits import Limits
from edgewright.console.problems import Refusal
from edgewright.runtime.clock import VirtualClock
from edgewright.runtime.config import Config, ConfigError
from edgewright.runtime.credentials import CredentialsError
from edgewright.runtime.tls import ClientTls
from tests.unit.console.consoles import IN_DEFAULT, JOBS, consoles, job, widget

PORTAL = "https://portal.example.com"


async def test_nobody_gets_in_without_a_token(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        for path in ("/api/v1/me", "/api/v1/kinds", JOBS, f"{JOBS}/a", "/api/v1/stream?of=flashjobs"):
            answer = await portal("GET", path, token="")
            assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, 'Bearer realm="edgewright"'), path


@pytest.mark.parametrize("header", ["Basic YTpi", "Bearer", "Bearer a b", "Bearer é", f"Bearer {'x' * 20_000}"])
async def test_a_header_that_is_no_token_is_refused(tmp_path: Path, header: str) -> None:
    async with consoles(tmp_path) as portal:
        answer = await portal("GET", "/api/v1/me", token="", Authorization=header)
        assert answer.status == 401


async def test_a_token_that_the_server_does_not_know_gets_401_for_everything(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        for method, path in (
            ("GET", "/api/v1/me"),
            ("GET", JOBS),
            ("PUT", f"{JOBS}/a"),
            ("GET", "/api/v1/openapi.json"),
        ):
            answer = await portal(method, path, job("a") if method == "PUT" else None, token="wrong")
            assert (answer.status, answer.body["detail"]) == (401, "the API server does not know the token"), path


async def test_who_is_calling_is_what_the_server_says(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        me = await portal("GET", "/api/v1/me")
        assert me.body["user"] == {"name": "kubernetes-admin", "groups": ["system:masters", "system:authenticated"]}
        with_rights = await portal("GET", "/api/v1/me?of=flashjobs&namespace=default")
        rights = with_rights.body["rights"]
        assert (rights["resource"], rights["namespace"]) == ("flashjobs", "default")
        assert rights["verbs"] == dict.fromkeys(["get", "list", "watch", "create", "update", "patch", "delete"], True)
        assert (await portal("GET", "/api/v1/me?of=devices&namespace=default")).body["rights"]["namespace"] == ""


async def test_no_token_is_ever_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="edgewright")
    async with consoles(tmp_path) as portal:
        await portal("GET", f"/api/v1/me?access_token={portal.token}")
        await portal("PUT", f"{JOBS}/a", job("a"))
        await portal("GET", f"{JOBS}/b")
        told = [each.__dict__ for each in caplog.records]
        assert told
        assert portal.token not in repr(told)
        assert any("/flashjobs/a" in repr(each) for each in told)


async def test_nothing_is_sent_without_a_caller() -> None:
    with pytest.raises(CredentialsError, match="is missing"):
        await PassedOn().headers()
    assert repr(PassedOn()) == "PassedOn()"
    assert "secret" not in repr(Caller(digest="d", token="secret"))


def test_the_certificate_of_the_kubeconfig_is_left_out() -> None:
    tls = ClientTls()
    passed = passing_on(Config(server="https://a", tls=tls, source="s"))
    assert passed.tls is not tls
    assert isinstance(passed.credentials, PassedOn)
    with pytest.raises(ConfigError, match="plain HTTP, over which callers' tokens are not sent"):
        passing_on(Config(server="http://a", source="s"))
    with pytest.raises(ConfigError, match="cannot be left out"):
        passing_on(Config(server="https://a", tls=ssl.create_default_context(), source="s"))


# --- the one-time link ----------------------------------------------------------------------------------------------


async def test_the_link_works_once_and_its_session_acts_as_the_user_of_the_kubeconfig(tmp_path: Path) -> None:
    async with consoles(tmp_path, as_me=True) as portal:
        sign_in = portal.console.sign_in
        assert sign_in is not None
        wrong = await portal("POST", "/api/v1/session", {"secret": "wrong"}, token="")
        assert wrong.status == 401
        assert (await portal("POST", "/api/v1/session", {"no": 1}, token="")).status == 400
        link = {"secret": sign_in.secret}
        crossed = await portal("POST", "/api/v1/session", link, token="", Sec_Fetch_Site="cross-site")
        assert crossed.status == 403
        opened = await portal("POST", "/api/v1/session", link, token="", Sec_Fetch_Site="same-origin")
        assert opened.status == 204
        cookie = opened.headers["Set-Cookie"]
        assert all(word in cookie for word in (COOKIE, "HttpOnly", "Secure", "SameSite=Strict", "Path=/"))
        assert (await portal("POST", "/api/v1/session", link, token="")).status == 401
        session = cookie.partition(";")[0]
        own = await portal("GET", "/api/v1/me", token="", Cookie=session, Sec_Fetch_Site="same-origin")
        assert (own.status, own.body["user"]["name"]) == (200, "me")
        # A token counts before the cookie.
        other = await portal("GET", "/api/v1/me", Cookie=session, Sec_Fetch_Site="same-origin")
        assert other.body["user"]["name"] == "kubernetes-admin"
        for headers in (
            {"Sec_Fetch_Site": "cross-site"},
            {"Sec_Fetch_Site": "same-site"},
            {"Origin": "https://evil.example"},
        ):
            refused = await portal("GET", JOBS, token="", Cookie=cookie.partition(";")[0], **headers)
            assert (refused.status, refused.body["detail"]) == (403, "a page of another site may not act for you")
        page = await portal("GET", "/sign-in", token="")
        assert (page.status, "script-src 'self'" in page.headers["Content-Security-Policy"]) == (200, True)


async def test_without_the_flag_there_is_no_sign_in_and_no_cookie_counts(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        assert (await portal("POST", "/api/v1/session", {"secret": "a"}, token="")).status == 404
        assert (await portal("GET", "/sign-in", token="")).status == 404
        assert (await portal("GET", JOBS, token="", Cookie=f"{COOKIE}=a")).status == 401
        assert (await portal("GET", "/", token="")).status == 200
        assert (await portal("GET", "/healthz", token="")).body == "ok"


async def test_a_link_and_a_session_have_an_end() -> None:
    clock = VirtualClock()
    late = SignIn(clock)
    await clock.advance(LINK_SECONDS + 1)
    with pytest.raises(Refusal, match="too old"):
        late.redeem(late.secret)
    sign_in = SignIn(clock)
    cookie = sign_in.redeem(sign_in.secret)
    assert sign_in.caller(cookie).session == "link"
    await clock.advance(SESSION_SECONDS + 1)
    with pytest.raises(Refusal, match="the session is over"):
        sign_in.caller(cookie)


# --- host names and origins -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1:8090", 200), ("localhost", 200), ("[::1]:1", 200), ("evil.example", 403), ("127.0.0.1.evil", 403)],
)
async def test_on_loopback_the_host_must_be_this_machine(tmp_path: Path, host: str, status: int) -> None:
    async with consoles(tmp_path) as portal:
        assert (await portal("GET", "/api/v1/me", Host=host)).status == status


async def test_behind_a_proxy_any_host_will_do(tmp_path: Path) -> None:
    async with consoles(tmp_path, gate=Gate(loopback=False)) as portal:
        assert (await portal("GET", "/api/v1/me", Host="console.example.com")).status == 200


async def test_only_pages_of_an_allowed_origin_may_call(tmp_path: Path) -> None:
    async with consoles(tmp_path, gate=Gate(loopback=True, origins=frozenset({PORTAL}))) as portal:
        asked = {"Access_Control_Request_Method": "PUT", "token": ""}
        allowed = await portal("OPTIONS", f"{JOBS}/a", Origin=PORTAL, **asked)
        assert allowed.status == 204
        assert allowed.headers["Access-Control-Allow-Origin"] == PORTAL
        assert "PUT" in allowed.headers["Access-Control-Allow-Methods"]
        assert "Authorization" in allowed.headers["Access-Control-Allow-Headers"]
        assert "Access-Control-Allow-Credentials" not in allowed.headers
        assert (await portal("OPTIONS", f"{JOBS}/a", Origin="https://evil.example", **asked)).status == 403
        made = await portal("PUT", f"{IN_DEFAULT}/w", widget(), Origin=PORTAL)
        assert (made.headers["Access-Control-Allow-Origin"], made.headers["Vary"]) == (PORTAL, "Origin")
        missing = await portal("GET", f"{IN_DEFAULT}/none", Origin=PORTAL)
        assert (missing.status, missing.headers["Access-Control-Allow-Origin"]) == (404, PORTAL)
        other = await portal("GET", f"{IN_DEFAULT}/w", Origin="https://evil.example")
        assert "Access-Control-Allow-Origin" not in other.headers
        async with portal.session.get(
            f"{portal.url}/api/v1/stream?of=flashjobs",
            headers={"Authorization": f"Bearer {portal.token}", "Origin": PORTAL},
        ) as stream:
            assert stream.headers["Access-Control-Allow-Origin"] == PORTAL


async def test_without_the_option_no_page_of_another_site_may_call(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        assert (await portal("OPTIONS", JOBS, token="", Origin=PORTAL)).status == 403


# --- limits ---------------------------------------------------------------------------------------------------------


async def test_a_caller_in_a_loop_is_told_when_to_come_again_and_nobody_else_is(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with consoles(tmp_path, limits=Limits(reads_per_second=1, burst_seconds=2), clock=clock) as portal:
        statuses = [(await portal("GET", "/api/v1/me")).status for _ in range(3)]
        assert statuses == [200, 200, 429]
        refused = await portal("GET", "/api/v1/me")
        assert (refused.headers["Retry-After"], refused.body["detail"]) == ("1", "more than 1 reads per second")
        assert (await portal("GET", "/api/v1/me", token="other")).status == 401
        assert (await portal("PUT", f"{JOBS}/job", job())).status == 201
        await clock.advance(1)
        assert (await portal("GET", "/api/v1/me")).status == 200


async def test_a_request_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    async with consoles(tmp_path, limits=replace(Limits(), seconds=0.000001)) as portal:
        answer = await portal("GET", JOBS)
        assert (answer.status, answer.body["type"]) == (504, "/api/v1/problems/timed-out")


async def test_every_answer_forbids_what_a_browser_need_not_do(tmp_path: Path) -> None:
    async with consoles(tmp_path) as portal:
        for path in ("/", "/api/v1/me", "/nowhere"):
            headers = (await portal("GET", path)).headers
            assert headers["X-Content-Type-Options"] == "nosniff", path
            assert headers["Cache-Control"] == "no-store"
            assert "unsafe" not in headers["Content-Security-Policy"]
