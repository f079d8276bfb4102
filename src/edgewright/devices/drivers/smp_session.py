"""One conversation with an SMP device: what it has in its slots, giving it an image, trying it out, keeping it.

The SMP drivers lead it. What is lost on the way is asked again, and a message that keeps getting lost is made smaller;
an order that must not be carried out twice (restart) is given once. No decision about a flash is made here.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from dataclasses import dataclass
from enum import IntEnum
from types import TracebackType
from typing import Final, Self

from smp.error import MGMT_ERR
from smp.exceptions import SMPException
from smpclient import SMPClient
from smpclient.exceptions import SMPClientException
from smpclient.generics import SMPRequest, TEr1, TEr2, TRep, error_v1, success
from smpclient.requests.image_management import ImageStatesRead, ImageStatesWrite, ImageUploadWrite
from smpclient.requests.os_management import MCUMgrParametersRead, OSApplicationInfoRead, ResetWrite

from edgewright.devices.drivers.driver import Progress
from edgewright.devices.drivers.smp_slots import Slot
from edgewright.devices.drivers.smp_wire import Wire

# All that it logs it raises too, and what is raised is told once, by whoever handles it.
logging.getLogger("smpclient").setLevel(logging.CRITICAL)

_NO_ERROR: Final = "EOK"
"""What old servers answer where others answer with nothing."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """How long a device may take for what, in seconds, and how often it is asked."""

    connect: float = 3.0
    answer: float = 2.5
    """For an answer, before the question is asked again."""
    tries: int = 3
    upload_tries: int = 8
    """For one piece of an image, each smaller than the last."""
    erase: float = 15.0
    """For the first piece of an image, before which a slot may be erased."""
    poll: float = 0.25
    boot: float = 3.0
    """For a start, in which nothing is said on a serial line."""
    restart: float = 10.0
    """For a restart that was ordered to begin."""
    stable: int = 2
    """How many equal answers in a row count."""
    hold: float = 10.0
    """For how long a new image must answer before it is kept: one that crashes does for a moment each time it starts,
    and once it is kept there is no way back.
    """

    def scaled(self, scale: float) -> Timing:
        """The same for devices that live faster or slower."""
        return Timing(
            connect=self.connect,
            answer=self.answer,
            tries=self.tries,
            upload_tries=self.upload_tries,
            erase=self.erase,
            poll=self.poll * scale,
            boot=self.boot * scale,
            restart=self.restart * scale,
            stable=self.stable,
            hold=self.hold * scale,
        )


class Silent(Exception):
    """The device did not answer, or the way to it is broken."""


class Broken(Silent):
    """The way to the device is broken; whether that is the device's doing depends on the way."""


class Denied(Exception):
    """The device answered that it will not; `reason` is the name of its error, as SMP has it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Garbled(Denied):
    """The device answered something that no SMP server answers."""


class Session:
    """A conversation over one wire; open within `async with`, which raises Silent where the device is not there."""

    def __init__(self, wire: Wire, timing: Timing) -> None:
        self._wire = wire
        self._timing = timing
        self._client = SMPClient(wire, f"{wire.host}:{wire.port}", timing.answer)

    async def __aenter__(self) -> Self:
        try:
            await self._wire.connect("", self._timing.connect)
        except TimeoutError as error:
            raise Broken(f"no connection within {self._timing.connect:g} s") from error
        except OSError as error:
            raise Broken(_sentence(error)) from error
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._wire.disconnect()

    @property
    def console(self) -> bytes:
        """The last of what the device printed on the same line."""
        return bytes(self._wire.console)

    async def let_it_start(self) -> None:
        """Leaves the device alone for as long as a start takes, where the wire asks for that."""
        try:
            await self._wire.listen(self._timing.boot)
        except OSError as error:
            raise Broken(_sentence(error)) from error

    async def slots(self, *, tries: int | None = None) -> tuple[Slot, ...]:
        """What is in the device's slots."""
        states = await self._ask(ImageStatesRead(), tries=tries)
        return tuple(
            Slot(
                number=state.slot,
                version=state.version,
                build=(state.hash or b"").hex(),
                active=bool(state.active),
                confirmed=bool(state.confirmed),
                pending=bool(state.pending),
            )
            for state in states.images
            if not state.image  # a second image is that of another core: not ours to flash
        )

    async def platform(self) -> str:
        """What hardware the device says it is; empty where it does not say."""
        try:
            return (await self._ask(OSApplicationInfoRead(format="i"))).output.strip()
        except Denied:
            return ""

    async def upload(self, content: bytes, *, progress: Progress) -> None:
        """Gives the image to the slot that does not run, from where an earlier upload of the same bytes stopped."""
        await self._learn_sizes()
        offset, silences, whole = 0, 0, True
        while offset < len(content):
            try:
                answer = await self._ask(
                    self._piece(content, offset),
                    within=self._timing.answer if offset else self._timing.erase,
                    tries=1,
                )
            except Silent as error:
                silences += 1
                self._wire.shrink()
                if silences >= self._timing.upload_tries:
                    raise Silent(f"{error} after {offset} of {len(content)} bytes") from error
                continue
            if answer.rc:  # an old server, which says so next to the rest
                raise Denied(_name(answer.rc))
            if answer.off is None:
                raise Denied(f"it does not say how far it got after {offset} bytes")
            # Less than was sent: what followed was lost, and is sent again; no progress at all counts as silence does.
            silences = 0 if answer.off > offset else silences + 1
            if silences >= self._timing.upload_tries or answer.off > len(content):
                raise Denied(f"it wants byte {answer.off} after {offset} of {len(content)}")
            offset, whole = answer.off, answer.match is not False
            progress(offset, len(content))
        if not whole:
            raise Denied("INVALID_HASH")

    async def try_out(self, build: str) -> None:
        """Orders that the image is tried at the next restart, and left again at the one after unless confirmed."""
        await self._ask(ImageStatesWrite(hash=bytes.fromhex(build)))

    async def confirm(self) -> None:
        """Orders that the image which runs stays."""
        await self._ask(ImageStatesWrite(confirm=True))

    async def restart(self) -> None:
        """Orders a restart, once: the answer may be lost with the device that gave it."""
        try:
            await self._ask(ResetWrite(), tries=1)
        except Silent:
            pass
        except Denied as error:
            if error.reason != _NO_ERROR:
                raise

    async def _learn_sizes(self) -> None:
        with contextlib.suppress(Denied):  # an old server does not tell: small messages fit everywhere
            self._wire.initialize((await self._ask(MCUMgrParametersRead())).buf_size)

    def _piece(self, content: bytes, offset: int) -> ImageUploadWrite:
        def request(data: bytes) -> ImageUploadWrite:
            if offset:
                return ImageUploadWrite(off=offset, data=data)
            whole = hashlib.sha256(content).digest()
            return ImageUploadWrite(off=0, data=data, image=0, len=len(content), sha=whole)

        _, size = self._client.get_max_cbor_and_data_size(request(b""))
        return request(content[offset : offset + size])

    async def _ask(
        self, request: SMPRequest[TRep, TEr1, TEr2], *, within: float | None = None, tries: int | None = None
    ) -> TRep:
        """The answer to a request; Denied where it is an error, Silent where none came however often it was asked."""
        left = self._timing.tries if tries is None else tries
        while True:
            left -= 1
            try:
                answer = await self._client.request(request, timeout_s=within)
                break
            except TimeoutError as error:
                if not left:
                    raise Silent("it does not answer") from error
            except OSError as error:
                if not left or isinstance(error, ConnectionResetError | BrokenPipeError):
                    raise Broken(_sentence(error)) from error
                await asyncio.sleep(self._timing.poll)
            except (SMPException, SMPClientException, ValueError) as error:
                raise Garbled(f"its answer is no SMP answer ({type(error).__name__})") from error
        if success(answer):
            return answer
        raise Denied(_reason(answer))


def _reason(answer: TEr1 | TEr2) -> str:
    code: IntEnum = answer.rc if error_v1(answer) else answer.err.rc
    return code.name


def _name(code: int) -> str:
    try:
        return MGMT_ERR(code).name
    except ValueError:
        return f"error {code}"


def _sentence(error: OSError) -> str:
    return error.strerror.lower() if error.strerror else str(error) or type(error).__name__
