"""Leader election: of several processes one works, by a Lease object that it must keep renewing.

The lease is also the fence that `client.fenced` asks before every request: it allows sending until `renew_within`
seconds after the start of the last renewal that the server confirmed, while others wait `duration` seconds after they
saw that renewal. Both are measured on each one's own clock, which runs on while the machine is suspended; wall clocks
are written for people and never compared.
"""

from __future__ import annotations

import math
import os
import random
import socket
import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Literal

from edgewright.runtime import logs
from edgewright.runtime.client import Client
from edgewright.runtime.clock import Clock, SystemClock
from edgewright.runtime.errors import AlreadyExists, Conflict, KubernetesError, LeaseLost, NotFound
from edgewright.runtime.objects import Key, Kind, ObjectMeta, Resource, Struct

_log = logs.get("runtime.lease")


class LeaseSpec(Struct, frozen=True, kw_only=True):
    """Who holds a lease; the times are RFC 3339 with microseconds, as the server demands."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Resource, frozen=True, kw_only=True):
    """A claim on a role that one process at a time holds and keeps renewing."""

    kind: ClassVar[Kind] = Kind(group="coordination.k8s.io", version="v1", kind="Lease", plural="leases")

    spec: LeaseSpec = LeaseSpec()


@dataclass(frozen=True)
class Observed:
    """A lease as it was last seen to change, or to be `gone`, and when that was on our own clock."""

    lease: Lease
    at: float
    gone: bool = False


def decide(observed: Observed | None, identity: str, now: float, duration: float) -> Literal["create", "take", "wait"]:
    """What somebody who wants to lead may do about the lease as it was last seen."""
    if observed is None:
        return "create"
    free: Literal["create", "take"] = "create" if observed.gone else "take"
    spec = observed.lease.spec
    if not spec.holder_identity or spec.holder_identity == identity:
        return free
    # The holder's own promise counts, and it runs from when we saw it renewed: never from the times written in it. So
    # it does from when we saw the lease deleted, because the holder may not have noticed yet.
    promised = spec.lease_duration_seconds or duration
    return free if now >= observed.at + promised else "wait"


def own_identity() -> str:
    """A name for this process that no other has, and that tells people where it runs."""
    return f"{os.environ.get('POD_NAME') or socket.gethostname()}_{uuid.uuid4().hex[:8]}"


class Leadership:
    """One process's part in an election. Its `remaining` is the fence for every request of the leader."""

    def __init__(
        self,
        client: Client,
        key: Key,
        *,
        identity: str | None = None,
        duration: float = 15.0,
        renew_within: float = 10.0,
        retry_every: float = 2.0,
        clock: Clock | None = None,
    ) -> None:
        if not duration > renew_within > retry_every > 0:
            raise ValueError("a lease needs duration > renew_within > retry_every > 0")
        self.key = key
        self.identity = identity or own_identity()
        self._api = client.of(Lease)
        self._duration = duration
        self._renew_within = renew_within
        self._retry_every = retry_every
        self._clock = clock or SystemClock()
        self._observed: Observed | None = None
        self._deadline = -math.inf
        self._repeated = logs.Repeated(_log, now=self._clock.elapsed)
        self.problem: str | None = None
        """Why the lease can be neither asked for nor renewed at the moment; that another holds it is no problem."""

    def remaining(self) -> float:
        """Seconds for which this process may still send requests as the leader; zero or less when it may not."""
        return self._deadline - self._clock.elapsed()

    @property
    def leading(self) -> bool:
        """Whether this process is the leader now."""
        return self.remaining() > 0

    async def acquire(self) -> None:
        """Waits until this process leads."""
        waited_for: str | None = None
        while True:
            try:
                leading = await self._try_to_lead()
                self.problem = None
                if not leading and (holder := self._holder()) and holder != waited_for:
                    waited_for = holder
                    _log.info("waiting for leadership", lease=self.key, holder=holder)
                if leading:
                    self._repeated.clear()
                    _log.info("leading", lease=self.key, identity=self.identity)
                    return
            except KubernetesError as error:
                self.problem = str(error)
                self._repeated.warning("cannot read the lease; retrying", lease=self.key, error=str(error))
            # Jitter, so that several who wait do not ask in step.
            await self._clock.sleep(self._retry_every * random.uniform(0.8, 1.2))  # noqa: S311 - not a secret

    async def hold(self) -> None:
        """Renews until that fails for too long, or somebody else has the lease: then LeaseLost."""
        while True:
            await self._clock.sleep(min(self._retry_every, max(0.0, self.remaining())))
            if not self.leading:
                raise LeaseLost(f"the lease {self.key} could not be renewed in {self._renew_within:g} s")
            try:
                async with self._clock.timeout(self.remaining()):
                    await self._renew()
                self.problem = None
                self._repeated.clear()
            except (Conflict, NotFound) as error:
                await self._look_again(error)
            except (KubernetesError, TimeoutError) as error:
                self.problem = _describe(error)
                self._repeated.warning("lease not renewed; retrying", lease=self.key, error=self.problem)

    async def release(self) -> None:
        """Gives the lease back, so that another need not wait for its end; the last thing that a leader does."""
        if not self.leading:
            return
        # First: whatever is still under way in this process must not send anything once another may lead.
        left, self._deadline = self.remaining(), -math.inf
        try:
            async with self._clock.timeout(left):
                await self._give_back()
            _log.info("released the lease", lease=self.key)
        except (KubernetesError, TimeoutError) as error:
            _log.warning("lease could not be released; it will expire", lease=self.key, error=_describe(error))

    async def _give_back(self) -> None:
        change = {"holderIdentity": None, "leaseDurationSeconds": 1, "renewTime": _micro_time(self._clock.now())}
        while True:
            assert self._observed is not None, "only a leader gives back"  # noqa: S101
            version = self._observed.lease.metadata.resource_version
            try:
                await self._api.patch(self.key, {"spec": change}, resource_version=version)
            except Conflict:
                # A renewal that the stop cut off got through unheard: the lease is newer than we know, and ours still.
                await self._look()
                if self._holder() != self.identity:
                    raise
            else:
                return

    def _holder(self) -> str | None:
        """Who has the lease, as it was seen last."""
        seen = self._observed
        return None if seen is None or seen.gone else seen.lease.spec.holder_identity

    async def _try_to_lead(self) -> bool:
        """One look at the lease and, where it is free, one conditional write."""
        await self._look()
        now = self._clock.elapsed()
        choice = decide(self._observed, self.identity, now, self._duration)
        if choice == "wait":
            return False
        moment = _micro_time(self._clock.now())
        try:
            if self._observed is None or choice == "create":
                spec = self._spec(acquire_time=moment, transitions=0)
                lease = Lease(metadata=ObjectMeta(name=self.key.name, namespace=self.key.namespace), spec=spec)
                written = await self._api.create(lease)
            else:
                before = self._observed.lease
                spec = self._spec(acquire_time=moment, transitions=(before.spec.lease_transitions or 0) + 1)
                written = await self._api.patch(
                    self.key, {"spec": spec.to_raw()}, resource_version=before.metadata.resource_version
                )
        except (AlreadyExists, Conflict, NotFound):
            return False  # somebody else was quicker; the next look shows who
        self._confirmed(written, since=now)
        return self.leading  # an answer can take so long that there is nothing left to lead with

    async def _renew(self) -> None:
        assert self._observed is not None, "only a leader renews"  # noqa: S101
        started = self._clock.elapsed()
        change = {"spec": {"renewTime": _micro_time(self._clock.now())}}
        version = self._observed.lease.metadata.resource_version
        self._confirmed(await self._api.patch(self.key, change, resource_version=version), since=started)

    async def _look_again(self, error: KubernetesError) -> None:
        """The lease is not as we wrote it: ours still (an earlier renewal got through unheard), or lost."""
        try:
            async with self._clock.timeout(self.remaining()):
                await self._look()
        except (KubernetesError, TimeoutError) as later:
            self._repeated.warning("lease cannot be read; retrying", lease=self.key, error=_describe(later))
            return
        if (holder := self._holder()) != self.identity:
            self._deadline = -math.inf
            raise LeaseLost(f"the lease {self.key} is held by {holder or 'nobody'} now") from error

    async def _look(self) -> None:
        """Reads the lease and notes when it last changed."""
        seen = self._observed
        try:
            lease = await self._api.get(self.key)
        except NotFound:
            if seen is not None and not seen.gone:
                self._observed = Observed(seen.lease, self._clock.elapsed(), gone=True)
            return
        if seen is None or seen.gone or seen.lease.metadata.resource_version != lease.metadata.resource_version:
            self._observed = Observed(lease, self._clock.elapsed())

    def _confirmed(self, lease: Lease, *, since: float) -> None:
        # From the start of the request on: others count from when they see its result, which is later.
        self._observed = Observed(lease, since)
        self._deadline = since + self._renew_within

    def _spec(self, *, acquire_time: str, transitions: int) -> LeaseSpec:
        return LeaseSpec(
            holder_identity=self.identity,
            lease_duration_seconds=max(1, math.ceil(self._duration)),
            acquire_time=acquire_time,
            renew_time=acquire_time,
            lease_transitions=transitions,
        )


def _micro_time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _describe(error: Exception) -> str:
    return str(error) or "no answer in time"  # a TimeoutError has no text of its own
