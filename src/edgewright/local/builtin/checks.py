"""Checks of single values that several built-in kinds share, each giving the causes that kube-apiserver gives.

The modules of the kinds call them with the path of the field. Nothing here knows a kind.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import Any

from edgewright.local import names
from edgewright.local.field_errors import invalid, required, too_long, unsupported
from edgewright.local.go_format import quote
from edgewright.local.selectors import label_key_faults, label_value_faults
from edgewright.runtime.errors import Cause

PROTOCOLS = ("SCTP", "TCP", "UDP")
LARGEST_ANNOTATIONS = 256 * 1024
PORT_RULE = "must be between 1 and 65535, inclusive"
_KEY = "[-._a-zA-Z0-9]+"
_KEY_PATTERN = re.compile(_KEY)
_PORT_NAME = re.compile("[-a-z0-9]+")


def immutable(path: str, new: Any, old: Any) -> list[Cause]:
    """A field that may never change again."""
    return [] if new == old else [invalid(path, new, "field is immutable")]


def not_found(path: str, value: str) -> Cause:
    """A field names something that is not there."""
    return Cause("FieldValueNotFound", f"Not found: {quote(value)}", path)


def label(path: str, value: str) -> list[Cause]:
    """A DNS label."""
    return [invalid(path, value, why) for why in names.label(value)]


def subdomain(path: str, value: str) -> list[Cause]:
    """A DNS subdomain."""
    return [invalid(path, value, why) for why in names.subdomain(value)]


def qualified_name(path: str, value: str) -> list[Cause]:
    """A name with an optional DNS subdomain and a slash before it, as a label's key."""
    return [invalid(path, value, why) for why in label_key_faults(value)]


def labels(path: str, values: dict[str, str]) -> list[Cause]:
    """A map of labels."""
    causes = []
    for key, value in values.items():
        causes += [invalid(path, key, why) for why in label_key_faults(key)]
        causes += [invalid(path, value, why) for why in label_value_faults(value)]
    return causes


def notes(path: str, values: dict[str, str]) -> list[Cause]:
    """A map of annotations: keys as those of labels, in any case, and not too much in all."""
    causes = [invalid(path, key, why) for key in values for why in label_key_faults(key.lower())]
    if sum(len(key.encode()) + len(value.encode()) for key, value in values.items()) > LARGEST_ANNOTATIONS:
        causes.append(too_long(path, LARGEST_ANNOTATIONS))
    return causes


def data_key(path: str, key: str) -> list[Cause]:
    """A key in the data of a ConfigMap or Secret, at the path of the map."""
    return [invalid(f"{path}[{key}]", key, why) for why in data_key_faults(key)]


def data_key_faults(key: str) -> list[str]:
    """What is wrong with a key of a ConfigMap or Secret."""
    faults = []
    if len(key.encode("utf-8", "surrogatepass")) > names.MAX_SUBDOMAIN:
        faults.append(f"must be no more than {names.MAX_SUBDOMAIN} bytes")
    if not _KEY_PATTERN.fullmatch(key):
        faults.append(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
            f"'KEY_NAME',  or 'key-name', regex used for validation is '{_KEY}')"
        )
    if key in (".", ".."):
        faults.append(f"must not be '{key}'")
    elif key.startswith(".."):
        faults.append("must not start with '..'")
    return faults


def port_number(path: str, port: int) -> list[Cause]:
    """The number of a port."""
    return [] if 1 <= port <= 65535 else [invalid(path, port, PORT_RULE)]


def port_name(path: str, name: str) -> list[Cause]:
    """The name of a port."""
    return [invalid(path, name, why) for why in port_name_faults(name)]


def port_name_faults(name: str) -> list[str]:
    """What is wrong with the name of a port, which is what the registry of services of the internet takes."""
    faults = []
    if len(name.encode("utf-8", "surrogatepass")) > 15:
        faults.append("must be no more than 15 characters")
    if not _PORT_NAME.fullmatch(name):
        faults.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", name):
        faults.append("must contain at least one letter (a-z)")
    if "--" in name:
        faults.append("must not contain consecutive hyphens")
    if name and (name[0] == "-" or name[-1] == "-"):
        faults.append("must not begin or end with a hyphen")
    return faults


def port(path: str, value: int | str) -> list[Cause]:
    """A port by its number or its name."""
    return port_number(path, value) if isinstance(value, int) else port_name(path, value)


def one_of(path: str, value: str, choices: Sequence[str]) -> list[Cause]:
    """A value out of a list; nothing is required."""
    if not value:
        return [required(path)]
    return [] if value in choices else [unsupported(path, value, choices)]


def supported(path: str, value: str, choices: Sequence[str]) -> list[Cause]:
    """A value out of a list; nothing is as wrong as any other value that is not in it."""
    return [] if value in choices else [unsupported(path, value, choices)]


def not_negative(path: str, value: int) -> list[Cause]:
    """A number that is zero or more."""
    return [] if value >= 0 else [invalid(path, value, "must be greater than or equal to 0")]


def address(value: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An IP address, if it is one; leading zeros are taken, as in all old fields."""
    if "." in value and ":" not in value:
        value = ".".join(part.lstrip("0") or "0" if part.isdecimal() else part for part in value.split("."))
    try:
        found = ipaddress.ip_address(value)
    except ValueError:
        return None
    return None if isinstance(found, ipaddress.IPv6Address) and found.scope_id else found


def ip(path: str, value: str) -> list[Cause]:
    """An IP address."""
    if address(value) is None:
        return [invalid(path, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")]
    return []


def reachable_ip(path: str, value: str, *, loopback: bool = False) -> list[Cause]:
    """An IP address that traffic may be sent to from elsewhere: none of the special ones, unless `loopback` is one."""
    found = address(value)
    if found is None:
        return ip(path, value)
    causes = []
    if found.is_unspecified:
        causes.append(invalid(path, value, "may not be unspecified (0.0.0.0 or ::)"))
    if found.is_loopback and not loopback:
        causes.append(invalid(path, value, "may not be in the loopback range (127.0.0.0/8, ::1/128)"))
    if found.is_link_local:
        causes.append(invalid(path, value, "may not be in the link-local range (169.254.0.0/16, fe80::/10)"))
    if found in _LOCAL_MULTICAST_4 or found in _LOCAL_MULTICAST_6:
        causes.append(invalid(path, value, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"))
    return causes


_LOCAL_MULTICAST_4, _LOCAL_MULTICAST_6 = ipaddress.ip_network("224.0.0.0/24"), ipaddress.ip_network("ff02::/16")
