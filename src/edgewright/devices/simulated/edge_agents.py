"""Linux edge devices that are not there: agents that register, wait for configurations and tell how they are.

`edgewright simulate edge` and tests run hundreds in a process. Each has a key, a certificate and connections of its own
and says of every workload that it runs, or that it went back from a version that is to fail; no container is started,
and nothing is written to a disk.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import tempfile
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from edgewright.api.edge_hardware import Cpu, HardwareInfo
from edgewright.api.edge_protocol import (
    PREFIX,
    Command,
    CommandContent,
    DeviceConfigurationMessage,
    Directive,
    Heartbeat,
    Message,
    MessageResponse,
    RegistrationInfo,
    RegistrationResponse,
    WorkloadStatus,
)
from edgewright.runtime.clock import Clock
from edgewright.runtime.http import Address, Pool
from edgewright.runtime.http_parser import Answer

_RETRY: Final = 2.0
_WAIT: Final = 60
_CONTROL: Final = 15.0
_TIMEOUT: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where the gateway is, and what a bundle has for a new device."""

    host: str
    port: int
    server_name: str
    authority: str
    certificate: bytes
    key: bytes
    period: float = 0.0
    """Seconds between two heartbeats; 0: as the configuration says."""
    broken: str = ""
    """A version of a workload that has this text in its specification fails, and the agent goes back; empty: none."""


@dataclass
class Tally:
    """What became of all agents."""

    registered: int = 0
    heartbeats: int = 0
    configurations: int = 0
    disconnected: int = 0
    problems: Counter[str] = field(default_factory=Counter)


class EdgeAgent:
    """One agent."""

    def __init__(self, name: str, site: Site, tally: Tally, clock: Clock) -> None:
        self.name = name
        self.version = ""
        self.specifications: dict[str, str] = {}
        """The PodSpec that it was sent last of each of its workloads, as YAML."""
        self._site = site
        self._tally = tally
        self._clock = clock
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._period = site.period or 60.0
        self._told = asyncio.Event()
        self._pool = self._pool_of(site.certificate, site.key)

    @property
    def workloads(self) -> tuple[str, ...]:
        """The names of its workloads."""
        return tuple(self.specifications)

    async def run(self) -> None:
        """Registers, and does what agents do until it is told to disconnect."""
        try:
            await self._insist(self._register)
            tasks = [asyncio.create_task(each()) for each in (self._beat, self._listen, self._obey)]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            await self._pool.close()

    async def _register(self) -> None:
        request = (
            x509.CertificateSigningRequestBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.name)]))
            .sign(self._key, hashes.SHA256())
            .public_bytes(serialization.Encoding.PEM)
            .decode()
        )
        hardware = HardwareInfo(hostname=self.name, cpu=Cpu(architecture="x86_64", model_name="simulated"))
        content = RegistrationInfo(hardware=hardware, certificate_request=request)
        answer = await self._post(Directive.REGISTRATION, content)
        reply = msgspec.json.decode(answer.body, type=MessageResponse)
        certificate = msgspec.json.decode(reply.content, type=RegistrationResponse).certificate
        await self._pool.close()
        self._pool = self._pool_of(certificate.encode(), _pem(self._key))
        self._tally.registered += 1

    async def _beat(self) -> None:
        while True:
            await self._insist(self._tell)
            try:
                async with self._clock.timeout(self._period):
                    await self._told.wait()
            except TimeoutError:
                continue

    async def _tell(self) -> None:
        self._told.clear()
        workloads = tuple(map(self._status, self.specifications))
        await self._post(Directive.HEARTBEAT, Heartbeat(version=self.version, workloads=workloads))
        self._tally.heartbeats += 1

    def _status(self, name: str) -> WorkloadStatus:
        if self._site.broken and self._site.broken in self.specifications[name]:
            return WorkloadStatus(name=name, status="Running", rolled_back=True, message="simulated failure")
        return WorkloadStatus(name=name, status="Running")

    async def _listen(self) -> None:
        while True:
            await self._insist(self._look)

    async def _look(self) -> None:
        headers = {"Prefer": f"wait={_WAIT}"} | ({"If-None-Match": f'"{self.version}"'} if self.version else {})
        answer = await self._exchange("GET", f"data/{self.name}/in", headers=headers, limit=_WAIT + _TIMEOUT)
        if answer.status == 304 or not answer.body:
            return
        message = msgspec.json.decode(answer.body, type=Message)
        wanted = msgspec.json.decode(message.content, type=DeviceConfigurationMessage)
        self.version = wanted.version
        self.specifications = {each.name: each.specification for each in wanted.workloads or ()}
        if not self._site.period and wanted.configuration is not None:
            self._period = float(wanted.configuration.heartbeat.period_seconds)
        self._tally.configurations += 1
        self._told.set()

    async def _obey(self) -> None:
        while True:
            await self._clock.sleep(_CONTROL)
            if await self._insist(self._disconnects):
                self._tally.disconnected += 1
                return

    async def _disconnects(self) -> bool:
        answer = await self._exchange("GET", f"control/{self.name}/in")
        if not answer.body:
            return False
        message = msgspec.json.decode(answer.body, type=Message)
        return msgspec.json.decode(message.content, type=CommandContent).command == Command.DISCONNECT.value

    # --- the way there ------------------------------------------------------------------------------------------------

    async def _insist(self, attempt: object) -> object:
        """What the attempt gives, tried again and again with a pause."""
        while True:
            try:
                return await attempt()  # type: ignore[operator]
            except (OSError, TimeoutError, msgspec.MsgspecError, _Refused) as error:
                self._tally.problems[str(error)[:120] or type(error).__name__] += 1
                await self._clock.sleep(_RETRY)

    async def _post(self, directive: Directive, content: msgspec.Struct) -> Answer:
        message = Message(
            message_id=str(uuid.uuid4()), directive=directive.value, content=msgspec.Raw(msgspec.json.encode(content))
        )
        return await self._exchange("POST", f"data/{self.name}/out", body=msgspec.json.encode(message))

    async def _exchange(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        limit: float = _TIMEOUT,
    ) -> Answer:
        lines = {"Host": self._site.host, "User-Agent": "edgewright-simulated", **(headers or {})}
        if body is not None:
            lines |= {"Content-Type": "application/json", "Content-Length": str(len(body)), "Prefer": "wait=10"}
        head = [f"{method} {PREFIX}/{path} HTTP/1.1", *(f"{name}: {value}" for name, value in lines.items()), "", ""]
        async with asyncio.timeout(limit):
            connection = await self._pool.take()
            try:
                answer = await connection.exchange("\r\n".join(head).encode("latin-1") + (body or b""))
            finally:
                self._pool.give_back(connection)
        if answer.status >= 400:
            raise _Refused(f"{path.split('/', maxsplit=1)[0]}: the gateway answered {answer.status}")
        return answer

    def _pool_of(self, certificate: bytes, key: bytes) -> Pool:
        tls = ssl.create_default_context(cadata=self._site.authority)
        with tempfile.TemporaryDirectory() as directory:  # ssl reads a key from a file only
            file = Path(directory, "agent.pem")
            file.touch(mode=0o600)
            file.write_bytes(certificate + key)
            tls.load_cert_chain(file)
        address = Address(
            host=self._site.host, port=self._site.port, secure=True, server_name=self._site.server_name or None
        )
        return Pool(address, size=2, tls=lambda: tls, make_socket=_nonblocking)


class _Refused(Exception):
    """The gateway says no."""


def _nonblocking(family: int, kind: int, protocol: int) -> socket.socket:
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    return made


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
