"""Keeps a copy of one collection true: lists, then watches, resumes, and lists again when the server has forgotten.

The step between `client` and `cache`: a reflector feeds one `Sink` and never gives up. Whatever breaks (connection,
server, kind, permission, an object that cannot be read) it reports, waits a growing but bounded time and goes on from
the last version that it saw; what was deleted in a gap is found by comparing keys after the next list.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from edgewright.runtime import logs
from edgewright.runtime.backoff import Backoff
from edgewright.runtime.client import INITIAL_EVENTS_END, Api, Unread, WatchEvent, read_metadata
from edgewright.runtime.clock import Clock
from edgewright.runtime.errors import (
    ApiError,
    BadRequest,
    Expired,
    InternalError,
    Invalid,
    KubernetesError,
    NotFound,
    ServerTimeout,
    ServiceUnavailable,
    TooManyRequests,
    Undecodable,
)
from edgewright.runtime.objects import Key, Resource

R = TypeVar("R", bound=Resource)
R_contra = TypeVar("R_contra", bound=Resource, contravariant=True)

_log = logs.get("runtime.reflector")

# A server that is starting or overloaded says these; they pass.
_PASSING = (InternalError, ServerTimeout, ServiceUnavailable, TooManyRequests)
# A watch that lasted this long, or brought anything, was a good one: its end is no failure.
_GOOD_WATCH_SECONDS = 5.0
# However long a server asks us to stay away.
_MAX_WAIT = 30.0


class Sink(Protocol[R_contra]):
    """What a reflector feeds."""

    def put(self, obj: R_contra) -> None:
        """The object is so now."""

    def put_unread(self, unread: Unread) -> None:
        """The object is there, but does not fit our type."""

    def drop(self, key: Key) -> None:
        """The object is gone."""

    def keep_only(self, namespace: str, present: set[Key]) -> None:
        """A list is complete: of this namespace (empty: of all) nothing but these is there."""

    def report(self, namespace: str, problem: str | None) -> None:
        """Why the copy is not kept up at the moment; None when it is again."""


class Reflector(Generic[R]):
    """One list and watch: a kind, a namespace (or all), a selector."""

    def __init__(
        self,
        api: Api[R],
        sink: Sink[R],
        *,
        clock: Clock,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        optional: bool = False,
        unreachable: Backoff | None = None,
        refused: Backoff | None = None,
        heard: Callable[[WatchEvent], None] | None = None,
    ) -> None:
        """Follows one kind; an `optional` one that is not served counts as empty until it is.

        `heard` is told each event of the watch before the sink is: for who also needs what a sink is not told.
        """
        self._api = api
        self._sink = sink
        self._clock = clock
        self._namespace = namespace
        self._labels = labels
        self._fields = fields
        self._optional = optional
        self._heard = heard
        self._absent = False
        # A server that is restarting is met again soon after its return; one that says no is asked less often.
        self._unreachable = unreachable or Backoff(base=0.1, cap=2.0)
        self._refused = refused or Backoff(base=0.5, cap=5.0)
        # One that has forgotten is there: how long it was unavailable must not slow down the list that follows.
        self._forgotten = copy.copy(self._unreachable)
        self._repeated = logs.Repeated(_log, now=clock.elapsed)
        self._version = ""
        self._present: set[Key] | None = None  # while a list is coming in: what it has brought so far
        self._streams_lists = True
        self._pages = True
        self._moved = False
        self._refreshes = 0  # how many were asked for, how many when the last list began, and how many are answered
        self._listing = 0
        self._answered = 0
        self._answer = asyncio.Event()
        self._turn: asyncio.Timeout | None = None

    @property
    def version(self) -> str:
        """The state of the server that the sink has; empty until a list is complete, also while one comes in again."""
        return self._version

    async def run(self) -> None:
        """Lists and watches until cancelled."""
        while True:
            turn = self._turn = asyncio.timeout(None)
            try:
                async with turn:
                    await self._take_turn()
            except TimeoutError:
                if not turn.expired():  # else it was asked to list again
                    raise

    async def refresh(self) -> None:
        """Lists again, and returns when the sink has all that had happened on the server when this was called.

        A list that names no resource version is answered from the newest state that there is, on whichever server.
        """
        self._refreshes += 1
        asked = self._refreshes
        if self._turn is not None and not self._turn.expired():
            self._turn.reschedule(asyncio.get_running_loop().time())
        while self._answered < asked:
            await self._answer.wait()

    async def _take_turn(self) -> None:
        started = self._clock.elapsed()
        self._moved = False
        problem: KubernetesError | None = None
        try:
            await self._follow()
        except KubernetesError as error:
            problem = error
        if self._moved or self._clock.elapsed() - started >= _GOOD_WATCH_SECONDS:
            self._unreachable.reset()
            self._refused.reset()
            self._forgotten.reset()
        # Always a wait, if a short one: a server that sends one event and hangs up would be asked without end.
        await self._clock.sleep(self._wait_after(problem))

    def _wait_after(self, problem: KubernetesError | None) -> float:
        """Notes what went wrong and says how long to wait before the next try."""
        if isinstance(problem, Expired):
            # Not worth a word to people: the server keeps history for minutes only. The next turn lists again.
            self._pages = self._present is None  # a list that was forgotten between its pages is asked for in one
            self._version = ""
            self._unreachable.reset()
            return self._forgotten.next()
        if isinstance(problem, BadRequest | Invalid) and self._streams_lists and self._present is not None:
            self._streams_lists = False  # the server is older, or was told not to stream lists
            return 0.0
        if isinstance(problem, NotFound) and self._optional:
            self._take_absence()
            return self._refused.next()
        if problem is not None:
            self._sink.report(self._namespace, str(problem))
            self._repeated.warning("watch failed; retrying", kind=str(self._api.kind), error=str(problem))
        if isinstance(problem, Undecodable):
            self._version = ""
        if isinstance(problem, ApiError | Undecodable) and not isinstance(problem, _PASSING):
            return self._refused.next()
        self._refused.reset()  # what a server says while it starts must not slow down what comes after
        if isinstance(problem, ApiError) and problem.retry_after is not None:
            return min(max(problem.retry_after, self._unreachable.base), _MAX_WAIT)
        return self._unreachable.next()

    def _take_absence(self) -> None:
        """Nobody serves the kind, so there is none of it: told once, and listed again when it is served."""
        self._version = ""
        if not self._absent:
            self._absent = True
            self._sink.keep_only(self._namespace, set())
            _log.info("kind not installed; treated as empty", kind=str(self._api.kind))
        self._report_well()
        self._refreshed()

    async def _follow(self) -> None:
        """One list, where needed, and one watch; returns when the watch ended in good order."""
        if self._answered < self._refreshes:
            self._version = ""
        streaming = not self._version and self._streams_lists
        if not self._version:
            self._present = set()
            self._listing = self._refreshes
            if not streaming:
                await self._list()
        watch = self._api.watch(
            self._namespace,
            resource_version=self._version,
            labels=self._labels,
            fields=self._fields,
            initial=streaming,
        )
        try:
            async for events in watch:
                if self._present is None:
                    self._report_well()
                    self._moved = self._moved or bool(events)
                for event in events:
                    self._take(event)
        finally:
            await watch.aclose()

    async def _list(self) -> None:
        """The whole collection, page by page, so that no single step holds up the event loop."""
        present: set[Key] = set()
        version = ""
        pages = self._api.pages(
            self._namespace, labels=self._labels, fields=self._fields, **({} if self._pages else {"size": 0})
        )
        async for page in pages:
            for obj in page.items:
                present.add(obj.key)
                self._sink.put(obj)
            for unread in page.unread:
                present.add(unread.key)
                self._sink.put_unread(unread)
            version = page.resource_version
        self._complete(present, version)

    def _take(self, event: WatchEvent) -> None:
        if self._heard is not None:
            self._heard(event)
        if event.type == "BOOKMARK":
            metadata = read_metadata(event.object)
            self._version = metadata.resource_version if self._present is None else self._version
            if self._present is not None and INITIAL_EVENTS_END in metadata.annotations:
                self._complete(self._present, metadata.resource_version)
            return
        try:
            obj = self._api.decode(event.object)
        except Undecodable as error:
            metadata = read_metadata(event.object)
            self._take_unread(
                event.type, Unread(Key(metadata.namespace, metadata.name), metadata.resource_version, str(error))
            )
            return
        if event.type == "DELETED":
            self._sink.drop(obj.key)
        else:
            self._sink.put(obj)
            if self._present is not None:
                self._present.add(obj.key)
        self._seen(obj.metadata.resource_version)

    def _take_unread(self, event_type: str, unread: Unread) -> None:
        if event_type == "DELETED":
            self._sink.drop(unread.key)
        else:
            self._sink.put_unread(unread)
            if self._present is not None:
                self._present.add(unread.key)
        self._seen(unread.resource_version)

    def _seen(self, version: str) -> None:
        # While a streamed list comes in, its objects' versions are in no order: only its closing bookmark counts.
        if self._present is None:
            self._version = version

    def _complete(self, present: set[Key], version: str) -> None:
        self._absent = False
        self._present = None
        self._version = version
        self._sink.keep_only(self._namespace, present)
        self._report_well()
        self._refreshed()

    def _refreshed(self) -> None:
        self._answered = self._listing
        answer, self._answer = self._answer, asyncio.Event()
        answer.set()

    def _report_well(self) -> None:
        self._sink.report(self._namespace, None)
        self._repeated.clear()
