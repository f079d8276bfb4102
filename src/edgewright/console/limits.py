"""How much one caller, and all together, may take: requests per second and open streams.

`server` asks before it does any work. Callers are told apart by a digest of their token, so that no token is kept
here; only so many callers are remembered.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from edgewright.console.problems import Refusal
from edgewright.runtime.clock import Clock

_REMEMBERED: Final = 4096


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The numbers; each is generous for a person or a portal and small for a runaway loop."""

    reads_per_second: float = 20.0
    writes_per_second: float = 5.0
    burst_seconds: float = 4.0
    """For so long may a caller have been quiet and make up for it at once."""
    streams_per_caller: int = 5
    streams: int = 500
    connections: int = 1024
    body_bytes: int = 1 << 20
    header_bytes: int = 32 << 10
    seconds: float = 60.0
    """How long a request may take that is no stream."""
    body_seconds: float = 20.0
    """How long a body may take to come."""
    write_seconds: float = 20.0
    """How long a client may take to read a part of a stream."""
    stream_seconds: float = 3600.0
    """How long a stream may last; the client comes again and misses nothing."""
    heartbeat: float = 15.0
    """After so many quiet seconds a stream sends a comment."""
    recheck: float = 30.0
    """How often a stream is asked for again as its caller: who lost the right sees no more after that."""
    cache_seconds: float = 5.0
    """How long a request waits for the shared cache to have what it needs; then it goes to the API server."""
    whole_kind_seconds: float = 30.0
    """The same for a request that needs all objects of a kind: to list them takes as long as the cache takes."""


class Rates:
    """A bucket per caller and sort of request, filled with time."""

    def __init__(self, limits: Limits, clock: Clock) -> None:
        """All buckets begin full."""
        self._limits = limits
        self._clock = clock
        self._buckets: OrderedDict[tuple[str, bool], tuple[float, float]] = OrderedDict()

    def take(self, caller: str, *, writes: bool) -> None:
        """Counts a request; a Refusal says when to come again."""
        rate = self._limits.writes_per_second if writes else self._limits.reads_per_second
        full = rate * self._limits.burst_seconds
        now = self._clock.elapsed()
        left, at = self._buckets.pop((caller, writes), (full, now))
        left = min(full, left + (now - at) * rate)
        allowed = left >= 1.0
        self._buckets[caller, writes] = (left - 1.0 if allowed else left), now
        while len(self._buckets) > _REMEMBERED:
            self._buckets.popitem(last=False)
        if not allowed:
            what = "writes" if writes else "reads"
            raise Refusal("too-many-requests", f"more than {rate:g} {what} per second", headers={"Retry-After": "1"})


class Streams:
    """How many streams are open, by caller."""

    def __init__(self, limits: Limits) -> None:
        """None is open."""
        self._limits = limits
        self._open: Counter[str] = Counter()

    @contextmanager
    def opened(self, caller: str) -> Iterator[None]:
        """Counts one for the length of the block; a Refusal where it is one too many."""
        if self._open[caller] >= self._limits.streams_per_caller or self._open.total() >= self._limits.streams:
            del_if_zero(self._open, caller)
            raise Refusal("too-many-requests", "too many streams are open", headers={"Retry-After": "5"})
        self._open[caller] += 1
        try:
            yield
        finally:
            self._open[caller] -= 1
            del_if_zero(self._open, caller)


def del_if_zero(counts: Counter[str], name: str) -> None:
    """Forgets a name that is counted no more."""
    if counts[name] <= 0:
        del counts[name]
