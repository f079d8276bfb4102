"""An attestation service with the published one's interface, for tests and the demo: POST a PEM, get 200 or 401.

It knows the certificates that it is told of. It is a few lines on asyncio streams, so that a simulated fleet carries
it along; it listens on the loopback interface unless told otherwise, and looks at no signature.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Callable, Set
from http import HTTPStatus
from types import TracebackType
from typing import Final, Self, TypeAlias

Accept: TypeAlias = Callable[[bytes], bool] | Set[str]
"""What is recognised: a function of the DER certificate, or the certificates' SHA-256 fingerprints in hex."""

_MAX_REQUEST: Final = 64 << 10
_SECONDS: Final = 10.0
_ANSWERS: Final = {
    HTTPStatus.OK: b'{"status": "Certificate OK"}',
    HTTPStatus.UNAUTHORIZED: b'{"status": "Certificate Invalid"}',
    HTTPStatus.METHOD_NOT_ALLOWED: b"Only POST method allowed",
}


def fingerprint(certificate: bytes) -> str:
    """The SHA-256 of a DER certificate, in hex."""
    return hashlib.sha256(certificate).hexdigest()


class AttestationService:
    """Serves while its `async with` block runs."""

    def __init__(self, accept: Accept, *, host: str = "127.0.0.1", port: int = 0, seconds: float = 0.0) -> None:
        """`port` 0 takes a free one; `seconds` is how long each request takes, one after the other (published: 2.5)."""
        self._accept = accept
        self._host, self._port = host, port
        self._seconds = seconds
        self._one_at_a_time = asyncio.Lock()
        self._server: asyncio.Server | None = None
        self._requests: set[asyncio.Task[None]] = set()
        self.asked: list[tuple[str, bool]] = []
        """The fingerprints of the certificates it was asked for, and whether it recognised them."""

    @property
    def url(self) -> str:
        """Where it is asked."""
        assert self._server is not None, "it serves only within its block"  # noqa: S101
        host, port = self._server.sockets[0].getsockname()[:2]
        return f"http://{host}:{port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._called, self._host, self._port, limit=_MAX_REQUEST)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None  # noqa: S101 - entered before
        self._server.close()
        for task in list(self._requests):
            task.cancel()
        await asyncio.gather(*self._requests, return_exceptions=True)
        await self._server.wait_closed()

    def recognises(self, certificate: bytes) -> bool:
        """Whether it would say yes to this DER certificate."""
        if isinstance(self._accept, Set):
            return fingerprint(certificate) in self._accept
        return self._accept(certificate)

    def _called(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_SECONDS):
                method, body = await _read_request(reader)
            if self._seconds:
                async with self._one_at_a_time:
                    await asyncio.sleep(self._seconds)
            status = self._judge(method, body)
            answer = _ANSWERS[status]
            allow = "Allow: POST\r\n" if status is HTTPStatus.METHOD_NOT_ALLOWED else ""
            writer.write(
                f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n{allow}"
                f"Content-Length: {len(answer)}\r\nConnection: close\r\n\r\n".encode()
                + answer
            )
            await writer.drain()
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # what is no request gets no answer
        finally:
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)

    def _judge(self, method: str, body: bytes) -> HTTPStatus:
        if method != "POST":
            return HTTPStatus.METHOD_NOT_ALLOWED
        try:
            certificate = ssl.PEM_cert_to_DER_cert(body.decode("ascii"))
        except ValueError:
            return HTTPStatus.UNAUTHORIZED
        known = self.recognises(certificate)
        self.asked.append((fingerprint(certificate), known))
        return HTTPStatus.OK if known else HTTPStatus.UNAUTHORIZED


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    headers = dict(line.lower().split(":", 1) for line in lines if ":" in line)
    length = int(headers.get("content-length", "0"))
    if not 0 <= length <= _MAX_REQUEST:
        raise ValueError("the request is too long")
    return first.partition(" ")[0], await reader.readexactly(length)
