"""Samples in the form that Prometheus' remote write takes, and the requests that wait on the disk until they are sent.

Pure but for the folder of `Waiting`, which `metrics` fills and empties. A request is one file, whole and in its order;
the oldest go where the retention says so, because a device that is offline for a month must not fill its disk.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from edgewright.agent.samples import Sample
from edgewright.runtime.files import write_whole

HEADERS: Final = {
    "Content-Type": "application/x-protobuf",
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
}
_LITERAL: Final = 1 << 16


def encoded(samples: Sequence[Sample], *, labels: Mapping[str, str], millis: int) -> bytes:
    """The body of a request: WriteRequest as protobuf, in snappy's block format."""
    return snappy(b"".join(_field(1, _series(each, labels, millis)) for each in samples))


def _series(sample: Sample, labels: Mapping[str, str], millis: int) -> bytes:
    named = {**sample.labels, **labels, "__name__": sample.name}
    pairs = b"".join(
        _field(1, _field(1, name.encode()) + _field(2, named[name].encode())) for name in sorted(named) if named[name]
    )
    moment = millis if sample.millis is None else sample.millis
    return pairs + _field(2, b"\x09" + struct.pack("<d", sample.value) + b"\x10" + _varint(moment & (1 << 64) - 1))


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def snappy(content: bytes) -> bytes:
    """Content in snappy's block format, all of it literal: every reader takes that, and it needs no library."""
    out = [_varint(len(content))]
    for at in range(0, len(content), _LITERAL):
        piece = content[at : at + _LITERAL]
        out += [b"\xf4", struct.pack("<H", len(piece) - 1), piece]
    return b"".join(out)


class Waiting:
    """The requests that wait to be sent, oldest first."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, body: bytes, *, now: datetime) -> None:
        """Appends a request."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        number = max((int(path.stem.partition("-")[0]) for path in self._paths()), default=0) + 1
        write_whole(self._folder / f"{number:012}-{int(now.timestamp())}.write", body)

    def first(self) -> tuple[str, bytes] | None:
        """The oldest request and its name; None where none waits."""
        for path in self._paths():
            return path.name, path.read_bytes()
        return None

    def done(self, name: str) -> None:
        """A request needs not be sent any more."""
        (self._folder / name).unlink(missing_ok=True)

    def retain(self, *, max_bytes: int, max_seconds: float, now: datetime) -> int:
        """Removes what is too old, and the oldest where there is too much; how many that were."""
        paths = list(self._paths())
        sizes = {path: path.stat().st_size for path in paths}
        total, removed = sum(sizes.values()), 0
        for path in paths:
            age = now.timestamp() - int(path.stem.partition("-")[2])
            if (max_bytes and total > max_bytes) or (max_seconds and age > max_seconds):
                path.unlink(missing_ok=True)
                total -= sizes[path]
                removed += 1
        return removed

    def _paths(self) -> Iterable[Path]:
        return sorted(self._folder.glob("[0-9]*-[0-9]*.write")) if self._folder.is_dir() else []
