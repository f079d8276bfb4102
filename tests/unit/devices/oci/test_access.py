"""Credentials of a pull secret: which are read, which fit an image, and that they are never shown."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import Any

import pytest

from edgewright.api.reference import parse_reference
from edgewright.devices.oci import Access, BadCredentials, Credentials, Login, read_dockerconfig
from edgewright.devices.oci.access import same_domain

REFERENCE = parse_reference("registry.example:5000/team/app/fw:1")


def auth(text: str) -> dict[str, str]:
    return {"auth": b64encode(text.encode()).decode()}


def config(**entries: Any) -> bytes:
    return json.dumps({"auths": entries}).encode()


@pytest.mark.parametrize(
    "entry",
    [
        auth("ann:s3:cret"),
        {"username": "ann", "password": "s3:cret"},
        {**auth("other:x"), "username": "ann", "password": "s3:cret"},
    ],
    ids=["auth", "names", "both"],
)
def test_a_login_is_read_in_every_form_that_is_written(entry: dict[str, str]) -> None:
    found = read_dockerconfig(config(**{"registry.example:5000": entry})).find(REFERENCE)
    assert found == Login("ann", "s3:cret")
    assert found.header == "Basic " + b64encode(b"ann:s3:cret").decode()


@pytest.mark.parametrize(
    ("place", "fits"),
    [
        ("registry.example:5000", True),
        ("REGISTRY.example:5000", True),
        ("https://registry.example:5000", True),
        ("https://registry.example:5000/v1/", True),
        ("registry.example:5000/team", True),
        ("registry.example:5000/team/app/fw", True),
        ("*.example:5000", True),
        ("reg*.example:5000", True),
        ("registry.example", False),
        ("registry.example:5001", False),
        ("other.example:5000", False),
        ("*.registry.example:5000", False),
        ("*:5000", False),
        ("registry.example:5000/tea", False),
        ("registry.example:5000/team/app/fw/more", False),
    ],
)
def test_a_login_is_for_its_host_and_path_only(place: str, fits: bool) -> None:
    assert (Credentials(((place, Login("a", "b")),)).find(REFERENCE) is not None) is fits


def test_the_login_with_the_longest_path_is_taken() -> None:
    logins = ("registry.example:5000/team", "registry.example:5000/team/app", "registry.example:5000")
    credentials = Credentials(tuple((place, Login(place, "x")) for place in logins))
    found = credentials.find(REFERENCE)
    assert found is not None
    assert found.user == "registry.example:5000/team/app"


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no .dockerconfigjson"),
        (b"{}", "auths"),
        (b'{"auths": []}', "no .dockerconfigjson"),
        (b"\xff\xfe", "no .dockerconfigjson"),
        (config(**{"r.example": {"auth": "%%%"}}), "'r.example' is not base64"),
        (config(**{"r.example": {"auth": "/////w=="}}), "'r.example' is not base64"),
        (config(**{"r.example": auth("no colon")}), "not user:password"),
    ],
    ids=["empty", "no auths", "a list", "bytes", "no base64", "no text", "no colon"],
)
def test_a_secret_that_cannot_be_read_says_where(content: bytes, says: str) -> None:
    with pytest.raises(BadCredentials, match=says):
        read_dockerconfig(content)


def test_an_entry_without_a_login_is_none() -> None:
    assert read_dockerconfig(config(**{"registry.example:5000": {}})).find(REFERENCE) is None


def test_a_password_is_never_shown() -> None:
    assert "hunter2" not in repr(Access(credentials=Credentials((("r.example", Login("ann", "hunter2")),))))


def test_without_credentials_nobody_is_anybody() -> None:
    assert Access().login(REFERENCE) is None


def test_hosts_are_plain_by_name_and_port() -> None:
    access = Access(plain_hosts=frozenset({"Registry.example:5000"}))
    assert access.is_plain("registry.example:5000")
    assert not access.is_plain("registry.example")


@pytest.mark.parametrize(
    ("registry", "realm", "same"),
    [
        ("registry.example.com", "registry.example.com", True),
        ("registry.example.com", "Registry.Example.com.", True),
        ("registry.example.com", "auth.example.com", True),
        ("registry.example.com", "auth.eu.example.com", True),
        ("registry.example.com", "example.com", True),
        ("example.io", "auth.example.io", True),
        ("registry.team.co.uk", "auth.team.co.uk", True),
        ("registry", "registry", True),
        ("192.0.2.1", "192.0.2.1", True),
        ("registry.example.com", "auth.example.org", False),
        ("registry.example.com", "notexample.com", False),
        ("registry.example.com", "registry.example.com.evil.org", False),
        ("example.com", "evil.com", False),
        ("example.com", "com", False),
        ("team.co.uk", "evil.co.uk", False),
        ("team.co.uk", "auth.team.co.uk", True),
        ("co.uk", "evil.co.uk", False),
        ("registry", "auth.registry", False),
        ("192.0.2.1", "192.0.2.2", False),
        ("192.0.2.1", "x.192.0.2.1", False),
        ("2001:db8::1", "2001:db8::2", False),
    ],
)
def test_a_token_service_is_the_registrys_own_by_its_domain(registry: str, realm: str, same: bool) -> None:
    assert same_domain(registry, realm) is same
