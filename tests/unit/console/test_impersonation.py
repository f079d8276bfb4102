"""Acting for people whom the API server does not know: which names they get, and which they can never get."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgewright.console.id_token import TokenError
from edgewright.console.identity import Caller, OnBehalf, acting_as
from edgewright.console.impersonation import Impersonation, Person, person_of, prefix_problem
from edgewright.local.errors import unauthorized
from edgewright.runtime.credentials import Anonymous, CredentialsError
from tests.harness import wait_until_async
from tests.unit.console.consoles import JOBS, Portal, job
from tests.unit.console.signing_in import browsing

RBAC = "/apis/rbac.authorization.k8s.io/v1"
RULES = Impersonation(prefix="oidc:", groups=frozenset({"people", "admins"}))


@pytest.mark.parametrize(
    ("claims", "changes", "person"),
    [
        ({"sub": "jane"}, {}, Person(user="oidc:jane")),
        ({"sub": "jane", "groups": ["people"]}, {}, Person(user="oidc:jane", groups=("oidc:people",))),
        ({"sub": "jane", "groups": "people"}, {}, Person(user="oidc:jane", groups=("oidc:people",))),
        (
            {"sub": "jane", "groups": ["system:masters", "admins", "others", "people", "people", 7]},
            {},
            Person(user="oidc:jane", groups=("oidc:admins", "oidc:people")),
        ),
        ({"sub": "system:admin", "groups": {"a": 1}}, {}, Person(user="oidc:system:admin")),
        ({"sub": "1", "email": "jane@a.example"}, {"username_claim": "email"}, Person(user="oidc:jane@a.example")),
        (
            {"sub": "1", "email": "jane@a.example", "email_verified": True},
            {"username_claim": "email"},
            Person(user="oidc:jane@a.example"),
        ),
        (
            {"sub": "jane", "roles": ["people"], "groups": ["admins"]},
            {"groups_claim": "roles"},
            Person(user="oidc:jane", groups=("oidc:people",)),
        ),
        ({"sub": "jane", "groups": ["people"]}, {"groups": frozenset()}, Person(user="oidc:jane")),
    ],
)
def test_names_have_the_prefix_and_only_allowed_groups_are_passed_on(
    claims: dict[str, Any], changes: dict[str, Any], person: Person
) -> None:
    assert person_of(claims, replace(RULES, **changes)) == person


@pytest.mark.parametrize(
    ("claims", "claim", "message"),
    [
        ({}, "sub", "no name in its claim sub"),
        ({"sub": ""}, "sub", "no name"),
        ({"sub": " jane"}, "sub", "no name"),
        ({"sub": "jane\r\nImpersonate-Group: system:masters"}, "sub", "no name"),
        ({"sub": "jäne"}, "sub", "no name"),
        ({"sub": ["jane"]}, "sub", "no name"),
        ({"sub": "1"}, "email", "no name in its claim email"),
        ({"email": "a@b.example", "email_verified": False}, "email", "was not verified"),
        ({"email": "a@b.example", "email_verified": "true"}, "email", "was not verified"),
    ],
)
def test_who_has_no_name_that_a_header_can_carry_is_nobody(claims: dict[str, Any], claim: str, message: str) -> None:
    with pytest.raises(TokenError, match=message):
        person_of(claims, replace(RULES, username_claim=claim))


@pytest.mark.parametrize(
    ("prefix", "problem"),
    [
        ("oidc:", ""),
        ("https://login.example.com#", ""),
        (":", ""),
        ("", "must end with"),
        ("s", "must end with"),
        ("o idc:", "must end with"),
        ("system:", "Kubernetes' own"),
        ("system:serviceaccount:", "Kubernetes' own"),
    ],
)
def test_no_prefix_makes_a_name_of_kubernetes_own(prefix: str, problem: str) -> None:
    found = prefix_problem(prefix)
    assert (problem in found, bool(found)) == (True, bool(problem))


async def known_to_all(portal: Portal) -> None:
    """Everybody who is known may ask as whom: this API server has no rights to begin with."""
    rules = [{"apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"], "verbs": ["create"]}]
    about = {"metadata": {"name": "basic-user"}}
    group = "rbac.authorization.k8s.io"
    binding = {
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "basic-user"},
        "subjects": [{"apiGroup": group, "kind": "Group", "name": "system:authenticated"}],
    }
    for plural, kind, body in (
        ("clusterroles", "ClusterRole", {"rules": rules}),
        ("clusterrolebindings", "ClusterRoleBinding", binding),
    ):
        await portal.api.made(f"{RBAC}/{plural}", {"apiVersion": f"{group}/v1", "kind": kind, **about, **body})


def test_nothing_is_sent_for_nobody() -> None:
    credentials = OnBehalf(Anonymous())
    for caller in (None, Caller(digest="a", token="t")):
        with acting_as(caller), pytest.raises(CredentialsError, match="the person to act for"):
            asyncio.run(credentials.headers())
    with acting_as(Caller(digest="a", person=Person(user="oidc:a", groups=("oidc:b",)))):
        assert dict(asyncio.run(credentials.headers())) == {"Impersonate-User": "oidc:a", "Impersonate-Group": "oidc:b"}


async def test_the_console_acts_for_people_whom_the_api_server_does_not_know(tmp_path: Path) -> None:
    async with browsing(tmp_path, impersonation=replace(RULES, groups=frozenset({"people"}))) as (browser, provider):
        await known_to_all(browser.portal)
        browser.api.off = True
        provider.claims["groups"] = ["people", "others", "system:masters"]
        await browser.sign_in()
        status, _, shown = await browser("GET", "/api/v1/me")
        assert (status, shown.get("session")) == (200, "oidc"), shown
        assert (shown["user"]["name"], set(shown["user"]["groups"])) == (
            "oidc:jane",
            {"oidc:people", "system:authenticated"},
        )
        status, _, refused = await browser("PUT", f"{JOBS}/a", job("a"))
        assert (status, refused["user"], refused["verb"]) == (403, "oidc:jane", "patch")
        # A token of an application's own is still passed on, and never somebody who is acted for.
        assert (await browser.portal("GET", "/api/v1/me")).body["user"]["name"] != "oidc:jane"
        assert (await browser.portal("GET", "/api/v1/me", token="wrong")).status == 401


async def test_groups_that_somebody_left_are_gone_with_the_next_token(tmp_path: Path) -> None:
    async with browsing(tmp_path, impersonation=RULES) as (browser, provider):
        await known_to_all(browser.portal)
        provider.lifetime = 3.0
        provider.claims["groups"] = ["people", "admins"]
        await browser.sign_in()
        provider.claims["groups"] = ["people"]

        async def only_people() -> bool:
            groups = (await browser("GET", "/api/v1/me"))[2]["user"]["groups"]
            return "oidc:admins" not in groups and "oidc:people" in groups

        await wait_until_async(only_people, what="the next token", timeout=60)


async def test_somebody_without_a_name_is_not_signed_in(tmp_path: Path) -> None:
    async with browsing(tmp_path, impersonation=replace(RULES, username_claim="email")) as (browser, provider):
        status, _, shown = await browser.come_back(provider.visit(await browser.begin()))
        assert (status, browser.cookies) == (401, {})
        assert "the ID token has no name in its claim email" in shown


async def test_a_session_under_other_rules_is_over(tmp_path: Path) -> None:
    async with browsing(tmp_path / "a") as (browser, provider):
        await browser.sign_in()
        cookies = dict(browser.cookies)
        async with browsing(tmp_path / "b", impersonation=RULES, issuer=provider.url) as (other, _):
            other.cookies = cookies
            assert await other.me() == (401, "the session is not known: sign in again")


async def test_a_console_that_the_api_server_does_not_know_says_whose_fault_that_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise unauthorized()

    async with browsing(tmp_path, impersonation=RULES) as (browser, _):
        await browser.sign_in()
        monkeypatch.setattr(browser.portal.api.authentication, "identify", refuse)
        status, told = await browser.me()
        assert (status, told.startswith("the API server does not know the console")) == (401, True)
