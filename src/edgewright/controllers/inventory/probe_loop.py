"""Asks Devices what they run: those that people wrote, those that Akri lost, and those that a rollout watches.

`add_inventory` adds this third loop where it is given something that asks. A Device that is claimed is left to its
flasher, also by a question that is under way. Nothing is written where nothing has changed, and nothing is ever sent to
a device but the question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from edgewright.api.device import Device, DeviceStatus
from edgewright.api.endpoint import endpoint_problem
from edgewright.api.instance import Instance
from edgewright.api.probe import Answer, Asks, Silent, Told, Unaskable
from edgewright.controllers.inventory.device_state import View
from edgewright.controllers.inventory.probe_results import after_answer, after_difference, after_silence, difference
from edgewright.controllers.inventory.sightings import Sighting, canonical_endpoint, sighting_of
from edgewright.controllers.ledger import Ledger
from edgewright.controllers.settings import Settings
from edgewright.runtime import logs
from edgewright.runtime.cache import Cache, Change
from edgewright.runtime.clock import Clock
from edgewright.runtime.controller import DONE, For, Maps, Result, requeue_after
from edgewright.runtime.errors import Conflict
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key

_log = logs.get("controllers.inventory")

WORKERS: Final = 16
"""How many devices are waited for at once."""
_SOON: Final = 1.0


class Known(Protocol):
    """What the inventory knows."""

    instances: Cache[Instance]
    devices: Ledger[Device]

    def view(self, device: Device) -> View:
        """What is known about a Device now."""

    def devices_of(self, instance: Instance) -> list[Key]:
        """The Devices that have had this Instance."""

    def with_endpoint(self, endpoint: str) -> list[Device]:
        """The Devices at this endpoint, in its one spelling."""

    def sighted_at(self, endpoint: str) -> Iterable[Sighting]:
        """What the Instances that are there now show at this endpoint."""


@dataclass(kw_only=True)
class _Memory:
    """What this process remembers of a Device that it asks."""

    where: tuple[str, str]
    """The protocol and the endpoint that it was asked by."""
    asked: float | None = None
    """When it was last asked, in the clock's elapsed seconds; None where it is to be asked at once."""
    heard: datetime | None = None
    """When it last answered."""
    unaskable: bool = False


class Probing:
    """The loop over the Devices that are asked."""

    def __init__(
        self,
        manager: Manager,
        known: Known,
        asks: Asks,
        settings: Settings,
        clock: Clock,
        *,
        observed: Callable[[Device], bool] = lambda _: False,
        due: Callable[[Device], datetime | None] = lambda _: None,
    ) -> None:
        """`observed` says of a Device whether it is asked more often, and also where an Instance shows it.

        `due` says from when on somebody wants to know that it was seen.
        """
        self._observed = observed
        self._due = due
        self._known = known
        self._asks = asks
        self._local = settings.local
        self._timing = settings.timing
        self._clock = clock
        self._api = manager.client.of(Device)
        self._memories: dict[Key, _Memory] = {}
        self._asking: dict[Key, asyncio.Timeout] = {}
        known.devices.cache.subscribe(self._heard)

    def add(self, manager: Manager) -> None:
        """Adds the loop to the manager."""
        devices = self._known.devices.cache
        manager.controller(
            "probing",
            self.look,
            For(devices, when=_asked_otherwise),
            Maps(devices, to=self._neighbours, when=_freed),
            Maps(self._known.instances, to=self._shown, when=_shows_otherwise),
            workers=WORKERS,
        )
        manager.at_stop(self._hang_up)

    def looks_after(self, device: Device) -> bool:
        """Whether the Device is asked now and then, as long as no Instance shows it and nobody flashes it."""
        if not self._is_askable(device):
            return False
        # Whatever an Instance shows there now is that Device, and not this one.
        return not any(self._known.sighted_at(canonical_endpoint(device.spec.endpoint)))

    def _is_askable(self, device: Device) -> bool:
        memory = self._memories.get(device.key)
        if memory is not None and memory.unaskable and memory.where == _where(device):
            return False
        return endpoint_problem(device.spec.endpoint, local=self._local) is None

    def _every(self, device: Device) -> float:
        """How many seconds there are between two questions."""
        timing = self._timing
        return min(timing.observe_every, timing.probe_every) if self._observed(device) else timing.probe_every

    async def look(self, key: Key) -> Result:
        """One pass for a Device: asks it, where that is to be done now, and writes down what came of it."""
        device = self._known.devices.get(key)
        if device is None or device.deleting:
            self._memories.pop(key, None)
            return DONE
        if not self._is_to_be_asked(device):
            return DONE  # what changes that brings a pass of its own
        memory = self._memory(device)
        wait = 0.0 if memory.asked is None else memory.asked + self._every(device) - self._clock.elapsed()
        if wait > 0:
            return requeue_after(wait)
        answer = await self._ask(device)
        if isinstance(answer, Unaskable):
            memory.unaskable = True
            _log.info("device cannot be probed", device=device.metadata.name, reason=answer.reason)
            return DONE
        memory.asked = self._clock.elapsed()
        if answer is not None and await self._note(device, answer, memory):
            return requeue_after(self._every(device))
        memory.asked = None
        return requeue_after(_SOON)

    async def _note(self, asked: Device, answer: Told | Silent, memory: _Memory) -> bool:
        """Writes down what came of asking a Device; False where that is about what was, and it must be asked again."""
        newest = self._known.devices.get(asked.key)
        if newest is None or not self._is_to_be_asked(newest) or _is_another_matter(asked, newest):
            return False
        try:
            await self._write(newest, answer, memory)
        except Conflict:
            return False
        return True

    def _is_to_be_asked(self, device: Device) -> bool:
        seen = bool(self._known.view(device).sightings)
        if seen and not (self._observed(device) and self._is_askable(device)):
            return False
        if not seen and not self.looks_after(device):
            return False
        return all(each.status.claim is None for each in (device, *self._at(device)))

    def _at(self, device: Device) -> list[Device]:
        return self._known.with_endpoint(canonical_endpoint(device.spec.endpoint))

    def _neighbours(self, device: Device) -> Iterator[Key]:
        """The Devices at the same endpoint."""
        return (each.key for each in self._at(device))

    def _shown(self, instance: Instance) -> Iterator[Key]:
        """The Devices that have had this Instance, and those at its endpoint."""
        yield from self._known.devices_of(instance)
        sighting = sighting_of(instance)
        if sighting is not None:
            yield from (each.key for each in self._known.with_endpoint(sighting.place))

    def _memory(self, device: Device) -> _Memory:
        memory = self._memories.get(device.key)
        if memory is None or memory.where != _where(device):
            memory = self._memories[device.key] = _Memory(where=_where(device))
        return memory

    async def _ask(self, device: Device) -> Answer | None:
        """What comes of asking the device; None where the question was ended: its flasher has a claimed one alone."""
        try:
            async with asyncio.timeout(None) as until:
                self._asking[device.key] = until
                return await self._asks.ask(device.spec.protocol, device.spec.endpoint)
        except TimeoutError:
            return None
        finally:
            self._asking.pop(device.key, None)

    def _heard(self, change: Change[Device]) -> None:
        """Ends a question to a device that somebody has claimed."""
        if change.new is None or change.new.status.claim is None or not self._asking:
            return
        for each in (change.new, *self._at(change.new)):
            asking = self._asking.get(each.key)
            if asking is not None:
                _end(asking)

    def _hang_up(self) -> None:
        """Ends all questions: a stop does not wait for devices that do not answer."""
        for asking in self._asking.values():
            _end(asking)

    async def _write(self, device: Device, answer: Told | Silent, memory: _Memory) -> None:
        now, name = self._clock.now(), device.metadata.name
        view = self._known.view(device)
        timing = self._timing.of_observed() if self._observed(device) else self._timing
        found = difference(device, answer) if isinstance(answer, Told) else None
        status: DeviceStatus
        if isinstance(answer, Silent) and view.sightings:
            _log.debug("device does not answer", device=name, reason=answer.reason)
            return  # an Instance shows it: that it is gone is told by the Instance, which goes then
        if isinstance(answer, Silent):
            _log.debug("device does not answer", device=name, reason=answer.reason)
            status = after_silence(device, answer, view, heard=memory.heard, now=now, timing=timing)
        elif found is not None:
            status = after_difference(device, found, view, heard=memory.heard, now=now, timing=timing)
            if status != device.status:
                _log.warning("a different device answers at the recorded endpoint", device=name, reason=found.message)
        else:
            memory.heard = now
            status = after_answer(device, answer, now=now, timing=timing, due=self._due(device))
        if status != device.status:
            self._known.devices.wrote(await self._api.write_status(device, status))


def _end(asking: asyncio.Timeout) -> None:
    if not asking.expired():
        asking.reschedule(asyncio.get_running_loop().time())


def _where(device: Device) -> tuple[str, str]:
    return device.spec.protocol, device.spec.endpoint


def _is_another_matter(asked: Device, now: Device) -> bool:
    """Whether something happened while the device was asked that makes the answer one about another time or device."""
    before, after = asked.status, now.status
    return bool(
        now.deleting
        or asked.metadata.uid != now.metadata.uid
        or _where(asked) != _where(now)
        or before.last_flash != after.last_flash
        or before.records != after.records
    )


def _asked_otherwise(change: Change[Device]) -> bool:
    """A Device came, went, or is to be asked in another way; or its flasher is done with it."""
    old, new = change.old, change.new
    return old is None or new is None or old.spec != new.spec or _freed(change)


def _freed(change: Change[Device]) -> bool:
    old, new = change.old, change.new
    return old is not None and old.status.claim is not None and (new is None or new.status.claim is None)


def _shows_otherwise(change: Change[Instance]) -> bool:
    """An Instance went, or shows another device or none."""
    old, new = change.old, change.new
    return old is not None and (new is None or old.spec.broker_properties != new.spec.broker_properties)
