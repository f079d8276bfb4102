"""Spans of time as people say them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from edgewright.runtime.spans import ago, span


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (150, "2m30s"),
        (3600, "60m"),
        (7200, "2h"),
        (12000, "3h20m"),
        (90000, "25h"),
        (172800, "2d"),
        (-5, "0s"),
    ],
)
def test_a_span_is_said_as_kubectl_says_it(seconds: float, text: str) -> None:
    assert span(seconds) == text


def test_what_never_was_is_not_long_ago() -> None:
    now = datetime(2026, 11, 17, 12, tzinfo=UTC)
    assert ago(now - timedelta(seconds=5), now) == "5s"
    assert ago(None, now) == "<none>"
