"""Acting as somebody else: whom headers name, and who may be them."""

from __future__ import annotations

from pathlib import Path

import pytest
from multidict import CIMultiDict

from edgewright.local.access import ADMINISTRATOR, User
from edgewright.local.access.impersonation import acting, impersonated
from edgewright.local.errors import Refusal
from tests.unit.local.access.rights import BOB, policy, rule, subject


def headers(**named: str) -> CIMultiDict[str]:
    return CIMultiDict({name.replace("_", "-"): value for name, value in named.items()})


def test_headers_name_somebody_else() -> None:
    named = CIMultiDict(
        [
            ("Impersonate-User", "jane"),
            ("Impersonate-Group", "dev"),
            ("Impersonate-Group", "ops"),
            ("Impersonate-Uid", "u-1"),
            ("Impersonate-Extra-Acme.dev%2Fwhy", "a b"),
            ("Impersonate-Extra-Acme.dev%2Fwhy", "c"),
        ]
    )
    assert impersonated(named) == User(
        name="jane",
        groups=("dev", "ops", "system:authenticated"),
        uid="u-1",
        extra={"acme.dev/why": ("a b", "c")},
    )


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("jane", ("system:authenticated",)),
        ("system:anonymous", ("system:unauthenticated",)),
        (
            "system:serviceaccount:default:robot",
            ("system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"),
        ),
    ],
)
def test_somebody_else_has_the_groups_that_the_name_brings(name: str, groups: tuple[str, ...]) -> None:
    assert impersonated(headers(impersonate_user=name)).groups == groups


@pytest.mark.parametrize("name", ["impersonate_group", "Impersonate_Uid", "Impersonate_Extra_scopes"])
def test_groups_without_a_user_are_a_bad_request_and_not_ignored(name: str) -> None:
    with pytest.raises(Refusal, match="must name a user") as refused:
        impersonated(headers(**{name: "jane"}))
    assert (refused.value.code, refused.value.reason) == (400, "BadRequest")


async def test_who_names_nobody_acts_as_itself_and_a_master_as_anybody(tmp_path: Path) -> None:
    async with policy(tmp_path) as made:
        assert acting(headers(accept="*/*"), BOB, made.rights) is BOB
        other = acting(headers(impersonate_user="jane", impersonate_group="system:masters"), ADMINISTRATOR, made.rights)
        assert other == User(name="jane", groups=("system:masters", "system:authenticated"))


async def test_every_part_of_another_identity_takes_a_right_of_its_own(tmp_path: Path) -> None:
    async with policy(tmp_path) as made:
        await made.role("jane", rule("impersonate", "users", resourceNames=["jane"]))
        await made.bind("jane", "jane", subject("User", "bob"))
        assert acting(headers(impersonate_user="jane"), BOB, made.rights).name == "jane"
        for named, resource, group in (
            ({"impersonate_user": "eve"}, "users", ""),
            ({"impersonate_user": "jane", "impersonate_group": "system:masters"}, "groups", ""),
            ({"impersonate_user": "jane", "impersonate_uid": "1"}, "uids", "authentication.k8s.io"),
            ({"impersonate_user": "jane", "impersonate_extra_why": "x"}, "userextras/why", "authentication.k8s.io"),
        ):
            with pytest.raises(Refusal) as refused:
                acting(headers(**named), BOB, made.rights)
            cannot = f'User "bob" cannot impersonate resource "{resource}" in API group "{group}" at the cluster scope'
            assert refused.value.message.endswith(cannot)


async def test_an_account_is_one_of_its_namespace(tmp_path: Path) -> None:
    async with policy(tmp_path) as made:
        await made.role("robots", rule("impersonate", "serviceaccounts"))
        await made.bind("robots", "robots", subject("User", "bob"), namespace="plant")
        assert acting(headers(impersonate_user="system:serviceaccount:plant:robot"), BOB, made.rights).groups == (
            "system:serviceaccounts",
            "system:serviceaccounts:plant",
            "system:authenticated",
        )
        with pytest.raises(Refusal, match='cannot impersonate resource "serviceaccounts"'):
            acting(headers(impersonate_user="system:serviceaccount:office:robot"), BOB, made.rights)
