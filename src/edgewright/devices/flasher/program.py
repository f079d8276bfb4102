"""One run of the flasher from its environment to its exit code: the time limit, the stop, the report.

`__main__` calls `main`; tests call `run` with equipment of their own. Whatever happens inside, a run ends with a report
and an exit code, and never with a traceback alone.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from typing import Final

from edgewright.api.flash_pod import EXIT_CODES, INSPECTED_EXIT_CODE, Attestation, Outcome, Role
from edgewright.devices.drivers.driver import Ended, Surroundings
from edgewright.devices.flasher.environment import BadOrder, Order, read_order
from edgewright.devices.flasher.flash import flash
from edgewright.devices.flasher.inspection import inspect
from edgewright.devices.flasher.proof import Verdict, rebooted
from edgewright.devices.flasher.report import Account, save_to, termination_log
from edgewright.devices.flasher.steps import Equipment, Work
from edgewright.devices.flasher.stop_signals import SIGNALS, Stop
from edgewright.devices.flasher.verification import verify
from edgewright.runtime import logs
from edgewright.runtime.clock import Clock, SystemClock

TICK: Final = 1.0
"""Seconds between two progress lines."""
LETTING_GO: Final = 0.5
"""Seconds that a flash which was called off has for closing its connections."""
LAST_ANSWER: Final = 3.0
"""Seconds that the device has to say what it runs, where a flash ended without that."""

Equip = Callable[[Order, Callable[[str], None]], Equipment]


def main(environ: Mapping[str, str], stop: Stop) -> int:
    """Runs the order in the environment and gives the exit code, with the event loop left open.

    It is left so because to close it would wait for whatever hangs; the process ends right afterwards.
    """
    logs.setup()
    log = logs.get("devices.flasher")
    clock = SystemClock()
    account = Account(clock=clock, say=log.info, save=save_to(termination_log(environ)))

    async def run_here() -> int:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, stop.ask)
        return await run(environ, account=account, stop=stop, clock=clock)

    return asyncio.new_event_loop().run_until_complete(run_here())


async def run(
    environ: Mapping[str, str],
    *,
    account: Account,
    stop: Stop,
    clock: Clock,
    equip: Equip | None = None,
) -> int:
    """Does what the environment orders, saves the report and gives the exit code."""
    order: Order | None = None
    try:
        order = read_order(environ)
        verdict = await _carry_out(order, account=account, stop=stop, clock=clock, equip=equip or _equip)
    except BadOrder as error:
        verdict = Verdict(Outcome.FAILED, f"the environment of this Pod is wrong: {error}")
    except Ended as error:
        verdict = Verdict(error.outcome, error.message)
    except asyncio.CancelledError:
        if (this := asyncio.current_task()) is not None and this.cancelling():
            raise
        # Something inside was cancelled and nobody meant us: that must not end the process without a report.
        verdict = Verdict(Outcome.FAILED, f"the flasher itself broke off, waiting for {account.waiting_for}")
    except Exception as error:  # the one place that lets nothing through
        for line in traceback.format_exception(error):
            account.log(line)
        verdict = Verdict(Outcome.FAILED, f"the flasher itself failed: {type(error).__name__}: {error}")
    if verdict is None:
        account.log("nothing stands in the way of the other flasher")
        return 0
    account.log(f"{verdict.outcome}: {verdict.message}")
    account.save(verdict)
    inspecting = order is not None and order.role is Role.INSPECT
    return INSPECTED_EXIT_CODE if inspecting else EXIT_CODES[verdict.outcome]


async def _carry_out(order: Order, *, account: Account, stop: Stop, clock: Clock, equip: Equip) -> Verdict | None:
    equipment = equip(order, account.log)
    work = Work(
        order=order,
        driver=equipment.driver,
        pull=equipment.pull,
        around=_with_callbacks(equipment.around, account, stop),
        account=account,
        clock=clock,
    )
    ticking = _Ticking(account, clock)
    try:
        if order.role is Role.VERIFY:
            return await _verify_until_told(work, stop)
        role: Coroutine[object, object, Verdict | None] = inspect(work) if order.role is Role.INSPECT else flash(work)
        return await _until_over(role, work, stop)
    finally:
        await _ask_at_last(work)
        ticking.stop()


def _equip(order: Order, log: Callable[[str], None]) -> Equipment:
    from edgewright.devices.flasher.setup import equip  # noqa: PLC0415 - a test with its own needs none of it

    return equip(order, log)


def _with_callbacks(around: Surroundings, account: Account, stop: Stop) -> Surroundings:
    attest = around.attest

    async def attested(certificate: bytes) -> None:
        if attest is None:
            return
        account.wait_for("the attestation service")
        try:
            await attest(certificate)
        except Ended as error:
            refused = error.outcome is Outcome.REFUSED
            account.note(attestation=Attestation.REFUSED if refused else Attestation.UNANSWERED)
            raise
        account.note(attestation=Attestation.RECOGNISED)
        account.log("the attestation service knows the device's certificate")
        account.wait_for("the device to take the firmware")

    def writing() -> None:
        # The cancellation may not have reached the driver yet, and what it writes next may be sent at once.
        if stop.asked and not account.written:
            raise _called_off()
        account.writing()

    return replace(
        around,
        attest=None if attest is None else attested,
        progress=account.progress,
        log=account.log,
        written=writing,
    )


def _called_off() -> Ended:
    return Ended(Outcome.CANCELLED, "it was called off before anything was written to the device")


def _too_long(work: Work) -> Verdict:
    text = f"it took longer than {work.order.timeout:g} s, waiting for {work.account.waiting_for}"
    return Verdict(Outcome.TIMED_OUT, text)


class _Ticking:
    """Lets the account say how far it is once a second, until it is stopped."""

    def __init__(self, account: Account, clock: Clock) -> None:
        self._account = account
        self._clock = clock
        self._timer = clock.call_later(TICK, self._tick)

    def _tick(self) -> None:
        self._account.tick()
        self._timer = self._clock.call_later(TICK, self._tick)

    def stop(self) -> None:
        self._timer.cancel()


async def _verify_until_told(work: Work, stop: Stop) -> Verdict:
    ending: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()

    def end(verdict: Verdict) -> None:
        if not ending.done():
            ending.set_result(verdict)

    timer = work.clock.call_later(work.order.timeout, lambda: end(_too_long(work)))
    stop.tell(lambda: end(Verdict(Outcome.FAILED, "it was told to stop before the device ran what was asked for")))
    try:
        return await verify(work, ending)
    finally:
        timer.cancel()


async def _until_over(role: Coroutine[object, object, Verdict | None], work: Work, stop: Stop) -> Verdict | None:
    """The role's own verdict, or that of what ended it: the time limit, or a stop while that does no harm."""
    account = work.account
    ended: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
    task = asyncio.ensure_future(role)

    def end(verdict: Verdict) -> None:
        if not ended.done():
            ended.set_result(verdict)
            task.cancel()

    def asked() -> None:
        if not account.written:
            end(Verdict(Outcome.CANCELLED, _called_off().message))
        elif account.sending and not account.all_sent and work.driver.traits.safe_to_interrupt:
            text = "it was called off while the firmware was being sent, which this device takes without harm"
            end(Verdict(Outcome.CANCELLED, text))
        else:
            account.log("told to stop while the device is being flashed: it goes on, for half a flash is worse")

    timer = work.clock.call_later(work.order.timeout, lambda: end(_too_long(work)))
    stop.tell(asked)
    try:
        waited: set[asyncio.Future[Verdict | None] | asyncio.Future[Verdict]] = {task, ended}
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            await asyncio.wait({task}, timeout=LETTING_GO)
    finally:
        timer.cancel()
        task.cancel()
    over = task.done() and not task.cancelled() and task.exception() is None
    # A role that was over in the same moment has more to say than what wanted to end it.
    return ended.result() if ended.done() and not over else task.result()


async def _ask_at_last(work: Work) -> None:
    """Asks a device that may have been changed what it runs now, where the run ended without knowing that."""
    account = work.account
    asked = work.order.role is Role.VERIFY or bool(account.report.version_after)
    if account.before is None or not account.written or asked:
        return
    try:
        async with asyncio.timeout(LAST_ANSWER):
            device = await work.driver.inspect(work.order.target.endpoint)
    except (Ended, OSError) as error:  # TimeoutError is an OSError
        account.log(f"at last the device does not answer: {str(error) or 'it takes too long'}")
        return
    account.saw_after(device, rebooted=rebooted(account.before, device))
    account.log(f"at last the device reports {device.version}")
