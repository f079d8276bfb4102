"""The role verify: next to a foreign flasher, waits until the device runs what was asked for.

`program` calls it, and ends it by a future: the time is up, or the Pod must stop. Then the device is asked a last
time. What the foreign flasher says of itself is never heard; nothing is written to the device but what confirms an
image that runs.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from edgewright.api.flash_pod import Outcome, Phase
from edgewright.devices.drivers.driver import Ended, Facts, Identity
from edgewright.devices.flasher.inspection import read_note
from edgewright.devices.flasher.proof import Verdict, prove, rebooted
from edgewright.devices.flasher.steps import Work, fetch, remark_another_board

BETWEEN: Final = 0.5
"""Seconds between two questions."""
SETTLING: Final = 15.0
"""Seconds that a device has at the end to show that what it reports stays: more than drivers watch it for."""


@dataclass(kw_only=True)
class _Seen:
    """What is known so far."""

    wanted: str
    before: Identity | None = None
    facts: Facts = field(default_factory=Facts)
    verdict: Verdict | None = None


async def verify(work: Work, ending: asyncio.Future[Verdict]) -> Verdict:
    """The proof that the device runs what was asked for, or what `ending` says together with what the device runs."""
    # The other flasher is at work: whatever becomes of the device may be its doing.
    work.account.note(written=True)
    seen = _Seen(wanted=work.order.firmware.version, before=read_note(work.order.folders.note))
    watch = asyncio.create_task(_until_proven(work, seen))
    try:
        await asyncio.wait({watch, ending}, return_when=asyncio.FIRST_COMPLETED)
        if watch.done():
            return watch.result()
    finally:
        watch.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.wait({watch})
    return await _at_last(work, seen, ending.result())


async def _until_proven(work: Work, seen: _Seen) -> Verdict:
    before = seen.before = seen.before or await _first_answer(work)
    work.account.saw_before(before)
    remark_another_board(work, before)
    try:
        firmware = await fetch(work, before)
        seen.wanted, seen.facts = firmware.wanted, firmware.facts
    except Ended as error:
        work.account.log(f"the firmware could not be looked at: {error.message}; {seen.wanted} is waited for")
    work.account.enter(Phase.VERIFY)
    work.account.wait_for(f"the device to restart and report {seen.wanted}")
    said = ""
    while True:
        seen.verdict = await _once(work, before, seen)
        if seen.verdict.outcome.good:
            return seen.verdict
        if seen.verdict.message != said:
            said = seen.verdict.message
            work.account.log(f"not yet: {said}")
        await work.clock.sleep(BETWEEN)


async def _once(work: Work, before: Identity, seen: _Seen) -> Verdict:
    try:
        after = await work.driver.verify(work.order.target.endpoint, before, seen.wanted, seen.facts, work.around)
    except Ended as error:
        return Verdict(error.outcome, error.message)
    work.account.saw_after(after, rebooted=rebooted(before, after))
    return prove(before, after, seen.wanted, seen.facts)


async def _settled(work: Work, before: Identity, seen: _Seen) -> Verdict:
    """What is proven by answers that stay, of a device that has just given the right one."""
    try:
        async with work.clock.timeout(SETTLING):
            return await _once(work, before, seen)
    except TimeoutError:
        return Verdict(Outcome.FAILED, f"the device reports {seen.wanted} once, and not steadily")


async def _first_answer(work: Work) -> Identity:
    """What the device says before it is flashed; it may be away for a moment, because somebody else is at work."""
    work.account.wait_for("the device's answer")
    while True:
        try:
            return await work.driver.inspect(work.order.target.endpoint)
        except Ended as error:
            work.account.log(error.message)
        await work.clock.sleep(BETWEEN)


async def _at_last(work: Work, seen: _Seen, ending: Verdict) -> Verdict:
    if seen.before is None:
        return Verdict(Outcome.UNREACHABLE, f"{ending.message}: the device never answered")
    try:
        after = await work.driver.inspect(work.order.target.endpoint)
    except Ended as error:
        return Verdict(ending.outcome, f"{ending.message}: {error.message}")
    work.account.saw_after(after, rebooted=work.account.report.rebooted or rebooted(seen.before, after))
    verdict = prove(seen.before, after, seen.wanted, seen.facts)
    if verdict.outcome.good:  # by one answer, which may be that of a firmware that fails in the next moment
        verdict = await _settled(work, seen.before, seen)
        if verdict.outcome.good:
            return verdict
    went_back = seen.verdict is not None and seen.verdict.outcome is Outcome.REVERTED
    reverted = verdict.outcome is Outcome.REVERTED or (went_back and after.version == seen.before.version)
    return Verdict(Outcome.REVERTED if reverted else ending.outcome, f"{ending.message}: {verdict.message}")
