"""Sign-in by OpenID Connect as people do it: a button, the provider's own pages, and back."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.acceptance import console_stage
from tests.browser.chromium import pages
from tests.cluster import oidc_stage as stage
from tests.cluster.oidc_stage import CLIENT, SCOPE, ProviderProcess
from tests.harness import ControlPlane
from tests.harness.fixtures import run
from tests.harness.prefix_proxy import under_a_path

ME = "async (path) => { const answer = await fetch(path); return [answer.status, await answer.json()]; }"


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProviderProcess]:
    """A provider."""
    with stage.provider(tmp_path_factory.mktemp("provider")) as running:
        yield running


@pytest.fixture(scope="module")
def plane(request: pytest.FixtureRequest, provider: ProviderProcess) -> Iterator[ControlPlane]:
    """An API server that knows it, on which the provider's people are administrators."""
    for made in run(request, functools.partial(ControlPlane, api_flags=stage.api_flags(provider))):
        console_stage.install(made)
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "people"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "oidc:people"}],
        }
        made.request("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding)
        yield made


def sign_in(page: Page, url: str) -> None:
    """Presses the button, and fills in what the provider asks."""
    page.get_by_role("link", name="Sign in with your account").click()
    page.get_by_placeholder("Enter any login").fill("jane")
    page.get_by_placeholder("and password").fill("any")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()
    page.wait_for_url(f"{url}/fleet")


@pytest.fixture(params=["at the root", "below a path"])
def url(
    request: pytest.FixtureRequest, plane: ControlPlane, provider: ProviderProcess, tmp_path: Path
) -> Iterator[str]:
    """Where a browser finds a console at which people sign in: at its own address, or behind a proxy below a path."""
    arguments = (
        *("--oidc-issuer", provider.issuer, "--oidc-client-id", CLIENT, "--oidc-scope", SCOPE),
        *("--oidc-ca", str(provider.authority)),
    )
    if request.param == "at the root":
        with console_stage.console(plane, tmp_path / "console", *arguments) as console:
            yield console.url
        return
    with (
        under_a_path(lambda: console.url) as there,
        console_stage.console(
            plane, tmp_path / "console", *arguments, "--behind-proxy", "--external-url", there
        ) as console,
    ):
        yield there


def test_somebody_signs_in_at_the_provider_and_signs_out(browser: Browser, url: str) -> None:
    with pages(browser, any_certificate=True) as page:
        refused: list[str] = []
        page.on("console", lambda told: refused.append(told.text) if "Content Security Policy" in told.text else None)
        # The provider's own pages ask for a font elsewhere.
        page.route(re.compile(r"^https?://(?!127\.0\.0\.1)"), lambda route: route.abort())
        page.goto(f"{url}/")
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible(timeout=60_000)
        sign_in(page, url)
        expect(page.get_by_text("Signed in as oidc:jane")).to_be_visible(timeout=60_000)
        assert page.evaluate("document.cookie") == ""
        kept = {each["name"]: each for each in page.context.cookies(url) if "edgewright" in each["name"]}
        assert kept
        for name, cookie in kept.items():
            assert name.startswith("__Host-edgewright-oidc-"), name
            assert (cookie["secure"], cookie["httpOnly"], cookie["sameSite"]) == (True, True, "Strict")
        # Who comes again, from another page, is still signed in.
        page.goto("about:blank")
        page.goto(f"{url}/devices")
        expect(page.get_by_text("Signed in as oidc:jane")).to_be_visible(timeout=60_000)
        page.get_by_role("button", name="Sign out").click()
        page.get_by_role("button", name="Yes, sign me out").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible(timeout=60_000)
        assert page.url == f"{url}/"
        assert page.evaluate(ME, f"{url}/api/v1/me")[0] == 401
        assert [each for each in page.context.cookies(url) if "edgewright" in each["name"]] == []
        # The provider has forgotten them too.
        page.get_by_role("link", name="Sign in with your account").click()
        expect(page.get_by_placeholder("Enter any login")).to_be_visible(timeout=60_000)
        assert refused == []
