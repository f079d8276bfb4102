"""Schedules in the five fields of cron: what is wrong with one, and when it is due next.

The rules of CronJobs read them to refuse bad ones, their controller to know the next time. Pure; times are given.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: Final[tuple[tuple[int, int, dict[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number + 1 for number, name in enumerate(_MONTHS)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_DESCRIPTORS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY: Final = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_YEARS: Final = 5


class BadSchedule(Exception):
    """A text is no schedule; the message says why."""


@dataclass(frozen=True)
class Schedule:
    """When something is due."""

    fields: tuple[frozenset[int], ...] = ()
    """The minutes, hours, days, months and days of the week at which it is due."""
    either: bool = False
    """Whether a day of the month or one of the week is enough: where both are named."""
    every: timedelta | None = None
    """For a schedule that is due again and again after the same time."""

    def after(self, moment: datetime, zone: tzinfo = UTC) -> datetime | None:
        """The first time after a moment, by the clocks of a time zone; None where there is none within five years."""
        if self.every is not None:
            return moment.replace(microsecond=0) + self.every
        local = moment.astimezone(zone).replace(second=0, microsecond=0, tzinfo=None) + timedelta(minutes=1)
        last = local.year + _YEARS
        minutes, hours, days, months, weekdays = self.fields
        while local.year <= last:
            by_day = local.day in days, local.isoweekday() % 7 in weekdays
            if local.month not in months:
                local = (local.replace(day=1, hour=0, minute=0) + timedelta(days=32)).replace(day=1)
            elif not (any(by_day) if self.either else all(by_day)):
                local = local.replace(hour=0, minute=0) + timedelta(days=1)
            elif local.hour not in hours:
                local = local.replace(minute=0) + timedelta(hours=1)
            elif local.minute not in minutes:
                local += timedelta(minutes=1)
            else:
                found = local.replace(tzinfo=zone).astimezone(UTC)
                # An hour that the clocks leave out does not happen; one that they repeat happens once.
                if found.astimezone(zone).replace(tzinfo=None) == local and found > moment:
                    return found
                local += timedelta(minutes=1)
        return None


def parse(text: str) -> Schedule:
    """The schedule that a text says."""
    if text.startswith(("TZ=", "CRON_TZ=")):
        text = text.partition(" ")[2].strip()  # whoever may not say a zone here refuses it
    if text.startswith("@every "):
        found = _EVERY.fullmatch(text.removeprefix("@every "))
        if found is None or not any(found.groups()):
            raise BadSchedule(f"failed to parse duration {text}: time: invalid duration")
        hours, minutes, seconds = (int(each or 0) for each in found.groups())
        return Schedule(every=max(timedelta(hours=hours, minutes=minutes, seconds=seconds), timedelta(seconds=1)))
    if text.startswith("@"):
        if text not in _DESCRIPTORS:
            raise BadSchedule(f"unrecognized descriptor: {text}")
        text = _DESCRIPTORS[text]
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise BadSchedule(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    read = [
        [_part(part, *limits) for part in field.split(",") if part]
        for field, limits in zip(fields, _FIELDS, strict=True)
    ]
    sets = tuple(frozenset[int]().union(*(values for values, _ in parts)) for parts in read)
    return Schedule(fields=sets, either=not any(star for _, star in (*read[2], *read[4])))


def _part(text: str, least: int, most: int, names: dict[str, int]) -> tuple[set[int], bool]:
    bounds, *steps = text.split("/")
    if len(steps) > 1:
        raise BadSchedule(f"too many slashes: {text}")
    low, *high = bounds.split("-")
    star = low in ("*", "?")
    if len(high) > 1:
        raise BadSchedule(f"too many hyphens: {text}")
    start = least if star else _number(low, names)
    end = most if star else _number(high[0], names) if high else start
    step = _number(steps[0], {}) if steps else 1
    if steps and not high and not star:
        end = most
    if start < least:
        raise BadSchedule(f"beginning of range ({start}) below minimum ({least}): {text}")
    if end > most:
        raise BadSchedule(f"end of range ({end}) above maximum ({most}): {text}")
    if start > end:
        raise BadSchedule(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if not step:
        raise BadSchedule(f"step of range should be a positive number: {text}")
    return set(range(start, end + 1, step)), star and step == 1


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not re.fullmatch("[+-]?[0-9]+", text):
        raise BadSchedule(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    if text.startswith("-"):
        raise BadSchedule(f"negative number ({text}) not allowed: {text}")
    return int(text)
