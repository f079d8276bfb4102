"""The fence: nothing is sent once the lease behind it is over.

`lease` is one, `transport` asks it before every request, and the sockets made here ask it again as the last thing
before the system call: a process can be stopped between any two instructions and continued minutes later, and what it
had checked further up is worth nothing then.
"""

from __future__ import annotations

import signal
import socket
import struct
from collections.abc import Callable
from typing import Any, Protocol

from edgewright.runtime.errors import LeaseLost

# So long after the deadline a process that is in the middle of a send is ended: time for one that is merely slow, and
# less than a lease leaves between its holder's deadline and a successor's start (five seconds by default).
_LATEST_SEND = 0.1


class Fence(Protocol):
    """Says how long this process may go on sending requests: the lease, where there is one."""

    def remaining(self) -> float:
        """Seconds until the deadline; zero or less when it has passed."""


def demand(fence: Fence) -> float:
    """The time left to send, or LeaseLost."""
    left = fence.remaining()
    if left <= 0:
        raise LeaseLost("the lease is not held any more: nothing is sent")
    return left


def make_socket(family: int, kind: int, protocol: int, *, fence: Fence | None) -> socket.socket:
    """A socket for a connection to the API server, fenced where there is a fence."""
    made: socket.socket
    if fence is None:
        made = socket.socket(family, kind, protocol)
    else:
        made = FencedSocket(family, kind, protocol, fence=fence)
        # Closed, it forgets what the network has not taken yet, instead of sending it whenever the network can.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    made.setblocking(False)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A peer that is gone without a word (a machine that lost power) is noticed within half a minute.
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 15), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made


class FencedSocket(socket.socket):
    """A socket that sends nothing after the deadline: the last thing that runs before the system call.

    A process can be stopped between any two instructions and continued minutes later. What it had checked further up is
    worth nothing then, so the check stands here too. Between it and the system call the kernel watches: a process that
    is stopped just there and continued after the deadline is ended by SIGALRM before its next instruction. (Not where
    the program uses that signal itself, and not after a suspend of the machine, in which this timer stands still:
    there the gap is a microsecond.)
    """

    def __init__(self, family: int, kind: int, protocol: int, *, fence: Fence) -> None:
        super().__init__(family, kind, protocol)
        self._fence = fence
        self._watched = signal.getsignal(signal.SIGALRM) == signal.SIG_DFL

    def send(self, *args: Any) -> int:
        """Sends, unless the deadline has passed."""
        return self._before_deadline(super().send, *args)

    def sendmsg(self, *args: Any) -> int:
        """Sends, unless the deadline has passed."""
        return self._before_deadline(super().sendmsg, *args)

    def _before_deadline(self, send: Callable[..., int], *args: Any) -> int:
        if not self._watched:
            self._check()
            return send(*args)
        # Armed before the check: it may be late by a stop up to here, and then the check finds the deadline passed.
        signal.setitimer(signal.ITIMER_REAL, max(0.0, self._fence.remaining()) + _LATEST_SEND)
        try:
            self._check()
            return send(*args)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _check(self) -> None:
        if self._fence.remaining() <= 0:
            raise ConnectionAbortedError("the lease is over: nothing more is sent")
