"""How one authority follows another without a device being lost: the steps, and what the Secret holds between them.

`authority` carries them out and `edgewright edge rotate` begins and ends them. First every replica trusts the next
authority, then it signs; the one before stays trusted until its last device has renewed, and vouches for its successor
by a certificate in the chain, so that a device which knows only the old one still knows the gateway. Pure.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from edgewright.gateway.certificates import Authority, Issued
from edgewright.gateway.objects import Secret

CA_SECRET: Final = "flotta-ca"  # noqa: S105 - the name of a Secret
CA_FILES: Final = ("ca.crt", "ca.key")
PREVIOUS: Final = "previous.crt"
"""The authorities before, which are still trusted."""
CHAIN: Final = "chain.crt"
"""By what those before vouch for the one that signs now."""
NEXT_FILES: Final = ("next.crt", "next.key")
NEXT_SINCE: Final = "next.since"


class Unusable(Exception):
    """A Secret of ours holds something that is no certificate with its key; the sentence names it."""


@dataclass(frozen=True, kw_only=True)
class Authorities:
    """Who signs, who will, and who did."""

    current: Authority
    next: Authority | None = None
    next_since: datetime | None = None
    previous: tuple[x509.Certificate, ...] = ()
    chain: bytes = b""

    @property
    def trusted(self) -> tuple[x509.Certificate, ...]:
        """Whoever's certificates are taken."""
        return (self.current.certificate, *((self.next.certificate,) if self.next else ()), *self.previous)

    @property
    def bundle(self) -> str:
        """All of those in PEM."""
        return _pem(self.trusted).decode()


def authorities_in(secret: Secret) -> Authorities:
    """What the Secret says; Unusable where it says nothing of use."""
    current = issued_in(secret, CA_FILES)
    following = issued_in(secret, NEXT_FILES) if NEXT_FILES[0] in secret.data else None
    try:
        return Authorities(
            current=authority_of(current, CA_SECRET),
            next=None if following is None else authority_of(following, CA_SECRET),
            next_since=_time(_decoded(secret, NEXT_SINCE)),
            previous=tuple(_certificates(_decoded(secret, PREVIOUS))),
            chain=_decoded(secret, CHAIN),
        )
    except ValueError as error:
        raise Unusable(f"Secret {secret.key}: {error}") from None


def authority_of(issued: Issued, name: str) -> Authority:
    """The authority of a certificate and its key; Unusable where they are none."""
    try:
        x509.load_pem_x509_certificate(issued.certificate)
    except ValueError:
        raise Unusable(f"Secret {name} holds no certificate in PEM") from None
    try:
        return Authority(issued)
    except (ValueError, TypeError) as error:
        raise Unusable(f"Secret {name}: {error}") from None


def begun(known: Authorities, now: datetime) -> dict[str, str]:
    """The data by which a new authority is trusted everywhere before it signs; empty where one waits already."""
    if known.next is not None:
        return {}
    new = Authority.create(now, number=len(known.previous) + 2).issued
    return _encoded(
        {
            NEXT_FILES[0]: new.certificate,
            NEXT_FILES[1]: new.key,
            NEXT_SINCE: now.isoformat(timespec="seconds").encode(),
        }
    )


def is_due(known: Authorities, now: datetime, *, after: float) -> bool:
    """Whether the next authority has been trusted for so long that every replica knows it."""
    return known.next is not None and known.next_since is not None and (now - known.next_since).total_seconds() >= after


def promoted(known: Authorities, now: datetime) -> dict[str, str | None]:
    """The data to write so that the next authority signs, and the one before is trusted and vouches for it."""
    if known.next is None:
        return {}
    link = known.current.vouches_for(known.next, now)
    data = _encoded(
        {
            CA_FILES[0]: known.next.issued.certificate,
            CA_FILES[1]: known.next.issued.key,
            PREVIOUS: _pem((known.current.certificate, *known.previous)),
            CHAIN: link + known.chain,
        }
    )
    return {**data, **dict.fromkeys((*NEXT_FILES, NEXT_SINCE))}


def ended() -> dict[str, str | None]:
    """The data to write so that no authority before the one that signs is trusted any more."""
    return {PREVIOUS: None}


def issued_in(secret: Secret, files: tuple[str, str]) -> Issued:
    """The certificate and the key that a Secret holds; Unusable where it does not."""
    try:
        certificate, key = (base64.b64decode(secret.data[file], validate=True) for file in files)
    except KeyError as error:
        raise Unusable(f"Secret {secret.key} has no {error.args[0]}") from None
    except binascii.Error:
        raise Unusable(f"Secret {secret.key} holds something that is not base64") from None
    return Issued(certificate, key)


def _decoded(secret: Secret, file: str) -> bytes:
    try:
        return base64.b64decode(secret.data.get(file, ""), validate=True)
    except binascii.Error:
        raise Unusable(f"Secret {secret.key} holds something that is not base64") from None


def _encoded(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: base64.b64encode(content).decode() for name, content in files.items()}


def _certificates(pem: bytes) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(pem) if pem else []


def _pem(certificates: tuple[x509.Certificate, ...]) -> bytes:
    return b"".join(each.public_bytes(Encoding.PEM) for each in certificates)


def _time(text: bytes) -> datetime | None:
    return datetime.fromisoformat(text.decode()) if text else None
