"""Who is calling: the user that a client certificate or a bearer token stands for.

The server asks once for each connection whose certificate it is, and once for each request who the user is. Nothing
here decides what a user may do, and no answer says what was wrong with a credential; TokenReview alone may.
"""

from __future__ import annotations

import hashlib
import hmac
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from multidict import MultiMapping

from edgewright.local.errors import unauthorized

_UNKNOWN: Final = "invalid bearer token"
_AUTHENTICATED: Final = "system:authenticated"


@dataclass(frozen=True, kw_only=True)
class User:
    """Somebody who was recognised, as SelfSubjectReview shows it."""

    name: str
    groups: tuple[str, ...] = (_AUTHENTICATED,)
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


ADMINISTRATOR: Final = User(name="kubernetes-admin", groups=("system:masters", _AUTHENTICATED))
"""Whom the token in the data directory stands for; the certificate next to it names the same user."""

ANONYMOUS: Final = User(name="system:anonymous", groups=("system:unauthenticated",))
"""Who shows no credentials at all: somebody with the few rights that everybody has."""


@dataclass(frozen=True, kw_only=True)
class Recognised:
    """What is known of a token: whose it is and for which audiences, or what is wrong with it."""

    user: User | None = None
    audiences: tuple[str, ...] = ()
    fault: str = ""


class TokenReader(Protocol):
    """Somebody who knows tokens of a kind, such as those of ServiceAccounts."""

    def read(self, token: str, audiences: Sequence[str]) -> Recognised | None:
        """What is known of a token; None where it is not of this kind. No audience stands for the server's own."""


class Authentication:
    """Knows the tokens; certificates are believed when the authority of the server has signed them."""

    def __init__(self, tokens: Mapping[str, User]) -> None:
        """`tokens` by their secret."""
        self._tokens = [(token.encode(), user) for token, user in tokens.items()]
        self.reader: TokenReader | None = None
        """Who reads the tokens that are not among those."""

    def identify(self, headers: MultiMapping[str], peer: User | None) -> User:
        """The user of a request on a connection whose certificate is `peer`'s; Refusal where a token is no good.

        A certificate counts before a token, as on the real server. Who shows neither is anonymous.
        """
        if peer is not None:
            return peer
        scheme, _, rest = headers.get("Authorization", "").strip().partition(" ")
        given = rest.strip().partition(" ")[0]
        if scheme.lower() != "bearer" or not given:
            return ANONYMOUS
        user = self.recognise(given).user
        if user is None:
            raise unauthorized()
        return user

    def recognise(self, token: str, audiences: Sequence[str] = ()) -> Recognised:
        """What is known of a token, for these audiences or for the server's own."""
        given = token.encode(errors="replace")  # bytes that are no text are no token
        # Every token is compared, each in constant time: how long it takes tells nothing.
        found = [user for known, user in self._tokens if hmac.compare_digest(known, given)]
        if found:
            return Recognised(user=found[0])
        read = None if self.reader is None else self.reader.read(token, audiences)
        if read is None:
            return Recognised(fault=_UNKNOWN)
        return Recognised(fault=f"[{_UNKNOWN}, {read.fault}]") if read.fault else read


def user_of_connection(connection: ssl.SSLObject | None) -> User | None:
    """The user whose certificate was presented when a connection was opened, None where there was none."""
    encoded = None if connection is None else connection.getpeercert(binary_form=True)
    if connection is None or encoded is None:
        return None
    return user_of_certificate(connection.getpeercert() or {}, encoded)


def user_of_certificate(certificate: Mapping[str, Any], encoded: bytes) -> User | None:
    """The user that a checked certificate names, as Kubernetes reads it: CN is the name, each O a group."""
    names: list[str] = []
    groups: list[str] = []
    for relative in certificate.get("subject", ()):
        for attribute, value in relative:
            if attribute == "commonName":
                names.append(value)
            elif attribute == "organizationName":
                groups.append(value)
    if not names or not names[-1]:
        return None
    digest = hashlib.sha256(encoded).hexdigest()
    return User(
        name=names[-1],
        groups=(*groups, _AUTHENTICATED),
        extra={"authentication.kubernetes.io/credential-id": (f"X509SHA256={digest}",)},
    )
