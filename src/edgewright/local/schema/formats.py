"""The formats of strings that are checked, by name, and the values that some of them stand for.

Validation asks whether a text has the format that a schema names, and rules get times and durations from the parsers.
A format that is not known here is not checked, as on the real server.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from email.utils import parseaddr
from typing import Any

from edgewright.local.schema import addresses

_SHORT_NAME = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_HEX = "[0-9a-fA-F]"
_TIME_UNITS = (
    (("ns", "nano"), 1),
    (("us", "µs", "micro"), 10**3),
    (("ms", "milli"), 10**6),
    (("s", "sec"), 10**9),
    (("m", "min"), 60 * 10**9),
    (("h", "hr", "hour"), 3600 * 10**9),
    (("d", "day"), 24 * 3600 * 10**9),
    (("w", "wk", "week"), 7 * 24 * 3600 * 10**9),
)
_GO_UNITS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_MAX_DURATION = 256
"""Longer texts are no durations: their numbers are beyond 64 bits, or all zeros."""
_GO_DURATION = re.compile(r"[+-]?(?:0|(?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+)", re.ASCII)
_GO_PART = re.compile(r"(\d*(?:\.\d*)?)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_LOOSE_PART = re.compile(r"(\d+)\s*([A-Za-zµ]+)", re.ASCII)
_CARD = re.compile(
    r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11}",
    re.ASCII,
)
_COLOR_PART = r"\s*(?:0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*"
_HOST_LETTER = "a-zA-Z\u00aa-\U0010ffff"
_HOST_NAME = (
    rf"[0-9{_HOST_LETTER}](?:-?[0-9{_HOST_LETTER}]{{0,62}})?"
    rf"|(?:[0-9{_HOST_LETTER}](?:[0-9{_HOST_LETTER}-]{{0,61}}[0-9{_HOST_LETTER}])?\.)+[{_HOST_LETTER}]{{2,63}}"
)
_DATE_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})", re.ASCII)


def duration(text: str, *, loosely: bool = True) -> int | None:
    """The nanoseconds that a text stands for, in Go's notation or, loosely, in words; None if it is no duration."""
    if len(text) > _MAX_DURATION:
        return None
    if _GO_DURATION.fullmatch(text):
        total = sum(round(float(amount) * _GO_UNITS[unit]) for amount, unit in _GO_PART.findall(text))
        return -total if text.startswith("-") else total
    found, total = False, 0
    for amount, unit in _LOOSE_PART.findall(text) if loosely else ():
        for names, size in _TIME_UNITS:
            if unit.lower() in names or unit.lower().startswith(names[-1]):
                found, total = True, total + int(amount) * size
    return total if found else None


def timestamp(text: str) -> datetime | None:
    """The moment that a date-time stands for; None if it is none."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def day(text: str) -> datetime | None:
    """The beginning of the day that a date stands for; None if it is none."""
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text, re.ASCII):
        return None
    try:
        begin = date.fromisoformat(text)
    except ValueError:
        return None
    return datetime(begin.year, begin.month, begin.day, tzinfo=UTC)


def has(name: str, text: str) -> bool:
    """Whether the text has the format; the name must be one that is checked."""
    return _CHECKS[name.replace("-", "")](text)


def checked(name: str, type_: str) -> str:
    """The format if it is one that is checked for a type, else an empty one."""
    if type_ in ("", "string"):
        return name if name.replace("-", "") in _CHECKS else ""
    if type_ == "integer":
        return name if name in ("int32", "int64") else ""
    return name if type_ == "number" and name in ("float", "double") else ""


def _date_time(text: str) -> bool:
    begin, separator, rest = text.lower().partition("t")
    rest = rest.partition("t")[0]
    found = _DATE_TIME.fullmatch(rest)
    if len(text) < 4 or not separator or day(begin) is None or found is None:
        return False
    hour, minute, second = found.groups()
    return hour <= "23" and minute <= "59" and second <= "59"


def _hostname(text: str) -> bool:
    return (
        _compiled(_HOST_NAME).fullmatch(text) is not None
        and len(text.encode()) <= 255
        and all(len(part.encode()) <= 63 for part in text.split("."))
    )


def _email(text: str) -> bool:
    _, address = parseaddr(text)
    local, _, domain = address.rpartition("@")
    return bool(local and domain) and not re.search(r"\s", address)


def _uri(text: str) -> bool:
    """What Go takes for the target of a request: an absolute path or an absolute URL."""
    if not text or re.search(r"[\x00-\x1f\x7f]", text) or re.search(r"%(?![0-9a-fA-F]{2})", text):
        return False
    if text == "*" or text.startswith("/"):
        return True
    found = re.fullmatch(r"([a-zA-Z][a-zA-Z0-9+.-]*):(.*)", text, re.DOTALL)
    if not found:
        return False
    host = re.match(r"//([^/?]*)", found[2])
    return host is None or not re.search(r'[ <>"^`{}|\\]', host[1])


def _isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"[0-9]{9}X|[0-9]{10}", digits):
        return False
    return sum((place + 1) * (10 if digit == "X" else int(digit)) for place, digit in enumerate(digits)) % 11 == 0


def _isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"[0-9]{13}", digits):
        return False
    total = sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(digits[:12]))
    return int(digits[12]) == (10 - total % 10) % 10


def _card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if not _CARD.fullmatch(digits):
        return False
    doubled = (int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits)))
    return sum(each // 10 + each % 10 for each in doubled) % 10 == 0


def _all(pattern: str, *, limit: int | None = None) -> Callable[[str], bool]:
    return lambda text: (
        (limit is None or len(text) <= limit) and _compiled(pattern, re.ASCII).fullmatch(text) is not None
    )


@functools.cache
def _compiled(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """Patterns are compiled when they are first needed: it takes long, and few kinds name a format."""
    return re.compile(pattern, flags)


def _uuid(third: str, fourth: str) -> Callable[[str], bool]:
    return _all(f"{_HEX}{{8}}-?{_HEX}{{4}}-?{third}-?{fourth}-?{_HEX}{{12}}")


def _not_none(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    return lambda text: parse(text) is not None


_CHECKS: Mapping[str, Callable[[str], bool]] = {
    "bsonobjectid": _all(f"{_HEX}{{24}}"),
    "uri": _uri,
    "email": _email,
    "hostname": _hostname,
    "ipv4": lambda text: "." in text and addresses.ip(text, leading_zeros=True) is not None,
    "ipv6": lambda text: ":" in text and addresses.ip(text) is not None,
    "cidr": lambda text: addresses.cidr(text, leading_zeros=True) is not None,
    "mac": addresses.is_mac,
    "uuid": _uuid(f"{_HEX}{{4}}", f"{_HEX}{{4}}"),
    "uuid3": _uuid(f"3{_HEX}{{3}}", f"{_HEX}{{4}}"),
    "uuid4": _uuid(f"4{_HEX}{{3}}", f"[89abAB]{_HEX}{{3}}"),
    "uuid5": _uuid(f"5{_HEX}{{3}}", f"[89abAB]{_HEX}{{3}}"),
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "creditcard": _card,
    "ssn": lambda text: len(text) == 11 and re.fullmatch(r"\d{3}[- ]?\d{2}[- ]?\d{4}", text, re.ASCII) is not None,
    "hexcolor": _all(f"#?(?:{_HEX}{{3}}|{_HEX}{{6}})"),
    "rgbcolor": _all(rf"rgb\({_COLOR_PART},{_COLOR_PART},{_COLOR_PART}\)"),
    "byte": _all(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "password": lambda _text: True,
    "date": _not_none(day),
    "duration": _not_none(duration),
    "datetime": _date_time,
    "k8sshortname": _all(_SHORT_NAME, limit=63),
    "k8slongname": _all(rf"{_SHORT_NAME}(?:\.{_SHORT_NAME})*", limit=253),
}
