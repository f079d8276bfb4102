"""The agents' HTTP API: which request is for whom, whether it is allowed, and what it is answered.

`listener` hands every request to `Server.handle`. The certificate is judged with each request. An answer that refuses
has an empty body or JSON, because the published gateway process swallows any other. Nothing of a message is logged.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

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
from edgewright.gateway.assembly import Assembled
from edgewright.gateway.configurations import Configurations
from edgewright.gateway.devices import Devices
from edgewright.gateway.heartbeats import told_by
from edgewright.gateway.identity import Caller, Operation, caller_of, refusal
from edgewright.gateway.listener import Connection
from edgewright.gateway.metrics import GatewayMetrics
from edgewright.gateway.outcome import configured
from edgewright.gateway.registration import Refused, Registration
from edgewright.gateway.settings import GatewaySettings
from edgewright.runtime import logs
from edgewright.runtime.clock import Clock
from edgewright.runtime.errors import KubernetesError
from edgewright.runtime.events import Recorder
from edgewright.runtime.objects import Key

T = TypeVar("T")

_log = logs.get("gateway.server")

_JSON: Final = "application/json"
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
class Route:
    """A request that is one of ours: `data` or `control`, `in` or `out`, of one device."""

    device: str
    operation: Operation


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


class Server:
    """Answers the requests of agents."""

    def __init__(
        self,
        settings: GatewaySettings,
        devices: Devices,
        *,
        registration: Registration,
        configurations: Configurations,
        recorder: Recorder,
        metrics: GatewayMetrics,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._devices = devices
        self._registration = registration
        self._configurations = configurations
        self._recorder = recorder
        self._metrics = metrics
        self._clock = clock
        self._after: dict[tuple[Key, str], asyncio.Task[None]] = {}

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request."""
        try:
            async with self._clock.timeout(self._settings.limits.answer_seconds):
                answer = await self._answer(request)
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
        headers = dict(answer.headers)
        if answer.body:
            headers["Content-Type"] = _JSON
        if answer.code == 405:
            headers["Allow"] = "GET" if request.method == "POST" else "POST"
        return web.Response(status=answer.code, body=answer.body or None, headers=headers)

    async def close(self) -> None:
        """Ends what is still being written."""
        for task in list(self._after.values()):
            task.cancel()
        await asyncio.gather(*self._after.values(), return_exceptions=True)

    async def _answer(self, request: web.BaseRequest) -> Answer:
        route = route_of(request.method, request.path)
        connection = request.protocol
        certificate = connection.certificate if isinstance(connection, Connection) else None
        caller = None if certificate is None else caller_of(certificate)
        if route.operation is Operation.OTHER:
            return await self._posted(request, caller, route.device)
        if (code := self._refusal(caller, route.device, route.operation)) is not None:
            return Answer(code)
        if route.operation is Operation.WRITE_CONTROL:
            await self._body(request)
            return Answer()
        device = await self._device(caller, route.device)
        if route.operation is Operation.READ_DATA:
            return await self._configuration(device, caller, request.headers.get("If-None-Match", ""))
        return await self._control(device)

    async def _posted(self, request: web.BaseRequest, caller: Caller | None, device: str) -> Answer:
        # What nobody may do with this certificate is refused before its body is read.
        if (code := self._refusal(caller, device, Operation.REGISTER)) is not None:
            return Answer(code)
        message = _message(await self._body(request))
        operation = _OPERATIONS.get(message.directive, Operation.OTHER)
        if (code := self._refusal(caller, device, operation)) is not None or caller is None:
            return Answer(code or 401)
        return await self._data(device, caller, operation, message)

    def _refusal(self, caller: Caller | None, device: str, operation: Operation) -> int | None:
        code = refusal(caller, device, operation, self._clock.now())
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

    async def _data(self, device: str, caller: Caller, operation: Operation, message: Message) -> Answer:
        match operation:
            case Operation.ENROL:
                enrolled = await self._registration.enrol(device, _content(message, EnrolmentInfo))
                return Answer(enrolled.code)
            case Operation.REGISTER:
                return await self._register(device, caller, message)
            case Operation.HEARTBEAT:
                return await self._heartbeat(await self._device(caller, device), caller, message)
            case _:
                raise Refused(400, f"directive {message.directive[:80]!r} is not known here")

    async def _register(self, device: str, caller: Caller, message: Message) -> Answer:
        try:
            certificate = await self._registration.register(caller, device, _content(message, RegistrationInfo))
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
        self._metrics.heartbeats.labels(device.metadata.name, device.metadata.namespace).inc()
        for event in (heartbeat.events or ())[: limits.events]:
            kind = "Warning" if event.type == "warn" else "Normal"
            self._recorder.record(device, kind, _word(event.reason), event.message)  # type: ignore[arg-type]
        confirmed = await self._devices.confirm(device, caller.key)
        if confirmed is None:
            raise Refused(404, f"EdgeDevice {device.key} is gone")
        generation = device.metadata.generation

        def after(status: EdgeDeviceStatus) -> EdgeDeviceStatus:
            told = told_by(
                status,
                heartbeat,
                now=self._clock.now(),
                seen_every=self._settings.seen_every,
                max_workloads=limits.workloads,
            )
            return self._devices.registered(told, generation)

        await self._devices.write_status(confirmed, after)
        return Answer()

    async def _configuration(self, device: EdgeDevice, caller: Caller | None, known: str) -> Answer:
        assembled = await self._configurations.of(device)
        tag = f'"{assembled.message.version}"'
        if device.deleting:
            self._write_later(device, "workloads", self._devices.drop_finalizers(device, WORKLOAD_FINALIZER))
        elif caller is not None:
            self._write_later(device, "status", self._show(device, caller, assembled))
        if known == tag:
            return Answer(304, headers={"ETag": tag})
        body = self._message(MessageType.DATA, Directive.DEVICE.value, assembled.message)
        return Answer(body=body, headers={"ETag": tag})

    async def _control(self, device: EdgeDevice) -> Answer:
        """Nothing, or where its EdgeDevice is being deleted and its workloads are gone: disconnect."""
        if not device.deleting or WORKLOAD_FINALIZER in device.metadata.finalizers:
            return Answer()
        self._metrics.unregistered.inc()
        _log.info("device told to disconnect", device=device.metadata.name)
        # After the answer: a gateway that ends in between says it again, where the reverse order would say it never.
        self._write_later(device, "connection", self._devices.drop_finalizers(device, *FINALIZERS, DEVICE_FINALIZER))
        return Answer(
            body=self._message(MessageType.COMMAND, "", CommandContent(command=Command.DISCONNECT.value, arguments={}))
        )

    # --- around them --------------------------------------------------------------------------------------------------

    async def _show(self, device: EdgeDevice, caller: Caller, assembled: Assembled) -> None:
        confirmed = await self._devices.confirm(device, caller.key)
        if confirmed is not None:
            generation, now = device.metadata.generation, self._clock.now()
            await self._devices.write_status(
                confirmed, lambda status: configured(status, assembled, generation=generation, now=now)
            )

    def _write_later(self, device: EdgeDevice, what: str, work: Coroutine[Any, Any, object]) -> None:
        """Writes next to the answer, which does not wait for it; once at a time for each purpose."""
        place = (device.key, what)
        if place in self._after:
            work.close()
            return

        async def write() -> None:
            try:
                await work
            except KubernetesError as error:
                _log.warning("status could not be written", device=device.metadata.name, error=error)
            finally:
                self._after.pop(place, None)

        self._after[place] = asyncio.create_task(write(), name=f"{what} of {device.key}")

    def _message(self, kind: MessageType, directive: str, content: msgspec.Struct) -> bytes:
        return msgspec.json.encode(
            Message(
                type=kind.value,
                message_id=str(uuid.uuid4()),
                sent=self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
                directive=directive,
                content=msgspec.Raw(msgspec.json.encode(content)),
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
