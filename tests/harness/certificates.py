"""A certificate authority made on the spot, and what it signs: serving certificates, client certificates, token keys.

`controlplane` makes one for each control plane, with elliptic-curve keys because those take a millisecond. It writes
nothing but the files that it is told to, and is no example for production: its certificates last a day.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = timedelta(days=1)
_CLOCK_SKEW = timedelta(minutes=5)


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _public_pem(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def _write_private(path: Path, content: bytes) -> Path:
    path.touch(mode=0o600)
    path.write_bytes(content)
    return path


def _name(common_name: str, organizations: Iterable[str] = ()) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
    return x509.Name([*attributes, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


@dataclass(frozen=True)
class Certificate:
    """A certificate with its private key, both as PEM."""

    certificate: bytes
    key: bytes

    def write(self, directory: Path, name: str) -> tuple[Path, Path]:
        """Writes `name.crt` and `name.key` and returns their paths."""
        path = directory / f"{name}.crt"
        path.write_bytes(self.certificate)
        return path, _write_private(directory / f"{name}.key", self.key)


class Authority:
    """Signs certificates that everybody who has its `certificate` believes."""

    def __init__(self, common_name: str = "edgewright test authority") -> None:
        self._name = _name(common_name)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._identifier = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        builder = self._builder(self._name, self._key.public_key(), signs_certificates=True)
        self.certificate = builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def server(self, common_name: str, *, names: Iterable[str], addresses: Iterable[str]) -> Certificate:
        """A certificate for a server that is reached under these DNS names and IP addresses."""
        alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
        alternatives += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        return self._sign(
            _name(common_name),
            (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), x509.SubjectAlternativeName(alternatives)),
        )

    def client(self, user: str, groups: Iterable[str] = ()) -> Certificate:
        """A certificate by which Kubernetes knows this user in these groups."""
        return self._sign(_name(user, groups), (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]),))

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey, *, signs_certificates: bool
    ) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _CLOCK_SKEW)
            .not_valid_after(now + _LIFETIME)
            .add_extension(x509.BasicConstraints(ca=signs_certificates, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=signs_certificates), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._identifier), critical=False
            )
        )

    def _sign(self, subject: x509.Name, extensions: Iterable[x509.ExtensionType]) -> Certificate:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = self._builder(subject, key.public_key(), signs_certificates=False)
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return Certificate(certificate.public_bytes(serialization.Encoding.PEM), _pem(key))


class TokenKey:
    """The key pair by which a control plane signs and believes the tokens of its service accounts."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())

    def write(self, directory: Path, name: str) -> tuple[Path, Path]:
        """Writes `name.pub` and `name.key` and returns their paths."""
        path = directory / f"{name}.pub"
        path.write_bytes(_public_pem(self._key.public_key()))
        return path, _write_private(directory / f"{name}.key", _pem(self._key))

    def sign(self, claims: Mapping[str, Any], *, lifetime: float) -> str:
        """A token (JWT, ES256) with these claims that ends in `lifetime` seconds, or has ended if that is negative."""
        issued = int(time.time() + min(lifetime, 0)) - 1
        times = {"iat": issued, "nbf": issued, "exp": int(time.time() + lifetime)}
        signed = ".".join(
            _base64(json.dumps(part).encode()) for part in ({"alg": "ES256", "typ": "JWT"}, {**claims, **times})
        )
        r, s = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_base64(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
