"""Acting as somebody else: whom the headers of a request name, and the rights that it takes to be them.

`serving.server` asks for each request with such headers. Each part of the other identity (name, groups, uid, extra) is
a right of its own, with the verb `impersonate`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote

from multidict import MultiMapping

from edgewright.local.access.attributes import Attributes
from edgewright.local.access.authentication import ANONYMOUS, User
from edgewright.local.access.authorization import Authorizer
from edgewright.local.errors import bad_request

_PREFIX: Final = "impersonate-"
_EXTRA: Final = "impersonate-extra-"
_AUTHENTICATION: Final = "authentication.k8s.io"
_AUTHENTICATED: Final = "system:authenticated"
_UNAUTHENTICATED: Final = "system:unauthenticated"
_SERVICE_ACCOUNT: Final = re.compile("system:serviceaccount:([^:]+):([^:]+)")


def acting(headers: MultiMapping[str], user: User, rights: Authorizer) -> User:
    """As whom a user acts: as itself, or as whom the headers name; Refusal where it may not."""
    if not any(name[: len(_PREFIX)].lower() == _PREFIX for name in headers):
        return user
    other = impersonated(headers)
    for part in _parts(headers, other):
        rights.check(part, user)
    return other


def impersonated(headers: MultiMapping[str]) -> User:
    """Whom the headers of a request name; without a name there is nobody whose groups these could be."""
    name = headers.get("Impersonate-User", "")
    if not name:
        raise bad_request("a request that impersonates must name a user in the header Impersonate-User")
    groups = headers.getall("Impersonate-Group", [])
    if not groups and (account := _SERVICE_ACCOUNT.fullmatch(name)):
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{account[1]}"]
    anonymous = name == ANONYMOUS.name
    known = _UNAUTHENTICATED if anonymous else _AUTHENTICATED
    told = {_UNAUTHENTICATED} if anonymous else {_AUTHENTICATED, _UNAUTHENTICATED}
    extra: dict[str, tuple[str, ...]] = {}
    for header, value in headers.items():
        if header[: len(_EXTRA)].lower() == _EXTRA:
            key = unquote(header[len(_EXTRA) :]).lower()
            extra[key] = (*extra.get(key, ()), value)
    return User(
        name=name,
        groups=(*groups, *(() if told & set(groups) else (known,))),
        uid=headers.get("Impersonate-Uid", ""),
        extra=extra,
    )


def _parts(headers: MultiMapping[str], other: User) -> Iterator[Attributes]:
    """What it takes to be somebody else, in the order in which the real server asks."""
    account = _SERVICE_ACCOUNT.fullmatch(other.name)
    if account is not None:
        yield Attributes(verb="impersonate", resource="serviceaccounts", namespace=account[1], name=account[2])
    else:
        yield Attributes(verb="impersonate", resource="users", name=other.name)
    for group in headers.getall("Impersonate-Group", []):
        yield Attributes(verb="impersonate", resource="groups", name=group)
    for key, values in other.extra.items():
        for value in values:
            yield Attributes(
                verb="impersonate", group=_AUTHENTICATION, resource="userextras", subresource=key, name=value
            )
    if other.uid:
        yield Attributes(verb="impersonate", group=_AUTHENTICATION, resource="uids", name=other.uid)
