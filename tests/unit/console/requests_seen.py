"""What a console in the test's own process asks the API server for, by method and path; a watch counts as WATCH."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any
from unittest import mock

from edgewright.runtime.http_parser import Answer
from edgewright.runtime.transport import Transport


@contextmanager
def requests_seen() -> Iterator[Counter[tuple[str, str]]]:
    """Counts until the end of the block; every request is really sent."""
    seen: Counter[tuple[str, str]] = Counter()
    exchange, stream = Transport.exchange, Transport.stream

    async def counted(self: Transport, method: str, path: str, **settings: Any) -> Answer:
        seen[method, path] += 1
        return await exchange(self, method, path, **settings)

    def watched(
        self: Transport, path: str, query: Mapping[str, str], *, seconds: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        seen["WATCH", path] += 1
        return stream(self, path, query, seconds=seconds)

    with mock.patch.object(Transport, "exchange", counted), mock.patch.object(Transport, "stream", watched):
        yield seen
