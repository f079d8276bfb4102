"""Who calls, by the certificate of the connection, and what they may do: a table, with no I/O.

Asked for each request, because a certificate may expire while its connection stays open.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import lru_cache

from cryptography import x509
from cryptography.x509.oid import NameOID

from edgewright.api.edge_protocol import REGISTER
from edgewright.gateway.certificates import key_of


class Operation(Enum):
    """What a request asks for."""

    ENROL = "enrolment"
    REGISTER = "registration"
    HEARTBEAT = "heartbeat"
    READ_DATA = "data in"
    READ_CONTROL = "control in"
    WRITE_CONTROL = "control out"
    OTHER = "other directive"


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Whoever has the key of a certificate that our authority signed."""

    name: str
    """The common name: a device's id in lower case, or `register`."""
    namespace: str
    """The namespace of the device; empty where the certificate names none."""
    key: str
    """The SHA-256 of its public key."""
    not_before: datetime
    not_after: datetime
    serial: str = ""
    """The serial number in hexadecimal."""
    issuer: str = ""
    """The authority that signed it; filled in by whoever knows the authorities."""

    @property
    def is_registration(self) -> bool:
        """Whether it is a registration certificate, which many devices share."""
        return self.name == REGISTER

    def expired(self, now: datetime) -> bool:
        """Whether the certificate is not valid at this moment."""
        return not self.not_before <= now <= self.not_after


@lru_cache(maxsize=20_000)
def caller_of(certificate: bytes) -> Caller | None:
    """Who a certificate (DER) belongs to; None where it names nobody."""
    read = x509.load_der_x509_certificate(certificate)
    name = _attribute(read, NameOID.COMMON_NAME).lower()
    if not name:
        return None
    return Caller(
        name=name,
        namespace=_attribute(read, NameOID.ORGANIZATIONAL_UNIT_NAME),
        key=key_of(read),
        not_before=read.not_valid_before_utc,
        not_after=read.not_valid_after_utc,
        serial=f"{read.serial_number:x}",
    )


@dataclass(frozen=True)
class Standing:
    """What people have decided about an id, and how long an expired certificate is still taken."""

    revoked_before: datetime | None = None
    """Certificates that are valid from then or earlier are void."""
    grace: timedelta = timedelta()
    """Added to the end of a certificate: for published agents, which do not survive a 401."""


def refusal(
    caller: Caller | None, device: str, operation: Operation, now: datetime, standing: Standing | None = None
) -> int | None:
    """The code that refuses the request; None where it is allowed. `standing` is that of the caller's own id.

    A registration certificate may enrol and register. An expired one of a device may only register again. A device
    may do everything for itself and nothing for another. A certificate that was revoked may nothing at all.
    """
    if caller is None:
        return 401
    standing = standing or Standing()
    revoked = standing.revoked_before is not None and caller.not_before <= standing.revoked_before
    if revoked or (caller.name != device and not caller.is_registration):
        return 403
    if caller.is_registration:
        if operation in {Operation.ENROL, Operation.REGISTER}:
            return 401 if caller.expired(now) else None
        return 403 if operation in {Operation.HEARTBEAT, Operation.OTHER} else 401
    late = caller.expired(now) and (now < caller.not_before or caller.expired(now - standing.grace))
    if late and operation is not Operation.REGISTER:
        return 401
    return None


def _attribute(certificate: x509.Certificate, oid: x509.ObjectIdentifier) -> str:
    found = certificate.subject.get_attributes_for_oid(oid)
    return str(found[0].value) if found else ""
