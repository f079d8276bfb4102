"""The inventory at work on an API server in this process, in time of the test's own."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec
import pytest

from edgewright.api.device import STALE, Device, DeviceSpec, DeviceStatus, Discovered, LastFlash
from edgewright.api.instance import Instance, instance_crd
from edgewright.controllers.inventory import add_inventory
from edgewright.controllers.inventory.identity import names_for
from edgewright.controllers.inventory.sightings import sighting_of
from edgewright.runtime import Client, Manager, definitions
from edgewright.runtime.clock import VirtualClock
from edgewright.runtime.conditions import is_true
from edgewright.runtime.config import Config
from edgewright.runtime.definitions import DEFINITION
from edgewright.runtime.errors import Conflict
from edgewright.runtime.objects import Key, ObjectMeta
from tests.unit.controllers.inventory.fleet import CERTIFICATE, CLAIM
from tests.unit.controllers.inventory.site import NAMESPACE, SETTINGS, has, only, shown, site
from tests.unit.runtime.fakeserver import (
    Asked,
    FakeServer,
    Json,
    Watch,
    fake_server,
    refusal,
    running,
    streamed,
    until,
)


async def test_a_discovered_device_gets_a_device_and_then_nothing_more_is_written(tmp_path: Path) -> None:
    async with site(tmp_path) as it, it.at_work():
        seen = await it.sees("http-1", SERIAL="S-1", PROTOCOL="smp-udp")
        device = only(await it.settled(has(seen)))
        assert device.metadata.name == "esp32s3-s-1"
        assert device.metadata.labels == {"edgewright.dev/type": "esp32s3", "edgewright.dev/application": "thermo"}
        assert device.spec == DeviceSpec(
            type="esp32s3", protocol="smp-udp", endpoint="10.0.0.7", serial="s-1", configuration="http"
        )
        assert (device.status.application, device.status.version) == ("thermo", "1.0.0")
        assert device.status.last_seen is not None
        assert await it.quiet()
        assert it.requests() == 2, "the Device and its status"


async def test_a_device_that_comes_back_with_another_uid_is_the_same_device(tmp_path: Path) -> None:
    async with site(tmp_path) as it, it.at_work():
        first = await it.sees("http-1")
        await it.settled(has(first))
        await it.loses(first)
        second = await it.sees("http-1", VERSION="1.1.0")
        assert first.metadata.uid != second.metadata.uid
        device = only(await it.settled(has(first, second)))
        assert device.status.instances == (first.metadata.uid, second.metadata.uid)
        assert device.status.version == "1.1.0"


async def test_instances_of_two_nodes_and_of_two_namespaces_are_one_device(tmp_path: Path) -> None:
    async with site(tmp_path) as it:
        await it.client.raw(NAMESPACE).create({"metadata": {"name": "akri"}})
        seen = [await it.sees(f"http-{node}") for node in "ab"] + [await it.sees("http-c", namespace="akri")]
        async with it.at_work():
            await it.settled(has(*seen))
            assert await it.quiet()


async def test_a_flash_that_changes_the_application_does_not_make_another_device(tmp_path: Path) -> None:
    async with site(tmp_path) as it, it.at_work():
        old = await it.sees("http-1")
        name = only(await it.settled(has(old))).metadata.name
        await it.flash_ends(name, claim=CLAIM)
        await it.until(lambda: it._devices.get(Key("", name)).status.claim)
        new = await it.sees("lamps-1", configuration="lamps", APPLICATION_TYPE="lamp", VERSION="2.0.0")
        assert await it.quiet(), "in mid-flash nobody knows"
        flash = LastFlash(version_before="1.0.0", version_after="2.0.0", time=it.clock.now())
        await it.flash_ends(name, claim=None, application="lamp", version="2.0.0", last_flash=flash)
        await it.settled(lambda devices: only(devices).metadata.labels["edgewright.dev/application"] == "lamp")
        assert await it.quiet(), "the old Instance is still there, and tells what was"
        assert only(await it.devices()).status.version == "2.0.0"
        await it.loses(old)
        device = only(await it.settled(has(old, new)))
        assert (device.spec.configuration, device.status.application) == ("lamps", "lamp")
        assert device.status.last_flash == flash


async def test_two_devices_at_one_address_in_two_networks_are_two_in_the_end(tmp_path: Path) -> None:
    async with site(tmp_path) as it, it.at_work():
        seen = await it.sees("http-1")
        name = only(await it.settled(has(seen))).metadata.name
        flash = LastFlash(version_before="1.0.0", version_after="2.0.0", time=it.clock.now())
        await it.flash_ends(name, application="lamp", version="2.0.0", last_flash=flash)
        await it.settled(lambda devices: only(devices).metadata.labels["edgewright.dev/application"] == "lamp")
        await it.sees("lamps-1", configuration="lamps", APPLICATION_TYPE="lamp")
        assert await it.quiet()
        assert len(await it.devices()) == 1
        await it.clock.advance(SETTINGS.timing.stale_after)
        await it.settled(lambda devices: len(devices) == 2)


async def test_a_device_is_stale_a_while_after_its_last_instance_went_and_not_when_it_is_back(tmp_path: Path) -> None:
    async with site(tmp_path) as it, it.at_work():
        seen = await it.sees("http-1")
        await it.settled(has(seen))
        await it.clock.advance(200)
        await it.loses(seen)
        await it.until(lambda: not len(it._instances))
        await it.clock.advance(590)
        assert await it.quiet()
        await it.clock.advance(20)
        device = only(await it.settled(lambda devices: is_true(only(devices).status.conditions, STALE)))
        assert device.status.last_seen is not None
        assert 590 < (it.clock.now() - device.status.last_seen).total_seconds() < 650
        assert await it.quiet()
        again = await it.sees("http-1")
        device = only(await it.settled(has(seen, again)))
        assert not is_true(device.status.conditions, STALE)


async def test_a_device_that_is_there_all_the_time_is_said_to_be_seen_now_and_then(tmp_path: Path) -> None:
    async with site(tmp_path) as it, it.at_work():
        first = only(await it.settled(has(await it.sees("http-1")))).status.last_seen
        assert first is not None
        await it.until(lambda: it.requests() == 2)
        await it.clock.advance(300)
        # In small steps: in a leap over the rest a request would time out on its way.
        device = only(await it.settled(lambda devices: only(devices).status.last_seen != first, step=5))
        assert device.status.last_seen is not None
        assert 300 <= (device.status.last_seen - first).total_seconds() < 460
        await it.until(lambda: it.requests() == 3)
        assert not device.status.conditions


async def test_a_device_that_people_wrote_keeps_its_spec_and_gets_a_status(tmp_path: Path) -> None:
    async with site(tmp_path) as it:
        written = Device(
            metadata=ObjectMeta(name="bench", labels={"site": "lab"}),
            spec=DeviceSpec(type="mine", endpoint="10.0.0.7"),
        )
        unseen = Device(metadata=ObjectMeta(name="drawer"), spec=DeviceSpec(endpoint="10.0.0.8"))
        for each in (written, unseen):
            await it.client.of(Device).create(each)
        async with it.at_work():
            seen = await it.sees("http-1")
            devices = await it.settled(lambda found: bool(found["bench"].status.instances))
            assert devices.keys() == {"bench", "drawer"}
            assert devices["bench"].spec == written.spec
            assert devices["bench"].metadata.labels == {"site": "lab"}
            assert devices["bench"].status.instances == (seen.metadata.uid,)
            await it.clock.advance(5000)
            assert (await it.devices())["drawer"] == devices["drawer"]


async def test_a_device_that_people_delete_comes_back_while_it_is_discovered(tmp_path: Path) -> None:
    async with site(tmp_path) as it, it.at_work():
        seen = await it.sees("http-1")
        first = only(await it.settled(has(seen)))
        await it.client.of(Device).delete(first.key)
        second = only(
            await it.settled(lambda found: len(found) == 1 and only(found).metadata.uid != first.metadata.uid)
        )
        await it.settled(has(seen))
        assert second.metadata.name == first.metadata.name


async def test_a_device_that_is_being_deleted_is_left_alone(tmp_path: Path) -> None:
    async with site(tmp_path) as it:
        held = Device(
            metadata=ObjectMeta(name="held", finalizers=("example.dev/hold",)), spec=DeviceSpec(endpoint="10.0.0.7")
        )
        await it.client.of(Device).create(held)
        await it.client.of(Device).delete(Key("", "held"))
        async with it.at_work():
            seen = await it.sees("http-1")
            assert await it.quiet()
            assert not (await it.devices())["held"].status.instances
            await it.client.of(Device).patch(Key("", "held"), {"metadata": {"finalizers": None}})
            await it.settled(has(seen))


async def test_a_lost_status_is_filled_again(tmp_path: Path) -> None:
    async with site(tmp_path) as it, it.at_work():
        seen = await it.sees("http-1")
        name = only(await it.settled(has(seen))).metadata.name
        await it.client.of(Device).patch(Key("", name), {"status": None}, subresource="status")
        device = only(await it.settled(has(seen)))
        assert device.status.version == "1.0.0"


async def test_a_claim_that_is_written_at_the_same_time_is_not_lost(tmp_path: Path) -> None:
    async with site(tmp_path) as it, it.at_work():
        seen = await it.sees("http-1")
        name = only(await it.settled(has(seen))).metadata.name
        instances = it.client.of(Instance)
        for number in range(20):
            properties = {"VERSION": f"1.0.{number + 1}"}
            await instances.patch(seen.key, {"spec": {"brokerProperties": properties}})
            while True:
                try:
                    claim = msgspec.structs.replace(CLAIM, attempt=number + 1)
                    await it.flash_ends(name, claim=claim, certificate=CERTIFICATE)
                except Conflict:
                    continue
                break
        device = only(await it.settled(lambda found: only(found).status.version == "1.0.20"))
        assert device.status.claim is not None
        assert device.status.claim.attempt == 20
        assert device.status.certificate == CERTIFICATE


async def test_a_name_that_is_somebody_elses_is_not_taken_for_the_device(tmp_path: Path) -> None:
    async with site(tmp_path) as it:
        other = Device(metadata=ObjectMeta(name="esp32s3-s-1"), spec=DeviceSpec(serial="s/1", endpoint="10.0.0.9"))
        await it.client.of(Device).create(other)
        async with it.at_work():
            await it.sees("http-1", SERIAL="S-1")
            devices = await it.settled(lambda found: any(each.status.instances for each in found.values()))
            new = next(name for name in devices if name != "esp32s3-s-1")
            assert new.startswith("esp32s3-s-1-")
            assert devices["esp32s3-s-1"].spec == other.spec
            assert not devices["esp32s3-s-1"].status.instances


async def test_two_names_that_are_somebody_elses_are_said_and_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with site(tmp_path) as it:
        seen = sighting_of(shown("http-1", "default", "http"))
        assert seen is not None
        for name in names_for(seen):
            await it.client.of(Device).create(Device(metadata=ObjectMeta(name=name), spec=DeviceSpec(endpoint="x")))
        before = await it.devices()
        async with it.at_work():
            await it.sees("http-1")
            await it.until(lambda: "there are other Devices under both names" in caplog.text)
        assert await it.devices() == before


async def test_of_two_devices_that_may_be_meant_the_oldest_is_taken_and_it_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with site(tmp_path) as it:
        for name in ("a", "b"):
            await it.client.of(Device).create(
                Device(metadata=ObjectMeta(name=name), spec=DeviceSpec(endpoint="10.0.0.7"))
            )
        async with it.at_work():
            await it.sees("http-1")
            devices = await it.settled(lambda found: any(each.status.instances for each in found.values()))
            assert not devices["b"].status.instances
            assert "several Devices match" in caplog.text


async def test_two_devices_that_tell_the_same_serial_are_one_and_it_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with site(tmp_path) as it, it.at_work():
        first = await it.sees("http-1", SERIAL="s1")
        await it.settled(has(first))
        second = await it.sees("http-2", SERIAL="s1", HOST_ENDPOINT="10.0.0.8")
        await it.settled(has(first, second))
        assert "one serial number reported from several endpoints" in caplog.text
        assert await it.quiet()


async def test_a_device_that_moves_is_recognised_by_its_certificate(tmp_path: Path) -> None:
    async with site(tmp_path) as it, it.at_work():
        first = await it.sees("http-1")
        name = only(await it.settled(has(first))).metadata.name
        await it.flash_ends(name, certificate=CERTIFICATE)
        await it.until(lambda: it._devices.get(Key("", name)).status.certificate)
        await it.loses(first)
        second = await it.sees("http-2", HOST_ENDPOINT="10.0.0.77", FINGERPRINT=CERTIFICATE)
        device = only(await it.settled(has(first, second)))
        assert device.spec.endpoint == "10.0.0.77"


async def test_a_name_that_is_taken_by_a_device_which_is_just_coming_is_tried_again() -> None:
    clock = VirtualClock()
    seen = msgspec.structs.replace(
        shown("http-1", "default", "http"), metadata=ObjectMeta(name="http-1", namespace="default", uid="u1")
    )
    path = Device.kind.path()

    def made(asked: Asked) -> Json:
        return Json({**asked.json, "metadata": {**asked.json["metadata"], "uid": "d1", "resourceVersion": "7"}}, 201)

    def noted(asked: Asked) -> Json:
        metadata = {"name": asked.path.split("/")[-2], "uid": "d1", "resourceVersion": "8"}
        return Json({"metadata": metadata, "status": asked.json["status"]})

    def scripted(server: FakeServer, name: str) -> None:
        server.on(f"WATCH {Instance.kind.path()}", Watch(streamed(seen.to_raw(), version=5)))
        server.on(f"WATCH {path}", Watch(streamed(version=5)))
        server.on(f"POST {path}", refusal(409, "AlreadyExists"), made)
        server.on(f"GET {path}/{name}", refusal(404, "NotFound"))
        server.on(f"PATCH {path}/{name}/status", noted)

    found = sighting_of(seen)
    assert found is not None
    async with fake_server() as server:
        scripted(server, names_for(found)[0])
        manager = Manager(Client(server.config, clock=clock), clock=clock)
        add_inventory(manager, SETTINGS, clock)
        async with running(manager.run()):
            await until(lambda: len(server.writes()) == 3, clock=clock)
        posts = [asked.json["metadata"]["name"] for asked in server.writes() if asked.method == "POST"]
        assert posts == [names_for(found)[0]] * 2, "never the second name for one that nobody has seen"


async def test_instances_that_show_nothing_to_flash_make_no_device(tmp_path: Path) -> None:
    async with site(tmp_path) as it, it.at_work():
        await it.sees("camera", HOST_ENDPOINT="")
        await it.until(lambda: len(it._instances) == 1)
        assert await it.quiet()
        assert await it.devices() == {}


async def test_without_akri_the_operator_is_ready_and_devices_come_when_akri_does(tmp_path: Path) -> None:
    async with site(tmp_path, akri=False) as it, it.at_work():
        await it.until(lambda: all(each.why is None for each in it.manager.health.ready()))
        await definitions.install(it.client, instance_crd())
        seen = await it.sees("http-1")
        await it.settled(has(seen))
        await it.client.raw(DEFINITION).delete(Key("", Instance.kind.resource))
        await it.until(lambda: not len(it._instances))
        assert len(await it.devices()) == 1
        assert all(each.why is None for each in it.manager.health.ready())


async def test_a_restart_in_a_settled_world_writes_nothing(tmp_path: Path) -> None:
    async with site(tmp_path) as it:
        seen = [await it.sees(f"http-{number}", HOST_ENDPOINT=f"10.0.1.{number}") for number in range(30)]
        async with it.at_work():
            await it.settled(lambda found: sum(len(each.status.instances) for each in found.values()) == len(seen))
        before = await it.devices()
        async with it.at_work():
            assert await it.quiet()
            assert it.requests() == 0
        assert await it.devices() == before


@pytest.mark.untraced
async def test_a_pass_costs_little_in_a_fleet_of_thousands() -> None:
    clock = VirtualClock()
    manager = Manager(Client(Config(server="http://127.0.0.1:1"), clock=clock), clock=clock)
    add_inventory(manager, SETTINGS, clock)
    discovery, inventory = manager._controllers
    instances, devices = manager.cache(Instance), manager.cache(Device)
    for number in range(5000):
        address = f"10.1.{number // 250}.{number % 250}"
        seen = shown(f"http-{number}", "default", "http", HOST_ENDPOINT=address)
        uid = f"uid-{number}"
        instances.put(
            msgspec.structs.replace(seen, metadata=ObjectMeta(name=f"http-{number}", namespace="default", uid=uid))
        )
        said = Discovered(instance=uid, application="thermo", version="1.0.0")
        status = DeviceStatus(instances=(uid,), discovered=said, application="thermo", version="1.0.0")
        devices.put(
            Device(
                metadata=ObjectMeta(
                    name=f"d-{number}",
                    uid=f"d-{number}",
                    labels={"edgewright.dev/type": "esp32s3", "edgewright.dev/application": "thermo"},
                ),
                spec=DeviceSpec(type="esp32s3", endpoint=address, configuration="http"),
                status=msgspec.structs.replace(status, last_seen=clock.now()),
            )
        )
    before = time.process_time()
    for number in range(5000):
        await discovery._reconcile(Key("default", f"http-{number}"))
        await inventory._reconcile(Key("", f"d-{number}"))
    assert (time.process_time() - before) / 5000 < 0.003
