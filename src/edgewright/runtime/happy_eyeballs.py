"""Connects to the first of a name's addresses that answers, as RFC 8305 has it: one that is silent delays no other.

`http` dials with it, for the API server as for devices and registries. Addresses of both families take turns, each has
a short lead over the next, and the first that stands wins; the others are closed. It keeps no connection itself.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Iterable
from itertools import chain, zip_longest
from typing import Any, Final, TypeAlias

DELAY: Final = 0.25
"""Seconds that an address has before the next is tried next to it; what the RFC recommends."""

MakeSocket: TypeAlias = Callable[[int, int, int], socket.socket]
Place: TypeAlias = tuple[int, int, int, str, Any]
"""One address, as getaddrinfo tells it."""


def plain_socket(family: int, kind: int, protocol: int) -> socket.socket:
    """A socket as asyncio needs it."""
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)
    return made


async def dial(host: str, port: int, *, make_socket: MakeSocket = plain_socket) -> socket.socket:
    """A connected socket; OSError where no address of the host takes the connection."""
    loop = asyncio.get_running_loop()
    places = in_turns(await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    if not places:
        raise OSError(f"{host} has no address")
    if len(places) == 1:
        return await _attempt(places[0], make_socket)
    return await _race(places, make_socket)


def in_turns(places: Iterable[Place]) -> list[Place]:
    """The addresses in the order of the resolver, but with the families taking turns. Pure."""
    families: dict[int, list[Place]] = {}
    for place in places:
        families.setdefault(place[0], []).append(place)
    return [place for place in chain(*zip_longest(*families.values())) if place is not None]


async def _race(places: Iterable[Place], make_socket: MakeSocket) -> socket.socket:
    waiting = deque(places)
    attempts: set[asyncio.Task[socket.socket]] = set()
    winner: socket.socket | None = None
    problem: BaseException | None = None
    try:
        while winner is None and (waiting or attempts):
            if waiting:
                attempts.add(asyncio.create_task(_attempt(waiting.popleft(), make_socket)))
            done, _ = await asyncio.wait(
                attempts, timeout=DELAY if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for each in done:
                error = each.exception()
                if error is None and winner is None:
                    winner = each.result()
                    attempts.discard(each)
                elif error is not None:
                    attempts.discard(each)
                    # That the other side refuses says more than that there is no way to it from here.
                    problem = error if problem is None or isinstance(error, ConnectionError) else problem
        if winner is None:
            raise problem or OSError("no address answers")
        return winner
    finally:
        for each in attempts:
            each.cancel()
        for late in await asyncio.gather(*attempts, return_exceptions=True):
            if isinstance(late, socket.socket):
                late.close()


async def _attempt(place: Place, make_socket: MakeSocket) -> socket.socket:
    family, kind, protocol, _, where = place
    sock = make_socket(family, kind, protocol)
    try:
        await asyncio.get_running_loop().sock_connect(sock, where)
    except BaseException:
        sock.close()
        raise
    return sock
