"""Durations are short, and a time is what Kubernetes takes for one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.local.tables import human_duration
from edgewright.local.tables.ages import age, moment, parse_time

NOW = datetime(2026, 11, 16, 3, 0, 0, tzinfo=UTC)
MINUTE, HOUR, DAY = 60, 3600, 86400
YEAR = 365 * DAY


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (-3, "<invalid>"),
        (-2, "<invalid>"),
        (-1.9, "0s"),
        (-1, "0s"),
        (0, "0s"),
        (0.9, "0s"),
        (1, "1s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (9 * MINUTE + 59, "9m59s"),
        (10 * MINUTE, "10m"),
        (10 * MINUTE + 59, "10m"),
        (179 * MINUTE + 59, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 59, "3h"),
        (7 * HOUR + 59 * MINUTE, "7h59m"),
        (8 * HOUR, "8h"),
        (47 * HOUR + 3599, "47h"),
        (48 * HOUR, "2d"),
        (49 * HOUR, "2d1h"),
        (8 * DAY - 1, "7d23h"),
        (8 * DAY, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR, "2y"),
        (2 * YEAR + DAY, "2y1d"),
        (8 * YEAR - 1, "7y364d"),
        (8 * YEAR, "8y"),
        (200 * YEAR, "200y"),
        (2000 * YEAR, "292y"),
    ],
)
def test_a_duration_is_written_in_two_or_three_figures(seconds: float, written: str) -> None:
    assert human_duration(timedelta(seconds=seconds)) == written


@given(st.timedeltas(min_value=timedelta(seconds=-1)))
def test_every_duration_fits_into_a_column(elapsed: timedelta) -> None:
    assert 2 <= len(human_duration(elapsed)) <= 6


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-11-16T03:00:00Z", NOW),
        ("2026-11-16T05:30:00+02:30", NOW),
        ("2026-11-15T22:00:00-05:00", NOW),
        ("2026-11-16T3:00:00Z", NOW),
        ("2026-11-16T03:00:00.25Z", NOW + timedelta(milliseconds=250)),
        ("2026-11-16T03:00:00,250000999Z", NOW + timedelta(milliseconds=250)),
    ],
)
def test_a_timestamp_names_a_moment(text: str, time: datetime) -> None:
    assert parse_time(text) == time


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2026-11-16",
        "2026-11-16t03:00:00z",
        "2026-11-16T03:00:00",
        "2026-02-30T00:00:00Z",
        "2026-11-16T24:00:00Z",
    ],
)
def test_what_is_no_timestamp_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_time(text)


@pytest.mark.parametrize("value", [None, "", 5, "nonsense", "0001-01-01T00:00:00Z"])
def test_a_field_without_a_time_has_an_unknown_age(value: object) -> None:
    assert moment(value) is None
    assert age(value, NOW) == "<unknown>"


def test_an_age_is_counted_up_to_the_moment_of_the_request() -> None:
    assert age("2026-11-16T02:00:00Z", NOW) == "60m"
