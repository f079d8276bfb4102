"""What the inventory writes down of a Device, given what its Instances show now, and when it must look again.

`instance_loop` calls these with a Device and what is sighted of it. Pure. They touch only what is the inventory's:
never claim, records or anything else that comes of a flash, never people's labels, and of a Device that people wrote
only the status.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from edgewright.api.device import DIFFERS, MAX_INSTANCES, STALE, Device, DeviceSpec, DeviceStatus, Discovered, Mark
from edgewright.controllers.inventory.sightings import Sighting
from edgewright.controllers.settings import Timing
from edgewright.runtime.conditions import FALSE, TRUE, condition, is_true, set_condition
from edgewright.runtime.objects import Condition

_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_SPREAD: Final = 0.5
"""Writes that a device was seen come up to so much later than they might, each by its own share of it."""


@dataclass(frozen=True, kw_only=True)
class View:
    """What is known about a Device at one moment, besides the Device itself."""

    sightings: tuple[Sighting, ...] = ()
    """What its Instances show; none where it has none now."""
    vanished: datetime | None = None
    """When this process saw its last Instance go; None where it did not."""
    told: datetime | None = None
    """When this process saw its latest Instance tell something new; None where it did not."""
    asked: bool = False
    """Whether the device itself is asked while no Instance shows it: `probe_loop` says then whether it is stale."""


@dataclass(frozen=True)
class Kept:
    """A Device as it should be."""

    spec: DeviceSpec
    labels: dict[str, str]
    status: DeviceStatus


def is_ours(device: Device) -> bool:
    """Whether the inventory created the Device; otherwise people did, and its spec is theirs."""
    return bool(device.spec.configuration)


def kept(device: Device, view: View, *, now: datetime, timing: Timing, due: datetime | None = None) -> Kept:
    """The Device as it should be now; where nothing has to be written, its parts are equal to what it has.

    `due` is a moment from which on somebody wants to know that it was seen.
    """
    latest = latest_of(view.sightings)
    if latest is None:
        spec, status = device.spec, _unseen(device, view, now=now, timing=timing)
    else:
        spec = spec_of(latest, device.spec) if is_ours(device) else device.spec
        status = _seen(device, latest, view, now=now, timing=timing, due=due)
    labels = device.metadata.labels
    if is_ours(device) and (latest is not None or status.application):  # one that is just being made has no status yet
        labels = labels_of(labels, type_=spec.type, application=status.application)
    return Kept(spec, labels, status)


def latest_of(sightings: Sequence[Sighting]) -> Sighting | None:
    """The one that counts where several Instances show a device: the newest."""
    return max(sightings, key=lambda each: (each.since, each.uid), default=None)


def spec_of(sighting: Sighting, known: DeviceSpec | None = None) -> DeviceSpec:
    """What the Instance says the device is; what it does not say stays, and so does a serial once it is known."""
    known = known or DeviceSpec()
    return DeviceSpec(
        type=sighting.type or known.type,
        protocol=sighting.protocol or known.protocol,
        endpoint=sighting.endpoint,
        serial=known.serial or next(iter(sighting.serials), ""),
        configuration=sighting.configuration,
        allowed_namespaces=known.allowed_namespaces,
        allow_endpoint_override=known.allow_endpoint_override,
    )


def labels_of(labels: dict[str, str], *, type_: str, application: str) -> dict[str, str]:
    """The labels with our own two as they should be; a value that no label can have is left out."""
    ours = {Mark.TYPE.value: type_, Mark.APPLICATION.value: application}
    others = {name: value for name, value in labels.items() if name not in ours}
    return {**others, **{name: value for name, value in ours.items() if _LABEL_VALUE.fullmatch(value)}}


def look_again(
    device: Device, view: View, *, now: datetime, timing: Timing, due: datetime | None = None
) -> float | None:
    """In how many seconds something is to be written though nothing happens; None: never."""
    if view.sightings:
        last = device.status.last_seen or now
        wait = timing.seen_every * (1 + _SPREAD * _share(device.metadata.name))
        wait += (last - now).total_seconds()
        if due is not None and last < due:
            wait = min(wait, (due - now).total_seconds())
        return max(0.0, wait)
    if not _can_be_stale(device) or is_true(device.status.conditions, STALE):
        return None
    if view.asked:
        return timing.stale_after  # it may turn out that nobody can ask it
    return max(0.0, (last_sign(device, view, now) - now).total_seconds() + timing.stale_after)


def is_old_news(sighting: Sighting, status: DeviceStatus, told: datetime | None) -> bool:
    """Whether what the Instance tells is older than what is known of the device; `told` is when it changed, if seen.

    Akri asks a device when it finds it and need not ask again: an Instance that tells what it always told says nothing
    about what flashes have made of the device since. One that tells something new, or that is new itself, does.
    """
    said, flash = status.discovered, status.last_flash
    if said is not None and said.instance == sighting.uid:
        if _tells_the_same(said, sighting):
            return True
        # It changed; where nobody saw when, that was while no operator ran, and so after the last flash ended.
        return told is not None and flash is not None and flash.read is not None and told <= flash.read
    if flash is None or flash.read is None:
        return False
    if not flash.version_after and sighting.uid not in status.instances:
        return False  # it was found in the course of a flash that read nothing afterwards
    return _began(sighting, told) <= flash.read


def discovered_by(sighting: Sighting, said: Discovered | None, told: datetime | None, *, now: datetime) -> Discovered:
    """What the Instance tells that a flash may change, and since when; as it was `said` before where it is the same.

    The time decides between this and what a flasher read, whose report may be recorded long after it was true.
    """
    if said is not None and _tells_the_same(said, sighting):
        return said
    changed = said is not None and said.instance == sighting.uid
    time = told or now if changed else _began(sighting, told)
    return Discovered(instance=sighting.uid, application=sighting.application, version=sighting.version, time=time)


def _tells_the_same(said: Discovered, sighting: Sighting) -> bool:
    was = said.instance, said.application, said.version
    return was == (sighting.uid, sighting.application, sighting.version)


def _began(sighting: Sighting, told: datetime | None) -> datetime:
    """When an Instance began to tell what it tells: when it was made, or when it was seen to change since."""
    return max(sighting.since, told or sighting.since)


def last_sign(device: Device, view: View, now: datetime) -> datetime:
    """When the device was last there, as far as anybody knows."""
    known = (device.status.last_seen, view.vanished, device.metadata.creation_timestamp)
    return max((moment for moment in known if moment is not None), default=now)


def with_ended(
    conditions: tuple[Condition, ...], ended: Iterable[Condition], *, now: datetime
) -> tuple[Condition, ...]:
    """The conditions with those among them that were true and are no longer so."""
    for each in ended:
        if is_true(conditions, each.type):
            conditions = set_condition(conditions, each, now=now)
    return conditions


def seen_in_time(
    status: DeviceStatus,
    new: DeviceStatus,
    seen: datetime,
    *,
    now: datetime,
    timing: Timing,
    due: datetime | None = None,
) -> DeviceStatus:
    """The new status with when the device was seen; the one that it has where only that changed, and not for long.

    Once it is `due` somebody wants to know it, and it is written once.
    """
    last = status.last_seen
    news = last is None or (now - last).total_seconds() >= timing.seen_every
    wanted = last is not None and due is not None and last < due <= now
    return msgspec.structs.replace(new, last_seen=seen) if news or wanted or new != status else status


def _seen(
    device: Device, latest: Sighting, view: View, *, now: datetime, timing: Timing, due: datetime | None
) -> DeviceStatus:
    status = device.status
    ended = (
        condition(STALE, FALSE, "Seen", "Akri sees it again."),
        condition(DIFFERS, FALSE, "Discovered", "Akri sees it: what it tells counts."),
    )
    old = is_old_news(latest, status, view.told)
    new = msgspec.structs.replace(
        status,
        application=status.application if old else latest.application or status.application,
        version=status.version if old else latest.version or status.version,
        instances=_with_instances(status.instances, view.sightings),
        discovered=discovered_by(latest, status.discovered, view.told, now=now),
        conditions=with_ended(status.conditions, ended, now=now),
    )
    return seen_in_time(status, new, whole_seconds(now), now=now, timing=timing, due=due)


def _unseen(device: Device, view: View, *, now: datetime, timing: Timing) -> DeviceStatus:
    status = device.status
    if not _can_be_stale(device) or is_true(status.conditions, STALE) or view.asked:
        return status
    last = last_sign(device, view, now)
    if now < last + timedelta(seconds=timing.stale_after):
        return status
    message = f"No Akri Instance shows it since {whole_seconds(last):%Y-%m-%d %H:%M:%S} UTC."
    stale = condition(STALE, TRUE, "NotSeen", message)
    return msgspec.structs.replace(
        status, last_seen=whole_seconds(last), conditions=set_condition(status.conditions, stale, now=now)
    )


def _can_be_stale(device: Device) -> bool:
    """One that people wrote and Akri never saw is not expected to be seen."""
    return is_ours(device) or bool(device.status.instances)


def _with_instances(uids: tuple[str, ...], sightings: Iterable[Sighting]) -> tuple[str, ...]:
    """The uids with those that are new at the end; to make room those go first whose Instance is gone."""
    living = [each.uid for each in sorted(sightings, key=lambda each: (each.since, each.uid))]
    new = [uid for uid in living if uid not in uids]
    if not new:
        return uids
    gone = [uid for uid in uids if uid not in living]
    room = MAX_INSTANCES - (len(uids) - len(gone))
    # With more Instances at once than can be kept, those stay that came first: otherwise each would drive out another.
    new = new[:room]
    dropped = set(gone[: max(0, len(uids) + len(new) - MAX_INSTANCES)])
    return (*(uid for uid in uids if uid not in dropped), *new)


def _share(name: str) -> float:
    """A number from 0 to 1 that is this name's own, so that a fleet's writes do not come all at once for ever after."""
    return zlib.crc32(name.encode()) / 0xFFFFFFFF


def whole_seconds(moment: datetime) -> datetime:
    """The moment as it is written on a Device."""
    return moment.astimezone(UTC).replace(microsecond=0)
