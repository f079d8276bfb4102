"""The loop over FirmwareRollouts: decides, creates and changes their FlashJobs, and shows how far they are.

`operator` adds it to the manager. Devices change far more often than a rollout has to be looked at, so a pass follows
another no sooner than a second later, and one over a large fleet later still. It writes FlashJobs when a batch opens,
closes or changes, and the status only where it has changed. It never writes the spec of a rollout or a Device.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from edgewright.api.device import Device
from edgewright.api.firmwarerollout import (
    CLOSED_ANNOTATION,
    REQUESTS_ANNOTATION,
    ROLLOUT_UID_LABEL,
    STOPPED_ANNOTATION,
    FirmwareRollout,
    FirmwareRolloutStatus,
    RolloutPhase,
)
from edgewright.api.flash_pod import Protocol
from edgewright.api.flashjob import FlashJob
from edgewright.api.fleet import FLEET, Fleet
from edgewright.api.protocols import offered
from edgewright.controllers.ledger import Ledger
from edgewright.controllers.metrics import RolloutMetrics
from edgewright.controllers.rollout.actions import (
    Action,
    CloseJob,
    CreateJob,
    CreateRecall,
    DeleteJob,
    DeleteRollout,
    ExtendJob,
    HaltJob,
    LimitJob,
    NoteRequests,
    ResumeJob,
)
from edgewright.controllers.rollout.decisions import decide
from edgewright.controllers.rollout.recall import recall_names
from edgewright.controllers.rollout.soak import Watch, observer
from edgewright.controllers.rollout.triggers import Watchers, tells_of_device, tells_of_job
from edgewright.controllers.settings import Settings
from edgewright.runtime import logs
from edgewright.runtime.clock import Clock
from edgewright.runtime.controller import Controller, For, Maps, Owns, Result, requeue_after
from edgewright.runtime.errors import AlreadyExists, Conflict, NotFound
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key

_log = logs.get("controllers.rollout")

BY_CONTROLLER: Final = "by-controller"
WARNINGS: Final = frozenset({"InvalidSpec", "GateFailed", "DevicesFailed", "PausedByRule", "Aborted", "Recalled"})
"""The reasons that are worth a warning."""
_LARGE: Final = 5000
"""Beyond so many devices a pass takes long, and comes less often."""
_FINISHED: Final = 10.0
"""How much less often a rollout is looked at that has ended."""
_HEAVY: Final = 200
"""From so many devices on progress alone is shown less often: once it is one part in twenty-five, or after minutes."""
_PROGRESS: Final = 25
_SELDOM: Final = 300.0
_LOOK_AGAIN: Final = 2.0
"""How much less often a rollout is looked at that only waits for devices to be seen."""
_ENDED: Final = frozenset(
    {RolloutPhase.COMPLETED.value, RolloutPhase.ABORTED.value, RolloutPhase.RECALLED.value, RolloutPhase.FAILED.value}
)


@dataclass
class _Memory:
    """What this process remembers of a rollout between passes; nothing of it is needed by the next process."""

    uid: str
    passed: float | None = None
    """When the last pass that went well began."""
    generation: int = 0
    """Of the spec that it was about."""
    wrote: float | None = None
    """When the status was last written."""
    devices: int = 0
    ended: bool = False
    since: datetime | None = None
    """When this process first looked at it."""


class Rollouts:
    """Reconciles FirmwareRollouts."""

    def __init__(self, manager: Manager, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        protocols = frozenset((*Protocol, *offered())) if settings.probe else ()
        self._observes = observer(probe=settings.probe, local=settings.local, protocols=protocols)
        self._clock = clock
        self._client = manager.client
        self._recorder = manager.recorder
        self.rollouts = manager.cache(FirmwareRollout)
        self.devices = manager.cache(Device)
        self.fleets = manager.cache(Fleet)
        self._jobs = Ledger(manager.cache(FlashJob))
        self._written = Ledger(self.rollouts)
        self.jobs = self._jobs.cache
        self.jobs.add_index(BY_CONTROLLER, _rollout_of)
        self._memory: dict[Key, _Memory] = {}
        self.metrics = RolloutMetrics(manager.metrics.registry, rollouts=self.rollouts, leading=lambda: manager.leads)

    async def reconcile(self, key: Key) -> Result | None:
        """One pass over a rollout."""
        rollout = self._written.get(key)
        if rollout is None or rollout.deleting:
            self._memory.pop(key, None)  # its FlashJobs go with it, by their owner reference
            return None
        memory = self._remember(rollout)
        began = self._clock.elapsed()
        every = self._settings.timing.status_every * max(1.0, memory.devices / _LARGE)
        if memory.ended:
            every *= _FINISHED
        asked = memory.generation != rollout.metadata.generation
        if memory.passed is not None and memory.passed + every > began and not asked:
            return requeue_after(memory.passed + every - began)
        memory.passed = None  # a pass that fails is followed by another as the queue says, not as the debounce does
        after = await self._advance(rollout, memory)
        memory.passed, memory.generation = began, rollout.metadata.generation
        return None if after is None else requeue_after(after)

    # --- a pass ----------------------------------------------------------------------------------------------------

    async def _advance(self, rollout: FirmwareRollout, memory: _Memory) -> float | None:
        namespace = rollout.metadata.namespace
        named = ((name, self._written.get(Key(namespace, name))) for name in recall_names(rollout))
        decision = decide(
            rollout,
            self.devices,
            self._jobs_of(rollout),
            self._clock.now(),
            fleet=self.fleets.get(Key("", FLEET)),
            recalls={name: other for name, other in named if other is not None},
            observed_by="Prober" if self._settings.probe else "Instances",
            watch=Watch(
                now=self._clock.now(),
                observes=self._observes,
                since=memory.since,
                grace=self._settings.timing.soak_grace,
            ),
        )
        for action in decision.actions:
            await self._carry_out(rollout, action)
        status = decision.status
        memory.devices = status.counts.total if status.counts is not None else 0
        if decision.actions:
            memory.ended = False
            return self._settings.timing.status_every  # what is shown follows from what is there then
        memory.ended = status.phase in _ENDED
        left = await self._show(rollout, status, memory)
        # That a device was seen once more is no reason for a pass of its own: it happens all the time.
        soon = _LOOK_AGAIN * self._settings.timing.status_every if decision.unseen else None
        found = [each for each in (decision.after, left, soon) if each is not None]
        return min(found) if found else None

    def _jobs_of(self, rollout: FirmwareRollout) -> list[FlashJob]:
        """The FlashJobs that a rollout owns, our own writes included."""
        uid = rollout.metadata.uid
        keys = {job.key: None for job in self.jobs.by(BY_CONTROLLER, uid)}
        keys.update({job.key: None for job in self._jobs.pending if uid in _rollout_of(job)})
        found = (self._jobs.get(key) for key in keys)
        return [job for job in found if job is not None and uid in _rollout_of(job)]

    async def _carry_out(self, rollout: FirmwareRollout, action: Action) -> None:
        match action:
            case CreateJob():
                await self._create(action)
            case ExtendJob():
                await self._patch(action.job, {"spec": {"uuid": list(action.uuids)}})
            case HaltJob():
                stop = msgspec.json.encode(action.stop).decode()
                await self._patch(
                    action.job, {"metadata": {"annotations": {STOPPED_ANNOTATION: stop}}, "spec": {"paused": True}}
                )
                self.metrics.stopped(action.stop.action)
            case ResumeJob():
                await self._patch(
                    action.job, {"metadata": {"annotations": {STOPPED_ANNOTATION: None}}, "spec": {"paused": None}}
                )
            case LimitJob():
                await self._patch(action.job, {"spec": {"maxConcurrent": action.max_concurrent}})
            case NoteRequests():
                noted = msgspec.json.encode(action.requests).decode()
                await self._patch(action.job, {"metadata": {"annotations": {REQUESTS_ANNOTATION: noted}}})
            case CloseJob():
                closed = msgspec.json.encode(action.closed).decode()
                await self._patch(action.job, {"metadata": {"annotations": {CLOSED_ANNOTATION: closed}}})
            case DeleteJob():
                await self._delete(action.job)
            case CreateRecall():
                await self._recall(action.rollout)
            case DeleteRollout():
                await self._expire(rollout)

    async def _create(self, action: CreateJob) -> None:
        try:
            self._jobs.wrote(await self._client.of(FlashJob).create(action.job))
        except AlreadyExists as error:
            # The process that led before us made it, and our cache is about to tell; or a job of others has its name.
            raise Conflict(error.status, request=error.request) from error
        if action.opens:
            self.metrics.opened()

    async def _patch(self, job: FlashJob, change: dict[str, Any]) -> None:
        """Changes a FlashJob, unless somebody changed it since."""
        metadata = job.metadata
        api = self._client.of(FlashJob)
        self._jobs.wrote(await api.patch(job.key, change, resource_version=metadata.resource_version, uid=metadata.uid))

    async def _delete(self, job: FlashJob) -> None:
        try:
            await self._client.of(FlashJob).delete(job.key, uid=job.metadata.uid)
        except NotFound:
            return

    async def _recall(self, recall: FirmwareRollout) -> None:
        try:
            self._written.wrote(await self._client.of(FirmwareRollout).create(recall))
        except AlreadyExists as error:
            raise Conflict(error.status, request=error.request) from error

    async def _expire(self, rollout: FirmwareRollout) -> None:
        """Deletes a rollout whose time after its end is over, unless it asks for something else by now."""
        metadata = rollout.metadata
        try:
            await self._client.of(FirmwareRollout).delete(
                rollout.key, uid=metadata.uid, resource_version=metadata.resource_version
            )
        except NotFound:
            return

    # --- showing ---------------------------------------------------------------------------------------------------

    async def _show(self, rollout: FirmwareRollout, status: FirmwareRolloutStatus, memory: _Memory) -> float | None:
        """Writes the status where it has changed and the last write is long enough ago; when to come back, if not."""
        if status == rollout.status:
            return None
        every = self._settings.timing.status_every
        if progress_only(rollout.status, status):
            every *= _SELDOM
        now = self._clock.elapsed()
        if memory.wrote is not None and memory.wrote + every > now:
            return memory.wrote + every - now
        written = await self._client.of(FirmwareRollout).write_status(rollout, status)
        memory.wrote = self._clock.elapsed()
        self._written.wrote(written)
        self._recorder.record_transitions(rollout, rollout.status.conditions, status.conditions, bad=WARNINGS)
        return None

    def _remember(self, rollout: FirmwareRollout) -> _Memory:
        memory = self._memory.get(rollout.key)
        if memory is None or memory.uid != rollout.metadata.uid:
            memory = self._memory[rollout.key] = _Memory(rollout.metadata.uid, since=self._clock.now())
        return memory


def add_rollouts(manager: Manager, settings: Settings, clock: Clock) -> Controller:
    """Adds the loop over rollouts to the manager."""
    rollouts = Rollouts(manager, settings, clock)
    watchers = Watchers(rollouts.rollouts)

    def all_keys(_: object) -> Iterator[Key]:
        return (rollout.key for rollout in rollouts.rollouts)

    return manager.controller(
        "rollout",
        rollouts.reconcile,
        For(rollouts.rollouts),
        Owns(rollouts.jobs, when=tells_of_job),
        Maps(rollouts.devices, watchers.of_device, when=tells_of_device),
        Maps(rollouts.fleets, all_keys),
        workers=2,
    )


def _rollout_of(job: FlashJob) -> Iterable[str]:
    """The uid of the rollout that controls a FlashJob."""
    if ROLLOUT_UID_LABEL not in job.metadata.labels:
        return ()
    return tuple(
        each.uid for each in job.metadata.owner_references if each.controller and each.kind == FirmwareRollout.kind.kind
    )


def progress_only(before: FirmwareRolloutStatus, after: FirmwareRolloutStatus) -> bool:
    """Whether nothing has changed but how many devices stand where, and that by little."""
    if (before.phase, before.batch, before.observed_generation, before.revision, before.recall) != (
        after.phase,
        after.batch,
        after.observed_generation,
        after.revision,
        after.recall,
    ):
        return False
    if before.counts is None or after.counts is None or before.counts.total != after.counts.total:
        return False
    if after.counts.total < _HEAVY:
        return False
    if [(each.type, each.status, each.reason) for each in before.conditions] != [
        (each.type, each.status, each.reason) for each in after.conditions
    ]:
        return False
    moved = abs(_ended(after) - _ended(before))
    return moved * _PROGRESS < after.counts.total or not moved


def _ended(status: FirmwareRolloutStatus) -> int:
    counts = status.counts
    return 0 if counts is None else counts.succeeded + counts.failed + counts.regressed + counts.current
