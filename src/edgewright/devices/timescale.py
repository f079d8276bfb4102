"""How fast time runs for devices: simulated fleets live faster than boards do, and those that wait for them must too.

Drivers, the attestation client and simulated devices multiply their own waits by it; limits that people set (a job's
timeout) are never scaled. Pure but for reading one environment variable.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Final

TIME_SCALE: Final = "EDGEWRIGHT_TIME_SCALE"
"""The environment variable: 1 is real time, 0.1 makes everything ten times as fast."""


def time_scale(environment: Mapping[str, str] | None = None) -> float:
    """What the waits of the device world are multiplied by; ValueError where the variable is no such number."""
    text = (os.environ if environment is None else environment).get(TIME_SCALE, "").strip()
    if not text:
        return 1.0
    try:
        scale = float(text)
    except ValueError:
        scale = math.nan
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(f"{TIME_SCALE} must be a number above 0 (1 is real time), not {text!r}")
    return scale
