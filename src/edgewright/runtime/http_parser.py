"""Reads HTTP/1.1 answers out of bytes: heads, bodies by length, in chunks or until the end of the connection.

`http` feeds it with what the network brings, in pieces of any size. Pure: it calls back and does no I/O. Whatever is
not HTTP is a ValueError, and so is anything beyond the limits.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple

_MAX_HEAD = 64 << 10
_MAX_LINE = 4 << 10
_NO_BODY = {204, 304}


class Answer(NamedTuple):
    """A whole answer, or the head of one whose body follows. Names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class _State(Enum):
    HEAD = auto()
    BODY = auto()
    CHUNK_SIZE = auto()
    CHUNK = auto()
    CHUNK_END = auto()
    TRAILERS = auto()
    UNTIL_END = auto()


class AnswerParser:
    """One connection's answers, one after the other."""

    def __init__(
        self,
        on_head: Callable[[int, dict[str, str], bool], None],
        on_body: Callable[[bytes], None],
        on_end: Callable[[], None],
    ) -> None:
        """`on_head` gets status, headers and whether the connection stays open after this answer."""
        self._on_head = on_head
        self._on_body = on_body
        self._on_end = on_end
        self._state = _State.HEAD
        self._rest = b""
        self._left = 0

    def feed(self, data: bytes) -> None:
        """Takes the next bytes of the connection."""
        if self._rest:
            data, self._rest = self._rest + data, b""
        at = 0
        while at < len(data):
            step = self._step(data, at)
            if step is None:
                self._rest = data[at:]
                return
            at = step

    def end(self) -> None:
        """The connection has ended: fine between two answers and for a body that lasts until the end."""
        if self._state is _State.UNTIL_END:
            self._finish()
        elif self._state is not _State.HEAD or self._rest:
            raise ValueError("the connection ended in the middle of an answer")

    def _step(self, data: bytes, at: int) -> int | None:
        """Reads one thing at `at`; where the next one begins, or None when more bytes are needed."""
        match self._state:
            case _State.HEAD:
                return self._read_head(data, at)
            case _State.BODY | _State.CHUNK:
                return self._read_body(data, at)
            case _State.UNTIL_END:
                self._on_body(data[at:] if at else data)
                return len(data)
            case _:
                return self._read_line(data, at)

    def _read_head(self, data: bytes, at: int) -> int | None:
        stop = data.find(b"\r\n\r\n", at)
        if stop < 0:
            if len(data) - at > _MAX_HEAD:
                raise ValueError("its head is too long")
            return None
        first, *lines = data[at:stop].decode("latin-1").split("\r\n")
        version, status = _status_line(first)
        headers: dict[str, str] = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon or not name or name != name.strip():
                raise ValueError(f"{line[:80]!r} is not a header")
            headers[name.lower()] = value.strip()
        if status >= 200:  # an interim answer (100 Continue, say) announces nothing
            self._begin(status, headers, version)
        return stop + 4

    def _begin(self, status: int, headers: dict[str, str], version: str) -> None:
        keep_alive = version == "HTTP/1.1" and headers.get("connection", "").lower() != "close"
        length = headers.get("content-length")
        if status in _NO_BODY:
            self._state, self._left = _State.BODY, 0
        elif headers.get("transfer-encoding", "").lower() == "chunked":
            self._state = _State.CHUNK_SIZE
        elif length is not None:
            if not (length.isascii() and length.isdigit()):
                raise ValueError(f"{length[:80]!r} is not a length")
            self._state, self._left = _State.BODY, int(length)
        else:
            self._state, keep_alive = _State.UNTIL_END, False
        self._on_head(status, headers, keep_alive)
        if self._state is _State.BODY and self._left == 0:
            self._finish()

    def _read_body(self, data: bytes, at: int) -> int:
        stop = min(len(data), at + self._left)
        self._left -= stop - at
        self._on_body(data[at:stop])
        if self._left == 0:
            if self._state is _State.BODY:
                self._finish()
            else:
                self._state = _State.CHUNK_END
        return stop

    def _read_line(self, data: bytes, at: int) -> int | None:
        stop = data.find(b"\r\n", at)
        if stop < 0:
            if len(data) - at > _MAX_LINE:
                raise ValueError("a line between its chunks is too long")
            return None
        line = data[at:stop]
        if self._state is _State.CHUNK_END:
            if line:
                raise ValueError("a chunk is longer than it says")
            self._state = _State.CHUNK_SIZE
        elif self._state is _State.CHUNK_SIZE:
            size = line.split(b";", 1)[0].strip()
            if not size or size.strip(b"0123456789abcdefABCDEF"):
                raise ValueError(f"{line[:80]!r} is not the size of a chunk")
            self._left = int(size, 16)
            self._state = _State.CHUNK if self._left else _State.TRAILERS
        elif not line:
            self._finish()
        return stop + 2

    def _finish(self) -> None:
        self._state = _State.HEAD
        self._on_end()


def _status_line(line: str) -> tuple[str, int]:
    version, _, rest = line.partition(" ")
    code = rest[:3]
    if version not in {"HTTP/1.1", "HTTP/1.0"} or not (code.isascii() and code.isdigit() and len(code) == 3):
        raise ValueError(f"it begins with {line[:80]!r}")
    return version, int(code)
