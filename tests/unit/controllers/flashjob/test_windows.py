"""When windows are open: on plain days, on days on which clocks are put forward or back, and never."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.api.firmwarerollout import Window
from edgewright.controllers.flashjob.windows import is_open, next_opening, open_until, window_problem

HOUR = 3600


def at(text: str) -> datetime:
    """A moment of 2026, in UTC."""
    return datetime.fromisoformat(f"2026-{text}+00:00")


def window(cron: str, *, zone: str = "", seconds: int = HOUR) -> Window:
    """A window of an hour."""
    return Window(cron=cron, duration_seconds=seconds, time_zone=zone)


def test_without_windows_it_is_always_open() -> None:
    assert is_open((), at("03-01T12:00"))
    assert next_opening((), at("03-01T12:00")) is None


@pytest.mark.parametrize(
    ("cron", "zone", "now", "until", "opens"),
    [
        ("0 2 * * *", "", "06-01T01:59", None, "06-01T02:00"),
        ("0 2 * * *", "", "06-01T02:00", "06-01T03:00", "06-02T02:00"),
        ("0 2 * * *", "", "06-01T03:00", None, "06-02T02:00"),
        ("0 2 * * *", "Europe/Athens", "06-01T00:00", None, "06-01T23:00"),
        ("0 22 * * fri", "Europe/Athens", "06-05T19:30", "06-05T20:00", "06-12T19:00"),
        # 29 March: 03:30 is skipped in Athens, and it opens when it would have been.
        ("30 3 * * *", "Europe/Athens", "03-29T00:59", None, "03-29T01:30"),
        ("30 3 * * *", "Europe/Athens", "03-29T01:45", "03-29T02:30", "03-30T00:30"),
        # 25 October: 03:30 comes twice in Athens, and it opens the first time.
        ("30 3 * * *", "Europe/Athens", "10-25T00:29", None, "10-25T00:30"),
        ("30 3 * * *", "Europe/Athens", "10-25T01:30", None, "10-26T01:30"),
        # One that opens every hour opens in both.
        ("0 * * * *", "Europe/Athens", "10-25T00:00", "10-25T01:00", "10-25T01:00"),
        ("0 * * * *", "Europe/Athens", "10-25T01:00", "10-25T02:00", "10-25T02:00"),
    ],
)
def test_a_window_opens_by_the_clock_of_its_zone(cron: str, zone: str, now: str, until: str | None, opens: str) -> None:
    windows = (window(cron, zone=zone),)
    assert open_until(windows, at(now)) == (at(until) if until else None)
    assert is_open(windows, at(now)) is (until is not None)
    assert next_opening(windows, at(now)) == at(opens)


def test_of_several_windows_the_first_to_open_counts_and_the_last_to_close() -> None:
    windows = (window("0 4 * * *"), window("30 2 * * *"), window("0 2 * * *"))
    assert next_opening(windows, at("06-01T01:00")) == at("06-01T02:00")
    assert open_until(windows, at("06-01T02:45")) == at("06-01T03:30")


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        (window("0 2 * *"), "cron"),
        (window("@daily"), "cron"),
        (window("0 2 * * * 30"), "cron"),
        (window("61 2 * * *"), "cron"),
        (window("R 2 * * *"), "cron"),
        (window("H(0-9) 2 * * *"), "cron"),
        (window("0 2 * * *", zone="Mars/Olympus"), "timeZone"),
        (window("0 2 * * *", zone="../etc/passwd"), "timeZone"),
    ],
)
def test_a_window_that_cannot_be_read_names_its_field_and_is_never_open(bad: Window, field: str) -> None:
    problem = window_problem(bad)
    assert problem is not None
    assert problem.startswith(f"{field}: ")
    assert not is_open((bad,), at("06-01T02:00"))
    assert next_opening((bad,), at("06-01T02:00")) is None


def test_a_day_that_never_comes_never_opens_and_a_rare_one_does() -> None:
    assert next_opening((window("0 0 30 2 *"),), at("06-01T02:00")) is None
    assert not is_open((window("0 0 30 2 *"),), at("06-01T02:00"))
    assert next_opening((window("0 0 29 2 *"),), at("06-01T02:00")) == datetime(2028, 2, 29, tzinfo=UTC)


@given(
    zone=st.sampled_from(["Europe/Athens", "America/New_York", "Australia/Lord_Howe", "Antarctica/Troll", "UTC"]),
    day=st.sampled_from([at(day) for day in ("03-27T00:00", "03-07T00:00", "10-24T00:00", "04-04T00:00")]),
    minutes=st.integers(0, 3 * 24 * 60),
    hour=st.integers(0, 23),
    minute=st.integers(0, 59),
    seconds=st.integers(60, 200_000),
)
def test_it_opens_once_a_day_and_stays_open_for_its_time_also_when_clocks_change(
    zone: str, day: datetime, minutes: int, hour: int, minute: int, seconds: int
) -> None:
    now = day + timedelta(minutes=minutes)
    windows = (window(f"{minute} {hour} * * *", zone=zone, seconds=seconds),)
    days = (day + timedelta(days=number) for number in range(-5, 8))
    openings = [each.replace(hour=hour, minute=minute, tzinfo=ZoneInfo(zone)).astimezone(UTC) for each in sorted(days)]
    assert next_opening(windows, now) == min(each for each in openings if each > now)
    assert is_open(windows, now) is any(each <= now < each + timedelta(seconds=seconds) for each in openings)
