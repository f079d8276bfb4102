"""The key and the certificate of the device: made and read here, kept by `state`, signed by the gateway.

Pure but for the random numbers in a key. A certificate is used only with the key that it was signed for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

RENEWAL: Final = 2 / 3
"""The part of a certificate's life after which it is renewed."""
RENEWAL_SPREAD: Final = 0.1
"""The part of its life over which a fleet that was enrolled at once spreads its renewals."""


class BadIdentity(Exception):
    """A certificate or key that cannot be used, in a sentence."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """A certificate that the gateway has signed for the device, and its key."""

    certificate: bytes
    key: bytes = field(repr=False)
    not_before: datetime
    not_after: datetime

    def renew_at(self, spread: float = 0.0) -> datetime:
        """When to ask for a new one; `spread`, from 0 to 1, is where in the fleet's renewals this device is."""
        life: timedelta = self.not_after - self.not_before
        return self.not_before + life * (RENEWAL + RENEWAL_SPREAD * spread)


def new_key() -> bytes:
    """A P-256 key in PEM, in the form that published agents read too."""
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def certificate_request(key: bytes, device: str) -> str:
    """A certificate request in PEM for the device of that id, signed with the key."""
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, device[:64])])
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(_key(key), hashes.SHA256())
    return request.public_bytes(serialization.Encoding.PEM).decode()


def identity(certificate: bytes, key: bytes) -> Identity:
    """The identity that certificate and key make together; BadIdentity where they do not fit."""
    try:
        found = x509.load_pem_x509_certificate(certificate)
    except ValueError as error:
        raise BadIdentity(f"holds no PEM certificate: {error}") from error
    if found.public_key() != _key(key).public_key():
        raise BadIdentity("the certificate is for another key")
    return Identity(
        certificate=certificate, key=key, not_before=found.not_valid_before_utc, not_after=found.not_valid_after_utc
    )


def split(pem: bytes) -> tuple[bytes, bytes]:
    """Certificates and key of one PEM text."""
    at = pem.find(b"-----BEGIN EC PRIVATE KEY-----")
    if at < 0:
        raise BadIdentity("holds no key")
    return pem[:at], pem[at:]


def _key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError) as error:
        raise BadIdentity(f"holds no PEM key: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BadIdentity("the key is not an elliptic curve key")
    return key
