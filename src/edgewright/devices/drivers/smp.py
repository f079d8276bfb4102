"""MCUboot devices by SMP, as Zephyr's devices speak it: over UDP, and over a serial line that is served on TCP.

The flasher calls the verbs. An image is given to the slot that does not run, tried out at a restart, and confirmed only
when it has answered for a while and says the right version; a device that does not get that far goes back by itself.
Nothing here ever marks an image as permanent before it ran.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Final

from edgewright.api.flash_pod import Outcome, Protocol
from edgewright.api.protocols import TRAITS, Traits
from edgewright.devices.drivers.driver import NOTHING, Ended, Facts, Handover, Identity, Image, Surroundings
from edgewright.devices.drivers.smp_session import Broken, Denied, Garbled, Session, Silent, Timing
from edgewright.devices.drivers.smp_slots import Slot, Standing, holding, running, standing
from edgewright.devices.drivers.smp_wire import SMP_PORT, Datagrams, SerialOnTcp, Wire, place_of
from edgewright.devices.firmware.mcuboot import check_mcuboot_image
from edgewright.devices.timescale import time_scale

_OUTCOMES: Final = {
    "INVALID_IMAGE_TOO_LARGE": Outcome.INCOMPATIBLE,
    "INVALID_FLASH_ADDRESS": Outcome.INCOMPATIBLE,
    "INVALID_IMAGE_VECTOR_TABLE": Outcome.INCOMPATIBLE,
    "ENOTSUP": Outcome.INCOMPATIBLE,
    "INVALID_HASH": Outcome.CORRUPT,
    "INVALID_IMAGE_HEADER": Outcome.CORRUPT,
    "INVALID_IMAGE_HEADER_MAGIC": Outcome.CORRUPT,
    "INVALID_TLV": Outcome.CORRUPT,
    "NO_TLVS": Outcome.CORRUPT,
    "HASH_NOT_FOUND": Outcome.CORRUPT,
    "ECORRUPT": Outcome.CORRUPT,
    "CURRENT_VERSION_IS_NEWER": Outcome.REFUSED,
    "IMAGE_CONFIRMATION_DENIED": Outcome.REFUSED,
    "EACCESSDENIED": Outcome.REFUSED,
}
"""What the errors of a device mean for a flash; others may pass, so they are failures that are tried again."""
_BANNER: Final = b"*** Booting "
"""What Zephyr prints first, where its console shares the line with SMP."""


class _Smp:
    """What both ways have in common: all but the wire."""

    traits: ClassVar[Traits]
    _answers_itself: ClassVar[bool]
    """Whether nobody but the device can refuse a connection; else somebody who serves its line may be what is gone."""

    def __init__(self, wire: Callable[[str], Wire], timing: Timing | None) -> None:
        self._wire = wire
        self._timing = timing or Timing().scaled(time_scale())

    async def inspect(self, endpoint: str) -> Identity:
        """Asks what runs and on what hardware; Ended(UNREACHABLE) where nobody answers."""
        try:
            async with self._session(endpoint) as session:
                return _identity(await session.slots(), await session.platform())
        except Silent as error:
            raise Ended(Outcome.UNREACHABLE, f"the device at {endpoint} cannot be asked: {error}") from error
        except Denied as error:
            raise _ended(error, "tell what it runs") from error

    def check(self, image: Image, device: Identity) -> Facts:  # noqa: ARG002 - MCUboot images name no hardware
        """Reads the image; Ended(CORRUPT) where it is no MCUboot image, or a damaged one."""
        return check_mcuboot_image(image.content)

    async def flash(self, image: Image, endpoint: str, device: Identity, around: Surroundings) -> Handover:  # noqa: ARG002
        """Gives the image to the other slot, marks it for a try and restarts the device."""
        build = check_mcuboot_image(image.content).build
        doing = "answer"
        try:
            async with self._session(endpoint) as session:
                now = running(slots := await session.slots())
                if now is not None and now.build == build:
                    around.written()
                    around.log("the device runs these very bytes already: nothing is sent, it is only restarted")
                    around.progress(len(image.content), len(image.content))  # from here on a stop would do harm
                    doing = "keep what it runs"
                    await self._keep(session, now)
                else:
                    slots = await self._with_a_free_slot(session, slots, around)
                    around.written()
                    doing = "take the image"
                    if holding(slots, build) is None:
                        await session.upload(image.content, progress=around.progress)
                    else:
                        around.log("the device holds the image in its other slot already: it is not sent again")
                        around.progress(len(image.content), len(image.content))
                    doing = "try the image"
                    await self._try_out(session, build, around)
                doing = "restart"
                await session.restart()
                return Handover(build=build)
        except Silent as error:
            raise Ended(Outcome.UNREACHABLE, f"the device at {endpoint} did not {doing}: {error}") from error
        except Denied as error:
            raise _ended(error, doing) from error

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
        """Waits for the restart, confirms the image once it answers and is the wanted one, and reads it again."""
        given = bool(facts.build) and facts.build == handover.build
        watch = _Watch(before=before, wanted=wanted, facts=facts, given=given, timing=self._timing, around=around)
        while True:
            try:
                async with self._session(endpoint) as session:
                    if given:
                        await session.let_it_start()
                    found = await watch.follow(session)
                if found is not None:
                    return found
            except Broken:
                watch.away(restarts=self._answers_itself)
            except Silent:
                watch.away(restarts=True)
            except Garbled:  # half an answer of a device that is starting
                pass
            except Denied as error:
                raise _ended(error, "keep the image") from error
            await asyncio.sleep(self._timing.poll)

    def _session(self, endpoint: str) -> Session:
        return Session(self._wire(endpoint), self._timing)

    async def _keep(self, session: Session, now: Slot) -> None:
        """Confirms what runs, if it stays up, since an image on trial would be left at the restart."""
        if now.confirmed:
            return
        clock = asyncio.get_running_loop().time
        until = clock() + self._timing.hold
        while clock() < until:
            await asyncio.sleep(self._timing.poll)
            after = running(await session.slots())
            if after is None or after.build != now.build:
                told = after.version if after is not None else "nothing"
                raise Ended(Outcome.REVERTED, f"the device tried out {now.version}, and went back to {told}")
        await session.confirm()

    async def _try_out(self, session: Session, build: str, around: Surroundings) -> None:
        if holding(await session.slots(), build) is None:
            raise Denied("INVALID_HASH")
        try:
            await session.try_out(build)
        except Denied as error:
            if error.reason == "ENOTSUP":
                around.log("the device's bootloader has no trial: it starts the highest version that is whole")
                return
            held = holding(await session.slots(), build)
            if held is None or not held.pending:  # else it was marked before
                raise

    async def _with_a_free_slot(
        self, session: Session, slots: tuple[Slot, ...], around: Surroundings
    ) -> tuple[Slot, ...]:
        """The slots, once the other one may be written: an image on trial needs it to go back to, until it is left."""
        now = running(slots)
        if now is None or now.confirmed:
            return slots
        around.written()
        around.log(f"the device tries out {now.version}, which nobody confirmed: it is restarted to leave that first")
        await session.restart()
        await session.let_it_start()
        try:
            async with asyncio.timeout(self._timing.restart):
                while True:
                    await asyncio.sleep(self._timing.poll)
                    with contextlib.suppress(Silent, Garbled):  # it is starting
                        slots = await session.slots(tries=1)
                        after = running(slots)
                        if after is not None and after.confirmed:
                            return slots
        except TimeoutError as error:
            raise Ended(
                Outcome.FAILED,
                f"the device tries out {now.version} and did not leave it at a restart",
            ) from error


class SmpUdp(_Smp):
    """SMP over UDP; an endpoint without a port means 1337."""

    protocol: ClassVar[str] = Protocol.SMP_UDP
    traits: ClassVar[Traits] = TRAITS[Protocol.SMP_UDP]
    _answers_itself: ClassVar[bool] = True

    def __init__(self, *, timing: Timing | None = None) -> None:
        super().__init__(lambda endpoint: Datagrams(*place_of(endpoint, port=SMP_PORT)), timing)


class SmpTcp(_Smp):
    """SMP over a serial line that is served on TCP, raw; an endpoint is host:port."""

    protocol: ClassVar[str] = Protocol.SMP_TCP
    traits: ClassVar[Traits] = TRAITS[Protocol.SMP_TCP]
    _answers_itself: ClassVar[bool] = False

    def __init__(self, *, timing: Timing | None = None) -> None:
        super().__init__(lambda endpoint: SerialOnTcp(*place_of(endpoint)), timing)


class _Watch:
    """Follows one device from the order to restart to the end, over as many sessions as that takes."""

    def __init__(
        self, *, before: Identity, wanted: str, facts: Facts, given: bool, timing: Timing, around: Surroundings
    ) -> None:
        self._before = before
        self._wanted = wanted
        self._facts = facts
        self._given = given
        self._timing = timing
        self._around = around
        self._restarted = False
        self._last: tuple[Standing, Slot | None] | None = None
        self._equal = 0
        self._up_since: float | None = None
        """Since when it has answered with the new image, without a break."""
        self._confirms = 0
        self._clock = asyncio.get_running_loop().time
        self._since = self._clock()

    def away(self, *, restarts: bool) -> None:
        """The device could not be asked, because it restarts or for another reason."""
        self._restarted = self._restarted or restarts
        self._equal = 0
        self._up_since = None

    async def follow(self, session: Session) -> Identity | None:
        """Asks until it is over; Silent where the device goes away meanwhile.

        None where somebody else flashes and has not come to an end: a line that is served to one at a time is theirs.
        """
        while True:
            slots = await session.slots(tries=self._tries())
            self._restarted = self._restarted or _BANNER in session.console
            stands, now = standing(slots, self._before, self._facts, given=self._given), running(slots)
            self._equal = self._equal + 1 if (stands, now) == self._last else 1
            self._last = stands, now
            self._up_since = (self._up_since or self._clock()) if stands is Standing.NEW else None
            if now is None or stands is Standing.NOT_YET:
                if not self._given:
                    return None
                await self._insist(session)
            elif stands is not Standing.NEW:
                if self._equal >= self._timing.stable and self._seen_to_restart(now):
                    raise self._not_kept(stands, now)
            elif self._stays_up(now):
                if not now.confirmed and now.version == self._wanted:
                    await self._confirm(session)
                elif self._equal >= self._timing.stable and self._seen_to_restart(now):
                    return self._seen(_identity(slots, await session.platform()))
            await asyncio.sleep(self._timing.poll)

    def _tries(self) -> int | None:
        """How often a question is asked: a silence tells of a restart, but what is new has had it, and would go back
        at another.
        """
        last = self._last[1] if self._last is not None and self._up_since is not None else None
        return None if last is not None and last.build != self._before.build else 1

    def _stays_up(self, now: Slot) -> bool:
        """Whether the new image has answered for so long that it may be kept; one that is not kept need not."""
        up = self._clock() - self._up_since if self._up_since is not None else 0.0
        return up >= self._timing.hold or now.version != self._wanted

    async def _confirm(self, session: Session) -> None:
        if self._confirms == self._timing.tries:
            raise Denied("it says yes, and the image stays on trial")
        self._confirms += 1
        self._around.log(f"the device runs {self._wanted} on trial and answers: it is told to keep it")
        await session.confirm()

    async def _insist(self, session: Session) -> None:
        """Orders the restart again where the first order was lost: the image is still waiting for it."""
        if self._clock() - self._since > self._timing.restart:
            self._around.log("the device has not restarted: it is told again")
            self._since = self._clock()
            await session.restart()

    def _seen_to_restart(self, now: Slot) -> bool:
        """Whether a restart was seen; or has been waited for so long that it went by unseen, if there was one."""
        waited = self._clock() - self._since > self._timing.restart
        return now.build != self._before.build or self._restarted or waited

    def _seen(self, device: Identity) -> Identity:
        restarted = self._restarted or device.build != self._before.build
        return replace(device, boots=f"{self._before.boots}+1" if restarted else self._before.boots)

    def _not_kept(self, stands: Standing, now: Slot) -> Ended:
        if stands is Standing.WENT_BACK:
            return Ended(
                Outcome.REVERTED,
                f"the device went back to {now.version}: the new image was tried, and not confirmed before a restart",
            )
        return Ended(
            Outcome.CORRUPT, f"the bootloader refused the image (damaged, or not signed for it), and runs {now.version}"
        )


def _identity(slots: tuple[Slot, ...], platform: str) -> Identity:
    now = running(slots)
    if now is None:
        return Identity(device=platform)
    return Identity(device=platform, version=now.version, build=now.build)


def _ended(error: Denied, doing: str) -> Ended:
    return Ended(_OUTCOMES.get(error.reason, Outcome.FAILED), f"the device will not {doing}: {error.reason}")
