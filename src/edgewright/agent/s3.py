"""A bucket of an S3 server, with the few requests that an agent needs: objects, uploads in parts, lists, downloads.

`uploads` and `downloads` call it. It exists because an upload in parts must be taken up again after a restart, which
the libraries for Python offer only with 40 MB of memory. Requests are signed (version 4), have time limits and are sent
once; a server whose clock is another is followed. What goes wrong is a `BucketError` in a sentence without any key.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import html
import os
import re
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final, Protocol
from urllib.parse import quote

from edgewright.api.edge_protocol import S3Configuration
from edgewright.runtime.clock import Clock
from edgewright.runtime.happy_eyeballs import plain_socket
from edgewright.runtime.http import Address, Connection, Pool, StaleError, Stream
from edgewright.runtime.http_parser import Answer
from edgewright.runtime.tls import ClientTls, ConfigError, Pem

_SECONDS: Final = 60.0
_SLOWEST: Final = 16 << 10
"""Bytes per second below which a transfer is given up."""
_MAX_LISTED: Final = 100_000
_PIECE: Final = 64 << 10
_UNSIGNED: Final = "UNSIGNED-PAYLOAD"


class BucketError(Exception):
    """The bucket cannot be used now, in a sentence."""

    def __init__(self, text: str, *, code: str = "") -> None:
        super().__init__(text)
        self.code = code
        """What the server calls it: NoSuchUpload, AccessDenied …"""


class _Stale(BucketError):
    """A connection that had been used before was closed meanwhile: the same request may go out again."""


@dataclass(frozen=True, kw_only=True)
class Object:
    """What a bucket has under a key."""

    key: str
    size: int
    etag: str


class Content(Protocol):
    """What is uploaded, in pieces and as often as it is asked for."""

    @property
    def length(self) -> int:
        """Its bytes."""

    def pieces(self) -> Iterator[bytes]:
        """All of it, from the beginning."""


@dataclass(frozen=True)
class Bytes:
    """Content that is in memory."""

    data: bytes = field(repr=False)

    @property
    def length(self) -> int:
        """Its bytes."""
        return len(self.data)

    def pieces(self) -> Iterator[bytes]:
        """All of it."""
        if self.data:
            yield self.data


@dataclass(frozen=True)
class Section:
    """A part of an open file; a file that became shorter is an OSError in its pieces."""

    descriptor: int
    offset: int
    length: int

    def pieces(self) -> Iterator[bytes]:
        """All of it, read when it is asked for."""
        at, end = self.offset, self.offset + self.length
        while at < end:
            piece = os.pread(self.descriptor, min(_PIECE, end - at), at)
            if not piece:
                raise OSError("the file became shorter")
            at += len(piece)
            yield piece


class Bucket(Protocol):
    """Where files go and come from."""

    async def put(self, key: str, content: Content) -> None:
        """Stores a small file."""

    async def begin(self, key: str) -> str:
        """Begins an upload in parts and gives its id."""

    async def put_part(self, key: str, upload: str, number: int, content: Content) -> str:
        """Stores a part, numbered from 1, and gives its tag."""

    async def complete(self, key: str, upload: str, tags: Sequence[str]) -> None:
        """Makes the parts one object."""

    async def abort(self, key: str, upload: str) -> None:
        """Drops the parts of an upload."""

    async def listed(self, prefix: str) -> list[Object]:
        """All that is below a prefix."""

    def get(self, found: Object, *, offset: int = 0) -> AsyncGenerator[bytes]:
        """The content of an object from a byte on, as long as it is the same object."""

    async def close(self) -> None:
        """Ends every connection."""


class S3Bucket:
    """A bucket of any S3 server, addressed by path."""

    def __init__(self, s3: S3Configuration, clock: Clock, *, plain_http: bool = False) -> None:
        self._clock = clock
        self._region = s3.bucket_region or "us-east-1"
        self._id = _decoded(s3.aws_access_key_id, "aws_access_key_id")
        self._secret = _decoded(s3.aws_secret_access_key, "aws_secret_access_key")
        self._skew = timedelta()
        self._base = f"/{quote(s3.bucket_name, safe='-_.~')}"
        port = s3.bucket_port or (80 if plain_http else 443)
        self._address = Address(host=s3.bucket_host, port=port, secure=not plain_http)
        default = port == (80 if plain_http else 443)
        self._host = s3.bucket_host if default else self._address.authority
        context = None if plain_http else _tls(s3)
        self._pool = Pool(self._address, size=2, tls=lambda: context, make_socket=plain_socket)

    # --- what callers do ---------------------------------------------------------------------------------------------

    async def put(self, key: str, content: Content) -> None:
        """Stores a small file."""
        await self._ask("PUT", key, content=content)

    async def begin(self, key: str) -> str:
        """Begins an upload in parts and gives its id."""
        return _tag(await self._ask("POST", key, query={"uploads": ""}), "UploadId")

    async def put_part(self, key: str, upload: str, number: int, content: Content) -> str:
        """Stores a part, numbered from 1, and gives its tag."""
        query = {"partNumber": str(number), "uploadId": upload}
        answer = await self._ask("PUT", key, query=query, content=content)
        return answer.headers.get("etag", "")

    async def complete(self, key: str, upload: str, tags: Sequence[str]) -> None:
        """Makes the parts one object."""
        parts = "".join(
            f"<Part><PartNumber>{number}</PartNumber><ETag>{html.escape(tag)}</ETag></Part>"
            for number, tag in enumerate(tags, start=1)
        )
        body = f"<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>".encode()
        answer = await self._ask("POST", key, query={"uploadId": upload}, content=Bytes(body))
        if b"<Error>" in answer.body:  # the server has begun to answer before it found out
            raise _refusal(answer)

    async def abort(self, key: str, upload: str) -> None:
        """Drops the parts of an upload."""
        try:
            await self._ask("DELETE", key, query={"uploadId": upload})
        except BucketError as error:
            if error.code != "NoSuchUpload":
                raise

    async def listed(self, prefix: str) -> list[Object]:
        """All that is below a prefix."""
        found: list[Object] = []
        query = {"list-type": "2", "prefix": prefix}
        while True:
            answer = await self._ask("GET", "", query=query)
            text = answer.body.decode(errors="replace")
            for each in re.findall(r"<Contents>(.*?)</Contents>", text, re.DOTALL):
                key, size, etag = (_inner(each, name) for name in ("Key", "Size", "ETag"))
                found.append(Object(key=key, size=int(size) if size.isdecimal() else 0, etag=etag))
            token = _inner(text, "NextContinuationToken")
            if not token or len(found) >= _MAX_LISTED:
                return found
            query = {**query, "continuation-token": token}

    async def get(self, found: Object, *, offset: int = 0) -> AsyncGenerator[bytes]:
        """The content of an object from a byte on, as long as it is the same object."""
        headers = {"if-match": found.etag} if found.etag else {}
        if offset:
            headers["range"] = f"bytes={offset}-"
        request = self._request("GET", found.key, {}, headers, Bytes(b""))
        async with self._talking(_SECONDS + found.size / _SLOWEST) as connection:
            whole = False
            try:
                answer, stream = await connection.open(request)
                if answer.status not in {200, 206}:
                    raise _refusal(Answer(answer.status, answer.headers, await _rest(stream)))
                if offset and answer.status != 206:
                    raise BucketError("the bucket does not send parts of an object")
                while chunk := await stream.read(_SECONDS):
                    yield chunk
                whole = True
            finally:
                if not whole:
                    connection.abort()  # the rest of the answer would be taken for the next one's

    async def close(self) -> None:
        """Ends every connection."""
        await self._pool.close()

    # --- one request -------------------------------------------------------------------------------------------------

    async def _ask(
        self, method: str, key: str, *, query: Mapping[str, str] | None = None, content: Content | None = None
    ) -> Answer:
        refusal, sent = BucketError("the bucket was not asked"), content or Bytes(b"")
        for _ in range(3):
            head = self._request(method, key, query or {}, {}, sent)
            try:
                async with self._talking(_SECONDS + sent.length / _SLOWEST) as connection:
                    answer = await connection.exchange(head, body=sent.pieces())
            except _Stale as error:
                refusal = error
                continue
            if answer.status < 300:
                return answer
            refusal = _refusal(answer)
            if refusal.code != "RequestTimeTooSkewed" or not self._follow(answer.headers.get("date", "")):
                break
        raise refusal

    def _follow(self, date: str) -> bool:
        """Takes the server's time for signatures: a device without a battery may believe in another year."""
        try:
            self._skew = parsedate_to_datetime(date).astimezone(UTC) - self._clock.now()
        except (ValueError, TypeError):
            return False
        return True

    @asynccontextmanager
    async def _talking(self, seconds: float) -> AsyncIterator[Connection]:
        try:
            async with asyncio.timeout(seconds):
                connection = await self._pool.take()
                try:
                    yield connection
                finally:
                    self._pool.give_back(connection)
        except StaleError as error:
            raise _Stale(f"{self._host}: {error}") from error
        except TimeoutError as error:
            raise BucketError(f"{self._host}: no answer in time") from error
        except ssl.SSLError as error:
            raise BucketError(f"{self._host}: TLS: {(error.reason or str(error)).replace('_', ' ').lower()}") from error
        except OSError as error:
            raise BucketError(f"{self._host}: {error.strerror or error}") from error

    def _request(
        self, method: str, key: str, query: Mapping[str, str], headers: Mapping[str, str], content: Content
    ) -> bytes:
        path = f"{self._base}/{quote(key, safe='-_.~/')}" if key else self._base
        pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in query.items())
        text = "&".join(f"{name}={value}" for name, value in pairs)
        digest = _UNSIGNED if self._address.secure else _digest(content)
        signed = signature(
            Signed(method=method, path=path, query=text, host=self._host, digest=digest),
            time=self._clock.now() + self._skew,
            region=self._region,
            key_id=self._id,
            secret=self._secret,
        )
        lines = {"host": self._host, "user-agent": "edgewright-agent", **signed, **headers}
        if method in {"PUT", "POST"}:
            lines["content-length"] = str(content.length)
        target = path + (f"?{text}" if text else "")
        head = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in lines.items()), "", ""]
        return "\r\n".join(head).encode()


@dataclass(frozen=True, kw_only=True)
class Signed:
    """What a signature covers."""

    method: str
    path: str
    query: str
    host: str
    digest: str
    """The SHA-256 of the content; TLS guards it where there is TLS."""


def signature(what: Signed, *, time: datetime, region: str, key_id: str, secret: str) -> dict[str, str]:
    """The headers that sign a request."""
    moment = time.strftime("%Y%m%dT%H%M%SZ")
    scope = f"{moment[:8]}/{region}/s3/aws4_request"
    names = "host;x-amz-content-sha256;x-amz-date"
    canonical = "\n".join(
        [
            *(what.method, what.path, what.query),
            *(f"host:{what.host}", f"x-amz-content-sha256:{what.digest}", f"x-amz-date:{moment}", ""),
            *(names, what.digest),
        ]
    )
    text = "\n".join(["AWS4-HMAC-SHA256", moment, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{secret}".encode()
    for part in (moment[:8], region, "s3", "aws4_request", text):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    credential = f"Credential={key_id}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
    return {
        "x-amz-date": moment,
        "x-amz-content-sha256": what.digest,
        "authorization": f"AWS4-HMAC-SHA256 {credential}",
    }


def _tls(s3: S3Configuration) -> ClientTls:
    bundle = _decoded(s3.aws_ca_bundle, "aws_ca_bundle").encode() if s3.aws_ca_bundle else b""
    try:
        return ClientTls(authorities=Pem(origin="aws_ca_bundle", data=bundle) if bundle else None)
    except (ConfigError, ssl.SSLError) as error:
        raise BucketError(f"storage.s3.aws_ca_bundle: {error}") from error


def _digest(content: Content) -> str:
    digest = hashlib.sha256()
    for piece in content.pieces():
        digest.update(piece)
    return digest.hexdigest()


def _decoded(text: str, name: str) -> str:
    try:
        return base64.b64decode(text, validate=True).decode().strip()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise BucketError(f"storage.s3.{name}: is not base64") from error


async def _rest(stream: Stream) -> bytes:
    parts: list[bytes] = []
    while len(parts) < 64 and (chunk := await stream.read(_SECONDS)):
        parts.append(chunk)
    return b"".join(parts)


def _inner(text: str, name: str) -> str:
    found = re.search(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
    return html.unescape(found[1]) if found else ""


def _tag(answer: Answer, name: str) -> str:
    found = _inner(answer.body.decode(errors="replace"), name)
    if not found:
        raise BucketError(f"the bucket's answer has no {name}")
    return found


def _refusal(answer: Answer) -> BucketError:
    text = answer.body.decode(errors="replace")
    code, message = _inner(text, "Code"), _inner(text, "Message")
    words = " ".join(f"{code} {message}".split())[:300]
    return BucketError(f"the bucket refuses: {answer.status} {words}".strip(), code=code)
