"""An operator whose caches hold what a test puts there, on an API server of ours on which nobody runs anything.

For what cannot be waited for: caches that are behind the server, times that are long over, requests that are refused.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from edgewright.api import Device, FlashJob, Pod, Service
from edgewright.controllers.flashjob.context import Context
from edgewright.controllers.flashjob.device_loop import Flashes
from edgewright.controllers.flashjob.manifests import pod_for, service_for
from edgewright.runtime.client import Client
from edgewright.runtime.clock import SystemClock, VirtualClock
from edgewright.runtime.config import Config
from edgewright.runtime.errors import ApiError, Forbidden, Status
from edgewright.runtime.events import EventType, Recorder
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key, Resource
from tests.unit.controllers.flashjob.harness import QUICK, Mortal, Stage, plane, stage

D1 = Key("", "d1")


class Heard(Recorder):
    """Keeps what was said."""

    def __init__(self) -> None:
        self.said: list[tuple[str, str, str]] = []

    def record(self, about: Resource, type: EventType, reason: str, message: str) -> None:  # noqa: A002
        """Keeps it."""
        self.said.append((type, reason, message))


class Behind:
    """An operator whose caches hold what a test puts there, and nothing else."""

    def __init__(self, config: Config, clock: SystemClock | VirtualClock, *, at: int, after: bool) -> None:
        self.client = Client(config)
        self.mortal = Mortal(self.client, at=at, after=after)
        self.context = Context(Manager(self.client), QUICK, clock)
        self.heard = self.context.recorder = Heard()
        self.flashes = Flashes(self.context)

    def sees(self, *objects: Device | FlashJob | Pod | Service) -> None:
        """The caches have got so far."""
        for obj in objects:
            match obj:
                case Device():
                    self.context.devices.cache.put(obj)
                case FlashJob():
                    self.context.jobs.put(obj)
                case Pod():
                    self.context.pods.cache.put(obj)
                case Service():
                    self.context.services.cache.put(obj)


def refuse(client: Client, verb: str, ending: str, error: type[ApiError] = Forbidden, message: str = "not you") -> None:
    """Lets the server refuse this to a client from now on, where the path ends so."""
    send = client.transport.request

    async def request(method: str, path: str, **given: Any) -> bytes:
        if method == verb and path.endswith(ending):
            raise error(Status(code=403, message=message))
        return await send(method, path, **given)

    client.transport.request = request  # type: ignore[method-assign] # the one door to the server


@asynccontextmanager
async def behind(
    config: Config, clock: SystemClock | VirtualClock | None = None, *, at: int = 0, after: bool = False
) -> AsyncIterator[Behind]:
    """Such an operator; it dies at its write number `at`, where there is one."""
    operator = Behind(config, clock or SystemClock(), at=at, after=after)
    async with operator.client:
        yield operator


@asynccontextmanager
async def quiet(directory: Path) -> AsyncIterator[tuple[Config, Stage]]:
    """A server on which nobody runs anything."""
    async with plane(directory) as config, stage(config, starting=False, addresses=[]) as on:
        yield config, on


async def made_pod(on: Stage, job: FlashJob, device: Device, **changes: Any) -> Pod:
    """Makes the Pod of a claim on the server, past every cache."""
    claim = device.status.claim
    assert claim is not None
    raw = pod_for(job, device, claim, address="198.51.100.1", digest="", settings=QUICK)
    raw["metadata"].update(changes)
    return msgspec.convert(await on.client.raw(Pod.kind).create(raw), Pod)


async def made_service(on: Stage, job: FlashJob, device: Device, **changes: Any) -> Service:
    """Makes the Service of a claim on the server, past every cache."""
    claim = device.status.claim
    assert claim is not None
    raw = service_for(job, device, claim, QUICK)
    raw["metadata"].update(changes)
    return msgspec.convert(await on.client.raw(Service.kind).create(raw), Service)


async def given_address(on: Stage, service: Service, address: str) -> Service:
    """The Service once a load balancer has given it an address."""
    status = {"status": {"loadBalancer": {"ingress": [{"ip": address}]}}}
    return await on.client.of(Service).patch(service.key, status, subresource="status")
