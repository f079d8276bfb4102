"""Who is calling: certificates, tokens, and what is refused."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from multidict import CIMultiDict

from edgewright.local.access import ADMINISTRATOR, ANONYMOUS, Authentication, User
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
    ["Bearer s3cre", "Bearer s3crett", "Bearer \udcff", "bearer a.b.c"],
)
def test_what_is_no_token_of_ours_is_unauthorized(header: str) -> None:
    with pytest.raises(Refusal) as refused:
        KNOWN.identify(headers(authorization=header), None)
    assert (refused.value.code, refused.value.reason, refused.value.message) == (401, "Unauthorized", "Unauthorized")


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic s3cret", "s3cret", "B"])
def test_without_a_token_one_is_anonymous(header: str) -> None:
    assert KNOWN.identify(headers(authorization=header), None) is ANONYMOUS
    assert KNOWN.identify(headers(), None) is ANONYMOUS


def test_a_certificate_counts_before_a_token() -> None:
    assert KNOWN.identify(headers(authorization="Bearer s3cret"), PEER) is PEER
    assert KNOWN.identify(headers(authorization="Bearer wrong"), PEER) is PEER


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
