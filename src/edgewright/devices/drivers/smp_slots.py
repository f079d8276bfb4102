"""What an SMP device says of its slots, and what that means for a flash: not restarted yet, runs it, went back.

The driver asks here after every answer of a device. Pure: decisions only, with no knowledge of messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from edgewright.devices.drivers.driver import Facts, Identity


@dataclass(frozen=True, kw_only=True)
class Slot:
    """One place for an image, and the image in it."""

    number: int
    version: str
    build: str
    """The hash of the image, in hex; empty where the device does not tell."""
    active: bool = False
    """It runs."""
    confirmed: bool = False
    """It stays after the next restart."""
    pending: bool = False
    """It is tried at the next restart."""


class Standing(Enum):
    """How a device stands to the image that it was given."""

    NOT_YET = "it has not restarted"
    NEW = "it runs the image"
    WENT_BACK = "it has the image, and runs the old one"
    THREW_AWAY = "it does not have the image any more, and runs the old one"


def running(slots: tuple[Slot, ...]) -> Slot | None:
    """The slot whose image runs; a bootloader that is asked marks none: the first slot is what it starts."""
    return next((slot for slot in slots if slot.active), slots[0] if slots else None)


def holding(slots: tuple[Slot, ...], build: str) -> Slot | None:
    """The slot that holds this image, and does not run it."""
    return next((slot for slot in slots if slot.build == build and not slot.active), None)


def standing(slots: tuple[Slot, ...], before: Identity, facts: Facts, *, given: bool) -> Standing:
    """How the device stands, by its slots now, what it ran before, the image, and whether it was given to it by us.

    Where somebody else gives it, that the old one runs says nothing: it may not have been given yet. And where the
    image is not known, another one than before is taken for it.
    """
    now = running(slots)
    if now is None or not now.active:  # a bootloader answers: what is in a slot does not run
        return Standing.NOT_YET
    if now.build == facts.build or (not facts.build and now.build != before.build):
        return Standing.NEW
    if not (given and facts.build):
        return Standing.NOT_YET
    held = holding(slots, facts.build)
    if held is None:
        return Standing.THREW_AWAY
    return Standing.NOT_YET if held.pending else Standing.WENT_BACK
