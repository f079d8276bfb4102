"""Gives out the addresses and node ports of Services, each to one Service only.

Giving out begins at a place drawn by lot, as in Kubernetes: two servers on one machine must not give out the same,
since their nodes listen there. What is taken is read from the stored Services with each request. Between that and the
moment when a Service is stored others may ask, so what was given out is also remembered here: until it is seen stored,
is released, or is so old that the write it was for cannot be under way any more. Nothing here is kept over a restart,
and nothing needs to be.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from typing import TypeAlias

from edgewright.runtime.objects import RawObject

_MAX_WRITE = timedelta(minutes=1)

Draw: TypeAlias = Callable[[range], int]
"""Draws one number of a range, with which giving out begins."""


def by_lot(numbers: range) -> int:
    """Any of them; a range of IPv6 may have more than a sequence can."""
    return numbers.start + secrets.randbelow(numbers.stop - numbers.start)


class Taken(Exception):
    """What was asked for cannot be had; the message says why."""


class Reservations:
    """What was given out of one sort and may not be stored yet."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[str, datetime]] = {}

    def used(self, stored: Collection[str], now: datetime) -> set[str]:
        """All that is taken, by stored objects or by writes under way."""
        for value in [value for value, (_, since) in self._held.items() if value in stored or since + _MAX_WRITE < now]:
            del self._held[value]
        return {*stored, *self._held}

    def hold(self, value: str, owner: str, now: datetime) -> None:
        """Remembers what was given to an owner."""
        self._held[value] = (owner, now)

    def release(self, values: Iterable[str], owner: str) -> None:
        """Frees what this owner was given."""
        for value in values:
            if self._held.get(value, ("",))[0] == owner:
                del self._held[value]


class Addresses:
    """The addresses of Services, out of a range; the lowest are given only to those who ask for them by name."""

    def __init__(self, network: str, *, draw: Draw = min) -> None:
        self.network = ipaddress.ip_network(network)
        self.family = f"IPv{self.network.version}"
        self.reservations = Reservations()
        self._last = self.network.num_addresses - (2 if self.network.version == 4 else 1)
        self._first = min(_band(self._last, share=16, most=256) + 1, self._last)
        self._next = draw(range(self._first, self._last + 1))

    def check(self, wanted: str, used: Collection[str]) -> str:
        """The address that was asked for, or `Taken`."""
        address = ipaddress.ip_address(wanted)
        if address not in self.network:
            raise Taken("the provided network does not match the current range")
        if not 1 <= int(address) - int(self.network[0]) <= self._last:
            valid = f"The range of valid IPs is {self.network}"
            raise Taken(f"the provided IP ({wanted}) is not in the valid range. {valid}")
        if str(address) in used:
            raise Taken("provided IP is already allocated")
        return str(address)

    def choose(self, used: Collection[str]) -> str:
        """A free address, or `Taken` when there is none."""
        place = _free(self._next, self._first, 1, self._last, lambda number: str(self.network[number]) in used)
        self._next = place + 1
        return str(self.network[place])


class Ports:
    """The node ports of Services."""

    def __init__(self, ports: range, *, draw: Draw = min) -> None:
        self.ports = ports
        self.reservations = Reservations()
        self._first = min(ports[0] + _band(len(ports), share=32, most=128), ports[-1])
        self._next = draw(range(self._first, ports[-1] + 1))

    def check(self, wanted: int, used: Collection[str]) -> int:
        """The port that was asked for, or `Taken`."""
        if wanted not in self.ports:
            valid = f"The range of valid ports is {self.ports[0]}-{self.ports[-1]}"
            raise Taken(f"provided port is not in the valid range. {valid}")
        if str(wanted) in used:
            raise Taken("provided port is already allocated")
        return wanted

    def choose(self, used: Collection[str]) -> int:
        """A free port, or `Taken` when there is none."""
        port = _free(self._next, self._first, self.ports[0], self.ports[-1], lambda number: str(number) in used)
        self._next = port + 1
        return port


def _band(size: int, *, share: int, most: int) -> int:
    """How many of the lowest values are left to those who name one."""
    return min(max(16, size // share), most) if size > 16 else 0


def _free(start: int, first: int, lowest: int, last: int, taken: Callable[[int], bool]) -> int:
    """The first value that is free from `start` on, then from `first`, and in the end even of the lowest."""
    for low, high in ((start, last), (first, start - 1), (lowest, first - 1)):
        for number in range(low, min(high, last) + 1):
            if not taken(number):
                return number
    raise Taken("range is full")


def stored_addresses(services: Iterable[RawObject]) -> set[str]:
    """The addresses that Services have."""
    return {address for service in services for address in service["spec"].get("clusterIPs") or () if address != "None"}


def stored_ports(services: Iterable[RawObject]) -> set[str]:
    """The node ports that Services have."""
    return {str(port) for service in services for port in node_ports(service)}


def node_ports(service: RawObject) -> list[int]:
    """The node ports of one Service, with that for its health check."""
    found = [port["nodePort"] for port in service["spec"].get("ports") or () if port.get("nodePort")]
    health = service["spec"].get("healthCheckNodePort")
    return [*found, health] if health else found
