"""Quantities as Kubernetes writes them: `500m`, `1.5Gi`, `2e3`; their values and the form in which they are stored.

`values` reads them out of bodies and the rules of Pods compare them. Numbers are exact here, never floating point. What
the real server stores of a quantity is its canonical form, or the very text where a glance takes it for canonical.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction

PATTERN = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
_SHAPE = re.compile(r"([+-]?)0*([0-9]*)(?:(\.)([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)")
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_NAMES = {power: name for name, power in _BINARY.items()}
_DECIMAL_NAMES = {power: name for name, power in _DECIMAL.items()}
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]{1,9})")
_MAX_LENGTH = 256
"""Longer texts are no quantities here: nobody means so many digits."""
_LARGEST = 2**63 - 1
_FINEST = 10**9
_DIGITS = 18
"""With so many digits a number is looked at by a glance only."""
_FURTHEST = 400
"""Powers of ten beyond this, which nobody means, are read as this one: the real server does not come back from them."""


class QuantityError(ValueError):
    """A text is no quantity; the message is the one that kube-apiserver has."""


@dataclass(frozen=True)
class _Parts:
    """A quantity taken apart: its digits before and after the point, and the power of its suffix."""

    whole: str
    fraction: str
    family: str
    power: int
    negative: bool


def _parts(text: str) -> _Parts:
    found = _SHAPE.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if not text or found is None:
        raise QuantityError(f"quantities must match the regular expression '{PATTERN}'")
    sign, whole, _, fraction, suffix = found.groups()
    if suffix in _BINARY:
        family, power = "binary", 10 * _BINARY[suffix]
    elif suffix in _DECIMAL:
        family, power = "decimal", _DECIMAL[suffix]
    elif exponent := _EXPONENT.fullmatch(suffix):
        family, power = "exponent", max(-_FURTHEST, min(_FURTHEST, int(exponent[1])))
    else:
        raise QuantityError("unable to parse quantity's suffix")
    return _Parts(whole or "0", fraction or "", family, power, sign == "-")


def _amount(parts: _Parts) -> tuple[Fraction, str]:
    """The value, rounded up to what can be kept, and the family of suffixes that it is written with."""
    base = 2 if parts.family == "binary" else 10
    factor = Fraction(base**parts.power) if parts.power >= 0 else Fraction(1, base**-parts.power)
    amount = Fraction(int(parts.whole + parts.fraction), 10 ** len(parts.fraction)) * factor
    amount = Fraction(-(-amount * _FINEST // 1), _FINEST)
    family = parts.family
    if family == "binary":
        amount = min(amount, Fraction(_LARGEST))
        family = "decimal" if 0 < amount < 1 else "binary"
    return (-amount if parts.negative else amount), family


def value(text: str) -> Fraction:
    """What a quantity amounts to."""
    return _amount(_parts(text))[0]


def canonical(text: str) -> str:
    """The quantity as it is stored: with the largest suffix of its family that leaves it a whole number."""
    parts = _parts(text)
    return text if _seems_canonical(parts) else _written(*_amount(parts))


def _seems_canonical(parts: _Parts) -> bool:
    digits = parts.whole + parts.fraction
    if parts.family == "binary":
        few = len(parts.whole) + parts.power * 3 // 10 < 15
        return few and not parts.fraction and int(parts.whole) % 8 != 0
    scale = parts.power - len(parts.fraction)
    few = len(digits) <= _DIGITS and scale >= -9
    return few and scale % 3 == 0 and not digits.endswith("000") and not digits.startswith("0")


def rounded(text: str) -> str:
    """The quantity rounded up to thousandths, as the amounts of resources are."""
    amount, family = _amount(_parts(text))
    if (amount * 1000).denominator == 1:
        return text
    up = Fraction(-(-abs(amount) * 1000 // 1), 1000)
    return _written(-up if amount < 0 else up, family)


def _written(amount: Fraction, family: str) -> str:
    if amount == 0:
        return "0"
    if family == "binary" and abs(amount) >= 1024 and amount.denominator == 1:
        _, power = _without_factors(int(amount), 1024)
        power = min(power, 6)
        return f"{int(amount) // 1024**power}{_BINARY_NAMES.get(power, '')}"
    number, power = _without_factors(int(amount * _FINEST), 10)
    power -= 9
    while power % 3:
        number, power = number * 10, power - 1
    if family == "exponent":
        return f"{number}e{power}" if power else str(number)
    return f"{number}{_DECIMAL_NAMES.get(power, '')}"


def _without_factors(number: int, factor: int) -> tuple[int, int]:
    """The number divided by a factor as often as it goes, and how often that was."""
    times = 0
    while number % factor == 0:
        number, times = number // factor, times + 1
    return number, times
