"""Who is let in: what people decided about an id, and how many may come with one registration certificate.

The server asks about every caller, `registration` before it lets a device in. It reads caches only, so a decision
counts at every replica as soon as its watch brings it. It writes nothing but the record of a device told to go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

from edgewright.api.edge_tombstone import DECOMMISSIONED, tombstone_of, without_device
from edgewright.api.edgedevice import EdgeDevice
from edgewright.api.edgedevicesignedrequest import REGISTRATION, EdgeDeviceSignedRequest, id_record
from edgewright.gateway.identity import Caller
from edgewright.gateway.settings import GatewaySettings
from edgewright.runtime.cache import Change
from edgewright.runtime.clock import Clock
from edgewright.runtime.errors import AlreadyExists
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key

_ID: Final = "gateway-request-id"
_PENDING: Final = "gateway-pending"
_CAME_WITH: Final = "gateway-came-with"
_MINUTE: Final = 60.0
NAME_LENGTH: Final = 32
"""How much of the hash of a registration certificate's key names it."""


class Refused(Exception):
    """The answer is no: a code, and a sentence for whoever set up the device."""

    def __init__(self, code: int, message: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.headers = dict(headers or {})


class Admission:
    """The records of ids, and the limits of registration certificates."""

    def __init__(self, manager: Manager, settings: GatewaySettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._api = manager.client.of(EdgeDeviceSignedRequest)
        self._requests = manager.cache(EdgeDeviceSignedRequest)
        self._requests.add_index(_ID, lambda each: (each.metadata.name,))
        self._requests.add_index(_PENDING, _pending)
        self._devices = manager.cache(EdgeDevice)
        self._devices.add_index(_CAME_WITH, _came_with)
        self._came: dict[str, deque[float]] = {}
        self._revoked: dict[str, datetime] = {}
        self.revoked: Callable[[str], None] = lambda _: None
        """Called with a name whose certificates have become void."""
        self._requests.subscribe(self._changed)

    def record(self, device: str) -> EdgeDeviceSignedRequest | None:
        """What was decided about an id, as far as the cache knows."""
        return id_record(self._requests.by(_ID, device))

    async def newest(self, device: str) -> EdgeDeviceSignedRequest | None:
        """The same; asked for where the cache has nothing."""
        return self.record(device) or await self._requests.fetch(Key(self._settings.namespace, device))

    def revoked_before(self, name: str) -> datetime | None:
        """Up to which moment certificates of this name are void."""
        return self._revoked.get(name)  # asked with every request

    def demand_not_denied(self, device: str, record: EdgeDeviceSignedRequest | None) -> None:
        """Refuses an id that people keep out."""
        if record is not None and record.spec.denied:
            why = f": {record.spec.reason}" if record.spec.reason else ""
            raise Refused(403, f"device {device} is denied{why}; `edgewright edge approve {device}` lets it in again")

    def demand_room(self, caller: Caller) -> str:
        """Counts a device that comes in with a registration certificate, and names that; refuses one too many."""
        name, limits, now = caller.key[:NAME_LENGTH], self._settings.limits, self._clock.elapsed()
        if not caller.is_registration:
            return name
        came = self._came.setdefault(name, deque())
        while came and now - came[0] >= _MINUTE:
            came.popleft()
        if len(came) >= limits.enrolments_a_minute:
            raise Refused(429, f"more than {limits.enrolments_a_minute} devices came in a minute: try again later")
        if self._requests.count(_PENDING, name) >= limits.pending:
            raise Refused(429, f"{limits.pending} devices wait for approval: approve or deny some first")
        if self._devices.count(_CAME_WITH, name) >= limits.total:
            raise Refused(403, f"{limits.total} devices came with this registration certificate, which is all that may")
        came.append(now)
        return name

    def _changed(self, change: Change[EdgeDeviceSignedRequest]) -> None:
        name = change.latest.metadata.name
        found = self.record(name)
        if found is None or found.spec.revoked_before is None:
            self._revoked.pop(name, None)
        else:
            self._revoked[name] = found.spec.revoked_before
            self.revoked(name)

    async def bury(self, device: EdgeDevice) -> None:
        """Records that a device was told to go, before its EdgeDevice does."""
        record = await self.newest(device.metadata.name)
        if record is None:
            if without_device(device):
                return
            try:
                await self._api.create(tombstone_of(device, self._settings.namespace))
            except AlreadyExists:
                return
        elif not (record.spec.denied and record.spec.decommissioned):
            version = record.metadata.resource_version
            await self._api.patch(record.key, {"spec": DECOMMISSIONED}, resource_version=version)


def _pending(request: EdgeDeviceSignedRequest) -> tuple[str, ...]:
    name = request.metadata.annotations.get(REGISTRATION, "")
    waits = not (request.spec.approved or request.spec.denied)
    return (name,) if name and waits else ()


def _came_with(device: EdgeDevice) -> tuple[str, ...]:
    name = device.metadata.annotations.get(REGISTRATION, "")
    return (name,) if name else ()
