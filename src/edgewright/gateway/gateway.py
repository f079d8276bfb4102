"""The gateway as a whole: caches, certificates and the port, from start to stop.

`edgewright gateway` runs it; tests run several next to each other. It needs no lease: whatever a replica writes is
conditional, and what it must remember stands in Secrets and EdgeDevices.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from edgewright.api.edgeaccess import EdgeExecRequest, EdgeLogRequest
from edgewright.api.edgedevice import EdgeDevice
from edgewright.api.edgedeviceset import EdgeDeviceGroup, EdgeDeviceSet
from edgewright.api.edgedevicesignedrequest import EdgeDeviceSignedRequest
from edgewright.api.edgeworkload import EdgeDeployment, EdgeWorkload
from edgewright.api.edgeworkloadrevision import EdgeWorkloadRevision
from edgewright.gateway.access import Access
from edgewright.gateway.admission import Admission
from edgewright.gateway.authority import Certificates
from edgewright.gateway.configurations import Configurations
from edgewright.gateway.devices import Devices
from edgewright.gateway.heard import Heard
from edgewright.gateway.listener import Listener, listen
from edgewright.gateway.metrics import GatewayMetrics
from edgewright.gateway.registration import Registration
from edgewright.gateway.rotation import Unusable
from edgewright.gateway.server import Server
from edgewright.gateway.settings import GatewaySettings
from edgewright.runtime import logs
from edgewright.runtime.client import Client
from edgewright.runtime.clock import Clock, SystemClock
from edgewright.runtime.errors import KubernetesError
from edgewright.runtime.manager import Manager

T = TypeVar("T")

_log = logs.get("gateway")

NAME: Final = "edgewright-gateway"
"""What the gateway is called in Events, and its ServiceAccount in manifests."""
_KINDS: Final = (
    EdgeDevice,
    EdgeDeployment,
    EdgeWorkload,
    EdgeDeviceGroup,
    EdgeDeviceSet,
    EdgeDeviceSignedRequest,
    EdgeWorkloadRevision,
    EdgeLogRequest,
    EdgeExecRequest,
)


class Gateway:
    """One replica."""

    def __init__(
        self,
        client: Client,
        settings: GatewaySettings,
        *,
        host: str = "127.0.0.1",
        metrics_port: int | None = None,
        health_port: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`host` and the two ports are for metrics and health; where devices dial in is in the settings."""
        self.settings = settings
        self._clock = clock or SystemClock()
        self.manager = Manager(
            client,
            name=NAME,
            namespaces=settings.allowed_namespaces,
            host=host,
            metrics_port=metrics_port,
            health_port=health_port,
            clock=self._clock,
        )
        admission = Admission(self.manager, settings, self._clock)
        self.certificates = Certificates(client, settings, self._clock, revoked=admission.revoked_before)
        devices = Devices(self.manager, settings, self._clock)
        self.heard = Heard(client, settings, self._clock)
        self._listener: Listener | None = None
        self.manager.health.add_readiness("port", lambda: None if self._listener else "the port is not open yet")
        registration = Registration(
            self.manager,
            settings,
            devices=devices,
            certificates=self.certificates,
            admission=admission,
            clock=self._clock,
        )
        configurations = Configurations(self.manager, self._clock, sources_every=settings.sources_every)
        self.access = Access(self.manager, configurations, self._clock)
        self._server = Server(
            settings,
            devices,
            certificates=self.certificates,
            admission=admission,
            heard=self.heard,
            registration=registration,
            configurations=configurations,
            access=self.access,
            recorder=self.manager.recorder,
            metrics=GatewayMetrics(
                self.manager.metrics,
                connections=lambda: 0 if self._listener is None else self._listener.connections,
                waiting=lambda: configurations.waiting,
                ends=self.certificates.ends,
            ),
            clock=self._clock,
        )

    @property
    def port(self) -> int:
        """Where devices dial in, once it is open."""
        if self._listener is None:
            raise RuntimeError("the port is not open yet")
        return self._listener.port

    async def run(self, stop: asyncio.Event, *, ready: Callable[[], None] = lambda: None) -> None:
        """Serves until `stop` is set; raises what ended it otherwise. `ready` is called when the port is open."""
        async with self.serving() as parts:
            ready()
            stopping = asyncio.create_task(stop.wait())
            try:
                done, _ = await asyncio.wait([stopping, *parts], return_when=asyncio.FIRST_COMPLETED)
                for part in parts:
                    if part in done:
                        part.result()
            finally:
                stopping.cancel()
                await asyncio.gather(stopping, return_exceptions=True)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[list[asyncio.Task[None]]]:
        """The port is open while the block runs; gives the tasks that must not end before it."""
        running = asyncio.create_task(self.manager.run(), name="caches")
        tasks = [running]
        try:
            tls = await _unless_ended(running, self._prepare())
            limits = self.settings.limits
            self._listener = await listen(
                self._server.handle, host=self.settings.host, port=self.settings.port, tls=tls, limits=limits
            )
            _log.info("gateway listening", port=self._listener.port, namespace=self.settings.namespace)
            tasks.append(asyncio.create_task(self._renew(tls), name="renewal"))
            tasks.append(asyncio.create_task(self.heard.run(), name="heartbeats"))
            tasks.append(asyncio.create_task(self.access.run(), name="access"))
            yield tasks
        finally:
            if self._listener is not None:
                await self._listener.close()
                self._listener = None
            await self._server.close()
            if not running.done():
                await self.heard.write()
            self.manager.stop()
            for task in tasks[1:]:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _prepare(self) -> ssl.SSLContext:
        tls = await self.certificates.load()
        for kind in _KINDS:
            await self.manager.cache(kind).wait_synced()
        return tls

    async def _renew(self, tls: ssl.SSLContext) -> None:
        while True:
            await self._clock.sleep(self.settings.certificates_every)
            try:
                await self.certificates.renew(tls)
            except (KubernetesError, Unusable) as error:
                _log.warning("certificates could not be renewed; retrying", error=error)


async def _unless_ended(running: asyncio.Task[None], work: Coroutine[Any, Any, T]) -> T:
    """What the work gives; what ended the task, where that ends first."""
    working = asyncio.create_task(work)
    try:
        await asyncio.wait([running, working], return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            running.result()
            raise RuntimeError("the caches ended by themselves")
        return working.result()
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
