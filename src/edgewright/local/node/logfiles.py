"""Reads what the shim wrote: a container's log, from the end, from a time, or on and on while it runs.

The log server and the termination messages use it. A line in the file is `TIME STREAM F|P TEXT`; a text that was too
long for one line goes on in the next one (P). Nothing is written here.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

_CHUNK = 64 << 10


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """Which part of a log, and how: as `kubectl logs` asks."""

    tail: int | None = None
    since: str = ""
    """Lines from this time on, as the log writes it; such times compare as text."""
    timestamps: bool = False
    limit: int | None = None


@dataclass(frozen=True)
class Entry:
    """One line of the file."""

    time: str
    stream: str
    partial: bool
    text: bytes

    def shown(self, *, stamped: bool) -> bytes:
        """As a reader gets it."""
        stamp = f"{self.time} ".encode() if stamped else b""
        return stamp + self.text + (b"" if self.partial else b"\n")


def parse(line: bytes) -> Entry | None:
    """A line of the file; None for one that was cut off by the end of a disk."""
    time, _, rest = line.partition(b" ")
    stream, _, rest = rest.partition(b" ")
    tag, space, text = rest.partition(b" ")
    if not space or tag not in {b"F", b"P"}:
        return None
    return Entry(_in_utc(time.decode("ascii", "replace")), stream.decode("ascii", "replace"), tag == b"P", text)


def _in_utc(time: str) -> str:
    """A time as the shim writes it; podman writes the machine's own, with its distance from UTC."""
    if time.endswith("Z") or time[-6:-5] not in {"+", "-"}:
        return time
    whole, rest = time[:19], time[19:-6]
    if time[-5:] == "00:00":
        return f"{whole}{rest}Z"
    moment = datetime.fromisoformat(whole + time[-6:]).astimezone(UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}{rest}Z"


class LogReader:
    """Reads a log from its beginning on, over the moment in which it was turned over."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rest = b""
        self._file: int | None = None
        self._older = path.with_name(f"{path.name}.1")

    def __enter__(self) -> LogReader:
        """For `with`: closes at the end."""
        return self

    def __exit__(self, *_: object) -> None:
        """Closes the file."""
        self._close()

    def entries(self) -> Iterator[Entry]:
        """What has come since the last call; at first, everything that is kept."""
        if self._file is None:
            current = self._open(self._path)
            older = self._open(self._older)
            if older is not None:
                yield from self._drain(older)
                os.close(older)
                if current is not None and _inode(self._older) == os.fstat(current).st_ino:
                    os.close(current)  # it was turned over between the two: what was current is what we have read
                    current = self._open(self._path)
            self._file = current
            if current is None:
                return
        if self._file is not None:
            yield from self._drain(self._file)
        while self._file is not None and _inode(self._path) not in {None, os.fstat(self._file).st_ino}:
            yield from self._drain(self._file)  # the end of the file that was turned over
            self._close()
            self._file = self._open(self._path)
            if self._file is not None:
                yield from self._drain(self._file)

    def _drain(self, file: int) -> Iterator[Entry]:
        while data := os.read(file, _CHUNK):
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                entry = parse(line)
                if entry is not None:
                    yield entry

    def _open(self, path: Path) -> int | None:
        try:
            return os.open(path, os.O_RDONLY)
        except FileNotFoundError:
            return None

    def _close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def selected(entries: Iterator[Entry], wanted: Wanted) -> list[Entry]:
    """The entries that are asked for, of those that are there; the tail counts whole lines."""
    found = (entry for entry in entries if not wanted.since or entry.time >= wanted.since)
    if wanted.tail is None:
        return list(found)
    kept: deque[list[Entry]] = deque(maxlen=wanted.tail)
    line: list[Entry] = []
    for entry in found:
        line.append(entry)
        if not entry.partial:
            kept.append(line)
            line = []
    if line:
        kept.append(line)
    return [entry for each in kept for entry in each]


def shown(entries: list[Entry], *, timestamps: bool) -> Iterator[bytes]:
    """What a reader gets; a line that is continued has one time, at its beginning."""
    continued = False
    for entry in entries:
        yield entry.shown(stamped=timestamps and not continued)
        continued = entry.partial


def last_lines(path: Path, *, lines: int, limit: int) -> str:
    """The last lines of a log, and of these the last bytes."""
    with LogReader(path) as reader:
        text = b"".join(shown(selected(reader.entries(), Wanted(tail=lines)), timestamps=False))
    return text[-limit:].decode("utf-8", "replace")
