"""The certificate of a mini-cluster: its alphabet, its form, and that each is another."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from edgewright.controllers.minicluster import curve

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ALPHABET = curve._ALPHABET


def decoded(text: str) -> bytes:
    """The way back."""
    parts = [text[at : at + 5] for at in range(0, len(text), 5)]
    values = [sum(ALPHABET.index(letter) * 85 ** (4 - place) for place, letter in enumerate(part)) for part in parts]
    return b"".join(value.to_bytes(4, "big") for value in values)


def test_z85_writes_the_example_of_its_definition() -> None:
    assert curve.z85(bytes.fromhex("864FD26FB559F75B")) == "HelloWorld"


def test_z85_takes_whole_groups_only() -> None:
    with pytest.raises(ValueError, match="multiple of four bytes, not 3"):
        curve.z85(b"abc")


def test_a_certificate_has_a_secret_key_and_the_public_key_that_belongs_to_it() -> None:
    text = curve.generated("mine", NOW)
    public, secret = re.findall(r'key = "(.{40})"', text)
    key = X25519PrivateKey.from_private_bytes(decoded(secret))
    assert key.public_key().public_bytes_raw() == decoded(public)
    assert '    name = "mine"' in text.splitlines()
    assert curve.is_certificate(text)


def test_no_two_are_the_same() -> None:
    assert curve.generated("mine", NOW) != curve.generated("mine", NOW)


RECORDED = """\
#   ****  Generated on 2023-02-17 21:05:10 by CZMQ  ****
metadata
    name = "flux-sample-cert-generator"
curve
    public-key = "{public}"
    secret-key = "{secret}"
"""


@pytest.mark.parametrize(
    ("public", "secret", "good"),
    [
        ("a" * 40, ".!?=+J:j^&{}#[]<>()*%/@$" + "b" * 16, True),
        ("a" * 39, "b" * 40, False),
        ("a" * 40, "", False),
        ("a" * 40, "~" * 40, False),
    ],
)
def test_a_certificate_is_known_by_both_its_keys(public: str, secret: str, good: bool) -> None:
    assert curve.is_certificate(RECORDED.format(public=public, secret=secret)) is good
