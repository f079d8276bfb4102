"""Sign-in by OpenID Connect with a real provider, in front of a kube-apiserver that knows the same provider."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from edgewright.console import Gate, Settings
from edgewright.console.identity import OIDC_COOKIE, START
from edgewright.console.oidc import OidcSettings
from edgewright.runtime import config
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.tls import ClientTls, PemFile
from tests.acceptance import console_stage
from tests.cluster import oidc_stage as stage
from tests.cluster.oidc_stage import CLIENT, OTHER_CLIENT, SCOPE, SECRET, Browser, ProviderProcess
from tests.harness import ControlPlane, wait_until_async
from tests.harness.fixtures import run
from tests.harness.prefix_proxy import under_a_path
from tests.unit.console.consoles import PLENTY, in_front_of

KEYS = (b"a key of at least thirty-two characters",)
JOB = {"spec": {"firmware": "registry.example/firmware:1.1.0", "version": "1.1.0", "uuid": ["a"]}}
ROLES = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProviderProcess]:
    """The provider that all tests share."""
    with stage.provider(tmp_path_factory.mktemp("provider")) as running:
        yield running


@pytest.fixture(scope="module")
def plane(request: pytest.FixtureRequest, provider: ProviderProcess) -> Iterator[ControlPlane]:
    """An API server that knows the provider, with our kinds and what its users may do."""
    for made in run(request, functools.partial(ControlPlane, api_flags=stage.api_flags(provider))):
        console_stage.install(made)
        yield made


@dataclass(frozen=True)
class Place:
    """Where the provider's users may do something: in one namespace all with FlashJobs, elsewhere nothing."""

    server: ControlPlane
    provider: ProviderProcess
    namespace: str

    @property
    def jobs(self) -> str:
        """The path of the FlashJobs that they may see."""
        return f"/api/v1/namespaces/{self.namespace}/flashjobs"


@pytest.fixture
def place(plane: ControlPlane, provider: ProviderProcess, request: pytest.FixtureRequest) -> Place:
    """A namespace in which jane may do everything with FlashJobs, and the group `people` may read them."""
    namespace = plane.create_namespace(request.node.name.removeprefix("test_"))
    everything = ["get", "list", "watch", "create", "patch", "update", "delete"]
    bound = (
        ("jane", everything, {"kind": "User", "name": "oidc:jane"}),
        ("readers", ["get", "list", "watch"], {"kind": "Group", "name": "oidc:people"}),
    )
    for name, verbs, subject in bound:
        metadata = {"name": name, "namespace": namespace}
        rules = [{"apiGroups": ["application.flashjob.nbfc.io"], "resources": ["flashjobs"], "verbs": verbs}]
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": rules}
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", **subject}],
        }
        plane.request("POST", f"{ROLES}/namespaces/{namespace}/roles", role)
        plane.request("POST", f"{ROLES}/namespaces/{namespace}/rolebindings", binding)
    return Place(plane, provider, namespace)


class Ahead(SystemClock):
    """A clock whose wall time a test sets ahead of the machine's; elapsed time never jumps."""

    seconds = 0.0

    def now(self) -> datetime:
        return super().now() + timedelta(seconds=self.seconds)


@asynccontextmanager
async def browsing(place: Place, clock: Ahead | None = None, **changes: Any) -> AsyncIterator[Browser]:
    """A browser in front of a console in this process."""
    provider = place.provider
    settings = OidcSettings(
        issuer=provider.issuer,
        client_id=CLIENT,
        scope=SCOPE,
        tls=ClientTls(authorities=PemFile(origin="test", path=provider.authority).read()),
        keys=KEYS,
    )
    console = Settings(
        gate=Gate(loopback=True), limits=PLENTY, oidc=replace(settings, **changes), page=Path("not built")
    )
    loaded = config.load(kubeconfig=place.server.kubeconfig)
    async with (
        in_front_of(loaded, console, clock=clock) as (_, url),
        aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session,
    ):
        yield Browser(session, provider.tls, url)


async def known(browser: Browser, place: Place) -> None:
    """Waits until the API server has the provider's keys and the roles: it asks for both in the background."""

    async def lists() -> bool:
        answer = await browser("GET", place.jobs)
        assert answer.status in {200, 401, 403, 404}, answer.text
        return answer.status == 200

    await wait_until_async(lists, what="the API server knows the user", interval=0.2)


async def test_the_command_lets_people_sign_in_and_act_with_their_own_rights(place: Place, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_bytes(KEYS[0] + b"\n")
    arguments = (
        *("--oidc-issuer", place.provider.issuer, "--oidc-client-id", CLIENT, "--oidc-scope", SCOPE),
        *("--oidc-ca", str(place.provider.authority), "--session-key-file", str(keys)),
    )
    with console_stage.console(place.server, tmp_path / "console", *arguments) as process:
        url = await asyncio.to_thread(lambda: process.url)
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
            browser = Browser(session, place.provider.tls, url)
            unknown = await browser("GET", "/api/v1/me")
            assert (unknown.status, unknown.body["signIn"]) == (401, START)
            back = await browser.to_provider("jane")
            assert (await browser.come_back(back)).status == 303
            await known(browser, place)
            me = (await browser("GET", "/api/v1/me")).body
            assert (me["user"]["name"], me["session"]) == ("oidc:jane", "oidc")
            assert "oidc:people" in me["user"]["groups"]
            made = await browser("PUT", f"{place.jobs}/mine", JOB)
            assert made.status == 201, made.text
            listed = await browser("GET", place.jobs)
            assert [each["metadata"]["name"] for each in listed.body["items"]] == ["mine"]
            for method, path, verb in (
                ("GET", "/api/v1/namespaces/default/flashjobs", "list"),
                ("GET", "/api/v1/devices", "list"),
                ("DELETE", "/api/v1/namespaces/default/flashjobs/other", "delete"),
            ):
                refused = await browser(method, path)
                assert refused.status == 403, (path, refused.text)
                assert (refused.body["user"], refused.body["verb"]) == ("oidc:jane", verb)
            ended = await browser("DELETE", "/api/v1/session")
            assert (ended.status, browser.session) == (200, {})
            assert (await browser("GET", place.jobs)).status == 401
        code = back.partition("code=")[2].partition("&")[0]
        assert (len(code) > 20, code in process.said) == (True, False)


async def test_who_may_only_read_reads_and_writes_nothing(place: Place) -> None:
    async with browsing(place) as browser:
        await browser.sign_in("joe")
        await known(browser, place)
        refused = await browser("PUT", f"{place.jobs}/mine", JOB)
        assert (refused.status, refused.body["user"]) == (403, "oidc:joe"), refused.text


async def test_a_token_with_many_groups_is_in_several_cookies(place: Place) -> None:
    async with browsing(place) as browser:
        await browser.sign_in("many")
        assert len(browser.session) > 2
        # In none of the groups that may read: the API server knows who it is, and says no.

        async def refused() -> bool:
            return (await browser("GET", place.jobs)).status == 403

        await wait_until_async(refused, what="the API server knows the user", interval=0.2)
        me = (await browser("GET", "/api/v1/me")).body["user"]
        assert (me["name"], len(me["groups"]) >= 200) == ("oidc:many", True)


async def test_a_token_that_is_over_is_refreshed_once_for_all_who_ask(place: Place) -> None:
    clock = Ahead()
    async with browsing(place, clock) as browser:
        await browser.sign_in("jane")
        await known(browser, place)
        before = browser.session
        clock.seconds = 4000
        # The provider takes each refresh token once, and ends the grant of who shows it twice.
        answers = await asyncio.gather(*(browser("GET", place.jobs) for _ in range(5)))
        assert [each.status for each in answers] == [200] * 5, [each.text for each in answers]
        after = browser.session
        assert after != before
        browser.restore(before)
        assert (await browser("GET", place.jobs)).status == 200
        assert browser.session == after
        clock.seconds = 0
        assert (await browser("GET", "/api/v1/me")).body["user"]["name"] == "oidc:jane"


async def test_a_session_that_the_provider_forgot_is_over_with_its_token(place: Place) -> None:
    clock = Ahead()
    async with browsing(place, clock) as browser:
        await browser.sign_in("jane")
        await known(browser, place)
        await asyncio.to_thread(place.provider.process.restart)
        assert (await browser("GET", place.jobs)).status == 200
        clock.seconds = 4000
        answer = await browser("GET", place.jobs)
        assert (answer.status, answer.body["detail"]) == (401, "the provider ended the session: sign in again")
        assert browser.session == {}


async def test_a_copy_of_a_session_that_ended_and_a_changed_cookie_are_worth_nothing(place: Place) -> None:
    clock = Ahead()
    async with browsing(place, clock) as browser, browsing(place, clock) as replica:
        await browser.sign_in("jane")
        await known(browser, place)
        good = browser.session
        first = good[f"{OIDC_COOKIE}-0"]
        for wrong in (first[:60] + ("A" if first[60] != "A" else "B") + first[61:], first[:-10], "9" + first[1:]):
            browser.restore({**good, f"{OIDC_COOKIE}-0": wrong})
            answer = await browser("GET", place.jobs)
            assert (answer.status, browser.session) == (401, {}), answer.text
        # A console with the same key shares the session; the refresh token of one that ended is worth nothing there.
        replica.restore(good)
        assert (await replica("GET", place.jobs)).status == 200
        browser.restore(good)
        assert (await browser("DELETE", "/api/v1/session")).status == 200
        browser.restore(good)
        assert (await browser("GET", place.jobs)).body["detail"] == "the session is over: sign in again"
        clock.seconds = 4000
        assert (await replica("GET", place.jobs)).status == 401


async def test_who_signs_out_is_signed_out_at_the_provider_too_and_comes_back(place: Place) -> None:
    async with browsing(place) as browser:
        await browser.sign_in("jane")
        there = (await browser("DELETE", "/api/v1/session")).body["provider"]
        assert there.startswith(f"{place.provider.issuer}/")
        assert await browser.sign_out_there(there) == f"{browser.console}/"
        # The provider knows nobody now: who signs in is asked for a name again, and may be somebody else.
        await browser.sign_in("joe")

        async def is_joe() -> bool:
            return (await browser("GET", "/api/v1/me")).status == 200

        await wait_until_async(is_joe, what="the API server knows the user", interval=0.2)
        assert (await browser("GET", "/api/v1/me")).body["user"]["name"] == "oidc:joe"


async def test_below_a_path_people_sign_in_at_the_provider_and_out_there_too(place: Place, tmp_path: Path) -> None:
    arguments = (
        *("--oidc-issuer", place.provider.issuer, "--oidc-client-id", CLIENT, "--oidc-scope", SCOPE),
        *("--oidc-ca", str(place.provider.authority), "--behind-proxy"),
    )
    with (
        under_a_path(lambda: process.url) as url,
        console_stage.console(place.server, tmp_path, *arguments, "--external-url", url) as process,
    ):
        await asyncio.to_thread(lambda: process.url)
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
            browser = Browser(session, place.provider.tls, url)
            await browser.sign_in("jane")
            await known(browser, place)
            assert (await browser("GET", "/api/v1/me")).body["user"]["name"] == "oidc:jane"
            kept = browser.cookies[urlsplit(url).netloc]
            assert {path for _, path in kept} == {"/"}, "a __Host- cookie has no other path"
            there = (await browser("DELETE", "/api/v1/session")).body["provider"]
            assert browser.session == {}
            assert await browser.sign_out_there(there) == f"{url}/"


async def test_an_answer_for_another_browser_is_refused(place: Place) -> None:
    async with browsing(place) as mallory:
        theirs = await mallory.to_provider("mallory")
        mallory.restore({})
        assert (await mallory.come_back(theirs)).status == 400
        victim = mallory
        await victim("GET", START)
        refused = await victim.come_back(theirs)
        assert (refused.status, "the answer belongs to another sign-in" in refused.text) == (400, True)
        assert victim.session == {}
        assert (await victim("GET", place.jobs)).status == 401


async def test_a_client_that_the_api_server_does_not_know_is_told_so(place: Place) -> None:
    async with browsing(place, client_id=OTHER_CLIENT, client_secret=SECRET) as browser:
        await browser.sign_in("jane")
        answer = await browser("GET", place.jobs)
        assert answer.status == 401, answer.text
        assert "the API server does not take the ID token of this sign-in" in answer.body["detail"]
        assert browser.session
