"""The certificates of the simulated world: like real ones where it matters, and always the same for devices."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from edgewright.devices.simulated.certificates import (
    OTA_AGENT,
    SHORTEST,
    device_certificate,
    first_certificate,
    server_pair,
)


def test_a_devices_certificate_is_its_own_and_always_the_same() -> None:
    one, two = "127.32.0.1", "127.32.0.2"
    made = {device_certificate(seed=seed, address=address) for seed in (0, 1) for address in (one, two)}
    assert len(made) == 4
    assert device_certificate(seed=1, address=two) in made


@pytest.mark.parametrize("address", ["127.32.0.1", "127.32.255.255"])
def test_a_devices_certificate_is_as_long_as_the_published_flasher_expects(address: str) -> None:
    der = device_certificate(seed=0, address=address)
    assert SHORTEST <= len(der) < 2000
    assert f"device {address} of fleet 0" in x509.load_der_x509_certificate(der).subject.rfc4514_string()


def test_the_servers_certificate_is_for_the_name_that_firmware_knows() -> None:
    now = datetime(2026, 5, 1, tzinfo=UTC)
    made = x509.load_pem_x509_certificate(server_pair(now=now).certificate.encode())
    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [OTA_AGENT]
    assert made.not_valid_before_utc < now
    assert made.not_valid_after_utc > now + timedelta(days=3000)


def test_no_two_servers_have_the_same_key_and_none_is_printed() -> None:
    one, other = server_pair(), server_pair()
    assert one.key != other.key
    assert "PRIVATE" not in repr(one)


def test_the_first_of_several_certificates_is_what_counts() -> None:
    leaf, issuer = server_pair().certificate, server_pair().certificate
    assert first_certificate(f"some words\n{leaf}{issuer}") == ssl.PEM_cert_to_DER_cert(leaf)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-----BEGIN CERTIFICATE-----\nAAAA",
        "-----END CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----",
    ],
    ids=["nothing", "no end", "no beginning", "something else", "no base64"],
)
def test_a_text_without_a_certificate_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no certificate in it"):
        first_certificate(text)
