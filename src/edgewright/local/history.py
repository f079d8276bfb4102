"""The watch side of the store: every committed change, in order, exactly once, from a given revision on.

`store` publishes each group of changes here after its COMMIT, and watches subscribe. A subscriber catches up from the
history table and then gets what is published; one that does not keep up is cut, never buffered for ever. This module
never writes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Self


class StoreKey(NamedTuple):
    """Names one object in the store; the namespace is empty for cluster-scoped kinds."""

    resource: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Stored:
    """One state of an object: its JSON, the revision that wrote it and the revision that created the object."""

    key: StoreKey
    revision: int
    created: int
    body: bytes


class ChangeType(StrEnum):
    """What a change did; the words are those of watch events."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class Change:
    """One committed change. A watch with selectors needs both sides: whether the object matched before, and now."""

    type: ChangeType
    stored: Stored
    """What was written; for a deletion the last state, with the deletion's own revision."""
    previous: Stored | None
    """What was there before; None for an object that is new."""

    @property
    def revision(self) -> int:
        """The change's revision, its place in the order of all changes."""
        return self.stored.revision


class Expired(Exception):
    """The changes that were asked for have been compacted away: list again (410)."""


class TooSlow(Exception):
    """The subscriber had too many changes waiting and was cut: it can resume from its last revision."""


ReadChanges = Callable[[str | None, str | None, int, int, int], Awaitable[Sequence[Change]]]
"""Changes of a resource and namespace with after < revision ≤ upto, at most so many; raises Expired."""

Observer = Callable[[Sequence[Change]], None]
"""Hears of committed changes at once; it must be quick and never fail."""

_CHUNK = 500
_LARGEST_BACKLOG = 64 * 1024 * 1024
"""So many bytes of objects may wait for a subscriber; those that several wait for are there once."""


class Subscription:
    """The changes of one resource from a revision on, in groups: iterate over it, and close it."""

    def __init__(
        self, history: History, resource: str | None, namespace: str | None, from_revision: int, backlog: int
    ) -> None:
        self._history = history
        self._resource = resource
        self._namespace = namespace
        self._limit = backlog
        self._delivered = from_revision
        # Up to here the table is read; everything later arrives in the backlog.
        self._live_from = history.revision
        self._caught_up = from_revision >= self._live_from
        self._backlog: list[Change] = []
        self._bytes = 0
        self._wake = asyncio.Event()
        self._cut = False
        self._finishing = False
        self._closed = False

    @property
    def revision(self) -> int:
        """All changes up to this revision were delivered: what a bookmark may say."""
        if self._caught_up and not self._backlog and not self._cut:
            return max(self._delivered, self._history.revision)
        return self._delivered

    def offer(self, changes: Sequence[Change]) -> None:
        """Takes committed changes from the history; those of other resources are left out."""
        if self._cut or self._closed:
            return
        # A change is already in what the subscriber listed when it is not newer than where it started.
        wanted = [each for each in changes if each.revision > self._delivered and self._wants(each.stored.key)]
        if not wanted:
            return
        self._backlog += wanted
        self._bytes += sum(len(each.stored.body) for each in wanted)
        if len(self._backlog) > self._limit or self._bytes > _LARGEST_BACKLOG:
            self._cut = True
            self._backlog = []
        self._wake.set()

    def finish(self) -> None:
        """Ends the subscription once what waits is delivered."""
        self._finishing = True
        self._wake.set()

    def close(self) -> None:
        """Ends the subscription; whoever iterates over it comes to the end."""
        self._closed = True
        self._backlog = []
        self._history.forget(self)
        self._wake.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> list[Change]:
        """The next changes, at least one; raises Expired or TooSlow when the order cannot be kept without a hole."""
        while not self._closed:
            if self._cut:
                self.close()
                raise TooSlow(f"too many changes were waiting after revision {self._delivered}")
            if not self._caught_up:
                if past := await self._catch_up():
                    return past
            elif self._backlog:
                changes, self._backlog, self._bytes = self._backlog, [], 0
                self._delivered = changes[-1].revision
                return changes
            elif self._finishing:
                self.close()
            else:
                self._wake.clear()
                await self._wake.wait()
        raise StopAsyncIteration

    async def _catch_up(self) -> list[Change]:
        past = await self._history.read(self._resource, self._namespace, self._delivered, self._live_from, _CHUNK)
        if len(past) < _CHUNK:
            self._caught_up = True
        if past:
            self._delivered = past[-1].revision
        return list(past)

    def _wants(self, key: StoreKey) -> bool:
        return self._resource in (None, key.resource) and self._namespace in (None, key.namespace)


class History:
    """Where the store publishes and watches subscribe."""

    def __init__(self, *, revision: int, compacted: int, read: ReadChanges) -> None:
        self.revision = revision
        self.compacted = compacted
        self.read = read
        self._subscriptions: set[Subscription] = set()
        self._observers: list[Observer] = []

    def observe(self, observer: Observer) -> None:
        """Calls an observer with every committed group, before anybody who wrote in it gets an answer."""
        self._observers.append(observer)

    def subscribe(
        self, resource: str | None, namespace: str | None, from_revision: int, *, backlog: int = 10_000
    ) -> Subscription:
        """Everything after `from_revision` of a resource (None: of all) in a namespace (None: in all)."""
        if from_revision < self.compacted:
            raise Expired(f"too old resource version: {from_revision} ({self.compacted})")
        subscription = Subscription(self, resource, namespace, from_revision, backlog)
        self._subscriptions.add(subscription)
        return subscription

    def publish(self, changes: Sequence[Change]) -> None:
        """Gives a committed group to every subscriber."""
        self.revision = changes[-1].revision
        for observer in self._observers:
            observer(changes)
        for each in self._subscriptions:
            each.offer(changes)

    def forget(self, subscription: Subscription) -> None:
        """Gives nothing to this subscriber any more."""
        self._subscriptions.discard(subscription)

    def close(self) -> None:
        """Ends every subscription."""
        for each in list(self._subscriptions):
            each.close()
