"""A gateway on an API server in the test's process, and a device that speaks to it over TLS as any agent does.

`gateway_of` gives a gateway; `Device` has a key, takes the certificate that it is given, and sends
what a test asks for. Nothing here is a stand-in for the gateway's own parts.
"""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from edgewright.api.edge_protocol import PREFIX
from edgewright.gateway.authority import REGISTRATION_FILES, registration_secret
from edgewright.gateway.certificates import Authority, Issued
from edgewright.gateway.gateway import Gateway
from edgewright.gateway.objects import Secret
from edgewright.gateway.rotation import CA_FILES, CA_SECRET, issued_in
from edgewright.gateway.settings import GatewaySettings
from edgewright.runtime.client import Client
from edgewright.runtime.config import Config
from edgewright.runtime.errors import NotFound
from edgewright.runtime.objects import Key
from tests.harness.waiting import wait_until_async

NAMESPACE = "default"
PATIENT = {"Prefer": "wait=60"}
HARDWARE = {
    "hostname": "fedora",
    "cpu": {"architecture": "x86_64", "count": 4, "flags": ["fpu"], "frequency": 3400, "model_name": "Ryzen 5"},
    "memory": {"physical_bytes": 1024, "usable_bytes": 1000},
    "disks": None,
    "gpus": None,
    "interfaces": [{"name": "eth0", "mac_address": "70:85:c2:56:61:0d", "ipv4_addresses": ["192.0.2.7/24"]}],
    "system_vendor": {"manufacturer": "ACME Inc.", "product_name": "Box 1", "serial_number": "42"},
}


def settings(**given: Any) -> GatewaySettings:
    """Settings of a gateway on this machine; what it reads of Secrets, it reads again at once."""
    usual: dict[str, Any] = {"namespace": NAMESPACE, "host": "127.0.0.1", "port": 0, "sources_every": 0.0}
    return GatewaySettings(**usual | given)


@asynccontextmanager
async def gateway_of(config: Config, **given: Any) -> AsyncIterator[Gateway]:
    """One replica while the block runs."""
    gateway = Gateway(Client(config), settings(**given))
    async with gateway.serving():
        yield gateway


async def registration_of(client: Client, namespace: str = NAMESPACE) -> tuple[Issued, Issued]:
    """The authority and the registration certificate, from the Secrets that hold them.

    After a rotation the second is written a moment later than the first.
    """
    secrets = client.of(Secret)

    async def both() -> tuple[Issued, Issued] | None:
        ca = issued_in(await secrets.get(Key(namespace, CA_SECRET)), CA_FILES)
        try:
            found = await secrets.get(Key(namespace, registration_secret(Authority(ca))))
        except NotFound:
            return None
        return ca, issued_in(found, REGISTRATION_FILES)

    return await wait_until_async(both, what="the authority has a registration certificate")


@dataclass
class Answered:
    """What came back."""

    code: int
    body: Any
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def content(self) -> Any:
        """The content of the message in it."""
        return self.body["content"]


class Device:
    """One device: its key, its certificate, and its way to the gateway."""

    def __init__(self, directory: Path, name: str, port: int, ca: Issued, registration: Issued) -> None:
        self.name = name
        self.port = port
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = ""
        self._directory = directory
        self._ca = ca
        self._registration = registration

    # --- what it sends ------------------------------------------------------------------------------------------------

    async def register(self, *, small: bool = False) -> Answered:
        """Registers with the registration certificate, and keeps what it gets; `small` tells no hardware."""
        content = self.registration() | ({"hardware": None} if small else {})
        answer = await self.post("registration", content, identity=self._registration)
        if answer.code == 200:
            self.certificate = answer.content["certificate"]
        return answer

    async def register_again(self) -> Answered:
        """Registers with its own certificate, for a new key."""
        old, self.key = self.key, ec.generate_private_key(ec.SECP256R1())
        identity = Issued(self.certificate.encode(), _pem(old))
        answer = await self.post("registration", self.registration(), identity=identity)
        if answer.code == 200:
            self.certificate = answer.content["certificate"]
        return answer

    async def enrol(self, **content: Any) -> Answered:
        """Asks to be let in."""
        return await self.post("enrolment", content, identity=self._registration)

    async def heartbeat(self, **content: Any) -> Answered:
        """Tells how it is."""
        return await self.post("heartbeat", {"status": "up", "version": "1"} | content)

    async def configuration(self, **headers: str) -> Answered:
        """Downloads its configuration."""
        return await self.request("GET", f"data/{self.name}/in", headers=headers)

    async def control(self) -> Answered:
        """Asks for commands."""
        return await self.request("GET", f"control/{self.name}/in")

    def registration(self) -> dict[str, Any]:
        """The content of a registration."""
        return {"hardware": HARDWARE, "certificate_request": self.csr()}

    def csr(self, name: str = "deviceID") -> str:
        """A certificate request for its key."""
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(self.key, hashes.SHA256())
        return request.public_bytes(serialization.Encoding.PEM).decode()

    async def post(
        self,
        directive: str,
        content: Any,
        *,
        identity: Issued | None = None,
        name: str = "",
        tls: ssl.SSLContext | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answered:
        """Sends a data message."""
        message = {
            "type": "data",
            "message_id": "m-1",
            "response_to": "",
            "version": 1,
            "sent": "2022-04-01T00:00:00Z",
            "directive": directive,
            "metadata": None,
            "content": content,
        }
        body = json.dumps(message).encode()
        path = f"data/{name or self.name}/out"
        return await self.request("POST", path, body, identity=identity, tls=tls, headers=headers)

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        identity: Issued | None = None,
        media: str = "application/json",
        headers: dict[str, str] | None = None,
        prefix: str = PREFIX,
        tls: ssl.SSLContext | None = None,
    ) -> Answered:
        """One request on a connection of its own; the answer may take long on a busy machine."""
        url = f"https://127.0.0.1:{self.port}{prefix}/{path}"
        given = {**({"Content-Type": media} if body is not None else {}), **(headers or {})}
        if "If-None-Match" not in given:
            given = PATIENT | given
        connector = aiohttp.TCPConnector(ssl=tls or self.tls(identity), force_close=True)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.request(method, url, data=body, headers=given) as response,
        ):
            text = await response.read()
            answer = Answered(response.status, json.loads(text) if text else None, dict(response.headers))
        await asyncio.sleep(0)  # aiohttp closes TLS in the next rounds of the loop
        return answer

    def tls(self, identity: Issued | None = None) -> ssl.SSLContext:
        """TLS with its own certificate, or with another one."""
        context = ssl.create_default_context(cadata=self._ca.certificate.decode())
        used = identity or Issued(self.certificate.encode(), self.key_pem())
        file = self._directory / f"{self.name}-{id(used)}.pem"
        file.write_bytes(used.certificate + used.key)
        context.load_cert_chain(file)
        file.unlink()
        return context

    def stranger(self) -> ssl.SSLContext:
        """TLS without any certificate."""
        return ssl.create_default_context(cadata=self._ca.certificate.decode())

    @property
    def identity(self) -> Issued:
        """Its own certificate and key."""
        return Issued(self.certificate.encode(), self.key_pem())

    @property
    def shared(self) -> Issued:
        """The registration certificate of its bundle."""
        return self._registration

    def key_pem(self) -> bytes:
        """Its key."""
        return _pem(self.key)


async def devices_of(directory: Path, gateway: Gateway, client: Client, names: Sequence[str]) -> list[Device]:
    """Devices that have what a bundle gives them."""
    ca, registration = await registration_of(client)
    return [Device(directory, name, gateway.port, ca, registration) for name in names]


def secret(name: str, **data: str) -> dict[str, Any]:
    """A Secret."""
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE}, "data": encoded}


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
