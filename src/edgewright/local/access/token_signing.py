"""Signs and checks the tokens of ServiceAccounts: JSON web tokens with ES256, and the public key that others check by.

`accounts` imports it when the first token is asked for or shown, so that whoever uses none pays for no `cryptography`.
It takes and gives text and never touches a file.
"""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

_ALGORITHM: Final = "ES256"
_HALF: Final = 32


def new_key() -> str:
    """A private key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


class Signer:
    """Signs with one key, and believes what it has signed."""

    def __init__(self, pem: str) -> None:
        """ValueError where this is no key of ours."""
        key = serialization.load_pem_private_key(pem.encode(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
            raise ValueError("tokens are signed with a key on the curve P-256")  # noqa: TRY004 - what the caller handles
        self._key = key
        self._public = key.public_key()
        encoded = self._public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.id = _encoded(hashlib.sha256(encoded).digest())
        """What tokens call the key."""

    def sign(self, claims: dict[str, Any]) -> str:
        """A token that says this."""
        head = {"alg": _ALGORITHM, "kid": self.id}
        text = ".".join(_encoded(json.dumps(part, separators=(",", ":")).encode()) for part in (head, claims))
        first, second = decode_dss_signature(self._key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{text}.{_encoded(first.to_bytes(_HALF, 'big') + second.to_bytes(_HALF, 'big'))}"

    def claims(self, token: str) -> dict[str, Any] | None:
        """What a token says that this key has signed; None for any other."""
        text, _, signature = token.rpartition(".")
        try:
            head, said, given = (_decoded(part) for part in (*text.split("."), signature))
            if json.loads(head).get("alg") != _ALGORITHM or len(given) != 2 * _HALF:
                return None
            pair = encode_dss_signature(int.from_bytes(given[:_HALF], "big"), int.from_bytes(given[_HALF:], "big"))
            self._public.verify(pair, text.encode(), ec.ECDSA(hashes.SHA256()))
            claims = json.loads(said)
        except (ValueError, AttributeError, InvalidSignature, RecursionError):
            return None
        return claims if isinstance(claims, dict) else None

    def public(self) -> dict[str, str]:
        """The public key as a JSON web key."""
        numbers = self._public.public_numbers()
        place = {name: _encoded(value.to_bytes(_HALF, "big")) for name, value in (("x", numbers.x), ("y", numbers.y))}
        return {"use": "sig", "kty": "EC", "kid": self.id, "crv": "P-256", "alg": _ALGORITHM, **place}


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
