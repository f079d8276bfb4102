"""The control plane's own certificate authority: what it signs lies in the data directory, and is made when missing.

`control_plane` asks it at each start for the certificates that it needs; those that are there, fit and last are used as
they are, for which only `ssl` is needed. A key and its certificate are one file, so that one is never there without the
other. It never lets anybody else read a key, and never prints one.
"""

from __future__ import annotations

import hashlib
import ipaddress
import json
import re
import secrets
import ssl
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypeAlias

from edgewright.runtime.clock import Clock
from edgewright.runtime.files import PRIVATE, write_whole
from edgewright.runtime.tls import ConfigError, read_bytes

SERVICE_NAMES: Final = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)
"""The names under which Pods and people know an API server."""

_LOOPBACK: Final = ("127.0.0.1", "::1")
_AUTHORITY_LIFE: Final = timedelta(days=3650)
_SERVER_LIFE: Final = timedelta(days=365)
# Whoever has the administrator's certificate has copied it somewhere: it is good as long as the authority is.
_CLIENT_LIFE: Final = _AUTHORITY_LIFE
_MAX_NAME: Final = 64
_NEVER: Final = datetime.max.replace(tzinfo=UTC)
# A machine without a battery for its clock wakes up in 1970, before it has asked for the time.
_EARLIEST: Final = datetime(2026, 1, 1, tzinfo=UTC)
_MARK: Final = "# edgewright "
_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----\n?")
_KEY: Final = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*-----END [A-Z ]*PRIVATE KEY-----\n?")

_Make: TypeAlias = Callable[[datetime, datetime], str]
"""Makes a key and a certificate that is good from one moment to another."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """A key with its certificate, both as PEM, and the one file that holds them: `load_cert_chain(identity.file)`."""

    file: Path
    certificate: str
    key: str = field(repr=False)


class Authority:
    """Signs for everybody who trusts `certificate`; all files are in one directory that only we can read."""

    def __init__(self, directory: Path, *, clock: Clock) -> None:
        """Takes the authority in the directory, or creates both; ConfigError where what is there cannot be used."""
        self._directory = directory
        self._clock = clock
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.chmod(0o700)
        path = directory / "ca.pem"
        if path.exists() and (not _mark(content := _read(path)) or _identity(path, content) is None):
            # A new one in its place would lock out everybody who trusts the old one.
            raise ConfigError(f"{path}: is damaged, or no authority of ours: restore it, or move it away for a new one")
        make = lambda now, ends: _signing().authority(_name(), now=now, ends=ends)  # noqa: E731 - named for the reader
        self._identity, self._ends = self._have("ca", {"kind": "authority"}, _AUTHORITY_LIFE, make)
        self.file = directory / "ca.crt"
        """The certificate alone, for whoever wants to trust it."""
        if not self.file.exists() or _read(self.file) != self.certificate:
            write_whole(self.file, self.certificate.encode(), mode=0o644)

    @property
    def certificate(self) -> str:
        """What to trust, as PEM."""
        return self._identity.certificate

    def server(self, file: str, *, names: Iterable[str], user: str, groups: Sequence[str] = ()) -> Identity:
        """The certificate of a server under these names and addresses; made again when they change, or near its end.

        Whoever serves for months asks again from time to time, and loads what it gets into the TLS context in use.
        """
        wanted = sorted(set(names))
        return self._signed(
            file,
            {"kind": "server", "subject": _subject(user, groups), "names": wanted},
            _SERVER_LIFE,
            lambda now, ends: _signing().server(self._pair, user, wanted, groups=groups, now=now, ends=ends),
        )

    def client(self, file: str, *, user: str, groups: Sequence[str] = ()) -> Identity:
        """The certificate by which a user in these groups is known; made again when they change, or near its end."""
        return self._signed(
            file,
            {"kind": "client", "subject": _subject(user, groups)},
            _CLIENT_LIFE,
            lambda now, ends: _signing().client(self._pair, user, groups=groups, now=now, ends=ends),
        )

    def token(self, file: str = "token") -> str:
        """A secret that stands for the administrator: the one that is there, else a new one."""
        path = self._directory / file
        if path.exists() and (known := _read(path).strip()):
            path.chmod(PRIVATE)
            return known
        new = secrets.token_urlsafe(32)
        write_whole(path, f"{new}\n".encode())
        return new

    @property
    def _pair(self) -> str:
        return self._identity.key + self._identity.certificate

    def _signed(self, name: str, facts: dict[str, Any], life: timedelta, make: _Make) -> Identity:
        # After a change of the authority nothing that the old one has signed is good any more.
        by = hashlib.sha256(self.certificate.encode()).hexdigest()
        return self._have(name, {**facts, "authority": by}, life, make, until=self._ends)[0]

    def _have(
        self, name: str, facts: dict[str, Any], life: timedelta, make: _Make, *, until: datetime = _NEVER
    ) -> tuple[Identity, datetime]:
        """The pair in a file, when it says these facts and is not in the last tenth of its life; else a new one."""
        path = self._directory / f"{name}.pem"
        now = max(self._clock.now(), _EARLIEST)
        if path.exists():
            found = _read(path)
            mark = _mark(found)
            if mark.get("facts") == facts and now < _time(mark, "renew") and (identity := _identity(path, found)):
                path.chmod(PRIVATE)
                return identity, _time(mark, "ends")
        ends = min(now + life, until)
        times = {"ends": ends.isoformat(), "renew": (ends - (ends - now) / 10).isoformat()}
        pair = make(now, ends)
        write_whole(path, f"{_MARK}{json.dumps({'facts': facts, **times})}\n{pair}".encode())
        return _parts(path, pair), ends


def serving_names(listen: str, *others: str) -> list[str]:
    """The names and addresses of an API server that listens on an address, with others under which it is reached.

    One that listens on all addresses is reached under those that are named in `others`.
    """
    names = [*SERVICE_NAMES, *_LOOPBACK, *others]
    if listen and not _is_unspecified(listen):
        names.append(str(ipaddress.ip_address(listen)) if _is_address(listen) else listen)
    return sorted(set(names))


def serving_tls(identity: Identity, authority: Path) -> ssl.SSLContext:
    """TLS of a server that believes client certificates of this authority and lets in who shows none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(identity.file)
    context.load_verify_locations(authority)
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


def client_tls(identity: Identity, authority: Path) -> ssl.SSLContext:
    """TLS of a client that believes servers of this authority only and presents a certificate of its own."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.load_cert_chain(identity.file)
    context.load_verify_locations(authority)
    return context


def _subject(user: str, groups: Sequence[str]) -> list[str]:
    for name in (user, *groups):
        if not 0 < len(name) <= _MAX_NAME:
            raise ConfigError(f"{name!r} cannot stand in a certificate: it takes names of 1 to {_MAX_NAME} characters")
    return [user, *groups]


def _name() -> str:
    """Two authorities of one machine must be told apart in a list of certificates."""
    return f"edgewright {secrets.token_hex(4)}"


def _signing() -> ModuleType:
    try:
        from edgewright.local.access import signing  # noqa: PLC0415 - 50 ms and 13 MB that most starts can do without
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{error.name} is not installed, which creates the certificates: pip install 'edgewright[local]'"
        ) from error
    return signing


def _read(path: Path) -> str:
    return read_bytes(path).decode("ascii", errors="replace")


def _mark(content: str) -> dict[str, Any]:
    """What was noted in the first line of a file of ours; nothing where it is not one."""
    line = content.partition("\n")[0]
    if not line.startswith(_MARK):
        return {}
    try:
        noted = json.loads(line.removeprefix(_MARK))
    except ValueError:
        return {}
    return noted if isinstance(noted, dict) else {}


def _time(mark: dict[str, Any], name: str) -> datetime:
    try:
        return datetime.fromisoformat(mark[name])
    except (KeyError, TypeError, ValueError):
        return datetime.min.replace(tzinfo=UTC)


def _identity(path: Path, content: str) -> Identity | None:
    """The pair in a file, None where OpenSSL cannot use it."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path)
    except ssl.SSLError:
        return None
    return _parts(path, content)


def _parts(path: Path, pair: str) -> Identity:
    return Identity(file=path, certificate="".join(_CERTIFICATE.findall(pair)), key="".join(_KEY.findall(pair)))


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_unspecified(name: str) -> bool:
    return _is_address(name) and ipaddress.ip_address(name).is_unspecified
