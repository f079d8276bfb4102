"""Which devices this replica has heard, and when, written into shards every half minute.

The server notes every heartbeat here, in memory; `run` writes the shards that changed. Ten thousand heartbeats a minute
are forty writes. A replica that is killed loses what it heard since its last write and nothing else; one that is
stopped writes first. Nothing here decides who is offline.
"""

from __future__ import annotations

import uuid
from typing import Final

import msgspec

from edgewright.api.edgeheartbeatshard import SHARD_SIZE, EdgeHeartbeatShard, EdgeHeartbeatShardSpec, entry_of
from edgewright.gateway.settings import GatewaySettings
from edgewright.runtime import logs
from edgewright.runtime.client import Client
from edgewright.runtime.clock import Clock
from edgewright.runtime.errors import AlreadyExists, KubernetesError, NotFound
from edgewright.runtime.objects import Key, ObjectMeta

_log = logs.get("gateway.heard")

KEPT: Final = 3600
"""A device that this replica has not heard for so many seconds is taken out of its shards."""


class Heard:
    """The last-seen times of one replica."""

    def __init__(self, client: Client, settings: GatewaySettings, clock: Clock) -> None:
        self._api = client.of(EdgeHeartbeatShard)
        self._namespace = settings.namespace
        self._every = settings.heard_every
        self._clock = clock
        self.replica = settings.replica or f"gateway-{uuid.uuid4().hex[:10]}"
        self._shards: list[dict[str, int]] = []
        self._places: dict[str, int] = {}
        self._changed: set[int] = set()

    def note(self, device: Key) -> None:
        """A device was heard."""
        entry, now = entry_of(device), int(self._clock.now().timestamp())
        place = self._places.get(entry)
        if place is None:
            place = self._places[entry] = self._free()
        self._shards[place][entry] = now
        self._changed.add(place)

    async def run(self) -> None:
        """Writes what is new every half minute, until cancelled."""
        while True:
            await self._clock.sleep(self._every)
            await self.write()

    async def write(self) -> None:
        """Writes the shards in which somebody was heard; what the server refuses is tried again with the next."""
        self._forget()
        for place in sorted(self._changed):
            self._changed.discard(place)
            try:
                await self._write(place)
            except KubernetesError as error:
                self._changed.add(place)
                _log.warning("heartbeats could not be written; retrying", shard=self._name(place), error=error)
                return

    async def _write(self, place: int) -> None:
        spec = EdgeHeartbeatShardSpec(
            replica=self.replica, renew_time=self._clock.now().replace(microsecond=0), heard=dict(self._shards[place])
        )
        shard = EdgeHeartbeatShard(metadata=ObjectMeta(name=self._name(place), namespace=self._namespace), spec=spec)
        try:
            await self._replace(shard)
        except NotFound:
            try:
                await self._api.create(shard)
            except AlreadyExists:
                await self._replace(shard)

    async def _replace(self, shard: EdgeHeartbeatShard) -> None:
        spec = msgspec.to_builtins(shard.spec)
        await self._api.patch(shard.key, [{"op": "replace", "path": "/spec", "value": spec}])

    def _name(self, place: int) -> str:
        return f"{self.replica}-{place}"

    def _free(self) -> int:
        for place, shard in enumerate(self._shards):
            if len(shard) < SHARD_SIZE:
                return place
        self._shards.append({})
        return len(self._shards) - 1

    def _forget(self) -> None:
        last = int(self._clock.now().timestamp()) - KEPT
        for place, shard in enumerate(self._shards):
            for entry in [each for each, heard in shard.items() if heard < last]:
                del shard[entry]
                del self._places[entry]
                self._changed.add(place)
