"""Which Device a job means: each entry of spec.uuid is an Instance's uid, a Device's uid or a Device's name.

The loop over FlashJobs asks it once a pass, through a protocol that `context` and tests fill. It never reads an
Instance: which uids a device has had stands on its Device.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from edgewright.api.device import Device
from edgewright.controllers.flashjob.context import BY_ENDPOINT, BY_INSTANCE, Context
from edgewright.controllers.flashjob.names import device_name


class Directory(Protocol):
    """Where Devices are looked up."""

    def named(self, name: str) -> Device | None:
        """The Device of this name."""

    def known_as(self, uid: str) -> Sequence[Device]:
        """The Devices that have this uid, or had an Instance with it, or were flashed by a job under it."""

    def at(self, endpoint: str) -> Sequence[Device]:
        """The Devices at an address, which is given in one spelling."""


class ContextDirectory:
    """The Devices of the world, as new as this process knows them."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def named(self, name: str) -> Device | None:
        """The Device of this name."""
        return self._context.device(name)

    def known_as(self, uid: str) -> Sequence[Device]:
        """The Devices that have this uid, or had an Instance with it, or were flashed by a job under it."""
        return self._context.devices.by(BY_INSTANCE, uid)

    def at(self, endpoint: str) -> Sequence[Device]:
        """The Devices at an address, which is given in one spelling."""
        return self._context.devices.by(BY_ENDPOINT, endpoint)


def resolve(uuids: Iterable[str], directory: Directory) -> dict[str, Device]:
    """The Device of each entry that is known; those that are not are left out."""
    found: dict[str, Device] = {}
    for uuid in uuids:
        devices = directory.known_as(uuid)
        if devices:
            found[uuid] = devices[0] if len(devices) == 1 else _owner(uuid, devices)
            continue
        # A Device that was made for a job's hostEndpoint has the entry for its name, as far as objects may have it.
        device = directory.named(uuid) or directory.named(device_name(uuid))
        if device is not None:
            found[uuid] = device
    return found


def _owner(uuid: str, devices: Sequence[Device]) -> Device:
    """Of several Devices with one uid: the one whose own it is, else the one that had it last, else the first with it.

    It happens where people fix the inventory by hand; every pass must answer alike.
    """
    return min(
        devices,
        key=lambda device: (
            device.metadata.uid != uuid,
            uuid not in device.status.instances[-1:],
            uuid not in device.status.instances,
            device.metadata.name,
        ),
    )
