"""Whether the original operator still runs: two operators must never flash the same devices.

Both loops ask before they start anything. The original is known by its leader Lease, and runs while that is renewed: a
renewal since our last look counts whatever the clocks say, at the first look the time that is written in it does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from edgewright.runtime import logs
from edgewright.runtime.client import Client
from edgewright.runtime.clock import Clock
from edgewright.runtime.errors import Forbidden
from edgewright.runtime.lease import Lease
from edgewright.runtime.objects import Key

_log = logs.get("controllers.flashjob.legacy")

ORIGINAL_LEASE: Final = "338c7440.flashjob.nbfc.io"
"""The leader Lease of the original operator, in whichever namespace it runs."""

_USUAL_DURATION: Final = 15.0
_SLACK: Final = 5.0
"""How far two machines' clocks may be apart, in seconds, at the first look; after that only renewal counts."""


@dataclass(frozen=True)
class Running:
    """The original's operator is at work, by its Lease in this namespace."""

    namespace: str

    @property
    def message(self) -> str:
        """What is the matter and which command ends it."""
        return (
            f"the original FlashJob operator runs in namespace {self.namespace}, so nothing is flashed; stop it with: "
            f"kubectl -n {self.namespace} scale deployment operator-controller-manager --replicas=0"
        )


def running(leases: Iterable[Lease], before: Mapping[Key, str], now: datetime) -> Running | None:
    """Whether one of the Leases is being renewed; `before` holds the times of renewal at the last look."""
    for lease in leases:
        spec = lease.spec
        if not spec.holder_identity or not spec.renew_time:
            continue
        renewed_since = lease.key in before and before[lease.key] != spec.renew_time
        if renewed_since or _fresh(spec.renew_time, spec.lease_duration_seconds or _USUAL_DURATION, now):
            return Running(lease.metadata.namespace)
    return None


def _fresh(renew_time: str, duration: float, now: datetime) -> bool:
    try:
        renewed = datetime.fromisoformat(renew_time)
    except ValueError:
        return False
    if renewed.tzinfo is None:
        renewed = renewed.replace(tzinfo=UTC)
    return abs((now - renewed).total_seconds()) <= duration + _SLACK


class Original:
    """What is known of the original's operator; it is looked for no more often than `every` seconds."""

    def __init__(self, client: Client, clock: Clock, *, every: float) -> None:
        self._leases = client.of(Lease)
        self._clock = clock
        self._every = every
        self._renewals: dict[Key, str] = {}
        self._looked: float | None = None
        self._found: Running | None = None
        self._looking = asyncio.Lock()
        self.sightings = 0
        """How many looks saw it at work: since the last of them it may have made anything for any job."""

    async def look(self) -> Running | None:
        """The original's operator where it runs: what the last look saw, or a new one where that is too long ago."""
        async with self._looking:  # many passes ask at the same moment: one of them looks, the others wait for it
            now = self._clock.elapsed()
            if self._looked is None or now - self._looked >= self._every:
                self._found = await self._look_now()
                self._looked = now
        return self._found

    async def _look_now(self) -> Running | None:
        try:
            leases = (await self._leases.list(fields=f"metadata.name={ORIGINAL_LEASE}")).items
        except Forbidden as error:
            _log.warning("cannot tell whether the original operator runs", error=error)
            leases = []
        found = running(leases, self._renewals, self._clock.now())
        self._renewals = {lease.key: lease.spec.renew_time or "" for lease in leases}
        self.sightings += found is not None
        return found
