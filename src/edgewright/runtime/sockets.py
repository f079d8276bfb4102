"""Takes connections from a listening socket so that none is lost when the taking, or a handshake, is cut short.

The ports that shake hands under limits of their own (`gateway.listener`, `local.serving.listener`) accept by it.
asyncio's own way loses some: `sock_accept`, cancelled in the turn in which somebody came, forgets the connection, and
`connect_accepted_socket`, cancelled before the first turn of its TLS, goes on with it as nobody's, on a descriptor that
is somebody else's by then. So accepting can be cancelled at any time, and a handshake never is: `cut` ends it.
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any, Final

_AT_ONCE: Final = 32


async def accept(listening: socket.socket) -> list[tuple[socket.socket, Any]]:
    """Those who wait in line, one or some, each with its address as by `socket.accept`; OSError where none can be had.

    Some, because a turn of the loop is long where thousands are served: with one caller a turn a fleet that comes back
    would wait for minutes. Not all, because those who are inside would wait for as many handshakes.
    """
    await asyncio.sleep(0)  # those who are inside come first
    taken: list[tuple[socket.socket, Any]] = []
    while len(taken) < _AT_ONCE:
        try:
            caller, address = listening.accept()
        except BlockingIOError:
            if taken:
                break
            await readable(listening)
        except OSError:
            if not taken:
                raise
            break  # what lasts is met again by the next call
        else:
            caller.setblocking(False)
            taken.append((caller, address))
    return taken


async def readable(waited_for: socket.socket | int) -> None:
    """Waits until something is there to be read or accepted, which stays where it is; or until the end of a pipe."""
    loop, news = asyncio.get_running_loop(), asyncio.Event()
    descriptor = waited_for if isinstance(waited_for, int) else waited_for.fileno()
    loop.add_reader(descriptor, news.set)
    try:
        await news.wait()
    finally:
        loop.remove_reader(descriptor)


async def writable(descriptor: int) -> None:
    """Waits until something can be written."""
    loop, room = asyncio.get_running_loop(), asyncio.Event()
    loop.add_writer(descriptor, room.set)
    try:
        await room.wait()
    finally:
        loop.remove_writer(descriptor)


def cut(taken: socket.socket) -> None:
    """Ends a connection for both sides; whoever reads from it, such as a handshake, is told so and closes it."""
    with suppress(OSError):  # it is over already
        taken.shutdown(socket.SHUT_RDWR)


def abort(transport: asyncio.WriteTransport) -> None:
    """Ends a connection of asyncio at once, also one that is over already."""
    with suppress(AttributeError):  # Python 3.11.2, where TLS was closed twice
        transport.abort()
