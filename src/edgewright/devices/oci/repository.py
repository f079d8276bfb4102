"""Asks one repository of a registry for manifests and blobs: logs in, follows redirects, tries again, resumes.

`pull` and `signature` call it. What it hands out has the digest that was asked for. Credentials go to the registry's
own host and to a token service of its own domain or of a named host, over TLS, and nowhere else; plain HTTP is spoken
to named hosts only.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Final, NoReturn, TypeVar
from urllib.parse import urldefrag, urljoin

import msgspec

from edgewright.api.flash_pod import Outcome
from edgewright.api.reference import Reference, is_digest
from edgewright.devices.drivers.driver import Ended
from edgewright.devices.http import Incoming, Origin, Session, TooLong, origin_of
from edgewright.devices.oci.access import Access
from edgewright.devices.oci.challenge import Challenge, parse_challenge, read_token
from edgewright.devices.oci.limits import Limits
from edgewright.devices.oci.manifests import ACCEPT, Descriptor

_REDIRECTS: Final = {301, 302, 303, 307, 308}
_SMALL: Final = 64 << 10
_MAX_PAUSE: Final = 10.0

T = TypeVar("T")


class Missing(Ended):
    """The registry has no such thing."""


class _Again(OSError):
    """The registry asks to be asked again later, or has to be."""

    def __init__(self, message: str, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after


class Repository:
    """One repository, over the connections of one session."""

    def __init__(
        self, session: Session, reference: Reference, *, access: Access, limits: Limits, log: Callable[[str], None]
    ) -> None:
        self._session = session
        self._reference = reference
        self._access = access
        self._limits = limits
        self._log = log
        self._plain = access.is_plain(reference.host)
        self._base = f"{'http' if self._plain else 'https'}://{reference.host}/v2/{reference.repository}"
        self._origin = origin_of(self._base)
        self._authorization = ""

    async def manifest(self, target: str) -> tuple[bytes, str]:
        """The index or manifest that a tag or a digest stands for, and its digest; Missing where there is none."""

        async def ask() -> tuple[bytes, str]:
            async with self._ask(f"{self._base}/manifests/{target}", {"Accept": ACCEPT}) as incoming:
                if incoming.status != 200:
                    await self._fail(incoming, f"{target} of {self._reference.repository}")
                try:
                    return await incoming.read(self._limits.manifest), incoming.headers.get("docker-content-digest", "")
                except TooLong as error:
                    raise Ended(Outcome.CORRUPT, f"the manifest of {self._reference} is too large: {error}") from None

        content, told = await self._retrying(ask, f"the manifest {target}")
        expected = (
            target if is_digest(target) else told if is_digest(told) else f"sha256:{_hexdigest('sha256', content)}"
        )
        _check_digest(content, expected, f"the manifest {target}")
        return content, expected

    async def blob(self, descriptor: Descriptor, limit: int) -> bytes:
        """The content that a descriptor names, at most `limit` bytes."""
        name = f"the blob {descriptor.digest}"
        if descriptor.size > limit:
            raise Ended(Outcome.CORRUPT, f"{name} has {descriptor.size} bytes, more than the {limit} that are allowed")
        received = bytearray()
        cuts = 0

        async def ask() -> None:
            nonlocal cuts
            if received and len(received) == descriptor.size:
                return  # cut after the last byte
            cuts += bool(received)
            headers = {"Range": f"bytes={len(received)}-"} if received else {}
            async with self._ask(f"{self._base}/blobs/{descriptor.digest}", headers) as incoming:
                await self._receive(incoming, received, descriptor.size, name)

        await self._retrying(ask, name, lambda: len(received))
        if cuts and not _has_digest(received, descriptor.digest):
            self._log(f"{name} was put together wrongly from {cuts + 1} parts; it is fetched again")
            received.clear()
            await self._retrying(ask, name, lambda: len(received))
        content = bytes(received)
        _check_digest(content, descriptor.digest, name)
        return content

    async def _receive(self, incoming: Incoming, received: bytearray, size: int, name: str) -> None:
        """Adds what comes to what is there; a server that knows no ranges begins again."""
        if received and incoming.status == 416:
            received.clear()
            raise _Again("the registry does not go on where it was cut")
        if received and incoming.status == 206:
            begins = incoming.headers.get("content-range", "").removeprefix("bytes ").partition("-")[0]
            if begins != str(len(received)):
                received.clear()
                raise _Again("the registry goes on at another place than where it was cut")
            self._log(f"{name}: going on after {len(received)} of {size} bytes")
        elif incoming.status == 200:
            received.clear()
        else:
            await self._fail(incoming, name)
        async for chunk in incoming.chunks():
            received += chunk
            if len(received) > size:
                raise Ended(Outcome.CORRUPT, f"{name} is longer than the {size} bytes that the manifest says")
        if len(received) < size:
            raise ConnectionError(f"it ended after {len(received)} of {size} bytes")

    async def _retrying(self, ask: Callable[[], Awaitable[T]], name: str, progress: Callable[[], int] = lambda: 0) -> T:
        """Asks until there is an answer; an attempt that brought something does not count, but for a last bound."""
        failures, best = 0, 0
        for _ in range(self._limits.attempts * 10):
            try:
                return await ask()
            except OSError as error:
                _give_up_at_once(error, self._reference.host)
                problem, after = str(error) or type(error).__name__, getattr(error, "after", 0.0)
            failures = 1 if progress() > best else failures + 1
            best = max(best, progress())
            if failures >= self._limits.attempts:
                break
            self._log(f"{name}: {problem}; asking again")
            await asyncio.sleep(min(_MAX_PAUSE, max(after, self._limits.pause * 2 ** (failures - 1))))
        raise Ended(Outcome.FAILED, f"{self._reference.host} did not give {name}: {problem}")

    # --- one question, with what stands between it and the answer ----------------------------------------------------

    @asynccontextmanager
    async def _ask(self, url: str, headers: dict[str, str]) -> AsyncIterator[Incoming]:
        async with AsyncExitStack() as stack:
            incoming, at_home = await self._follow(stack, url, headers)
            if incoming.status == 401 and at_home:
                challenge = parse_challenge(incoming.headers.get("www-authenticate", ""))
                await _finish(incoming, stack)
                await self._log_in(challenge)
                incoming, _ = await self._follow(stack, url, headers)
            yield incoming

    async def _follow(self, stack: AsyncExitStack, url: str, headers: dict[str, str]) -> tuple[Incoming, bool]:
        """The answer after all redirects, and whether it is still the registry's own."""
        at_home = True
        for _ in range(self._limits.redirects + 1):
            login = {"Authorization": self._authorization} if at_home and self._authorization else {}
            incoming = await stack.enter_async_context(self._session.open("GET", url, headers={**headers, **login}))
            if incoming.status not in _REDIRECTS:
                return incoming, at_home
            url = self._redirected(url, incoming.headers.get("location", ""))
            # Who was sent away once gets no credentials any more, not even by being sent back.
            at_home = at_home and origin_of(url) == self._origin
            await _finish(incoming, stack)
        raise Ended(Outcome.FAILED, f"{self._reference.host} redirects more than {self._limits.redirects} times")

    def _redirected(self, url: str, location: str) -> str:
        try:
            target = urldefrag(urljoin(url, location)).url
            origin = origin_of(target)
        except (OSError, ValueError):
            raise Ended(
                Outcome.FAILED, f"{self._reference.host} redirects to {location[:200]!r}, which is no URL"
            ) from None
        if origin.scheme == "http" and (not self._plain or not self._may_be_plain(origin)):
            raise Ended(
                Outcome.REFUSED,
                f"{self._reference.host} redirects to {origin.authority} over plain HTTP, which is not allowed",
            )
        return target

    def _may_be_plain(self, origin: Origin) -> bool:
        return self._access.is_plain(origin.authority) or self._access.is_plain(f"{origin.host}:{origin.port}")

    # --- logging in --------------------------------------------------------------------------------------------------

    async def _log_in(self, challenge: Challenge | None) -> None:
        host = self._reference.host
        login = self._access.login(self._reference)
        if challenge is None:
            raise Ended(Outcome.REFUSED, f"{host} refuses {self._reference} and names no way to log in that is known")
        if login is not None and self._plain:
            raise Ended(
                Outcome.REFUSED,
                f"{host} wants credentials and is spoken to over plain HTTP, over which they are never sent: "
                "give it TLS, or take it off the list of plain registries",
            )
        if challenge.bearer:
            self._authorization = f"Bearer {await self._token(challenge)}"
        elif login is not None:
            self._authorization = login.header
        else:
            raise Ended(
                Outcome.REFUSED, f"{host} wants credentials for {self._reference}: name them in firmwarePullSecret"
            )

    async def _token(self, challenge: Challenge) -> str:
        host, login = self._reference.host, self._access.login(self._reference)
        try:
            url = challenge.token_url(self._reference.repository)
            realm = origin_of(url)
        except (OSError, ValueError):
            raise Ended(Outcome.FAILED, f"{host} names {challenge.realm[:200]!r} for tokens, which is no URL") from None
        if realm.scheme == "http" and not (self._plain and self._may_be_plain(realm)):
            raise Ended(Outcome.REFUSED, f"{host} wants a token of {realm.authority} over plain HTTP: not allowed")
        if login is not None and not self._access.trusts(realm.host, self._origin.host):
            raise Ended(
                Outcome.REFUSED,
                f"{host} names {realm.authority} for tokens, which is of another domain: the credentials of"
                f" {login.user!r} are not sent there (--token-host {realm.host} of the operator lets them)",
            )
        headers = {"Authorization": login.header} if login is not None else {}
        answer = await self._session.request("GET", url, headers=headers, limit=_SMALL)
        if answer.status == 429 or answer.status >= 500:
            raise _Again(f"the token service {realm.authority} answers {answer.status}", _retry_after(answer.headers))
        if answer.status in {401, 403}:
            whose = f"the credentials of {login.user!r}" if login is not None else "to give a token without credentials"
            raise Ended(Outcome.REFUSED, f"{realm.authority} refuses {whose} for {self._reference}")
        token = read_token(answer.body) if answer.status == 200 else ""
        if not token:
            raise Ended(
                Outcome.FAILED, f"the token service {realm.authority} gives no token: it answers {answer.status}"
            )
        return token

    async def _fail(self, incoming: Incoming, name: str) -> NoReturn:
        """Says what an answer means that is not the one hoped for."""
        host, status = self._reference.host, incoming.status
        if status == 429 or status >= 500:
            raise _Again(f"{host} answers {status}", _retry_after(incoming.headers))
        if status in {401, 403}:
            login = self._access.login(self._reference)
            whose = f"to {login.user!r}" if login is not None and not self._plain else "without credentials"
            raise Ended(Outcome.REFUSED, f"{host} refuses {self._reference} {whose}{await _reason(incoming)}")
        if status == 404:
            raise Missing(Outcome.FAILED, f"{host} has no {name}{await _reason(incoming)}")
        raise Ended(Outcome.FAILED, f"{host} answers {status} when asked for {name}{await _reason(incoming)}")


class _Error(msgspec.Struct):
    message: str = ""


class _Errors(msgspec.Struct):
    errors: list[_Error] = []


async def _reason(incoming: Incoming) -> str:
    """What a registry says about its refusal, where it says something."""
    try:
        errors = msgspec.json.decode(await incoming.read(_SMALL), type=_Errors).errors
    except (OSError, msgspec.DecodeError, UnicodeError, RecursionError):
        return ""
    return f": {errors[0].message[:200]}" if errors and errors[0].message else ""


async def _finish(incoming: Incoming, stack: AsyncExitStack) -> None:
    """Reads what is left of a short answer, so that its connection can be used again, and lets go of it."""
    with suppress(OSError):  # then its connection is not used again, and that is all
        await incoming.read(_SMALL)
    await stack.aclose()


def _give_up_at_once(error: OSError, host: str) -> None:
    """Ended where asking again cannot help."""
    if isinstance(error, ssl.SSLCertVerificationError):
        raise Ended(
            Outcome.FAILED,
            f"the certificate of {host} is not trusted ({error.verify_message}): SSL_CERT_FILE can name the authority",
        ) from None
    if isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
        raise Ended(
            Outcome.FAILED, f"{host} does not speak TLS: a registry with plain HTTP must be named as one"
        ) from None


def _retry_after(headers: dict[str, str]) -> float:
    text = headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else 0.0


def _hexdigest(algorithm: str, content: bytes | bytearray) -> str:
    return hashlib.new(algorithm, content, usedforsecurity=True).hexdigest()


def _has_digest(content: bytes | bytearray, digest: str) -> bool:
    algorithm, _, expected = digest.partition(":")
    return _hexdigest(algorithm, content) == expected


def _check_digest(content: bytes, digest: str, name: str) -> None:
    if not _has_digest(content, digest):
        raise Ended(Outcome.CORRUPT, f"{name} is damaged: its content has another digest than {digest}")
