"""Whether an ID token of OpenID Connect is what it claims to be: signature, issuer, audience, time and nonce.

`oidc` asks before a token becomes a session. Pure: keys and a token go in, claims or an error come out; nothing is
dialled. The algorithms are those that kube-apiserver knows, all of them asymmetric: `none` and HMAC are never taken.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from edgewright.runtime.errors import UNFIT

MAX_TOKEN: Final = 16 << 10
"""The longest token that is looked at."""
_SKEW: Final = 60.0
"""By so much may the provider's clock be ahead of ours."""
_MAX_KEYS: Final = 100
_MIN_RSA_BITS: Final = 2048
_HASHES: Final[Mapping[str, hashes.HashAlgorithm]] = {
    "256": hashes.SHA256(),
    "384": hashes.SHA384(),
    "512": hashes.SHA512(),
}
_CURVES: Final[Mapping[str, tuple[str, ec.EllipticCurve]]] = {
    "ES256": ("P-256", ec.SECP256R1()),
    "ES384": ("P-384", ec.SECP384R1()),
    "ES512": ("P-521", ec.SECP521R1()),
}
ALGORITHMS: Final = frozenset({*_CURVES, *(f"{kind}{bits}" for kind in ("RS", "PS") for bits in _HASHES)})
"""How a token may be signed."""


class TokenError(Exception):
    """The token is not to be believed; the message says why and has nothing of the token in it."""


class UnknownKey(TokenError):
    """The token names a key that is not among those that are known: the provider may have made a new one."""


class Jwk(msgspec.Struct, frozen=True):
    """A public key as a provider publishes it (RFC 7517); what is not needed is not read."""

    kty: str = ""
    kid: str = ""
    use: str = ""
    alg: str = ""
    crv: str = ""
    n: str = ""
    e: str = ""
    x: str = ""
    y: str = ""


class KeySet(msgspec.Struct, frozen=True):
    """All keys of a provider."""

    keys: tuple[Jwk, ...]


@dataclass(frozen=True, kw_only=True)
class Claims:
    """What is used of a token that is believed."""

    subject: str
    expires: float
    """When it ends, in seconds since 1970."""
    said: Mapping[str, Any] = field(default_factory=dict)
    """All of them."""


@dataclass(frozen=True, kw_only=True)
class Expected:
    """What a token must say."""

    issuer: str
    audience: str
    nonce: str
    subject: str = ""
    """Who it must be about, where that is known: a refreshed token is about the same person."""
    nonce_required: bool = True
    """A refreshed token may be without."""


class _Header(msgspec.Struct, frozen=True):
    alg: str = ""
    kid: str = ""
    crit: Any = None


def verified(token: str, keys: Sequence[Jwk], expected: Expected, *, now: float) -> Claims:
    """The claims of a token that one of the keys has signed and that says what is expected; else a TokenError."""
    signed, header, signature = _parts(token)
    if header.alg not in ALGORITHMS:
        raise TokenError("the ID token is signed in a way that is not taken")
    if header.crit is not None:
        raise TokenError("the ID token has a header that must be understood and is not known")
    fitting = [key for key in keys[:_MAX_KEYS] if _fits(key, header)]
    if not fitting:
        raise UnknownKey("no key of the provider fits the ID token")
    if not any(_signed_by(key, header.alg, signed, signature) for key in fitting):
        raise TokenError("the signature of the ID token is wrong")
    return _checked(_object(signed.partition(b".")[2], "claims"), expected, now=now)


def _parts(token: str) -> tuple[bytes, _Header, bytes]:
    if len(token) > MAX_TOKEN:
        raise TokenError(f"the ID token has more than {MAX_TOKEN} characters: fewer groups or claims make it smaller")
    parts = token.split(".")
    if len(parts) != 3 or not token.isascii():
        raise TokenError("the ID token is not a signed JWT")
    try:
        header = msgspec.json.decode(_decoded(parts[0]), type=_Header)
    except UNFIT:
        raise TokenError("the header of the ID token cannot be read") from None
    return f"{parts[0]}.{parts[1]}".encode(), header, _decoded(parts[2])


def _decoded(text: str) -> bytes:
    """Base64 as JWTs have it: of the URL's alphabet, without padding."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise TokenError("the ID token is not a signed JWT") from None


def _object(part: bytes, what: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(_decoded(part.decode()), type=dict[str, Any])
    except UNFIT:
        raise TokenError(f"the {what} of the ID token cannot be read") from None


def _fits(key: Jwk, header: _Header) -> bool:
    """Whether a key is of the sort that the token's header names; the algorithm is never the key's choice alone."""
    if (header.kid and key.kid and key.kid != header.kid) or key.use not in {"", "sig"}:
        return False
    if key.alg not in {"", header.alg}:
        return False
    if header.alg in _CURVES:
        return key.kty == "EC" and key.crv == _CURVES[header.alg][0]
    return key.kty == "RSA"


def _signed_by(key: Jwk, algorithm: str, signed: bytes, signature: bytes) -> bool:
    digest = _HASHES[algorithm[2:]]
    try:
        if algorithm in _CURVES:
            _check_curve(key, algorithm, signed, signature)
        else:
            public = rsa.RSAPublicNumbers(_number(key.e), _number(key.n)).public_key()
            if public.key_size < _MIN_RSA_BITS:
                return False
            padded = (
                padding.PSS(padding.MGF1(digest), digest.digest_size)
                if algorithm.startswith("PS")
                else padding.PKCS1v15()
            )
            public.verify(signature, signed, padded, digest)
    except (InvalidSignature, UnsupportedAlgorithm, ValueError, TokenError):
        return False
    return True


def _check_curve(key: Jwk, algorithm: str, signed: bytes, signature: bytes) -> None:
    curve = _CURVES[algorithm][1]
    size = (curve.key_size + 7) // 8
    if len(signature) != 2 * size:
        raise InvalidSignature
    public = ec.EllipticCurvePublicNumbers(_number(key.x), _number(key.y), curve).public_key()
    halves = (int.from_bytes(half, "big") for half in (signature[:size], signature[size:]))
    public.verify(encode_dss_signature(*halves), signed, ec.ECDSA(_HASHES[algorithm[2:]]))


def _number(text: str) -> int:
    return int.from_bytes(_decoded(text), "big")


def _checked(claims: Mapping[str, Any], expected: Expected, *, now: float) -> Claims:
    """The claims, where all that must be said is said."""
    if claims.get("iss") != expected.issuer:
        raise TokenError("the ID token is of another issuer")
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    if expected.audience not in audiences:
        raise TokenError("the ID token is for another client")
    if claims.get("azp", expected.audience) != expected.audience:
        raise TokenError("the ID token was given to another client")
    expires = claims.get("exp")
    if not _is_time(expires) or expires <= now:
        raise TokenError("the ID token is over")
    begins = claims.get("nbf", now)
    issued = claims.get("iat")
    if not _is_time(begins) or not _is_time(issued) or max(begins, issued) > now + _SKEW:
        raise TokenError("the ID token is not valid yet: compare the clocks")
    _check_nonce(claims.get("nonce"), expected)
    subject = claims.get("sub")
    if not isinstance(subject, str) or not subject or (expected.subject and subject != expected.subject):
        raise TokenError("the ID token is about somebody else")
    return Claims(subject=subject, expires=float(expires), said=claims)


def _check_nonce(nonce: object, expected: Expected) -> None:
    if nonce is None and not expected.nonce_required:
        return
    if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(errors="replace"), expected.nonce.encode()):
        raise TokenError("the ID token belongs to another sign-in")


def _is_time(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e12
