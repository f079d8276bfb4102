"""The agents' HTTP API: which request is for whom, whether it is allowed, and what it is answered.

`listener` hands every request to `Server.handle`. The certificate is judged with each request. An answer that refuses
has an empty body or JSON, because the published gateway process swallows any other. Nothing of a message is logged.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from random import getrandbits
from typing import Final

import msgspec
from aiohttp import web

from edgewright.api.edge_protocol import (
    Command,
    CommandContent,
    Directive,
    EnrolmentInfo,
    Heartbeat,
    Message,
    MessageResponse,
    MessageType,
    Problem,
    RegistrationInfo,
    RegistrationResponse,
)
from edgewright.api.edgedevice import DEVICE_FINALIZER, FINALIZERS, WORKLOAD_FINALIZER, EdgeDevice, EdgeDeviceStatus
from edgewright.gateway.access import OUR_AGENT, Access, report_in
from edgewright.gateway.admission import Admission, Refused
from edgewright.gateway.authority import Certificates
from edgewright.gateway.configurations import Configurations, Ready
from edgewright.gateway.devices import Busy, Devices
from edgewright.gateway.heard import Heard
from edgewright.gateway.heartbeats import told_by
from edgewright.gateway.identity import Caller, Operation, Standing, refusal
from edgewright.gateway.listener import Connection
from edgewright.gateway.metrics import GatewayMetrics
from edgewright.gateway.outcome import configured
from edgewright.gateway.registration import Registration
from edgewright.gateway.routes import DIRECTIVES, content_of, is_published, message_in, route_of, wait_of
from edgewright.gateway.settings import GatewaySettings
from edgewright.runtime import logs
from edgewright.runtime.clock import Clock
from edgewright.runtime.errors import KubernetesError, Unreachable
from edgewright.runtime.events import Recorder
from edgewright.runtime.objects import Key

_log = logs.get("gateway.server")

_JSON: Final = "application/json"
_MAX_SHOWN: Final = 50_000
# What is shown on EdgeDevices may wait; the connections to the API server are for what agents wait for.
_WRITERS: Final = 4


@dataclass(frozen=True)
class Answer:
    """What goes back; an empty body says nothing new."""

    code: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """Who asks, for which device."""

    caller: Caller | None
    device: str
    published: bool = False
    """Whether it is an agent of the published kind, by what it says of itself."""
    ours: bool = False
    """Whether it is our own agent, by what it says of itself."""


class Server:
    """Answers the requests of agents."""

    def __init__(
        self,
        settings: GatewaySettings,
        devices: Devices,
        *,
        certificates: Certificates,
        admission: Admission,
        heard: Heard,
        registration: Registration,
        configurations: Configurations,
        access: Access,
        recorder: Recorder,
        metrics: GatewayMetrics,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._devices = devices
        self._certificates = certificates
        self._admission = admission
        self._heard = heard
        self._registration = registration
        self._configurations = configurations
        self._access = access
        self._recorder = recorder
        self._metrics = metrics
        self._clock = clock
        self._after: dict[tuple[Key, str], asyncio.Task[None]] = {}
        self._shown: dict[Key, tuple[str, str]] = {}
        self._writers = asyncio.Semaphore(_WRITERS)
        self._writing: dict[Key, asyncio.Task[None]] = {}
        admission.revoked = self._wake

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request."""
        try:
            answer = await self._answer(request)
        except Refused as refused:
            answer = Answer(refused.code, _problem(refused.code, str(refused)), refused.headers)
        except TimeoutError:
            answer = Answer(503)
        except KubernetesError as error:
            _log.warning("request failed at the API server", path=request.path, error=error)
            answer = Answer(503 if isinstance(error, Unreachable) else 500)
        except Exception as error:  # no device learns what went wrong inside
            _log.error("request failed", path=request.path, error=error)
            answer = Answer(500)
        self._metrics.answered(answer.code)
        headers = answer.headers
        if answer.body:
            headers = {**headers, "Content-Type": _JSON}
        return web.Response(status=answer.code, body=answer.body or None, headers=headers or None)

    async def close(self) -> None:
        """Ends what is still being written."""
        tasks = [*self._after.values(), *self._writing.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, request: web.BaseRequest) -> Answer:
        route = route_of(request.method, request.path)
        asked = self._asked(request, route.device)
        # What nobody may do with this certificate is refused before its body is read.
        least = Operation.REGISTER if route.operation is Operation.OTHER else route.operation
        if (code := self._refusal(asked, least)) is not None:
            return Answer(code)
        body = await self._body(request) if request.method == "POST" else b""
        limits, prefer = self._settings.limits, request.headers.get("Prefer")
        waits = 0.0 if prefer is None else min(wait_of(prefer), limits.poll_seconds)
        async with self._clock.timeout(limits.answer_seconds + waits):
            match route.operation:
                case Operation.OTHER:
                    return await self._data(asked, message_in(body))
                case Operation.WRITE_CONTROL:
                    return await self._reported(asked, body)
                case Operation.READ_CONTROL:
                    return await self._control(asked)
                case _:
                    device = await self._device(asked.caller, asked.device)
                    return await self._configuration(device, asked, request.headers.get("If-None-Match", ""), waits)

    def _wake(self, name: str) -> None:
        """Lets go whoever waits for news with a certificate that is void now."""
        for namespace in self._settings.allowed_namespaces:
            self._configurations.wake(Key(namespace, name))

    def _asked(self, request: web.BaseRequest, device: str) -> Asked:
        connection = request.protocol
        certificate = connection.certificate if isinstance(connection, Connection) else None
        caller = None if certificate is None else self._certificates.caller(certificate)
        agent = request.headers.get("User-Agent", "")
        return Asked(caller, device, is_published(agent), agent.startswith(OUR_AGENT))

    def _refusal(self, asked: Asked, operation: Operation) -> int | None:
        code = self._judged(asked, operation)
        if code == 401:
            self._metrics.not_authenticated.inc()
        elif code == 403:
            self._metrics.invalid_owner.inc()
        return code

    def _judged(self, asked: Asked, operation: Operation) -> int | None:
        caller = asked.caller
        revoked = None if caller is None else self._admission.revoked_before(caller.name)
        standing = None
        if revoked is not None or asked.published:
            grace = timedelta(days=self._settings.published_grace_days if asked.published else 0)
            standing = Standing(revoked_before=revoked, grace=grace)
        return refusal(caller, asked.device, operation, self._clock.now(), standing)

    async def _body(self, request: web.BaseRequest) -> bytes:
        limits = self._settings.limits
        if request.content_type != _JSON:
            raise Refused(415, f"unsupported media type {request.content_type[:80]!r}, only {_JSON} is allowed")
        if (request.content_length or 0) > limits.body_bytes:
            raise Refused(413, f"the body has more than {limits.body_bytes} bytes")
        body = bytearray()
        try:
            async with self._clock.timeout(limits.body_seconds):
                async for chunk in request.content.iter_any():
                    body += chunk
                    if len(body) > limits.body_bytes:
                        raise Refused(413, f"the body has more than {limits.body_bytes} bytes")
        except TimeoutError:
            raise Refused(408, "the body did not come in time") from None
        except web.RequestPayloadError:
            raise Refused(400, "the body does not have the form that its headers name") from None
        if not body:
            raise Refused(422, "message in body is required")
        return bytes(body)

    async def _device(self, caller: Caller | None, device: str) -> EdgeDevice:
        namespace = "" if caller is None else caller.namespace or self._settings.namespace
        if namespace not in self._settings.allowed_namespaces:
            raise Refused(403, f"namespace {namespace!r} is not one that devices may be in")
        found = await self._devices.get(Key(namespace, device))
        if found is None:
            raise Refused(404, f"there is no EdgeDevice {device} in namespace {namespace}")
        return found

    # --- the four messages of an agent --------------------------------------------------------------------------------

    async def _data(self, asked: Asked, message: Message) -> Answer:
        caller, operation = asked.caller, DIRECTIVES.get(message.directive, Operation.OTHER)
        if (code := self._refusal(asked, operation)) is not None or caller is None:
            return Answer(code or 401)
        match operation:
            case Operation.ENROL:
                enrolled = await self._registration.enrol(caller, asked.device, content_of(message, EnrolmentInfo))
                return Answer(enrolled.code)
            case Operation.REGISTER:
                return await self._register(asked, caller, message)
            case Operation.HEARTBEAT:
                return await self._heartbeat(await self._device(caller, asked.device), caller, message)
            case _:
                raise Refused(400, f"directive {message.directive[:80]!r} is not known here")

    async def _register(self, asked: Asked, caller: Caller, message: Message) -> Answer:
        try:
            certificate = await self._registration.register(
                caller, asked.device, content_of(message, RegistrationInfo), published=asked.published
            )
        except Exception:
            self._metrics.not_registered.inc()
            raise
        self._metrics.registered.inc()
        response = MessageResponse(
            message_id=message.message_id,
            directive=message.directive,
            content=msgspec.Raw(msgspec.json.encode(RegistrationResponse(certificate=certificate))),
        )
        return Answer(body=msgspec.json.encode(response))

    async def _heartbeat(self, device: EdgeDevice, caller: Caller, message: Message) -> Answer:
        heartbeat = content_of(message, Heartbeat)
        limits = self._settings.limits
        self._metrics.heartbeats.count(device.key)
        self._heard.note(device.key)
        for event in (heartbeat.events or ())[: limits.events]:
            kind = "Warning" if event.type == "warn" else "Normal"
            self._recorder.record(device, kind, _word(event.reason), event.message)  # type: ignore[arg-type]
        generation = device.metadata.generation
        revisions = await self._configurations.applied(device, heartbeat.version)

        def after(status: EdgeDeviceStatus) -> EdgeDeviceStatus:
            told = told_by(
                status,
                heartbeat,
                now=self._clock.now(),
                seen_every=self._settings.seen_every,
                max_workloads=limits.workloads,
                revisions=revisions,
            )
            return self._devices.heard(told, caller, generation)

        if after(device.status) == device.status and self._devices.is_confirmed(device):
            return Answer()  # most of them
        await self._write(device, caller, after)
        return Answer()

    async def _write(
        self, device: EdgeDevice, caller: Caller, after: Callable[[EdgeDeviceStatus], EdgeDeviceStatus]
    ) -> None:
        """Writes what a heartbeat changed, one after another for each device; waits for it, but not for long."""
        before = self._writing.get(device.key)

        async def write() -> None:
            if before is not None:
                await asyncio.wait([before])
            try:
                confirmed = await self._devices.confirm(device, caller.key)
                if confirmed is not None:
                    await self._devices.write_status(confirmed, after)
            except (KubernetesError, Busy) as error:
                _log.warning("status could not be written", device=device.metadata.name, error=error)
            finally:
                if self._writing.get(device.key) is task:
                    del self._writing[device.key]

        task = self._writing[device.key] = asyncio.create_task(write(), name=f"heartbeat of {device.key}")
        # Published agents wait for one second, and what is not written in time is written nevertheless.
        await asyncio.wait([task], timeout=self._settings.limits.write_seconds)

    async def _reported(self, asked: Asked, body: bytes) -> Answer:
        report = report_in(body)
        if report is not None:
            await self._access.answered(await self._device(asked.caller, asked.device), report)
        return Answer()

    async def _configuration(self, device: EdgeDevice, asked: Asked, known: str, waits: float) -> Answer:
        version = known.removeprefix("W/").strip('"')
        if waits > 0 and version:
            self._metrics.polls.inc()
            found, ready = await self._configurations.news(
                device.key,
                version,
                seconds=waits,
                heeds=asked.ours,
                ends=lambda: self._judged(asked, Operation.READ_DATA) is not None,
            )
            if (code := self._refusal(asked, Operation.READ_DATA)) is not None:
                return Answer(code)  # it may have expired, or been revoked, while it waited
            if found is None or ready is None:
                raise Refused(404, f"EdgeDevice {device.key} is gone")
            device = found
        else:
            ready = await self._configurations.of(device)
        tag = f'"{ready.version}"'
        if device.deleting:
            self._write_later(device, "workloads", lambda: self._devices.drop_finalizers(device, WORKLOAD_FINALIZER))
        elif asked.caller is not None:
            self._show(device, asked.caller, ready)
        if version == ready.version:
            return Answer(304, headers={"ETag": tag})
        body = self._message(MessageType.DATA.value, Directive.DEVICE.value, ready.content)
        return Answer(body=body, headers={"ETag": tag})

    async def _control(self, asked: Asked) -> Answer:
        """Nothing; or disconnect, where its EdgeDevice is being deleted and its workloads are gone, or was deleted."""
        try:
            device = await self._device(asked.caller, asked.device)
        except Refused as refused:
            record = self._admission.record(asked.device)
            if refused.code == 404 and record is not None and record.spec.decommissioned:
                return self._disconnect(asked.device)
            raise
        if not device.deleting and asked.ours and (command := await self._access.take(device)) is not None:
            return Answer(body=self._message(MessageType.COMMAND.value, "", msgspec.json.encode(command)))
        if not device.deleting or WORKLOAD_FINALIZER in device.metadata.finalizers:
            return Answer()

        async def let_go() -> None:
            await self._admission.bury(device)
            await self._devices.drop_finalizers(device, *FINALIZERS, DEVICE_FINALIZER)

        # After the answer: a gateway that ends in between says it again, where the reverse order would say it never.
        self._write_later(device, "connection", let_go)
        return self._disconnect(asked.device)

    def _disconnect(self, device: str) -> Answer:
        self._metrics.unregistered.inc()
        _log.info("device told to disconnect", device=device)
        content = msgspec.json.encode(CommandContent(command=Command.DISCONNECT.value, arguments={}))
        return Answer(body=self._message(MessageType.COMMAND.value, "", content))

    # --- around them --------------------------------------------------------------------------------------------------

    def _show(self, device: EdgeDevice, caller: Caller, ready: Ready) -> None:
        """Says on the EdgeDevice what is in its configuration, where it does not say so yet."""
        looked = (device.metadata.resource_version, ready.version)
        if self._shown.get(device.key) == looked:
            return  # nothing has changed since the last question
        if len(self._shown) > _MAX_SHOWN:
            self._shown.clear()
        self._shown[device.key] = looked
        assembled = ready.assembled
        generation, now = device.metadata.generation, self._clock.now()

        def after(status: EdgeDeviceStatus) -> EdgeDeviceStatus:
            return configured(status, assembled, generation=generation, now=now)

        async def show() -> None:
            confirmed = await self._devices.confirm(device, caller.key)
            if confirmed is not None:
                await self._devices.write_status(confirmed, after)

        if after(device.status) != device.status or not self._devices.is_confirmed(device):
            self._write_later(device, "status", show)

    def _write_later(self, device: EdgeDevice, what: str, work: Callable[[], Awaitable[None]]) -> None:
        """Writes next to the answer, which does not wait for it; once at a time for each purpose."""
        place = (device.key, what)
        if place in self._after:
            return

        async def write() -> None:
            try:
                async with self._writers:
                    await work()
            except (KubernetesError, Busy) as error:
                _log.warning("status could not be written", device=device.metadata.name, error=error)
            finally:
                self._after.pop(place, None)

        self._after[place] = asyncio.create_task(write(), name=f"{what} of {device.key}")

    def _message(self, kind: str, directive: str, content: bytes) -> bytes:
        """A message with this content; put together by hand, for each device asks for one every few seconds."""
        now = self._clock.now()
        return b"".join(
            (
                b'{"type":"',
                kind.encode(),
                b'","message_id":"',
                str(uuid.UUID(int=getrandbits(128), version=4)).encode(),
                b'","response_to":"","version":1,"sent":"',
                now.isoformat(timespec="seconds").encode()[:19],
                b'Z","directive":"',
                directive.encode(),
                b'","metadata":null,"content":',
                content,
                b"}",
            )
        )


def _problem(code: int, message: str) -> bytes:
    return msgspec.json.encode(Problem(code=code, message=message))


def _word(reason: str) -> str:
    """An event's reason; the server wants one."""
    return reason[:128] or "DeviceEvent"
