"""What is to be known of a protocol by which devices are flashed, whoever speaks it: the traits of its driver.

The operator asks before it creates anything for a device, the flasher before it calls the driver; our drivers take
their traits from here, and packages of others bring theirs by the entry point group "edgewright.drivers". Nothing here
speaks to a device.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from edgewright.api.flash_pod import Protocol

if TYPE_CHECKING:  # importlib.metadata takes longer to import than all else here, and is rarely asked
    from importlib.metadata import EntryPoint

ENTRY_POINTS: Final = "edgewright.drivers"
"""The group in which packages of others offer drivers: the name is the protocol, the object creates a Driver."""


class Leaving(StrEnum):
    """How it is seen that a device goes away, as one does whose firmware fails."""

    POLLED = "polled"
    """By `inspect`, which is asked again and again."""
    WATCHED = "watched"
    """By `until_it_leaves`, which the driver has, and which is quicker to see it than `inspect` is."""


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What a driver says of its protocol; a protocol that nobody here knows counts as having none of it."""

    dials_back: bool = False
    """Whether the device dials the flasher: it gets a Service with an address, and the key that its firmware pins."""
    protected: bool = False
    """Whether nobody on the network can change what the device gets; where not, the job must allow it."""
    safe_to_interrupt: bool = False
    """Whether a flash that is cut off while writing does no harm."""
    reports_type: bool = False
    """Whether every device of this protocol says what type it is: one that does not is then no device that a job for a
    type may flash. Where it is False, a type that the device does not say cannot be compared.
    """
    shows_certificate: bool = False
    """Whether `inspect` asks for a certificate, so that one that is missing tells something."""
    leaving: Leaving = Leaving.POLLED


TRAITS: Final = {
    Protocol.ESP32: Traits(
        dials_back=True,
        protected=True,
        safe_to_interrupt=True,
        reports_type=True,
        shows_certificate=True,
        leaving=Leaving.WATCHED,
    ),
    Protocol.ESP32_PLAIN: Traits(safe_to_interrupt=True, reports_type=True, leaving=Leaving.WATCHED),
    # SMP itself neither encrypts nor knows who asks; that images are signed is between them and the bootloader. Until
    # an image is marked for a try, the device starts what it ran before, whatever is in the other slot. The question
    # for the platform is an option of the firmware, and it names the board as its maker spells it.
    Protocol.SMP_UDP: Traits(safe_to_interrupt=True),
    Protocol.SMP_TCP: Traits(safe_to_interrupt=True),
}
"""The traits of our protocols. They go before entry points of the same name."""


def traits_of(protocol: str) -> Traits:
    """The traits of a protocol, by whichever driver is installed here; an empty name means esp32."""
    name = protocol or Protocol.ESP32
    ours = TRAITS.get(name)  # type: ignore[call-overload]
    return ours if ours is not None else _traits_of_others(name)


@lru_cache(maxsize=256)  # asked for every device of a job in every pass
def _traits_of_others(protocol: str) -> Traits:
    entry = offered().get(protocol)
    try:
        found = getattr(entry.load(), "traits", None) if entry is not None else None
    except Exception:  # code of others: the flasher says what is wrong with it, on the device that it concerns
        found = None
    return found if isinstance(found, Traits) else Traits()


def offered() -> dict[str, EntryPoint]:
    """The drivers of others that are installed here, by protocol."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - late: see above

    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}
