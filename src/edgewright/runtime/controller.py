"""Turns changes into passes of a reconcile function: sources → queue → workers.

A controller has one function, `reconcile(key)`, and sources that say which keys a change concerns: `For` its own kind,
`Owns` objects that belong to one of them, `Maps` anything else by a function. A pass ends with nothing, with
`requeue_after(after)`, or by raising; a failure is tried again later and later and never touches the other keys.
Reading and writing is the function's own matter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

from edgewright.runtime import logs
from edgewright.runtime.cache import Cache, Change
from edgewright.runtime.clock import Clock, SystemClock
from edgewright.runtime.errors import Conflict, LeaseLost
from edgewright.runtime.metrics import Metrics, ReconcileResult
from edgewright.runtime.objects import Key, Kind, Resource
from edgewright.runtime.predicates import Predicate, anything, intent_changed_or_wiped
from edgewright.runtime.queue import Priority, Queue, QueueClosed

R = TypeVar("R", bound=Resource)

_log = logs.get("runtime.controller")


@dataclass(frozen=True)
class Result:
    """How a pass ended: done, or to be looked at again after so many seconds."""

    after: float | None = None


DONE = Result()


def requeue_after(after: float) -> Result:
    """The pass went well and wants another one after that many seconds, whatever happens until then."""
    return Result(after=after)


Reconcile: TypeAlias = Callable[[Key], Awaitable[Result | None]]


class Source(Protocol):
    """Where keys come from."""

    @property
    def cache(self) -> Cache[Any]:
        """The cache whose changes count."""

    @property
    def when(self) -> Predicate:
        """Which of its changes count."""

    def keys(self, change: Change[Any], primary: Kind) -> Iterable[Key]:
        """The keys of the controller's own kind that the change concerns."""


@dataclass(frozen=True)
class For:
    """The kind that the controller is for; by default a change of status alone is no reason for a pass, its loss is."""

    cache: Cache[Any]
    when: Predicate = intent_changed_or_wiped

    def keys(self, change: Change[Any], primary: Kind) -> Iterable[Key]:  # noqa: ARG002
        """The object itself."""
        return (change.latest.key,)


@dataclass(frozen=True)
class Owns:
    """Objects that belong to one of the controller's kind, by their controlling owner reference.

    With `controlled=False` any owner reference counts: for objects that others made.
    """

    cache: Cache[Any]
    when: Predicate = anything
    controlled: bool = True

    def keys(self, change: Change[Any], primary: Kind) -> Iterable[Key]:
        """The owners, before and after the change."""
        return {
            Key(obj.metadata.namespace if primary.namespaced else "", reference.name)
            for obj in (change.old, change.new)
            if obj is not None
            for reference in obj.metadata.owner_references
            if reference.kind == primary.kind
            and reference.api_version.rpartition("/")[0] == primary.group
            and (reference.controller or not self.controlled)
        }


@dataclass(frozen=True)
class Maps:
    """Anything else: a function says whom an object concerns; it is asked before and after the change."""

    cache: Cache[Any]
    to: Callable[[Any], Iterable[Key]]
    when: Predicate = anything

    def keys(self, change: Change[Any], primary: Kind) -> Iterable[Key]:  # noqa: ARG002
        """What the function says of the old and the new state."""
        return {key for obj in (change.old, change.new) if obj is not None for key in self.to(obj)}


class Controller:
    """One reconcile function, its sources, its queue and its workers."""

    def __init__(
        self,
        name: str,
        reconcile: Reconcile,
        *sources: Source,
        workers: int = 1,
        deadline: float = 60.0,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        primary = [source for source in sources if isinstance(source, For)]
        if len(primary) != 1:
            raise ValueError(f"controller {name}: needs exactly one For, has {len(primary)}")
        if workers < 1:
            raise ValueError(f"controller {name}: needs at least one worker")
        self.name = name
        self.workers = workers
        self.sources = sources
        self._primary = primary[0].cache.kind
        self._reconcile = reconcile
        self._deadline = deadline
        self._clock = clock or SystemClock()
        metrics = metrics or Metrics(process=False)
        self._metrics = metrics.for_controller(name)
        self._metrics.workers(workers)
        observer = metrics.for_queue(name)
        self.queue = Queue(clock=self._clock, observer=observer)
        observer.ask(
            depth=lambda: len(self.queue),
            longest_running=lambda: max(self._held(), default=0.0),
            unfinished=lambda: sum(self._held()),
        )

    async def run(self) -> None:
        """Hears the sources and works until `stop`, then until the passes under way have ended."""
        for source in self.sources:
            source.cache.subscribe(self._enqueue(source))
        async with asyncio.TaskGroup() as group:
            for number in range(self.workers):
                group.create_task(self._work(), name=f"{self.name} worker {number}")

    def stop(self) -> None:
        """No new pass is started; `run` returns when those under way have ended."""
        self.queue.close()

    def _enqueue(self, source: Source) -> Callable[[Change[Any]], None]:
        def on_change(change: Change[Any]) -> None:
            if source.when(change):
                priority = Priority.LOW if change.initial else Priority.NORMAL
                for key in source.keys(change, self._primary):
                    self.queue.add(key, priority)

        return on_change

    def _held(self) -> list[float]:
        """For how long each pass under way has been going on."""
        now = self._clock.elapsed()
        return [now - since for since in self.queue.working.values()]

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            try:
                await self._pass(key)
            finally:
                self.queue.done(key)

    async def _pass(self, key: Key) -> None:
        started = self._clock.elapsed()
        self._metrics.started()
        outcome: ReconcileResult = "error"
        try:
            with logs.bound(controller=self.name, key=key):
                outcome = await self._attempt(key)
        finally:
            self._metrics.finished(outcome, self._clock.elapsed() - started)

    async def _attempt(self, key: Key) -> ReconcileResult:
        """One pass and what follows from it; the outcome's name as the metrics call it."""
        started = self._clock.elapsed()
        try:
            async with self._clock.timeout(self._deadline):
                result = await self._reconcile(key)
            after = None if result is None else result.after
            if after is not None:
                if after <= 0:
                    await asyncio.sleep(0)  # who asks again and again at once must leave others their turn
                self.queue.add_after(key, after)
        except LeaseLost:
            # Whoever leads now does the work; that may be this process still, if a renewal came through at the last.
            self.queue.retry(key)
            return "error"
        except Conflict as error:
            # The cache was behind: ordinary. The next pass sees the newer object.
            _log.debug("object was modified; retrying", error=error)
            self.queue.retry(key)
            return "error"
        except (Exception, asyncio.CancelledError) as error:  # whatever one key does must not stop the others
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise  # the worker itself is to end; otherwise something that the pass waited for was cancelled
            late = self._clock.elapsed() - started >= self._deadline
            what = f"reconcile timed out after {self._deadline:g} s" if late else "reconcile failed"
            _log.error(what, again_in_seconds=round(self.queue.retry(key), 3), error=error)
            return "error"
        self.queue.forget(key)
        return "success" if after is None else "requeue_after"
