"""Keeps one Device for each physical device that Akri has discovered: creates it, keeps it true, marks it when stale.

Two loops. The one for Instances finds the Device that an Instance shows, or creates it, and notes the Instance's uid on
it. The one for Devices keeps each true to what its Instances show, and marks it Stale when none has for a while. The
operator adds both with `add_inventory`, and the one of `probe_loop` where devices may be asked. Nothing here deletes a
Device, or touches what a flash has written on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Final

from edgewright.api.device import Device, DeviceSpec
from edgewright.api.instance import Instance
from edgewright.api.probe import Asks
from edgewright.controllers.inventory.device_state import View, kept, labels_of, latest_of, look_again, spec_of
from edgewright.controllers.inventory.identity import Clue, Recognised, Undecided, Unknown, is_same, recognise
from edgewright.controllers.inventory.probe_loop import Probing
from edgewright.controllers.inventory.sightings import Sighting, canonical_endpoint, canonical_serial, sighting_of
from edgewright.controllers.ledger import Ledger
from edgewright.controllers.settings import Settings, Timing
from edgewright.runtime import logs
from edgewright.runtime.cache import Change
from edgewright.runtime.clock import Clock
from edgewright.runtime.controller import DONE, For, Maps, Result, requeue_after
from edgewright.runtime.errors import AlreadyExists
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key, ObjectMeta, RawObject
from edgewright.runtime.patches import merge_diff

_log = logs.get("controllers.inventory")

_SERIAL: Final = "inventory-serial"
_INSTANCE: Final = "inventory-instance"
_CERTIFICATE: Final = "inventory-certificate"
_ENDPOINT: Final = "inventory-endpoint"
_UID: Final = "inventory-uid"
_WORKERS: Final = 4
_SOON: Final = 0.2


def add_inventory(
    manager: Manager,
    settings: Settings,
    clock: Clock,
    *,
    asks: Asks | None = None,
    observed: Callable[[Device], bool] = lambda _: False,
    due: Callable[[Device], datetime | None] = lambda _: None,
    wakes: Iterable[Maps] = (),
) -> None:
    """Adds the inventory to a manager; it works where Akri is not installed (yet), with nothing to do.

    With `asks`, the devices that no Instance shows are asked themselves what they run, and more often those that are
    `observed`. `due` says from when on somebody wants to know that a Device was seen, and `wakes` when that changes.
    """
    inventory = Inventory(manager, settings, clock, observed=observed, due=due)
    if asks is not None:
        probing = Probing(manager, inventory, asks, settings, clock, observed=observed, due=due)
        inventory.asked = probing.looks_after
        probing.add(manager)
    manager.controller(
        "discovery",
        inventory.discover,
        For(inventory.instances, when=_tells_more),
        Maps(inventory.instances, to=inventory.neighbours, when=_is_gone),
        Maps(inventory.devices.cache, to=inventory.instances_of, when=_identity_changed),
        workers=_WORKERS,
    )
    manager.controller(
        "inventory",
        inventory.keep,
        For(inventory.devices.cache, when=_kept_changed),
        Maps(inventory.instances, to=inventory.devices_of, when=_tells_more),
        *wakes,
        workers=_WORKERS,
    )


class Inventory:
    """What is known of devices and Instances, and the two loops over them."""

    def __init__(
        self,
        manager: Manager,
        settings: Settings,
        clock: Clock,
        *,
        observed: Callable[[Device], bool] = lambda _: False,
        due: Callable[[Device], datetime | None] = lambda _: None,
    ) -> None:
        """`observed` says of a Device whether it is missed sooner than others, `due` when it must be seen."""
        self._due = due
        self._timing = settings.timing
        self._observed = observed
        self._clock = clock
        self._api = manager.client.of(Device)
        self.instances = manager.cache(Instance, optional=True)
        self.devices = Ledger(manager.cache(Device))
        # What only this process saw happen; after a restart the times on the objects are good enough.
        self._told: dict[str, datetime] = {}
        self._vanished: dict[Key, datetime] = {}
        self.asked: Callable[[Device], bool] = lambda _: False
        """Whether a device is asked itself while no Instance shows it."""
        devices = self.devices.cache
        devices.add_index(_SERIAL, _serials)
        devices.add_index(_INSTANCE, lambda device: device.status.instances)
        devices.add_index(_CERTIFICATE, lambda device: filter(None, (device.status.certificate,)))
        devices.add_index(_ENDPOINT, lambda device: filter(None, (canonical_endpoint(device.spec.endpoint),)))
        self.instances.add_index(_UID, lambda instance: (instance.metadata.uid,))
        self.instances.add_index(_ENDPOINT, _endpoints)
        self.instances.subscribe(self._heard)

    # --- what is known (the questions of `identity`) ----------------------------------------------------------------

    def with_serial(self, serial: str) -> list[Device]:
        """The Devices of this serial, in its one spelling."""
        return self._found(_SERIAL, serial)

    def with_instance(self, uid: str) -> list[Device]:
        """The Devices that have had this Instance."""
        return self._found(_INSTANCE, uid)

    def with_certificate(self, fingerprint: str) -> list[Device]:
        """The Devices with this certificate."""
        return self._found(_CERTIFICATE, fingerprint)

    def with_endpoint(self, endpoint: str) -> list[Device]:
        """The Devices at this endpoint, in its one spelling."""
        return self._found(_ENDPOINT, endpoint)

    def sighted_at(self, endpoint: str) -> Iterator[Sighting]:
        """What the Instances that are there now show at this endpoint."""
        return filter(None, map(sighting_of, self.instances.by(_ENDPOINT, endpoint)))

    def sightings_of(self, device: Device) -> Iterator[Sighting]:
        """What the Instances that are there now show of this Device."""
        for uid in device.status.instances:
            for instance in self.instances.by(_UID, uid):
                sighting = sighting_of(instance)
                if sighting is not None and not sighting.contradicts(device.spec.serial):
                    yield sighting

    def _found(self, index: str, value: str) -> list[Device]:
        # One that was made a moment ago may be missing: its name is taken, then, when somebody creates it again.
        return self.devices.by(index, value)

    # --- whom a change concerns -------------------------------------------------------------------------------------

    def devices_of(self, instance: Instance) -> list[Key]:
        """The Devices that have had this Instance."""
        return self.devices.cache.keys(_INSTANCE, instance.metadata.uid)

    def instances_of(self, device: Device) -> Iterator[Key]:
        """The Instances that show this Device, or that may: those at its endpoint."""
        for uid in device.status.instances:
            yield from (instance.key for instance in self.instances.by(_UID, uid))
        yield from (instance.key for instance in self.instances.by(_ENDPOINT, canonical_endpoint(device.spec.endpoint)))

    def neighbours(self, instance: Instance) -> Iterator[Key]:
        """The Instances at the same endpoint."""
        for endpoint in _endpoints(instance):
            yield from (each.key for each in self.instances.by(_ENDPOINT, endpoint))

    def _heard(self, change: Change[Instance]) -> None:
        """Notes when an Instance told something new, and when a Device lost its last one."""
        old, new = change.old, change.new
        if old is not None and new is None:
            self._told.pop(old.metadata.uid, None)
            for device in self.with_instance(old.metadata.uid):
                if not any(self.sightings_of(device)):
                    self._vanished[device.key] = self._clock.now()
        elif old is not None and new is not None and _properties(old) != _properties(new):
            self._told[new.metadata.uid] = self._clock.now()

    # --- the loops --------------------------------------------------------------------------------------------------

    async def discover(self, key: Key) -> Result:
        """One pass for an Instance: finds or creates its Device and notes the Instance on it."""
        instance = self.instances.get(key)
        sighting = None if instance is None else sighting_of(instance)
        if sighting is None:
            return DONE
        now = self._clock.now()
        verdict = recognise(sighting, self, now=now, patience=self._timing.stale_after)
        match verdict:
            case Undecided(until=None):
                return DONE
            case Undecided(until=datetime() as until):
                return requeue_after((until - now).total_seconds())
            case Unknown(names):
                made = await self._make(sighting, names)
                if made is None:
                    return requeue_after(_SOON)
                device = made
            case Recognised(device):
                pass
        if sighting.uid not in device.status.instances and not device.deleting:
            if isinstance(verdict, Recognised):
                self._say_recognised(sighting, verdict)
            await self._write(device, self.view(device, sighting), now)
        return DONE

    async def keep(self, key: Key) -> Result:
        """One pass for a Device: makes it say what its Instances show, or that it is stale."""
        device = self.devices.get(key)
        if device is None or device.deleting:
            self._vanished.pop(key, None)
            return DONE
        now = self._clock.now()
        view = self.view(device)
        if view.sightings:
            self._vanished.pop(key, None)
        device = await self._write(device, view, now)
        wait = look_again(device, view, now=now, timing=self._timing_of(device), due=self._due(device))
        return DONE if wait is None else requeue_after(wait)

    def _timing_of(self, device: Device) -> Timing:
        return self._timing.of_observed() if self._observed(device) else self._timing

    def _say_recognised(self, sighting: Sighting, verdict: Recognised) -> None:
        name = verdict.device.metadata.name
        elsewhere = sorted({each.place for each in self.sightings_of(verdict.device)} - {sighting.place})
        if verdict.others:
            _log.warning("several Devices match; using the oldest", device=name, others=verdict.others)
        elif verdict.clue is Clue.SERIAL and elsewhere:
            # It has moved, or two devices say that they are the same one: then only one of them is ever flashed.
            _log.warning(
                "one serial number reported from several endpoints",
                device=name,
                endpoint=sighting.endpoint,
                also=elsewhere,
            )
        else:
            _log.debug("device seen by another Instance", device=name, recognised_by=verdict.clue.value)

    async def _make(self, sighting: Sighting, names: Iterable[str]) -> Device | None:
        """A new Device, or the one of that name that is this device all the same: the cache was behind.

        None where the name is taken by one that nobody can see: it is just coming, or just going.
        """
        spec = spec_of(sighting)
        labels = labels_of({}, type_=spec.type, application=sighting.application)
        for name in names:
            try:
                made = await self._api.create(Device(metadata=ObjectMeta(name=name, labels=labels), spec=spec))
            except AlreadyExists:
                there = await self.devices.cache.fetch(Key("", name))
                if there is None:
                    return None
                if is_same(sighting, there):
                    return self.devices.wrote(there)
                continue
            _log.info("new device", device=name, type=spec.type, endpoint=spec.endpoint)
            return self.devices.wrote(made)
        raise RuntimeError(f"there are other Devices under both names for a new device at {sighting.endpoint}")

    async def _write(self, device: Device, view: View, now: datetime) -> Device:
        """Makes the Device what it should be, on condition that nobody has changed it since; as it is afterwards."""
        wanted = kept(device, view, now=now, timing=self._timing_of(device), due=self._due(device))
        change = merge_diff(_intent(device.metadata.labels, device.spec), _intent(wanted.labels, wanted.spec))
        if change:
            version = device.metadata.resource_version
            device = self.devices.wrote(await self._api.patch(device.key, change, resource_version=version))
        if wanted.status != device.status:
            device = self.devices.wrote(await self._api.write_status(device, wanted.status))
        return device

    def view(self, device: Device, *more: Sighting) -> View:
        """What is known about a Device now, with what was sighted of it a moment ago."""
        sightings = {each.uid: each for each in (*self.sightings_of(device), *more)}
        latest = latest_of(tuple(sightings.values()))
        return View(
            sightings=tuple(sightings.values()),
            vanished=self._vanished.get(device.key),
            told=None if latest is None else self._told.get(latest.uid),
            asked=latest is None and self.asked(device),
        )


def _intent(labels: dict[str, str], spec: DeviceSpec) -> RawObject:
    return {"metadata": {"labels": labels}, "spec": spec.to_raw()}


def _serials(device: Device) -> Iterator[str]:
    if device.spec.serial:
        yield canonical_serial(device.spec.serial)


def _endpoints(instance: Instance) -> Iterator[str]:
    sighting = sighting_of(instance)
    if sighting is not None:
        yield sighting.place


def _properties(instance: Instance) -> tuple[str, dict[str, str]]:
    return instance.spec.configuration_name, instance.spec.broker_properties


def _is_gone(change: Change[Any]) -> bool:
    return change.new is None


def _tells_more(change: Change[Instance]) -> bool:
    """Who uses an Instance, and which nodes see it, is not what the device tells."""
    return change.old is None or change.new is None or _properties(change.old) != _properties(change.new)


def _identity_changed(change: Change[Device]) -> bool:
    """Something happened by which an Instance may belong to another Device than before, or to one at last."""
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    return bool(
        old.spec != new.spec
        or (old.status.claim is not None and new.status.claim is None)
        or old.status.application != new.status.application
        or old.status.certificate != new.status.certificate
        or set(old.status.instances) - set(new.status.instances)
    )


def _kept_changed(change: Change[Device]) -> bool:
    """What the inventory keeps has changed; claims and records are none of its business."""
    old, new = change.old, change.new
    if old is None or new is None:
        return True
    return old.spec != new.spec or old.metadata.labels != new.metadata.labels or _shown(old) != _shown(new)


def _shown(device: Device) -> tuple[object, ...]:
    status = device.status
    return status.application, status.version, status.instances, status.last_seen, status.conditions
