"""A local, indexed, always current copy of a kind, shared by all controllers that read it.

A reflector feeds it, controllers read it without a request and hear of every change through `subscribe`. What it
gives out is frozen. It may be behind the server by a moment; whoever must know what is true now asks `fetch`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from edgewright.runtime import logs
from edgewright.runtime.backoff import Backoff
from edgewright.runtime.client import Api, Unread
from edgewright.runtime.clock import Clock, SystemClock
from edgewright.runtime.errors import NotFound
from edgewright.runtime.objects import Key, Kind, Resource
from edgewright.runtime.reflector import Reflector

R = TypeVar("R", bound=Resource)

_log = logs.get("runtime.cache")


@dataclass(frozen=True, slots=True)
class Change(Generic[R]):
    """What happened to one object: `old` is None when it is new, `new` is None when it is gone."""

    old: R | None
    new: R | None
    initial: bool = False

    @property
    def latest(self) -> R:
        """The object as it is, or as it was last seen."""
        obj = self.new if self.new is not None else self.old
        assert obj is not None, "a change has an old or a new object"  # noqa: S101
        return obj


Subscriber = Callable[[Change[R]], None]
IndexFunction = Callable[[R], Iterable[Hashable]]


class Cache(Generic[R]):
    """The objects of one kind (in some namespaces, by some selector) as they are known to be."""

    def __init__(
        self,
        api: Api[R],
        *,
        namespaces: Sequence[str] = ("",),
        labels: str = "",
        fields: str = "",
        optional: bool = False,
        clock: Clock | None = None,
        backoff: Callable[[], Backoff] | None = None,
        listed: Callable[[str], None] | None = None,
    ) -> None:
        self._api = api
        self._objects: dict[Key, R] = {}
        self._unread: dict[Key, Unread] = {}
        self._indexes: dict[str, _Index[R]] = {}
        self._subscribers: list[Subscriber[R]] = []
        self._unlisted = set(namespaces)
        self._problems: dict[str, str] = dict.fromkeys(namespaces, "has not been listed yet")
        self._synced = asyncio.Event()
        self.relists = 0
        self._listed = listed
        self._reflectors = [
            Reflector(
                api,
                self,
                clock=clock or SystemClock(),
                namespace=namespace,
                labels=labels,
                fields=fields,
                optional=optional,
                unreachable=backoff() if backoff else None,
                refused=backoff() if backoff else None,
            )
            for namespace in namespaces
        ]

    # --- for those who read ----------------------------------------------------------------------------------------

    @property
    def kind(self) -> Kind:
        """What is cached."""
        return self._api.kind

    def get(self, key: Key) -> R | None:
        """The object, or None where there is none of that name."""
        return self._objects.get(key)

    def __iter__(self) -> Iterator[R]:
        """All objects, in a snapshot that stays the same while it is walked."""
        return iter(list(self._objects.values()))

    def __len__(self) -> int:
        """How many objects there are."""
        return len(self._objects)

    def by(self, index: str, value: Hashable) -> list[R]:
        """The objects that the named index holds under that value."""
        return [self._objects[key] for key in self._indexes[index].found.get(value, ())]

    def keys(self, index: str, value: Hashable) -> list[Key]:
        """The keys of the objects that the named index holds under that value, without looking at them."""
        return list(self._indexes[index].found.get(value, ()))

    def count(self, index: str, value: Hashable) -> int:
        """How many objects the named index holds under that value, without looking at them."""
        return len(self._indexes[index].found.get(value, ()))

    async def fetch(self, key: Key) -> R | None:
        """The object as the server has it now: a request, past the cache, which stays as it is."""
        try:
            return await self._api.get(key)
        except NotFound:
            return None

    @property
    def unread(self) -> Collection[Unread]:
        """The objects that are there and cannot be read; for one that could be read before, the last state is kept."""
        return self._unread.values()

    @property
    def synced(self) -> bool:
        """Whether every namespace has been listed once: until then absence means nothing."""
        return self._synced.is_set()

    @property
    def problem(self) -> str | None:
        """Why the copy is not kept up at the moment, in a sentence; None when all is well."""
        return next((f"{self.kind}: {problem}" for problem in self._problems.values()), None)

    async def wait_synced(self) -> None:
        """Returns when every namespace has been listed once."""
        await self._synced.wait()

    async def refresh(self) -> None:
        """Lists again, and returns when the copy has all that had happened on the server when this was called."""
        await asyncio.gather(*(reflector.refresh() for reflector in self._reflectors))

    # --- for those who set it up -----------------------------------------------------------------------------------

    def add_index(self, name: str, values: IndexFunction[R]) -> None:
        """Keeps objects findable by what `values` returns for them; a name is given once."""
        if name in self._indexes:
            raise ValueError(f"the cache of {self.kind} has an index {name!r} already")
        index = self._indexes[name] = _Index(values)
        for obj in self._objects.values():
            index.move(obj.key, None, obj)

    def subscribe(self, subscriber: Subscriber[R]) -> None:
        """Calls `subscriber` for every object that is there (as an initial change) and then for every change."""
        self._subscribers.append(subscriber)
        for obj in list(self._objects.values()):
            self._tell_one(subscriber, Change(None, obj, initial=True))

    async def run(self) -> None:
        """Keeps the copy true until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run(), name=f"reflector of {self.kind}")

    # --- for the reflector (the Sink) ------------------------------------------------------------------------------

    def put(self, obj: R) -> None:
        """The object is so now; subscribers hear of it where it is new or has changed."""
        key = obj.key
        if self._unread:
            self._unread.pop(key, None)
        old = self._objects.get(key)
        if old is not None and old.metadata.resource_version == obj.metadata.resource_version:
            return
        if old is not None and old.metadata.uid != obj.metadata.uid:
            # Deleted and made again in a gap: two changes, so that nobody takes the new object for the old one.
            self.drop(key)
            old = None
        self._objects[key] = obj
        for index in self._indexes.values():
            index.move(key, old, obj)
        self._tell(Change(old, obj, initial=bool(self._unlisted)))

    def put_unread(self, unread: Unread) -> None:
        """The object is there but does not fit our type: reported once a version, its last readable state is kept."""
        known = self._unread.get(unread.key)
        if known is None or known.resource_version != unread.resource_version:
            _log.error(
                "object cannot be decoded; ignored",
                kind=str(self.kind),
                key=unread.key,
                problem=unread.problem,
            )
        self._unread[unread.key] = unread

    def drop(self, key: Key) -> None:
        """The object is gone."""
        self._unread.pop(key, None)
        old = self._objects.pop(key, None)
        if old is not None:
            for index in self._indexes.values():
                index.move(key, old, None)
            self._tell(Change(old, None))

    def keep_only(self, namespace: str, present: set[Key]) -> None:
        """A list is complete: what it did not bring was deleted while nobody watched."""
        for known in (self._objects, self._unread):
            for key in [key for key in known if key not in present and namespace in ("", key.namespace)]:
                self.drop(key)
        again = namespace not in self._unlisted
        self.relists += again
        if self._listed is not None:
            self._listed("again" if again else "start")
        self._unlisted.discard(namespace)
        if not self._unlisted:
            self._synced.set()

    def report(self, namespace: str, problem: str | None) -> None:
        """Remembers why a namespace is not kept up, or that it is again."""
        if problem is None:
            self._problems.pop(namespace, None)
        else:
            self._problems[namespace] = problem

    def _tell(self, change: Change[R]) -> None:
        for subscriber in self._subscribers:
            self._tell_one(subscriber, change)

    def _tell_one(self, subscriber: Subscriber[R], change: Change[R]) -> None:
        try:
            subscriber(change)
        except Exception as error:  # one subscriber's mistake must not cost the others their change
            _log.error("cache subscriber failed", kind=str(self.kind), key=change.latest.key, error=error)


class _Index(Generic[R]):
    """Keys by value, kept in step with the objects."""

    def __init__(self, values: IndexFunction[R]) -> None:
        self._values = values
        self.found: dict[Hashable, dict[Key, None]] = {}  # a dict as an ordered set: iteration is deterministic

    def move(self, key: Key, old: R | None, new: R | None) -> None:
        before, after = self._values_of(old), self._values_of(new)
        for value in before - after:
            keys = self.found[value]
            del keys[key]
            if not keys:
                del self.found[value]
        for value in after - before:
            self.found.setdefault(value, {})[key] = None

    def _values_of(self, obj: R | None) -> set[Hashable]:
        if obj is None:
            return set()
        try:
            return set(self._values(obj))
        except Exception as error:  # an object of an unforeseen shape is found under no value; the others go on
            _log.error("index function failed", key=obj.key, error=error)
            return set()
