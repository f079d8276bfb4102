"""Internet addresses and networks as Go reads them, for formats and for the functions of rules.

Both need them as values they can compare and ask about; nothing here touches a network.
"""

from __future__ import annotations

import ipaddress
import re

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_ZEROS = re.compile(r"(?<![0-9a-fA-F])0+(?=[0-9])")


def ip(text: str, *, leading_zeros: bool = False) -> Address | None:
    """The address that a text stands for; None if it is none. Zones are not taken."""
    if "%" in text:
        return None
    try:
        return ipaddress.ip_address(_ZEROS.sub("", text) if leading_zeros and ":" not in text else text)
    except ValueError:
        return None


def cidr(text: str, *, leading_zeros: bool = False) -> tuple[Address, Network] | None:
    """The address and the network that a text like 10.0.0.1/8 stands for; None if it is none."""
    host, slash, length = text.partition("/")
    address = ip(host, leading_zeros=leading_zeros)
    if address is None or not slash or not re.fullmatch(r"[0-9]{1,3}", length) or int(length) > address.max_prefixlen:
        return None
    return address, ipaddress.ip_network(f"{address}/{int(length)}", strict=False)


def is_mac(text: str) -> bool:
    """Whether a text is a hardware address of 6, 8 or 20 bytes."""
    for pair in (r"[0-9a-fA-F]{2}(?::[0-9a-fA-F]{2})*", r"[0-9a-fA-F]{2}(?:-[0-9a-fA-F]{2})*"):
        if re.fullmatch(pair, text):
            return len(text) in (17, 23, 59)
    return re.fullmatch(r"[0-9a-fA-F]{4}(?:\.[0-9a-fA-F]{4})*", text) is not None and len(text) in (14, 19, 49)


def is_link_local_multicast(address: Address) -> bool:
    """Whether an address is for everybody on the link."""
    if isinstance(address, ipaddress.IPv4Address):
        return address in ipaddress.IPv4Network("224.0.0.0/24")
    return address.is_multicast and address.packed[1] & 0x0F == 0x02


def is_global_unicast(address: Address) -> bool:
    """Whether an address is for one machine and not for the link only; private ones are."""
    if str(address) == "255.255.255.255":
        return False
    return not (address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local)
