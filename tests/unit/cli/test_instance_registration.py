"""How simulated devices are registered: as Akri does it, with a new uid whenever a device was unavailable."""

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
from edgewright.cli.instance_registration import (
    LABEL,
    RUN,
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


async def test_what_others_do_to_its_instances_is_fixed(tmp_path: Path) -> None:
    async with planes(tmp_path / "data") as client, fleet_for(count=3) as fleet:
        registered = registration(client, fleet)
        await registered.begin()
        before = await instances(client)
        for number in (1, 2):
            await client.of(Instance).delete(Key("default", registered.names[number]))
        await client.of(Instance).patch(
            Key("default", registered.names[3]), {"spec": {"brokerProperties": {"VERSION": "?"}}}
        )
        await fleet[2].vanish()
        assert await registered.look() == []
        after = await instances(client)
        assert set(after) == {fleet[1].endpoint, fleet[3].endpoint}
        assert after[fleet[1].endpoint].metadata.uid != before[fleet[1].endpoint].metadata.uid
        assert after[fleet[3].endpoint].spec.broker_properties["VERSION"] == "0.1.0"


async def test_what_is_deleted_between_a_look_and_its_writes_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with planes(tmp_path / "data") as client, fleet_for(count=2) as fleet:
        registered = registration(client, fleet)
        await registered.begin()
        listed = await registered._instances({})

        async def as_before(_: object) -> list[Instance]:
            return listed

        for number in (1, 2):
            await client.of(Instance).delete(Key("default", registered.names[number]))
        fleet[1].running = Slot(version="2", application="thermometer")
        await fleet[2].vanish()
        monkeypatch.setattr(registered, "_instances", as_before)
        assert await registered.look() == []


def of_somebody(name: str, endpoint: str, *, node: str = "edge", **labels: str) -> Instance:
    return Instance(
        metadata=ObjectMeta(name=name, namespace="default", labels={LABEL: "esp"} | labels),
        spec=InstanceSpec(
            configuration_name="c",
            cdi_name="d",
            capacity=1,
            nodes=(node,) if node else (),
            broker_properties={"HOST_ENDPOINT": endpoint},
        ),
    )


async def test_what_a_fleet_that_was_killed_has_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    async with planes(tmp_path / "data") as client, fleet_for() as fleet:
        await install_instances(client)
        gone = f"127.0.0.1:{free_port()}"
        for each in (
            of_somebody("left", gone),
            of_somebody("left-where-we-are", fleet[1].endpoint),
            of_somebody("left-by-an-older-version", "nowhere", node=""),
            of_somebody("anothers", gone, **{LABEL: "door"}),
            of_somebody("of-another-machine", gone, node="other"),
        ):
            await client.of(Instance).create(each)
        akris = of_somebody("akris", gone)
        akris.metadata.labels.clear()
        await client.of(Instance).create(akris)
        registered = registration(client, fleet)
        await registered.begin()
        left = {each.metadata.name for each in (await client.of(Instance).list("default")).items}
        assert left == {"anothers", "of-another-machine", "akris", registered.names[1]}


async def test_two_fleets_of_one_configuration_leave_each_other_alone(tmp_path: Path) -> None:
    async with (
        planes(tmp_path / "data") as client,
        fleet_for(count=2, first_address="127.32.41.1") as one,
        fleet_for(count=2, first_address="127.32.42.1") as other,
    ):
        first, second = registration(client, one), registration(client, other)
        await first.begin()
        before = await instances(client)
        await second.begin()
        after = await instances(client)
        assert set(after) == {device.endpoint for device in (*one, *other)}
        assert {where: after[where].metadata.uid for where in before} == {
            where: each.metadata.uid for where, each in before.items()
        }
        assert not {device.certificate for device in one} & {device.certificate for device in other}
        await second.end()
        assert {where: each.metadata.uid for where, each in (await instances(client)).items()} == {
            where: each.metadata.uid for where, each in before.items()
        }


async def test_the_instance_of_another_machine_is_not_taken_over(tmp_path: Path) -> None:
    async with planes(tmp_path / "data") as client, fleet_for() as fleet:
        registered = registration(client, fleet)
        await registered.begin()
        with pytest.raises(Failed, match=f"{registered.names[1]}.* already exists: it is not of this machine's"):
            await registration(client, fleet, node="other").begin()
        assert await registered.look() == []
        assert set(await instances(client)) == {fleet[1].endpoint}


@pytest.mark.parametrize("ours", [True, False], ids=["ours", "somebody's"])
async def test_a_name_that_is_taken_is_used_only_where_it_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ours: bool
) -> None:
    async with planes(tmp_path / "data") as client, fleet_for() as fleet:
        registered = registration(client, fleet)
        await registered.begin()
        if not ours:
            key = Key("default", registered.names[1])
            await client.of(Instance).patch(key, {"metadata": {"labels": {RUN: "another"}}})

        async def none(_: object) -> list[Instance]:
            return []

        monkeypatch.setattr(registered, "_instances", none)  # as if the reply to its creation had been lost
        assert [type(each) for each in await registered.look()] == ([] if ours else [AlreadyExists])


async def test_a_server_that_goes_away_between_two_questions_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with planes(tmp_path / "data") as client, fleet_for() as fleet:
        registered = registration(client, fleet)
        await registered.begin()

        async def gone(*_: object, **__: object) -> None:
            raise Unreachable("it went away")

        with monkeypatch.context() as patched:
            patched.setattr(type(client.of(Instance)), "list", gone)
            assert [type(each) for each in await registered.look()] == [Unreachable]
        fleet[1].running = Slot(version="2", application="thermometer")
        with monkeypatch.context() as patched:
            patched.setattr(type(client.of(Instance)), "patch", gone)
            assert [type(each) for each in await registered.look()] == [Unreachable]
        await fleet[1].vanish()
        with monkeypatch.context() as patched:
            patched.setattr(type(client.of(Instance)), "delete", gone)
            assert [type(each) for each in await registered.look()] == [Unreachable]
        assert await registered.look() == []
        await fleet[1].come_back()
        await registered.look()
        with monkeypatch.context() as patched:
            patched.setattr(type(client.of(Instance)), "get", gone)
            assert not await registered._is_ours(registered.names[1])
            patched.setattr(type(client.of(Instance)), "delete", gone)
            with pytest.raises(Unreachable):
                await registration(client, fleet).begin()


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
        running = asyncio.create_task(registered.run())

        async def complains() -> bool:
            await clock.advance(1.0)
            return "retrying" in caplog.text

        await wait_until_async(complains, what="it says so")
        assert not running.done()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert [type(each) for each in await registered.look()] == [Unreachable]
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


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"tls.crt": "aGVsbG8="},
        {"tls.crt": base64.b64encode(b"-----BEGIN CERTIFICATE-----\naGk=\n-----END CERTIFICATE-----").decode()},
    ],
    ids=["empty", "something else", "something else that looks like one"],
)
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
