"""The Events of one object, the newest first: what the operator, people and others did to it, as Kubernetes keeps it.

They are read with the caller's rights, by the object's uid: those of an earlier object of the same name are not its
own. Kubernetes forgets Events after an hour or so; nothing is kept here.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from aiohttp import web

from edgewright.console.answers import ObjectEvent, ObjectEvents
from edgewright.console.call import Call, answer, segment, shown
from edgewright.console.views import view_for
from edgewright.runtime.events import Event
from edgewright.runtime.objects import Key, Kind

MAX_EVENTS: Final = 50
_MAX_READ: Final = 2000
"""So many Events of one object are looked at to find the newest."""
_NEVER: Final = datetime.min.replace(tzinfo=UTC)


async def object_events(call: Call) -> web.Response:
    """The latest Events of an object that the caller may get, for who may list Events where they are."""
    kind = await call.kind()
    key = Key(call.part("namespace"), call.part("name"))
    uid = await _uid(call, kind, key)
    found: list[Event] = []
    # Those of an object without a namespace are in `default`.
    async for page in call.client.of(Event).pages(key.namespace or "default", fields=f"involvedObject.uid={uid}"):
        found += page.items
        if len(found) >= _MAX_READ:
            break
    return answer(ObjectEvents(items=latest(found)))


async def _uid(call: Call, kind: Kind, key: Key) -> str:
    view = await view_for(call, kind, "get", key.namespace)
    if view is not None and (here := view.kept.get(key)) is not None:
        return here.metadata.uid
    got = await call.exchange("GET", kind.path(segment(key.namespace), key.name))
    return str(shown(got.body)["metadata"]["uid"])


def latest(events: Iterable[Event]) -> tuple[ObjectEvent, ...]:
    """The newest of them, as they are told."""
    newest = heapq.nlargest(MAX_EVENTS, events, key=lambda each: (_time(each) or _NEVER, each.metadata.name))
    return tuple(
        ObjectEvent(
            type=each.type,
            reason=each.reason,
            message=each.message,
            count=max(each.count, each.series.count if each.series else 0, 1),
            first=each.first_timestamp or each.event_time or each.metadata.creation_timestamp,
            last=_time(each),
            source=each.reporting_component or each.source.component,
        )
        for each in newest
    )


def _time(event: Event) -> datetime | None:
    """When it happened last: the two forms of Events say so in different fields."""
    repeated = event.series.last_observed_time if event.series else None
    return repeated or event.last_timestamp or event.event_time or event.metadata.creation_timestamp
