"""Who is calling: the user that a client certificate or a bearer token stands for.

The server asks once for each connection whose certificate it is, and once for each request who the user is. Nothing
here decides what a user may do, and no answer says what was wrong with a credential.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from multidict import MultiMapping

from edgewright.local.errors import bad_request, unauthorized

_AUTHENTICATED: Final = "system:authenticated"
_IMPERSONATE: Final = "impersonate-"
_EXTRA: Final = "impersonate-extra-"
_SERVICE_ACCOUNT: Final = re.compile("system:serviceaccount:([^:]+):[^:]+")


@dataclass(frozen=True, kw_only=True)
class User:
    """Somebody who was recognised, as SelfSubjectReview shows it."""

    name: str
    groups: tuple[str, ...] = (_AUTHENTICATED,)
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


ADMINISTRATOR: Final = User(name="kubernetes-admin", groups=("system:masters", _AUTHENTICATED))
"""Whom the token in the data directory stands for; the certificate next to it names the same user."""


class Authentication:
    """Knows the tokens; certificates are believed when the authority of the server has signed them."""

    def __init__(self, tokens: Mapping[str, User]) -> None:
        """`tokens` by their secret."""
        self._tokens = [(token.encode(), user) for token, user in tokens.items()]

    def identify(self, headers: MultiMapping[str], peer: User | None) -> User:
        """The user of a request on a connection whose certificate is `peer`'s; Refusal where there is none.

        A certificate counts before a token, as on the real server. Whoever is known may act as somebody else.
        """
        user = peer or self._bearer(headers.get("Authorization", ""))
        if user is None:
            raise unauthorized()
        if any(name[:12].lower() == _IMPERSONATE for name in headers):
            return _impersonated(headers)
        return user

    def _bearer(self, header: str) -> User | None:
        scheme, _, rest = header.strip().partition(" ")
        given = rest.strip().partition(" ")[0].encode(errors="replace")  # bytes that are no text are no token
        if scheme.lower() != "bearer" or not given:
            return None
        # Every token is compared, each in constant time: how long it takes tells nothing.
        found = [user for token, user in self._tokens if hmac.compare_digest(token, given)]
        return found[0] if found else None


def _impersonated(headers: MultiMapping[str]) -> User:
    """Whom the headers of a request name; without a name there is nobody whose groups these could be."""
    name = headers.get("Impersonate-User", "")
    if not name:
        raise bad_request("a request that impersonates must name a user in the header Impersonate-User")
    groups = headers.getall("Impersonate-Group", [])
    if not groups and (account := _SERVICE_ACCOUNT.fullmatch(name)):
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{account[1]}"]
    known = "system:unauthenticated" if name == "system:anonymous" else _AUTHENTICATED
    extra: dict[str, tuple[str, ...]] = {}
    for header, value in headers.items():
        if header[: len(_EXTRA)].lower() == _EXTRA:
            key = unquote(header[len(_EXTRA) :]).lower()
            extra[key] = (*extra.get(key, ()), value)
    return User(
        name=name,
        groups=(*groups, *(() if known in groups else (known,))),
        uid=headers.get("Impersonate-Uid", ""),
        extra=extra,
    )


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
