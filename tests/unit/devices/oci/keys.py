"""Keys that sign images in tests, as cosign's do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat


@dataclass(frozen=True)
class SigningKey:
    """What signs, and the public key (PEM) by which that is checked."""

    sign: Callable[[bytes], bytes]
    public: bytes


def _pem(key: PublicKeyTypes) -> bytes:
    return key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def ecdsa_key() -> SigningKey:
    """What `cosign generate-key-pair` makes: ECDSA on P-256."""
    key = ec.generate_private_key(ec.SECP256R1())
    return SigningKey(lambda payload: key.sign(payload, ec.ECDSA(SHA256())), _pem(key.public_key()))


def ed25519_key() -> SigningKey:
    """A key of the kind that many hold elsewhere."""
    key = ed25519.Ed25519PrivateKey.generate()
    return SigningKey(key.sign, _pem(key.public_key()))


def rsa_key() -> SigningKey:
    """An old kind of key."""
    key = rsa.generate_private_key(65537, 2048)
    return SigningKey(lambda payload: key.sign(payload, padding.PKCS1v15(), SHA256()), _pem(key.public_key()))
