"""What may be started now, as far as the fleet, the rollouts and the Devices themselves say: read from the caches.

Both loops ask it: the one over FlashJobs before it claims, the one over Devices again right before a flash Pod is made.
`limits` decides; nothing here is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from edgewright.api.device import Device
from edgewright.api.firmwarerollout import Budget, FirmwareRollout
from edgewright.api.flashjob import FlashJob
from edgewright.controllers.flashjob.admission import Held, Wish
from edgewright.controllers.flashjob.context import (
    BY_LABEL,
    BY_ROLLOUT,
    BY_START,
    BY_TROUBLE,
    Context,
    by_device,
    in_trouble,
    minute_of,
    of_job,
    starts_of,
)
from edgewright.controllers.flashjob.limits import (
    MINUTE,
    Group,
    GroupCount,
    Owner,
    Refusal,
    RolloutLimits,
    Stop,
    allowed_in,
    is_broken,
    owner_of,
    stop_of,
)
from edgewright.controllers.flashjob.manifests import endpoint_of, made_for, pod_key
from edgewright.controllers.flashjob.outcomes import attempt_of
from edgewright.controllers.flashjob.waits import Wait
from edgewright.controllers.flashjob.windows import open_until


class Starts:
    """What the caches say of starts."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def stop(self, job: FlashJob, now: datetime) -> Stop | None:
        """What stops every start of a job."""
        owner = owner_of(job)
        return stop_of(self._context.fleet, owner, self._rollout(owner), now)

    def rollout(self, job: FlashJob) -> FirmwareRollout | None:
        """The rollout that a job belongs to."""
        owner = owner_of(job)
        found = self._rollout(owner)
        return found if found is not None and owner is not None and found.metadata.uid == owner.uid else None

    def _rollout(self, owner: Owner | None) -> FirmwareRollout | None:
        return None if owner is None else self._context.rollouts.get(owner.key)

    def closes(self, job: FlashJob, now: datetime) -> datetime | None:
        """When the windows of a job's rollout close that are open now; None where it has none."""
        rollout = self.rollout(job)
        return None if rollout is None else open_until(rollout.spec.windows, now)

    def barred(self, job: FlashJob, device: Device, owner: Owner | None) -> Refusal | None:
        """Why a job may not have a device at all, as things are; `owner` is the rollout that the job belongs to."""
        refusal = self.not_allowed(job, device)
        if refusal is not None:
            return refusal
        if self._context.rests(job.metadata.uid, device.metadata.name):
            return Wait.POD, "it could not go on, and gave the device back: it goes on when others had their turn"
        if owner is not None and device.status.quarantined:
            return Wait.QUARANTINE, (
                f"it is quarantined after {device.status.failures} failed flashes: look at it, then run edgewright"
                f" devices release {device.metadata.name}"
            )
        return None

    def not_allowed(self, job: FlashJob, device: Device) -> Refusal | None:
        """Why jobs of this namespace may not flash a Device, or what is at its address under another name."""
        namespace = job.metadata.namespace
        if not device.spec.allows(namespace):
            name = device.metadata.name
        elif self._context.restricted and self._forbidden_at(endpoint_of(job.spec, device), namespace):
            name = "at its address"
        else:
            return None
        return Wait.NAMESPACE, (
            f"Device {name} may not be flashed by jobs of namespace {namespace}: see its spec.allowedNamespaces"
        )

    def _forbidden_at(self, endpoint: str, namespace: str) -> bool:
        return not all(each.spec.allows(namespace) for each in self._context.at(endpoint))

    def limits_of(
        self, job: FlashJob, wishes: Iterable[Wish], claims: Sequence[Held], now: datetime
    ) -> dict[str, RolloutLimits]:
        """The limits that hold for the wishes of a job, by the uid of its rollout; none where it is of no rollout."""
        rollout = self.rollout(job)
        if rollout is None:
            return {}
        groups = {group for wish in wishes for group in wish.groups}
        return {rollout.metadata.uid: self.limits(rollout, claims, groups, now)}

    def limits(
        self, rollout: FirmwareRollout, claims: Iterable[Held], groups: Iterable[Group], now: datetime
    ) -> RolloutLimits:
        """The limits of a rollout, and what counts against them; `groups` are those that matter."""
        spec = rollout.spec
        mine = [held for held in claims if held.claim.rollout == rollout.metadata.uid]
        starts, pending = self._recent(rollout, mine, now) if spec.max_per_minute is not None else ({}, frozenset())
        budgets = {budget.label: budget for budget in spec.budgets}
        return RolloutLimits(
            name=rollout.metadata.name,
            max_concurrent=spec.max_concurrent,
            max_per_minute=spec.max_per_minute,
            lingering=self._lingering(rollout, mine) if spec.max_concurrent is not None else 0,
            starts=starts,
            pending=pending,
            groups={group: self._count(budgets[group[0]], group) for group in set(groups)},
        )

    def _lingering(self, rollout: FirmwareRollout, mine: Iterable[Held]) -> int:
        """Of how many devices something of the rollout's jobs is left that no active claim accounts for."""
        active = {held.device for held in mine if held.claim.not_before is None}
        left: set[str] = set()
        for job in self._context.jobs.by(BY_ROLLOUT, rollout.metadata.uid):
            left.update(by_device(of_job(self._context.pods, job.metadata.uid)))
            left.update(by_device(of_job(self._context.services, job.metadata.uid)))
        return len(left - active)

    def _recent(
        self, rollout: FirmwareRollout, mine: Iterable[Held], now: datetime
    ) -> tuple[dict[str, datetime], frozenset[str]]:
        """When devices were last started for a rollout within a minute, and which may be at any moment."""
        uid, ledger = rollout.metadata.uid, self._context.devices
        starts: dict[str, datetime] = {}
        pending = set()
        minutes = range(minute_of(now - MINUTE), minute_of(now) + 2)
        seen = [key for minute in minutes for key in ledger.cache.keys(BY_START, (uid, minute))]
        for key in {*seen, *(device.key for device in ledger.pending)}:
            device = ledger.get(key)
            times = [time for whose, time in starts_of(device) if whose == uid] if device is not None else []
            if times:
                starts[key.name] = max(times)
        for held in mine:
            if held.claim.not_before is not None:
                continue
            made = self._made(held)
            if made is None:
                pending.add(held.device)
            else:
                starts[held.device] = max(made, starts.get(held.device, made))
        return {name: time for name, time in starts.items() if time > now - MINUTE}, frozenset(pending)

    def _made(self, held: Held) -> datetime | None:
        """When the Pod of a claim was made; None while there is none."""
        device, pod = self._context.device(held.device), self._context.pods.get(pod_key(held.claim))
        if device is None or pod is None or not made_for(pod, device, held.claim):
            return None
        return pod.metadata.creation_timestamp if attempt_of(pod) == held.claim.attempt else None

    def _count(self, budget: Budget, group: Group) -> GroupCount:
        ledger, (label, value) = self._context.devices, group
        size = ledger.cache.count(BY_LABEL, group)
        keys = ledger.cache.keys(BY_TROUBLE, group)
        keys += [device.key for device in ledger.pending if device.metadata.labels.get(label) == value]
        found = [device for key in set(keys) if (device := ledger.get(key)) is not None and in_trouble(device)]
        return GroupCount(
            size=size,
            allowed=allowed_in(budget, size),
            claimed=frozenset(each.metadata.name for each in found if each.status.claim is not None),
            broken=frozenset(each.metadata.name for each in found if is_broken(each)),
        )
