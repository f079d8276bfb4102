"""The configuration of each device, made when it is asked for and kept until something that it is made of may differ.

The server asks `of` for every download. Objects that are cached say themselves when they change; Secrets and
ConfigMaps, which the gateway may only get by name, are read again after a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from edgewright.api.edge_matching import settings_of, workloads_of
from edgewright.api.edgedevice import EdgeDevice
from edgewright.api.edgedeviceset import EdgeDeviceGroup, EdgeDeviceSet
from edgewright.api.edgeworkload import EdgeDeployment, EdgeWorkload
from edgewright.gateway.assembly import Assembled, Source, Sources, assemble, needs
from edgewright.gateway.objects import ConfigMap, Secret
from edgewright.runtime.cache import Cache, Change
from edgewright.runtime.client import Client
from edgewright.runtime.clock import Clock
from edgewright.runtime.errors import Forbidden, NotFound
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key

_MAX_KEPT: Final = 50_000
_NAMESPACE: Final = "gateway-namespace"


class SourceReader:
    """Reads Secrets and ConfigMaps by name, each no more often than every few seconds."""

    def __init__(self, client: Client, clock: Clock, *, every: float) -> None:
        self._secrets = client.of(Secret)
        self._config_maps = client.of(ConfigMap)
        self._clock = clock
        self._every = every
        self._read: dict[tuple[str, Source], tuple[float, Secret | ConfigMap | None]] = {}
        self._reading: dict[tuple[str, Source], asyncio.Task[Secret | ConfigMap | None]] = {}

    async def read(self, namespace: str, sources: Iterable[Source]) -> Sources:
        """Those that are there."""
        wanted = list(sources)
        found = await asyncio.gather(*(self._one(namespace, source) for source in wanted))
        return {source: each for source, each in zip(wanted, found, strict=True) if each is not None}

    async def _one(self, namespace: str, source: Source) -> Secret | ConfigMap | None:
        place = (namespace, source)
        at, known = self._read.get(place, (None, None))
        if at is not None and self._clock.elapsed() - at < self._every:
            return known
        reading = self._reading.get(place)
        if reading is None:
            reading = self._reading[place] = asyncio.create_task(self._get(namespace, source))
            reading.add_done_callback(lambda _: self._reading.pop(place, None))
        found = await asyncio.shield(reading)  # many devices may wait for it, and one of them may hang up
        if len(self._read) > _MAX_KEPT:
            self._read.clear()
        self._read[place] = (self._clock.elapsed(), found)
        return found

    async def _get(self, namespace: str, source: Source) -> Secret | ConfigMap | None:
        key = Key(namespace, source.name)
        try:
            return await (self._secrets.get(key) if source.kind == "Secret" else self._config_maps.get(key))
        except (NotFound, Forbidden, ValueError):
            return None  # no such name, no right to it, or no name at all: it is missing for the device


@dataclass(frozen=True)
class _Kept:
    stamp: tuple[Any, ...]
    until: float
    assembled: Assembled


class Configurations:
    """What each device is to be."""

    def __init__(self, manager: Manager, clock: Clock, *, sources_every: float) -> None:
        self._clock = clock
        self._every = sources_every
        self._workloads: tuple[Cache[Any], ...] = (manager.cache(EdgeWorkload), manager.cache(EdgeDeployment))
        self._sets: tuple[Cache[Any], ...] = (manager.cache(EdgeDeviceSet), manager.cache(EdgeDeviceGroup))
        self._reader = SourceReader(manager.client, clock, every=sources_every)
        self._kept: dict[Key, _Kept] = {}
        self._epochs: dict[str, int] = {}
        for cache in (*self._workloads, *self._sets):
            cache.add_index(_NAMESPACE, lambda each: (each.metadata.namespace,))
            cache.subscribe(self._changed)

    async def of(self, device: EdgeDevice) -> Assembled:
        """The configuration of a device as it is now."""
        stamp = self._stamp(device)
        kept = self._kept.get(device.key)
        if kept is not None and kept.stamp == stamp and self._clock.elapsed() < kept.until:
            return kept.assembled
        namespace = device.metadata.namespace
        settings = settings_of(device, self._in(self._sets, namespace))
        workloads = workloads_of(device, self._in(self._workloads, namespace))
        sources = await self._reader.read(namespace, needs(device, settings, workloads))
        assembled = assemble(device, settings, workloads, sources)
        if len(self._kept) > _MAX_KEPT:
            self._kept.clear()
        self._kept[device.key] = _Kept(stamp, self._clock.elapsed() + self._every, assembled)
        return assembled

    def _in(self, caches: tuple[Cache[Any], ...], namespace: str) -> list[Any]:
        return [each for cache in caches for each in cache.by(_NAMESPACE, namespace)]

    def _stamp(self, device: EdgeDevice) -> tuple[Any, ...]:
        metadata = device.metadata
        return (
            metadata.uid,
            metadata.generation,
            tuple(sorted(metadata.labels.items())),
            device.deleting,
            device.status.data_obc,
            self._epochs.get(metadata.namespace, 0),
        )

    def _changed(self, change: Change[Any]) -> None:
        """Something other than a status was written in a namespace."""
        old, new = change.old, change.new
        if old is not None and new is not None and old.metadata.generation == new.metadata.generation != 0:
            same = (old.metadata.labels, old.metadata.annotations, old.deleting)
            if same == (new.metadata.labels, new.metadata.annotations, new.deleting):
                return
        namespace = change.latest.metadata.namespace
        self._epochs[namespace] = self._epochs.get(namespace, 0) + 1
