"""What comes of asking a device what it runs: the contract between controllers, which want to know, and the prober.

Controllers never speak to devices themselves: whoever starts the operator gives them something that `Asks`, which is
`devices.prober`. Nothing here does anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias


@dataclass(frozen=True, kw_only=True)
class Told:
    """The device answered; what it does not tell is empty."""

    type: str = ""
    application: str = ""
    version: str = ""
    certificate: str = ""
    """The SHA-256 of its certificate, as a Device's status has it."""
    build: str = ""
    """What tells two builds of one version apart."""
    boots: str = ""
    """What changes with every restart."""


@dataclass(frozen=True)
class Silent:
    """It was asked, and did not answer so that it could be understood; it may, next time."""

    reason: str


@dataclass(frozen=True)
class Unaskable:
    """Nobody here can ask it, and that will stay so: its endpoint is none, or its protocol has no driver here."""

    reason: str


Answer: TypeAlias = Told | Silent | Unaskable


class Asks(Protocol):
    """Asks devices what they run, and changes nothing on them."""

    async def ask(self, protocol: str, endpoint: str) -> Answer:
        """What comes of asking the device there now; an empty protocol means esp32."""
