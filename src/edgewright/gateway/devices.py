"""The EdgeDevices as the gateway reads and writes them: found by id, and changed on condition that nobody else did.

`registration` and `server` use it. What the cache does not have yet is asked for; a write that meets another is made
again from the newer state; nothing is written where nothing changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from edgewright.api.edgedevice import (
    KEY_ANNOTATION,
    ONLINE,
    REGISTERED,
    DeviceCertificate,
    EdgeDevice,
    EdgeDeviceStatus,
)
from edgewright.gateway.identity import Caller
from edgewright.gateway.settings import GatewaySettings
from edgewright.runtime.clock import Clock
from edgewright.runtime.conditions import condition, set_condition
from edgewright.runtime.errors import Conflict, NotFound
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key

_ID: Final = "gateway-device-id"
_ATTEMPTS: Final = 5


class Devices:
    """Every EdgeDevice in the namespaces of the gateway."""

    def __init__(self, manager: Manager, settings: GatewaySettings, clock: Clock) -> None:
        self._api = manager.client.of(EdgeDevice)
        self._cache = manager.cache(EdgeDevice)
        self._cache.add_index(_ID, lambda device: (device.metadata.name,))
        self._namespaces = settings.allowed_namespaces
        self._clock = clock

    async def get(self, key: Key) -> EdgeDevice | None:
        """The device of this name; asked for where the cache does not have it."""
        found = self._cache.get(key)
        return found if found is not None else await self._cache.fetch(key)

    async def with_id(self, device: str) -> EdgeDevice | None:
        """The device of this id, in whichever namespace of ours it is."""
        known = sorted(self._cache.by(_ID, device), key=lambda each: each.metadata.namespace)
        if known:
            return known[0]
        for namespace in self._namespaces:
            found = await self._cache.fetch(Key(namespace, device))
            if found is not None:
                return found
        return None

    async def create(self, device: EdgeDevice) -> EdgeDevice:
        """Makes it; AlreadyExists where it is there."""
        return await self._api.create(device)

    async def write_status(
        self, device: EdgeDevice, change: Callable[[EdgeDeviceStatus], EdgeDeviceStatus]
    ) -> EdgeDevice | None:
        """Makes the status what `change` makes of it; None where the device is gone."""
        for _ in range(_ATTEMPTS):
            after = change(device.status)
            if after == device.status:
                return device
            try:
                return await self._api.write_status(device, after)
            except NotFound:
                return None
            except Conflict:
                fresh = await self._cache.fetch(device.key)
                if fresh is None:
                    return None
                device = fresh
        raise Busy(device)

    async def change(self, device: EdgeDevice, patch: Callable[[EdgeDevice], dict[str, object]]) -> EdgeDevice | None:
        """Changes its metadata by what `patch` says, nothing where that is empty; None where the device is gone."""
        for _ in range(_ATTEMPTS):
            metadata = patch(device)
            if not metadata:
                return device
            try:
                return await self._api.patch(
                    device.key, {"metadata": metadata}, resource_version=device.metadata.resource_version
                )
            except NotFound:
                return None
            except Conflict:
                fresh = await self._cache.fetch(device.key)
                if fresh is None:
                    return None
                device = fresh
        raise Busy(device)

    async def confirm(self, device: EdgeDevice, key: str) -> EdgeDevice | None:
        """Notes once that the device has used a certificate with this key: nobody else can register as it any more."""
        if device.metadata.annotations.get(KEY_ANNOTATION):
            return device
        return await self.change(
            device,
            lambda each: (
                {} if each.metadata.annotations.get(KEY_ANNOTATION) else {"annotations": {KEY_ANNOTATION: key}}
            ),
        )

    def is_confirmed(self, device: EdgeDevice) -> bool:
        """Whether it is noted that the device has used a certificate of its own."""
        return bool(device.metadata.annotations.get(KEY_ANNOTATION))

    async def drop_finalizers(self, device: EdgeDevice, *names: str) -> None:
        """Takes these off a device that is being deleted."""

        def without(each: EdgeDevice) -> dict[str, object]:
            left = [name for name in each.metadata.finalizers if name not in names]
            return {} if len(left) == len(each.metadata.finalizers) else {"finalizers": left}

        await self.change(device, without)

    def registered(self, status: EdgeDeviceStatus, generation: int) -> EdgeDeviceStatus:
        """The status with the condition that the device has a certificate of its own."""
        new = condition(REGISTERED, "True", "CertificateIssued", "the device has a certificate", generation=generation)
        conditions = set_condition(status.conditions, new, now=self._clock.now())
        return msgspec.structs.replace(status, conditions=conditions)

    def heard(self, status: EdgeDeviceStatus, caller: Caller, generation: int) -> EdgeDeviceStatus:
        """The status of a device that has just used this certificate."""
        online = condition(ONLINE, "True", "Heard", "its heartbeats come", generation=generation)
        conditions = set_condition(self.registered(status, generation).conditions, online, now=self._clock.now())
        certificate = DeviceCertificate(
            serial_number=caller.serial, issuer=caller.issuer, not_after=caller.not_after.replace(microsecond=0)
        )
        return msgspec.structs.replace(status, conditions=conditions, certificate=certificate)


class Busy(Exception):
    """Others write an EdgeDevice all the time."""

    def __init__(self, device: EdgeDevice) -> None:
        super().__init__(f"EdgeDevice {device.key} keeps changing")
