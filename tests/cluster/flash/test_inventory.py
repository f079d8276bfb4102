"""The inventory on both API servers: Akri's habits come and go, the Devices stay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import msgspec

from edgewright.api.crd import custom_resource_definition
from edgewright.api.device import STALE, Claim, Device, DeviceSpec, JobReference, LastFlash
from edgewright.api.instance import Instance, InstanceSpec, instance_crd
from edgewright.controllers.inventory import add_inventory
from edgewright.controllers.settings import Settings, Timing
from edgewright.runtime import Client, For, Key, Kind, Manager, ObjectMeta, Resource, definitions
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.conditions import is_true
from tests.cluster.kinds import Widget, install, widget
from tests.cluster.managers import manager_for
from tests.cluster.support import connected, eventually, ready, requests, running
from tests.harness import ApiServer


class Rumour(Resource, frozen=True, kw_only=True):
    """A kind that nobody ever installs."""

    kind: ClassVar[Kind] = Kind(group="test.edgewright.dev", version="v1", kind="Rumour", plural="rumours")


class Site:
    """A namespace in which the test plays Akri; its Configurations, and so its Devices, are the test's own."""

    def __init__(self, client: Client, namespace: str, manager: Manager) -> None:
        self.client = client
        self.namespace = namespace
        self.manager = manager

    async def sees(self, name: str, configuration: str = "http", **more: str) -> Instance:
        """Akri discovers a device."""
        known = {"HOST_ENDPOINT": "10.0.0.7", "DEVICE": "esp32s3", "APPLICATION_TYPE": "thermo", "VERSION": "1.0.0"}
        return await self.client.of(Instance).create(
            Instance(
                metadata=ObjectMeta(name=name, namespace=self.namespace),
                spec=InstanceSpec(
                    configuration_name=f"{self.namespace}.{configuration}",
                    cdi_name="akri.sh/http=1",
                    capacity=1,
                    broker_properties={**known, **more},
                ),
            )
        )

    async def loses(self, instance: Instance) -> None:
        """Akri does not see a device any more."""
        await self.client.of(Instance).delete(instance.key)

    async def devices(self) -> list[Device]:
        """The Devices of this test."""
        found = (await self.client.of(Device).list()).items
        return [each for each in found if each.spec.configuration.startswith(self.namespace)]

    async def one_device(self, *instances: Instance, **status: str) -> Device:
        """The only Device, once it has had exactly these Instances and its status says so."""
        uids = {each.metadata.uid for each in instances}

        async def known() -> Device | None:
            devices = await self.devices()
            if len(devices) != 1 or set(devices[0].status.instances) != uids:
                return None
            right = all(getattr(devices[0].status, name) == value for name, value in status.items())
            return devices[0] if right else None

        await eventually(known, what="one Device has these Instances")
        device = await known()
        assert device is not None
        return device

    async def writes_status(self, device: Device, **fields: Any) -> Device:
        """What the FlashJob controller does."""
        return await self.client.of(Device).write_status(device, msgspec.structs.replace(device.status, **fields))


@asynccontextmanager
async def site(api_server: ApiServer, namespace: str, timing: Timing | None = None) -> AsyncIterator[Site]:
    """An inventory at work in one namespace; its Devices go afterwards."""
    async with connected(api_server) as client:
        for each in (custom_resource_definition(Device), instance_crd()):
            await definitions.install(client, each)
        manager = manager_for(api_server.kubeconfig, namespaces=[namespace])
        add_inventory(manager, Settings(timing=timing or Timing()), SystemClock())
        it = Site(client, namespace, manager)
        async with running(manager):
            await eventually(lambda: ready(manager), what="the inventory is ready")
            yield it
        for device in await it.devices():
            await client.of(Device).delete(device.key)


async def test_a_device_survives_new_uids_and_instances_of_several_nodes(api_server: ApiServer, namespace: str) -> None:
    async with site(api_server, namespace) as it:
        first = await it.sees("http-a1")
        made = await it.one_device(first)
        await it.loses(first)
        second = await it.sees("http-a1", VERSION="1.1.0")
        third = await it.sees("http-b2", VERSION="1.1.0")
        device = await it.one_device(first, second, third, version="1.1.0")
        assert device.metadata.uid == made.metadata.uid
        assert first.metadata.uid != second.metadata.uid


async def test_a_device_whose_flash_changes_its_application_is_not_another_device(
    api_server: ApiServer, namespace: str
) -> None:
    async with site(api_server, namespace) as it:
        old = await it.sees("http-a1")
        device = await it.one_device(old)
        claim = Claim(job=JobReference(namespace=namespace, name="job", uid="job"), uuid=old.metadata.uid)
        device = await it.writes_status(device, claim=claim)
        devices = it.manager.cache(Device)

        def claimed() -> bool:
            known = devices.get(device.key)
            return known is not None and known.status.claim is not None

        await eventually(claimed, what="the inventory has heard of the claim")
        await it.loses(old)
        new = await it.sees("lamps-a1", "lamps", APPLICATION_TYPE="lamp", VERSION="2.0.0")
        flash = LastFlash(outcome="succeeded", version_before="1.0.0", version_after="2.0.0", time=SystemClock().now())
        await it.writes_status(device, claim=None, application="lamp", version="2.0.0", last_flash=flash)
        device = await it.one_device(old, new, application="lamp", version="2.0.0")
        assert device.spec.configuration == f"{namespace}.lamps"
        assert device.status.last_flash == flash
        assert device.metadata.labels["edgewright.dev/application"] == "lamp"


async def test_a_device_is_stale_while_nothing_shows_it(api_server: ApiServer, namespace: str) -> None:
    async with site(api_server, namespace, Timing(stale_after=1.0, seen_every=0.2)) as it:
        seen = await it.sees("http-a1")
        await it.one_device(seen)
        await it.loses(seen)

        async def stale(wanted: bool) -> bool:
            devices = await it.devices()
            return is_true(devices[0].status.conditions, STALE) is wanted

        await eventually(lambda: stale(True), what="the Device is stale")
        again = await it.sees("http-a1")
        await it.one_device(seen, again)
        await eventually(lambda: stale(False), what="the Device is not stale any more")


async def test_a_device_that_people_wrote_keeps_what_they_wrote(api_server: ApiServer, namespace: str) -> None:
    async with site(api_server, namespace) as it:
        serial = f"{namespace}-serial"
        api = it.client.of(Device)
        spec = DeviceSpec(type="mine", endpoint="10.0.0.99", serial=serial)
        written = await api.create(Device(metadata=ObjectMeta(name=namespace, labels={"site": "lab"}), spec=spec))
        try:
            seen = await it.sees("http-a1", SERIAL=serial.upper())

            async def known() -> bool:
                return (await api.get(written.key)).status.instances == (seen.metadata.uid,)

            await eventually(known, what="the Device has the Instance")
            device = await api.get(written.key)
            assert (device.spec, device.metadata.labels) == (spec, {"site": "lab"})
            assert (device.status.application, device.status.version) == ("thermo", "1.0.0")
            assert await it.devices() == []
        finally:
            await api.delete(written.key)


async def test_a_settled_fleet_costs_no_request(api_server: ApiServer, namespace: str) -> None:
    async with site(api_server, namespace) as it:
        number = 60
        await asyncio.gather(*(it.sees(f"http-{each}", SERIAL=f"{namespace}-{each}") for each in range(number)))

        async def complete() -> bool:
            devices = await it.devices()
            return len(devices) == number and all(each.status.instances for each in devices)

        await eventually(complete, what="every device is known")
        devices = await it.devices()
        # A Device that the cache does not have yet may be made again, which is refused.
        assert await writes(it.manager, 2 * number, code="2") == 2 * number, "one Device and one status each"
        second = manager_for(api_server.kubeconfig, namespaces=[namespace])
        add_inventory(second, Settings(), SystemClock())
        async with running(second):
            await eventually(lambda: ready(second), what="the second inventory is ready")
            assert await writes(second, 2 * number) == 0
        assert await it.devices() == devices


async def writes(manager: Manager, passes: int, *, code: str = "") -> int:
    """How many writes a manager has made once it has nothing left to do, after at least so many passes."""

    def idle() -> bool:
        made = sum(
            sample.value
            for metric in manager.metrics.reconcile_total.collect()
            for sample in metric.samples
            if sample.name.endswith("_total")
        )
        return made >= passes and all(not len(each.queue) and not each.queue.working for each in manager._controllers)

    await eventually(idle, what="every pass is made")
    return requests(manager, "POST", "PATCH", "PUT", "DELETE", code=code)


async def test_a_kind_that_may_be_absent_keeps_nothing_from_working(api_server: ApiServer, namespace: str) -> None:
    passes: set[Key] = set()

    async def reconcile(key: Key) -> None:
        passes.add(key)

    async with connected(api_server) as client:
        await install(client, Widget)
        await client.of(Widget).create(widget(namespace, "one"))
        manager = manager_for(api_server.kubeconfig, namespaces=[namespace])
        rumours = manager.cache(Rumour, optional=True)
        manager.controller("widget", reconcile, For(manager.cache(Widget)))
        async with running(manager):
            await eventually(lambda: passes, what="the widget is reconciled")
            assert rumours.synced
            assert await ready(manager)
