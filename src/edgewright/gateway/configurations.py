"""The configuration of each device, made when it is asked for and kept until something that it is made of may differ.

The server asks `of` for every download, and `news` for one that may wait. What devices with the same settings and
workloads have in common is put together once. Objects that are cached say themselves when they change; Secrets and
ConfigMaps, which the gateway may only get by name, are read again after a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from edgewright.api.edge_matching import candidates, selected, settings_of
from edgewright.api.edge_revisions import Versions, by_workload, owner, served, workload_of
from edgewright.api.edgedevice import WORKLOAD_FINALIZER, DeviceSettings, EdgeDevice, EdgeDeviceSpec
from edgewright.api.edgedeviceset import EdgeDeviceGroup, EdgeDeviceSet
from edgewright.api.edgeworkload import EdgeDeployment, EdgeWorkload
from edgewright.api.edgeworkloadrevision import EdgeWorkloadRevision
from edgewright.gateway.assembly import Assembled, Source, Sources, assemble, encoded_rest, needs, with_id
from edgewright.gateway.objects import ConfigMap, Secret
from edgewright.runtime.cache import Cache, Change
from edgewright.runtime.client import Client
from edgewright.runtime.clock import Clock
from edgewright.runtime.errors import Forbidden, NotFound
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key

_MAX_KEPT: Final = 50_000
_MAX_COMMON: Final = 5_000
_NAMESPACE: Final = "gateway-namespace"
_SHORTEST: Final = 0.01


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
            reading.add_done_callback(lambda done: self._ended(place, done))
        found = await asyncio.shield(reading)  # many devices may wait for it, and one of them may hang up
        if len(self._read) > _MAX_KEPT:
            self._read.clear()
        self._read[place] = (self._clock.elapsed(), found)
        return found

    def _ended(self, place: tuple[str, Source], reading: asyncio.Task[Secret | ConfigMap | None]) -> None:
        self._reading.pop(place, None)
        if not reading.cancelled():
            reading.exception()  # looked at also where nobody has waited so long: asyncio would complain

    async def _get(self, namespace: str, source: Source) -> Secret | ConfigMap | None:
        key = Key(namespace, source.name)
        try:
            return await (self._secrets.get(key) if source.kind == "Secret" else self._config_maps.get(key))
        except (NotFound, Forbidden, ValueError):
            return None  # no such name, no right to it, or no name at all: it is missing for the device


@dataclass(frozen=True)
class Ready:
    """The configuration of a device as it is sent."""

    version: str
    content: bytes
    """JSON."""
    assembled: Assembled
    """What it is made of, and what was left out; of any device that has the same."""
    revisions: Mapping[str, str]
    """Which version of each workload with a rollout is in it, by the name of the workload."""


@dataclass(frozen=True)
class _Common:
    """What devices with the same settings and workloads have in common: all but their ids."""

    rest: bytes
    until: float
    assembled: Assembled
    revisions: Mapping[str, str]


@dataclass(frozen=True)
class _Counting:
    """The workloads that count in a namespace, whomever they select, at one of its epochs."""

    epoch: int
    workloads: list[EdgeWorkload]
    staged: Mapping[str, Versions]
    """Those that have a rollout, by name."""


@dataclass(frozen=True)
class _Kept:
    stamp: tuple[Any, ...]
    until: float
    ready: Ready


class Configurations:
    """What each device is to be."""

    def __init__(self, manager: Manager, clock: Clock, *, sources_every: float) -> None:
        self._clock = clock
        self._every = sources_every
        self._devices = manager.cache(EdgeDevice)
        self._workloads: tuple[Cache[Any], ...] = (manager.cache(EdgeWorkload), manager.cache(EdgeDeployment))
        self._sets: tuple[Cache[Any], ...] = (manager.cache(EdgeDeviceSet), manager.cache(EdgeDeviceGroup))
        self._revisions = manager.cache(EdgeWorkloadRevision)
        self._reader = SourceReader(manager.client, clock, every=sources_every)
        self._kept: dict[Key, _Kept] = {}
        self._common: dict[tuple[Any, ...], _Common] = {}
        self._counting: dict[str, _Counting] = {}
        self._epochs: dict[str, int] = {}
        self._waiting: dict[str, dict[Key, set[asyncio.Future[None]]]] = {}
        self.interrupts: Callable[[Key], bool] = lambda _: False
        """Whether a device is to ask for commands now: then it waits for no news."""
        caches: tuple[Cache[Any], ...] = (*self._workloads, *self._sets, self._revisions)
        for cache in caches:
            cache.add_index(_NAMESPACE, lambda each: (each.metadata.namespace,))
        for cache in (*self._workloads, *self._sets):
            cache.subscribe(self._changed)
        self._revisions.subscribe(self._revision_changed)
        self._devices.subscribe(self._device_changed)

    async def of(self, device: EdgeDevice) -> Ready:
        """The configuration of a device as it is now."""
        stamp = self._stamp(device)
        kept = self._kept.get(device.key)
        if kept is not None and kept.stamp == stamp and self._clock.elapsed() < kept.until:
            return kept.ready
        common = await self._common_of(device)
        ready = _ready(device.metadata.name, common)
        if len(self._kept) > _MAX_KEPT:
            self._kept.clear()
        self._kept[device.key] = _Kept(stamp, common.until, ready)
        return ready

    async def applied(self, device: EdgeDevice, version: str) -> Mapping[str, str] | None:
        """Which version of each workload with a rollout a device has that has applied this version of its
        configuration; None where it is not the present one, or no workload there has a rollout.
        """
        if not self._counting_in(device.metadata.namespace).staged:
            return None
        ready = await self.of(device)
        return ready.revisions if ready.version == version else None

    async def news(
        self,
        key: Key,
        known: str,
        *,
        seconds: float,
        heeds: bool = False,
        ends: Callable[[], bool] = lambda: False,
    ) -> tuple[EdgeDevice | None, Ready | None]:
        """The configuration of a device as soon as its version is not the known one, or as it is after a while.

        `heeds` says that its agent asks for commands after each answer: then one ends the wait. A device that is being
        deleted does not wait either: it is let go once it has answered to that. `ends` is asked whenever something
        may have changed: whether the answer would be no by now.
        """
        deadline = self._clock.elapsed() + seconds
        while True:
            told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            waiting = self._waiting.setdefault(key.namespace, {}).setdefault(key, set())
            waiting.add(told)  # before looking, so that no change is missed
            try:
                device = self._devices.get(key)
                if device is None:
                    return None, None
                ready = await self.of(device)
                left = deadline - self._clock.elapsed()
                if ready.version != known or left <= 0 or ends():
                    return device, ready
                if _is_let_go(device, heeds) or (heeds and self.interrupts(key)):
                    return device, ready
                until = self._kept[key].until - self._clock.elapsed() if key in self._kept else left
                with suppress(TimeoutError):
                    async with self._clock.timeout(max(min(left, until), _SHORTEST)):
                        await told
            finally:
                waiting.discard(told)
                if not waiting:
                    self._waiting.get(key.namespace, {}).pop(key, None)

    def wake(self, key: Key) -> None:
        """Looks again whether a device has to wait."""
        _tell(self._waiting.get(key.namespace, {}).get(key, ()))

    @property
    def waiting(self) -> int:
        """How many devices wait for news."""
        return sum(len(each) for each in self._waiting.values())

    async def _common_of(self, device: EdgeDevice) -> _Common:
        namespace = device.metadata.namespace
        settings = settings_of(device, self._in(self._sets, namespace))
        workloads, revisions = self._versions(device)
        key = (
            namespace,
            self._epochs.get(namespace, 0),
            device.status.data_obc,
            device.deleting,
            msgspec.json.encode(_shared(settings)),
            tuple((each.metadata.name, revisions.get(each.metadata.name, "")) for each in workloads),
        )
        common = self._common.get(key)
        if common is not None and self._clock.elapsed() < common.until:
            return common
        needed = needs(device, settings, workloads)
        sources = await self._reader.read(namespace, needed)
        assembled = assemble(device, settings, workloads, sources)
        if len(self._common) > _MAX_COMMON:
            self._common.clear()
        until = self._clock.elapsed() + self._every if needed else float("inf")
        sent = {name: version for name, version in revisions.items() if name not in assembled.left_out}
        common = self._common[key] = _Common(encoded_rest(assembled.message), until, assembled, sent)
        return common

    def _versions(self, device: EdgeDevice) -> tuple[list[EdgeWorkload], dict[str, str]]:
        """The workloads of a device, each in the version that is its own, and which that is where it has a rollout."""
        counting = self._counting_in(device.metadata.namespace)
        found = selected(device, counting.workloads)
        if not counting.staged:
            return found, {}
        workloads, revisions = [], {}
        for each in found:
            versions = counting.staged.get(each.metadata.name)
            if versions is None:
                workloads.append(each)
            elif (version := versions.of(device.metadata.name)) is not None:
                revisions[each.metadata.name] = version[0]
                workloads.append(version[1])
        return workloads, revisions

    def _counting_in(self, namespace: str) -> _Counting:
        """The workloads that count there: looked through once after each change."""
        epoch = self._epochs.get(namespace, 0)
        known = self._counting.get(namespace)
        if known is None or known.epoch != epoch:
            revisions = by_workload(self._in((self._revisions,), namespace))
            found = candidates(
                served(each, revisions.get(owner(each), [])) for each in self._in(self._workloads, namespace)
            )
            staged = {
                each.metadata.name: Versions(each, revisions.get(owner(each), []))
                for each in found
                if each.spec.rollout is not None
            }
            known = self._counting[namespace] = _Counting(epoch, found, staged)
        return known

    def _in(self, caches: tuple[Cache[Any], ...], namespace: str) -> list[Any]:
        return [each for cache in caches for each in cache.by(_NAMESPACE, namespace)]

    def _stamp(self, device: EdgeDevice) -> tuple[Any, ...]:
        metadata = device.metadata
        return (
            metadata.uid,
            metadata.generation,
            metadata.labels,
            device.deleting,
            device.status.data_obc,
            self._epochs.get(metadata.namespace, 0),
        )

    def _revision_changed(self, change: Change[EdgeWorkloadRevision]) -> None:
        """A version of a workload was written; one without a rollout is what its spec says."""
        kind, key = workload_of(change.latest)
        found = [each for cache in self._workloads if (each := cache.get(key)) is not None and each.kind.kind == kind]
        if not found or found[0].spec.rollout is not None:
            self._changed(change)

    def _changed(self, change: Change[Any]) -> None:
        """Something other than a status was written in a namespace."""
        old, new = change.old, change.new
        if old is not None and new is not None and old.metadata.generation == new.metadata.generation != 0:
            same = (old.metadata.labels, old.metadata.annotations, old.deleting)
            if same == (new.metadata.labels, new.metadata.annotations, new.deleting):
                return
        namespace = change.latest.metadata.namespace
        self._epochs[namespace] = self._epochs.get(namespace, 0) + 1
        for key in [each for each in self._common if each[0] == namespace]:
            del self._common[key]
        for waiting in self._waiting.get(namespace, {}).values():
            _tell(waiting)

    def _device_changed(self, change: Change[EdgeDevice]) -> None:
        key = change.latest.key
        if change.new is None:
            self._kept.pop(key, None)
        waiting = self._waiting.get(key.namespace, {}).get(key)
        if waiting:
            kept = self._kept.get(key)
            if change.new is None or kept is None or kept.stamp != self._stamp(change.new):
                _tell(waiting)


def _shared(settings: DeviceSettings) -> DeviceSettings:
    """The settings without what each device has of its own: when it asked to be registered is in no configuration."""
    return msgspec.structs.replace(settings, request_time=None) if isinstance(settings, EdgeDeviceSpec) else settings


def _ready(name: str, common: _Common) -> Ready:
    version, content = with_id(name, common.rest)
    return Ready(version, content, common.assembled, common.revisions)


def _is_let_go(device: EdgeDevice, heeds: bool) -> bool:
    """Whether a device that is being deleted has to answer now: that its workloads are gone, or to be told to end."""
    return device.deleting and (heeds or WORKLOAD_FINALIZER in device.metadata.finalizers)


def _tell(waiting: Iterable[asyncio.Future[None]]) -> None:
    for each in waiting:
        if not each.done():
            each.set_result(None)
