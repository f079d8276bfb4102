"""The loop that asks devices which no discovery tells of: whom it asks, when, and what it writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from edgewright.api.crd import custom_resource_definition
from edgewright.api.device import DIFFERS, STALE, Device, DeviceSpec, DeviceStatus
from edgewright.api.instance import Instance
from edgewright.api.probe import Answer, Silent, Told, Unaskable
from edgewright.controllers.inventory import add_inventory
from edgewright.controllers.settings import Settings, Timing
from edgewright.devices.prober import Prober
from edgewright.devices.simulated.certificates import server_pair
from edgewright.devices.simulated.device import Slot
from edgewright.devices.simulated.fleet import Fleet
from edgewright.devices.timescale import TIME_SCALE
from edgewright.local import control_plane
from edgewright.runtime import Client, Manager, definitions
from edgewright.runtime.clock import SystemClock, VirtualClock
from edgewright.runtime.conditions import is_true
from edgewright.runtime.config import Config
from edgewright.runtime.controller import DONE, Result, requeue_after
from edgewright.runtime.errors import Conflict, Status
from edgewright.runtime.objects import Key, ObjectMeta
from tests.unit.controllers.inventory.fleet import CERTIFICATE, CLAIM, flashed, instance
from tests.unit.runtime.fakeserver import Watch, fake_server, running, streamed, until

EVERY = 60.0
SETTINGS = Settings(timing=Timing(stale_after=600, seen_every=300, probe_every=EVERY))
ONE = Key("", "one")


class Devices:
    """What asks, and answers for the devices as the test says."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[str, str]] = []
        self.gate: asyncio.Event | None = None

    async def ask(self, protocol: str, endpoint: str) -> Answer:
        self.asked.append((protocol, endpoint))
        if self.gate is not None:
            await self.gate.wait()
        return self.answers.get(endpoint, Told(type="esp32", application="thermo", version="1.0.0"))


class Desk:
    """The inventory without a server: the test fills its caches, and writes go straight back to them."""

    def __init__(self, settings: Settings = SETTINGS) -> None:
        self.clock = VirtualClock()
        self.observed: set[str] = set()
        self.devices = Devices()
        self.manager = Manager(Client(Config(server="http://127.0.0.1:1"), clock=self.clock), clock=self.clock)
        add_inventory(
            self.manager,
            settings,
            self.clock,
            asks=self.devices,
            observed=lambda device: device.metadata.name in self.observed,
        )
        self.controllers = {each.name: each for each in self.manager._controllers}
        self.probing: Any = self.controllers["probing"]._reconcile.__self__  # type: ignore[attr-defined] # a method
        self.inventory: Any = self.probing._known
        self.probing._api = self.inventory._api = self
        self.writes: list[tuple[str, DeviceStatus]] = []
        self.refuses = 0
        self._versions = iter(range(1, 1_000_000))

    async def write_status(self, device: Device, status: DeviceStatus) -> Device:
        if self.refuses:
            self.refuses -= 1
            raise Conflict(Status(message="it has changed"))
        self.writes.append((device.metadata.name, status))
        return self.put(msgspec.structs.replace(device, status=status))

    def put(self, device: Device) -> Device:
        version = str(next(self._versions))
        device = msgspec.structs.replace(
            device, metadata=msgspec.structs.replace(device.metadata, resource_version=version)
        )
        self.inventory.devices.cache.put(device)
        return device

    def has(
        self,
        name: str = "one",
        *,
        endpoint: str = "192.0.2.1",
        status: DeviceStatus | None = None,
        labels: dict[str, str] | None = None,
        **spec: Any,
    ) -> Device:
        """People write a Device."""
        uid, now = f"uid-of-{name}", self.clock.now()
        metadata = ObjectMeta(name=name, uid=uid, creation_timestamp=now, labels=labels or {})
        return self.put(
            Device(metadata=metadata, spec=DeviceSpec(endpoint=endpoint, **spec), status=status or DeviceStatus())
        )

    def becomes(self, name: str = "one", **status: Any) -> Device:
        """Something is written on a Device."""
        device = self.get(name)
        return self.put(msgspec.structs.replace(device, status=msgspec.structs.replace(device.status, **status)))

    def shows(self, uid: str = "u1", **properties: str) -> None:
        """Akri shows a device."""
        self.inventory.instances.put(instance(uid, since=self.clock.now(), **properties))

    def get(self, name: str = "one") -> Device:
        device: Device | None = self.inventory.devices.get(Key("", name))
        assert device is not None
        return device

    async def look(self, name: str = "one") -> Result:
        result: Result = await self.probing.look(Key("", name))
        return result

    def to_be_looked_at(self) -> set[str]:
        """Whom the loop will have a pass for, besides those whose time will come."""
        return {key.name for key in self.controllers["probing"].queue._waiting}

    def hears(self) -> None:
        """The loop hears of changes from now on."""
        probing = self.controllers["probing"]
        for source in probing.sources:
            source.cache.subscribe(probing._enqueue(source))
        while (key := probing.queue._pop()) is not None:  # what is there already
            probing.queue.done(key)


@pytest.fixture
def desk() -> Desk:
    """A desk."""
    return Desk()


async def test_a_device_that_people_wrote_is_asked_and_what_it_tells_is_written(desk: Desk) -> None:
    desk.has(protocol="smp-udp")
    assert await desk.look() == requeue_after(EVERY)
    assert desk.devices.asked == [("smp-udp", "192.0.2.1")]
    status = desk.get().status
    assert (status.application, status.version, status.last_seen) == ("thermo", "1.0.0", desk.clock.now())


async def test_it_is_asked_again_after_the_period_and_nothing_is_written_where_nothing_changed(desk: Desk) -> None:
    desk.has()
    await desk.look()
    await desk.clock.advance(20)
    assert await desk.look() == requeue_after(EVERY - 20)
    assert len(desk.devices.asked) == 1
    for _ in range(4):
        await desk.clock.advance(EVERY)
        assert await desk.look() == requeue_after(EVERY)
    assert (len(desk.devices.asked), len(desk.writes)) == (5, 1)
    await desk.clock.advance(EVERY)
    await desk.look()
    assert len(desk.writes) == 2, "that it was seen"
    desk.devices.answers["192.0.2.1"] = Told(version="1.0.1")
    await desk.clock.advance(EVERY)
    await desk.look()
    assert desk.get().status.version == "1.0.1"


async def test_a_device_that_a_rollout_watches_is_asked_more_often_also_where_an_instance_shows_it(desk: Desk) -> None:
    often = SETTINGS.timing.observe_every
    desk.has(status=DeviceStatus(instances=("u1",)))
    desk.shows("u1", HOST_ENDPOINT="192.0.2.1")
    assert await desk.look() == DONE, "the Instance tells of it"
    desk.observed.add("one")
    assert await desk.look() == requeue_after(often)
    desk.devices.answers["192.0.2.1"] = Told(version="0.9.9")
    await desk.clock.advance(often)
    assert await desk.look() == requeue_after(often)
    assert desk.get().status.version == "0.9.9"
    desk.devices.answers["192.0.2.1"] = Silent("nobody is there")
    await desk.clock.advance(SETTINGS.timing.stale_after + 1)
    assert await desk.look() == requeue_after(often)
    assert not is_true(desk.get().status.conditions, STALE), "that it is gone is told by its Instance"
    desk.observed.clear()
    assert await desk.look() == DONE


async def test_a_device_that_a_rollout_watches_is_missed_sooner(desk: Desk) -> None:
    soon = SETTINGS.timing.observed_stale_after
    for name, endpoint in (("one", "192.0.2.1"), ("other", "192.0.2.2")):
        desk.has(name, endpoint=endpoint)
        await desk.look(name)
        desk.devices.answers[endpoint] = Silent("nobody is there")
    desk.observed.add("one")
    await desk.clock.advance(soon)
    for name in ("one", "other"):
        await desk.look(name)
    assert is_true(desk.get("one").status.conditions, STALE)
    assert not is_true(desk.get("other").status.conditions, STALE)


async def test_a_device_that_akri_has_lost_is_stale_sooner_where_a_rollout_watches_it(desk: Desk) -> None:
    desk.devices.answers["192.0.2.1"] = Unaskable("nobody asks it")
    desk.has(status=DeviceStatus(instances=("u1",), last_seen=desk.clock.now()))
    await desk.look()
    desk.observed.add("one")
    soon = SETTINGS.timing.observed_stale_after
    assert await desk.inventory.keep(ONE) == requeue_after(soon)
    await desk.clock.advance(soon)
    await desk.inventory.keep(ONE)
    assert is_true(desk.get().status.conditions, STALE)


async def test_a_device_that_does_not_answer_is_stale_in_the_end_and_not_when_it_is_back(desk: Desk) -> None:
    desk.has()
    await desk.look()
    for _ in range(3):  # what is written down is that it was seen before that
        await desk.clock.advance(EVERY)
        await desk.look()
    heard = desk.clock.now()
    desk.devices.answers["192.0.2.1"] = Silent("nobody is there")
    for _ in range(9):
        await desk.clock.advance(EVERY)
        await desk.look()
    assert len(desk.writes) == 1
    await desk.clock.advance(EVERY)
    await desk.look()
    status = desk.get().status
    assert is_true(status.conditions, STALE)
    assert status.last_seen == heard
    await desk.clock.advance(EVERY)
    await desk.look()
    assert len(desk.writes) == 2
    desk.devices.answers.clear()
    await desk.clock.advance(EVERY)
    await desk.look()
    assert not is_true(desk.get().status.conditions, STALE)


async def test_what_another_device_tells_is_not_taken_and_it_is_said_once(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.has(status=DeviceStatus(version="0.9", certificate=CERTIFICATE))
    desk.devices.answers["192.0.2.1"] = Told(version="2", certificate="cd" * 32)
    for _ in range(2):
        await desk.look()
        await desk.clock.advance(EVERY)
    assert is_true(desk.get().status.conditions, DIFFERS)
    assert (desk.get().status.version, desk.get().status.last_seen) == ("0.9", None)
    assert caplog.text.count("a different device answers at the recorded endpoint") == 1
    assert len(desk.writes) == 1


async def test_a_device_that_is_claimed_is_not_asked_nor_one_at_the_same_endpoint(desk: Desk) -> None:
    desk.has(status=DeviceStatus(claim=CLAIM))
    desk.has("twin", endpoint=" 192.0.2.1")
    desk.has("other", endpoint="192.0.2.2")
    for name in ("one", "twin", "other"):
        await desk.look(name)
    assert desk.devices.asked == [("", "192.0.2.2")]
    desk.hears()
    desk.becomes(claim=None)
    assert desk.to_be_looked_at() >= {"one", "twin"}
    assert await desk.look("one") == requeue_after(EVERY)
    assert await desk.look("twin") == requeue_after(EVERY)


async def test_a_question_ends_when_the_device_is_claimed(desk: Desk) -> None:
    desk.has()
    desk.has("twin")
    desk.has("other", endpoint="192.0.2.2")
    desk.devices.gate = asyncio.Event()
    looks = [asyncio.create_task(desk.look(name)) for name in ("one", "twin", "other")]
    await until(lambda: len(desk.devices.asked) == 3)
    desk.becomes(claim=CLAIM)
    assert await asyncio.gather(*looks[:2]) == [requeue_after(1.0)] * 2
    assert not looks[2].done()
    desk.becomes(claim=msgspec.structs.replace(CLAIM, attempt=2))
    desk.devices.gate.set()
    assert await looks[2] == requeue_after(EVERY)
    assert [name for name, _ in desk.writes] == ["other"]


@pytest.mark.parametrize(
    "meanwhile",
    [
        lambda desk: desk.becomes(last_flash=flashed()),
        lambda desk: desk.put(msgspec.structs.replace(desk.get(), spec=DeviceSpec(endpoint="192.0.2.9"))),
        lambda desk: desk.shows(HOST_ENDPOINT="192.0.2.1"),
    ],
    ids=["it was flashed", "it moved", "Akri tells of it"],
)
async def test_an_answer_does_not_count_if_something_happened_meanwhile(desk: Desk, meanwhile: Any) -> None:
    desk.has()
    desk.devices.gate = asyncio.Event()
    look = asyncio.create_task(desk.look())
    await until(lambda: desk.devices.asked)
    meanwhile(desk)
    desk.devices.gate.set()
    assert await look == requeue_after(1.0)
    assert desk.writes == []


async def test_an_answer_that_cannot_be_written_because_the_device_changed_is_asked_for_again(desk: Desk) -> None:
    desk.has()
    desk.refuses = 1
    assert await desk.look() == requeue_after(1.0)
    assert await desk.look() == requeue_after(EVERY)
    assert (len(desk.devices.asked), len(desk.writes)) == (2, 1)


async def test_a_device_that_akri_shows_is_not_asked_until_its_instance_goes(desk: Desk) -> None:
    desk.has(status=DeviceStatus(instances=("u1",)), endpoint="10.0.0.9")
    desk.has("there", endpoint="10.0.0.7")
    desk.shows(HOST_ENDPOINT="10.0.0.7")
    for name in ("one", "there"):
        assert await desk.look(name) == DONE
    assert desk.devices.asked == []
    desk.hears()
    desk.inventory.instances.drop(Key("default", "http-u1"))
    assert desk.to_be_looked_at() == {"one", "there"}
    for name in ("one", "there"):
        assert await desk.look(name) == requeue_after(EVERY)
    assert [endpoint for _, endpoint in desk.devices.asked] == ["10.0.0.9", "10.0.0.7"]


@pytest.mark.parametrize("endpoint", ["", "127.0.0.1", "169.254.169.254", "[::1]:80", "localhost", "not an address"])
async def test_where_no_device_may_be_nobody_is_asked(desk: Desk, endpoint: str) -> None:
    desk.has(endpoint=endpoint)
    assert await desk.look() == DONE
    assert desk.devices.asked == []


async def test_devices_on_this_machine_are_asked_where_that_is_allowed() -> None:
    desk = Desk(Settings(local=True))
    desk.has(endpoint="127.32.0.1")
    assert await desk.look() == requeue_after(EVERY)


async def test_a_device_that_nobody_can_ask_is_left_alone_until_its_spec_changes(desk: Desk) -> None:
    device = desk.has(protocol="morse")
    desk.devices.answers["192.0.2.1"] = Unaskable("there is no driver")
    assert await desk.look() == DONE
    assert await desk.look() == DONE
    assert len(desk.devices.asked) == 1
    desk.hears()
    desk.put(msgspec.structs.replace(device, spec=DeviceSpec(endpoint="192.0.2.1", protocol="esp32")))
    assert desk.to_be_looked_at() == {"one"}
    await desk.look()
    assert desk.devices.asked[1:] == [("esp32", "192.0.2.1")]


async def test_a_device_with_another_endpoint_is_asked_there_at_once(desk: Desk) -> None:
    device = desk.has()
    await desk.look()
    desk.put(msgspec.structs.replace(desk.get(), spec=msgspec.structs.replace(device.spec, endpoint="192.0.2.2")))
    assert await desk.look() == requeue_after(EVERY)
    assert [endpoint for _, endpoint in desk.devices.asked] == ["192.0.2.1", "192.0.2.2"]


async def test_a_device_that_goes_is_forgotten(desk: Desk) -> None:
    device = desk.has()
    await desk.look()
    going = msgspec.structs.replace(device.metadata, deletion_timestamp=desk.clock.now())
    desk.put(msgspec.structs.replace(device, metadata=going))
    assert await desk.look() == DONE
    assert desk.probing._memories == {}
    desk.inventory.devices.cache.drop(ONE)
    assert await desk.look() == DONE
    assert len(desk.devices.asked) == 1


async def test_a_device_that_goes_while_it_is_asked_is_no_matter(desk: Desk) -> None:
    desk.has()
    desk.devices.gate = asyncio.Event()
    look = asyncio.create_task(desk.look())
    await until(lambda: desk.devices.asked)
    desk.inventory.devices.cache.drop(ONE)
    desk.devices.gate.set()
    assert await look == requeue_after(1.0)
    assert await desk.look() == DONE
    assert desk.writes == []


async def test_a_device_that_akri_lost_is_stale_only_when_it_does_not_answer_either(desk: Desk) -> None:
    status = DeviceStatus(instances=("u1",), application="thermo", version="1.0.0", last_seen=desk.clock.now())
    labels = {"edgewright.dev/application": "thermo"}
    desk.has(configuration="http", status=status, labels=labels)
    desk.has("unaskable", configuration="http", status=status, labels=labels, endpoint="192.0.2.2")
    desk.devices.answers["192.0.2.2"] = Unaskable("there is no driver")
    for name in ("one", "unaskable"):
        await desk.look(name)
        await desk.clock.advance(300)
    for name in ("one", "unaskable"):
        await desk.inventory.keep(Key("", name))
    assert [name for name, _ in desk.writes] == ["unaskable"], "the other one may be there all the same"
    assert is_true(desk.get("unaskable").status.conditions, STALE)
    assert await desk.inventory.keep(ONE) == requeue_after(600)
    desk.devices.answers["192.0.2.1"] = Silent("nobody is there")
    await desk.look()
    assert is_true(desk.get().status.conditions, STALE)
    assert await desk.inventory.keep(ONE) == DONE


async def test_a_stop_does_not_wait_for_a_device_that_does_not_answer(desk: Desk) -> None:
    desk.devices.gate = asyncio.Event()
    device = desk.has().to_raw()
    async with fake_server() as server:
        server.on(f"WATCH {Instance.kind.path()}", Watch(streamed(version=5)))
        server.on(f"WATCH {Device.kind.path()}", Watch(streamed(device, version=5)))
        manager = Manager(Client(server.config))
        add_inventory(manager, SETTINGS, SystemClock(), asks=desk.devices)
        async with running(manager.run()) as task:
            await until(lambda: desk.devices.asked)
            manager.stop()
            async with asyncio.timeout(180):
                await task
        assert server.writes() == []


async def test_what_is_asked_of_real_devices_stands_on_their_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TIME_SCALE, "0.02")
    settings = Settings(local=True, timing=Timing(stale_after=150, seen_every=300, probe_every=EVERY))
    async with (
        control_plane.open(control_plane.Settings(data=tmp_path / "data", port=0)) as server,
        Fleet(count=2, pinned=server_pair().certificate, first_address="127.32.251.1", port=0) as fleet,
    ):
        config = Config(server=server.url, tls=server.entrance.component("test"))
        async with Client(config) as client:
            await definitions.install(client, custom_resource_definition(Device))
            api = client.of(Device)
            for number in (1, 2):
                spec = DeviceSpec(endpoint=fleet[number].endpoint, type="esp32")
                await api.create(Device(metadata=ObjectMeta(name=f"d-{number}"), spec=spec))
            clock = VirtualClock((await api.get(Key("", "d-2"))).metadata.creation_timestamp or pytest.fail("no time"))
            manager = Manager(Client(config), clock=clock)  # the server lives in real time, as the devices do
            add_inventory(manager, settings, clock, asks=Prober(local=True))
            cache = manager.cache(Device)
            probing = next(each for each in manager._controllers if each.name == "probing")

            async def comes(condition: Callable[[], object]) -> None:
                """Time goes on while nobody is waited for."""
                async with asyncio.timeout(180):
                    while not condition():
                        if not probing.queue.working:
                            await clock.advance(5)
                        await asyncio.sleep(0.001)

            def shown(number: int) -> DeviceStatus:
                found = cache.get(Key("", f"d-{number}"))
                return DeviceStatus() if found is None else found.status

            def requests() -> float:
                return sum(
                    sample.value
                    for metric in manager.metrics.rest_client_requests_total.collect()
                    for sample in metric.samples
                    if sample.name.endswith("_total") and sample.labels["method"] != "WATCH"
                )

            async with running(manager.run()) as task:
                await comes(lambda: shown(1).version == shown(2).version == "0.1.0")
                assert shown(1).application == "thermometer"
                assert shown(1).last_seen is not None
                await until(lambda: requests() == 2, seconds=60)
                fleet[1].running = Slot(version="0.9.9", application="lamp")
                await fleet[2].vanish()
                await comes(lambda: shown(1).version == "0.9.9")
                await until(lambda: requests() == 3, seconds=60)
                await comes(lambda: is_true(shown(2).conditions, STALE))
                seen = shown(2).last_seen
                assert seen is not None
                assert clock.now() - seen >= timedelta(seconds=150)
                await fleet[2].come_back()
                await comes(lambda: not is_true(shown(2).conditions, STALE))
                assert not fleet[1].journal.written
                manager.stop()
                await task
