"""Patterns in the syntax that Kubernetes takes (RE2), matched by Python where the two agree.

Validation and the functions of rules call it. A pattern on which Python could take very long, or that it does not read
the same way, is given to the RE2 engine of the CEL library instead; without that library Python does its best.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable
from functools import lru_cache

from edgewright.local.schema import engine

_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\\x00-\\x7f",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\v\\f\\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_MAX_STEPS = 1_000_000
"""What Python may have to try at most, which takes it some milliseconds; beyond, time must grow with the text alone."""
_REPEATED_GROUP = re.compile(r"\)(?:[*+]|\{\d+(?:,\d*)?\})")
_REPEATED = re.compile(r"[*+?]|\{\d*,\d*\}")
_PART = re.compile(
    r"\\[pP]\{\^?\w+\}|\\[pP]\w|\\x\{[0-9A-Fa-f]+\}|\\Q.*?(?:\\E|$)|\\."  # what begins with a backslash
    r"|\[:\^?\w+:\]|\[\^?\]?"  # a named class, the beginning of a class with a ] that is its first member
    r"|\(\?[a-zA-Z-]*:|\(\?[a-zA-Z-]+\)|\(\?P?<\w+>|\(\?|[*+?}]\+|.",
    re.DOTALL,
)


def matches(pattern: str, text: str) -> bool:
    """Whether the pattern is found anywhere in the text; a pattern that is none matches nothing."""
    search = _python(pattern) if _steps(pattern, len(text)) <= _MAX_STEPS else _linear(pattern)
    if search is None:
        search = _python(pattern) or _linear(pattern)
    return search is not None and search(text)


def _steps(pattern: str, length: int) -> float:
    """How many ways there are to match a text of this length, at most: Python tries all before it gives up."""
    repeated, alternatives, nested = _choices(pattern)
    if nested or repeated + alternatives > 20:
        return math.inf
    # A search begins at every place; each repetition can end at every place, and each alternative can be taken or not.
    return float(max(length, 1) ** (repeated + 1) * 2**alternatives)


@lru_cache(maxsize=1024)
def _choices(pattern: str) -> tuple[int, int, bool]:
    """Repetitions and alternatives in a pattern, and whether a group is repeated: then nobody can count the ways."""
    return len(_REPEATED.findall(pattern)), pattern.count("|"), bool(_REPEATED_GROUP.search(pattern))


def compiled(pattern: str) -> re.Pattern[str] | None:
    """The pattern for Python, if Python can take it."""
    translated = _translated(pattern)
    if translated is None:
        return None
    try:
        with warnings.catch_warnings():
            # What Python warns of, such as `[a||b]`, it may read otherwise one day: RE2 is asked instead.
            warnings.simplefilter("error", FutureWarning)
            return re.compile(translated, re.ASCII)
    except (re.error, OverflowError, RecursionError, FutureWarning):
        return None


@lru_cache(maxsize=1024)
def without_groups(pattern: str) -> str:
    """The same pattern with groups that capture nothing, so that what is found is always the whole."""
    out: list[str] = []
    inside = False
    for part in _PART.findall(pattern):
        groups = not inside and (part == "(" or part.startswith(("(?P<", "(?<")))
        out.append("(?:" if groups else part)
        inside = part != "]" if inside else part.startswith("[") and not part.startswith("[:")
    return "".join(out)


@lru_cache(maxsize=1024)
def _python(pattern: str) -> Callable[[str], bool] | None:
    found = compiled(pattern)
    return None if found is None else lambda text: found.search(text) is not None


@lru_cache(maxsize=1024)
def _linear(pattern: str) -> Callable[[str], bool] | None:
    return None if engine.missing() else lambda text: engine.matches(text, pattern)


@lru_cache(maxsize=1024)
def _translated(pattern: str) -> str | None:
    """The pattern in Python's syntax, or None where the two differ too much."""
    out: list[str] = []
    inside = False  # of a character class
    for part in _PART.findall(pattern):
        translated = _in_class(part) if inside else _outside(part)
        if translated is None:
            return None
        out.append(translated)
        inside = part != "]" if inside else part.startswith("[") and not part.startswith("[:")
    return "".join(out)


def _outside(part: str) -> str | None:
    if part == "$":
        return "\\Z"
    if part.startswith("(?<"):
        return "(?P" + part[2:]
    if part.startswith("(?") and not part.startswith("(?P<"):
        # Flags change what the translation must be, of $ for one; what else begins so is no pattern to RE2.
        return part if part.endswith(":") and set(part[2:-1]) <= {"i", "s"} else None
    return None if part.startswith("[:") else _escape(part)


def _in_class(part: str) -> str | None:
    if part.startswith("[:"):
        return None if part[2] == "^" else _POSIX.get(part[2:-2])
    return part.replace("[", "\\[", 1) if part.startswith("[") else _escape(part)


def _escape(part: str) -> str | None:
    if part == "\\z":
        return "\\Z"
    if part.startswith(("\\p", "\\P", "\\C", "\\Q", "\\Z", "\\u", "\\U", "\\N")) or re.match(r"\\[1-9]", part):
        return None
    if part.startswith("\\x{"):
        return re.escape(chr(int(part[3:-1], 16))) if int(part[3:-1], 16) < 0x110000 else None
    if len(part) == 2 and part[1] == "+" and part[0] in "*+?}":
        return None  # possessive to Python, an error to RE2
    return part
