"""Where a request's credentials come from, over time: tokens, token files, passwords, certificates, impersonation.

`config` chooses and combines them; `client` asks for the headers of each request, and says when the answer was 401.
They never talk to the API server, and never show a secret in a repr, a message or a log line. Exec plugins, which are
programs of others, have their own module `exec_plugin`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias
from urllib.parse import quote

from multidict import CIMultiDict, CIMultiDictProxy

from edgewright.runtime import logs
from edgewright.runtime.clock import Clock, SystemClock
from edgewright.runtime.tls import ClientTls, ConfigError, Mark, PemFile, PemSource, mark_of, read_bytes

log = logs.get("runtime.credentials")

LOOK_EVERY = 5.0
"""Seconds between two looks at whether a file was replaced."""
READ_EVERY = 60.0
"""Seconds after which a file is read again though it looks the same: client-go's limit for a token file."""

Headers: TypeAlias = CIMultiDictProxy[str]
"""Headers that nobody can change, so that they are shared by requests; a name may be repeated."""


class CredentialsError(ConfigError):
    """Credentials cannot be had now: one sentence that names the user entry and what to look at, never a secret."""


class Credentials(Protocol):
    """What authenticates a request. What is cached makes asking cheap, so that it is done for each request."""

    async def headers(self) -> Mapping[str, str]:
        """Headers to send with a request now. A name may be repeated: add them with `CIMultiDict.extend`."""

    def refused(self) -> None:
        """The server answered 401: what is cached must not be used again."""


def bearer(token: str, *, origin: str) -> Headers:
    """The header that carries a token; `origin` names the field that it comes from."""
    if not token:
        raise CredentialsError(f"{origin}: holds no token")
    if not all("!" <= character <= "~" for character in token):
        raise CredentialsError(f"{origin}: is not a token: it has characters that cannot stand in a header")
    return CIMultiDictProxy(CIMultiDict({"Authorization": f"Bearer {token}"}))


class _Fixed:
    def __init__(self, headers: Headers) -> None:
        self._headers = headers

    def __repr__(self) -> str:
        """Which sort it is, and nothing else: the rest is secret."""
        return f"{type(self).__name__}()"

    async def headers(self) -> Headers:
        """Always the same headers."""
        return self._headers

    def refused(self) -> None:
        """Nothing else can be had: the next request tries the same again."""


class Anonymous(_Fixed):
    """No credentials in headers: an unprotected server, or one that knows us by our client certificate."""

    def __init__(self) -> None:
        """There is nothing to say."""
        super().__init__(CIMultiDictProxy(CIMultiDict()))


class Token(_Fixed):
    """A bearer token that stands in the configuration."""

    def __init__(self, token: str, *, origin: str = "token") -> None:
        """Take the token as it is; one that cannot stand in a header is refused."""
        super().__init__(bearer(token, origin=origin))


class Basic(_Fixed):
    """A user name and a password."""

    def __init__(self, username: str, password: str) -> None:
        """Encode both as UTF-8, as Go does."""
        encoded = base64.b64encode(f"{username}:{password}".encode("utf-8", "replace")).decode("ascii")
        super().__init__(CIMultiDictProxy(CIMultiDict({"Authorization": f"Basic {encoded}"})))


class _Rotation:
    """Decides when files that somebody else replaces are to be read again."""

    def __init__(self, paths: Iterable[Path], *, clock: Clock | None) -> None:
        self._paths = tuple(paths)
        self._clock = clock or SystemClock()
        self.reading()

    def reading(self) -> None:
        """They are read now. Called before the read, so that a change during it is seen at the next look."""
        self._marks = self._look()
        self._read_at = self._looked_at = self._clock.elapsed()

    def due(self) -> bool:
        """Whether to read them now; touches the files at most once in LOOK_EVERY."""
        now = self._clock.elapsed()
        if now - self._looked_at < LOOK_EVERY:
            return False
        self._looked_at = now
        return now - self._read_at >= READ_EVERY or self._look() != self._marks

    def _look(self) -> list[Mark | None]:
        return [mark_of(path) for path in self._paths]


class TokenFile:
    """A bearer token in a file that somebody replaces before the token expires, such as the kubelet in a Pod.

    A file that cannot be read for a while does no harm as long as the server takes the token read before.
    """

    def __init__(self, path: Path, *, origin: str, clock: Clock | None = None) -> None:
        """Read the file a first time; `origin` names the field that names the file."""
        self._path = path
        self._origin = origin
        self._rotation = _Rotation([path], clock=clock)
        self._headers: Headers | None = self._read()

    def __repr__(self) -> str:
        """The file, not what it holds."""
        return f"TokenFile({str(self._path)!r})"

    async def headers(self) -> Headers:
        """The newest token of the file."""
        if self._headers is None:
            self._rotation.reading()
            self._headers = self._read()
        elif self._rotation.due():
            self._rotation.reading()
            try:
                self._headers = self._read()
            except ConfigError as error:
                log.warning("token file cannot be read; using the previous token", reason=str(error))
        return self._headers

    def refused(self) -> None:
        """Read the file again before the next request."""
        self._headers = None

    def _read(self) -> Headers:
        data = read_bytes(self._path, origin=self._origin)
        if not data.strip():
            raise CredentialsError(f"{self._origin}: {self._path}: is empty")
        return bearer(data.decode("utf-8", "replace").strip(), origin=f"{self._origin}: {self._path}")


class CertificateFiles:
    """A client certificate in files that somebody replaces; it goes to new connections, with other credentials."""

    def __init__(
        self,
        inner: Credentials,
        *,
        tls: ClientTls,
        certificate: PemSource,
        key: PemSource,
        clock: Clock | None = None,
    ) -> None:
        """Load the pair a first time; either of the two may also stand in the configuration."""
        self._inner = inner
        self._tls = tls
        self._certificate = certificate
        self._key = key
        paths = [source.path for source in (certificate, key) if isinstance(source, PemFile)]
        self._rotation = _Rotation(paths, clock=clock)
        self._refused = False
        self._load()

    def __repr__(self) -> str:
        """What it adds to, and where the pair comes from."""
        return f"CertificateFiles({self._inner!r}, {self._certificate!r}, {self._key!r})"

    async def headers(self) -> Mapping[str, str]:
        """The other credentials' headers, after a look at whether the files were replaced."""
        if self._refused or self._rotation.due():
            self._refused = False
            self._rotation.reading()
            try:
                self._load()
            except ConfigError as error:  # perhaps only one of the two is replaced yet
                log.warning("new client certificate cannot be used; using the previous one", reason=str(error))
        return await self._inner.headers()

    def refused(self) -> None:
        """Read the files again before the next request."""
        self._refused = True
        self._inner.refused()

    def _load(self) -> None:
        pair = self._certificate.read(), self._key.read()
        self._tls.present(*pair)


@dataclass(frozen=True, kw_only=True)
class Impersonated:
    """Acts as another user, which the user of the other credentials must be allowed to."""

    inner: Credentials
    user: str
    uid: str = ""
    groups: Sequence[str] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)

    async def headers(self) -> Headers:
        """The other credentials' headers and one Impersonate header for each thing that is said of the user."""
        headers = CIMultiDict(await self.inner.headers())
        headers.add("Impersonate-User", self.user)
        if self.uid:
            headers.add("Impersonate-Uid", self.uid)
        for group in self.groups:
            headers.add("Impersonate-Group", group)
        for key, values in self.extra.items():
            # A header's name takes few characters; the server undoes the escapes.
            name = "Impersonate-Extra-" + quote(key, safe="!#$&'*+-.^_`|~")
            for value in values:
                headers.add(name, value)
        return CIMultiDictProxy(headers)

    def refused(self) -> None:
        """It is the other credentials that the server did not take."""
        self.inner.refused()
