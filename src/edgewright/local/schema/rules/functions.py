"""The functions that Kubernetes adds to CEL: lists, patterns, quantities, versions, URLs, addresses and formats.

The environment of the rules declares them all. Values of Kubernetes' own types travel through the library as maps with
one key that names the type, which rules cannot tell from the real thing unless they look inside.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from edgewright.local import names, quantities
from edgewright.local.go_format import quote as quoted
from edgewright.local.schema import addresses, engine, formats, patterns
from edgewright.local.schema.engine import Overload
from edgewright.local.schema.rules import versions
from edgewright.local.schema.value_errors import is_int
from edgewright.local.selectors import label_key_faults, label_value_faults

_QUANTITY, _VERSION, _URL, _IP, _CIDR, _FORMAT = (
    f"@kubernetes.{name}" for name in ("Quantity", "Semver", "URL", "IP", "CIDR", "NamedFormat")
)
_NO_OVERLOAD = "No matching overloads found"


def _opened(value: Any, *types: str) -> Any:
    """What is inside of a value of one of the types."""
    if isinstance(value, dict) and len(value) == 1:
        ((type_, inner),) = value.items()
        if type_ in types:
            return inner
    raise ValueError(_NO_OVERLOAD)


def _quantity(text: str) -> dict[str, Any]:
    return {_QUANTITY: str(quantities.value(text))}  # QuantityError is a ValueError, in the real server's words


def _amount(value: Any) -> Fraction:
    return Fraction(value) if isinstance(value, int) else Fraction(_opened(value, _QUANTITY))


def _integer(value: Any) -> int:
    amount = _amount(value)
    if not _is_integer(amount):
        raise ValueError("cannot convert value to integer")
    return amount.numerator


def _is_integer(amount: Fraction) -> bool:
    return amount.denominator == 1 and abs(amount) < 2**63


def _sign(value: Any) -> int:
    amount = _amount(value)
    return int(amount > 0) - int(amount < 0)


def _semver(text: str, normalize: bool = False) -> dict[str, Any]:
    found = versions.version(text, normalize=normalize)
    if found is None:
        raise ValueError("No Major.Minor.Patch elements found" if text.count(".") < 2 else "Invalid character(s) found")
    return {_VERSION: found}


def _version(value: Any) -> tuple[Any, ...]:
    return versions.order(_opened(value, _VERSION))


def _compare(left: Any, right: Any) -> int:
    """Quantities and versions have an order of their own."""
    read: Callable[[Any], Any] = _version if _VERSION in left else _amount
    a, b = read(left), read(right)
    return int(a > b) - int(a < b)


def _url(text: str) -> dict[str, Any]:
    if not formats.has("uri", text):
        raise ValueError(
            f"URL parse error during conversion from string: parse {quoted(text)}: invalid URI for request"
        )
    return {_URL: text}


def _port(value: Any) -> str:
    found = re.search(r":(\d*)$", _host(value))
    return found[1] if found else ""


def _host(value: Any) -> str:
    return str(urlsplit(_opened(value, _URL)).netloc.rpartition("@")[2])


def _hostname(value: Any) -> str:
    host = re.sub(r":\d*$", "", _host(value))
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def _ip(text: str) -> dict[str, Any]:
    return {_IP: str(_address(text))}


def _address(text: str) -> addresses.Address:
    if "%" in text:
        raise ValueError(f"IP address {quoted(text)} with zone value is not allowed")
    found = addresses.ip(text)
    if found is None:
        why = f"ParseAddr({quoted(text)}): unable to parse IP"
        raise ValueError(f"IP Address {quoted(text)} parse error during conversion from string: {why}")
    if found.version == 6 and found.ipv4_mapped is not None:
        raise ValueError(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return found


def _given_ip(value: Any) -> addresses.Address:
    return _address(value if isinstance(value, str) else _opened(value, _IP))


def _cidr(text: str) -> dict[str, Any]:
    found = addresses.cidr(text)
    if found is None or not re.fullmatch(r".*/(?:0|[1-9]\d*)", text):
        what = "network address parse error during conversion from string: "
        raise ValueError(
            f"{what}{what}netip.ParsePrefix({quoted(text)}): no '/'" if "/" not in text else f"{what}{text}"
        )
    return {_CIDR: f"{found[0]}/{found[1].prefixlen}"}


def _given_cidr(value: Any) -> tuple[addresses.Address, addresses.Network]:
    found = addresses.cidr(_opened(_cidr(value) if isinstance(value, str) else value, _CIDR))
    if found is None:
        raise ValueError(_NO_OVERLOAD)
    return found


def _contains_cidr(value: Any, other: Any) -> bool:
    (_, outer), (_, inner) = _given_cidr(value), _given_cidr(other)
    return outer.version == inner.version and outer.prefixlen <= inner.prefixlen and outer.overlaps(inner)


def _can(parse: Callable[..., Any]) -> Callable[..., bool]:
    """Whether a text can be parsed."""

    def tried(*arguments: Any) -> bool:
        try:
            parse(*arguments)
        except ValueError:
            return False
        return True

    return tried


def _sum(values: list[Any]) -> Any:
    if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        raise ValueError(_NO_OVERLOAD)
    total: float = 0
    for value in values:
        total += value
        if isinstance(total, int) and not is_int(total):
            raise ValueError("integer overflow")
    return total


def _extreme(name: str, choose: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def chosen(values: list[Any]) -> Any:
        if not values:
            raise ValueError(f"{name} called on empty list")
        return choose(values)

    return chosen


def _index(values: list[Any], item: Any) -> int:
    return next((index for index, value in enumerate(values) if value == item), -1)


def _last_index(values: list[Any], item: Any) -> int:
    return next((index for index in reversed(range(len(values))) if values[index] == item), -1)


def _find(text: str, pattern: str) -> str:
    found = _find_all(text, pattern, 1)
    return found[0] if found else ""


def _find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    try:
        found = engine.find_all(text, patterns.without_groups(pattern))
    except engine.Failed as error:
        raise ValueError(f"Illegal regex: {error}") from None
    return found if most < 0 else found[:most]


def _simple(name: str, fault: str) -> Callable[[str], list[str]]:
    return lambda text: [] if formats.has(name, text) else [fault]


_FORMATS: dict[str, Callable[[str], list[str]]] = {
    "dns1123Label": names.label,
    "dns1123Subdomain": names.subdomain,
    "dns1035Label": names.label1035,
    "qualifiedName": label_key_faults,
    "dns1123LabelPrefix": lambda text: names.prefix("label", text),
    "dns1123SubdomainPrefix": lambda text: names.prefix("subdomain", text),
    "dns1035LabelPrefix": lambda text: names.prefix("label1035", text),
    "labelValue": label_value_faults,
    "uri": lambda text: [] if formats.has("uri", text) else [f"parse {quoted(text)}: invalid URI for request"],
    "uuid": _simple("uuid", "does not match the UUID format"),
    "byte": _simple("byte", "invalid base64"),
    "date": _simple("date", "invalid date"),
    "datetime": _simple("datetime", "invalid datetime"),
}


def _validate(format_: Any, text: str) -> list[list[str]]:
    """A list in a list, or none: the rewritten rule takes the first as an optional value."""
    wrong = _FORMATS[_opened(format_, _FORMAT)](text)
    return [wrong] if wrong else []


def _text(value: Any) -> str:
    """`string()` of Kubernetes' own types, of which addresses and networks have one."""
    return str(_opened(value, _IP, _CIDR))


def _own(name: str, result: str, call: Callable[..., Any], *more: str) -> Overload:
    """A function of a value of one of Kubernetes' types."""
    return Overload(name=name, parameters=("map", *more), result=result, call=call)


def _of_text(name: str, result: str, call: Callable[..., Any], *more: str) -> Overload:
    return Overload(name=name, parameters=("string", *more), result=result, call=call, member=False)


def _of_list(name: str, result: str, call: Callable[..., Any], *more: str) -> Overload:
    return Overload(name=name, parameters=("list", *more), result=result, call=call)


OVERLOADS: tuple[Overload, ...] = (
    _of_list("isSorted", "bool", lambda values: all(a <= b for a, b in pairwise(values))),
    _of_list("sum", "dyn", _sum),
    _of_list("min", "dyn", _extreme("min", min)),
    _of_list("max", "dyn", _extreme("max", max)),
    _of_list("indexOf", "int", _index, "dyn"),
    _of_list("lastIndexOf", "int", _last_index, "dyn"),
    Overload(name="find", parameters=("string", "string"), result="string", call=_find),
    Overload(name="findAll", parameters=("string", "string"), result="list", call=_find_all),
    Overload(name="findAll", parameters=("string", "string", "int"), result="list", call=_find_all),
    _of_text("quantity", "dyn", _quantity),
    _of_text("isQuantity", "bool", _can(_quantity)),
    Overload(name="sign", parameters=("map",), result="int", call=_sign, member=False),
    _own("isInteger", "bool", lambda value: _is_integer(_amount(value))),
    _own("asInteger", "int", _integer),
    _own("asApproximateFloat", "double", lambda value: float(_amount(value))),
    _own("add", "dyn", lambda value, other: {_QUANTITY: str(_amount(value) + _amount(other))}, "dyn"),
    _own("sub", "dyn", lambda value, other: {_QUANTITY: str(_amount(value) - _amount(other))}, "dyn"),
    _own("compareTo", "int", _compare, "map"),
    _own("isGreaterThan", "bool", lambda value, other: _compare(value, other) > 0, "map"),
    _own("isLessThan", "bool", lambda value, other: _compare(value, other) < 0, "map"),
    _of_text("semver", "dyn", _semver),
    _of_text("semver", "dyn", _semver, "bool"),
    _of_text("isSemver", "bool", _can(_semver)),
    _of_text("isSemver", "bool", _can(_semver), "bool"),
    _own("major", "int", lambda value: _version(value)[0]),
    _own("minor", "int", lambda value: _version(value)[1]),
    _own("patch", "int", lambda value: _version(value)[2]),
    _of_text("url", "dyn", _url),
    _of_text("isURL", "bool", _can(_url)),
    _own("getScheme", "string", lambda value: urlsplit(_opened(value, _URL)).scheme),
    _own("getHost", "string", _host),
    _own("getHostname", "string", _hostname),
    _own("getPort", "string", _port),
    _own(
        "getEscapedPath", "string", lambda value: quote(urlsplit(_opened(value, _URL)).path, safe="%/:@!$&'()*+,;=~-._")
    ),
    _own("getQuery", "map", lambda value: parse_qs(urlsplit(_opened(value, _URL)).query, keep_blank_values=True)),
    _of_text("ip", "dyn", _ip),
    _of_text("isIP", "bool", _can(_ip)),
    _of_text("ip.isCanonical", "bool", lambda text: str(_address(text)) == text),
    _own("family", "int", lambda value: _given_ip(value).version),
    _own("isUnspecified", "bool", lambda value: _given_ip(value).is_unspecified),
    _own("isLoopback", "bool", lambda value: _given_ip(value).is_loopback),
    _own("isLinkLocalMulticast", "bool", lambda value: addresses.is_link_local_multicast(_given_ip(value))),
    _own("isLinkLocalUnicast", "bool", lambda value: _given_ip(value).is_link_local),
    _own("isGlobalUnicast", "bool", lambda value: addresses.is_global_unicast(_given_ip(value))),
    _of_text("cidr", "dyn", _cidr),
    _of_text("isCIDR", "bool", _can(_cidr)),
    _own("containsIP", "bool", lambda value, other: _given_ip(other) in _given_cidr(value)[1], "dyn"),
    _own("containsCIDR", "bool", _contains_cidr, "dyn"),
    _own("ip", "dyn", lambda value: {_IP: str(_given_cidr(value)[0])}),
    _own("masked", "dyn", lambda value: {_CIDR: str(_given_cidr(value)[1])}),
    _own("prefixLength", "int", lambda value: _given_cidr(value)[1].prefixlen),
    Overload(name="string", parameters=("map",), result="string", call=_text, member=False),
    _own("validate", "list", _validate, "string"),
    _of_text("format.named", "list", lambda name: [{_FORMAT: name}] if name in _FORMATS else []),
    *(
        Overload(
            name=f"format.{name}", parameters=(), result="dyn", call=lambda name=name: {_FORMAT: name}, member=False
        )
        for name in _FORMATS
    ),
)
"""All functions, as the environment of the rules wants them."""
