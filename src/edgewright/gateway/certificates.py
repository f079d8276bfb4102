"""The certificates of the gateway and of devices: made and read here, with no I/O.

`authority` keeps them in Secrets, `registration` signs what devices ask for. A request is signed only when it proves
that whoever sent it has the key; nothing of its subject is taken over.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from edgewright.api.edge_protocol import REGISTER

ORGANIZATION: Final = "flotta-operator"
"""The organization in every certificate, as published."""
AUTHORITY_DAYS: Final = 3650
HOST_DAYS: Final = 365
_MIN_RSA: Final = 2048
# A clock on a device may be a little behind.
_BACKDATED: Final = timedelta(minutes=5)
_DAY: Final = 86_400.0
_SHORT: Final = 16


class BadRequest(Exception):
    """Why a certificate request cannot be signed, in a sentence for whoever set up the device."""


@dataclass(frozen=True)
class Issued:
    """A certificate with its key, both in PEM; the key in the form that the published gateway process reads."""

    certificate: bytes
    key: bytes


class Authority:
    """Whoever signs the certificates of one gateway."""

    def __init__(self, issued: Issued) -> None:
        self.issued = issued
        self.certificate = x509.load_pem_x509_certificate(issued.certificate)
        key = serialization.load_pem_private_key(issued.key, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
            raise TypeError("the key of the authority is neither an EC nor an RSA key")
        self._key = key

    @classmethod
    def create(cls, now: datetime, *, number: int = 1) -> Authority:
        """A new one; those after the first have a name with their number, so that nobody takes one for another."""
        key = ec.generate_private_key(ec.SECP256R1())
        parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION)]
        if number > 1:
            parts.append(x509.NameAttribute(NameOID.COMMON_NAME, f"{ORGANIZATION} authority {number}"))
        name = x509.Name(parts)
        certificate = (
            _builder(name, name, key.public_key(), now, days=AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(Issued(_pem(certificate), _key_pem(key)))

    @property
    def fingerprint(self) -> str:
        """What tells this authority from others, in hexadecimal."""
        return self.certificate.fingerprint(hashes.SHA256()).hex()

    @property
    def short(self) -> str:
        """Enough of the fingerprint to tell it from others that a gateway has had."""
        return short_of(self.certificate)

    def vouches_for(self, other: Authority, now: datetime) -> bytes:
        """A certificate of the other authority by this one, in PEM: who trusts this one trusts that one too."""
        own = self.certificate
        left = min(own.not_valid_after_utc, other.certificate.not_valid_after_utc) - now
        days = max(left.total_seconds() / _DAY, 0.01)
        key = other.certificate.public_key()
        if not isinstance(key, ec.EllipticCurvePublicKey | rsa.RSAPublicKey):  # pragma: no cover - an Authority has one
            raise TypeError("the key of the authority is neither an EC nor an RSA key")
        made = (
            _builder(other.certificate.subject, own.subject, key, now, days=days)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return _pem(made)

    def has_signed(self, certificate: x509.Certificate) -> bool:
        """Whether the certificate is one of this authority's."""
        return is_signed_by(certificate, self.certificate)

    def host(self, domains: Sequence[str], addresses: Sequence[str], now: datetime) -> Issued:
        """A certificate for the gateway itself."""
        names: list[x509.GeneralName] = [x509.DNSName(each) for each in domains]
        names += [x509.IPAddress(ipaddress.ip_address(each)) for each in addresses]
        key = ec.generate_private_key(ec.SECP256R1())
        # With the authority's own subject, as published ones have it, OpenSSL takes a certificate for self-signed.
        subject = _subject(next(iter(domains), "gateway"), "")
        extension = x509.SubjectAlternativeName(names)
        return Issued(_pem(self._sign(subject, key.public_key(), now, days=HOST_DAYS, names=extension)), _key_pem(key))

    def registration(self, now: datetime, *, after: datetime | None = None) -> Issued:
        """A certificate by which a device can register, and do nothing else; valid only after a moment, where given."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._sign(_subject(REGISTER, ""), key.public_key(), now, days=HOST_DAYS, after=after)
        return Issued(_pem(made), _key_pem(key))

    def device(
        self,
        request: x509.CertificateSigningRequest,
        device: str,
        namespace: str,
        *,
        days: float,
        now: datetime,
        after: datetime | None = None,
    ) -> bytes:
        """The certificate of a device, for the key in its request, in PEM; valid only after a moment, where given."""
        return _pem(self._sign(_subject(device, namespace), _public_key(request), now, days=days, after=after))

    def _sign(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey | ed25519.Ed25519PublicKey,
        now: datetime,
        *,
        days: float,
        names: x509.SubjectAlternativeName | None = None,
        after: datetime | None = None,
    ) -> x509.Certificate:
        # Published agents and the published operator look for serverAuth, every TLS server for clientAuth.
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]
        builder = (
            _builder(subject, self.certificate.subject, key, now, days=days, after=after)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return builder.sign(self._key, hashes.SHA256())


def short_of(certificate: x509.Certificate) -> str:
    """The first digits of a certificate's fingerprint."""
    return certificate.fingerprint(hashes.SHA256()).hex()[:_SHORT]


def is_signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    """Whether an authority has signed a certificate."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def read_request(text: str) -> x509.CertificateSigningRequest:
    """The certificate request in a PEM text, whose sender has proven to have its key; BadRequest says why not."""
    try:
        request = x509.load_pem_x509_csr(text.encode())
        signed = request.is_signature_valid
    except (ValueError, UnsupportedAlgorithm, InvalidSignature):
        raise BadRequest("certificate_request is not a certificate request in PEM") from None
    if not signed:
        raise BadRequest("the signature of certificate_request is not by the key in it: send one that proves the key")
    _public_key(request)
    return request


def _public_key(
    request: x509.CertificateSigningRequest,
) -> ec.EllipticCurvePublicKey | rsa.RSAPublicKey | ed25519.Ed25519PublicKey:
    try:
        key = request.public_key()
    except (ValueError, UnsupportedAlgorithm):
        raise BadRequest("the key in certificate_request cannot be read") from None
    if isinstance(key, rsa.RSAPublicKey):
        if key.key_size < _MIN_RSA:
            raise BadRequest(f"the RSA key in certificate_request has {key.key_size} bits: use at least {_MIN_RSA}")
        return key
    if isinstance(key, ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey):
        return key
    raise BadRequest("the key in certificate_request is neither EC nor RSA nor Ed25519")


def key_of(signed: x509.Certificate | x509.CertificateSigningRequest) -> str:
    """The SHA-256 of the public key in a certificate or a request, in hexadecimal."""
    encoded = signed.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return hashlib.sha256(encoded).hexdigest()


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey | ed25519.Ed25519PublicKey,
    now: datetime,
    *,
    days: float,
    after: datetime | None = None,
) -> x509.CertificateBuilder:
    first = now - _BACKDATED
    if after is not None and first <= after:
        first = after + timedelta(seconds=1)  # what was revoked ends with that second
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(first)
        .not_valid_after(now + timedelta(days=days))
    )


def _subject(name: str, namespace: str) -> x509.Name:
    parts = [
        x509.NameAttribute(NameOID.COMMON_NAME, name),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, ORGANIZATION),
    ]
    if namespace:
        parts.append(x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, namespace))
    return x509.Name(parts)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    # Not PKCS#8: the published gateway process reads only `EC PRIVATE KEY` and `RSA PRIVATE KEY`.
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
