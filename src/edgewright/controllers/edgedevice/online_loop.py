"""Decides who is offline, and removes the shards of replicas that are gone.

The operator adds it with `add_online`; it works while this process leads. A gateway says that a device is online when
it hears it; this says that it is not heard any more. Each device is written once per change.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, Final

from edgewright.api.edgedevice import EdgeDevice
from edgewright.api.edgedeviceset import EdgeDeviceGroup, EdgeDeviceSet
from edgewright.api.edgeheartbeatshard import EdgeHeartbeatShard
from edgewright.controllers.edgedevice.metrics import EdgeMetrics
from edgewright.controllers.edgedevice.online import Heard, changes, offline
from edgewright.controllers.ledger import Ledger
from edgewright.controllers.settings import Settings
from edgewright.runtime import logs
from edgewright.runtime.cache import Cache, Change
from edgewright.runtime.clock import Clock
from edgewright.runtime.errors import KubernetesError, NotFound
from edgewright.runtime.manager import Manager

_log = logs.get("controllers.edgedevice")

_WRITERS: Final = 4
KEPT: Final = 7200.0
"""A shard that nobody has written for so long goes: what it tells is on the EdgeDevices by then."""


class Online:
    """The watch over all devices' heartbeats."""

    def __init__(self, manager: Manager, settings: Settings, clock: Clock) -> None:
        self._clock = clock
        self._timing = settings.timing
        self._api = manager.client.of(EdgeDevice)
        self._shards_api = manager.client.of(EdgeHeartbeatShard)
        self._recorder = manager.recorder
        self._devices = Ledger(manager.cache(EdgeDevice))
        self._sets: tuple[Cache[Any], ...] = (manager.cache(EdgeDeviceSet), manager.cache(EdgeDeviceGroup))
        self._shards = manager.cache(EdgeHeartbeatShard)
        self._heard = Heard()
        self._shards.subscribe(self._take)
        EdgeMetrics(manager.metrics.registry, self._devices.cache, lambda: manager.leads)

    def add(self, manager: Manager) -> None:
        """Adds the watch to a manager."""
        manager.background("online", self.run)

    async def run(self) -> None:
        """Looks again and again, until cancelled."""
        self._heard.alive_since = 0.0
        while True:
            try:
                await self.look()
            except KubernetesError as error:
                _log.warning("offline devices could not be written; retrying", error=error)
            await self._clock.sleep(self._timing.online_every)

    async def look(self) -> None:
        """Writes who has become offline, and removes what is old."""
        now = self._clock.now()
        if self._heard.look(now.timestamp(), pause=self._timing.gateway_pause):
            sets: dict[str, list[EdgeDeviceSet]] = {}
            for cache in self._sets:
                for each in cache:
                    sets.setdefault(each.metadata.namespace, []).append(each)
            late = changes(
                self._devices.cache, self._heard, sets, now=now.timestamp(), after=self._timing.offline_after
            )
            await self._write([self._devices.get(each.key) or each for each in late], now)
        await self._tidy(now)

    async def _write(self, late: list[EdgeDevice], now: datetime) -> None:
        room = asyncio.Semaphore(_WRITERS)

        async def one(device: EdgeDevice) -> None:
            async with room:
                status = offline(
                    device.status,
                    seen=self._heard.seen(device),
                    generation=device.metadata.generation,
                    now=now.astimezone(UTC),
                )
                try:
                    written = await self._api.write_status(device, status)
                except KubernetesError as error:  # with the next look, from what is so then
                    _log.debug("a device could not be shown as offline", device=str(device.key), error=error)
                    return
                self._devices.wrote(written)
                self._recorder.record_transitions(
                    device, device.status.conditions, status.conditions, bad=frozenset({"NotHeard"})
                )

        await asyncio.gather(*(one(device) for device in late))

    async def _tidy(self, now: datetime) -> None:
        for shard in self._shards:
            renewed = shard.spec.renew_time or shard.metadata.creation_timestamp
            if renewed is not None and (now - renewed).total_seconds() > KEPT:
                try:
                    await self._shards_api.delete(shard.key, uid=shard.metadata.uid)
                except NotFound:
                    continue

    def _take(self, change: Change[EdgeHeartbeatShard]) -> None:
        if change.new is not None:
            self._heard.take(change.new)


def add_online(manager: Manager, settings: Settings, clock: Clock) -> None:
    """Adds the watch over heartbeats."""
    Online(manager, settings, clock).add(manager)
