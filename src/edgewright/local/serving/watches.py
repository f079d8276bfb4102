"""Watches: the changes of a selection of objects as a stream of events that ends when the client or a limit says so.

`server` opens one per request and writes what it yields. With selectors an object that comes into the selection is
added and one that leaves it is deleted, whatever happened to it. A client that does not read is cut, never buffered for
ever.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass

from edgewright.local.errors import expired
from edgewright.local.history import Change, ChangeType, Expired, Stored, Subscription, TooSlow
from edgewright.local.served import Served
from edgewright.local.serving import bodies, reads
from edgewright.local.serving.objects import Objects
from edgewright.local.serving.options import ListOptions
from edgewright.runtime.objects import RawObject

_BOOKMARK_SECONDS = 55.0
_LAST_BOOKMARK_SECONDS = 2.0
_SHORTEST, _MAX_LENGTH = 1800.0, 3600.0
_PORTION = 64 * 1024
_INITIAL_END = "k8s.io/initial-events-end"

Show = Callable[[Stored], bytes]
"""The JSON of an object as this watch shows it: whole, as a Table row, or its metadata only."""
ShowBookmark = Callable[[RawObject], bytes]
"""The JSON of a bookmark, an object that has metadata and nothing else."""


@dataclass(frozen=True, kw_only=True)
class Watch:
    """One watch: what it is about and how its events look."""

    objects: Objects
    served: Served
    namespace: str
    options: ListOptions
    selection: reads.Selection
    show: Show
    show_bookmark: ShowBookmark

    async def events(self, subscription: Subscription) -> AsyncGenerator[bytes, None]:
        """Lines of JSON until the time is over, the server stops or the history is lost; `subscribe` comes before."""
        try:
            if self._from_now():
                for lines in _portions(_event("ADDED", self.show(stored)) for stored in self._initial()):
                    yield lines
                if self.options.initial_events and self.options.bookmarks:
                    yield self._bookmark(subscription.revision, initial=True)
            async for lines in self._follow(subscription):
                yield lines
        except Expired as error:
            yield expired_event(error)
        except TooSlow:
            return

    def subscribe(self) -> Subscription:
        """Takes part in the changes from here on, so that none is missed; a version that cannot be is refused."""
        store, wanted = self.objects.store, self.options.resource_version
        version = reads.version(wanted) if wanted else 0
        if version > store.revision:
            raise reads.too_large(version, store.revision)
        start = store.revision if self._from_now() else version or store.revision
        return store.history.subscribe(self.served.storage, self.namespace or None, start)

    def _from_now(self) -> bool:
        """Whether the state as it is now comes first; else only what happened after a version."""
        if self.options.initial_events is not None:
            return self.options.initial_events
        return self.options.resource_version in {"", "0"}

    def _initial(self) -> list[Stored]:
        listed = self.objects.store.list(self.served.storage, self.namespace or None).items
        return [each for each in listed if self.selection.matches(self.objects, self.served, each)]

    async def _follow(self, subscription: Subscription) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        ends = loop.time() + (self.options.timeout or random.uniform(_SHORTEST, _MAX_LENGTH))  # noqa: S311  no secret
        bookmark = self._next_bookmark(loop.time(), ends)
        ending = asyncio.ensure_future(self._end_with_the_kind(subscription))
        try:
            while loop.time() < ends:
                try:
                    async with asyncio.timeout_at(min(bookmark, ends)):
                        changes = await anext(subscription)
                except TimeoutError:
                    if bookmark <= loop.time() < ends:
                        bookmark = self._next_bookmark(loop.time(), ends)
                        yield self._bookmark(subscription.revision)
                    continue
                for lines in _portions(self._lines(changes)):
                    yield lines
        except StopAsyncIteration:
            return
        finally:
            ending.cancel()

    async def _end_with_the_kind(self, subscription: Subscription) -> None:
        """Ends the watch when the kind is no longer served in this version: whoever watches it must learn that."""
        kinds, kind = self.objects.kinds, self.served.kind
        while kinds.find(kind.group, kind.version, kind.plural) is not None:
            await kinds.changed()
        subscription.finish()

    def _next_bookmark(self, now: float, ends: float) -> float:
        last = ends - _LAST_BOOKMARK_SECONDS
        if not self.options.bookmarks or now >= last:
            return ends
        return min(now + _BOOKMARK_SECONDS, last)

    def _lines(self, changes: list[Change]) -> Iterator[bytes]:
        if self.selection.all:
            return (_event(change.type, self.show(change.stored)) for change in changes)
        return (_event(seen, self.show(stored)) for change in changes for seen, stored in self._seen(change))

    def _seen(self, change: Change) -> list[tuple[str, Stored]]:
        """What a change is to a watch that sees only a selection."""
        before = change.previous is not None and self._selected(change.previous)
        after = change.type is not ChangeType.DELETED and self._selected(change.stored)
        if after:
            return [("MODIFIED" if before else "ADDED", change.stored)]
        if not before:
            return []
        if change.type is ChangeType.DELETED:
            return [("DELETED", change.stored)]
        return [("DELETED", _at(change.previous, change.revision))]

    def _selected(self, stored: Stored) -> bool:
        return self.selection.matches(self.objects, self.served, stored)

    def _bookmark(self, revision: int, *, initial: bool = False) -> bytes:
        about: RawObject = {"resourceVersion": str(revision)}
        if initial:
            about["annotations"] = {_INITIAL_END: "true"}
        return _event("BOOKMARK", self.show_bookmark(about))


def _portions(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Lines that go out together: one by one would be slow, and all at once would be kept for a reader that is slow."""
    portion: list[bytes] = []
    size = 0
    for line in lines:
        portion.append(line)
        size += len(line)
        if size >= _PORTION:
            yield b"".join(portion)
            portion, size = [], 0
    if portion:
        yield b"".join(portion)


def _at(stored: Stored | None, revision: int) -> Stored:
    """An object as it was, under the revision at which it left the selection."""
    assert stored is not None  # noqa: S101  it was in the selection
    obj = bodies.decode_stored(stored.body)
    obj["metadata"]["resourceVersion"] = str(revision)
    return Stored(stored.key, revision, stored.created, bodies.encode(obj))


def _event(kind: str, shown: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), shown)


def expired_event(error: Expired) -> bytes:
    """The event that ends a watch whose changes are no longer known: list again."""
    return _event("ERROR", bodies.encode(expired(str(error)).status()))
