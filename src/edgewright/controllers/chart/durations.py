"""Durations as Go writes them: 30s, 5m, 1h30m. `watches`, `policy` and the command line read them with it."""

from __future__ import annotations

import re
from typing import Final

_NUMBER: Final = r"(?:\d+\.?\d*|\.\d+)"
_UNIT: Final = r"(?:ns|us|µs|μs|ms|s|m|h)"
_WHOLE: Final = re.compile(rf"\+?(?:{_NUMBER}{_UNIT})+")
_PART: Final = re.compile(rf"({_NUMBER})({_UNIT})")
_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float | None:
    """A duration in seconds; None for none at all (empty, 0, 0s); ValueError where it is not one."""
    if not text or text == "0":
        return None
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text!r} is not a duration such as 30s, 5m or 1h")
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text)) or None
