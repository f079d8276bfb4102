"""Which address a LoadBalancer Service gets: pure decisions over claims.

`services` asks for each Service, with what the others hold. Without addresses of its own the pool gives each Service a
loopback address that nobody else has. With addresses (`--addresses`) Services share them, as long as no connection
could be meant for two: the same port is given twice only to Services whose source ranges have nothing in common.
"""

from __future__ import annotations

import hashlib
import ipaddress
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from edgewright.runtime import Key

Network: TypeAlias = ipaddress.IPv4Network

LOOPBACK = "127.60.0.0/16"
"""Where loopback addresses of Services are from: none of the networks of Pods (127.128/16 and up) or ClusterIPs."""
ANYWHERE = ipaddress.IPv4Network("0.0.0.0/0")
"""The range of a Service that names none."""


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What a Service asks of an address."""

    key: Key
    ports: frozenset[tuple[str, int]]
    """Protocol and number of each."""
    ranges: tuple[Network, ...] = (ANYWHERE,)
    age: tuple[str, str] = ("", "")
    """When it was made, and its uid: of two that cannot share, the older one keeps what it has."""
    wanted: str = ""
    """The address that its user asks for."""
    held: str = ""
    """The address that it has."""

    def clashes(self, other: Claim) -> bool:
        """Whether a connection could be meant for both, if they had the same address."""
        return (
            self.key != other.key
            and not self.ports.isdisjoint(other.ports)
            and any(one.overlaps(two) for one in self.ranges for two in other.ranges)
        )


Holders: TypeAlias = Callable[[str], Iterable[Claim]]


class Pool:
    """The addresses that Services can have."""

    def __init__(self, addresses: Sequence[str] = (), *, loopback: str = LOOPBACK) -> None:
        self._addresses = tuple(str(ipaddress.IPv4Address(address)) for address in addresses)
        self._loopback = ipaddress.IPv4Network(loopback)

    def __contains__(self, address: object) -> bool:
        """Whether the pool can give this address."""
        if self._addresses:
            return address in self._addresses
        try:
            return ipaddress.IPv4Address(str(address)) in self._loopback
        except ValueError:
            return False

    def choose(self, claim: Claim, holders: Holders) -> str | None:
        """The address for a Service, by who holds which already; None where it has to wait.

        It keeps the one that it has, unless it must make way for an older Service or asks for another one.
        """
        return next((each for each in self._candidates(claim) if self._free(each, claim, holders(each))), None)

    def _candidates(self, claim: Claim) -> Iterable[str]:
        if claim.wanted in self:
            return (claim.wanted,)
        held = (claim.held,) if claim.held in self else ()
        return itertools.chain(held, self._addresses or self._own(claim))

    def _free(self, address: str, claim: Claim, holders: Iterable[Claim]) -> bool:
        others = [other for other in holders if other.key != claim.key]
        if address == claim.held:
            others = [other for other in others if other.age < claim.age]
        return not (any(map(claim.clashes, others)) if self._addresses else others)

    def _own(self, claim: Claim) -> Iterable[str]:
        """Loopback addresses, from one on that depends on the Service, so that it mostly gets the same one again."""
        size = self._loopback.num_addresses - 2
        start = int.from_bytes(hashlib.sha256(claim.age[1].encode()).digest()[:4], "big")
        first = int(self._loopback.network_address) + 1
        return (str(ipaddress.IPv4Address(first + (start + step) % size)) for step in range(size))


def ranges_of(texts: Sequence[str]) -> tuple[Network, ...]:
    """Source ranges as networks; those that are none (IPv6, say) admit nobody, and none at all admits all."""
    if not texts:
        return (ANYWHERE,)
    found = []
    for text in texts:
        try:
            found.append(ipaddress.IPv4Network(text.strip(), strict=False))
        except ValueError:
            continue
    return tuple(found)
