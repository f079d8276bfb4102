"""Which Device an Instance shows: one that is known, a new one and its name, or one that cannot be told yet.

An Instance's uid is no identity: Akri creates new ones whenever a device was unavailable, and one per node. So the
hardware's own serial counts first, then what is remembered, and the address last. Pure: `instance_loop` asks, and does
what follows.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final, Protocol, TypeAlias

from edgewright.api.device import Device
from edgewright.controllers.inventory.sightings import Sighting, canonical_endpoint

MAX_LABEL: Final = 63
_DIGITS: Final = 8
_LATEST: Final = datetime.max.replace(tzinfo=UTC)


class Clue(StrEnum):
    """By what a device was recognised, the strongest first."""

    SERIAL = "serial"
    INSTANCE = "instance"
    CERTIFICATE = "certificate"
    ENDPOINT = "endpoint"
    APPLICATION = "application"
    """Its endpoint under another Configuration, and the application that its last flash gave it."""


class Known(Protocol):
    """What is known so far; each question must be answered without a search."""

    def with_serial(self, serial: str) -> Sequence[Device]:
        """The Devices of this serial, in its one spelling."""

    def with_instance(self, uid: str) -> Sequence[Device]:
        """The Devices that have had this Instance."""

    def with_certificate(self, fingerprint: str) -> Sequence[Device]:
        """The Devices with this certificate."""

    def with_endpoint(self, endpoint: str) -> Sequence[Device]:
        """The Devices at this endpoint, in its one spelling."""

    def sighted_at(self, endpoint: str) -> Iterable[Sighting]:
        """What the Instances that are there now show at this endpoint."""


@dataclass(frozen=True)
class Recognised:
    """It is this Device; `others` could have been meant as well."""

    device: Device
    clue: Clue
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unknown:
    """It is a new device; the second name is for where the first one is somebody else's."""

    names: tuple[str, str]


@dataclass(frozen=True)
class Undecided:
    """It may be this Device in the course of a change; look again when that changes, or at the latest then."""

    device: str
    until: datetime | None = None


Verdict: TypeAlias = Recognised | Unknown | Undecided


def recognise(sighting: Sighting, known: Known, *, now: datetime, patience: float) -> Verdict:
    """Which Device this is.

    `patience` is how many seconds after a flash the Instance of the application before it may still be there.
    """
    for clue, found in _clues(sighting, known):
        if found:
            chosen, *others = sorted(found, key=_age)
            return Recognised(chosen, clue, tuple(other.metadata.name for other in others))
    changed: list[Device] = []
    waits: list[Undecided] = []
    for device in _at_endpoint(sighting, known):
        if device.status.claim is not None:
            # In mid-flash it may be found with its new application before the outcome tells that it is the same device.
            waits.append(Undecided(device.metadata.name))
        elif (flashed := _flash_gave(device, sighting.application)) is not None:
            until = flashed + timedelta(seconds=patience)
            if not _still_found(device, known, sighting.place):
                changed.append(device)
            elif now < until:
                waits.append(Undecided(device.metadata.name, until))
    if changed:
        chosen, *others = sorted(changed, key=_age)
        return Recognised(chosen, Clue.APPLICATION, tuple(other.metadata.name for other in others))
    return waits[0] if waits else Unknown(names_for(sighting))


def is_same(sighting: Sighting, device: Device) -> bool:
    """Whether the Device by itself can be what the Instance shows: for one that the caches did not have yet."""
    if sighting.contradicts(device.spec.serial):
        return False
    return bool(
        (device.spec.serial and sighting.serials)
        or sighting.uid in device.status.instances
        or (sighting.certificate and sighting.certificate == device.status.certificate)
        or (
            canonical_endpoint(device.spec.endpoint) == sighting.place
            and device.spec.configuration in {"", sighting.configuration}
        )
    )


def names_for(sighting: Sighting) -> tuple[str, str]:
    """A name for a new Device, and one for where that is taken: the same every time, so that none is made twice."""
    if sighting.serials:
        serial = sighting.serials[0]
        digest = _digest("serial", serial)
        readable = _label(serial.replace(":", "")) or digest[:_DIGITS]
        stem = f"{_label(sighting.type) or 'device'}-{readable}"
        return (stem if len(stem) <= MAX_LABEL else _joined(stem, digest[:_DIGITS])), _joined(stem, digest[:16])
    stem = _label(sighting.configuration) or "device"
    digest = _digest("endpoint", sighting.configuration, sighting.place)
    return _joined(stem, digest[:_DIGITS]), _joined(stem, digest[:16])


def _clues(sighting: Sighting, known: Known) -> Iterable[tuple[Clue, list[Device]]]:
    """By each clue in turn: the Devices that it points to, if nothing stronger speaks against them."""
    serials = {each.key: each for serial in sighting.serials for each in known.with_serial(serial)}
    yield Clue.SERIAL, list(serials.values())
    yield Clue.INSTANCE, _agreeing(sighting, known.with_instance(sighting.uid))
    if sighting.certificate:
        yield Clue.CERTIFICATE, _agreeing(sighting, known.with_certificate(sighting.certificate))
    here = _agreeing(sighting, known.with_endpoint(sighting.place))
    yield Clue.ENDPOINT, [device for device in here if device.spec.configuration in {"", sighting.configuration}]


def _agreeing(sighting: Sighting, devices: Iterable[Device]) -> list[Device]:
    return [device for device in devices if not sighting.contradicts(device.spec.serial)]


def _at_endpoint(sighting: Sighting, known: Known) -> list[Device]:
    return sorted(_agreeing(sighting, known.with_endpoint(sighting.place)), key=_age)


def _flash_gave(device: Device, application: str) -> datetime | None:
    """When the last flash of the Device gave it this application; None where none did."""
    flash = device.status.last_flash
    if flash is None or flash.time is None or not application:
        return None
    return flash.time if device.status.application.casefold() == application.casefold() else None


def _still_found(device: Device, known: Known, endpoint: str) -> bool:
    """Whether the Device's own Configuration still finds something at the endpoint."""
    return any(each.configuration == device.spec.configuration for each in known.sighted_at(endpoint))


def _age(device: Device) -> tuple[datetime, str]:
    return device.metadata.creation_timestamp or _LATEST, device.metadata.name


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()


def _label(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.casefold()).strip("-")


def _joined(stem: str, digest: str) -> str:
    return f"{stem[: MAX_LABEL - 1 - len(digest)].rstrip('-')}-{digest}"
