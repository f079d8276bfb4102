"""Values as kube-apiserver writes them into sentences: quoted strings, numbers and compact JSON.

`errors` and `schema` call it, so that messages equal the real server's. It never fails on a JSON value.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal
from typing import Any

_ESCAPES = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    "\\": r"\\",
    '"': r"\"",
}


def quote(text: str) -> str:
    """The text in double quotes, with whatever is not printable escaped."""
    return '"' + "".join(_escape(char) for char in text) + '"'


def _escape(char: str) -> str:
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char == " " or (char.isprintable() and not char.isspace()):
        return char
    code = ord(char)
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def number(value: float) -> str:
    """A number in a sentence, as Go's `%v` prints it: a float has an exponent from a million upwards.

    Whole numbers beyond 64 bits are floats.
    """
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return str(value)
    value = float(value)
    if math.isinf(value) or math.isnan(value):
        return {"inf": "+Inf", "-inf": "-Inf"}.get(repr(value), "NaN")
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    # The shortest digits that give the same number again, and where the point is in them.
    exact = Decimal(repr(value)).normalize()
    sign, digits, _ = exact.as_tuple()
    if -4 <= exact.adjusted() < 6:
        return format(exact, "f")
    whole, fraction = str(digits[0]), "".join(map(str, digits[1:]))
    return f"{'-' if sign else ''}{whole}{'.' if fraction else ''}{fraction}e{exact.adjusted():+03d}"


def json_number(value: float) -> str:
    """A number as Go writes it into JSON: an exponent only for very large and very small ones, and no `.0`."""
    if value == 0 or 1e-6 <= abs(value) < 1e21:
        return format(Decimal(repr(value)), "f").removesuffix(".0")
    mantissa, _, power = repr(float(value)).partition("e")
    return f"{mantissa}e{int(power):+d}"


def plain(value: Any) -> str:
    """A value in the middle of a sentence: a quoted string, a bare number, or compact JSON with sorted keys."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return number(value)
    return compact(value)


def compact(value: Any, *, in_order: bool = False) -> str:
    """Compact JSON with sorted keys, or with keys in their order as Go has those of a struct.

    `<`, `>` and `&` are escaped as they are in every body from Kubernetes.
    """
    text = json.dumps(value, sort_keys=not in_order, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text
