"""Makes keys and certificates: the only module that needs `cryptography`.

`authority` imports it at the moment in which something must be signed, so that a start with all certificates in place
pays neither its time nor its memory. It takes and gives PEM text and never touches a file.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# The clock of a client may be a little behind ours.
_CLOCK_SKEW = timedelta(minutes=5)


def authority(name: str, *, now: datetime, ends: datetime) -> str:
    """The key and the certificate of a new authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name, ())
    builder = _builder(subject, subject, key.public_key(), key.public_key(), now=now, ends=ends, signs=True)
    return _pem(key, builder.sign(key, hashes.SHA256()))


def server(
    issuer: str, user: str, names: Iterable[str], *, groups: Sequence[str], now: datetime, ends: datetime
) -> str:
    """A key and a certificate of a server that is reached under these DNS names and IP addresses."""
    alternatives = x509.SubjectAlternativeName([_alternative(name) for name in names])
    usage = ExtendedKeyUsageOID.SERVER_AUTH
    return _sign(issuer, _name(user, groups), usage, alternatives, now=now, ends=ends)


def client(issuer: str, user: str, *, groups: Sequence[str], now: datetime, ends: datetime) -> str:
    """A key and a certificate by which a server knows this user in these groups."""
    return _sign(issuer, _name(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH, None, now=now, ends=ends)


def _sign(
    issuer: str,
    subject: x509.Name,
    usage: x509.ObjectIdentifier,
    alternatives: x509.SubjectAlternativeName | None,
    *,
    now: datetime,
    ends: datetime,
) -> str:
    issuing_key = serialization.load_pem_private_key(issuer.encode(), password=None)
    if not isinstance(issuing_key, ec.EllipticCurvePrivateKey):
        raise TypeError("an authority of ours has an elliptic-curve key")
    issuing = x509.load_pem_x509_certificate(issuer.encode())
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(
        subject, issuing.subject, key.public_key(), issuing_key.public_key(), now=now, ends=ends, signs=False
    ).add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    if alternatives is not None:
        builder = builder.add_extension(alternatives, critical=False)
    return _pem(key, builder.sign(issuing_key, hashes.SHA256()))


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    issuing_key: ec.EllipticCurvePublicKey,
    *,
    now: datetime,
    ends: datetime,
    signs: bool,
) -> x509.CertificateBuilder:
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=signs, path_length=0 if signs else None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuing_key), critical=False)
    )


def _name(common_name: str, organizations: Iterable[str]) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pem(key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> str:
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return (private + certificate.public_bytes(serialization.Encoding.PEM)).decode()
