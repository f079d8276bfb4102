"""Events: what `kubectl describe` shows of an object's life.

Controllers say what happened; the recorder sends it in the background, adds up what repeats, and never holds up or
fails a reconcile. Conditions become events only when their status or reason changes, so a controller that passes over
a settled object a thousand times says nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Literal

from edgewright.runtime import logs
from edgewright.runtime.client import Client
from edgewright.runtime.clock import Clock, SystemClock
from edgewright.runtime.conditions import transitions
from edgewright.runtime.errors import AlreadyExists, Conflict, KubernetesError, NotFound
from edgewright.runtime.objects import Condition, Key, Kind, ObjectMeta, Resource, Struct

EventType = Literal["Normal", "Warning"]

_log = logs.get("runtime.events")
_MAX_MESSAGE = 1024  # what the server accepts
_REMEMBERED = 4096


class ObjectReference(Struct, frozen=True, kw_only=True):
    """Points at the object that an event is about."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class EventSource(Struct, frozen=True, kw_only=True):
    """The component that reports an event."""

    component: str = ""


class EventSeries(Struct, frozen=True, kw_only=True):
    """How often it was seen, where an event is in the newer form."""

    count: int = 0
    last_observed_time: datetime | None = None


class Event(Resource, frozen=True, kw_only=True):
    """Something that happened to an object, kept for an hour or so."""

    kind: ClassVar[Kind] = Kind(group="", version="v1", kind="Event", plural="events")

    involved_object: ObjectReference = ObjectReference()
    type: str = ""  # no default that is meant: what is at its default is not sent
    reason: str = ""
    message: str = ""
    count: int = 0
    first_timestamp: datetime | None = None
    last_timestamp: datetime | None = None
    event_time: datetime | None = None
    """When it happened, where it is in the newer form; ours are not."""
    series: EventSeries | None = None
    source: EventSource = EventSource()
    reporting_component: str = ""


@dataclass
class _Pending:
    """One event that is to be sent: as it stands, and how many times it happened since it was last sent."""

    about: ObjectReference
    type: EventType
    reason: str
    message: str
    times: int = 0


class Recorder:
    """Sends events about objects, in the order in which they happened."""

    def __init__(
        self,
        client: Client,
        component: str,
        *,
        clock: Clock | None = None,
        capacity: int = 1000,
        dropped: Callable[[str], None] | None = None,
    ) -> None:
        self._api = client.of(Event)
        self._component = component
        self._clock = clock or SystemClock()
        self._capacity = capacity
        self._dropped = dropped
        self._pending: OrderedDict[Key, _Pending] = OrderedDict()
        self._known: OrderedDict[Key, Event] = OrderedDict()
        self._something = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._repeated = logs.Repeated(_log, now=self._clock.elapsed)

    def record(self, about: Resource, type: EventType, reason: str, message: str) -> None:  # noqa: A002
        """Notes that something happened; returns at once."""
        reference = reference_to(about)
        key = event_key(reference, type, reason, message)
        pending = self._pending.get(key)
        if pending is None:
            if len(self._pending) >= self._capacity:
                self._drop("full")
                return
            pending = self._pending[key] = _Pending(reference, type, reason, message)
        pending.times += 1
        self._idle.clear()
        self._something.set()

    def record_transitions(
        self,
        about: Resource,
        before: tuple[Condition, ...],
        after: tuple[Condition, ...],
        *,
        bad: frozenset[str] = frozenset(),
    ) -> None:
        """One event for each condition whose status or reason changed: Warning for those in `bad` and for Stalled."""
        for change in transitions(before, after):
            if change.after.reason:
                alarming = change.after.reason in bad or (
                    change.after.type == "Stalled" and change.after.status == "True"
                )
                self.record(about, "Warning" if alarming else "Normal", change.after.reason, change.after.message)

    async def run(self) -> None:
        """Sends until cancelled."""
        while True:
            await self._something.wait()
            self._something.clear()
            while self._pending:
                key, pending = self._pending.popitem(last=False)
                try:
                    await self._send(key, pending)
                    self._repeated.clear()
                except KubernetesError as error:
                    # An event is not worth a retry that delays the next ones: the condition on the object says it too.
                    self._drop("refused")
                    self._repeated.warning("event could not be written", reason=pending.reason, error=str(error))
            self._idle.set()

    async def flush(self) -> None:
        """Returns when everything that was recorded so far has been sent or given up."""
        await self._idle.wait()

    async def _send(self, key: Key, pending: _Pending) -> None:
        known = self._known.get(key)
        for _ in range(3):
            try:
                sent = await (self._create(key, pending) if known is None else self._count(key, known, pending.times))
            except AlreadyExists:
                known = await self._api.get(key)  # made by the process that led before us
            except Conflict:
                known = await self._api.get(key)
            except NotFound:
                if known is None:
                    raise  # the namespace is gone
                known = None  # the server has let it expire
            else:
                self._known[key] = sent
                self._known.move_to_end(key)
                if len(self._known) > _REMEMBERED:
                    self._known.popitem(last=False)
                return
        self._drop("contended")

    async def _create(self, key: Key, pending: _Pending) -> Event:
        made = event_of(
            pending.about,
            pending.type,
            pending.reason,
            pending.message,
            metadata=ObjectMeta(name=key.name, namespace=key.namespace),
            component=self._component,
            at=self._clock.now(),
            times=pending.times,
        )
        return await self._api.create(made)

    async def _count(self, key: Key, known: Event, times: int) -> Event:
        now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        change = {"count": known.count + times, "lastTimestamp": now}
        return await self._api.patch(key, change, resource_version=known.metadata.resource_version)

    def _drop(self, why: str) -> None:
        if self._dropped is not None:
            self._dropped(why)


def reference_to(about: Resource) -> ObjectReference:
    """Points at an object as it is."""
    return ObjectReference(
        api_version=about.kind.api_version,
        kind=about.kind.kind,
        namespace=about.metadata.namespace,
        name=about.metadata.name,
        uid=about.metadata.uid,
        resource_version=about.metadata.resource_version,
    )


def event_of(
    about: ObjectReference,
    type: EventType,  # noqa: A002
    reason: str,
    message: str,
    *,
    metadata: ObjectMeta,
    component: str,
    at: datetime,
    times: int = 1,
) -> Event:
    """What happened to an object, as the server takes it."""
    at = at.replace(microsecond=0)
    return Event(
        metadata=metadata,
        involved_object=about,
        type=type,
        reason=reason,
        message=message[:_MAX_MESSAGE],
        count=times,
        first_timestamp=at,
        last_timestamp=at,
        source=EventSource(component=component),
        reporting_component=component,
    )


def event_key(about: ObjectReference, type: str, reason: str, message: str) -> Key:  # noqa: A002
    """Where an event about this object with this text lives: always the same place, so that repeats add up."""
    digest = hashlib.sha256("\0".join((about.uid, type, reason, message)).encode()).hexdigest()[:16]
    # Names of objects may fill the limit of 253 on their own.
    return Key(about.namespace or "default", f"{about.name[:230].rstrip('.-')}.{digest}")
