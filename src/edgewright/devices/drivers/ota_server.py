"""Gives the firmware to who calls at the door, one at a time, until the device has it.

The ESP32 driver calls it when the device was told to dial. A caller from the device's own address is the device, and
the first of these that took everything ends it. Any other may be the device behind a NAT, or somebody with a copy of
its certificate: that tells only the device, by going away to restart. It never tells a device anything, and proves
nothing: what the device runs in the end is read from it afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from edgewright.api.flash_pod import Outcome
from edgewright.devices.drivers.delivery import Delivery, deliver
from edgewright.devices.drivers.driver import Ended, Identity, Surroundings
from edgewright.devices.drivers.esp_device import Timing, until_it_leaves
from edgewright.devices.drivers.ota_listener import Caller, Door


class Serving:
    """One firmware for one device, and those who want it."""

    def __init__(
        self, door: Door, content: bytes, endpoint: str, device: Identity, around: Surroundings, *, timing: Timing
    ) -> None:
        self._door = door
        self._content = content
        self._endpoint = endpoint
        self._device = device
        self._around = around
        self._timing = timing
        self._leaving: asyncio.Task[None] | None = None
        """Watches the device, from when somebody has everything who may be the device or not."""

    async def until_taken(self, patience: float) -> bool:
        """Serves until the device has its firmware, as far as can be told; gives whether it was seen to go away.

        Ended(UNREACHABLE) where nobody with its certificate calls within `patience` seconds, Ended(FAILED) where the
        transfer was cut and it does not call again, and what the attestation service says.
        """
        try:
            return await self._serve(patience)
        finally:
            if self._leaving is not None:
                self._leaving.cancel()
                await asyncio.gather(self._leaving, return_exceptions=True)

    @property
    def _left(self) -> bool:
        return self._leaving is not None and self._leaving.done()

    async def _serve(self, patience: float) -> bool:
        clock, timing, door, log = asyncio.get_running_loop().time, self._timing, self._door, self._around.log
        late = clock() + timing.late
        caller = await door.next_caller(patience)
        if caller is None:
            raise self._nobody_came(patience)
        if self._around.attest is not None:  # once: it would say the same of the same certificate, and others wait
            await self._attest(caller, self._around.attest)
        while caller is not None:
            who = "the device" if caller.own else "the device, or who shows its certificate,"
            log(f"{who} dialled in from {caller.address}")
            delivery = await self._give(caller)
            if self._left:  # who takes its firmware may have no time for questions: that was no restart
                self._look_again()
            log(delivery.message)
            if delivery.whole and caller.own:
                return False
            if delivery.whole:
                await self._watch(late)
            if self._left or (delivery.whole and not door.waited_at):
                return self._left
            if delivery.whole:
                log("the device does not restart with it, and another with its certificate waits")
            redial = timing.redial if caller.own else max(timing.redial, late - clock())
            caller = await self._next(redial)
        if self._leaving is None:
            raise Ended(Outcome.FAILED, f"{delivery.message}; it did not dial again within {redial:.3g} s")
        return self._left

    def _nobody_came(self, patience: float) -> Ended:
        door = self._door
        others = f"; {door.turned_away} other calls, the last from {door.last_reason}" if door.turned_away else ""
        return Ended(
            Outcome.UNREACHABLE,
            f"the device was told to dial {self._around.external_address} and did not within {patience:g} s{others}",
        )

    async def _attest(self, caller: Caller, attest: Callable[[bytes], Awaitable[None]]) -> None:
        try:
            await attest(self._device.certificate)
        except BaseException as error:
            if isinstance(error, Ended):
                # Hung up properly before the first byte, the device knows that it gets nothing and keeps what it has.
                with suppress(OSError):
                    await caller.stream.say_goodbye()
            caller.stream.abort()
            raise

    async def _give(self, caller: Caller) -> Delivery:
        """Sends the firmware to a caller, as long as it need not make room for another, and hangs up."""
        tasks: list[asyncio.Task[Any]] = []
        timing, progress = self._timing, self._around.progress
        try:
            self._around.written()
            sending = asyncio.create_task(
                deliver(caller.stream, self._content, progress=progress, stall=timing.stall, farewell=timing.farewell)
            )
            making_room = asyncio.create_task(self._door.cut_off(caller, timing.turn))
            tasks += [sending, making_room]
            # Not when the device seems to go away: who takes its firmware may have no time for questions.
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                return sending.result()
            return Delivery(whole=False, message=f"the transfer was cut: {making_room.result()}")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            caller.stream.abort()

    async def _next(self, seconds: float) -> Caller | None:
        """The next one to be served; None where none came, or the device restarts and needs nobody to be."""
        calling = asyncio.create_task(self._door.next_caller(seconds))
        try:
            await self._first_of(calling)
            return calling.result() if calling.done() else None
        finally:
            calling.cancel()

    async def _watch(self, late: float) -> None:
        """Waits until the device goes away, or has had time to and another caller waits, or no other comes."""
        if self._leaving is None:
            self._look_again()
        clock = asyncio.get_running_loop().time
        soon = clock() + self._timing.leave
        for calls, until in ((self._door.device_calls, soon), (self._door.anybody_calls, late)):
            calling = asyncio.create_task(calls())
            try:
                await self._first_of(calling, timeout=max(0.0, until - clock()))
            finally:
                calling.cancel()
            if self._left or self._door.waited_at:
                return

    def _look_again(self) -> None:
        """Begins to watch whether the device goes away."""
        self._leaving = asyncio.create_task(until_it_leaves(self._endpoint, self._device, timing=self._timing))

    async def _first_of(self, *tasks: asyncio.Task[Any], timeout: float | None = None) -> None:
        """Waits until one of them is done, or the device has gone away, or the time is over."""
        watched = (*tasks, self._leaving) if self._leaving is not None else tasks
        await asyncio.wait(watched, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
