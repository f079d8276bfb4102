"""What a driver is: four verbs and what passes between them and the flasher.

The flasher calls them in this order: `inspect`, `check`, `flash`, `verify`. A driver raises `Ended` with the outcome
where it cannot go on; it never retries a whole flash, never exits the process and never prints.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import ClassVar, Final, Protocol, TypeAlias

from edgewright.api.flash_pod import Outcome
from edgewright.api.protocols import Traits


class Ended(Exception):
    """The flash is over, for this reason; the message is one sentence for people."""

    def __init__(self, outcome: Outcome, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.message = message


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What a device says of itself."""

    device: str = ""
    """Its type, for example esp32s3."""
    application: str = ""
    version: str = ""
    certificate: bytes = b""
    """Its DER certificate, where it has one."""
    build: str = ""
    """What tells two builds of one version apart, where the protocol tells it: the hash of the running image."""
    boots: str = ""
    """What changes with every reboot, where the protocol tells it: a boot counter, an uptime's start."""


@dataclass(frozen=True, kw_only=True)
class Image:
    """The firmware for one device, checked against its digest."""

    content: bytes
    """The bytes that go to the device."""
    digest: str
    """The digest of what the reference stands for."""
    label_version: str = ""
    """The version by the image's labels (org.opencontainers.image.version), where it has one."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What a driver reads from an image before anything is sent."""

    version: str = ""
    """The version in the image itself; empty where it has none."""
    build: str = ""
    """The build's hash, comparable with Identity.build, where the format has one."""


Progress: TypeAlias = Callable[[int, int], None]
"""Called with bytes sent and bytes in all."""


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """What a driver may use besides the device's endpoint."""

    listen: str = ""
    """The address to listen on, where the device dials back."""
    external_address: str = ""
    """The address that the device is told to dial."""
    tls: ssl.SSLContext | None = None
    """The server's side of TLS, with the certificate that the firmware pins."""
    attest: Callable[[bytes], Awaitable[None]] | None = None
    """Raises Ended(REFUSED) where the attestation service does not know the DER certificate; None: no service."""
    progress: Progress = field(default=lambda _sent, _all: None)
    log: Callable[[str], None] = field(default=lambda _line: None)
    written: Callable[[], None] = field(default=lambda: None)
    """To be called before the first byte goes out that may change the device."""


@dataclass(frozen=True, kw_only=True)
class Handover:
    """What `flash` knows that `verify` needs; a driver may have one of its own with more in it."""

    build: str = ""
    """The build of the image that was given to the device, where the format has one; empty: others gave it."""
    left: bool = False
    """Whether the device was seen to go away before `flash` was over."""


NOTHING: Final = Handover()


class Driver(Protocol):
    """How devices of one protocol are asked and flashed. It keeps nothing from one verb to the next."""

    protocol: ClassVar[str]
    traits: ClassVar[Traits]

    async def inspect(self, endpoint: str) -> Identity:
        """Asks the device what it is; Ended(UNREACHABLE) where it does not answer within a few seconds."""

    def check(self, image: Image, device: Identity) -> Facts:
        """Reads the image; Ended(CORRUPT or INCOMPATIBLE) where it is damaged or for another device."""

    async def flash(self, image: Image, endpoint: str, device: Identity, around: Surroundings) -> Handover:
        """Gives the image to the device, up to and including the order to restart with it."""

    async def verify(
        self,
        endpoint: str,
        before: Identity,
        wanted: str,
        facts: Facts,
        around: Surroundings,
        *,
        handover: Handover = NOTHING,
    ) -> Identity:
        """Waits for the reboot and asks until the answers are stable; gives the last one, whatever it says.

        `handover` is what `flash` gave, or nothing where others have flashed the device.
        Ended(REVERTED) where the protocol tells that the device went back to its old image; it runs until it is
        cancelled by the flasher's time limit where the device does not come back.
        """


class WatchingDriver(Driver, Protocol):
    """A driver with the trait Leaving.WATCHED."""

    async def until_it_leaves(self, endpoint: str, device: Identity) -> None:
        """Returns when the device goes away or answers otherwise than this; a short absence is seen too."""
