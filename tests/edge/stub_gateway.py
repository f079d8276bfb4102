"""A small gateway for tests: it speaks the agents' HTTP API over mutual TLS, from memory, with no Kubernetes behind it.

It is for tests of what an agent does with an answer that the real gateway never gives, or not at the moment that the
test needs: a refusal, a certificate that ends in seconds, a configuration that changes between two polls, what exactly
came in each heartbeat. Flotta's scenarios and the tests of single workloads use it too, though many of them could be
seen at the real gateway; the three workflows and the faults are (`tests.edge.site`), and so is document 004.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from edgewright.api.edge_protocol import (
    PREFIX,
    REGISTER,
    CommandContent,
    DeviceConfigurationMessage,
    Directive,
    EnrolmentInfo,
    Heartbeat,
    Message,
    MessageResponse,
    Problem,
    RegistrationInfo,
    RegistrationResponse,
)
from tests.harness.certificates import Authority
from tests.harness.processes import free_port

_NO_CHECK_TIME = 0x200000


@dataclass
class Seen:
    """What the gateway knows of one device."""

    registrations: list[RegistrationInfo] = field(default_factory=list)
    presented: list[str] = field(default_factory=list)
    """The common names that registrations came with."""
    enrolments: list[EnrolmentInfo] = field(default_factory=list)
    heartbeats: list[Heartbeat] = field(default_factory=list)
    control: list[Message] = field(default_factory=list)
    polls: int = 0
    unchanged: int = 0
    """Polls that were answered 304."""

    @property
    def statuses(self) -> dict[str, str]:
        """The workloads of the last heartbeat."""
        return {each.name: each.status for each in (self.heartbeats[-1].workloads or ())} if self.heartbeats else {}

    @property
    def events(self) -> list[tuple[str, str, str]]:
        """Every event of every heartbeat."""
        return [(each.type, each.reason, each.message) for beat in self.heartbeats for each in beat.events or ()]


class StubGateway:
    """The gateway, while the context lasts."""

    def __init__(self, directory: Path, *, addresses: Sequence[str] = ("127.0.0.1",), listen: str = "0.0.0.0") -> None:
        self.directory = directory
        self.authority = Authority("stub gateway")
        self.addresses = ["127.0.0.1", *(each for each in addresses if each != "127.0.0.1")]
        self.port = free_port()
        self.devices: dict[str, Seen] = defaultdict(Seen)
        self.configurations: dict[str, bytes] = {}
        self.commands: dict[str, list[str]] = defaultdict(list)
        self.refuse: dict[str, list[int]] = defaultdict(list)
        """Statuses that the next requests get, by directive, or `configuration`."""
        self.lifetime = timedelta(days=30)
        self.long_polls = 0
        """Requests for a configuration that wait for a new one now."""
        self.approved = True
        self._listen = listen
        self._runner: web.AppRunner | None = None
        self._news = asyncio.Event()

    async def __aenter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.registration = self.authority.client(REGISTER)
        self.ca = self.directory / "ca.pem"
        self.ca.write_bytes(self.authority.certificate)
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listens; also again after `stop`."""
        certificate = self.authority.server("gateway", names=["localhost"], addresses=self.addresses)
        paths = certificate.write(self.directory, f"server-{self.port}")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(*paths)
        for path in paths:
            path.unlink()
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= _NO_CHECK_TIME  # a flag that Python has no name for
        context.load_verify_locations(cadata=self.authority.certificate.decode())
        application = web.Application()
        application.router.add_get(f"{PREFIX}/data/{{device}}/in", self._configuration)
        application.router.add_post(f"{PREFIX}/data/{{device}}/out", self._data)
        application.router.add_get(f"{PREFIX}/control/{{device}}/in", self._command)
        application.router.add_post(f"{PREFIX}/control/{{device}}/out", self._control)
        self._runner = web.AppRunner(application, shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._listen, self.port, ssl_context=context).start()

    async def stop(self) -> None:
        """Is unavailable from now on."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def serve(self, device: str, configuration: DeviceConfigurationMessage) -> None:
        """What the device is to be from now on."""
        self.configurations[device] = msgspec.json.encode(configuration)
        self._news.set()
        self._news = asyncio.Event()

    def write_config(self, folder: Path, *, device: str, server: str = "127.0.0.1", **more: object) -> Path:
        """The settings of an agent of this gateway, with the registration certificate, as a bundle would hold them."""
        folder.mkdir(parents=True, exist_ok=True)
        certificate, key = self.registration.write(folder, "registration")
        lines = {
            "server": f"{server}:{self.port}",
            "client-id": device,
            "cert-file": certificate.name,
            "key-file": key.name,
            "ca-root": [str(self.ca)],
            "state-dir": "state",
            "poll-seconds": 0.3,
            "long-poll-seconds": 0,
            "data-seconds": 0.3,
            **{name.replace("_", "-"): value for name, value in more.items()},
        }
        config = folder / "config.toml"
        config.write_text("".join(f"{name} = {msgspec.json.encode(value).decode()}\n" for name, value in lines.items()))
        return config

    # --- the handlers ------------------------------------------------------------------------------------------------

    async def _configuration(self, request: web.Request) -> web.Response:
        device, refusal = self._judge(request, "configuration")
        if refusal:
            return refusal
        self.devices[device].polls += 1
        content = self.configurations.get(device)
        if content is None:
            return web.Response()
        etag = f'"{hash(content)}"'
        if request.headers.get("If-None-Match") == etag and "Prefer" in request.headers:
            await self._wait_for_news(float(request.headers["Prefer"].removeprefix("wait=")))
            content = self.configurations[device]
            etag = f'"{hash(content)}"'
        if request.headers.get("If-None-Match") == etag:
            self.devices[device].unchanged += 1
            return web.Response(status=304)
        message = Message(directive=Directive.DEVICE.value, content=msgspec.Raw(content))
        return _json(message, headers={"ETag": etag})

    async def _wait_for_news(self, seconds: float) -> None:
        self.long_polls += 1
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            pass
        finally:
            self.long_polls -= 1

    async def _data(self, request: web.Request) -> web.Response:
        message = msgspec.json.decode(await request.read(), type=Message)
        registering = message.directive in {Directive.REGISTRATION, Directive.ENROLMENT}
        device, refusal = self._judge(request, message.directive, registering=registering)
        if refusal:
            return refusal
        seen = self.devices[device]
        match message.directive:
            case Directive.REGISTRATION:
                if not self.approved:
                    return _refused(404, "not approved")
                info = msgspec.json.decode(message.content, type=RegistrationInfo)
                seen.registrations.append(info)
                seen.presented.append(_common_name(request))
                content = RegistrationResponse(certificate=self.sign(device, info.certificate_request.encode()))
                return _json(
                    MessageResponse(
                        message_id=message.message_id,
                        directive=message.directive,
                        content=msgspec.Raw(msgspec.json.encode(content)),
                    )
                )
            case Directive.ENROLMENT:
                seen.enrolments.append(msgspec.json.decode(message.content, type=EnrolmentInfo))
                return web.Response(status=200)
            case Directive.HEARTBEAT:
                seen.heartbeats.append(msgspec.json.decode(message.content, type=Heartbeat))
                return web.Response()
        return _refused(400, f"unknown directive {message.directive}")

    async def _command(self, request: web.Request) -> web.Response:
        device, refusal = self._judge(request, "command")
        if refusal:
            return refusal
        if not self.commands[device]:
            return web.Response()
        content = CommandContent(command=self.commands[device].pop(0))
        return _json(Message(type="command", content=msgspec.Raw(msgspec.json.encode(content))))

    async def _control(self, request: web.Request) -> web.Response:
        device, refusal = self._judge(request, "control")
        if refusal:
            return refusal
        self.devices[device].control.append(msgspec.json.decode(await request.read(), type=Message))
        return web.Response()

    def _judge(self, request: web.Request, what: str, *, registering: bool = False) -> tuple[str, web.Response | None]:
        device = request.match_info["device"]
        if self.refuse[what]:
            return device, _refused(self.refuse[what].pop(0), f"{what} is refused by the test")
        expired = _certificate(request).not_valid_after_utc < datetime.now(UTC)
        name = _common_name(request)
        if (expired or name == REGISTER) and not registering:
            return device, web.Response(status=401)
        return device, None if name in {REGISTER, device} else _refused(403, "another device")

    def sign(self, device: str, request: bytes) -> str:
        """A certificate for the device's key, of the lifetime that is set."""
        csr = x509.load_pem_x509_csr(request)
        assert csr.is_signature_valid
        key = csr.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, device)]))
            .issuer_name(self.authority._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(min(now, now + self.lifetime) - timedelta(minutes=1))
            .not_valid_after(now + self.lifetime)
        )
        signed = builder.sign(self.authority._key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM).decode()


def _certificate(request: web.Request) -> x509.Certificate:
    assert request.transport is not None
    return x509.load_der_x509_certificate(request.transport.get_extra_info("ssl_object").getpeercert(True))


def _common_name(request: web.Request) -> str:
    (name,) = _certificate(request).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(name.value)


def _json(content: Any, **more: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(content), content_type="application/json", **more)


def _refused(status: int, text: str) -> web.Response:
    return _json(Problem(code=status, message=text), status=status)
