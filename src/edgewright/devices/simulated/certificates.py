"""Certificates for the simulated world: the server's that firmware pins, and one for each device.

The demo, `edgewright simulate` and tests make them. Those of devices depend on nothing but the fleet's seed and the
device's address, so that a fleet that is started again is known again, and two fleets are never taken for one.
None of them is fit for anything real: whoever knows the seed knows the keys.
"""

from __future__ import annotations

import hashlib
import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

OTA_AGENT: Final = "ota-agent"
"""The name in the certificate that published firmware pins."""
SHORTEST: Final = 700
"""A device's certificate has at least so many bytes of DER: what the published flash Pod reads at once."""

_LIFE: Final = timedelta(days=3650)
_MADE, _ENDS = datetime(2026, 1, 1, tzinfo=UTC), datetime(2049, 12, 31, tzinfo=UTC)
# Where DICE puts what it has measured of a device; here it is what makes the certificate as long as a real one.
_MEASURED: Final = x509.ObjectIdentifier("2.23.133.5.4.1")
_MEASUREMENTS: Final = 14


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A certificate and its key, both as PEM."""

    certificate: str
    key: str = field(repr=False)


def server_pair(*, name: str = OTA_AGENT, now: datetime | None = None) -> Pair:
    """A new self-signed certificate of a server, good for ten years: what goes into the Secret `ota-agent-tls`."""
    now = now or datetime.now(UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    called = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(called)
        .issuer_name(called)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + _LIFE)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Pair(
        certificate=certificate.public_bytes(serialization.Encoding.PEM).decode(),
        key=key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode(),
    )


def device_certificate(*, seed: int, address: str) -> bytes:
    """The DER certificate of one device of a fleet: always the same for the same seed and address."""
    words = f"edgewright simulated device {seed} {address}".encode()
    # Boards have ECDSA keys; the signatures of these are the same every time, with any version of the library.
    key = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(words).digest())
    called = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Simulated devices"),
            x509.NameAttribute(NameOID.COMMON_NAME, f"device {address} of fleet {seed}"),
        ]
    )
    measured = b"".join(hashlib.sha256(words + bytes((each,))).digest() for each in range(_MEASUREMENTS))
    certificate = (
        x509.CertificateBuilder()
        .subject_name(called)
        .issuer_name(called)
        .public_key(key.public_key())
        .serial_number(int.from_bytes(hashlib.sha256(b"serial " + words).digest()[:8], "big") + 1)
        .not_valid_before(_MADE)
        .not_valid_after(_ENDS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(
            x509.UnrecognizedExtension(_MEASURED, b"\x04\x82" + len(measured).to_bytes(2, "big") + measured),
            critical=False,
        )
        .sign(key, None)
    )
    return certificate.public_bytes(serialization.Encoding.DER)


def first_certificate(pem: str) -> bytes:
    """The first certificate of a PEM text as DER; ValueError where there is none."""
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    start = pem.find(begin)
    stop = pem.find(end, start)
    if start < 0 or stop < 0:
        raise ValueError("there is no certificate in it")
    try:
        found = ssl.PEM_cert_to_DER_cert(pem[start : stop + len(end)])
        x509.load_der_x509_certificate(found)  # there may be anything between the two lines
    except ValueError as error:
        raise ValueError(f"there is no certificate in it: {error}") from None
    return found
