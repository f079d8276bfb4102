"""Who may do what: the matrix of certificates and operations."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from edgewright.gateway.certificates import Authority, BadRequest, key_of, read_request
from edgewright.gateway.identity import Caller, Operation, caller_of, refusal
from tests.unit.gateway.requests import broken, request_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ALL = list(Operation)
OK = None
JUNK = "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"


def caller(name: str, *, days: float = 30) -> Caller:
    return Caller(
        name=name,
        namespace="default",
        key="k",
        not_before=NOW - timedelta(days=60),
        not_after=NOW + timedelta(days=days),
    )


@pytest.mark.parametrize(
    ("who", "codes"),
    [
        pytest.param(None, dict.fromkeys(ALL, 401), id="nobody"),
        pytest.param(
            caller("register"),
            {
                Operation.ENROL: OK,
                Operation.REGISTER: OK,
                Operation.HEARTBEAT: 403,
                Operation.OTHER: 403,
                Operation.READ_DATA: 401,
                Operation.READ_CONTROL: 401,
                Operation.WRITE_CONTROL: 401,
            },
            id="registration",
        ),
        pytest.param(
            caller("register", days=-1),
            dict.fromkeys(ALL, 401) | {Operation.HEARTBEAT: 403, Operation.OTHER: 403},
            id="registration, expired",
        ),
        pytest.param(caller("one"), dict.fromkeys(ALL, OK), id="its own"),
        pytest.param(caller("one", days=-1), dict.fromkeys(ALL, 401) | {Operation.REGISTER: OK}, id="its own, expired"),
        pytest.param(caller("two"), dict.fromkeys(ALL, 403), id="another device's"),
        pytest.param(caller("two", days=-1), dict.fromkeys(ALL, 403), id="another device's, expired"),
    ],
)
def test_each_certificate_allows_what_the_document_says(who: Caller | None, codes: dict[Operation, int | None]) -> None:
    assert {each: refusal(who, "one", each, NOW) for each in Operation} == codes


def test_a_certificate_that_is_not_valid_yet_counts_as_expired() -> None:
    young = Caller(name="one", namespace="", key="k", not_before=NOW + timedelta(1), not_after=NOW + timedelta(2))
    assert refusal(young, "one", Operation.HEARTBEAT, NOW) == 401


def test_a_certificate_says_who_has_it() -> None:
    authority = Authority.create(NOW)
    request, _ = request_of("anything")
    made = authority.device(read_request(request), "One", "flotta", days=30, now=NOW)
    certificate = x509.load_pem_x509_certificate(made)
    found = caller_of(certificate.public_bytes(Encoding.DER))
    assert found is not None
    assert (found.name, found.namespace, found.key) == ("one", "flotta", key_of(certificate))
    assert found.expired(NOW + timedelta(days=31))
    assert not found.is_registration
    ours = x509.load_pem_x509_certificate(authority.issued.certificate)
    assert caller_of(ours.public_bytes(Encoding.DER)) is None  # it has no common name


def test_two_certificates_of_one_second_have_two_serials() -> None:
    authority = Authority.create(NOW)
    request = read_request(request_of("one")[0])
    made = [x509.load_pem_x509_certificate(authority.device(request, "one", "", days=1, now=NOW)) for _ in range(2)]
    assert made[0].serial_number != made[1].serial_number


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("", "not a certificate request in PEM", id="empty"),
        pytest.param(
            "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n", "PEM", id="junk"
        ),
        pytest.param(broken(), "not by the key in it", id="signed by another key"),
        pytest.param(request_of("a", rsa_bits=1024)[0], "1024 bits: use at least 2048", id="weak"),
    ],
)
def test_a_request_that_proves_no_key_is_refused_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises(BadRequest, match=problem):
        read_request(text)


@pytest.mark.parametrize("bits", [0, 2048])
def test_requests_for_ec_and_rsa_keys_are_good(bits: int) -> None:
    text, key = request_of("a", rsa_bits=bits)
    assert read_request(text).public_key() == key.public_key()
