"""Versions in the sense of semantic versioning.

The functions of rules compare them. What they are the versions of is not known here.
"""

from __future__ import annotations

import re
from typing import Any

_MAX_LENGTH = 1000
"""Longer texts are no numbers to anybody."""
_NUMBER = r"(?:0|[1-9]\d*)"
_IDENTIFIER = r"(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_IDENTIFIER}(?:\.{_IDENTIFIER})*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)


def version(text: str, *, normalize: bool = False) -> str | None:
    """A version without what says how it was built; None if the text is none. Normalized, `v1` is taken for 1.0.0."""
    if normalize:
        parts = [re.sub(r"^0+(?=\d)", "", part) for part in text.removeprefix("v").split(".", 2)]
        if len(parts) < 3 and re.search(r"[+-]", parts[-1]):
            return None
        text = ".".join(parts + ["0"] * (3 - len(parts)))
    return text.partition("+")[0] if len(text) <= _MAX_LENGTH and _VERSION.fullmatch(text) else None


def order(version: str) -> tuple[Any, ...]:
    """What versions are ordered by: one before its release comes before it, and numbers in it come before words."""
    release, _, before = version.partition("-")
    parts = ((0, int(each), "") if each.isdigit() else (1, 0, each) for each in before.split("."))
    return (*map(int, release.split(".")), (0, *parts) if before else (1,))
