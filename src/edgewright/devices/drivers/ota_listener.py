"""The door at which a device calls for its firmware: it lets in who shows the right certificate, the device first.

The ESP32 driver opens it before it tells the device where to dial. Anybody may dial: callers are heard side by side, a
limited number for a limited time, so that strangers cannot use up the attempt. It never sends firmware.

The certificate is no secret: anybody can read it at /onboard and show a copy. What nobody can copy is the address that
the device has, so a caller from there goes before all others and has them cut off. Where a NAT or a LoadBalancer hides
that address, nothing tells the device from a copy: then all get a turn, one after the other and those first whose
address has had fewest, until the device is seen to restart. Who calls from very many addresses can still make that
take longer than the attempt has time; a success is proven by the device alone, and never by a caller.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter, deque
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from edgewright.devices.drivers.esp_device import NotUnderstood, certificate_length
from edgewright.devices.drivers.tls_stream import TlsStream

MAX_CALLERS: Final = 64
"""How many are heard at once; so many more from the device's own address, where that can be seen."""
MAX_PER_ADDRESS: Final = 8
"""How many from one other address are heard at once, and how many may wait: one stranger must leave others room."""

MAX_WAITING: Final = 4
"""How many calls from the device's own address may wait while one is served: one that was cut off dials again."""

MAX_LOGGED: Final = 10
"""How many that were turned away are told one by one: more would fill the log, and the report of the flash."""


@dataclass(frozen=True, kw_only=True)
class Caller:
    """One that showed the device's certificate."""

    stream: TlsStream
    address: str
    own: bool
    """Whether it calls from the device's own address, so that it is the device."""
    since: float
    """When it had shown the certificate."""


@dataclass
class _Call:
    """One that has not introduced itself yet."""

    writer: asyncio.StreamWriter
    address: str
    since: float
    ended: bool = False


class Door:
    """Listens while its `async with` block runs; `next_caller` gives those that showed the certificate."""

    def __init__(
        self,
        address: str,
        port: int,
        *,
        tls: ssl.SSLContext,
        certificate: bytes,
        own: Collection[str],
        patience: float,
        courtesy: float,
        spared: float,
        log: Callable[[str], None],
    ) -> None:
        """`own` are the device's addresses; `patience` is how long a caller may take to introduce itself, `courtesy`
        how long one from another address waits whether the device itself comes, `spared` how long one that has not
        introduced itself keeps its place where all are taken.
        """
        self._address, self._port = address, port
        self._tls = tls
        self._certificate = certificate
        self._own = frozenset(own)
        self._patience = patience
        self._courtesy = courtesy
        self._spared = spared
        self._log = log
        self._calls: dict[asyncio.Task[None], _Call] = {}
        self._heard: Counter[str] = Counter()
        self._devices: deque[Caller] = deque()
        self._others: list[Caller] = []
        self._turns: Counter[str] = Counter()
        self._served: Caller | None = None
        self._news = asyncio.Event()
        self._server: asyncio.Server | None = None
        self.turned_away = 0
        """How many callers were not the device."""
        self.last_reason = ""
        """Why the last one was turned away."""

    async def __aenter__(self) -> Self:
        """Begins to listen; OSError where that cannot be."""
        self._server = await asyncio.start_server(self._called, self._address, self._port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None  # noqa: S101 - entered before
        self._server.close()
        writers = [call.writer for call in self._calls.values()]
        for task in list(self._calls):
            task.cancel()
        await asyncio.gather(*self._calls, return_exceptions=True)
        for caller in filter(None, (self._served, *self._devices, *self._others)):
            caller.stream.abort()
        for writer in writers:
            writer.transport.abort()
        await self._server.wait_closed()
        await asyncio.sleep(0)  # asyncio closes an aborted socket in the next turn of the loop

    async def next_caller(self, seconds: float) -> Caller | None:
        """The next one to be served; None where nobody with the certificate came within that time."""
        clock = asyncio.get_running_loop().time
        until = clock() + seconds
        while True:
            now = clock()
            caller = self._devices.popleft() if self._devices else self._whose_turn(now)
            if caller is not None or (not self._others and now >= until):
                self._served = caller
                return caller
            first = min((each.since + self._courtesy for each in self._others), default=until)
            with suppress(TimeoutError):
                async with asyncio.timeout(first - now):
                    await self._next_news()

    def _whose_turn(self, now: float) -> Caller | None:
        """Of those from other addresses that have waited long enough the one whose address had fewest turns."""
        ready = [each for each in self._others if each.since + self._courtesy <= now]
        if not ready:
            return None
        caller = min(ready, key=lambda each: (self._turns[each.address], each.since))
        self._turns[caller.address] += 1
        self._others.remove(caller)
        return caller

    @property
    def waited_at(self) -> bool:
        """Whether somebody with the certificate waits to be served."""
        return bool(self._devices or self._others)

    async def device_calls(self) -> None:
        """Returns once a caller from the device's own address waits."""
        while not self._devices:
            await self._next_news()

    async def anybody_calls(self) -> None:
        """Returns once anybody with the certificate waits."""
        while not self.waited_at:
            await self._next_news()

    async def cut_off(self, caller: Caller, turn: float) -> str:
        """Returns, with the reason, once this caller has to make room for another; for the device that is never."""
        if caller.own:
            await asyncio.get_running_loop().create_future()
        with suppress(TimeoutError):
            async with asyncio.timeout(turn):
                await self.device_calls()
        await self.anybody_calls()
        if self._devices:
            return "the device itself dials in from its own address"
        return f"it has had {turn:g} s, and others with the same certificate wait"

    async def _next_news(self) -> None:
        self._news.clear()
        await self._news.wait()

    def _called(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = str((writer.get_extra_info("peername") or ("an unknown address",))[0])
        own = address in self._own
        full = self._heard[address] >= (MAX_CALLERS if own else MAX_PER_ADDRESS)
        if (full or (not own and len(self._calls) >= MAX_CALLERS)) and not self._make_room(address if full else None):
            self._turn_away(address, "too many callers at once")
            writer.transport.abort()
            return
        task = asyncio.create_task(self._hear(reader, writer, address))
        self._calls[task] = _Call(writer, address, asyncio.get_running_loop().time())
        self._heard[address] += 1

        def over(done: asyncio.Task[None]) -> None:
            self._calls.pop(done, None)
            self._heard[address] -= 1
            if not self._heard[address]:
                del self._heard[address]

        task.add_done_callback(over)

    def _make_room(self, address: str | None) -> bool:
        """Ends the oldest call from this address, or from any but the device's, if it has been spared long enough."""
        before = asyncio.get_running_loop().time() - self._spared
        for task, call in self._calls.items():  # the oldest first
            fits = call.address == address if address is not None else call.address not in self._own
            if fits and not (call.ended or task.done()) and call.since <= before:
                call.ended = True
                task.cancel()
                call.writer.transport.abort()
                self._turn_away(call.address, "it had not introduced itself, and another wanted its place")
                return True
        return False

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str) -> None:
        stream = TlsStream(reader, writer, self._tls)
        try:
            async with asyncio.timeout(self._patience):
                await stream.handshake()
                shown = await _read_certificate(stream)
        except TimeoutError:
            reason = f"it did not introduce itself within {self._patience:g} s"
        except ssl.SSLError as error:
            reason = f"no TLS connection came about ({error.reason or error})"
        except (OSError, NotUnderstood) as error:
            reason = str(error) or type(error).__name__
        else:
            if shown != self._certificate:
                reason = "its certificate is not the one that the device shows at /onboard"
            elif self._let_in(stream, address):
                return
            else:
                reason = "others with the device's certificate wait already"
        self._turn_away(address, reason)
        stream.abort()

    def _let_in(self, stream: TlsStream, address: str) -> bool:
        """Has a caller with the right certificate wait for its turn, if there is room."""
        own = address in self._own
        if own and len(self._devices) >= MAX_WAITING:
            return False
        from_there = sum(each.address == address for each in self._others)
        if not own and (from_there >= MAX_PER_ADDRESS or len(self._others) >= MAX_CALLERS):
            return False
        caller = Caller(stream=stream, address=address, own=own, since=asyncio.get_running_loop().time())
        (self._devices if own else self._others).append(caller)
        self._news.set()
        return True

    def _turn_away(self, address: str, reason: str) -> None:
        self.turned_away += 1
        self.last_reason = f"{address}: {reason}"
        count = self.turned_away
        if count <= MAX_LOGGED:
            self._log(f"a caller was turned away: {self.last_reason}")
        elif count & (count - 1) == 0:  # from here on whenever they are twice as many
            self._log(f"{count} callers were turned away, the last: {self.last_reason}")


async def _read_certificate(stream: TlsStream) -> bytes:
    """The first bytes of a caller, as many as the certificate says that it has."""
    received = b""
    while (length := certificate_length(received)) is None or len(received) < length:
        # Up to where the length stands first, so that nothing after the certificate is read with it.
        data = await stream.read((5 if length is None else length) - len(received))
        if not data:
            raise NotUnderstood("it hung up before its certificate was here")
        received += data
    return received
