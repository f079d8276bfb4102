"""A driver, a device and orders for tests of the flasher: what they answer is scripted, and what was done is noted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from edgewright.api.flash_pod import Report, Role, Variable, decode_report
from edgewright.api.protocols import Traits
from edgewright.devices.drivers.driver import NOTHING, Ended, Facts, Handover, Identity, Image, Surroundings
from edgewright.devices.flasher.environment import Order
from edgewright.devices.flasher.flash import APART, QUESTIONS
from edgewright.devices.flasher.program import run
from edgewright.devices.flasher.report import Account
from edgewright.devices.flasher.steps import Equipment
from edgewright.devices.flasher.stop_signals import Stop
from edgewright.runtime.clock import VirtualClock, settle

DIGEST = "sha256:" + "a" * 64
OTHER_DIGEST = "sha256:" + "b" * 64
CERTIFICATE = b"\x30\x82" + bytes(700)
BEFORE = Identity(device="esp32s3", application="thermo", version="0.1.0", certificate=CERTIFICATE, boots="1")
AFTER = replace(BEFORE, version="0.2.0", boots="2")

ENVIRONMENT: dict[str, str] = {
    Variable.FIRMWARE: "registry.example/team/firmware:0.2.0",
    Variable.UUID: "5f0c",
    Variable.HOST_ENDPOINT: "192.0.2.7",
    Variable.DEVICE: "esp32s3",
    Variable.APPLICATION_TYPE: "thermo",
    Variable.VERSION: "0.2.0",
    Variable.EXTERNAL_IP: "192.0.2.200",
    Variable.POD_IP: "127.0.0.9",
    Variable.TIMEOUT: "60",
}


async def forever() -> None:
    """Waits until it is cancelled."""
    await asyncio.Event().wait()


@dataclass
class FakeDriver:
    """A driver whose device answers `before`, takes the firmware, and answers `after`."""

    protocol: ClassVar[str] = "fake"
    traits: ClassVar[Traits] = Traits(protected=True)

    before: Identity | Ended = BEFORE
    after: Identity | Ended | Exception | None = AFTER
    """None: it never comes back."""
    facts: Facts | Ended = field(default_factory=Facts)
    on_flash: Callable[[Surroundings], Awaitable[None]] | None = None
    done: list[str] = field(default_factory=list)
    last: Identity | Ended | None = None
    """What it answers once it was written, where that is not `before`."""

    async def inspect(self, endpoint: str) -> Identity:
        """What the device is scripted to say."""
        self.done.append("inspect")
        answer = self.last if self.last is not None and len(self.done) > 1 else self.before
        if isinstance(answer, Ended):
            raise answer
        return answer

    def check(self, image: Image, device: Identity) -> Facts:
        """The scripted facts."""
        self.done.append("check")
        if isinstance(self.facts, Ended):
            raise self.facts
        return self.facts

    async def flash(self, image: Image, endpoint: str, device: Identity, around: Surroundings) -> Handover:
        """Sends as the script says, or at once."""
        self.done.append("flash")
        if self.on_flash is not None:
            await self.on_flash(around)
            return Handover()
        if around.attest is not None:
            await around.attest(device.certificate)
        around.written()
        around.progress(len(image.content), len(image.content))
        return Handover()

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
        """The scripted answer after the restart."""
        self.done.append("verify")
        if self.after is None:
            await forever()
        if isinstance(self.after, Exception):
            raise self.after
        assert self.after is not None
        return self.after


class Unprotected(FakeDriver):
    """A driver whose protocol anybody can tamper with."""

    traits: ClassVar[Traits] = Traits()


class Telling(FakeDriver):
    """A driver whose devices always say what they are, and show a certificate."""

    traits: ClassVar[Traits] = Traits(protected=True, reports_type=True, shows_certificate=True)


class Interruptible(FakeDriver):
    """A driver whose device takes no harm from half a firmware."""

    traits: ClassVar[Traits] = Traits(protected=True, safe_to_interrupt=True)


@dataclass
class Bench:
    """One run with a fake device, and all that came of it."""

    driver: FakeDriver = field(default_factory=FakeDriver)
    image: Image | Ended | None = field(default_factory=lambda: Image(content=b"firmware", digest=DIGEST))
    """None: the registry never answers."""
    around: Surroundings = field(default_factory=Surroundings)
    clock: VirtualClock = field(default_factory=VirtualClock)
    stop: Stop = field(default_factory=Stop)
    said: list[str] = field(default_factory=list)
    saved: list[bytes] = field(default_factory=list)
    pulled_for: list[str] = field(default_factory=list)

    def equip(self, order: Order, log: Callable[[str], None]) -> Equipment:
        """What the run is given."""
        return Equipment(driver=self.driver, pull=self._pull, around=self.around)

    async def _pull(self, device: str) -> Image:
        self.pulled_for.append(device)
        if self.image is None:
            await forever()
        if isinstance(self.image, Ended):
            raise self.image
        assert self.image is not None
        return self.image

    async def run(self, role: Role = Role.FLASH, environment: Mapping[str, str] | None = None) -> int:
        """Runs it with these variables of the environment changed, and gives the exit code."""
        account = Account(clock=self.clock, say=self.said.append, save=self.saved.append)
        environ = {**ENVIRONMENT, Variable.ROLE: role, **(environment or {})}
        return await run(environ, account=account, stop=self.stop, clock=self.clock, equip=self.equip)

    def start(self, role: Role = Role.FLASH, environment: Mapping[str, str] | None = None) -> asyncio.Task[int]:
        """The same as a task, for tests that move the clock or stop it."""
        return asyncio.create_task(self.run(role, environment))

    async def check(self, role: Role, environment: Mapping[str, str] | None = None) -> int:
        """The same for a run that asks a device again for a while."""
        task = self.start(role, environment)
        await self.clock.advance(QUESTIONS * APART)
        return await task

    async def until(self, what: str) -> None:
        """Waits until the driver has begun that."""
        while what not in self.driver.done:
            await settle()

    @property
    def report(self) -> Report:
        """The last report that was saved."""
        report = decode_report(self.saved[-1].decode())
        assert report is not None
        return report
