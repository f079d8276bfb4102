"""What is written where: data to standard output, everything else to standard error, colours to terminals only.

All client commands print through it. It knows nothing of clusters and asks nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, TextIO

GREEN, RED, YELLOW, CYAN, DIM, BOLD = 32, 31, 33, 36, 2, 1

WORDS: Final = {
    "Completed": GREEN,
    "Passed": GREEN,
    "Done": GREEN,
    "succeeded": GREEN,
    "already-current": GREEN,
    "Failed": RED,
    "Aborted": RED,
    "Recalled": RED,
    "Quarantined": RED,
    "Paused": YELLOW,
    "Waiting": YELLOW,
    "AwaitingApproval": YELLOW,
    "Soaking": CYAN,
    "Progressing": CYAN,
    "Running": CYAN,
    "Flashing": CYAN,
    "Planned": DIM,
    "Pending": DIM,
}
"""The colour of a word that tells a state; the word says the same without it."""


def is_terminal(stream: TextIO) -> bool:
    """Whether a person reads the stream as it is written."""
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def coloured(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the stream gets colours: a terminal, unless NO_COLOR is set; anything where CLICOLOR_FORCE is."""
    if environ.get("NO_COLOR"):
        return False
    if environ.get("CLICOLOR_FORCE", "0") != "0":
        return True
    return is_terminal(stream) and environ.get("TERM") != "dumb"


def paint(text: str, colour: int | None, *, on: bool) -> str:
    """The text in a colour, where there are any."""
    return f"\x1b[{colour}m{text}\x1b[0m" if on and colour is not None and text else text


def state(word: str, *, on: bool) -> str:
    """A word that tells a state, in its colour."""
    return paint(word, WORDS.get(word.strip()), on=on)


def width(stream: TextIO) -> int | None:
    """How many columns the stream has; None where it is no terminal, and nothing is cut."""
    return _size(stream).columns if is_terminal(stream) else None


def _size(stream: TextIO, environ: Mapping[str, str] = os.environ) -> os.terminal_size:
    """Columns and lines: as the environment says, else the terminal, else the usual ones."""
    try:
        # Not shutil's: it asks the stream that Python began with, which may be in another's hands by now.
        found = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        found = os.terminal_size((80, 24))
    said = [environ.get(name, "") for name in ("COLUMNS", "LINES")]
    columns, lines = (
        int(text) if text.isdecimal() and int(text) else given for text, given in zip(said, found, strict=True)
    )
    return os.terminal_size((columns or 80, lines or 24))


def unicode(stream: TextIO) -> bool:
    """Whether more than ASCII can be written there."""
    return (getattr(stream, "encoding", None) or "").lower().replace("-", "") == "utf8"


def say(sentence: str) -> None:
    """Tells a person something that is no data."""
    print(sentence, file=sys.stderr, flush=True)


def give(text: str) -> None:
    """Writes data, which ends with a line's end; where there is none, nothing: programs count lines."""
    if text:
        print(text, end="" if text.endswith("\n") else "\n", flush=True)


def stamp(now: datetime) -> str:
    """A moment as it stands before a line of a log."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def count(number: int, thing: str) -> str:
    """So many of a thing: 1 device, 2 devices."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def asks(question: str, *, yes: bool) -> bool:
    """Whether to go on: asks on a terminal, unless it was said already; where nobody can be asked, it goes on."""
    if yes or not is_terminal(sys.stdin) or not is_terminal(sys.stderr):
        return True
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


class Screen:
    """A picture on a terminal that is drawn again in its place; elsewhere nothing should be drawn."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._drawn = 0

    def draw(self, lines: list[str]) -> None:
        """Puts these lines in the place of the last ones; what does not fit is left out at the end."""
        rows = _size(self._stream).lines - 1
        kept = lines if len(lines) <= rows else [*lines[: rows - 1], f"… and {len(lines) - rows + 1} more lines"]
        back = f"\x1b[{self._drawn}A\r\x1b[J" if self._drawn else ""
        self._stream.write(back + "".join(f"{line}\n" for line in kept))
        self._stream.flush()
        self._drawn = len(kept)
