"""A stream from the shared cache: the present state and then every change, at most two batches per second.

`stream` begins with it where there is a shared cache, and goes on with a watch as the caller from where it ended: when
the caller may not watch the kind (any more), or when the cache is not kept up. So refusals are always the API server's.
Who may watch some of the namespaces alone is told of those; when these are others than before, all begins again.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from edgewright.console.kind_cache import Change, KindCache, Shown, moved_to, selected
from edgewright.console.messages import message, message_of, place
from edgewright.console.shared_cache import SharedCache, selector
from edgewright.console.views import View, view_for, view_of
from edgewright.runtime.errors import KubernetesError

if TYPE_CHECKING:
    from edgewright.console.call import Call
    from edgewright.runtime.objects import Kind

BATCH_SECONDS: Final = 0.5
"""So long after a batch the next one may come."""
PARTLY: Final = ".partly"
"""After the place of a stream that tells of some namespaces: it cannot go on from there, as rights may be others."""
PART_BYTES: Final = 64 << 10
"""A part is about so big at most, however much there is to tell: each stream holds one while its client reads."""
_NAME: Final = re.compile(r"[A-Za-z0-9.-]*")


class CachedStream:
    """The parts of one stream, for as long as they can come from the shared cache."""

    def __init__(self, call: Call, kind: Kind, *, version: str, reset: str, goes_on: bool) -> None:
        """From the version that the client saw last, if any; `reset` is why it must begin again, if it must.

        `goes_on`: the stream has begun elsewhere, and comes here only if nothing has to be told twice.
        """
        self._call = call
        self._kind = kind
        self._goes_on = goes_on
        self._namespace = call.query.get("namespace", "")
        self._name = call.query.get("name", "")
        self._selector = chosen = selector(call.query.get("labelSelector", ""))
        self._chosen = chosen.matches if chosen is not None and chosen.requirements else None
        self._view: View | None = None
        self.reset = reset
        """Why the client must forget what it knows, where it was not told yet."""
        self.version = version
        """Up to where the client has been told, when the part that came last has reached it; empty before `synced`."""

    async def run(self) -> AsyncGenerator[bytes, None]:
        """The parts; ends where a watch as the caller has to go on from `version`."""
        cache = self._call.shared.cache
        if cache is None or self._selector is None or not _NAME.fullmatch(self._name):
            return
        view = await view_for(self._call, self._kind, "watch", self._namespace)
        if view is None:
            return
        kept = view.kept
        with kept.in_use():
            if not await self._check_place(cache, kept):
                return
            while view := await self._look(cache, kept):
                lists = kept.lists
                if self.version:
                    yield b""  # the stream stands
                else:
                    async for part in self._state(cache, view):
                        yield part
                if self.version:
                    async for part in self._changes(cache, kept, lists):
                        yield part
                if self.version and (lists != kept.lists or not self._known(kept)):
                    self._begin_again("too much has happened since the last event")

    async def _look(self, cache: SharedCache, kept: KindCache) -> View | None:
        """What the caller may be told now; None where the API server has to be asked, or the cache stays away.

        Who may see some namespaces alone is refused by the API server: that is worth waiting for the cache.
        """
        view = await view_of(self._call, cache, kept, "watch", self._namespace, before=self._view)
        if view is None or (view.whole and not self._lasts(view)):
            return None
        if not view.follows(self._view):
            self._begin_again("what may be seen is not the same any more")
        self._view = view
        return view

    def _lasts(self, view: View) -> bool:
        """Whether the cache is kept up, and the caller's right was not asked for too long ago."""
        shared = self._call.shared
        return view.kept.away < shared.limits.cache_seconds and view.until > shared.clock.elapsed()

    def _begin_again(self, reason: str) -> None:
        """The client has to forget what it knows, where it knows anything."""
        if self.version:
            self.version, self.reset = "", reason

    def _known(self, kept: KindCache) -> bool:
        """Whether all that happened since the client's place is remembered."""
        return bool(self.version) and int(self.version) >= kept.floor

    async def _check_place(self, cache: SharedCache, kept: KindCache) -> bool:
        """Begins again where the client's place is too old, or is none of this server; False: somebody else goes on."""
        if self._goes_on:
            return self._known(kept)
        if not self.version:
            return True
        if not self._known(kept):
            self._begin_again("too much has happened since the last event")
        elif int(self.version) > kept.version:
            # Another console may be ahead of this one; a place that the server has not reached is from another world.
            try:
                now = await cache.present_version(self._kind)
            except KubernetesError:
                return False
            if int(self.version) > now:
                self._begin_again("the last event is not known here")
        return True

    async def _state(self, cache: SharedCache, view: View) -> AsyncGenerator[bytes, None]:
        """All objects that are asked for, and `synced`: from there on the client has a place.

        It ends without one where the caller's rights have changed meanwhile.
        """
        for part in joined(self._present(view)):
            yield part
            if not self.version and ((now := await self._look(cache, view.kept)) is None or not now.follows(view)):
                self.reset = "the state comes again"
                return

    def _present(self, view: View) -> Iterator[bytes]:
        version = str(view.kept.version)
        if self.reset:
            yield message("reset", {"reason": self.reset})
        self.reset = ""
        for each in view.select(self._namespace, self._chosen, self._name):
            yield message_of("added", each.body)
        self.version = version
        yield message("synced", {}, identifier=self._place(version))

    def _place(self, version: int | str) -> str:
        """The id of an event."""
        return f"{version}{PARTLY if self._view is not None and not self._view.whole else ''}"

    async def _changes(self, cache: SharedCache, kept: KindCache, lists: int) -> AsyncGenerator[bytes, None]:
        """Batches of changes, until the place is lost or somebody else has to go on."""
        clock = self._call.shared.clock
        told = clock.elapsed()
        while view := await self._look(cache, kept):
            news, now = kept.news, clock.elapsed()
            if lists != kept.lists or not self._known(kept):
                return
            at, reached, quiet = int(self.version), kept.version, True
            for part in joined(self._told(kept.since(at))):
                yield part
                quiet = False
                if not await self._look(cache, kept) or not self.version:
                    return
            self.version = str(max(at, reached))
            if quiet and reached > at and now - told >= self._call.shared.limits.heartbeat:
                yield place(self._place(self.version))
                quiet = False
            if not quiet:
                told = clock.elapsed()
                await clock.sleep(BATCH_SECONDS)
                continue
            with suppress(TimeoutError):
                async with clock.timeout(view.until - now):
                    await news.wait()

    def _told(self, changes: Iterable[Change]) -> Iterator[bytes]:
        """What the client is told of changes; its place moves along."""
        for each in changes:
            self.version = str(each.version)
            yield self._part(each)

    def _part(self, change: Change) -> bytes:
        """What the client is told of a change: by its selector an object may come or go that was only changed."""
        before = change.old is not None and self._asked(change.old)
        after = not change.gone and self._asked(change.new)
        if after:
            return message_of(
                "modified" if before else "added", change.new.body, identifier=self._place(change.version)
            )
        if change.old is None or not before:
            return b""
        last = change.new if change.gone else moved_to(change.old, change.version)
        return message_of("deleted", last.body, identifier=self._place(change.version))

    def _asked(self, obj: Shown) -> bool:
        seen = self._view is not None and self._view.shows(obj)
        return seen and selected(obj, self._namespace, self._chosen, self._name)


def joined(messages: Iterable[bytes]) -> Iterator[bytes]:
    """The messages in parts of about the same size; none where no message has anything in it."""
    parts: list[bytes] = []
    size = 0
    for each in messages:
        parts.append(each)
        size += len(each)
        if size > PART_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
    if size:
        yield b"".join(parts)
