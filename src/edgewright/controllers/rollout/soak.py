"""Whether the devices of a batch were seen at the end of its soak time, where anything sees them at all.

A device that vanishes is missed only after minutes, which may be longer than the soak time: so a soak time does not end
well on the strength of silence. The survey asks this for the devices of the batch that is watched. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from edgewright.api.device import Device
from edgewright.api.endpoint import endpoint_problem
from edgewright.api.flash_pod import Protocol

_EACH: Final = 0.25
"""So many seconds more per device of the batch: devices are asked one after the other, at a bounded pace."""


class Sight(StrEnum):
    """What is known of a device at the end of the soak time of its batch."""

    SEEN = "seen"
    AWAITED = "awaited"
    """It was not seen since the end, and may still be."""
    LOST = "lost"
    """It was not seen since the end, for too long."""


def nobody(_: Device) -> bool:
    """That nothing observes devices."""
    return False


@dataclass(frozen=True, kw_only=True)
class Watch:
    """How devices are watched during a soak time."""

    now: datetime
    observes: Callable[[Device], bool] = nobody
    """Whether anything sees a Device now and then; of the others nobody can tell, and nothing is asked."""
    since: datetime | None = None
    """Since when this operator looks at the rollout: that nobody could see devices before is not held against them."""
    grace: float
    """So many seconds after the end of the soak time a device may still be seen."""

    def lost_at(self, soaked: datetime, devices: int) -> datetime:
        """When devices that were not seen since the end of the soak time count as regressed."""
        return max(soaked, self.since or soaked) + timedelta(seconds=self.grace + _EACH * devices)

    def sight_of(self, device: Device, soaked: datetime, lost_at: datetime) -> Sight:
        """What is known of a device that is observed, and whose soak time ends at `soaked`."""
        seen = device.status.last_seen
        if self.now < soaked or (seen is not None and seen >= soaked):
            return Sight.SEEN
        # One that somebody flashes is left alone by whoever asks: it is looked at when that is over.
        return Sight.AWAITED if self.now < lost_at or device.status.claim is not None else Sight.LOST


def observer(*, probe: bool, local: bool, protocols: Collection[str] = tuple(Protocol)) -> Callable[[Device], bool]:
    """What says of a Device whether discovery has ever shown it, or the operator asks it by one of these protocols."""

    def observes(device: Device) -> bool:
        if device.spec.configuration or device.status.instances:
            return True
        askable = probe and (device.spec.protocol or Protocol.ESP32) in protocols
        return askable and endpoint_problem(device.spec.endpoint, local=local) is None

    return observes


def must_be_seen(ended: datetime, soak: float) -> datetime:
    """From when on seeing a device says that it is well at the end of the soak time, in whole seconds as it is written.

    `ended` may be cut to a whole second: then the soak time ends within the second after it.
    """
    return ended.replace(microsecond=0) + timedelta(seconds=soak + 1)
