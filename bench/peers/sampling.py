"""Where a program spends its processor time, by looking at its stack every few milliseconds of it.

`flashing_operator --profile FILE` uses it: unlike cProfile it makes nothing slower, so small functions that are called
often do not look worse than they are. It never sees other threads.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

_EVERY = 0.002
_SHOWN = 70


@contextmanager
def sampled(target: Path) -> Iterator[None]:
    """Looks at the stack until the end, and then writes what was seen: functions by their own time and in all."""
    own: Counter[str] = Counter()
    all_: Counter[str] = Counter()

    def look(_: int, frame: FrameType | None) -> None:
        if frame is not None:
            own[_name(frame)] += 1
        names = set()
        while frame is not None:
            names.add(_name(frame))
            frame = frame.f_back
        all_.update(names)

    before = signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, _EVERY, _EVERY)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        total = sum(own.values()) or 1
        lines = [f"{total} looks"]
        for title, counts in (("own time", own), ("with what it calls", all_)):
            lines += [
                "",
                title,
                *(f"{100 * count / total:6.1f} %  {name}" for name, count in counts.most_common(_SHOWN)),
            ]
        target.write_text("\n".join(lines) + "\n")


def _name(frame: FrameType) -> str:
    code = frame.f_code
    return f"{'/'.join(Path(code.co_filename).parts[-2:])} {code.co_qualname}"
