"""YAML as Kubernetes reads it: the scalars of its Go library, not those of PyYAML.

Whatever of ours reads YAML that people or clients wrote loads it with `Loader`. PyYAML alone takes `12:30:45` for a
number in base 60, which changes data and takes quadratic time; here it is a text, and dates are texts too.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

import yaml

_BASE: type[yaml.SafeLoader | yaml.CSafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_PREFIX: Final = "tag:yaml.org,2002:"
_INTEGER: Final = re.compile(r"[-+]?(0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|0[0-7_]*|[1-9][0-9_]*)")
_FLOAT: Final = re.compile(
    r"[-+]?(\.[0-9]+|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9_]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"
)
_BOOLEANS: Final = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
_NULLS: Final = ("", "~", "null", "Null", "NULL")
# Python takes quadratic time for the digits of a number; a longer one has no 64 bits anyway.
_MAX_DIGITS: Final = 70


class Loader(_BASE):  # type: ignore[misc, valid-type]  # the C loader, where PyYAML has it
    """A safe loader with the scalars of Kubernetes; hand it to `yaml.load`."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}


def load(text: str | bytes) -> Any:
    """The one document of a text; `yaml.YAMLError` where there is none."""
    return yaml.load(text, Loader=Loader)  # noqa: S506 - a safe loader


def _texts(words: tuple[str, ...] | dict[str, bool]) -> re.Pattern[str]:
    return re.compile("^(?:" + "|".join(map(re.escape, words)) + ")$")


def _bool(loader: Any, node: yaml.ScalarNode) -> bool:
    text = loader.construct_scalar(node)
    if text not in _BOOLEANS:
        raise yaml.YAMLError(f"{text[:40]!r} is not a boolean")
    return _BOOLEANS[text]


def _number(loader: Any, node: yaml.ScalarNode) -> int | float | str:
    text: str = loader.construct_scalar(node)
    plain = text.replace("_", "")
    if _INTEGER.fullmatch(plain) and len(plain) <= _MAX_DIGITS:
        value = _integer(plain)
        if -(2**63) <= value < 2**64:
            return value
    if _FLOAT.fullmatch(plain):
        if plain.lower().lstrip("+-") in {".inf", ".nan"}:
            return float(plain.replace(".", "", 1))
        if math.isfinite(number := float(plain)):
            return number
        return text  # too large for 64 bits: Go takes it for a text
    if node.tag in {f"{_PREFIX}int", f"{_PREFIX}float"} and not _INTEGER.fullmatch(plain):
        raise yaml.YAMLError(f"{text[:40]!r} is not a number")
    return text


def _integer(plain: str) -> int:
    sign, digits = (-1, plain[1:]) if plain[0] == "-" else (1, plain.lstrip("+"))
    for prefix, base in (("0x", 16), ("0b", 2), ("0o", 8)):
        if digits.lower().startswith(prefix):
            return sign * int(digits[2:] or "0", base)
    return sign * int(digits, 8 if digits.startswith("0") and len(digits) > 1 else 10)


for _tag, _pattern, _first in (
    ("bool", _texts(_BOOLEANS), "yYnNtTfFoO"),
    ("int", re.compile(f"^(?:{_INTEGER.pattern})$"), "-+0123456789"),
    ("float", re.compile(f"^(?:{_FLOAT.pattern})$"), "-+0123456789."),
    ("null", _texts(_NULLS), ["~", "n", "N", ""]),
    ("merge", re.compile("^(?:<<)$"), "<"),
):
    Loader.add_implicit_resolver(f"{_PREFIX}{_tag}", _pattern, list(_first))
Loader.add_constructor(f"{_PREFIX}bool", _bool)
Loader.add_constructor(f"{_PREFIX}int", _number)
Loader.add_constructor(f"{_PREFIX}float", _number)
for _tag in ("timestamp", "binary"):
    Loader.add_constructor(f"{_PREFIX}{_tag}", lambda loader, node: loader.construct_scalar(node))
