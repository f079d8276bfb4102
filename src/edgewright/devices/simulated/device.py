"""One simulated ESP32: on the wire like the published firmware, with two slots, a boot loader and faults to order.

`fleet` creates and starts them; nothing else here knows how many there are. It answers HTTP on an address of its own,
dials back over TLS for its firmware, takes it only whole and sound, restarts, and writes all that into its journal.
It never executes a byte of what it is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import re
import ssl
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from edgewright.devices.simulated.faults import BEFORE, Fault, FaultKind
from edgewright.devices.simulated.firmware import BadImage, Contents, expected_size, read_image
from edgewright.devices.simulated.journal import Did, Entry, Journal
from edgewright.devices.simulated.wire import Cut, DialledIn, HttpConnection, Reply
from edgewright.runtime.clock import Clock

HTTP_PORT: Final = 80
"""Where published firmware answers."""
SLOT_SIZE: Final = 4 * 1024 * 1024
"""The largest firmware that a device has room for."""

# Never scaled: it is about a peer that has died, and one on a busy machine has not.
_SILENCE: Final = 120.0
_ORDER: Final = re.compile(rb"\s*ip:\s*(\S+)\s*")


@dataclass(frozen=True, kw_only=True)
class Times:
    """How long a device takes, in seconds that are multiplied by `scale`."""

    scale: float = 1.0
    dial_every: float = 4.0
    """Between two tries to dial."""
    restart_after: float = 4.0
    """Between the end of a transfer and the restart."""
    booting: float = 3.0
    """How long a restart takes; it answers nobody meanwhile."""
    least_booting: float = 0.3
    """How long it takes at the least, not multiplied: published firmware does not tell that it has restarted. Whoever
    wants to know must ask meanwhile, and cannot ask much faster where devices live faster."""
    away: float = 30.0
    """How long a device is gone that vanishes once."""
    dials: int = 20
    """How often it tries to dial."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Slot:
    """A firmware that a device has, and what the device says of itself while that runs."""

    version: str
    application: str
    contents: Contents | None = None
    """What is in it; nothing is known of the firmware that a device comes with."""

    @property
    def sha256(self) -> str:
        """The hash of the firmware; empty for the one that the device came with."""
        return self.contents.sha256 if self.contents else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Make:
    """What all devices of a fleet have in common."""

    device: str
    ota_port: int
    trusts: ssl.SSLContext
    times: Times
    clock: Clock


class Device:
    """One device: `start` gives it power, `stop` takes it away for good."""

    def __init__(
        self,
        make: Make,
        *,
        number: int,
        address: str,
        port: int,
        certificate: bytes,
        firmware: Slot,
        faults: tuple[Fault, ...] = (),
        tells_boot: bool = False,
        told: Callable[[Device, Entry], None] | None = None,
    ) -> None:
        """`port` 0 is any free one; `told` is called with every new entry of the journal.

        `tells_boot` gives /info a number that changes with every boot, which published firmware has not.
        """
        self.number = number
        self.address = address
        self.certificate = certificate
        self.faults = faults
        self.boots = 1
        self.running = firmware
        """The slot that it runs."""
        self.other: Slot | None = None
        """The slot that it does not run."""
        self.journal = Journal(None if told is None else lambda entry: told(self, entry))
        self._make = make
        self._tells_boot = tells_boot
        self._port = port
        self._spent: set[FaultKind] = set()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Transport] = set()
        self._runs: dict[asyncio.Task[None], int] = {}
        self._asked = 0
        self._writing: set[int] = set()
        self._spoiled: set[int] = set()

    @property
    def endpoint(self) -> str:
        """Where it answers, as discovery would write it: with a port where that is not the usual one."""
        return self.address if self._port == HTTP_PORT else f"{self.address}:{self._port}"

    @property
    def present(self) -> bool:
        """Whether it answers now."""
        return self._server is not None

    @property
    def busy(self) -> bool:
        """Whether an update is under way, up to the end of the restart after it."""
        return bool(self._runs)

    def has(self, kind: FaultKind) -> bool:
        """Whether it has this fault, and would still show it."""
        return kind not in self._spent and any(fault.kind is kind for fault in self.faults)

    # --- power -----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Makes it answer; OSError where its address or port cannot be had."""
        if self._server is not None:
            return
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: HttpConnection(self._answer, self._connections), self.address, self._port
        )
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Ends all that it does; it can be started again."""
        self._go_away()
        runs = list(self._runs)
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)

    async def vanish(self) -> None:
        """Pulls the plug."""
        await self.stop()
        self._note(Did.VANISHED)

    async def come_back(self) -> None:
        """Puts the plug in again."""
        await self.start()
        self.boots += 1
        self._note(Did.RETURNED)

    async def crash(self) -> None:
        """Has the firmware that it was given last fail: it goes back to the one before."""
        await self._fall_back(self._asked)
        await self._listen()

    def attest(self) -> bool:
        """Whether the attestation service knows its certificate; asked once for every time that the service is."""
        known = self._show(FaultKind.REFUSE_ATTESTATION) is None
        self._note(Did.ATTESTED if known else Did.NOT_ATTESTED, run=self._asked)
        return known

    # --- HTTP ------------------------------------------------------------------------------------------------------

    def _answer(self, method: str, path: str, body: bytes, peer: str) -> Reply:
        match method, path:
            case "GET", "/info":
                return Reply(body=json.dumps(self._info()).encode(), content_type="application/json")
            case "GET", "/onboard":
                return Reply(body=self.certificate, content_type="application/octet-stream")
            case "POST", "/update":
                return self._update(body, peer)
            case _, "/info" | "/onboard" | "/update":
                return Reply(status=HTTPStatus.METHOD_NOT_ALLOWED)
            case _:
                return Reply(status=HTTPStatus.NOT_FOUND)

    def _info(self) -> dict[str, str | int]:
        said: dict[str, str | int] = {
            "device": self._make.device,
            "application": self.running.application,
            "version": self.running.version,
        }
        return {**said, "boot": self.boots} if self._tells_boot else said

    def _update(self, body: bytes, peer: str) -> Reply:
        order = _ORDER.fullmatch(body)
        try:
            host = str(ipaddress.IPv4Address(order[1].decode("latin-1"))) if order else ""
        except ValueError:
            host = ""
        if not host:
            return Reply(status=HTTPStatus.BAD_REQUEST, body=b"send `ip: ADDRESS`\n")
        self._asked += 1
        self._note(Did.ASKED, run=self._asked, peer=peer, detail=host)
        going = next((fault for fault in self.faults if fault.kind is FaultKind.VANISH), None)
        if going and going.amount == BEFORE and (fault := self._show(FaultKind.VANISH)):
            self._begin(self._leave(self._asked, once=fault.once), self._asked)
        else:
            self._begin(self._fetch(self._asked, host), self._asked)
        return Reply(body=b"OK\n")

    # --- an update -------------------------------------------------------------------------------------------------

    async def _fetch(self, run: int, host: str) -> None:
        """Dials until somebody answers whom it trusts, and takes what that one sends."""
        problem = ""
        slow = self._show(FaultKind.SLOW)
        for attempt in range(self._make.times.dials):
            if attempt:
                await self._sleep(self._make.times.dial_every)
            line = DialledIn(
                self._make.trusts, source=self.address, host=host, port=self._make.ota_port, narrow=slow is not None
            )
            try:
                async with self._make.clock.timeout(_SILENCE):
                    await line.connect()
            except OSError as error:
                problem = str(error)
                continue
            self._note(Did.DIALLED, run=run, peer=host)
            if await self._take(line, run, host, slow):
                await self._restart(run)
            return
        self._note(Did.GAVE_UP, run=run, peer=host, detail=problem)

    async def _take(self, line: DialledIn, run: int, host: str, slow: Fault | None) -> bool:
        """Takes a firmware from a connection; whether it is in the other slot now."""
        content = bytearray()
        try:
            async with line:
                await line.send(self.certificate)
                await self._receive(line, content, run, host, slow)
            return self._store(bytes(content), run)
        except OSError as error:
            self._note(
                Did.CUT, run=run, peer=host, detail=f"after {len(content)} bytes: {str(error) or 'nothing more came'}"
            )
        except BadImage as error:
            self._note(Did.DAMAGED, run=run, peer=host, detail=str(error))
        except _TurnedAway:
            self._note(Did.TURNED_AWAY, run=run, peer=host)
        finally:
            self._writing.discard(run)
        return False

    async def _receive(self, line: DialledIn, content: bytearray, run: int, host: str, slow: Fault | None) -> None:
        drop: Fault | None = None
        while True:
            async with self._make.clock.timeout(_SILENCE):
                data = await line.receive()
            if not data:
                break
            if not content:
                self._begin_writing(run, host)
                drop = self._show(FaultKind.DROP_TRANSFER)
            content += data
            if content[0] != 0xE9 or len(content) > SLOT_SIZE:
                raise BadImage("it is no firmware, or there is no room for it")
            whole = expected_size(content) if drop else None
            if drop and whole is not None and len(content) * 100 >= whole * drop.quantity:
                raise Cut(f"the device dropped it at {drop.quantity} %")
            if slow:
                await self._sleep(len(data) / slow.quantity)
        if not content:
            raise _TurnedAway

    def _begin_writing(self, run: int, host: str) -> None:
        self._note(Did.WRITING, run=run, peer=host)
        if self._writing:  # two write the same slot: neither firmware is whole in the end
            self._spoiled |= {*self._writing, run}
        self._writing.add(run)

    def _store(self, content: bytes, run: int) -> bool:
        """Checks what came as a boot loader does, and makes it what starts next."""
        if run in self._spoiled or self._show(FaultKind.CORRUPT):
            middle = len(content) // 2
            content = content[:middle] + bytes((content[middle] ^ 0xFF,)) + content[middle + 1 :]
        found = read_image(content, chip=self._make.device)
        version, application = found.version, found.project or self.running.application
        if fault := self._show(FaultKind.WRONG_VERSION):
            version = fault.amount
        if self._show(FaultKind.SAME_VERSION):
            version = self.running.version
        if fault := self._show(FaultKind.CHANGE_APPLICATION):
            application = fault.amount
        self.other = Slot(version=version, application=application, contents=found)
        self._note(Did.WRITTEN, run=run, version=found.version, sha256=found.sha256)
        return True

    async def _restart(self, run: int) -> None:
        """Starts what is in the other slot, after a while; all else that it does ends with that."""
        await self._sleep(self._make.times.restart_after)
        self._drop_others(run)
        self._go_away()
        assert self.other is not None  # noqa: S101 - for the type checker
        self.running, self.other = self.other, self.running
        if fault := self._show(FaultKind.VANISH):
            await self._leave(run, once=fault.once)
            return
        await self._boot()
        self._note(Did.REBOOTED, run=run, version=self.running.version, sha256=self.running.sha256)
        if fault := self._show(FaultKind.BOOT_LOOP):
            if fault.quantity:
                await self._listen()
                await self._sleep(fault.quantity)
            await self._fall_back(run)
        await self._listen()

    async def _fall_back(self, run: int) -> None:
        """Ends what it runs, and starts what is in the other slot again."""
        self._go_away()
        assert self.other is not None  # noqa: S101 - for the type checker
        await self._boot()
        self.running, self.other = self.other, self.running
        self._note(Did.REVERTED, run=run, version=self.running.version, sha256=self.running.sha256)

    async def _leave(self, run: int, *, once: bool) -> None:
        """Goes away, and comes back after a while where it does so once only."""
        await asyncio.sleep(0)  # the answer to whoever asked goes out first
        self._drop_others(run)
        self._go_away()
        self._note(Did.VANISHED, run=run)
        if once:
            await self._sleep(self._make.times.away)
            self.boots += 1
            await self._listen()
            self._note(Did.RETURNED, run=run)

    # --- inside ----------------------------------------------------------------------------------------------------

    def _begin(self, work: Coroutine[object, object, None], run: int) -> None:
        task = asyncio.get_running_loop().create_task(work, name=f"update {run} of device {self.number}")
        self._runs[task] = run
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._runs.pop(task, None)
        if not task.cancelled() and (problem := task.exception()) is not None:
            raise problem

    def _drop_others(self, run: int) -> None:
        for task, other in self._runs.items():
            if other != run:
                task.cancel()

    def _go_away(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in tuple(self._connections):
            connection.abort()

    async def _listen(self) -> None:
        """As `start`, after a restart: whoever has taken its port meanwhile gives it back some time."""
        while True:
            with contextlib.suppress(OSError):
                await self.start()
                return
            await self._sleep(self._make.times.dial_every)

    def _show(self, kind: FaultKind) -> Fault | None:
        """The fault of this kind that it shows now; one that it shows once is spent by that."""
        if kind in self._spent:
            return None
        fault = next((each for each in self.faults if each.kind is kind), None)
        if fault is not None and fault.once:
            self._spent.add(kind)
        return fault

    async def _boot(self) -> None:
        times = self._make.times
        await self._make.clock.sleep(max(times.booting * times.scale, times.least_booting))
        self.boots += 1

    async def _sleep(self, seconds: float) -> None:
        await self._make.clock.sleep(seconds * self._make.times.scale)

    def _note(
        self, did: Did, *, run: int = 0, peer: str = "", version: str = "", sha256: str = "", detail: str = ""
    ) -> None:
        self.journal.add(
            Entry(
                at=self._make.clock.elapsed(),
                did=did,
                run=run,
                peer=peer,
                version=version,
                sha256=sha256,
                detail=detail,
            )
        )


class _TurnedAway(Exception):
    """The other end closed before it had sent anything."""
