"""The addresses of Pods: each has its own, and keeps it for life.

The node asks for one when it takes a Pod in and writes it down in the Pod's folder; `LoopbackAddresses` hands out those
of 127.0.0.0/8, which need no set-up on Linux. Forwarding and Services are not its business.
"""

from __future__ import annotations

import hashlib
import ipaddress
from typing import Protocol

_PLACES = 0xFFFE  # of a /16: without its first and its last address
_FIRST_NETWORK, _NETWORKS = 128, 64  # 127.128/16 … 127.191/16: Services and people use others


class NoAddress(Exception):
    """Every address is given out."""


class PodAddresses(Protocol):
    """Who hands out addresses."""

    def give(self, uid: str) -> str:
        """The address of a Pod: always the same until it is freed."""

    def keep(self, uid: str, address: str) -> None:
        """A Pod has this address already, from an earlier life of the node."""

    def free(self, uid: str) -> None:
        """The Pod is gone."""


class LoopbackAddresses:
    """Loopback addresses out of a /16 of the node's own."""

    def __init__(self, node: str, *, network: int | None = None) -> None:
        digest = hashlib.sha256(node.encode()).digest()
        second = network if network is not None else _FIRST_NETWORK + digest[0] % _NETWORKS
        self._first = int(ipaddress.IPv4Address(f"127.{second}.0.0")) + 1
        self._by_uid: dict[str, str] = {}
        self._taken: set[str] = set()

    def give(self, uid: str) -> str:
        """The same address for the same Pod wherever it is free, else the next one."""
        known = self._by_uid.get(uid)
        if known is not None:
            return known
        place = int.from_bytes(hashlib.sha256(uid.encode()).digest()[:4], "big")
        for step in range(_PLACES):
            address = str(ipaddress.IPv4Address(self._first + (place + step) % _PLACES))
            if address not in self._taken:
                self.keep(uid, address)
                return address
        raise NoAddress(f"all {_PLACES} addresses of this node are in use")

    def keep(self, uid: str, address: str) -> None:
        """Counts an address as given."""
        self._by_uid[uid] = address
        self._taken.add(address)

    def free(self, uid: str) -> None:
        """Takes the address back."""
        address = self._by_uid.pop(uid, None)
        if address is not None:
            self._taken.discard(address)
