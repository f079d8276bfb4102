"""The store of the embedded control plane: objects as JSON in SQLite, each write with a revision of its own.

The API server reads from memory (the current state, loaded at open) and awaits its writes; concurrent writes go into
one transaction and are acknowledged together after COMMIT has synced it. Nothing is seen by a reader or a watch before
that. This module never looks into the JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

from edgewright.local.database import Database, StoreBusy, StoreDamaged, StoreError
from edgewright.local.history import Change, ChangeType, History, Stored, StoreKey
from edgewright.runtime.clock import Clock

__all__ = [
    "AlreadyThere",
    "Changed",
    "Listing",
    "NotThere",
    "Store",
    "StoreBusy",
    "StoreDamaged",
    "StoreError",
]

T = TypeVar("T")

_DAMAGE = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
# After these SQLite has rolled back and the file is as it was: the next write may succeed.
_PASSING = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_TOOBIG}


# After so many bytes the log is copied into the database next to the writes; where writes never pause, so that the log
# never begins again, the writer does it itself once the log has so many pages.
_LOG_BYTES = 4 * 1024 * 1024
_LOG_PAGES = 4096
_BYTES_A_CHANGE = 8192


class AlreadyThere(StoreError):
    """An object with this key exists."""


class NotThere(StoreError):
    """No object has this key."""


class Changed(StoreError):
    """The object has another revision than the caller expected."""


class Listing(NamedTuple):
    """A page of a list: all items belong to one revision; so many remain after the page."""

    items: list[Stored]
    revision: int
    remaining: int


Make = Callable[[int], bytes]
"""Gives the body of an object, with the revision that it will have written into it."""


@dataclass
class _Operation:
    """A write that waits for its group: it is decided against the state that the writes before it will leave."""

    decide: Callable[[Stored | None, int], Change]
    key: StoreKey
    answer: asyncio.Future[Stored]


@dataclass
class _Compaction:
    """A cut of the history that waits for its turn."""

    upto: int
    answer: asyncio.Future[None]


_Decided: TypeAlias = list[tuple[_Operation, Change]]
_Refused: TypeAlias = list[tuple[_Operation, Exception]]


@dataclass
class _Collection:
    """The current objects of one resource, with their keys in the order of a list."""

    objects: dict[StoreKey, Stored] = field(default_factory=dict)
    order: list[StoreKey] = field(default_factory=list)


class Store:
    """Objects by key with revisions, optimistic concurrency and a history; `open` gives one, `close` ends it."""

    def __init__(
        self, directory: Path, database: Database, *, clock: Clock, keep_changes: int, keep_seconds: float
    ) -> None:
        self._file = directory / "store.db"
        self._database = database
        self._clock = clock
        self._keep_changes = keep_changes
        self._keep_seconds = keep_seconds
        self._collections: dict[str, _Collection] = {}
        self._writer = ThreadPoolExecutor(1, "store-writer")
        self._reader = ThreadPoolExecutor(1, "store-reader")
        self._waiting: list[_Operation | _Compaction] = []
        self._wake = asyncio.Event()
        self._closing = False
        self._broken: StoreError | None = None
        self._pump: asyncio.Task[None] | None = None
        self._logged = 0
        self._checkpoint: asyncio.Task[int] | None = None
        self.history: History

    @classmethod
    async def open(
        cls, directory: Path, *, clock: Clock, keep_changes: int = 20_000, keep_seconds: float = 3600.0
    ) -> Store:
        """Opens the store in a directory, made 0700 where it is missing; StoreBusy and StoreDamaged say why not."""
        database = await asyncio.to_thread(Database, directory)
        store = cls(directory, database, clock=clock, keep_changes=keep_changes, keep_seconds=keep_seconds)
        try:
            revision, compacted = await store._in(store._writer, lambda: database.load(store._load))
        except BaseException:
            await store.close()
            raise
        store.history = History(revision=revision, compacted=compacted, read=store.changes)
        store._pump = asyncio.create_task(store._write_groups(), name="store")
        return store

    @property
    def revision(self) -> int:
        """The newest revision; it never goes back."""
        return self.history.revision

    def get(self, key: StoreKey) -> Stored | None:
        """The object as it was last committed."""
        collection = self._collections.get(key.resource)
        return None if collection is None else collection.objects.get(key)

    def list(
        self, resource: str, namespace: str | None = None, *, after: StoreKey | None = None, limit: int = 0
    ) -> Listing:
        """The current objects of a resource in the order of their keys; a limit of 0 means all."""
        collection = self._collections.get(resource, _Collection())
        keys, remaining = _page(collection.order, resource, namespace, after, limit)
        return Listing([collection.objects[key] for key in keys], self.revision, remaining)

    async def list_at(
        self, revision: int, resource: str, namespace: str | None = None, *, after: StoreKey | None, limit: int = 0
    ) -> Listing:
        """A list as it was at an older revision, for the pages after the first; Expired when that is compacted."""
        if revision >= self.revision:
            return self.list(resource, namespace, after=after, limit=limit)
        now = self.revision
        objects = dict(self._collections.get(resource, _Collection()).objects)
        for change in reversed(await self.changes(resource, namespace, revision, now, -1)):
            if change.previous is None:
                objects.pop(change.stored.key, None)
            else:
                objects[change.stored.key] = change.previous
        keys, remaining = _page(sorted(objects), resource, namespace, after, limit)
        return Listing([objects[key] for key in keys], revision, remaining)

    async def create(self, key: StoreKey, make: Make) -> Stored:
        """Adds an object, or raises AlreadyThere."""

        def decide(current: Stored | None, revision: int) -> Change:
            if current is not None:
                raise AlreadyThere(f"{key.resource} {key.namespace}/{key.name} exists already")
            return Change(ChangeType.ADDED, Stored(key, revision, revision, make(revision)), None)

        return await self._write(key, decide)

    async def update(self, key: StoreKey, expected_revision: int, make: Make) -> Stored:
        """Replaces an object that still has the expected revision, or raises NotThere or Changed."""

        def decide(current: Stored | None, revision: int) -> Change:
            there = _expected(key, current, expected_revision)
            return Change(ChangeType.MODIFIED, Stored(key, revision, there.created, make(revision)), there)

        return await self._write(key, decide)

    async def delete(self, key: StoreKey, expected_revision: int | None = None, make: Make | None = None) -> Stored:
        """Removes an object and gives its last state with the deletion's revision (and the body of `make`)."""

        def decide(current: Stored | None, revision: int) -> Change:
            there = _expected(key, current, expected_revision)
            body = there.body if make is None else make(revision)
            return Change(ChangeType.DELETED, Stored(key, revision, there.created, body), there)

        return await self._write(key, decide)

    async def compact(self, keep_after_revision: int) -> None:
        """Forgets the changes up to a revision; whoever asks for them gets Expired."""
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._enqueue(_Compaction(min(keep_after_revision, self.revision), answer))
        await answer

    async def trim(self) -> None:
        """Compacts what is older than the store keeps or more than it keeps; call it now and then."""
        oldest = self._clock.now().timestamp() - self._keep_seconds
        aged = await self._in(self._reader, lambda: self._database.aged(oldest))
        await self.compact(max(aged, self.revision - self._keep_changes))

    async def backup(self, file: Path) -> None:
        """Writes a consistent copy of the database while it is in use; the file appears when it is whole."""
        await self._in(self._reader, lambda: self._database.copy_to(file))

    async def close(self) -> None:
        """Commits what waits, ends every subscription and lets the directory go."""
        self._closing = True
        self._wake.set()
        if self._pump is not None:
            await self._pump
            self.history.close()
        if self._checkpoint is not None:
            await asyncio.gather(self._checkpoint, return_exceptions=True)
        await asyncio.to_thread(self._reader.shutdown)
        await asyncio.to_thread(self._writer.shutdown)
        self._database.close()

    async def changes(
        self, resource: str | None, namespace: str | None, after: int, upto: int, limit: int
    ) -> Sequence[Change]:
        """Changes with after < revision ≤ upto, oldest first, at most `limit` (-1: all); Expired when compacted."""
        return await self._in(
            self._reader, lambda: self._database.read_changes(resource, namespace, after, upto, limit)
        )

    # Below: the event loop's side of writing.

    async def _write(self, key: StoreKey, decide: Callable[[Stored | None, int], Change]) -> Stored:
        answer: asyncio.Future[Stored] = asyncio.get_running_loop().create_future()
        self._enqueue(_Operation(decide, key, answer))
        return await answer

    def _enqueue(self, waiting: _Operation | _Compaction) -> None:
        if self._broken is not None:
            raise self._broken
        if self._closing:
            raise StoreError("the store is closed")
        self._waiting.append(waiting)
        self._wake.set()

    async def _write_groups(self) -> None:
        """The one writer: everything that came while a group was committed is the next group."""
        while self._waiting or not self._closing:
            if not self._waiting:
                self._wake.clear()
                await self._wake.wait()
                continue
            group, self._waiting = self._waiting, []
            decided, refused = self._decide([each for each in group if isinstance(each, _Operation)])
            cuts = [each for each in group if isinstance(each, _Compaction)]
            try:
                await self._commit_group([change for _, change in decided], [each.upto for each in cuts])
            except Exception as error:
                for operation, _ in (*decided, *refused):
                    _refuse(operation.answer, error)
                for cut in cuts:
                    _refuse(cut.answer, error)
                continue
            for operation, change in decided:
                if not operation.answer.done():
                    operation.answer.set_result(change.stored)
            for operation, problem in refused:
                _refuse(operation.answer, problem)
            for cut in cuts:
                if not cut.answer.done():
                    cut.answer.set_result(None)
            with contextlib.suppress(StoreError):  # the next write says it, if it concerns anybody
                await self._shorten_log([change for _, change in decided])

    async def _shorten_log(self, changes: Sequence[Change]) -> None:
        """Begins to copy the log into the database now and then; waits for it only where it has grown too long."""
        self._logged += sum(_BYTES_A_CHANGE + 2 * len(each.stored.body) for each in changes)
        if self._logged < _LOG_BYTES or (self._checkpoint is not None and not self._checkpoint.done()):
            return
        self._logged = 0
        last, self._checkpoint = self._checkpoint, None
        if last is not None and last.result() > _LOG_PAGES:
            await self._in(self._writer, lambda: self._database.checkpoint(by_writer=True))
        else:
            self._checkpoint = asyncio.create_task(self._in(self._reader, self._database.checkpoint))

    async def _commit_group(self, changes: Sequence[Change], cuts: Sequence[int]) -> None:
        """Brings a group to the disk and then, not before, into memory and to the watches."""
        if self._broken is not None:
            raise self._broken
        newest = changes[-1].revision if changes else self.revision
        # Without a `trim` the history may grow to twice what is kept, never further.
        overdue = newest - self._keep_changes if newest - self.history.compacted > 2 * self._keep_changes else 0
        upto = max(self.history.compacted, overdue, *cuts, 0)
        if changes or upto > self.history.compacted:
            at = self._clock.now().timestamp()
            cut = upto if upto > self.history.compacted else 0
            await self._in(self._writer, lambda: self._database.commit(changes, at, cut))
        self._apply(changes)
        self.history.compacted = upto
        if changes:
            self.history.publish(changes)

    def _decide(self, operations: Sequence[_Operation]) -> tuple[_Decided, _Refused]:
        """Each operation on the state that those before it leave; one that is refused does not touch the others.

        Who is refused because of another write of the group hears of it only when that one is there to be read.
        """
        ahead: dict[StoreKey, Stored | None] = {}
        decided: _Decided = []
        refused: _Refused = []
        for each in operations:
            if each.answer.done():  # the caller has gone away
                continue
            current = ahead[each.key] if each.key in ahead else self.get(each.key)
            try:
                change = each.decide(current, self.revision + len(decided) + 1)
            except Exception as error:  # whatever the caller's `make` raised is the caller's answer
                refused.append((each, error))
                continue
            ahead[each.key] = None if change.type is ChangeType.DELETED else change.stored
            decided.append((each, change))
        return decided, refused

    def _load(self, stored: Stored) -> None:
        collection = self._collections.setdefault(stored.key.resource, _Collection())
        collection.objects[stored.key] = stored
        collection.order.append(stored.key)

    def _apply(self, changes: Sequence[Change]) -> None:
        for change in changes:
            key = change.stored.key
            collection = self._collections.setdefault(key.resource, _Collection())
            if change.type is ChangeType.DELETED:
                del collection.objects[key]
                del collection.order[bisect_left(collection.order, key)]
            else:
                if key not in collection.objects:
                    insort(collection.order, key)
                collection.objects[key] = change.stored

    async def _in(self, thread: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        """Runs SQL in a thread; SQLite's errors become ours, with the file's name."""
        try:
            return await asyncio.get_running_loop().run_in_executor(thread, work)
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", 0) & 0xFF
            if code in _DAMAGE:
                self._broken = StoreDamaged(f"{self._file} is damaged ({error}): restore a backup into a new directory")
                raise self._broken from error
            failed = StoreError(f"{self._file} cannot be read or written: {error}")
            if code not in _PASSING:
                # Whether the disk has the group is not known: only a new look at the file can tell.
                self._broken = failed
            raise failed from error


def _refuse(answer: asyncio.Future[Stored] | asyncio.Future[None], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


def _expected(key: StoreKey, current: Stored | None, revision: int | None) -> Stored:
    if current is None:
        raise NotThere(f"{key.resource} {key.namespace}/{key.name} is not there")
    if revision is not None and current.revision != revision:
        raise Changed(f"{key.resource} {key.namespace}/{key.name} is at {current.revision}, not at {revision}")
    return current


def _page(
    order: Sequence[StoreKey], resource: str, namespace: str | None, after: StoreKey | None, limit: int
) -> tuple[Sequence[StoreKey], int]:
    """The keys of one page out of all in order, and how many follow it."""
    first, end = 0, len(order)
    if namespace is not None:
        first = bisect_left(order, StoreKey(resource, namespace, ""))
        end = bisect_left(order, StoreKey(resource, namespace + "\0", ""))
    if after is not None:
        first = max(first, bisect_right(order, after))
    last = min(end, first + limit) if limit else end
    return order[first:last], max(0, end - last)
