"""The steps that every role begins with: to meet the device, and to fetch the firmware for it and look at it.

`flash`, `inspection` and `verification` call them. They end with `Ended` where the device or the firmware is not what
the order says; they never send anything to a device that may change it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from edgewright.api.flash_pod import Outcome, Phase
from edgewright.devices.drivers.driver import Driver, Ended, Facts, Identity, Image, Surroundings
from edgewright.devices.flasher.environment import Order
from edgewright.devices.flasher.proof import image_version, is_another_board, refusal, wanted_version
from edgewright.devices.flasher.report import Account
from edgewright.runtime.clock import Clock


@dataclass(frozen=True, kw_only=True)
class Equipment:
    """What a run works with besides its order; a test brings its own."""

    driver: Driver
    pull: Callable[[str], Awaitable[Image]]
    """Fetches the firmware for that type of device."""
    around: Surroundings = field(default_factory=Surroundings)
    """Without the callbacks, which the run adds."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """One run: its order, what it works with, and the account that it gives."""

    order: Order
    driver: Driver
    pull: Callable[[str], Awaitable[Image]]
    around: Surroundings
    account: Account
    clock: Clock


@dataclass(frozen=True, kw_only=True)
class Firmware:
    """The firmware for the device, looked at."""

    image: Image
    facts: Facts
    wanted: str
    """The version that proves it."""


async def meet(work: Work) -> Identity:
    """Asks the device what it is; Ended where it may not be flashed at all, or is another device than ordered."""
    order, account = work.order, work.account
    if not work.driver.traits.protected and not order.allow_insecure:
        raise Ended(
            Outcome.REFUSED,
            f"the protocol {order.target.protocol} has no protection: anybody on the network can change what the device"
            " gets; set allowInsecure: true in the FlashJob to use it all the same",
        )
    account.enter(Phase.INSPECT)
    account.wait_for("the device's answer")
    device = await work.driver.inspect(order.target.endpoint)
    account.saw_before(device)
    kind = device.device or "it does not say what it is"
    account.log(f"the device at {order.target.endpoint}: {kind}, runs {device.application} {device.version}")
    remark_another_board(work, device)
    verdict = refusal(order, device, says_type=work.driver.traits.reports_type)
    if verdict is not None:
        raise Ended(verdict.outcome, verdict.message)
    if order.target.device and not device.device:
        account.log(f"the device does not say what it is: whether it is a {order.target.device} cannot be checked")
    return device


def remark_another_board(work: Work, device: Identity) -> None:
    """Has the report say so where another board answers than the recorded one."""
    if another_board(work, device):
        work.account.remark(
            "the device shows another certificate than the recorded one: another board answers at this address, or"
            " others have changed what it runs"
        )


def another_board(work: Work, device: Identity) -> bool:
    """Whether another board answers than the one that the operator has recorded for this device."""
    return is_another_board(work.order, device, shows_certificate=work.driver.traits.shows_certificate)


async def fetch(work: Work, device: Identity) -> Firmware:
    """Pulls the firmware and looks at it; Ended where it is damaged, for another device, or of a refused version."""
    order, account = work.order, work.account
    account.enter(Phase.FETCH)
    account.wait_for(f"the firmware {order.firmware.reference}")
    image = await work.pull(device.device or order.target.device)
    account.note(digest=image.digest)
    facts = work.driver.check(image, device)
    carried = image_version(image, facts)
    account.note(image_version=carried)
    wanted = wanted_version(order, carried)
    if wanted != order.firmware.version:
        account.log(
            f"the image carries version {carried}, the job says {order.firmware.version}: {carried} is to be proven"
        )
    return Firmware(image=image, facts=facts, wanted=wanted)
