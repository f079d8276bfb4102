"""Where a device is found: an IP address or a host name, with a port where it is not the usual one.

The FlashJob controller and the drivers read endpoints with it, so that both mean the same by them. It resolves no name
and opens no connection.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

IPAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

USUAL_PORTS: Final = frozenset({80, 1337})
"""The ports that an endpoint without one means: of HTTP, by which ESP32 boards are asked, and of SMP over UDP."""

_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_HOST_NAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*\.?")
_NUMBER: Final = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")
_MAX_NAME: Final = 253
_LARGEST_PORT: Final = 65_535
_BROADCAST: Final = ipaddress.IPv4Address("255.255.255.255")
_ALL: Final = "stands for all addresses"
_MULTICAST: Final = "is a multicast address"
_ALL_HERE: Final = "is the broadcast address"
_LOOPBACK: Final = "is a loopback address"
_LINK_LOCAL: Final = "is a link-local address"
_METADATA: Final = "is a cloud's metadata service"
_TRANSLATED: Final = "leads through a translator to an address that it does not tell"
_ADVICE: Final = {
    _ALL: " and is the address of no device",
    _MULTICAST: ": a device has one of its own",
    _ALL_HERE: ": a device has one of its own",
    _LOOPBACK: ", which is the flash Pod itself: give the address of the device",
    _LINK_LOCAL: ", which flash Pods must not reach: give the device another",
    _METADATA: ", which flash Pods must not reach: give the address of the device",
    _TRANSLATED: ": give the device's own",
}
_METADATA_SERVICES: Final = frozenset(
    map(ipaddress.ip_address, ("100.100.100.200", "168.63.129.16", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254"))
)
"""Those of large clouds that are at no link-local address, where most are."""
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
_NAT64_LOCAL: Final = ipaddress.IPv6Network("64:ff9b:1::/48")
_LAST_HOLD_IPV4: Final = (
    _NAT64,
    ipaddress.IPv6Network("::/96"),
    ipaddress.IPv6Network("::ffff:0:0:0/96"),
)
"""Networks whose addresses are IPv4 addresses with something before them: NAT64, compatible and translated ones."""
_HERE: Final = frozenset({"localhost", "localhost.localdomain", "ip6-localhost", "ip6-loopback"})


class BadEndpoint(ValueError):
    """The text is no address of a device; the message says what is wrong with it."""


@dataclass(frozen=True)
class Endpoint:
    """The address of a device; a port of None means the usual one of its protocol."""

    host: str
    port: int | None = None

    @property
    def address(self) -> IPAddress | None:
        """The host as an IP address, as IPv4 also where it is written as IPv6; None where it is a name."""
        address = _address(self.host)
        return None if address is None else _plain(address)

    def __str__(self) -> str:
        """As people write it, with brackets around an IPv6 address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"


def parse_endpoint(text: str) -> Endpoint:
    """The endpoint that the text names; BadEndpoint where it names none. A leading `http://` is tolerated."""
    rest = text.strip()
    scheme, separator, after = rest.partition("://")
    if separator:
        if scheme.lower() not in {"http", "tcp", "udp"}:
            raise BadEndpoint(f"{text!r} is a URL: give an address, with a port where it is not the usual one")
        rest = after.removesuffix("/")
    if not rest:
        raise BadEndpoint("it is empty: give an IP address or a host name")
    host, port = _split(rest, text)
    if _address(host) is None:
        if ":" in host or not _HOST_NAME.fullmatch(host) or len(host) > _MAX_NAME:
            raise BadEndpoint(f"{text!r} is neither an IP address nor a host name")
        if all(_NUMBER.fullmatch(label) for label in host.rstrip(".").split(".")):
            # No top-level domain is a number: such a name is an address that was mistyped, or that the resolver reads
            # as one: 0x7f000001 is the loopback address to it.
            raise BadEndpoint(f"{text!r} looks like an IP address and is none")
    return Endpoint(host, port)


@lru_cache(maxsize=16_384)
def endpoint_problem(text: str, *, local: bool) -> str | None:
    """What keeps the text from being the endpoint of a device, in a sentence; None where nothing does."""
    try:
        return problem_with(parse_endpoint(text), local=local)
    except BadEndpoint as error:
        return str(error)


@lru_cache(maxsize=16_384)
def normalize_endpoint(text: str) -> str:
    """The endpoint in the one spelling that all its spellings have in common; empty where the text names none.

    It is for comparing, not for dialling: a usual port is left out whatever the protocol, which the two that are
    compared may not both tell. No two devices share a host and have usual ports of different protocols.
    """
    try:
        endpoint = parse_endpoint(text)
    except BadEndpoint:
        return ""
    host = str(endpoint.address or endpoint.host.casefold().rstrip("."))
    return str(Endpoint(host, None if endpoint.port in USUAL_PORTS else endpoint.port))


def problem_with(endpoint: Endpoint, *, local: bool) -> str | None:
    """Why no device may be there, in a sentence; None where one may.

    In a cluster, loopback and link-local addresses would mean the node, its metadata service or the flash Pod itself.
    `local`: devices may be on this machine.
    """
    address = endpoint.address
    if address is None:
        name = endpoint.host.lower().rstrip(".")
        here = not local and (name in _HERE or name.endswith(".localhost"))
        return f"{endpoint.host} is the flash Pod itself: give the address of the device" if here else None
    why = unfit(address, local=local)
    return f"{endpoint.host} {why}{_ADVICE[why]}" if why else None


def unfit(address: IPAddress, *, local: bool) -> str | None:
    """What makes it the address of no single machine on the network, in a few words; None where nothing does.

    An IPv6 address that carries an IPv4 address (mapped, NAT64, 6to4, Teredo) is as unfit as that one is.
    """
    if isinstance(address, ipaddress.IPv6Address) and address in _NAT64_LOCAL:
        return _TRANSLATED  # each network writes the IPv4 address where it likes in these
    found = (_unfit(each, local=local) for each in (address, *_carried(address)))
    return next((words for words in found if words), None)


def _unfit(address: IPAddress, *, local: bool) -> str | None:
    kinds = (
        (address.is_unspecified, _ALL),
        (address.is_multicast, _MULTICAST),
        (address == _BROADCAST, _ALL_HERE),
        (address.is_loopback and not local, _LOOPBACK),
        (address.is_link_local and not local, _LINK_LOCAL),
        (address in _METADATA_SERVICES and not local, _METADATA),
    )
    return next((words for holds, words in kinds if holds), None)


def _carried(address: IPAddress) -> list[ipaddress.IPv4Address]:
    """The IPv4 addresses that an IPv6 address leads to, by the forms that gateways and systems know."""
    if isinstance(address, ipaddress.IPv4Address) or address.is_unspecified or address.is_loopback:
        return []
    last = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    carried = [last] if any(address in network for network in _LAST_HOLD_IPV4) else []
    return [*carried, *filter(None, (address.ipv4_mapped, address.sixtofour, *(address.teredo or ())))]


def _plain(address: IPAddress) -> IPAddress:
    """The address itself; of an IPv4 address that is written as an IPv6 address, that."""
    return getattr(address, "ipv4_mapped", None) or address


def _split(rest: str, text: str) -> tuple[str, int | None]:
    """Host and port, which are told apart by the last colon, save in an IPv6 address without brackets."""
    if rest.startswith("["):
        host, bracket, after = rest[1:].partition("]")
        if not bracket or (after and not after.startswith(":")):
            raise BadEndpoint(f"{text!r}: after the ] of an IPv6 address comes nothing, or a colon and a port")
        if not isinstance(_address(host), ipaddress.IPv6Address):
            raise BadEndpoint(f"{text!r}: brackets stand around an IPv6 address only")
        return host, _port(after[1:], text) if after else None
    if rest.count(":") > 1:
        return rest, None
    host, colon, port = rest.partition(":")
    return host, _port(port, text) if colon else None


def _port(port: str, text: str) -> int:
    if not (port.isascii() and port.isdigit()) or not 0 < int(port) <= _LARGEST_PORT:
        raise BadEndpoint(f"{text!r}: the port must be a number from 1 to {_LARGEST_PORT}")
    return int(port)


def _address(host: str) -> IPAddress | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
