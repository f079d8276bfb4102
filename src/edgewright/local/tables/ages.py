"""Times as tables show them: how long ago something was, in two or three figures.

The rows of built-in and custom kinds call it with the moment of the request. It never asks a clock.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

UNKNOWN = "<unknown>"
INVALID = "<invalid>"

_ZERO = datetime(1, 1, 1, tzinfo=UTC)
"""What stands for no time at all where a time must be written."""
_MAX_LENGTH = timedelta(microseconds=(2**63 - 1) // 1000)
"""Go counts durations in 64-bit nanoseconds: whatever is longer ago than 292 years was 292 years ago."""
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86400, 365 * 86400
_SCALE = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (48 * _HOUR, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
    (float("inf"), _YEAR, "y", 0, ""),
)
"""Below how many seconds, in which unit, and in which smaller one what is left over."""
_TIMESTAMP = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
    r"(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)


def human_duration(elapsed: timedelta) -> str:
    """A duration as people read it: `59s`, `3m20s`, `47h`, `3d4h`, `2y10d`; a second of the future is forgiven."""
    seconds = int(min(elapsed, _MAX_LENGTH).total_seconds())
    if seconds < -1:
        return INVALID
    seconds = max(seconds, 0)
    _, large, unit, small, small_unit = next(each for each in _SCALE if seconds < each[0])
    whole = f"{seconds // large}{unit}"
    rest = seconds % large // small if small else 0
    return f"{whole}{rest}{small_unit}" if rest else whole


def parse_time(text: str) -> datetime:
    """The moment that an RFC 3339 timestamp names, as Kubernetes takes it; ValueError for anything else."""
    match = _TIMESTAMP.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a timestamp")
    *parts, fraction, sign, zone_hours, zone_minutes = match.groups()
    zone = UTC
    if sign:
        offset = timedelta(hours=int(zone_hours), minutes=int(zone_minutes))
        zone = timezone(-offset if sign == "-" else offset)
    year, month, day, hour, minute, second = map(int, parts)
    micros = int((fraction or "0")[:6].ljust(6, "0"))
    return datetime(year, month, day, hour, minute, second, micros, tzinfo=zone)


def moment(value: object) -> datetime | None:
    """The moment in a field of an object; None where there is none, or the zero time that stands for none."""
    if not isinstance(value, str) or not value:
        return None
    try:
        time = parse_time(value)
    except ValueError:
        return None
    return None if time == _ZERO else time


def since(time: datetime | None, now: datetime) -> str:
    """How long ago a moment was, or that it is unknown."""
    return UNKNOWN if time is None else human_duration(now - time)


def age(value: object, now: datetime) -> str:
    """How long ago the time in a field of an object was, or that it is unknown."""
    return since(moment(value), now)
