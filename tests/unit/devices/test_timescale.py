"""How fast time runs for devices."""

from __future__ import annotations

import pytest

from edgewright.devices.timescale import TIME_SCALE, time_scale


@pytest.mark.parametrize(("text", "scale"), [("", 1.0), (" ", 1.0), ("0.05", 0.05), ("2", 2.0)])
def test_it_is_read_from_the_environment(text: str, scale: float) -> None:
    assert time_scale({TIME_SCALE: text}) == scale


def test_nothing_said_is_real_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TIME_SCALE, raising=False)
    assert time_scale() == 1.0


@pytest.mark.parametrize("text", ["fast", "0", "-1", "nan", "inf"])
def test_what_is_no_scale_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=f"{TIME_SCALE} must be a number above 0"):
        time_scale({TIME_SCALE: text})
