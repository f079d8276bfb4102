from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import msgspec
import pytest

from edgewright.console.id_token import ALGORITHMS, MAX_TOKEN, Expected, Jwk, TokenError, UnknownKey, verified
from tests.unit.console.providers import Key, encoded

ISSUER = "https://login.example.com"
NOW = 1_800_000_000.0
EXPECTED = Expected(issuer=ISSUER, audience="console", nonce="n1")
GOOD: dict[str, Any] = {
    "iss": ISSUER,
    "aud": "console",
    "sub": "jane",
    "nonce": "n1",
    "iat": NOW - 5,
    "exp": NOW + 300,
}
KEY = Key("RS256")


def keys(*known: Key) -> list[Jwk]:
    """What a provider with these keys publishes."""
    return [msgspec.convert(each.jwk, Jwk) for each in known]


def without(name: str) -> dict[str, Any]:
    """The good claims but for one."""
    return {key: value for key, value in GOOD.items() if key != name}


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_a_good_token_is_believed_whichever_way_it_is_signed(algorithm: str) -> None:
    key = Key(algorithm)
    claims = verified(key.sign(GOOD), keys(Key("ES256", kid="other"), key), EXPECTED, now=NOW)
    assert (claims.subject, claims.expires) == ("jane", NOW + 300)


@pytest.mark.parametrize(
    "claims",
    [
        {**GOOD, "aud": ["other", "console"]},
        {**GOOD, "aud": ["other", "console"], "azp": "console"},
        {**GOOD, "nbf": NOW + 50},
        {**GOOD, "groups": ["a"]},
    ],
)
def test_what_may_be_different_makes_no_difference(claims: dict[str, Any]) -> None:
    assert verified(KEY.sign(claims), keys(KEY), EXPECTED, now=NOW).subject == "jane"


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({**GOOD, "iss": "https://evil.example"}, "another issuer"),
        ({**GOOD, "iss": ISSUER + "/"}, "another issuer"),
        (without("iss"), "another issuer"),
        ({**GOOD, "aud": "other"}, "another client"),
        ({**GOOD, "aud": ["other"]}, "another client"),
        ({**GOOD, "aud": {"console": 1}}, "another client"),
        (without("aud"), "another client"),
        ({**GOOD, "azp": "other"}, "given to another client"),
        ({**GOOD, "exp": NOW}, "is over"),
        ({**GOOD, "exp": NOW - 1}, "is over"),
        ({**GOOD, "exp": str(NOW + 300)}, "is over"),
        ({**GOOD, "exp": True}, "is over"),
        ({**GOOD, "exp": 1e300}, "is over"),
        (without("exp"), "is over"),
        ({**GOOD, "nbf": NOW + 61}, "not valid yet"),
        ({**GOOD, "iat": NOW + 61}, "not valid yet"),
        (without("iat"), "not valid yet"),
        ({**GOOD, "nonce": "n2"}, "another sign-in"),
        ({**GOOD, "nonce": 1}, "another sign-in"),
        (without("nonce"), "another sign-in"),
        ({**GOOD, "sub": ""}, "somebody else"),
        ({**GOOD, "sub": 7}, "somebody else"),
        (without("sub"), "somebody else"),
    ],
)
def test_a_token_that_says_something_else_is_not_believed(claims: dict[str, Any], why: str) -> None:
    with pytest.raises(TokenError, match=why):
        verified(KEY.sign(claims), keys(KEY), EXPECTED, now=NOW)


def test_a_refreshed_token_may_be_without_a_nonce_and_is_about_the_same_person() -> None:
    again = Expected(issuer=ISSUER, audience="console", nonce="n1", subject="jane", nonce_required=False)
    assert verified(KEY.sign(without("nonce")), keys(KEY), again, now=NOW).subject == "jane"
    assert verified(KEY.sign(GOOD), keys(KEY), again, now=NOW).subject == "jane"
    with pytest.raises(TokenError, match="another sign-in"):
        verified(KEY.sign({**GOOD, "nonce": "n2"}), keys(KEY), again, now=NOW)
    with pytest.raises(TokenError, match="somebody else"):
        verified(KEY.sign({**GOOD, "sub": "joe"}), keys(KEY), again, now=NOW)


def unsigned(header: dict[str, Any], signature: str = "") -> str:
    """A token that nobody signed."""
    return f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(GOOD).encode())}.{signature}"


def test_no_symmetric_algorithm_and_no_missing_signature_is_taken() -> None:
    for name in ("none", "None", "NONE", "", "HS256", "HS512", "EdDSA", "RS1"):
        with pytest.raises(TokenError, match="a way that is not taken"):
            verified(unsigned({"alg": name, "kid": "one"}, "AAAA"), keys(KEY), EXPECTED, now=NOW)
    # The known attack: the public key, which everybody has, as the secret of an HMAC.
    token = unsigned({"alg": "HS256", "kid": "one"})
    mac = hmac.new(json.dumps(KEY.jwk).encode(), token.rpartition(".")[0].encode(), hashlib.sha256).digest()
    with pytest.raises(TokenError, match="a way that is not taken"):
        verified(token + encoded(mac), keys(KEY), EXPECTED, now=NOW)


def test_a_foreign_key_and_a_changed_token_are_found() -> None:
    own, foreign = Key("ES256"), Key("ES256")
    with pytest.raises(TokenError, match="signature of the ID token is wrong"):
        verified(foreign.sign(GOOD), keys(own), EXPECTED, now=NOW)
    head, body, signature = own.sign(GOOD).split(".")
    other = encoded(json.dumps({**GOOD, "sub": "root"}).encode())
    for token in (f"{head}.{other}.{signature}", f"{head}.{body}.", f"{head}.{body}.{signature[:-4]}"):
        with pytest.raises(TokenError, match="signature of the ID token is wrong"):
            verified(token, keys(own), EXPECTED, now=NOW)


def test_a_key_that_does_not_fit_the_header_is_not_tried() -> None:
    for header in ({"kid": "two"}, {"alg": "ES256"}, {"alg": "ES384"}):
        with pytest.raises(UnknownKey):
            verified(KEY.sign(GOOD, header), keys(KEY), EXPECTED, now=NOW)
    published = KEY.jwk
    for change in ({"use": "enc"}, {"alg": "PS256"}, {"kty": "oct"}):
        with pytest.raises(UnknownKey):
            verified(KEY.sign(GOOD), [msgspec.convert({**published, **change}, Jwk)], EXPECTED, now=NOW)
    with pytest.raises(UnknownKey):
        verified(KEY.sign(GOOD), [], EXPECTED, now=NOW)


@pytest.mark.parametrize("change", [{"n": "!"}, {"n": ""}, {"n": "AQAB"}, {"e": ""}, {"e": "AA"}])
def test_a_key_that_is_no_key_signs_nothing(change: dict[str, str]) -> None:
    with pytest.raises(TokenError, match="signature of the ID token is wrong"):
        verified(KEY.sign(GOOD), [msgspec.convert({**KEY.jwk, **change}, Jwk)], EXPECTED, now=NOW)


@pytest.mark.parametrize(
    ("token", "why"),
    [
        ("", "not a signed JWT"),
        ("a.b", "not a signed JWT"),
        ("a.b.c.d", "not a signed JWT"),
        ("é.b.c", "not a signed JWT"),
        ("!!!!.b.c", "not a signed JWT"),
        (f"{encoded(b'[]')}.e30.c2ln", "header of the ID token cannot be read"),
        (f"{encoded(b'{')}.e30.c2ln", "header of the ID token cannot be read"),
        ("a" * (MAX_TOKEN + 1), "more than"),
    ],
)
def test_what_is_no_token_is_refused_and_not_repeated(token: str, why: str) -> None:
    with pytest.raises(TokenError, match=why) as caught:
        verified(token, keys(KEY), EXPECTED, now=NOW)
    assert len(str(caught.value)) < 120


def test_claims_that_are_none_and_headers_that_must_be_understood_are_refused() -> None:
    with pytest.raises(TokenError, match="must be understood"):
        verified(KEY.sign(GOOD, {"crit": ["exp"]}), keys(KEY), EXPECTED, now=NOW)
    with pytest.raises(TokenError, match="claims of the ID token cannot be read"):
        verified(KEY.sign(["no claims"]), keys(KEY), EXPECTED, now=NOW)  # type: ignore[arg-type]
