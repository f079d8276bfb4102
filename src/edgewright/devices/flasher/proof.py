"""Decides what is wanted of a device, whether it has that already, and whether a flash is proven.

The roles of the flasher call it with what the device said before and after. Pure: it asks nobody, and it never gives
the benefit of the doubt: what was not seen is not proven.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from edgewright.api.device_type import same_type
from edgewright.api.flash_pod import Outcome, VersionPolicy
from edgewright.devices.drivers.driver import Ended, Facts, Identity, Image
from edgewright.devices.flasher.environment import Order


@dataclass(frozen=True)
class Verdict:
    """How it ended, and why, in one sentence for people."""

    outcome: Outcome
    message: str


def image_version(image: Image, facts: Facts) -> str:
    """The version that the image itself carries: in its content, else by its label; empty where it carries none."""
    return (facts.version or image.label_version).strip()


def wanted_version(order: Order, carried: str) -> str:
    """What the device must report afterwards; Ended(REFUSED) where the image carries another and the job is strict."""
    if not carried or carried == order.firmware.version:
        return order.firmware.version
    if order.firmware.version_policy is VersionPolicy.STRICT:
        raise Ended(
            Outcome.REFUSED,
            f"the image carries version {carried}, the job asks for {order.firmware.version}, and its versionPolicy is"
            " Strict",
        )
    return carried


def refusal(order: Order, device: Identity, *, says_type: bool) -> Verdict | None:
    """Why this device may not get the firmware, where it is not what the job says it is.

    `says_type` tells that devices of its protocol always say what they are.
    """
    if not order.target.device or same_type(order.target.device, device.device):
        return None
    if device.device:
        told = (
            f"spec.device: the job is for {order.target.device}, and the device says it is {device.device}: write"
            " that there, or name another device"
        )
    elif says_type:
        told = (
            f"spec.device: the job is for {order.target.device}, and the device does not say what it is: firmware for"
            " this protocol tells its type (`device` in /info); leave the field out where any type will do"
        )
    else:
        return None
    return Verdict(Outcome.INCOMPATIBLE, told)


def fingerprint(certificate: bytes) -> str:
    """The SHA-256 of a certificate in hex, as it is reported and recorded; empty where there is none."""
    return hashlib.sha256(certificate).hexdigest() if certificate else ""


def is_another_board(order: Order, device: Identity, *, shows_certificate: bool) -> bool:
    """Whether another board may answer than the one that the operator has recorded, by the certificate that it shows.

    Published firmware makes its certificate from the board's address and what is in its flash: it is another one, too,
    where others have flashed the board, and what is recorded does not hold for that one either. `shows_certificate`
    tells that devices of its protocol are asked for one: then none is another one.
    """
    compared = bool(order.target.recorded_certificate) and (shows_certificate or bool(device.certificate))
    return compared and order.target.recorded_certificate != fingerprint(device.certificate)


def is_current(
    order: Order, device: Identity, wanted: str, digest: str, facts: Facts, *, another_board: bool = False
) -> bool:
    """Whether the device runs the wanted version of the same firmware, as recorded, and need not be flashed.

    What is recorded is about one board: it says nothing of `another_board`.
    """
    same_firmware = bool(order.target.recorded) and order.target.recorded == digest and not another_board
    return not order.force and same_firmware and runs(device, wanted, facts)


def runs(device: Identity, wanted: str, facts: Facts) -> bool:
    """Whether the device says that it runs the wanted version, and the very build where it tells builds apart."""
    other_build = bool(facts.build) and bool(device.build) and facts.build != device.build
    return device.version.strip() == wanted and not other_build


def rebooted(before: Identity, after: Identity) -> bool:
    """Whether the driver saw the device restart between the two."""
    return before.boots != after.boots


def prove(before: Identity, after: Identity, wanted: str, facts: Facts) -> Verdict:
    """What the two answers of a device prove, where one was given before and one after the firmware was sent."""
    restarted = rebooted(before, after)
    if runs(after, wanted, facts):
        return _proof_of_wanted(before, after, wanted, facts, restarted=restarted)
    if after.version.strip() == wanted:  # so it is another build of it
        told = f"the device reports {wanted}, but its build is {after.build}, and the image's is {facts.build}"
        return Verdict(Outcome.REVERTED if restarted and after.build == before.build else Outcome.FAILED, told)
    if after.version != before.version:
        reported = after.version or "no version"
        return Verdict(Outcome.FAILED, f"the device reports {reported} after the flash, not {wanted}")
    if restarted:
        return Verdict(Outcome.REVERTED, f"the device restarted and runs {before.version} again, not {wanted}")
    return Verdict(
        Outcome.FAILED,
        f"the device goes on with {before.version or 'what it ran'}, not {wanted}, and was not seen to restart",
    )


def _proof_of_wanted(before: Identity, after: Identity, wanted: str, facts: Facts, *, restarted: bool) -> Verdict:
    told = " after a restart" if restarted else ""
    if before.version.strip() != wanted:
        was = f" (before: {before.version})" if before.version else ""
        return Verdict(Outcome.SUCCEEDED, f"the device reports {wanted}{told}{was}")
    if facts.build and after.build == facts.build and before.build != after.build:
        return Verdict(Outcome.SUCCEEDED, f"the device reports {wanted} as before, and the new build{told}")
    if restarted:
        return Verdict(Outcome.SUCCEEDED, f"the device reports {wanted} as before, and was seen to restart")
    return Verdict(
        Outcome.FAILED,
        f"the device reports {wanted} as before, and neither a restart nor another build was seen: nothing is proven",
    )
