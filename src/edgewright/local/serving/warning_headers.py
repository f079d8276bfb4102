"""What an answer warns of, as headers: each sentence once, and no more of them than a client can take.

`server` writes them. As in the real server sentences are cut, and the last ones left out, where all together are long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

_MAX_CHARACTERS: Final = 4096
_MAX_ONE: Final = 256
_MAX_COUNT: Final = 100
"""Of that many headers some clients take an answer, of more they take none."""


def headers(texts: Sequence[str]) -> list[str]:
    """The values of the Warning headers."""
    return [header(each) for each in _kept(texts)]


def header(text: str) -> str:
    """The value of a Warning header."""
    clean = "".join(each if each.isprintable() else " " for each in text)
    escaped = clean.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'


def _kept(texts: Sequence[str]) -> Iterator[str]:
    distinct = list(dict.fromkeys(text for text in texts if text))[:_MAX_COUNT]
    if sum(map(len, distinct)) <= _MAX_CHARACTERS:
        yield from distinct
        return
    written = 0
    for text in distinct:
        if written >= _MAX_CHARACTERS:
            return
        cut = text[:_MAX_ONE]
        written += len(cut)
        yield cut
