"""Reads the values of built-in kinds from JSON as Go reads them into its types: checked, and in canonical form.

`go_structs` puts these together into whole objects. Each reader gives the value to store or raises `WrongValue` with
what Go would say; none of them sees a null.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from edgewright.local import quantities
from edgewright.local.go_format import json_number, quote

Reader = Callable[[Any], Any]
_TIME = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})(?:[.,](\d+))?(?:Z|([+-])(\d{2}):(\d{2}))", re.ASCII
)
_BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")


class WrongValue(Exception):
    """A value is not of its field's type; `found` is what it is, and is empty where `why` is the whole message."""

    def __init__(self, found: str, wanted: str = "", *, why: str = "") -> None:
        super().__init__(why or f"json: cannot unmarshal {found} into Go value of type {wanted}")
        self.found = found
        self.wanted = wanted
        self.why = why


def described(value: Any) -> str:
    """What Go calls a JSON value that it did not expect."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def string(value: Any) -> str:
    """A string."""
    if isinstance(value, str):
        return value
    raise WrongValue(described(value), "string")


def boolean(value: Any) -> bool:
    """True or false."""
    if isinstance(value, bool):
        return value
    raise WrongValue(described(value), "bool")


def integer(bits: int) -> Reader:
    """Reads whole numbers of so many bits."""
    low, high, wanted = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1, f"int{bits}"

    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise WrongValue(described(value), wanted)
        if isinstance(value, float) or not low <= value <= high:
            raise WrongValue(f"number {json_number(value)}", wanted)
        return value

    return read


def floating(value: Any) -> float:
    """A number, whole or not."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WrongValue(described(value), "float64")
    return value


def data(value: Any) -> str:
    """Bytes in base64; line breaks in it are read over."""
    text = string(value)
    plain = text.replace("\r", "").replace("\n", "")
    if not _BASE64.fullmatch(plain):
        good = re.match(r"[A-Za-z0-9+/\r\n]*", text)
        raise WrongValue("", why=f"illegal base64 data at input byte {good.end() if good else 0}")
    if len(plain) % 4:
        raise WrongValue("", why=f"illegal base64 data at input byte {len(text) - len(plain) % 4}")
    return base64.b64encode(base64.b64decode(plain)).decode()


def quantity(value: Any) -> str:
    """An amount of something, in its canonical form."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise WrongValue("", why=f"quantities must match the regular expression '{quantities.PATTERN}'")
    text = value if isinstance(value, str) else json_number(value)
    try:
        return quantities.canonical(text)
    except quantities.QuantityError as wrong:
        raise WrongValue("", why=str(wrong)) from None


def int_or_string(value: Any) -> int | str:
    """A number of 32 bits, or a name."""
    if isinstance(value, str):
        return value
    return int(integer(32)(value))


def time(value: Any) -> str | None:
    """A time to the second in UTC; the zero time is nothing."""
    moment = _moment(string(value), "2006-01-02T15:04:05Z07:00")
    return None if moment == _ZERO else moment.strftime("%Y-%m-%dT%H:%M:%SZ").rjust(20, "0")


def micro_time(value: Any) -> str | None:
    """A time to the microsecond in UTC; the zero time is nothing."""
    text = string(value)
    found = _TIME.fullmatch(text)
    if found and len(found[7] or "") != 6:
        raise _bad_time(text, "2006-01-02T15:04:05.000000Z07:00")
    moment = _moment(text, "2006-01-02T15:04:05.000000Z07:00")
    return None if moment == _ZERO else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ").rjust(27, "0")


_ZERO = datetime(1, 1, 1, tzinfo=UTC)


def _moment(text: str, layout: str) -> datetime:
    found = _TIME.fullmatch(text)
    if not found:
        raise _bad_time(text, layout)
    year, month, day, hour, minute, second, fraction, sign, hours, minutes = found.groups()
    try:
        offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
        zone = timezone(-offset if sign == "-" else offset)
        micros = int((fraction or "0").ljust(6, "0")[:6])
        local = datetime(int(year), int(month), int(day), int(hour), int(minute), int(second), micros, tzinfo=zone)
        return local.astimezone(UTC)
    except (ValueError, OverflowError):
        raise _bad_time(text, layout) from None


_LAYOUT = (
    ("2006", r"\d{4}"),
    ("-", "-"),
    ("01", r"\d{2}"),
    ("-", "-"),
    ("02", r"\d{2}"),
    ("T", "T"),
    ("15", r"\d{2}"),
    (":", ":"),
    ("04", r"\d{2}"),
    (":", ":"),
    ("05", r"\d{2}"),
)


def _bad_time(text: str, layout: str) -> WrongValue:
    rest, wanted = text, ""
    zone = r"Z|[+-]\d{2}:\d{2}"
    tail = (
        ((".000000", r"\.\d{6}"), ("Z07:00", zone))
        if ".000000" in layout
        else (("Z07:00", rf"(?:[.,]\d+)?(?:{zone})"),)
    )
    for part, pattern in (*_LAYOUT, *tail):
        found = re.match(pattern, rest, re.ASCII)
        if not found:
            wanted = part
            break
        rest = rest[found.end() :]
    what = f"parsing time {quote(text)}"
    if wanted:
        return WrongValue("", why=f"{what} as {quote(layout)}: cannot parse {quote(rest)} as {quote(wanted)}")
    return WrongValue("", why=f"{what}: extra text: {quote(rest)}" if rest else f"{what}: day out of range")


def anything(value: Any) -> Any:
    """A value that nobody looks into."""
    return value
