"""One delivery of firmware over a TLS connection: sent in parts, ended properly, and judged by how the device ends it.

The ESP32 driver calls it with the connection of the device. The protocol has no acknowledgement, so the judgement is
the best that can be told here; the proof comes afterwards, from the device that runs it. It never closes the socket.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from edgewright.devices.drivers.driver import Progress
from edgewright.devices.drivers.tls_stream import End, TlsStream

PART: Final = 16 << 10
"""As much as one TLS record holds."""
_GLANCE: Final = 0.2
"""Seconds between two looks at how much is still on its way."""


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """How a delivery ended."""

    whole: bool
    """Whether the device has, as far as can be told, all of it."""
    message: str


async def deliver(stream: TlsStream, content: bytes, *, progress: Progress, stall: float, farewell: float) -> Delivery:
    """Sends the content; a device that takes nothing for `stall` seconds is cut off.

    When everything has arrived, it has `farewell` seconds to close its side; one that says nothing is believed.
    """
    ending = asyncio.create_task(stream.ended())
    try:
        for sent in range(0, len(content), PART):
            problem = await _send(stream, content[sent : sent + PART], ending, stall)
            if problem:
                cut = f"the transfer was cut at {100 * sent // len(content)} %: {problem}"
                return Delivery(whole=False, message=cut)
            progress(min(sent + PART, len(content)), len(content))
        return await _take_leave(stream, ending, stall, farewell)
    finally:
        ending.cancel()
        await asyncio.gather(ending, return_exceptions=True)


async def _send(stream: TlsStream, part: bytes, ending: asyncio.Task[End], stall: float) -> str:
    """Sends one part; gives what went wrong, or nothing."""
    sending = asyncio.create_task(stream.send(part))
    await asyncio.wait({sending, ending}, timeout=stall, return_when=asyncio.FIRST_COMPLETED)
    if not sending.done():
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        return f"the device {ending.result().value}" if ending.done() else f"the device took nothing for {stall:g} s"
    if sending.exception() is not None:
        return f"the device {End.BROKEN.value} ({sending.exception()})"
    return f"the device {ending.result().value}" if ending.done() else ""


async def _take_leave(stream: TlsStream, ending: asyncio.Task[End], stall: float, farewell: float) -> Delivery:
    try:
        await stream.say_goodbye()
    except OSError as error:
        return Delivery(whole=False, message=f"the transfer was cut at its end: the device broke it off ({error})")
    # The published firmware says goodbye, but keeps the connection until it restarts: no need to wait for that.
    if not await _arrived(stream, ending, stall):
        return Delivery(whole=False, message=f"the transfer was cut: the device took nothing for {stall:g} s")
    await asyncio.wait({ending}, timeout=farewell)
    if not ending.done():
        return Delivery(whole=True, message="the device has been sent everything, but did not say that it is content")
    if ending.result() is End.BROKEN:
        return Delivery(whole=False, message="the transfer was cut at its end: the device broke it off")
    return Delivery(whole=True, message="the device has everything")


async def _arrived(stream: TlsStream, ending: asyncio.Task[End], stall: float) -> bool:
    """Waits until all that was sent has arrived, or the device ends it; False where nothing more moves."""
    clock = asyncio.get_running_loop().time
    left, since = stream.unsent(), clock()
    while left and not ending.done():
        await asyncio.wait({ending}, timeout=min(stall, _GLANCE))
        if (now := stream.unsent()) < left:
            left, since = now, clock()
        elif clock() - since >= stall:
            return False
    return True
