"""A place for tests of the inventory: an API server in this process, an Akri that the test plays, and its own clock.

The tests of the loop over Instances run there. Nothing in it listens on more than loopback.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from edgewright.api.crd import custom_resource_definition
from edgewright.api.device import Device
from edgewright.api.instance import Instance, InstanceSpec, instance_crd
from edgewright.controllers.inventory import add_inventory
from edgewright.controllers.settings import Settings, Timing
from edgewright.local import control_plane
from edgewright.runtime import Client, Manager, definitions
from edgewright.runtime.clock import VirtualClock
from edgewright.runtime.config import Config
from edgewright.runtime.objects import Kind, ObjectMeta
from tests.unit.runtime.fakeserver import (
    running,
    until,
)

NAMESPACE = Kind(group="", version="v1", kind="Namespace", plural="namespaces", namespaced=False)
SETTINGS = Settings(timing=Timing(stale_after=600, seen_every=300))


class Site:
    """A place with an API server, an Akri that is played by the test, and an inventory."""

    def __init__(self, config: Config, client: Client) -> None:
        self.config = config
        self.client = client
        # Ahead of the server's clock, by which Instances are made: on a busy machine the test's own goes slower.
        self.clock = VirtualClock(datetime.now(UTC) + timedelta(minutes=5))
        self.manager: Manager

    def _manager(self) -> Manager:
        manager = Manager(Client(self.config, clock=self.clock), clock=self.clock)
        add_inventory(manager, SETTINGS, self.clock)
        return manager

    @asynccontextmanager
    async def at_work(self) -> AsyncIterator[None]:
        """The inventory runs in this block."""
        self.manager = self._manager()
        async with running(self.manager.run()) as task:
            await self.until(lambda: all(each.synced for each in (self._instances, self._devices)))
            yield
            self.manager.stop()
            await task

    @property
    def _instances(self) -> Any:
        return self.manager.cache(Instance)

    @property
    def _devices(self) -> Any:
        return self.manager.cache(Device)

    async def until(self, condition: Callable[[], object]) -> None:
        await until(condition, clock=self.clock, step=0.05, seconds=90)

    async def settled(self, expected: Callable[[dict[str, Device]], bool], step: float = 0.05) -> dict[str, Device]:
        """The Devices, by name, once they are as expected; between two looks a step of time goes by."""
        async with asyncio.timeout(90):
            while True:
                found = await self.devices()
                if expected(found):
                    return found
                await self.clock.advance(step)
                await asyncio.sleep(0.005)

    async def devices(self) -> dict[str, Device]:
        """The Devices as the server has them."""
        return {each.metadata.name: each for each in (await self.client.of(Device).list()).items}

    async def quiet(self) -> bool:
        """Whether the inventory comes to rest: asks for nothing in a while in which it has every occasion."""
        for _ in range(5):  # what was asked before may still be on its way
            before = self.requests()
            for _ in range(40):
                await self.clock.advance(0.1)
                await asyncio.sleep(0.002)
            if self.requests() == before:
                return True
        return False

    def requests(self) -> int:
        """How many requests the inventory has made, watches aside."""
        return sum(
            int(sample.value)
            for metric in self.manager.metrics.rest_client_requests_total.collect()
            for sample in metric.samples
            if sample.name.endswith("_total") and sample.labels["method"] != "WATCH"
        )

    async def sees(
        self, name: str, *, namespace: str = "default", configuration: str = "http", **more: str
    ) -> Instance:
        """Akri discovers a device."""
        return await self.client.of(Instance).create(shown(name, namespace, configuration, **more))

    async def loses(self, instance: Instance) -> None:
        """Akri does not see a device any more."""
        await self.client.of(Instance).delete(instance.key)

    async def flash_ends(self, name: str, **status: Any) -> None:
        """The FlashJob controller records what came of a flash."""
        device = (await self.devices())[name]
        new = msgspec.structs.replace(device.status, **status)
        await self.client.of(Device).write_status(device, new)


def shown(name: str, namespace: str, configuration: str, **more: str) -> Instance:
    known = {"HOST_ENDPOINT": "10.0.0.7", "DEVICE": "esp32s3", "APPLICATION_TYPE": "thermo", "VERSION": "1.0.0"}
    return Instance(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=InstanceSpec(
            configuration_name=configuration, cdi_name="c", capacity=1, broker_properties={**known, **more}
        ),
    )


@asynccontextmanager
async def site(directory: Path, *, akri: bool = True) -> AsyncIterator[Site]:
    """A place; with `akri` its kind is installed."""
    async with control_plane.open(control_plane.Settings(data=directory / "data", port=0)) as server:
        config = Config(server=server.url, tls=server.entrance.component("test"))
        async with Client(config) as client:
            await definitions.install(client, custom_resource_definition(Device))
            if akri:
                await definitions.install(client, instance_crd())
            yield Site(config, client)


def only(devices: dict[str, Device]) -> Device:
    (device,) = devices.values()
    return device


def has(*instances: Instance) -> Callable[[dict[str, Device]], bool]:
    """There is one Device, and it has had these Instances."""
    uids = tuple(each.metadata.uid for each in instances)
    return lambda devices: len(devices) == 1 and set(only(devices).status.instances) == set(uids)
