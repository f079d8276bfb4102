"""The roles flash and check: everything from the first question to the device to the proof that it runs the firmware.

`program` calls it within the time limit. It never retries a flash: another attempt is the operator's to decide.
"""

from __future__ import annotations

from typing import Final, cast

from edgewright.api.flash_pod import Outcome, Phase, Role
from edgewright.api.protocols import Leaving
from edgewright.devices.drivers.driver import Ended, Handover, Identity, WatchingDriver
from edgewright.devices.flasher.proof import Verdict, is_current, prove, rebooted, runs
from edgewright.devices.flasher.steps import Firmware, Work, another_board, fetch, meet
from edgewright.devices.timescale import time_scale

QUESTIONS: Final = 5
"""How often a device that others have flashed is asked again whether it still runs that: it may have just started."""
APART: Final = 2.0
"""Seconds between two of them; all together as long as a driver watches a device that it has flashed itself."""


async def flash(work: Work) -> Verdict:
    """Flashes the device unless it has the firmware already, and says what is proven."""
    device = await meet(work)
    firmware = await fetch(work, device)
    verdict = await nothing_to_do(work, device, firmware)
    if verdict is not None:
        work.account.saw_after(device, rebooted=False)
        return verdict
    handover = await _send(work, device, firmware)
    return await _see(work, device, firmware, handover)


async def nothing_to_do(work: Work, device: Identity, firmware: Firmware) -> Verdict | None:
    """Why the device need not be written, where it need not."""
    order, wanted = work.order, firmware.wanted
    digest, other = firmware.image.digest, another_board(work, device)
    if is_current(order, device, wanted, digest, firmware.facts, another_board=other):
        return Verdict(Outcome.ALREADY_CURRENT, f"the device runs {wanted} of the same firmware already")
    checking = order.check or order.role is Role.CHECK
    if checking and not order.force and runs(device, wanted, firmware.facts) and await _stays(work, device, wanted):
        return Verdict(Outcome.SUCCEEDED, f"the device reports {wanted}: checked, and not written by this run")
    return None


async def _stays(work: Work, device: Identity, wanted: str) -> bool:
    """Whether the device goes on as it is: what others flashed a moment ago may fail in the next."""
    work.account.enter(Phase.VERIFY)
    work.account.wait_for(f"the device to go on reporting {wanted}")
    watched = work.driver.traits.leaving is Leaving.WATCHED
    why = await (_watched(work, device) if watched else _asked_again(work, device))
    if why:
        work.account.log(f"the device reported {wanted}, but does not stay: {why}")
    return not why


async def _watched(work: Work, device: Identity) -> str:
    """What the device does instead of going on; its driver is quicker to see that it goes away than `inspect` is."""
    try:
        async with work.clock.timeout(QUESTIONS * APART * time_scale()):
            await cast(WatchingDriver, work.driver).until_it_leaves(work.order.target.endpoint, device)
    except TimeoutError:
        return ""
    return "it went away, or answers otherwise by now"


async def _asked_again(work: Work, device: Identity) -> str:
    """What the device says instead, or why it says nothing."""
    for _ in range(QUESTIONS):
        await work.clock.sleep(APART * time_scale())
        try:
            again = await work.driver.inspect(work.order.target.endpoint)
        except Ended as error:
            return error.message
        if (again.version, again.build, again.boots) != (device.version, device.build, device.boots):
            return f"now it reports {again.version}"
    return ""


async def _send(work: Work, device: Identity, firmware: Firmware) -> Handover:
    account = work.account
    account.enter(Phase.SEND)
    account.wait_for("the device to take the firmware")
    account.log(f"flashing {firmware.wanted} over {device.version or 'an unknown version'}")
    account.sending = True
    try:
        return await work.driver.flash(firmware.image, work.order.target.endpoint, device, work.around)
    finally:
        account.sending = False


async def _see(work: Work, before: Identity, firmware: Firmware, handover: Handover) -> Verdict:
    account = work.account
    account.enter(Phase.VERIFY)
    account.wait_for(f"the device to restart and report {firmware.wanted}")
    account.log("the firmware is with the device")
    order, wanted = work.order, firmware.wanted
    after = await work.driver.verify(
        order.target.endpoint, before, wanted, firmware.facts, work.around, handover=handover
    )
    account.saw_after(after, rebooted=rebooted(before, after))
    return prove(before, after, firmware.wanted, firmware.facts)
