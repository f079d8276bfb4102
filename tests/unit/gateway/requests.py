"""Certificate requests for tests: good ones, and one whose signature is by another key."""

from __future__ import annotations

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID


def request_of(name: str, *, rsa_bits: int = 0) -> tuple[str, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey]:
    """A request in PEM, and its key."""
    key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
    key = rsa.generate_private_key(65537, rsa_bits) if rsa_bits else ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    return request.public_bytes(Encoding.PEM).decode(), key


def broken() -> str:
    """A request in which one bit of the name was changed after it was signed."""
    request = x509.load_pem_x509_csr(request_of("honest")[0].encode())
    forged = request.public_bytes(Encoding.DER).replace(b"honest", b"forged")
    return x509.load_der_x509_csr(forged).public_bytes(Encoding.PEM).decode()
