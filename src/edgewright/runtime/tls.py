"""The TLS side of a connection to the API server: whom we trust, and the certificate that we present.

`config` builds one `ClientTls` for a Config; `credentials` gives it a new client certificate when one rotates, and each
connection opened after that presents it. It never opens a connection, and leaves no private key in a file.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import ssl
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn, Self, TypeAlias

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----")


class ConfigError(Exception):
    """What is wrong with a configuration: one sentence that names the file and the field, fit to show to a user."""


Mark: TypeAlias = tuple[int, int, int, int]
"""What changes when a file is replaced or written: device, inode, time of change and size."""


def mark_of(path: Path) -> Mark | None:
    """The mark of the file that `path` leads to now, None where there is none that can be seen."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size


def read_bytes(path: Path, *, origin: str = "") -> bytes:
    """The content of a file that a configuration names; `origin` is the field that names it."""
    where = f"{origin}: " if origin else ""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{where}{path}: cannot be read: {error.strerror or type(error).__name__}") from error
    except ValueError as error:  # a name with a null byte in it
        raise ConfigError(f"{where}is not the name of a file") from error


@dataclass(frozen=True, kw_only=True)
class Pem:
    """Certificates or a key in PEM form, and the field that they come from."""

    origin: str
    data: bytes = field(repr=False)

    def read(self) -> Pem:
        """Itself: what stands in the configuration never changes."""
        return self


@dataclass(frozen=True, kw_only=True)
class PemFile:
    """A file with certificates or a key, which may be replaced at any time, and the field that names it."""

    origin: str
    path: Path

    def read(self) -> Pem:
        """What the file holds now."""
        return Pem(origin=f"{self.origin}: {self.path}", data=read_bytes(self.path, origin=self.origin))


PemSource: TypeAlias = Pem | PemFile


class ClientTls(ssl.SSLContext):
    """An SSL context for one API server, whose client certificate can be exchanged while it is in use.

    Loading a second certificate into a plain context does not replace the first where their keys are of different types
    (RSA and EC): OpenSSL keeps both and may go on presenting the old one. So a new certificate comes with a successor,
    a context of the same settings, and new connections are wrapped by that.
    """

    _authorities: str | None
    _verify: bool
    _successor: ssl.SSLContext | None
    _presented: bytes

    def __new__(cls, *, authorities: Pem | None = None, verify: bool = True) -> Self:
        """Trust the given authorities, those of the system where none are given, or (verify=False) anybody."""
        context = super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)
        context._authorities = certificates_in(authorities) if authorities else None
        context._verify = verify
        context._successor = None
        context._presented = b""
        context._settle(context)
        return context

    def __init__(self, *, authorities: Pem | None = None, verify: bool = True) -> None:
        """Nothing is left to do: contexts are made in `__new__`."""

    def _settle(self, context: ssl.SSLContext) -> None:
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        context.hostname_checks_common_name = False  # as Go: only the alternative names count
        if not self._verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif self._authorities is None:
            context.load_default_certs()
        else:
            # As Go: an intermediate, or the server's own certificate, may be what is trusted.
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
            context.load_verify_locations(cadata=self._authorities)

    def present(self, certificate: Pem, key: Pem) -> None:
        """Present this certificate on every connection from now on; one that cannot be used changes nothing."""
        presented = hashlib.sha256(certificate.data + b"\0" + key.data).digest()
        if presented == self._presented:
            return  # the same again: connections that are open are as good as new ones
        certificates_in(certificate)
        successor = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._settle(successor)
        _load(successor, certificate, key)
        self._successor, self._presented = successor, presented

    def without_certificate(self) -> ClientTls:
        """A context that trusts the same authorities and presents nothing: the server knows its user by other means."""
        trusted = None if self._authorities is None else Pem(origin="trusted", data=self._authorities.encode("ascii"))
        return ClientTls(authorities=trusted, verify=self._verify)

    def can_check(self, name: str) -> bool:
        """Whether a server's certificate can be checked for this name at all."""
        try:
            self.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname=name)
        except (ValueError, TypeError, ssl.SSLError):
            return False
        return True

    @property
    def current(self) -> ssl.SSLContext:
        """The plain context that new connections are wrapped by now: another one after each change of certificate."""
        return self if self._successor is None else self._successor

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Wrap a connection of asyncio, with the certificate that is the newest now."""
        wrap = super().wrap_bio if self._successor is None else self._successor.wrap_bio
        return wrap(incoming, outgoing, server_side, server_hostname, session)


def current(context: ssl.SSLContext) -> ssl.SSLContext:
    """The context to open a connection with now.

    aiohttp pools connections by context: a request that names this one never uses a connection that was opened with a
    client certificate that has been replaced since.
    """
    return context.current if isinstance(context, ClientTls) else context


def server_context(certificate: Pem, key: Pem) -> ssl.SSLContext:
    """A context to listen with; ConfigError says what is wrong with the certificate or its key."""
    certificates_in(certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    _load(context, certificate, key)
    return context


def certificates_in(pem: Pem) -> str:
    """The certificates of a PEM text without what may stand around them; raises ConfigError where there is none."""
    found = b"\n".join(_CERTIFICATE.findall(pem.data))
    if not found:
        raise ConfigError(f"{pem.origin}: holds no PEM certificate")
    try:
        text = found.decode("ascii")
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{pem.origin}: holds a PEM certificate that is damaged") from error
    return text


class _KeyIsEncryptedError(Exception):
    pass


def _no_password() -> NoReturn:
    # Without this OpenSSL would ask for the password on the terminal.
    raise _KeyIsEncryptedError


def _load(context: ssl.SSLContext, certificate: Pem, key: Pem) -> None:
    if b"PRIVATE KEY-----" not in key.data:
        raise ConfigError(f"{key.origin}: holds no PEM private key")
    try:
        with _as_file(certificate.data) as certificate_path, _as_file(key.data) as key_path:
            context.load_cert_chain(certificate_path, key_path, password=_no_password)
    except _KeyIsEncryptedError as error:
        raise ConfigError(f"{key.origin}: is encrypted with a password, which is not supported") from error
    except ssl.SSLError as error:
        if error.reason in {"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"}:
            raise ConfigError(f"{key.origin}: is not the key of the certificate in {certificate.origin}") from error
        raise ConfigError(f"{key.origin}: holds a PEM private key that is damaged or cannot be used") from error
    except OSError as error:
        raise ConfigError(f"{key.origin}: cannot be loaded: {error.strerror or type(error).__name__}") from error


@contextlib.contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """A path under which OpenSSL can read `data` for a moment: in memory on Linux, else a file only we can read."""
    if sys.platform == "linux":
        try:
            descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
        except OSError:
            descriptor = -1
        if descriptor >= 0:
            with os.fdopen(descriptor, "wb") as memory:
                memory.write(data)
                memory.flush()
                path = f"/proc/self/fd/{descriptor}"
                if Path(path).exists():
                    yield path
                    return
    with tempfile.NamedTemporaryFile(prefix="edgewright-", suffix=".pem") as named:  # made with mode 0600
        named.write(data)
        named.flush()
        yield named.name
