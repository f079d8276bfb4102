"""The certificate by which the brokers of a mini-cluster know each other: a CURVE key pair in ZeroMQ's file format.

`model` checks what people give, `certificate_secret` generates one where they give none. Pure but for the random key;
nothing here logs, and no text of an error holds a part of a certificate.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

FILE_NAME: Final = "curve.cert"
"""What the file is called, in the Secret and in the Pod."""

_ALPHABET: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_KEY: Final = rf'"[{re.escape(_ALPHABET)}]{{40}}"'
_CERTIFICATE: Final = re.compile(
    rf"^curve\s*\n\s+public-key = {_KEY}\s*\n\s+secret-key = {_KEY}\s*$",
    re.MULTILINE,
)


def z85(data: bytes) -> str:
    """Bytes in ZeroMQ's base 85; their number must be a multiple of four."""
    if len(data) % 4:
        raise ValueError(f"z85 takes a multiple of four bytes, not {len(data)}")
    text = []
    for at in range(0, len(data), 4):
        value = int.from_bytes(data[at : at + 4], "big")
        text += [_ALPHABET[value // 85**power % 85] for power in (4, 3, 2, 1, 0)]
    return "".join(text)


def generated(name: str, now: datetime) -> str:
    """A new certificate with its secret key, as `flux keygen` writes it."""
    key = X25519PrivateKey.generate()
    public, secret = z85(key.public_key().public_bytes_raw()), z85(key.private_bytes_raw())
    return (
        f"#   ****  Generated on {now:%Y-%m-%d %H:%M:%S} by Edgewright  ****\n"
        "#   ZeroMQ CURVE **Secret** Certificate\n"
        "#   DO NOT PROVIDE THIS FILE TO OTHER USERS nor change its permissions.\n"
        "\n"
        "metadata\n"
        f'    name = "{name}"\n'
        "curve\n"
        f'    public-key = "{public}"\n'
        f'    secret-key = "{secret}"\n'
    )


def is_certificate(text: str) -> bool:
    """Whether a text is a certificate with both keys."""
    return _CERTIFICATE.search(text) is not None
