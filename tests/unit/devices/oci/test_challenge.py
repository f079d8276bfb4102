"""What registries want to see before they answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.devices.oci.challenge import Challenge, parse_challenge, read_token


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (
            'Bearer realm="https://auth.example/token",service="r.example",scope="repository:a/b:pull,push"',
            Challenge(
                bearer=True, realm="https://auth.example/token", service="r.example", scope="repository:a/b:pull,push"
            ),
        ),
        (
            'bearer realm = "https://a.example" , service=plain',
            Challenge(bearer=True, realm="https://a.example", service="plain"),
        ),
        ('Basic realm="Registry \\"one\\""', Challenge(bearer=False, realm='Registry "one"')),
        ("Basic", Challenge(bearer=False)),
        ('Basic realm="x", Bearer realm="https://a.example"', Challenge(bearer=True, realm="https://a.example")),
        ('Bearer service="x"', None),
        ("Negotiate abc", None),
        ("", None),
    ],
    ids=["bearer", "spaces", "basic", "bare", "both", "no realm", "unknown", "nothing"],
)
def test_a_challenge_is_read(header: str, expected: Challenge | None) -> None:
    assert parse_challenge(header) == expected


@given(st.text(max_size=200))
def test_no_header_breaks_the_reading(header: str) -> None:
    for text in (header, f"Bearer {header}", f'Bearer realm="{header}"'):
        parse_challenge(text)


@pytest.mark.parametrize(
    ("challenge", "url"),
    [
        (
            Challenge(bearer=True, realm="https://a.example/token?x=1#y", service="s v", scope="repository:q:pull"),
            "https://a.example/token?x=1&service=s+v&scope=repository%3Aq%3Apull",
        ),
        (Challenge(bearer=True, realm="https://a.example"), "https://a.example?scope=repository%3Ateam%2Ffw%3Apull"),
    ],
    ids=["as told", "our own scope"],
)
def test_a_token_is_asked_for_where_and_for_what_the_registry_says(challenge: Challenge, url: str) -> None:
    assert challenge.token_url("team/fw") == url


@pytest.mark.parametrize(
    ("body", "token"),
    [
        (b'{"token": "a", "access_token": "b"}', "a"),
        (b'{"access_token": "b"}', "b"),
        (b"{}", ""),
        (b"no", ""),
        (b'{"token": 1}', ""),
    ],
)
def test_a_token_is_found_under_both_names(body: bytes, token: str) -> None:
    assert read_token(body) == token
