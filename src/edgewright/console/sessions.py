"""Sessions without a store: what a session knows is in cookies, sealed with a key that only consoles have.

`identity` opens and seals them. A value that is too big for one cookie is cut into several; consoles with the same key
file share their sessions. Pure but for the random nonce of each seal.
"""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TypeVar

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from edgewright.runtime.config import ConfigError
from edgewright.runtime.errors import UNFIT

T = TypeVar("T")

CHUNK: Final = 3800
"""Characters of a value in one cookie: browsers take 4096 bytes with name and attributes."""
MAX_CHUNKS: Final = 6
"""All chunks come in one header of every request, which must stay within the limits of proxies and of ours."""
_MIN_KEY: Final = 32
_MAX_KEY_FILE: Final = 16 << 10
_NONCE: Final = 12


class NotSealed(Exception):
    """A value was not sealed by us, for this purpose, with a key that is known, or was changed since."""


class TooBig(Exception):
    """A value does not fit into the cookies of one request."""


class Session(msgspec.Struct, frozen=True, array_like=True):
    """Somebody who has signed in."""

    id: str
    """Tells sessions apart."""
    id_token: str
    """What goes to the API server."""
    refresh_token: str
    """What a new ID token is asked for with; empty where the provider gave none."""
    subject: str
    nonce: str
    expires: float
    """When the ID token ends, in seconds since 1970."""
    renew_at: float
    """From when on a new ID token is asked for."""
    ends: float
    """When the session ends, however often the token was refreshed."""
    user: str = ""
    """As whom the console acts for them; empty: the API server knows the ID token."""
    groups: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Without the tokens."""
        return f"Session(id={self.id!r}, expires={self.expires}, ends={self.ends})"


class Attempt(msgspec.Struct, frozen=True, array_like=True):
    """A sign-in that has begun: what must come back, and what only the console that began it can know."""

    state: str
    nonce: str
    verifier: str
    redirect_uri: str
    until: float


class Sealer:
    """Seals with the first key, opens with any."""

    def __init__(self, keys: list[bytes], *, context: str) -> None:
        """What was sealed in another context (another issuer, another client) is not opened."""
        self._boxes = [AESGCM(_derived(key)) for key in keys]
        self._context = context

    def seal(self, purpose: str, value: object) -> str:
        """A value that only a holder of the key can read or make; what it is for is sealed in."""
        nonce = secrets.token_bytes(_NONCE)
        sealed = self._boxes[0].encrypt(nonce, msgspec.msgpack.encode(value), self._bound(purpose))
        return base64.urlsafe_b64encode(nonce + sealed).rstrip(b"=").decode()

    def unseal(self, purpose: str, text: str, kind: type[T]) -> T:
        """What was sealed for the same purpose."""
        try:
            raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            raise NotSealed from None
        for box in self._boxes:
            try:
                return msgspec.msgpack.decode(box.decrypt(raw[:_NONCE], raw[_NONCE:], self._bound(purpose)), type=kind)
            except (InvalidTag, ValueError, *UNFIT):
                continue
        raise NotSealed

    def _bound(self, purpose: str) -> bytes:
        return f"{purpose}\0{self._context}".encode()


def _derived(key: bytes) -> bytes:
    return HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=b"edgewright console session").derive(key)


def new_keys() -> list[bytes]:
    """A key that ends with the process."""
    return [secrets.token_bytes(_MIN_KEY)]


def read_keys(path: Path, *, option: str) -> list[bytes]:
    """The keys of a file, one per line: the first seals, the others open what was sealed before a change of keys."""
    try:
        with path.open("rb") as file:
            lines = file.read(_MAX_KEY_FILE + 1)
    except OSError as error:
        raise ConfigError(f"{option}: {path}: {error.strerror}") from error
    keys = [line.strip() for line in lines.splitlines() if line.strip()]
    if not keys or len(lines) > _MAX_KEY_FILE or any(len(key) < _MIN_KEY for key in keys):
        raise ConfigError(
            f"{option}: {path}: must have one key per line, each of at least {_MIN_KEY} characters, such as "
            "`openssl rand -base64 32` prints"
        )
    return keys


def chunked(name: str, value: str) -> Iterator[tuple[str, str]]:
    """Names and values of the cookies that hold a value; the first says how many there are."""
    count = max(1, -(-len(value) // CHUNK))
    if count > MAX_CHUNKS:
        raise TooBig
    for number in range(count):
        part = value[number * CHUNK : (number + 1) * CHUNK]
        yield f"{name}-{number}", f"{count}.{part}" if number == 0 else part


def joined(name: str, cookies: Mapping[str, str]) -> str:
    """The value that cookies hold, empty where there is none or a part is missing."""
    count, _, first = cookies.get(f"{name}-0", "").partition(".")
    if len(count) != 1 or not count.isascii() or not count.isdecimal() or not 1 <= int(count) <= MAX_CHUNKS:
        return ""
    rest = [cookies.get(f"{name}-{number}", "") for number in range(1, int(count))]
    return first + "".join(rest) if all(rest) else ""


def present(name: str, cookies: Mapping[str, str]) -> list[str]:
    """The names of all cookies that could hold a part of the value, also those left over from a longer one."""
    return [each for number in range(MAX_CHUNKS) if (each := f"{name}-{number}") in cookies]
