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
from functools import lru_cache
from random import getrandbits
from typing import Final, TypeVar

import msgspec
from aiohttp import web

from edgewright.api.edge_protocol import (
    PREFIX,
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
from edgewright.gateway.settings import GatewaySettings
from edgewright.runtime import logs
from edgewright.runtime.clock import Clock
from edgewright.runtime.errors import KubernetesError
from edgewright.runtime.events import Recorder
from edgewright.runtime.objects import Key

T = TypeVar("T")

_log = logs.get("gateway.server")

_JSON: Final = "application/json"
_MAX_DIGITS: Final = 6
_MAX_ROUTES: Final = 65_536
_MAX_SHOWN: Final = 50_000
# What is shown on EdgeDevices may wait; the connections to the API server are for what agents wait for.
_WRITERS: Final = 4
_TYPES: Final = frozenset(each.value for each in MessageType)
_OPERATIONS: Final = {
    Directive.ENROLMENT.value: Operation.ENROL,
    Directive.REGISTRATION.value: Operation.REGISTER,
    Directive.HEARTBEAT.value: Operation.HEARTBEAT,
}
_METHODS: Final = {
    ("data", "in"): ("GET", Operation.READ_DATA),
    ("data", "out"): ("POST", Operation.OTHER),
    ("control", "in"): ("GET", Operation.READ_CONTROL),
    ("control", "out"): ("POST", Operation.WRITE_CONTROL),
}


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


@dataclass(frozen=True)
class Route:
    """A request that is one of ours: `data` or `control`, `in` or `out`, of one device."""

    device: str
    operation: Operation


@lru_cache(maxsize=_MAX_ROUTES)
def route_of(method: str, path: str) -> Route:
    """What a request asks for; Refused where there is no such path or method."""
    parts = [each for each in path.split("/") if each]  # some agents write two slashes
    prefix = [each for each in PREFIX.split("/") if each]
    if len(parts) != len(prefix) + 3 or parts[: len(prefix)] != prefix:
        raise Refused(404, f"path {path[:200]} was not found")
    channel, device, direction = parts[len(prefix) :]
    found = _METHODS.get((channel, direction))
    if found is None:
        raise Refused(404, f"path {path[:200]} was not found")
    wanted, operation = found
    if method != wanted:
        raise Refused(405, f"method {method} is not allowed, but [{wanted}] is")
    return Route(device.lower(), operation)


def wait_of(prefer: str) -> float:
    """How many seconds an agent would wait for news, by its header Prefer; 0 where it says nothing of use."""
    for part in prefer.split(","):
        name, _, value = part.strip().partition("=")
        if name.lower() == "wait" and value.isdecimal() and len(value) <= _MAX_DIGITS:
            return float(value)
    return 0.0


def is_published(agent: str) -> bool:
    """Whether a User-Agent is that of the published gateway process."""
    return agent.lower().startswith("yggdrasil/")


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

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request."""
        prefer = request.headers.get("Prefer")
        waits = 0.0 if prefer is None else min(wait_of(prefer), self._settings.limits.poll_seconds)
        try:
            async with self._clock.timeout(self._settings.limits.answer_seconds + waits):
                answer = await self._answer(request, waits)
        except Refused as refused:
            answer = Answer(refused.code, _problem(refused.code, str(refused)))
        except TimeoutError:
            answer = Answer(503)
        except KubernetesError as error:
            _log.warning("request failed: the API server refused", path=request.path, error=error)
            answer = Answer(500)
        except Exception as error:  # no device learns what went wrong inside
            _log.error("request failed", path=request.path, error=error)
            answer = Answer(500)
        self._metrics.answered(answer.code)
        headers = answer.headers
        if answer.body:
            headers = {**headers, "Content-Type": _JSON}
        if answer.code == 405:
            headers = {**headers, "Allow": "GET" if request.method == "POST" else "POST"}
        return web.Response(status=answer.code, body=answer.body or None, headers=headers or None)

    async def close(self) -> None:
        """Ends what is still being written."""
        tasks = [*self._after.values(), *self._writing.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _answer(self, request: web.BaseRequest, waits: float) -> Answer:
        route = route_of(request.method, request.path)
        connection = request.protocol
        certificate = connection.certificate if isinstance(connection, Connection) else None
        caller = None if certificate is None else self._certificates.caller(certificate)
        published = is_published(request.headers.get("User-Agent", ""))
        ours = request.headers.get("User-Agent", "").startswith(OUR_AGENT)
        asked = Asked(caller, route.device, published, ours)
        if route.operation is Operation.OTHER:
            return await self._posted(request, asked)
        if (code := self._refusal(asked, route.operation)) is not None:
            return Answer(code)
        if route.operation is Operation.WRITE_CONTROL:
            report = report_in(await self._body(request))
            if report is not None:
                await self._access.answered(await self._device(caller, route.device), report)
            return Answer()
        if route.operation is Operation.READ_CONTROL:
            return await self._control(asked)
        device = await self._device(caller, route.device)
        return await self._configuration(device, asked, request.headers.get("If-None-Match", ""), waits)

    async def _posted(self, request: web.BaseRequest, asked: Asked) -> Answer:
        # What nobody may do with this certificate is refused before its body is read.
        if (code := self._refusal(asked, Operation.REGISTER)) is not None:
            return Answer(code)
        message = _message(await self._body(request))
        operation = _OPERATIONS.get(message.directive, Operation.OTHER)
        if (code := self._refusal(asked, operation)) is not None or asked.caller is None:
            return Answer(code or 401)
        return await self._data(asked, asked.caller, operation, message)

    def _refusal(self, asked: Asked, operation: Operation) -> int | None:
        caller = asked.caller
        revoked = None if caller is None else self._admission.revoked_before(caller.name)
        standing = None
        if revoked is not None or asked.published:
            grace = timedelta(days=self._settings.published_grace_days if asked.published else 0)
            standing = Standing(revoked_before=revoked, grace=grace)
        code = refusal(caller, asked.device, operation, self._clock.now(), standing)
        if code == 401:
            self._metrics.not_authenticated.inc()
        elif code == 403:
            self._metrics.invalid_owner.inc()
        return code

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

    async def _data(self, asked: Asked, caller: Caller, operation: Operation, message: Message) -> Answer:
        match operation:
            case Operation.ENROL:
                enrolled = await self._registration.enrol(caller, asked.device, _content(message, EnrolmentInfo))
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
                caller, asked.device, _content(message, RegistrationInfo), published=asked.published
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
        heartbeat = _content(message, Heartbeat)
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

    async def _configuration(self, device: EdgeDevice, asked: Asked, known: str, waits: float) -> Answer:
        version = known.removeprefix("W/").strip('"')
        if waits > 0 and version:
            self._metrics.polls.inc()
            found, ready = await self._configurations.news(device.key, version, seconds=waits, heeds=asked.ours)
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


def _message(body: bytes) -> Message:
    try:
        message = msgspec.json.decode(body, type=Message)
    except msgspec.ValidationError as error:
        raise Refused(422, f"the message does not have the published form: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Refused(400, "the body is not JSON") from None
    if message.type not in _TYPES:
        raise Refused(422, f"type in body should be one of {sorted(_TYPES)}")
    return message


def _content(message: Message, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(message.content, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(400, f"the content of {message.directive} does not have the published form: {error}") from None


def _word(reason: str) -> str:
    """An event's reason; the server wants one."""
    return reason[:128] or "DeviceEvent"
