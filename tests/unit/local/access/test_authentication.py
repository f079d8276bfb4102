"""Who is calling: certificates, tokens, and what is refused."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from multidict import CIMultiDict

from edgewright.local.access import ADMINISTRATOR, Authentication, User
from edgewright.local.access.authentication import user_of_certificate
from edgewright.local.errors import Refusal

OTHER = User(name="other")
KNOWN = Authentication({"s3cret": ADMINISTRATOR, "tok": OTHER})
PEER = User(name="jane")


def headers(**named: str) -> CIMultiDict[str]:
    return CIMultiDict({name.replace("_", "-"): value for name, value in named.items()})


def subject(*attributes: tuple[str, str]) -> dict[str, Any]:
    """A subject as the ssl module gives it."""
    return {"subject": tuple((attribute,) for attribute in attributes)}


@pytest.mark.parametrize(
    ("header", "user"),
    [
        ("Bearer s3cret", ADMINISTRATOR),
        ("bearer s3cret", ADMINISTRATOR),
        ("BEARER  s3cret ", ADMINISTRATOR),
        ("Bearer tok", OTHER),
        ("Bearer s3cret more", ADMINISTRATOR),
    ],
)
def test_a_token_stands_for_its_user(header: str, user: User) -> None:
    assert KNOWN.identify(headers(authorization=header), None) is user


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Bearer s3cre", "Bearer s3crett", "Basic s3cret", "s3cret", "Bearer \udcff", "B"],
)
def test_what_is_no_token_of_ours_is_unauthorized(header: str) -> None:
    with pytest.raises(Refusal) as refused:
        KNOWN.identify(headers(authorization=header), None)
    assert (refused.value.code, refused.value.reason, refused.value.message) == (401, "Unauthorized", "Unauthorized")


def test_without_credentials_one_is_unauthorized() -> None:
    with pytest.raises(Refusal, match="Unauthorized"):
        KNOWN.identify(headers(), None)


def test_a_certificate_counts_before_a_token() -> None:
    assert KNOWN.identify(headers(authorization="Bearer s3cret"), PEER) is PEER
    assert KNOWN.identify(headers(authorization="Bearer wrong"), PEER) is PEER


def test_whoever_is_known_may_act_as_somebody_else() -> None:
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
    assert KNOWN.identify(named, PEER) == User(
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
    assert KNOWN.identify(headers(impersonate_user=name), PEER).groups == groups


def test_nobody_unknown_acts_as_somebody_else() -> None:
    with pytest.raises(Refusal, match="Unauthorized"):
        KNOWN.identify(headers(impersonate_user="jane"), None)


@pytest.mark.parametrize("name", ["impersonate_group", "Impersonate_Uid", "Impersonate_Extra_scopes"])
def test_groups_without_a_user_are_a_bad_request_and_not_ignored(name: str) -> None:
    with pytest.raises(Refusal, match="must name a user") as refused:
        KNOWN.identify(headers(**{name: "jane"}), PEER)
    assert (refused.value.code, refused.value.reason) == (400, "BadRequest")


def test_a_certificate_names_a_user_and_groups() -> None:
    user = user_of_certificate(
        subject(("organizationName", "a"), ("organizationName", "b"), ("countryName", "DE"), ("commonName", "jane")),
        b"der",
    )
    assert user == User(
        name="jane",
        groups=("a", "b", "system:authenticated"),
        extra={
            "authentication.kubernetes.io/credential-id": (f"X509SHA256={hashlib.sha256(b'der').hexdigest()}",),
        },
    )


@pytest.mark.parametrize(
    "certificate", [{}, subject(), subject(("organizationName", "a")), subject(("commonName", ""))]
)
def test_a_certificate_without_a_name_is_nobodys(certificate: dict[str, Any]) -> None:
    assert user_of_certificate(certificate, b"der") is None
