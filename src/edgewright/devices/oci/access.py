"""Who we are to a registry: the credentials of a pull secret, and the hosts that are spoken to without TLS.

The flasher creates an `Access` from its environment; `repository` asks it. Pure: nothing is sent from here, and a
password is never shown.
"""

from __future__ import annotations

import binascii
import ipaddress
import ssl
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from edgewright.api.reference import Reference

_COUNTRY: Final = 2
_SHORT: Final = 3
_SCHEMES: Final = ("https://", "http://")


class BadCredentials(ValueError):
    """A pull secret cannot be read; the message says where."""


@dataclass(frozen=True)
class Login:
    """A user's name and password."""

    user: str
    password: str = field(repr=False)

    @property
    def header(self) -> str:
        """As HTTP's Basic scheme writes it."""
        return "Basic " + b64encode(f"{self.user}:{self.password}".encode()).decode()


@dataclass(frozen=True)
class Credentials:
    """The logins of a pull secret, each with the host, and perhaps the part of its repositories, that it is for."""

    logins: tuple[tuple[str, Login], ...] = ()

    def find(self, reference: Reference) -> Login | None:
        """The login for an image: of those for its host the one whose path fits best, as Kubernetes chooses."""
        fitting = [
            (len(path), login)
            for (host, path), login in ((_split(place), login) for place, login in self.logins)
            if _same_host(host, reference.host)
            and (not path or reference.repository == path or reference.repository.startswith(f"{path}/"))
        ]
        return max(fitting, key=lambda found: found[0])[1] if fitting else None


@dataclass(frozen=True, kw_only=True)
class Access:
    """How registries may be asked."""

    plain_hosts: frozenset[str] = frozenset()
    """The hosts, with their ports, that are spoken to over plain HTTP, and then never with credentials."""
    credentials: Credentials | None = None
    token_hosts: frozenset[str] = frozenset()
    """Hosts that give out tokens for registries of other domains, and may see their credentials for that."""
    tls: ssl.SSLContext | None = None
    """For registries with an authority of one's own; without it the system's are trusted, or those in SSL_CERT_FILE."""

    def is_plain(self, host: str) -> bool:
        """Whether a host, with its port where it has one, is spoken to over plain HTTP."""
        return host.lower() in {each.lower() for each in self.plain_hosts}

    def trusts(self, realm: str, registry: str) -> bool:
        """Whether a token service on one host may see the credentials for a registry on another, by its names."""
        return same_domain(registry, realm) or realm.lower() in {each.lower() for each in self.token_hosts}

    def login(self, reference: Reference) -> Login | None:
        """Who we are to the registry of an image; None where nobody said."""
        return self.credentials.find(reference) if self.credentials is not None else None


def same_domain(registry: str, realm: str) -> bool:
    """Whether a token service is the registry's own by its host name: the same, below it, above it, or next to it.

    Next to it means below the same parent: auth.example.com for registry.example.com. A parent that is no domain of
    somebody's own, as com or co.uk, makes no relatives, and neither do addresses. Pure.
    """
    ours, theirs = registry.lower().rstrip("."), realm.lower().rstrip(".")
    if ours == theirs:
        return True
    if _is_address(ours) or _is_address(theirs) or not _owned(ours):
        return False
    parent = ours.partition(".")[2]
    return theirs.endswith(f".{ours}") or (_owned(parent) and (theirs == parent or theirs.endswith(f".{parent}")))


def _owned(domain: str) -> bool:
    """Whether a domain is somebody's own: not a top-level domain, nor the likes of co.uk and com.au below one."""
    labels = domain.split(".")
    shared = len(labels) == 2 and len(labels[1]) == _COUNTRY and len(labels[0]) <= _SHORT
    return len(labels) >= 2 and not shared


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class _Entry(msgspec.Struct):
    auth: str | None = None
    username: str | None = None
    password: str | None = None


class _File(msgspec.Struct):
    auths: dict[str, _Entry]


def read_dockerconfig(content: bytes) -> Credentials:
    """The credentials in a .dockerconfigjson, as `kubectl create secret docker-registry` writes it; BadCredentials."""
    try:
        entries = msgspec.json.decode(content, type=_File).auths
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadCredentials(f"the pull secret is no .dockerconfigjson: {error}") from None
    found = ((place, _login(place, entry)) for place, entry in entries.items())
    return Credentials(tuple((place, login) for place, login in found if login is not None))


def _login(place: str, entry: _Entry) -> Login | None:
    if entry.username:
        return Login(entry.username, entry.password or "")
    if not entry.auth:
        return None
    try:
        user, colon, password = b64decode(entry.auth, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        raise BadCredentials(f"the pull secret's auth for {place[:100]!r} is not base64") from None
    if not colon:
        raise BadCredentials(f"the pull secret's auth for {place[:100]!r} is not user:password in base64")
    return Login(user, password.rstrip("\0"))


def _split(place: str) -> tuple[str, str]:
    """Host and path of an entry; what old clients wrote around them (a scheme, /v1/) is left out."""
    for scheme in _SCHEMES:
        place = place.removeprefix(scheme)
    host, _, path = place.partition("/")
    path = path.strip("/")
    return host.lower(), "" if path in {"v1", "v2"} else path


def _same_host(pattern: str, host: str) -> bool:
    """Whether an entry's host, in which * stands for a part of one label, is this one; ports must be equal."""
    if "*" not in pattern:
        return pattern == host.lower()
    labels, wanted = pattern.split("."), host.lower().split(".")
    return len(labels) == len(wanted) and all(map(fnmatchcase, wanted, labels))
