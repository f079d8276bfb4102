"""The present objects of one kind as the API server shows them, and what happened to them lately.

A reflector feeds it; `objects` and `stream` read it for callers who may see the kind. Objects are kept as the
bytes that go out, without managedFields. It is behind the server by a moment: `current` waits until it has what this
console wrote.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from edgewright.runtime.client import Api, Client, Page, Unread, WatchEvent, read_metadata
from edgewright.runtime.clock import Clock
from edgewright.runtime.errors import UNFIT, Undecodable
from edgewright.runtime.objects import Key, Kind, ObjectMeta, Resource
from edgewright.runtime.reflector import Reflector

REMEMBERED: Final = 20_000
"""So many changes are remembered for streams that go on after a cut,"""
REMEMBERED_BYTES: Final = 16 << 20
"""or so many bytes of them."""
_DELETED: Final = 4096
_GONE_SECONDS: Final = 60.0
_AT_ONCE: Final = 500

R = TypeVar("R", bound=Resource)


class Shown(Resource, frozen=True, gc=False, kw_only=True):
    """An object as it goes out, and as much of its metadata as finding it takes."""

    body: bytes = b""

    @property
    def version(self) -> int:
        """Its resource version."""
        return int(self.metadata.resource_version)


class _Known(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    resource_version: str
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = {}


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_known = msgspec.json.Decoder(_Known).decode


def shown(body: bytes | msgspec.Raw) -> Shown:
    """The object in a body; all but its metadata stays as the API server wrote it."""
    fields = _fields(body)
    about = _fields(fields["metadata"])
    about.pop("managedFields", None)
    metadata = msgspec.json.encode(about)
    found = _known(metadata)
    int(found.resource_version)  # what has no order cannot be kept here
    return Shown(
        metadata=ObjectMeta(
            name=found.name,
            namespace=found.namespace,
            uid=found.uid,
            resource_version=found.resource_version,
            labels=found.labels,
        ),
        body=msgspec.json.encode({**fields, "metadata": msgspec.Raw(metadata)}),
    )


def moved_to(obj: Shown, version: int) -> Shown:
    """The same object with the resource version of its end: what a watch tells of one that is selected no more."""
    fields = _fields(obj.body)
    about = _fields(fields["metadata"]) | {"resourceVersion": msgspec.Raw(msgspec.json.encode(str(version)))}
    metadata = msgspec.structs.replace(obj.metadata, resource_version=str(version))
    return Shown(
        metadata=metadata,
        body=msgspec.json.encode({**fields, "metadata": msgspec.Raw(msgspec.json.encode(about))}),
    )


class ShownApi(Api[Shown]):
    """The verbs for a kind whose objects are only shown."""

    def __init__(self, client: Client, kind: Kind) -> None:
        """Reads with the client's own rights."""
        super().__init__(client.transport, kind, msgspec.Raw)
        self._bodies: Api[msgspec.Raw] = Api(client.transport, kind, msgspec.Raw)

    def decode(self, body: bytes | msgspec.Raw) -> Shown:
        """The object in a body; Undecodable where it has no metadata that an object has."""
        try:
            return shown(body)
        except (*UNFIT, KeyError) as error:
            raise Undecodable(f"{self.kind} {read_metadata(body).name}: {error}") from error

    async def pages(self, *arguments: Any, **settings: Any) -> AsyncIterator[Page[Shown]]:
        """All objects, page by page."""
        async for page in self._bodies.pages(*arguments, **settings):
            yield Page([self.decode(each) for each in page.items], page.resource_version)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What happened to one object: `old` is None where it is new; `gone` says that `new` is its last state."""

    version: int
    old: Shown | None
    new: Shown
    gone: bool = False

    @property
    def size(self) -> int:
        """How many bytes are kept for its sake, at most."""
        return len(self.new.body) + (len(self.old.body) if self.old else 0)


class KindCache:
    """The objects of one kind; the Sink of a reflector."""

    def __init__(self, api: Api[Shown], clock: Clock) -> None:
        """Nothing is known until `run` runs."""
        self.kind = api.kind
        self._clock = clock
        self._reflector = Reflector(api, self, clock=clock, heard=self._hear)
        self._objects: dict[Key, Shown] = {}
        self._incoming: dict[Key, Shown] = {}
        self._order: list[Key] | None = None
        self._namespaces: frozenset[str] | None = None
        self._last_words: Shown | None = None
        self._changes: deque[Change] = deque()
        self._bytes = 0
        self._problem: str | None = "has not been listed yet"
        self._tried = False
        self._unread: set[Key] = set()
        self._wanted = 0
        self._leaving: dict[tuple[Key, str], float] = {}
        self._deleted: OrderedDict[str, None] = OrderedDict()
        self._news = asyncio.Event()
        self._gone_at: float | None = clock.elapsed()
        self._users = 0
        self._used = clock.elapsed()
        self.version = 0
        """The state of the server that is here; 0 before there is any."""
        self.floor = 0
        """Every change after this version is remembered."""
        self.lists = 0
        """How often the whole kind was listed: after a list, nobody knows what happened before it."""

    # --- for those who read -----------------------------------------------------------------------------------------

    @property
    def usable(self) -> bool:
        """Whether it is whole and kept up."""
        return self._problem is None and not self._unread and self.lists > 0

    @property
    def away(self) -> float:
        """For how many seconds it has not been usable."""
        return 0.0 if self._gone_at is None else self._clock.elapsed() - self._gone_at

    def get(self, key: Key) -> Shown | None:
        """The object, or None where there is none of that name."""
        return self._objects.get(key)

    def ordered(self) -> list[Shown]:
        """All objects, in the order of the API server's lists."""
        if self._order is None:
            self._order = sorted(self._objects, key="/".join)
        return [self._objects[key] for key in self._order]

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces that hold objects of the kind."""
        if self._namespaces is None:
            self._namespaces = frozenset(key.namespace for key in self._objects)
        return self._namespaces

    def select(self, namespace: str, chosen: Callable[[Mapping[str, str]], bool] | None, name: str = "") -> list[Shown]:
        """The objects of a namespace (or all), with labels that are chosen, in the order of lists."""
        return [each for each in self.ordered() if selected(each, namespace, chosen, name)]

    def since(self, version: int) -> list[Change]:
        """What happened after a version, in order; it must not be below `floor`."""
        found: list[Change] = []
        for each in reversed(self._changes):
            if each.version <= version:
                break
            found.append(each)
        return found[::-1]

    @property
    def news(self) -> asyncio.Event:
        """Set at the next change of anything here; another one after that."""
        return self._news

    async def current(self, patience: float, *, stubborn: bool = False) -> bool:
        """Whether it is usable and has all that this console wrote; waits for that, but not for long.

        Where it was tried and did not work, only who is stubborn waits for the next try, and not if it stays so.
        """
        wanted, leaving = self._wanted, self._still_leaving()
        try:
            async with self._clock.timeout(patience):
                while not (self.usable and self.version >= wanted and leaving.isdisjoint(self._leaving)):
                    if self._unread or (self._failed and not (stubborn and self.away < patience)):
                        return False
                    await self._news.wait()
        except TimeoutError:
            return False
        return True

    @property
    def _failed(self) -> bool:
        """Whether it was tried, and the answer was no."""
        return self._problem is not None and self._tried

    # --- for those who write ----------------------------------------------------------------------------------------

    def wrote(self, version: str) -> None:
        """This console wrote an object, which has this version now: whoever reads waits for it."""
        if version.isdecimal():
            self._wanted = max(self._wanted, int(version))

    def deleted(self, key: Key, uid: str) -> None:
        """This console deleted an object: whoever reads waits until it is gone from here too."""
        if uid in self._deleted or (not uid and key not in self._objects):
            return
        self._leaving[key, uid] = self._clock.elapsed() + _GONE_SECONDS

    def _still_leaving(self) -> set[tuple[Key, str]]:
        """The deletions that were not seen yet. One that never comes (made and deleted in a gap) is given up."""
        now = self._clock.elapsed()
        self._leaving = {each: until for each, until in self._leaving.items() if until > now}
        return set(self._leaving)

    # --- for who keeps it -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keeps it up until cancelled."""
        await self._reflector.run()

    async def refresh(self) -> None:
        """Lists again, and returns when all is here that had happened on the server when this was called."""
        await self._reflector.refresh()

    def close(self) -> None:
        """It is kept up no more: those who still hold it read elsewhere."""
        self.report("", "is not kept up any more")

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Somebody reads it for the length of the block."""
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            self._used = self._clock.elapsed()

    @property
    def idle(self) -> float:
        """For how many seconds nobody has read it."""
        return 0.0 if self._users else self._clock.elapsed() - self._used

    # --- for the reflector (the Sink) -------------------------------------------------------------------------------

    def put(self, obj: Shown) -> None:
        """The object is so now."""
        self._unread.discard(obj.key)
        if not self._reflector.version:  # a list comes in, and counts when it is whole
            self._incoming[obj.key] = obj
            return
        old = self._objects.get(obj.key)
        self._objects[obj.key] = obj
        self._remember(Change(version=obj.version, old=old, new=obj))

    def put_unread(self, unread: Unread) -> None:
        """The object cannot be shown from here, and a list without it would be wrong."""
        self._unread.add(unread.key)
        self._tell()

    def drop(self, key: Key) -> None:
        """The object is gone."""
        self._unread.discard(key)
        self._incoming.pop(key, None)
        last, self._last_words = self._last_words, None
        if not self._reflector.version:
            return
        if last is None:  # nobody could be told of it: what is here is no more what the server has
            self._unread.add(key)
            self._tell()
            return
        self._deleted[last.metadata.uid] = None
        while len(self._deleted) > _DELETED:
            self._deleted.popitem(last=False)
        self._leaving = {each: until for each, until in self._leaving.items() if not _is(each, last)}
        old = self._objects.pop(key, None)
        if old is not None:
            self._remember(Change(version=last.version, old=old, new=last, gone=True))

    def keep_only(self, _namespace: str, present: set[Key]) -> None:
        """A list is complete: it takes the place of all that was here."""
        self._objects = {key: self._incoming[key] for key in present if key in self._incoming}
        self._incoming = {}
        self._unread &= present
        self._leaving = {
            (key, uid): until
            for (key, uid), until in self._leaving.items()
            if key in self._objects and uid in {"", self._objects[key].metadata.uid}
        }
        self._changes.clear()
        self._bytes = 0
        self._order = self._namespaces = None
        self.lists += 1
        before, self.version = self.version, int(self._reflector.version or 0)
        self.floor = self.version
        if self.version < before:  # the server was restored from a backup: what was written since is no more
            self._wanted = 0
        self._tell()

    def report(self, _namespace: str, problem: str | None) -> None:
        """Why it is not kept up at the moment; None when it is again."""
        changed = (self._problem is None) != (problem is None) or not self._tried
        self._problem = problem
        self._tried = True
        if changed:
            self._tell()

    def _hear(self, event: WatchEvent) -> None:
        """An event of the watch, before it is put or dropped here."""
        if event.type == "DELETED":
            try:
                self._last_words = shown(event.object)
            except (*UNFIT, KeyError):
                self._last_words = None
        elif event.type == "BOOKMARK" and self._reflector.version:
            version = read_metadata(event.object).resource_version
            if version.isdecimal() and int(version) > self.version:
                self.version = int(version)
                self._tell()

    def _remember(self, change: Change) -> None:
        if change.old is None or change.gone:
            self._order = self._namespaces = None
        self.version = change.version
        self._changes.append(change)
        self._bytes += change.size
        while self._changes and (len(self._changes) > REMEMBERED or self._bytes > REMEMBERED_BYTES):
            oldest = self._changes.popleft()
            self._bytes -= oldest.size
            self.floor = oldest.version
        self._tell()

    def _tell(self) -> None:
        if self.usable:
            self._gone_at = None
        elif self._gone_at is None:
            self._gone_at = self._clock.elapsed()
        news, self._news = self._news, asyncio.Event()
        news.set()


def selected(obj: Shown, namespace: str, chosen: Callable[[Mapping[str, str]], bool] | None, name: str = "") -> bool:
    """Whether a caller has asked for the object, who named a namespace, labels or a name, or none of them."""
    about = obj.metadata
    return (
        (not namespace or about.namespace == namespace)
        and (not name or about.name == name)
        and (chosen is None or chosen(about.labels))
    )


async def decoded(objects: Iterable[Shown], decode: Callable[[bytes], R]) -> AsyncIterator[tuple[Shown, R]]:
    """The objects as structs; one that does not fit is left out.

    Some per turn of the loop: a fleet is large, and others wait.
    """
    for number, each in enumerate(objects):
        if number % _AT_ONCE == 0:
            await asyncio.sleep(0)
        with suppress(*UNFIT):
            yield each, decode(each.body)


def _is(leaving: tuple[Key, str], last: Shown) -> bool:
    """Whether it is this object whose deletion was waited for."""
    key, uid = leaving
    return key == last.key and uid in {"", last.metadata.uid}
