"""Durations as Go reads them."""

from __future__ import annotations

import pytest

from edgewright.controllers.chart.durations import seconds


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("30s", 30.0),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("1.s", 1.0),
        ("+1m", 60.0),
        ("250ms", 0.25),
        ("1s500us", 1.0005),
        ("1µs", 1e-6),
        ("0", None),
        ("0s", None),
        ("", None),
    ],
)
def test_a_duration_is_read_as_go_reads_it(text: str, found: float | None) -> None:
    assert seconds(text) == found


@pytest.mark.parametrize("text", ["soon", "5", "5 m", "m", ".s", "-5m", "1d"])
def test_what_is_no_duration_or_goes_back_in_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration such as 30s"):
        seconds(text)
