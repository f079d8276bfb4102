"""The agent's side of the gateway's HTTP API: messages out, configuration and commands in, over mutual TLS.

`Agent` and `registration` call it. Each request presents either the registration certificate or the device's own, has a
time limit, and is sent once: what to do about a refusal or a gateway that is unavailable is decided by the caller.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from edgewright import __version__
from edgewright.agent.identity import Identity
from edgewright.agent.settings import Settings
from edgewright.api.edge_protocol import (
    AccessReport,
    CommandContent,
    Directive,
    Message,
    MessageResponse,
    MessageType,
    Problem,
)
from edgewright.runtime.clock import Clock
from edgewright.runtime.http import Address, Pool, StaleError
from edgewright.runtime.http_parser import Answer
from edgewright.runtime.tls import ClientTls, Pem, PemFile

TIMEOUT: Final = 30.0
# The gateway answers within a second, as published agents demand, unless somebody says that they would wait longer.
_PATIENT: Final = {"Prefer": "wait=10"}
_MAX_RETRY_AFTER: Final = 3600.0


class GatewayUnavailable(Exception):
    """No answer from the gateway: it is unavailable, slow, or something in between is."""


class CertificateRefused(GatewayUnavailable):
    """The gateway ended the handshake over our certificate."""


class ClosedWithoutAnswer(GatewayUnavailable):
    """The gateway took the connection and closed it: it is restarting, or does not know who signed our certificate."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What the gateway answered."""

    status: int
    content: bytes = b""
    """The JSON inside the answer's envelope; empty where there was none."""
    etag: str = ""
    retry_after: float | None = None
    problem: str = field(default="")
    """Why it refused, in its words."""


class Uplink:
    """The way to the gateway, with two faces: the registration certificate, and the device's own once it has one."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._base = f"{settings.prefix}/data/{settings.client_id}"
        self._control = f"{settings.prefix}/control/{settings.client_id}"
        self._registering = self._context()
        self._device: ClientTls | None = None
        self._pools: dict[bool, Pool] = {}

    def present_registration(self) -> None:
        """Reads the registration certificate again: somebody may have put a new one there."""
        certificate = PemFile(origin="cert-file", path=Path(self._settings.cert_file)).read()
        key = PemFile(origin="key-file", path=Path(self._settings.key_file)).read()
        self._registering.present(certificate, key)

    def present_device(self, identity: Identity) -> None:
        """Presents the device's own certificate from now on."""
        if self._device is None:
            self._device = self._context()
        self._device.present(
            Pem(origin="device.pem", data=identity.certificate), Pem(origin="device.pem", data=identity.key)
        )

    async def post(self, directive: Directive, content: msgspec.Struct, *, registering: bool = False) -> Reply:
        """Sends a data message."""
        message = self._message(MessageType.DATA, directive, content)
        answer = await self._exchange("POST", f"{self._base}/out", body=message, registering=registering)
        return _reply(answer, MessageResponse)

    async def configuration(self, etag: str, *, wait: int = 0) -> Reply:
        """Asks for the configuration; 304, or 200 without content, where nothing is new.

        `wait`: so many seconds the gateway may wait for something new; one that does not know how answers at once.
        """
        headers = {"If-None-Match": etag} if etag else {}
        if etag and wait:
            headers["Prefer"] = f"wait={wait}"
        answer = await self._exchange("GET", f"{self._base}/in", headers=headers, timeout=TIMEOUT + wait)
        return _reply(answer, Message)

    async def command(self) -> tuple[Reply, CommandContent | None]:
        """Asks for a command; None where there is none."""
        reply = _reply(await self._exchange("GET", f"{self._control}/in", headers=_PATIENT), Message)
        if reply.status != 200 or not reply.content:
            return reply, None
        try:
            return reply, msgspec.json.decode(reply.content, type=CommandContent)
        except msgspec.MsgspecError as error:
            raise GatewayUnavailable(f"the gateway sent a command that cannot be read: {error}") from error

    async def pong(self) -> Reply:
        """Answers a ping."""
        body = self._message(MessageType.EVENT, "", "pong")
        return _reply(await self._exchange("POST", f"{self._control}/out", body=body), MessageResponse)

    async def report(self, report: AccessReport) -> Reply:
        """Answers a request for logs, or for a command."""
        body = self._message(MessageType.EVENT, Directive.ACCESS, report)
        return _reply(await self._exchange("POST", f"{self._control}/out", body=body), MessageResponse)

    async def close(self) -> None:
        """Ends every connection."""
        for pool in self._pools.values():
            await pool.close()
        self._pools.clear()

    def _context(self) -> ClientTls:
        trusted = b"\n".join(PemFile(origin="ca-root", path=Path(name)).read().data for name in self._settings.ca_root)
        context = ClientTls(authorities=Pem(origin="ca-root", data=trusted))
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        return context

    def _message(self, kind: MessageType, directive: str, content: object) -> bytes:
        return msgspec.json.encode(
            Message(
                type=kind.value,
                message_id=str(uuid.uuid4()),
                sent=self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
                directive=str(directive),
                content=msgspec.Raw(msgspec.json.encode(content)),
            )
        )

    async def _exchange(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        registering: bool = False,
        timeout: float = TIMEOUT,
    ) -> Answer:
        pool = self._pool(registering)
        request = self._request(method, path, body, headers or {})
        for fresh in (False, True):
            try:
                async with asyncio.timeout(timeout):
                    connection = await pool.take()
                    try:
                        return await connection.exchange(request)
                    finally:
                        pool.give_back(connection)
            except StaleError as error:
                if fresh:
                    raise GatewayUnavailable(f"{self._settings.server}: {error}") from error
            except TimeoutError as error:
                raise GatewayUnavailable(f"{self._settings.server}: no answer in time") from error
            except ssl.SSLError as error:
                raise _tls_problem(self._settings.server, error) from error
            except ConnectionResetError as error:
                raise ClosedWithoutAnswer(f"{self._settings.server}: {error.strerror or error}") from error
            except OSError as error:
                reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
                raise GatewayUnavailable(f"{self._settings.server}: {reason}") from error
        raise AssertionError("unreachable: the second attempt returns or raises")

    def _pool(self, registering: bool) -> Pool:
        if registering not in self._pools:
            context = self._registering if registering else self._device
            if context is None:
                raise GatewayUnavailable("the device has no certificate of its own yet")
            address = Address(
                host=self._settings.host,
                port=self._settings.port,
                secure=True,
                server_name=self._settings.server_name or None,
            )
            self._pools[registering] = Pool(address, size=3, tls=lambda: context.current, make_socket=_nonblocking)
        return self._pools[registering]

    def _request(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        lines = {"Host": self._settings.server, "User-Agent": f"edgewright-agent/{__version__}", **headers}
        if body is not None:
            lines |= {"Content-Type": "application/json", "Content-Length": str(len(body)), **_PATIENT}
        head = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in lines.items()), "", ""]
        return "\r\n".join(head).encode("latin-1") + (body or b"")


def _nonblocking(family: int, kind: int, protocol: int) -> socket.socket:
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    return made


def _tls_problem(server: str, error: ssl.SSLError) -> GatewayUnavailable:
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if "alert" in reason:  # the other side complained; what we complain of has other words
        return CertificateRefused(f"{server} refuses our certificate: {reason}")
    return GatewayUnavailable(f"{server}: TLS: {reason}")


def _reply(answer: Answer, envelope: type[Message] | type[MessageResponse]) -> Reply:
    seconds = answer.headers.get("retry-after", "")
    retry_after = min(float(seconds), _MAX_RETRY_AFTER) if seconds.isdecimal() else None
    if answer.status >= 400:
        return Reply(status=answer.status, retry_after=retry_after, problem=_problem(answer))
    content = b""
    if answer.body.strip() and answer.status != 304:
        try:
            content = bytes(msgspec.json.decode(answer.body, type=envelope).content)
        except msgspec.MsgspecError as error:
            raise GatewayUnavailable(f"the gateway's answer cannot be read: {error}") from error
    return Reply(
        status=answer.status,
        content=b"" if content == b"null" else content,
        etag=answer.headers.get("etag", ""),
        retry_after=retry_after,
    )


def _problem(answer: Answer) -> str:
    try:
        said = msgspec.json.decode(answer.body, type=Problem).message if answer.body.strip() else ""
    except msgspec.MsgspecError:
        said = ""
    return f"{answer.status} {said}".strip()
