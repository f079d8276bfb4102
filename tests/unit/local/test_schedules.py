"""Schedules of CronJobs, as tables."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, datetime

import pytest

from edgewright.local import schedules

NEXT = [
    ("* * * * *", "2026-01-02T03:04:05", "2026-01-02T03:05:00"),
    ("*/15 * * * *", "2026-01-02T03:45:00", "2026-01-02T04:00:00"),
    ("30 2 * * *", "2026-01-02T03:04:05", "2026-01-03T02:30:00"),
    ("0 0 29 feb *", "2026-01-02T03:04:05", "2028-02-29T00:00:00"),
    ("0 12 * * mon-fri", "2026-01-02T13:00:00", "2026-01-05T12:00:00"),
    ("0 0 1 * sun", "2026-01-02T03:04:05", "2026-01-04T00:00:00"),
    ("@monthly", "2026-01-02T03:04:05", "2026-02-01T00:00:00"),
    ("@every 1h30m", "2026-01-02T03:04:05", "2026-01-02T04:34:05"),
    ("5,10-12 * ? * *", "2026-01-02T03:06:00", "2026-01-02T03:10:00"),
]


@pytest.mark.parametrize(("text", "moment", "wanted"), NEXT, ids=[each[0] for each in NEXT])
def test_a_schedule_knows_its_next_time(text: str, moment: str, wanted: str) -> None:
    found = schedules.parse(text).after(datetime.fromisoformat(moment).replace(tzinfo=UTC))
    assert found == datetime.fromisoformat(wanted).replace(tzinfo=UTC)


def test_a_day_that_never_comes_has_no_next_time() -> None:
    assert schedules.parse("0 0 31 2 *").after(datetime(2026, 1, 1, tzinfo=UTC)) is None


def test_times_are_those_of_the_zone_and_an_hour_that_is_left_out_does_not_happen() -> None:
    zone = zoneinfo.ZoneInfo("Europe/Berlin")
    at = schedules.parse("30 2 * * *").after(datetime(2026, 3, 28, 12, tzinfo=UTC), zone)
    assert at == datetime(2026, 3, 30, 0, 30, tzinfo=UTC)


BAD = {
    "": "expected exactly 5 fields, found 0: []",
    "* * * *": "expected exactly 5 fields, found 4: [* * * *]",
    "61 * * * *": "end of range (61) above maximum (59): 61",
    "5-1 * * * *": "beginning of range (5) beyond end of range (1): 5-1",
    "*/0 * * * *": "step of range should be a positive number: */0",
    "1-2-3 * * * *": "too many hyphens: 1-2-3",
    "1/2/3 * * * *": "too many slashes: 1/2/3",
    "0 0 0 * *": "beginning of range (0) below minimum (1): 0",
    "@never": "unrecognized descriptor: @never",
    "@every soon": "failed to parse duration @every soon: time: invalid duration",
}


@pytest.mark.parametrize("text", BAD)
def test_what_is_no_schedule_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(schedules.BadSchedule) as refused:
        schedules.parse(text)
    assert str(refused.value) == BAD[text]
