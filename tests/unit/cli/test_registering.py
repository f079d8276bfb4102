"""How simulated devices are registered: as Akri does it, with a new uid whenever a device was away."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.api.instance import Instance, InstanceSpec, instance_crd
from edgewright.cli.failure import Failed
from edgewright.cli.registering import (
    LABEL,
    SECRET,
    Changes,
    Registration,
    Seen,
    compare,
    install_instances,
    instance_names,
    pinned_certificate,
)
from edgewright.devices.simulated.certificates import server_pair
from edgewright.devices.simulated.device import Slot
from edgewright.devices.simulated.fleet import Fleet
from edgewright.runtime.client import Client
from edgewright.runtime.clock import VirtualClock
from edgewright.runtime.config import Config
from edgewright.runtime.definitions import DEFINITION
from edgewright.runtime.errors import AlreadyExists, KubernetesError, Unreachable
from edgewright.runtime.objects import Key, ObjectMeta
from tests.harness import free_port, wait_until_async
from tests.unit.cli.planes import planes
from tests.unit.devices.simulated.pod import fleet_for

SEEN = Seen(endpoint="127.32.0.1", device="esp32", application="door", version="1")


def but(**fields: str) -> Seen:
    return Seen(**{"endpoint": "127.32.0.1", "device": "esp32", "application": "door", "version": "1"} | fields)


@pytest.mark.parametrize(
    ("registered", "seen", "changes"),
    [
        ({}, {}, Changes()),
        ({1: SEEN}, {1: SEEN}, Changes()),
        ({}, {1: SEEN}, Changes(appeared=(1,))),
        ({1: SEEN, 2: SEEN}, {2: SEEN}, Changes(gone=(1,))),
        ({1: SEEN}, {1: but(version="2")}, Changes(changed=(1,))),
        ({1: SEEN}, {1: but(application="window")}, Changes(gone=(1,))),
        ({1: SEEN}, {1: but(endpoint="127.32.0.9")}, Changes(gone=(1,))),
    ],
    ids=["nothing", "the same", "new", "away", "another version", "another application", "elsewhere"],
)
def test_what_was_seen_decides_what_is_written(
    registered: dict[int, Seen], seen: dict[int, Seen], changes: Changes
) -> None:
    assert compare(registered, seen) == changes


@given(numbers=st.lists(st.integers(0, 65_535), max_size=200, unique=True))
def test_every_device_has_a_name_like_akris_and_of_its_own(numbers: list[int]) -> None:
    names = instance_names("esp", [f"127.32.{number >> 8}.{number & 255}" for number in numbers])
    assert len(set(names)) == len(numbers)
    for name in names:
        first, _, digits = name.rpartition("-")
        assert first == "esp"
        assert len(digits) == 6
        assert set(digits) <= set("0123456789abcdef")


def test_two_devices_whose_digits_are_alike_get_other_names() -> None:
    one, other = instance_names("esp", ["127.32.0.1", "127.32.0.1"])
    assert one != other


def registration(client: Client, fleet: Fleet, **settings: Any) -> Registration:
    chosen: dict[str, Any] = {"namespace": "default", "configuration": "esp", "node": "edge", "every": 1.0} | settings
    return Registration(client, fleet, **chosen)


async def instances(client: Client) -> dict[str, Instance]:
    """All of them, by endpoint."""
    found = await client.of(Instance).list("default")
    return {each.spec.broker_properties["HOST_ENDPOINT"]: each for each in found.items}


async def test_a_fleet_is_registered_as_akri_does_it_and_goes_when_it_ends(tmp_path: Path) -> None:
    async with planes(tmp_path / "data") as client, fleet_for(count=30) as fleet:
        registered = registration(client, fleet)
        await registered.begin()
        found = await instances(client)
        assert set(found) == {device.endpoint for device in fleet}
        one = found[fleet[7].endpoint]
        assert one.metadata.name == registered.names[7]
        digits = one.metadata.name.removeprefix("esp-")
        assert one.spec == InstanceSpec(
            configuration_name="esp",
            cdi_name=f"akri.sh/esp={digits}",
            capacity=1,
            shared=True,
            nodes=("edge",),
            device_usage={f"esp-{digits}-0": ""},
            broker_properties={
                "AKRI_HTTP": "http",
                "HOST_ENDPOINT": fleet[7].endpoint,
                "APPLICATION_TYPE": "thermometer",
                "DEVICE": "esp32",
                "VERSION": "0.1.0",
            },
        )
        await registered.end()
        assert await instances(client) == {}


async def test_a_device_that_was_away_comes_back_with_another_uid(tmp_path: Path) -> None:
    clock = VirtualClock()
    async with planes(tmp_path / "data") as client, fleet_for(count=2) as fleet:
        registered = registration(client, fleet, clock=clock)
        await registered.begin()
        before = await instances(client)
        running = asyncio.create_task(registered.run())
        await fleet[1].vanish()

        async def are(count: int) -> bool:
            await clock.advance(1.0)
            return len(await instances(client)) == count

        await wait_until_async(lambda: are(1), what="its Instance is deleted")
        await fleet[1].come_back()
        await wait_until_async(lambda: are(2), what="it is there again")
        after = await instances(client)
        assert after[fleet[1].endpoint].metadata.uid != before[fleet[1].endpoint].metadata.uid
        assert after[fleet[2].endpoint].metadata.uid == before[fleet[2].endpoint].metadata.uid
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_another_version_is_a_change_and_another_application_a_new_find(tmp_path: Path) -> None:
    async with planes(tmp_path / "data") as client, fleet_for(count=2) as fleet:
        registered = registration(client, fleet)
        await registered.begin()
        before = await instances(client)
        fleet[1].running = Slot(version="2", application="thermometer")
        fleet[2].running = Slot(version="2", application="door")
        assert await registered.look() == []
        assert await registered.look() == []
        after = await instances(client)
        assert after[fleet[1].endpoint].metadata.uid == before[fleet[1].endpoint].metadata.uid
        assert after[fleet[1].endpoint].spec.broker_properties["VERSION"] == "2"
        assert after[fleet[2].endpoint].metadata.uid != before[fleet[2].endpoint].metadata.uid
        assert after[fleet[2].endpoint].spec.broker_properties["APPLICATION_TYPE"] == "door"


async def test_what_others_do_to_its_instances_is_mended(tmp_path: Path) -> None:
    async with planes(tmp_path / "data") as client, fleet_for(count=2) as fleet:
        registered = registration(client, fleet)
        await registered.begin()
        for number in (1, 2):
            await client.of(Instance).delete(Key("default", registered.names[number]))
        fleet[1].running = Slot(version="2", application="thermometer")  # its change finds nothing to change
        await fleet[2].vanish()  # its deletion finds nothing to delete
        for _ in range(2):
            assert await registered.look() == []
        assert set(await instances(client)) == {fleet[1].endpoint}


async def test_what_a_fleet_that_was_killed_has_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    async with planes(tmp_path / "data") as client, fleet_for() as fleet:
        await install_instances(client)
        for name, labels in (("left", {LABEL: "esp"}), ("others", {LABEL: "door"}), ("akris", {})):
            await client.of(Instance).create(
                Instance(
                    metadata=ObjectMeta(name=name, namespace="default", labels=labels),
                    spec=InstanceSpec(
                        configuration_name="c", cdi_name="d", capacity=1, broker_properties={"HOST_ENDPOINT": name}
                    ),
                )
            )
        await registration(client, fleet).begin()
        assert set(await instances(client)) == {"others", "akris", fleet[1].endpoint}


@pytest.mark.parametrize("ours", [True, False], ids=["ours", "somebody's"])
async def test_a_name_that_is_taken_is_used_only_where_it_is_ours(tmp_path: Path, ours: bool) -> None:
    async with planes(tmp_path / "data") as client, fleet_for() as fleet:
        registered = registration(client, fleet)
        await registered.begin()
        name = registered.names[1]
        await client.of(Instance).patch(
            Key("default", name),
            {"metadata": {"labels": {LABEL: "esp" if ours else None}}, "spec": {"brokerProperties": {"VERSION": "?"}}},
        )
        registered._registered.clear()  # as if the reply to its creation had been lost
        problems = await registered.look()
        version = (await client.of(Instance).get(Key("default", name))).spec.broker_properties["VERSION"]
        assert version == ("0.1.0" if ours else "?")
        assert [type(each) for each in problems] == ([] if ours else [AlreadyExists])


async def test_a_server_that_goes_away_between_two_questions_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with planes(tmp_path / "data") as client, fleet_for() as fleet:
        registered = registration(client, fleet)
        await registered.begin()
        registered._registered.clear()  # as if the reply to its creation had been lost

        async def gone(*_: object, **__: object) -> None:
            raise Unreachable("it went away")

        monkeypatch.setattr(type(client.of(Instance)), "list", gone)
        assert [type(each) for each in await registered.look()] == [Unreachable]


async def test_a_device_that_cannot_be_registered_at_first_is_an_error(tmp_path: Path) -> None:
    async with planes(tmp_path / "data") as client, fleet_for() as fleet:
        with pytest.raises(KubernetesError, match="nowhere"):
            await registration(client, fleet, namespace="nowhere").begin()


async def test_akris_own_definition_is_left_as_it_is(tmp_path: Path) -> None:
    async with planes(tmp_path / "data") as client:
        name = instance_crd()["metadata"]["name"]
        await install_instances(client)
        written = await client.raw(DEFINITION).get(Key("", name))
        await install_instances(client)
        assert await client.raw(DEFINITION).get(Key("", name)) == written


async def test_a_server_that_is_gone_is_asked_again_and_the_end_does_not_wait_for_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = VirtualClock()
    nowhere = Config(server=f"http://127.0.0.1:{free_port()}", source="test")
    async with Client(nowhere, retries=0) as client, fleet_for(count=2) as fleet:
        registered = registration(client, fleet, clock=clock)
        with pytest.raises(Unreachable):
            await registered.begin()
        registered.names = {1: "esp-1", 2: "esp-2"}
        registered._registered = {1: SEEN, 2: but(endpoint=fleet[2].endpoint, application="thermometer")}
        running = asyncio.create_task(registered.run())

        async def complains() -> bool:
            await clock.advance(1.0)
            return "tried again" in caplog.text

        await wait_until_async(complains, what="it says so")
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        fleet[1].running = Slot(version="2", application="thermometer")
        registered._registered = {}
        assert [type(each) for each in await registered.look()] == [Unreachable, Unreachable]
        await registered.end()
        assert "left behind" in caplog.text


async def test_the_secret_is_made_once_and_then_kept(tmp_path: Path) -> None:
    async with planes(tmp_path / "data") as client:
        first = await pinned_certificate(client, namespace="default", name="ota-agent-tls")
        stored = await client.raw(SECRET).get(Key("default", "ota-agent-tls"))
        assert stored["type"] == "kubernetes.io/tls"
        assert base64.b64decode(stored["data"]["tls.crt"]).decode() == first
        assert b"PRIVATE KEY" in base64.b64decode(stored["data"]["tls.key"])
        both = await asyncio.gather(
            *(pinned_certificate(client, namespace="default", name="ota-agent-tls") for _ in range(2)),
            *(pinned_certificate(client, namespace="default", name="new") for _ in range(2)),
        )
        assert both[:2] == [first, first]
        assert both[2] == both[3] != first


@pytest.mark.parametrize("data", [{}, {"tls.crt": "aGVsbG8="}], ids=["empty", "something else"])
async def test_a_secret_without_a_certificate_is_named(tmp_path: Path, data: dict[str, str]) -> None:
    async with planes(tmp_path / "data") as client:
        metadata = {"name": "mine", "namespace": "default"}
        await client.raw(SECRET).create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
        with pytest.raises(Failed, match=r"the Secret default/mine has no certificate in tls\.crt"):
            await pinned_certificate(client, namespace="default", name="mine")


async def test_a_certificate_of_ones_own_is_what_devices_pin(tmp_path: Path) -> None:
    pem = server_pair().certificate
    async with planes(tmp_path / "data") as client:
        data = {"tls.crt": base64.b64encode(pem.encode()).decode()}
        metadata = {"name": "mine", "namespace": "default"}
        await client.raw(SECRET).create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data})
        assert await pinned_certificate(client, namespace="default", name="mine") == pem
