"""What is written down of a Device when the device itself was asked: that it answered, that it did not, or another did.

`probe_loop` calls these with what came of asking. Pure. As with `device_state`, nothing that comes of a flash is
touched, and where something else answers than is recorded, nothing that it tells is taken for this device's.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from edgewright.api.device import DIFFERS, STALE, Device, DeviceStatus
from edgewright.api.device_type import same_type
from edgewright.api.probe import Silent, Told
from edgewright.controllers.inventory.device_state import View, last_sign, seen_in_time, whole_seconds, with_ended
from edgewright.controllers.settings import Timing
from edgewright.runtime.conditions import FALSE, TRUE, condition, is_true, set_condition


@dataclass(frozen=True)
class Difference:
    """How what answers is not what is recorded: a word for the condition's reason, and a sentence."""

    reason: str
    message: str


def difference(device: Device, told: Told) -> Difference | None:
    """By what another device answers than the one that is recorded; None where nothing speaks for that."""
    known, spec = device.status.certificate, device.spec
    if known and told.certificate and known != told.certificate:
        return Difference(
            "OtherCertificate",
            f"At {spec.endpoint} answers a device with the certificate {told.certificate}; recorded is {known}. It is "
            "another one, or has got a new certificate: a flash learns that, or give the Device another endpoint.",
        )
    if spec.type and told.type and not same_type(spec.type, told.type):
        return Difference(
            "OtherType", f"At {spec.endpoint} answers a device that says it is {told.type}; spec.type is {spec.type}."
        )
    return None


def after_answer(
    device: Device, told: Told, *, now: datetime, timing: Timing, due: datetime | None = None
) -> DeviceStatus:
    """The status once the device has answered; what it has where nothing is to be written.

    `due` is a moment from which on somebody wants to know that it was seen.
    """
    status = device.status
    ended = (
        condition(STALE, FALSE, "Seen", "It answers again."),
        condition(DIFFERS, FALSE, "Same", "What answers is what is recorded."),
    )
    new = msgspec.structs.replace(
        status,
        application=told.application or status.application,
        version=told.version or status.version,
        conditions=with_ended(status.conditions, ended, now=now),
    )
    return seen_in_time(status, new, _seen_at(status, now), now=now, timing=timing, due=due)


def after_difference(
    device: Device, found: Difference, view: View, *, heard: datetime | None, now: datetime, timing: Timing
) -> DeviceStatus:
    """The status once something else has answered: it says so, and that this device was not seen."""
    differs = condition(DIFFERS, TRUE, found.reason, found.message)
    status = msgspec.structs.replace(
        device.status, conditions=set_condition(device.status.conditions, differs, now=now)
    )
    told = msgspec.structs.replace(device, status=status)
    return after_silence(told, Silent("another device answers"), view, heard=heard, now=now, timing=timing)


def after_silence(
    device: Device, silent: Silent, view: View, *, heard: datetime | None, now: datetime, timing: Timing
) -> DeviceStatus:
    """The status once the device has not answered; it is stale where it has not for long.

    `heard` is when it last answered this process, which is written down now and then only.
    """
    status = device.status
    flash = status.last_flash
    flashed = flash.time if flash is not None and flash.version_after else None
    signs = [moment for moment in (heard, flashed, last_sign(device, view, now)) if moment is not None]
    if is_true(status.conditions, STALE) or now < max(signs) + timedelta(seconds=timing.stale_after):
        return status
    seen = max(
        (moment for moment in (status.last_seen, view.vanished, heard, flashed) if moment is not None), default=None
    )
    since = f"since {whole_seconds(seen):%Y-%m-%d %H:%M:%S} UTC" if seen is not None else "so far"
    stale = condition(STALE, TRUE, "NotSeen", f"It has not answered {since}: {silent.reason}.")
    return msgspec.structs.replace(
        status,
        last_seen=None if seen is None else whole_seconds(seen),
        conditions=set_condition(status.conditions, stale, now=now),
    )


def _seen_at(status: DeviceStatus, now: datetime) -> datetime:
    """Now, in whole seconds, but never before the last flash, whose time has a fraction: it was asked afterwards."""
    seen = whole_seconds(now)
    flash = status.last_flash
    return seen if flash is None or flash.time is None else max(seen, min(flash.time, now))
