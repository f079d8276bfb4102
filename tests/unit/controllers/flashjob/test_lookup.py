"""Which Device an entry of spec.uuid means."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from edgewright.api.device import Device, DeviceStatus, FlashRecord
from edgewright.controllers.flashjob.lookup import resolve
from edgewright.controllers.flashjob.names import device_name
from edgewright.runtime.objects import ObjectMeta


def device(name: str, uid: str = "", *instances: str) -> Device:
    return Device(metadata=ObjectMeta(name=name, uid=uid), status=DeviceStatus(instances=instances))


def called(name: str, uuid: str) -> Device:
    """A Device that a job has flashed under this name, and that the inventory does not know by it."""
    return Device(metadata=ObjectMeta(name=name), status=DeviceStatus(records=(FlashRecord(uuid=uuid),)))


class Listed:
    """A directory of these Devices."""

    def __init__(self, *devices: Device) -> None:
        self.devices = devices

    def named(self, name: str) -> Device | None:
        return next((each for each in self.devices if each.metadata.name == name), None)

    def known_as(self, uid: str) -> Sequence[Device]:
        return [each for each in self.devices if uid in (each.metadata.uid, *each.status.instances, *_called(each))]

    def at(self, endpoint: str) -> Sequence[Device]:
        return [each for each in self.devices if each.spec.endpoint == endpoint]


def _called(device: Device) -> list[str]:
    return [record.uuid for record in device.status.records]


@pytest.mark.parametrize(
    ("uuid", "name"),
    [
        ("board", "board"),
        ("uid-1", "board"),
        ("first-instance", "board"),
        ("second-instance", "board"),
        ("Board On My Desk", device_name("Board On My Desk")),
        ("nobody", None),
    ],
)
def test_an_entry_is_a_name_a_uid_or_an_instance(uuid: str, name: str | None) -> None:
    directory = Listed(
        device("board", "uid-1", "first-instance", "second-instance"), device(device_name("Board On My Desk"))
    )
    found = resolve([uuid], directory)
    assert [each.metadata.name for each in found.values()] == ([name] if name else [])


@pytest.mark.parametrize(
    ("devices", "name"),
    [
        ([device("a", "1", "x"), device("b", "x")], "b"),
        ([device("a", "1", "x", "y"), device("b", "2", "x")], "b"),
        ([device("b", "1", "x"), device("a", "2", "x")], "a"),
        ([called("a", "x"), device("b", "2", "x", "y")], "b"),
    ],
    ids=["its own uid", "had it last", "first by name", "had it, and was not only called so"],
)
def test_of_several_devices_with_one_uid_every_pass_picks_the_same(devices: list[Device], name: str) -> None:
    for order in (devices, devices[::-1]):
        assert resolve(["x"], Listed(*order))["x"].metadata.name == name
