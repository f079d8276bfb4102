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


class NetworkAddresses:
    """The addresses of one range, each Pod's chosen by its uid."""

    def __init__(self, first: int, places: int) -> None:
        self._first = first
        self._places = places
        self._by_uid: dict[str, str] = {}
        self._taken: set[str] = set()

    def give(self, uid: str) -> str:
        """The same address for the same Pod wherever it is free, else the next one."""
        known = self._by_uid.get(uid)
        if known is not None:
            return known
        place = int.from_bytes(hashlib.sha256(uid.encode()).digest()[:4], "big")
        for step in range(self._places):
            address = str(ipaddress.IPv4Address(self._first + (place + step) % self._places))
            if address not in self._taken:
                self.keep(uid, address)
                return address
        raise NoAddress(f"all {self._places} addresses of this node are in use")

    def keep(self, uid: str, address: str) -> None:
        """Counts an address as given."""
        self._by_uid[uid] = address
        self._taken.add(address)

    def free(self, uid: str) -> None:
        """Takes the address back."""
        address = self._by_uid.pop(uid, None)
        if address is not None:
            self._taken.discard(address)


class LoopbackAddresses(NetworkAddresses):
    """Loopback addresses out of a /16 of the node's own."""

    def __init__(self, node: str, *, network: int | None = None) -> None:
        digest = hashlib.sha256(node.encode()).digest()
        second = network if network is not None else _FIRST_NETWORK + digest[0] % _NETWORKS
        super().__init__(int(ipaddress.IPv4Address(f"127.{second}.0.0")) + 1, _PLACES)


class SubnetAddresses(NetworkAddresses):
    """The addresses of a network whose first one is the machine's own; which network that is may be said later."""

    def __init__(self) -> None:
        super().__init__(0, 0)

    def use(self, subnet: str) -> None:
        """Says which network it is."""
        network = ipaddress.IPv4Network(subnet)
        self._first, self._places = int(network[2]), network.num_addresses - 3
