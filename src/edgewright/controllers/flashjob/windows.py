"""When the windows of a rollout are open, and when the next one opens.

The admission of starts asks it, and the rollout controller, which shows the next opening. Pure. Openings are computed
on the wall clock of the window's time zone: an hour that is skipped opens as much later, one that comes twice opens at
its first time, unless the window opens in every hour.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from croniter import croniter
from croniter.croniter import CroniterBadDateError

from edgewright.api.firmwarerollout import Window

_FIELDS: Final = 5
_DAY: Final = timedelta(days=1)
_SHIFT: Final = timedelta(hours=3)
"""No clock is put forward or back by more."""
_YEARS: Final = 8
"""A window that does not open within so many years never does; 29 February may be eight years away."""
_RANDOM: Final = re.compile(r"(?i)(^|[\s,/-])[hr]([\s,/(]|$)")
"""What the library takes for a value of its own choice: it would be another one each time."""


def is_open(windows: Sequence[Window], now: datetime) -> bool:
    """Whether a device may be started now: there is no window at all, or one of them is open."""
    return not windows or open_until(windows, now) is not None


def open_until(windows: Iterable[Window], now: datetime) -> datetime | None:
    """Until when one of the windows that are open now is, None where none is; those that cannot be read never are."""
    minute = _minute(now)
    ends = (_last_opening(window, minute) + timedelta(seconds=window.duration_seconds) for window in _readable(windows))
    return max((end for end in ends if end > now), default=None)


def next_opening(windows: Iterable[Window], now: datetime) -> datetime | None:
    """When the next window opens, after this moment; None where none ever does."""
    minute = _minute(now)
    return min((opening for window in _readable(windows) if (opening := _next(window, minute))), default=None)


def window_problem(window: Window) -> str | None:
    """What is wrong with a window, as the field and what to do; None where it can be used."""
    return _problem(window.cron, window.time_zone)


@lru_cache(maxsize=1024)
def _problem(cron: str, zone: str) -> str | None:
    if len(cron.split()) != _FIELDS or _RANDOM.search(cron) or not croniter.is_valid(cron):
        return f"cron: {cron[:60]!r} is no cron expression: write minute, hour, day of month, month and day of week"
    try:
        ZoneInfo(zone or "UTC")
    except (ValueError, OSError, LookupError):
        return f"timeZone: {zone!r} is no time zone: name one as Europe/Athens"
    return None


def _readable(windows: Iterable[Window]) -> Iterator[Window]:
    return (window for window in windows if window_problem(window) is None and window.duration_seconds > 0)


def _minute(now: datetime) -> datetime:
    """The minute of a moment: openings are on whole minutes, and asked for far more often."""
    return now.astimezone(UTC).replace(second=0, microsecond=0)


def _zone(window: Window) -> ZoneInfo:
    return ZoneInfo(window.time_zone or "UTC")


def _slack(zone: ZoneInfo, now: datetime) -> timedelta:
    """How far the order of wall clock and time may differ around a moment."""
    offsets = {(now + part * _DAY).astimezone(zone).utcoffset() for part in (-1, 0, 1)}
    return _SHIFT if len(offsets) > 1 else timedelta()


def _moments(wall: datetime, window: Window, zone: ZoneInfo) -> Iterator[datetime]:
    """When a wall clock shows this."""
    first = wall.replace(tzinfo=zone, fold=0).astimezone(UTC)
    yield first
    if window.cron.split()[1].startswith("*"):
        second = wall.replace(tzinfo=zone, fold=1).astimezone(UTC)
        if second > first:  # an hour that is skipped has its two readings the other way round
            yield second


@lru_cache(maxsize=256)
def _last_opening(window: Window, now: datetime) -> datetime:
    """The latest opening that is not after this moment; long ago where there is none."""
    zone = _zone(window)
    wall, slack = now.astimezone(zone).replace(tzinfo=None), _slack(zone, now)
    found = datetime.min.replace(tzinfo=UTC)
    for opening in _walk(window, wall + slack + timedelta(microseconds=1), back=True):
        for moment in _moments(opening, window, zone):
            if found < moment <= now:
                found = moment
        if opening < wall - slack and found <= now and found.year > 1:
            break
        if not slack and found.year > 1:
            break
    return found


@lru_cache(maxsize=256)
def _next(window: Window, now: datetime) -> datetime | None:
    zone = _zone(window)
    wall = now.astimezone(zone).replace(tzinfo=None)
    found: datetime | None = None
    limit: datetime | None = None
    for opening in _walk(window, wall - _slack(zone, now)):
        for moment in _moments(opening, window, zone):
            if moment > now and (found is None or moment < found):
                found = moment
        if found is not None:
            # One that a skipped hour has put off may come after one that is later on the wall clock.
            limit = limit or opening + _slack(zone, found)
            if opening >= limit:
                break
    return found


def _walk(window: Window, start: datetime, *, back: bool = False) -> Iterator[datetime]:
    """The openings on the wall clock, from this one on."""
    steps = croniter(window.cron, start, ret_type=datetime, max_years_between_matches=_YEARS)
    while True:
        try:
            yield steps.get_prev() if back else steps.get_next()
        except CroniterBadDateError:
            return
