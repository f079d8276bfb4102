"""Standard Webhooks: secrets as a file has them, and the headers by which a receiver knows who sent a body.

`delivery` reads the file for every request, so that a secret is replaced without a restart: with the new one next to
the old one a body carries both signatures. An error here names a line and never what stands in it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Sequence
from pathlib import Path
from typing import Final

PREFIX: Final = "whsec_"
MAX_SECRETS: Final = 5
"""More than the old and the new one of a rotation are nearly always a mistake."""
_SHORTEST, _LONGEST = 24, 64
_MAX_FILE: Final = 16_384


class BadSecrets(ValueError):
    """The file holds no secrets; the message says what is wrong and shows nothing of it."""


def read_secrets(file: Path) -> tuple[bytes, ...]:
    """The keys in a file, one secret per line; BadSecrets or OSError where there are none."""
    with file.open("rb") as opened:
        text = opened.read(_MAX_FILE + 1)
    if len(text) > _MAX_FILE:
        raise BadSecrets(f"{file} is larger than {_MAX_FILE} bytes: it holds one secret per line")
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    keys = tuple(_key(line, where=f"{file}: line {number}") for number, line in lines if line)
    if not 1 <= len(keys) <= MAX_SECRETS:
        raise BadSecrets(f"{file} holds {len(keys)} secrets: it needs 1 to {MAX_SECRETS}, one per line")
    return keys


def _key(line: bytes, *, where: str) -> bytes:
    wanted = f"{where} is no secret: {PREFIX} and then base64 of {_SHORTEST} to {_LONGEST} random bytes"
    if not line.startswith(PREFIX.encode()):
        raise BadSecrets(wanted)
    try:
        key = base64.b64decode(line.removeprefix(PREFIX.encode()), validate=True)
    except binascii.Error:
        raise BadSecrets(wanted) from None
    if not _SHORTEST <= len(key) <= _LONGEST:
        raise BadSecrets(wanted)
    return key


def signed_headers(keys: Sequence[bytes], id: str, seconds: int, body: bytes) -> dict[str, str]:  # noqa: A002
    """The three headers of a request, with one signature per key."""
    signed = b".".join((id.encode(), str(seconds).encode(), body))
    codes = (base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode() for key in keys)
    return {
        "webhook-id": id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": " ".join(f"v1,{code}" for code in codes),
    }
