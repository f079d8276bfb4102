"""Amounts as Kubernetes writes them (500m, 2Gi, 1e3), and versions in the sense of semantic versioning.

The functions of rules compare and add them. They are exact: no floating point is involved.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

_MAX_LENGTH = 1000
"""Longer texts are no numbers to anybody."""
_QUANTITY = re.compile(
    r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(?:([eE][+-]?\d+)|(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei))?", re.ASCII
)
_SUFFIXES = {
    **{suffix: Fraction(10) ** power for suffix, power in zip("num kMGTPE", range(-9, 21, 3), strict=True)},
    **{f"{suffix}i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}
_NUMBER = r"(?:0|[1-9]\d*)"
_IDENTIFIER = r"(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)"
_VERSION = re.compile(
    rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_IDENTIFIER}(?:\.{_IDENTIFIER})*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)


def amount(text: str) -> Fraction | None:
    """The amount that a quantity stands for; None if it is none. What is smaller than 1n is rounded up."""
    found = _QUANTITY.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if found is None:
        return None
    sign, digits, exponent, suffix = found.groups()
    if exponent and abs(int(exponent[1:])) > 1000:
        return None
    scale = Fraction(10) ** int(exponent[1:]) if exponent else _SUFFIXES.get(suffix, Fraction(1))
    nanos = Fraction(digits) * scale * 10**9
    rounded = Fraction(-(-nanos.numerator // nanos.denominator), 10**9)
    return -rounded if sign == "-" else rounded


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
