"""Requests for logs and commands, from the API server to devices and back.

Who may make one was decided by the API server. A device that waits for news is let go and asks for commands; it gets a
request once, by a conditional write, whichever replica it asks. What it answers is written into the status. Each is
told as an Event of the device.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from edgewright.api.edge_protocol import AccessReport, Command, CommandContent, Directive, Message
from edgewright.api.edgeaccess import (
    DONE,
    FAILED,
    KEPT_SECONDS,
    MAX_OUTPUT,
    TAKEN,
    AccessRequest,
    AccessStatus,
    EdgeExecRequest,
    EdgeLogRequest,
)
from edgewright.api.edgedevice import EdgeDevice
from edgewright.gateway.configurations import Configurations
from edgewright.runtime import logs
from edgewright.runtime.cache import Cache, Change
from edgewright.runtime.clock import Clock
from edgewright.runtime.errors import Conflict, KubernetesError, NotFound
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key

_log = logs.get("gateway.access")

OUR_AGENT: Final = "edgewright-agent/"
"""What the User-Agent of our agents begins with; others are given no such request."""
_DEVICE: Final = "access-device"
_SWEEP_EVERY: Final = 60.0
_KINDS: Final = {Command.LOGS.value: EdgeLogRequest, Command.EXEC.value: EdgeExecRequest}


class Access:
    """The requests of all devices."""

    def __init__(self, manager: Manager, configurations: Configurations, clock: Clock) -> None:
        self._clock = clock
        self._recorder = manager.recorder
        self._configurations = configurations
        self._caches: dict[str, Cache[Any]] = {name: manager.cache(kind) for name, kind in _KINDS.items()}
        self._apis: dict[str, Any] = {name: manager.client.of(kind) for name, kind in _KINDS.items()}
        self._taken: set[str] = set()
        for cache in self._caches.values():
            cache.add_index(_DEVICE, _device_of)
            cache.subscribe(self._changed)
        configurations.interrupts = lambda key: next(self._pending(key), None) is not None

    async def take(self, device: EdgeDevice) -> CommandContent | None:
        """A request that the device gets now, and nobody ever again; None where there is none."""
        for name, request in self._pending(device.key):
            self._taken.add(request.metadata.uid)
            try:
                await self._apis[name].write_status(request, AccessStatus(phase=TAKEN))
            except (Conflict, NotFound):
                continue  # another replica was faster, or nobody waits any more
            except BaseException:
                self._taken.discard(request.metadata.uid)  # it is not the device's yet: the next question takes it
                raise
            self._tell(device, request)
            return CommandContent(command=name, arguments=arguments_of(request))
        return None

    async def answered(self, device: EdgeDevice, report: AccessReport) -> None:
        """Writes what a device answered, where it was asked."""
        api = self._apis.get(report.command)
        if api is None:
            return
        try:
            request = await api.get(Key(device.metadata.namespace, report.request))
        except (NotFound, ValueError):
            return
        if request.spec.device != device.metadata.name or request.status.phase != TAKEN:
            _log.warning("an answer that nobody asked this device for is left alone", device=str(device.key))
            return
        status = AccessStatus(
            phase=FAILED if report.error else DONE,
            output=report.output[:MAX_OUTPUT],
            truncated=report.truncated or len(report.output) > MAX_OUTPUT,
            exit_code=report.exit_code,
            message=report.error[:1024],
        )
        try:
            await api.write_status(request, status)
        except (Conflict, NotFound):
            return  # whoever asked is gone

    async def run(self) -> None:
        """Removes what nobody came back for, until cancelled."""
        while True:
            await self._clock.sleep(_SWEEP_EVERY)
            await self.sweep()

    async def sweep(self) -> None:
        """Removes requests that are old."""
        for name, cache in self._caches.items():
            for request in cache:
                if self._age(request) > KEPT_SECONDS:
                    try:
                        await self._apis[name].delete(request.key, uid=request.metadata.uid)
                    except KubernetesError as error:
                        _log.debug("a request could not be removed", request=str(request.key), error=error)

    def _pending(self, device: Key) -> Iterator[tuple[str, AccessRequest]]:
        for name, cache in self._caches.items():
            for request in cache.by(_DEVICE, device):
                new = not request.status.phase and request.metadata.uid not in self._taken
                if new and not request.deleting and self._age(request) <= request.spec.timeout_seconds:
                    yield name, request

    def _age(self, request: AccessRequest) -> float:
        made = request.metadata.creation_timestamp
        return 0.0 if made is None else (self._clock.now() - made).total_seconds()

    def _tell(self, device: EdgeDevice, request: AccessRequest) -> None:
        workload = request.spec.workload
        if isinstance(request, EdgeExecRequest):
            text = f"a command is run in {workload}, for EdgeExecRequest {request.metadata.name}: "
            self._recorder.record(device, "Normal", "CommandRequested", text + shlex.join(request.spec.command))
        else:
            text = f"the logs of {workload} are read, for EdgeLogRequest {request.metadata.name}"
            self._recorder.record(device, "Normal", "LogsRequested", text)

    def _changed(self, change: Change[AccessRequest]) -> None:
        if change.new is None:
            self._taken.discard(change.latest.metadata.uid)
        elif not change.new.status.phase:
            for key in _device_of(change.new):
                self._configurations.wake(key)


def arguments_of(request: AccessRequest) -> dict[str, str]:
    """What the command needs, as texts."""
    common = {
        "request": request.metadata.name,
        "workload": request.spec.workload,
        "container": request.spec.container,
        "timeout": str(request.spec.timeout_seconds),
    }
    if isinstance(request, EdgeExecRequest):
        return common | {"command": msgspec.json.encode(request.spec.command).decode()}
    return common | {"lines": str(request.spec.tail_lines)}


def report_in(body: bytes) -> AccessReport | None:
    """What a device answers to a request; None in every other message of its control channel."""
    try:
        message = msgspec.json.decode(body, type=Message)
        if message.directive != Directive.ACCESS.value:
            return None
        return msgspec.json.decode(message.content, type=AccessReport)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None  # published agents send a bare null here


def _device_of(request: AccessRequest) -> tuple[Key]:
    return (Key(request.metadata.namespace, request.spec.device),)
