"""Lets Events go an hour after they were last written, as etcd's leases do for kube-apiserver.

`EventExpiry.run` sweeps and then sleeps until the oldest Event is due, so that a quiet cluster costs nothing. It
keeps nothing in memory between sweeps, and an Event that is written again meanwhile stays.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta

from edgewright.local.controllers.resources import OldEvent
from edgewright.runtime import Client, Clock, SystemClock, logs
from edgewright.runtime.errors import Conflict, KubernetesError, NotFound

TTL = timedelta(hours=1)

_log = logs.get("local.expiry")
_SHORTEST_SECONDS = 60.0
_AT_ONCE = 16


def written_at(event: OldEvent) -> datetime | None:
    """When the Event was last written, as far as it says; None where it says nothing."""
    series = event.series.last_observed_time if event.series is not None else None
    times = (event.metadata.creation_timestamp, event.last_timestamp, event.event_time, series)
    return max((time for time in times if time is not None), default=None)


class EventExpiry:
    """Deletes old Events."""

    def __init__(self, client: Client, *, ttl: timedelta = TTL, clock: Clock | None = None) -> None:
        self._api = client.of(OldEvent)
        self._ttl = ttl
        self._clock = clock or SystemClock()
        self._repeated = logs.Repeated(_log, now=self._clock.elapsed)

    async def run(self) -> None:
        """Sweeps now and then until cancelled."""
        while True:
            try:
                wait = await self.sweep()
                self._repeated.clear()
            except KubernetesError as error:
                self._repeated.warning("expired events could not be deleted", error=str(error))
                wait = _SHORTEST_SECONDS
            await self._clock.sleep(max(wait, _SHORTEST_SECONDS))

    async def sweep(self) -> float:
        """Deletes all Events that are too old; the seconds until the next one is."""
        now = self._clock.now()
        due = now + self._ttl  # what is written from now on is not due before
        async for page in self._api.pages():
            old = []
            for event in page.items:
                written = written_at(event)
                if written is not None and written + self._ttl <= now:
                    old.append(event)
                elif written is not None:
                    due = min(due, written + self._ttl)
            for start in range(0, len(old), _AT_ONCE):
                await asyncio.gather(*(self._delete(event) for event in old[start : start + _AT_ONCE]))
        return (due - now).total_seconds()

    async def _delete(self, event: OldEvent) -> None:
        with suppress(NotFound, Conflict):  # gone, or written again and young again
            await self._api.delete(event.key, uid=event.metadata.uid, resource_version=event.metadata.resource_version)
