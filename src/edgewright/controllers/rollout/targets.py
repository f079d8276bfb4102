"""What each device is to run: the firmware of the rollout, that of its type, or what it ran before.

The survey asks it for every Device that the rollout means. A device that cannot get anything gets a reason instead.
Pure.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from edgewright.api.device import Device
from edgewright.api.firmwarerollout import FirmwareRolloutSpec


@dataclass(frozen=True, slots=True)
class Target:
    """What a device is to run."""

    firmware: str
    version: str
    type: str = ""
    """The type of device that it is for, where the rollout names one per type."""


@dataclass(frozen=True, slots=True)
class Barred:
    """Why a device cannot get anything of this rollout, in a sentence."""

    why: str
    unknown: bool = False
    """Whether it is to go back, and nobody knows to what."""
    busy: bool = False
    """Whether that is so only as long as a job is flashing it."""


Targets: TypeAlias = Callable[[Device], Target | Barred]


def targets_of(spec: FirmwareRolloutSpec) -> Targets:
    """What each device is to run, for a rollout that is no recall."""
    if not spec.firmwares:
        target = Target(spec.firmware, spec.version)
        return lambda _: target
    by_type = {each.type.casefold(): Target(each.firmware, each.version, each.type) for each in spec.firmwares}

    def of_type(device: Device) -> Target | Barred:
        target = by_type.get(device.spec.type.casefold())
        return (
            Barred(f"spec.firmwares has none for its type {device.spec.type or '(unknown)'}")
            if target is None
            else target
        )

    return of_type
