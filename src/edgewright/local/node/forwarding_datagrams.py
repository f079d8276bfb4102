"""Forwards UDP datagrams: each peer gets a socket of its own to one who serves, and answers go back by it.

`forwarding` opens one for each UDP port of a Service. A peer that has been silent for a while is forgotten; who may
send and to whom it goes is decided by the caller. Datagrams are never held back: what cannot be sent is dropped.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any, Self

_Peer = tuple[str, int]


class DatagramListener(asyncio.DatagramProtocol):
    """One UDP address and port."""

    def __init__(
        self,
        *,
        route: Callable[[str], tuple[str, int] | None],
        peers: int,
        idle_seconds: float,
        count: Callable[[str], None],
    ) -> None:
        self._route = route
        self._limit = peers
        self._idle_seconds = idle_seconds
        self._count = count
        self._transport: asyncio.DatagramTransport | None = None
        self._peers: dict[_Peer, _Association] = {}

    @classmethod
    async def open(
        cls,
        address: tuple[str, int],
        *,
        route: Callable[[str], tuple[str, int] | None],
        peers: int,
        idle_seconds: float,
        count: Callable[[str], None],
    ) -> Self:
        """Listens; `route` says to whom datagrams from an address go, None drops them."""
        listener = cls(route=route, peers=peers, idle_seconds=idle_seconds, count=count)
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(lambda: listener, local_addr=address, family=socket.AF_INET)
        return listener

    def close(self) -> None:
        """Stops listening, and forgets every peer."""
        for association in list(self._peers.values()):
            association.close()
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is there."""
        self._transport = transport  # type: ignore[assignment]  # a datagram protocol gets a datagram transport

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        """Passes on what a peer sent."""
        association = self._peers.get(addr)
        if association is None:
            if len(self._peers) >= self._limit:
                self._count("too-many")
                return
            backend = self._route(addr[0])
            if backend is None:
                return
            self._count("forwarded")
            association = self._peers[addr] = _Association(self, addr, self._idle_seconds)
            association.opening = asyncio.create_task(association.open(backend))
        association.send(data)

    def answer(self, data: bytes, peer: _Peer) -> None:
        """Sends an answer to a peer, from the address that it knows."""
        if self._transport is not None:
            self._transport.sendto(data, peer)

    def forget(self, peer: _Peer) -> None:
        """The peer has been silent for too long."""
        self._peers.pop(peer, None)


class _Association(asyncio.DatagramProtocol):
    """The socket of one peer."""

    _WAITING = 16

    def __init__(self, listener: DatagramListener, peer: _Peer, idle_seconds: float) -> None:
        self._listener = listener
        self._peer = peer
        self._idle_seconds = idle_seconds
        self._transport: asyncio.DatagramTransport | None = None
        self._first: list[bytes] = []
        self._timer = asyncio.get_running_loop().call_later(idle_seconds, self.close)
        self.opening: asyncio.Task[None] | None = None

    async def open(self, backend: tuple[str, int]) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_datagram_endpoint(lambda: self, remote_addr=backend, family=socket.AF_INET)
        except OSError:
            self.close()

    def send(self, data: bytes) -> None:
        self._moved()
        if self._transport is not None:
            self._transport.sendto(data)
        elif len(self._first) < self._WAITING:
            self._first.append(data)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a datagram protocol gets a datagram transport
        for data in self._first:
            self.send(data)
        self._first.clear()

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:  # noqa: ARG002
        self._moved()
        self._listener.answer(data, self._peer)

    def error_received(self, exc: Exception) -> None:  # noqa: ARG002
        """Nobody listens there: the next datagram of the peer is routed again."""
        self.close()

    def close(self) -> None:
        self._timer.cancel()
        self._listener.forget(self._peer)
        if self.opening is not None:
            self.opening.cancel()
        if self._transport is not None:
            self._transport.close()

    def _moved(self) -> None:
        self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(self._idle_seconds, self.close)
