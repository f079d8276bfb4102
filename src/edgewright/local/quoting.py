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
    """A number the short way: an exponent only for very large and very small ones, and no `.0`."""
    if isinstance(value, int):
        return str(value)
    if math.isinf(value) or math.isnan(value):
        return {"inf": "+Inf", "-inf": "-Inf"}.get(repr(value), "NaN")
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    shortest = repr(value)
    if 1e-4 <= abs(value) < 1e21:
        return format(Decimal(shortest), "f").removesuffix(".0")
    mantissa, _, power = shortest.partition("e")
    return f"{mantissa}e{int(power):+03d}"


def plain(value: Any) -> str:
    """A value in the middle of a sentence: a quoted string, a bare number, or compact JSON with sorted keys."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return number(value)
    return compact(value)


def compact(value: Any) -> str:
    """Compact JSON with sorted keys; `<`, `>` and `&` are escaped as they are in every body from Kubernetes."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text
