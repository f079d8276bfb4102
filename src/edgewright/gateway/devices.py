"""The EdgeDevices as the gateway reads and writes them: found by id, and changed on condition that nobody else did.

`registration` and `server` use it. What the cache does not have yet is asked for; a write that meets another is made
again from the newer state; nothing is written where nothing changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from edgewright.api.edgedevice import KEY_ANNOTATION, REGISTERED, EdgeDevice, EdgeDeviceStatus
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
        self._confirmed: dict[Key, str] = {}

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
        raise _busy(device)

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
        raise _busy(device)

    async def confirm(self, device: EdgeDevice, key: str) -> EdgeDevice | None:
        """Notes once that the device has used a certificate with this key: nobody else can register as it any more."""
        if self._confirmed.get(device.key) == device.metadata.uid or device.metadata.annotations.get(KEY_ANNOTATION):
            return device
        changed = await self.change(
            device,
            lambda each: (
                {} if each.metadata.annotations.get(KEY_ANNOTATION) else {"annotations": {KEY_ANNOTATION: key}}
            ),
        )
        if changed is not None:
            self._confirmed[changed.key] = changed.metadata.uid
        return changed

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


def _busy(device: EdgeDevice) -> Exception:
    return RuntimeError(f"EdgeDevice {device.key} keeps changing")
