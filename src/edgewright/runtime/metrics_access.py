"""Who may read metrics where they are served over TLS: the API server is asked, as for everything else in a cluster.

The manager asks `MetricsAccess` for each scrape, and `serving_tls` has the certificate that is presented. A token is
neither kept nor logged: answers are remembered for a short time by its digest. Where the API server cannot be asked,
nobody gets in.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Final, NamedTuple

from edgewright.runtime import logs
from edgewright.runtime.access_review import ACCESS_REVIEW, TOKEN_REVIEW, review
from edgewright.runtime.client import Client
from edgewright.runtime.clock import Clock
from edgewright.runtime.errors import KubernetesError
from edgewright.runtime.tls import ConfigError, Mark, Pem, PemFile, mark_of, server_context

CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
ALLOWED_SECONDS: Final = 60.0
"""For how long one who may read is not asked about again."""
REFUSED_SECONDS: Final = 10.0
_REMEMBERED: Final = 256
_AT_ONCE: Final = 4
_MAX_TOKEN: Final = 16 << 10
_SELF_SIGNED_DAYS: Final = 3650

_log = logs.get("runtime.metrics_access")


class Refused(NamedTuple):
    """Why somebody does not get a page."""

    status: int
    why: str


_NOBODY: Final = Refused(401, "a token of the cluster is needed: Authorization: Bearer TOKEN")
_UNASKED: Final = Refused(503, "the API server cannot be asked who may read this")


class MetricsAccess:
    """Asks the API server who somebody is and whether they may `get` a path, such as /metrics."""

    def __init__(self, client: Client, *, clock: Clock, path: str = "/metrics") -> None:
        """The client must be one that no lease fences: those who do not lead are scraped too."""
        self._client = client
        self._clock = clock
        self._path = path
        self._known: OrderedDict[bytes, tuple[float, Refused | None]] = OrderedDict()
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def refusal(self, headers: Mapping[str, str]) -> Refused | None:
        """Why the sender of these headers does not get the page; None where it does."""
        scheme, _, token = headers.get("Authorization", "").strip().partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or len(token) > _MAX_TOKEN:
            return _NOBODY
        digest = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        if (known := self._remembered(digest)) is not None:
            return known[1]
        async with self._slots:
            if (known := self._remembered(digest)) is not None:  # somebody else has asked meanwhile
                return known[1]
            try:
                found = await self._ask(token)
            except KubernetesError as error:
                _log.warning("cannot ask who may read metrics; refused", error=str(error))
                return _UNASKED
            seconds = ALLOWED_SECONDS if found is None else REFUSED_SECONDS
            self._known[digest] = (self._clock.elapsed() + seconds, found)
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
            return found

    def _remembered(self, digest: bytes) -> tuple[float, Refused | None] | None:
        known = self._known.get(digest)
        return known if known is not None and known[0] > self._clock.elapsed() else None

    async def _ask(self, token: str) -> Refused | None:
        reviewed = await review(self._client, TOKEN_REVIEW, {"token": token})
        if not reviewed.get("authenticated"):
            return _NOBODY
        user = reviewed.get("user") or {}
        asked = {
            "user": user.get("username", ""),
            "uid": user.get("uid", ""),
            "groups": user.get("groups") or [],
            "extra": user.get("extra") or {},
            "nonResourceAttributes": {"path": self._path, "verb": "get"},
        }
        if (await review(self._client, ACCESS_REVIEW, asked)).get("allowed"):
            return None
        return Refused(403, f"{asked['user']} may not get {self._path}")


def serving_tls(folder: Path | None, *, clock: Clock, name: str = "localhost") -> ssl.SSLContext:
    """TLS with tls.crt and tls.key of a folder, read again when they are replaced; else self-signed, until the end."""
    if folder is None:
        return server_context(*self_signed(name, clock=clock))
    files = folder / CERTIFICATE, folder / KEY

    def load() -> ssl.SSLContext:
        certificate, key = (PemFile(origin="--metrics-cert-path", path=path).read() for path in files)
        return server_context(certificate, key)

    outer = load()
    outer.sni_callback = _newest(files, load, outer)
    return outer


def _newest(
    files: tuple[Path, Path], load: Callable[[], ssl.SSLContext], first: ssl.SSLContext
) -> Callable[[ssl.SSLObject, str | None, ssl.SSLContext], None]:
    """Has each new connection use what the files hold then; what cannot be used is told once and changes nothing."""
    seen: list[Mark | None] = [mark_of(each) for each in files]
    current = first

    def choose(connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        nonlocal current
        now = [mark_of(each) for each in files]
        if now != seen:
            seen[:] = now
            try:
                current = load()
            except ConfigError as error:
                _log.warning("the new certificate for metrics cannot be used; the old one stays", error=str(error))
        connection.context = current

    return choose


def self_signed(name: str, *, clock: Clock) -> tuple[Pem, Pem]:
    """A certificate that nobody can check, and its key: what is served is encrypted, and readers prove who they are."""
    from cryptography import x509  # noqa: PLC0415 - only who serves this way waits for it
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415
    from cryptography.x509.oid import NameOID  # noqa: PLC0415

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = clock.now()
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=_SELF_SIGNED_DAYS))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return (
        Pem(origin="the self-signed certificate", data=certificate.public_bytes(serialization.Encoding.PEM)),
        Pem(origin="the key of the self-signed certificate", data=pem),
    )
