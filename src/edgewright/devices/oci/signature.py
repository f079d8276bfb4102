"""Checks that a key has signed an image, by the signatures that cosign puts next to it in the registry.

`pull` calls it before anything of the image is unpacked. Whatever is missing, unreadable or wrong is a refusal; a
signature of another image, by another key, counts as none.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from typing import TYPE_CHECKING, Final

import msgspec

from edgewright.api.flash_pod import Outcome
from edgewright.devices.drivers.driver import Ended
from edgewright.devices.oci.limits import Limits
from edgewright.devices.oci.manifests import Descriptor, read_document
from edgewright.devices.oci.repository import Missing, Repository

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

SIGNATURE: Final = "dev.cosignproject.cosign/signature"
PAYLOAD_TYPE: Final = "application/vnd.dev.cosign.simplesigning.v1+json"
_KIND: Final = "cosign container image signature"
_MAX_COUNT: Final = 50


class _Image(msgspec.Struct):
    digest: str = msgspec.field(name="docker-manifest-digest")


class _Critical(msgspec.Struct):
    image: _Image
    type: str


class _Payload(msgspec.Struct):
    critical: _Critical


async def check_signature(repository: Repository, digest: str, public_key: bytes, limits: Limits) -> None:
    """Ended(REFUSED) unless the key (PEM) has signed the image with this digest."""
    key = _load(public_key)
    tag = f"{digest.replace(':', '-')}.sig"
    try:
        content, _ = await repository.manifest(tag)
    except Missing:
        raise Ended(Outcome.REFUSED, f"the image {digest} is not signed: the registry has no {tag}") from None
    layers = read_document(content, f"the signature {tag}").layers or ()
    for layer in [each for each in layers if each.media_type == PAYLOAD_TYPE][:_MAX_COUNT]:
        if await _signs(repository, layer, key, digest, limits):
            return
    raise Ended(Outcome.REFUSED, f"no signature of the image {digest} was made with the key that is asked for")


async def _signs(repository: Repository, layer: Descriptor, key: PublicKeyTypes, digest: str, limits: Limits) -> bool:
    try:
        signature = b64decode(layer.annotation(SIGNATURE), validate=True)
    except (binascii.Error, ValueError):
        return False
    payload = await repository.blob(layer, limits.manifest)
    return signature != b"" and _verifies(key, signature, payload) and _signed_digest(payload) == digest


def _signed_digest(payload: bytes) -> str:
    """The digest of the image that a payload is about; empty where it is about something else."""
    try:
        critical = msgspec.json.decode(payload, type=_Payload).critical
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ""
    return critical.image.digest if critical.type == _KIND else ""


def _load(public_key: bytes) -> PublicKeyTypes:
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415  # slow to import, and seldom needed
    from cryptography.hazmat.primitives.serialization import load_pem_public_key  # noqa: PLC0415

    try:
        return load_pem_public_key(public_key)
    except (ValueError, UnsupportedAlgorithm):
        raise Ended(Outcome.REFUSED, "the key for signatures is no public key in PEM, as cosign.pub is") from None


def _verifies(key: PublicKeyTypes, signature: bytes, payload: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa  # noqa: PLC0415
    from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415

    try:
        match key:
            case ec.EllipticCurvePublicKey():
                key.verify(signature, payload, ec.ECDSA(SHA256()))
            case rsa.RSAPublicKey():
                key.verify(signature, payload, padding.PKCS1v15(), SHA256())
            case ed25519.Ed25519PublicKey():
                key.verify(signature, payload)
            case _:
                raise Ended(Outcome.REFUSED, "the key for signatures is neither ECDSA nor Ed25519 nor RSA")
    except InvalidSignature:
        return False
    return True
