"""Tokens of ServiceAccounts: what they say, how long they are good, and what is none of ours."""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from edgewright.local.access.accounts import EXTENDED_SECONDS, ISSUER, Accounts
from edgewright.local.access.authentication import Authentication, Recognised
from edgewright.local.access.token_signing import Signer, new_key
from edgewright.runtime.clock import VirtualClock
from edgewright.runtime.tls import ConfigError

ACCOUNT: dict[str, Any] = {"metadata": {"name": "robot", "namespace": "plant", "uid": "u-1"}}
POD: dict[str, Any] = {"metadata": {"name": "pod", "namespace": "plant", "uid": "p-1"}}
NODE: dict[str, Any] = {"metadata": {"name": "edge", "uid": "n-1"}}


class World:
    """What is stored, which a test may change."""

    def __init__(self, directory: Path) -> None:
        self.clock = VirtualClock()
        self.stored = {("serviceaccounts", "plant", "robot"): ACCOUNT, ("pods", "plant", "pod"): POD}
        self.file = directory / "key.pem"
        self.accounts = Accounts(self.file, lambda *where: self.stored.get(where), clock=self.clock)

    def issue(self, *, seconds: int = 3600, audiences: tuple[str, ...] = (ISSUER,), **bound: dict[str, Any]) -> str:
        now = self.clock.now()
        return self.accounts.issue(ACCOUNT, audiences=audiences, seconds=seconds, bound=bound, now=now)

    def read(self, token: str, *audiences: str) -> Recognised:
        read = self.accounts.read(token, audiences)
        assert read is not None
        return read


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def claims_of(token: str) -> dict[str, Any]:
    claims: dict[str, Any] = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    return claims


def test_a_token_is_the_accounts(world: World) -> None:
    user = world.read(world.issue()).user
    assert user is not None
    assert (user.name, user.uid) == ("system:serviceaccount:plant:robot", "u-1")
    assert user.groups == ("system:serviceaccounts", "system:serviceaccounts:plant", "system:authenticated")
    assert [name.rpartition("/")[2] for name in user.extra] == ["credential-id"]


def test_a_token_for_a_pod_names_it_and_ends_with_it(world: World) -> None:
    token = world.issue(pod=POD, node=NODE)
    user = world.read(token).user
    assert user is not None
    assert user.extra["authentication.kubernetes.io/pod-name"] == ("pod",)
    assert user.extra["authentication.kubernetes.io/node-uid"] == ("n-1",)
    world.stored["pods", "plant", "pod"] = {"metadata": {**POD["metadata"], "uid": "another"}}
    assert world.read(token) == Recognised(fault="service account token has been invalidated")
    del world.stored["pods", "plant", "pod"]
    assert world.read(token).user is None


def test_a_token_ends_with_its_account(world: World) -> None:
    token = world.issue()
    world.stored["serviceaccounts", "plant", "robot"] = {"metadata": {**ACCOUNT["metadata"], "uid": "u-2"}}
    assert world.read(token).fault == "service account UID (u-2) does not match claim (u-1)"
    world.stored.clear()
    assert world.read(token).fault == 'serviceaccounts "robot" not found'


async def test_a_token_ends_with_its_time(world: World) -> None:
    token = world.issue(seconds=600)
    await world.clock.advance(650)
    assert world.read(token).user is not None  # clocks differ a little
    await world.clock.advance(20)
    assert world.read(token).fault == "service account token has expired"


def test_the_token_that_pods_get_lives_on_for_programs_that_read_it_once(world: World) -> None:
    claims = claims_of(world.issue(seconds=EXTENDED_SECONDS, pod=POD))
    assert claims["exp"] - claims["iat"] == timedelta(days=365).total_seconds()
    assert claims["kubernetes.io"]["warnafter"] - claims["iat"] == EXTENDED_SECONDS
    for other in (
        world.issue(seconds=EXTENDED_SECONDS),
        world.issue(seconds=EXTENDED_SECONDS, audiences=("x",), pod=POD),
    ):
        assert claims_of(other)["exp"] - claims_of(other)["iat"] == EXTENDED_SECONDS


def test_a_token_for_others_is_none_for_us(world: World) -> None:
    token = world.issue(audiences=("vault",))
    assert world.read(token).fault == f'token audiences ["vault"] is invalid for the target audiences ["{ISSUER}"]'
    assert world.read(token, "vault", "other").audiences == ("vault",)


@pytest.mark.parametrize("change", ["none", "signature", "claims", "algorithm", "another key", "dots", "letters"])
def test_what_we_have_not_signed_is_nobodys(world: World, change: str) -> None:
    head, said, signature = world.issue().split(".")
    none = base64.urlsafe_b64encode(b'{"alg":"none"}').decode().rstrip("=")
    claims = base64.urlsafe_b64encode(json.dumps({"iss": ISSUER, "sub": "x"}).encode()).decode().rstrip("=")
    tokens = {
        "none": f"{none}.{said}.",
        "signature": f"{head}.{said}.{signature[:-4]}AAAA",
        "claims": f"{head}.{claims}.{signature}",
        "algorithm": f"{none}.{said}.{signature}",
        "another key": Signer(new_key()).sign({"iss": ISSUER, "aud": [ISSUER]}),
        "dots": "a.b.c",
        "letters": "tökén.a.b",
    }
    assert world.accounts.read(tokens[change], ()) is None


def test_a_token_is_good_after_a_restart_and_its_key_is_our_own(world: World, tmp_path: Path) -> None:
    token = world.issue()
    assert world.file.stat().st_mode & 0o777 == 0o600
    again = World(tmp_path)
    assert again.read(token).user is not None
    world.file.write_text("no key")
    with pytest.raises(ConfigError, match="damaged"):
        World(tmp_path).issue()


def test_the_public_key_has_nothing_of_the_private_one(world: World) -> None:
    (key,) = world.accounts.keys()
    assert sorted(key) == ["alg", "crv", "kid", "kty", "use", "x", "y"]
    header = json.loads(base64.urlsafe_b64decode(world.issue().split(".")[0] + "=="))
    assert header == {"alg": "ES256", "kid": key["kid"]}


async def test_what_is_wrong_with_a_token_is_told_to_reviewers_alone(world: World) -> None:
    authentication = Authentication({})
    authentication.reader = world.accounts
    token = world.issue(seconds=600)
    assert authentication.recognise(token).user is not None
    await world.clock.advance(700)
    assert authentication.recognise(token).fault == "[invalid bearer token, service account token has expired]"
    assert authentication.recognise("x").fault == "invalid bearer token"
