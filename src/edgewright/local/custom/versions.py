"""The order of API versions: v2 before v1, both before v1beta1, that before v1alpha1, and anything else after them.

Discovery puts the preferred version first with it, and a deprecated version names the one to use instead. Nothing here
knows what a version holds.
"""

from __future__ import annotations

import re

_VERSION = re.compile(r"v([1-9]\d*)(?:(alpha|beta)([1-9]\d*))?", re.ASCII)
_STAGES = {None: 0, "beta": 1, "alpha": 2}


def preference(version: str) -> tuple[int, int, int, int, str]:
    """Sorts versions from the most to the least preferred."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (1, 0, 0, 0, version)
    major, stage, minor = match.groups()
    return (0, _STAGES[stage], -int(major), -int(minor or 0), "")
