"""The loop over FlashJobs: accepts the spec, finds its devices, claims those that may start, and shows how far it is.

`operator` adds it to the manager. What follows a claim (Service, Pod, outcome) is the matter of the loop over Devices
in `device_loop`; the two meet only on the Device. It never writes spec, and it makes no request for a job that is
settled.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from edgewright.api.device import MAX_TYPE, Device, DeviceSpec
from edgewright.api.flashjob import FINALIZER, FINALIZERS, DeviceState, FlashJob, FlashJobStatus
from edgewright.controllers.flashjob.admission import Admission, ForeignFlash, Wish, admit
from edgewright.controllers.flashjob.claims import Claims, Refused, lingering, wishes_of
from edgewright.controllers.flashjob.context import Context, by_device, of_job
from edgewright.controllers.flashjob.events import tell_lost, telling
from edgewright.controllers.flashjob.names import device_name, state_of
from edgewright.controllers.flashjob.predecessor import Estate, Meant, Predecessor
from edgewright.controllers.flashjob.progress import (
    DeviceStanding,
    JobSnapshot,
    Need,
    Survey,
    standing_of,
    survey,
    waits_of,
)
from edgewright.controllers.flashjob.reasons import WARNINGS, Reason
from edgewright.controllers.flashjob.secrets import Secrets
from edgewright.controllers.flashjob.starts import Starts
from edgewright.controllers.flashjob.status import Hold, status_of
from edgewright.controllers.flashjob.triggers import (
    every_job,
    is_gone,
    jobs_of,
    jobs_of_rollout,
    limited_jobs,
    tells_something,
    waiting_for_room,
)
from edgewright.controllers.flashjob.validation import in_a_sentence, problems
from edgewright.controllers.flashjob.waits import Wait
from edgewright.controllers.ledger import Ledger
from edgewright.runtime import logs
from edgewright.runtime.controller import Controller, For, Maps, Owns, Result, requeue_after
from edgewright.runtime.errors import AlreadyExists, Conflict, NotFound
from edgewright.runtime.manager import Manager
from edgewright.runtime.objects import Key, ObjectMeta
from edgewright.runtime.predicates import intent_changed

_log = logs.get("controllers.flashjob.jobs")

PASS_EVERY: Final = 0.2
"""Seconds from one pass over a job to the next: its devices change far more often than it has to be looked at."""
MAX_CLAIMS: Final = 200
"""How many devices are claimed in one pass; the next one goes on."""
_UNTOLD: Final = frozenset({Wait.BUDGET, Wait.NAMESPACE, Wait.POD})
"""What may come about without that anybody tells the job."""
_LARGE: Final = 2000
"""Beyond so many devices a pass takes long, and comes less often."""
_HEAVY: Final = 200
"""Beyond so many devices a status costs the server more than flashing a device, and is written less often."""
_SELDOM: Final = 5.0
"""How much less often at the most, while the job goes on; the last one is never late."""


@dataclass
class _Memory:
    """What this process remembers of a job between passes; nothing of it is needed by the next process."""

    uid: str
    generation: int
    observed: datetime
    passed: float | None = None
    """When the last pass that went well began."""
    wrote: float | None = None
    """When the status was last written."""
    survey: Survey = field(default_factory=Survey)
    """Where its devices stood in the last pass."""


@dataclass
class _Pass:
    """One pass over one job, as far as it has come."""

    job: FlashJob
    snapshot: JobSnapshot
    standings: list[DeviceStanding]
    hold: Hold | None = None
    waiting: Mapping[str, str] = field(default_factory=dict)
    """Why devices wait, by the names of their Devices, where more is known than their standings say."""
    waits: Mapping[str, Wait] = field(default_factory=dict)
    """The same in a word."""
    after: float | None = None
    """In how many seconds the next pass is due at the latest."""

    def within(self, seconds: float) -> None:
        """Asks for another pass after so many seconds at the latest."""
        self.after = seconds if self.after is None else min(self.after, seconds)

    def wait_for(self, admission: Admission, refused: Mapping[str, str]) -> None:
        """Notes why devices wait: they were not admitted, or the server refuses to have their Devices written."""
        self.waiting = {**admission.waiting, **refused}
        self.waits = {**admission.waits, **dict.fromkeys(refused, Wait.DEVICE)}


class Jobs:
    """Reconciles FlashJobs."""

    def __init__(self, context: Context, predecessor: Predecessor) -> None:
        self._context = context
        self._settings = context.settings
        self._timing = context.settings.timing
        self._clock = context.clock
        self._jobs = Ledger(context.jobs)
        self._memory: dict[Key, _Memory] = {}
        self._predecessor = predecessor
        self._starts = Starts(context)
        self._claims = Claims(context)
        self._claiming = asyncio.Lock()
        self._secrets = Secrets(context.client, context.clock, every=self._timing.recheck)

    async def reconcile(self, key: Key) -> Result | None:
        """One pass over a job."""
        cached = self._context.jobs.get(key)
        if cached is None:
            gone = self._memory.pop(key, None)
            if gone is not None:
                self._predecessor.forget(gone.uid)
                self._claims.forget(gone.uid)
                self._context.metrics.forget(gone.uid)
            self._context.note_limited(key, (), ())
            return None
        known = self._jobs.get(key)
        job = known if known is not None and known.metadata.uid == cached.metadata.uid else cached
        memory = self._remember(job)
        began = self._clock.elapsed()
        # A pass over thousands of devices costs milliseconds, which the devices themselves are waiting for.
        every = PASS_EVERY * max(1.0, len(job.spec.uuids) / _LARGE)
        if memory.passed is not None and memory.passed + every > began:
            return requeue_after(memory.passed + every - began)
        memory.passed = None  # a pass that fails is followed by another as the queue says, not as the debounce does
        after = await (self._end(job) if job.deleting else self._advance(job, memory))
        memory.passed = began
        return None if after is None else requeue_after(after)

    # --- a pass ----------------------------------------------------------------------------------------------------

    async def _advance(self, job: FlashJob, memory: _Memory) -> float | None:
        estate = await self._predecessor.look(job)
        found = problems(job, self._settings)
        if not found:
            await self._introduce(job, estate)
        meant = estate.meant(self._clock.now())
        if meant.annotations:
            job = await self._patch(job, {"annotations": dict(meant.annotations)})
        snapshot = self._look_around(job, memory, meant)
        this = _Pass(job, snapshot, survey(job, snapshot, memory.survey))
        if found:
            this.hold = Hold(reason=found[0].reason, message=in_a_sentence(found), refused=True, accepted=False)
            this.waits = dict.fromkeys(_wishing(this.standings), Wait.SPEC)
        else:
            await self._start(this)
        if estate:
            await self._clear(this, estate)
        await self._let_go(this, estate)
        dues = [standing.due for standing in this.standings if standing.due is not None]
        if dues:
            this.within(max(0.0, (min(dues) - snapshot.now).total_seconds()))
        waits = waits_of(this.standings, this.waits, since=memory.observed)
        self._context.metrics.waits(job.metadata.uid, waits.counts, waits.oldest)
        await self._show(this, memory)
        return this.after

    async def _start(self, this: _Pass) -> None:
        """Claims what may start now; where something keeps the whole job from it, that is said instead."""
        job = this.job
        wishes = wishes_of(job, this.standings, self._starts)
        stop = self._starts.stop(job, this.snapshot.now) if wishes else None
        if stop is not None:
            self._hold_up(this, Hold(reason=stop.reason, message=stop.message), stop.message, stop.wait)
            if stop.until is not None:
                this.within((stop.until - this.snapshot.now).total_seconds())
            return
        if job.spec.paused and (wishes or any(each.device is None for each in this.standings)):
            hold = Hold(reason=Reason.PAUSED, message="paused: no further device is started")
            self._hold_up(this, hold, "paused", Wait.PAUSED)
            return
        if not wishes:
            self._context.note_limited(job.key, (), ())
            return
        refused = self._claims.refused(job.metadata.uid)
        if refused:
            this.within(self._timing.recheck)
            wishes = [wish for wish in wishes if wish.device not in refused]
        admission = self._admit(this, wishes)
        this.wait_for(admission, refused)
        if not admission.start:
            return
        block = await self._predecessor.blocks()
        if block is not None:
            self._hold_up(this, Hold(reason=block.reason, message=block.message), block.short, Wait.OTHER_OPERATOR)
            this.within(block.after)
            return
        foreign = await self._predecessor.flashing(now=this.snapshot.now)
        if foreign:
            admission = self._admit(this, wishes, foreign)
            this.wait_for(admission, refused)
        devices = _devices_by_name(this.standings)
        starting = [devices[wish.device] for wish in admission.start]
        problem = await self._secrets.problem(job, starting, self._settings)
        if problem is not None:
            await self._give_back(this, starting)
            hold = Hold(reason=problem.reason, message=str(problem), accepted=False)
            self._hold_up(this, hold, "waits for a Secret", Wait.SECRET)
            this.within(self._timing.recheck)
            return
        await self._claim(this, admission.start)

    def _admit(self, this: _Pass, wishes: Sequence[Wish], foreign: Sequence[ForeignFlash] = ()) -> Admission:
        """Which of the wishes may start, by all claims that there are now."""
        claims, uid = self._claims.known(), this.job.metadata.uid
        now, left = this.snapshot.now, {uid: lingering(this.snapshot, claims, uid)}
        limits = self._starts.limits_of(this.job, wishes, claims, now)
        admission = admit(wishes, claims, now=now, lingering=left, foreign=foreign, limits=limits)
        if admission.unannounced or not _UNTOLD.isdisjoint(admission.waits.values()):
            this.within(self._timing.recheck)
        if admission.due is not None:
            this.within(max(0.0, (admission.due - now).total_seconds()))
        self._context.note_limited(this.job.key, limits, admission.waits.values())
        return admission

    def _hold_up(self, this: _Pass, hold: Hold, short: str, wait: Wait) -> None:
        names = _wishing(this.standings)
        this.hold = hold
        this.waiting, this.waits = dict.fromkeys(names, short), dict.fromkeys(names, wait)

    async def _claim(self, this: _Pass, admitted: Sequence[Wish]) -> None:
        """Writes the claims, and looks again where the devices stand that they are on."""
        if not admitted:
            return
        this.job = await self._with_finalizer(this.job)
        wishes = admitted[:MAX_CLAIMS]
        if len(admitted) > len(wishes):
            this.within(0.0)
        async with self._claiming:
            # Another job may have claimed meanwhile what forbids this: from here on none does.
            still = self._admit(this, wishes) if self._starts.stop(this.job, self._clock.now()) is None else Admission()
            written = await self._claims.write(this.job, still.start, this.standings, now=this.snapshot.now)
        if len(still.start) < len(wishes):
            this.within(PASS_EVERY)
        self._take_note(this, written)

    async def _give_back(self, this: _Pass, starting: Iterable[Device]) -> None:
        """Frees the claims whose next attempt cannot start, so that nobody waits for them in vain.

        What the attempt before made is cleared away first: a Pod without a claim would be taken for one in mid-flash.
        """
        held = [device for device in starting if device.status.claim is not None]
        made = this.snapshot.pods.keys() | this.snapshot.services.keys()
        bare = [device for device in held if device.metadata.name not in made]
        self._take_note(this, await self._claims.release(this.job, bare))

    def _take_note(self, this: _Pass, written: Mapping[str, Device | Refused | None]) -> None:
        """Looks again where the devices stand that were written to, or says why they could not be."""
        if None in written.values():
            this.within(PASS_EVERY)
        refused = {name: each.why for name, each in written.items() if isinstance(each, Refused)}
        if refused:
            this.within(self._timing.recheck)
            this.waiting = {**this.waiting, **refused}
            this.waits = {**this.waits, **dict.fromkeys(refused, Wait.DEVICE)}
        state = state_of(this.job.spec)
        for number, each in enumerate(this.standings):
            device = written.get(each.device.metadata.name) if each.device is not None else None
            if isinstance(device, Device):
                this.standings[number] = standing_of(this.job, each.uuid, device, this.snapshot, state=state)

    async def _introduce(self, job: FlashJob, estate: Estate) -> None:
        """Makes the Device of a job that says where its only device is, and that nobody has discovered."""
        spec = job.spec
        if not spec.host_endpoint or spec.paused or estate.meant(self._clock.now()).devices:
            return
        device = Device(
            metadata=ObjectMeta(name=device_name(spec.uuids[0])),
            # A type may be longer in a FlashJob, as published, than in a Device.
            # It belongs to nobody: the next job may find it elsewhere, as with the original operator.
            spec=DeviceSpec(
                endpoint=spec.host_endpoint, type=(spec.device or "")[:MAX_TYPE], allow_endpoint_override=True
            ),
        )
        try:
            self._context.devices.wrote(await self._context.client.of(Device).create(device))
        except AlreadyExists:
            return  # the cache is about to tell

    # --- finalizers and the end -------------------------------------------------------------------------------------

    async def _with_finalizer(self, job: FlashJob) -> FlashJob:
        """The job with our finalizer on it: nothing of it runs without."""
        finalizers = job.metadata.finalizers
        if FINALIZER in finalizers:
            return job
        self._predecessor.started(job)
        with telling(self._context.recorder, job, Reason.FINALIZER_ERROR):
            return await self._set_finalizers(job, (*finalizers, FINALIZER))

    async def _without_finalizers(self, job: FlashJob) -> FlashJob:
        """The job without the finalizers that we answer for: nothing of it runs any more."""
        rest = [each for each in job.metadata.finalizers if each not in FINALIZERS]
        with telling(self._context.recorder, job, Reason.FINALIZER_REMOVAL_FAILED):
            return await self._set_finalizers(job, rest)

    async def _set_finalizers(self, job: FlashJob, finalizers: Sequence[str]) -> FlashJob:
        return await self._patch(job, {"finalizers": list(finalizers)})

    async def _patch(self, job: FlashJob, metadata: dict[str, Any]) -> FlashJob:
        """Changes the metadata of a job, unless somebody changed the job since."""
        written = await self._context.client.of(FlashJob).patch(
            job.key,
            {"metadata": metadata},
            resource_version=job.metadata.resource_version,
            uid=job.metadata.uid,
        )
        return self._jobs.wrote(written)

    async def _clear(self, this: _Pass, estate: Estate) -> None:
        """Clears away what another operator left and is of no use any more."""
        refused = this.hold is not None and this.hold.refused  # then nothing is ever going to be checked
        settled = [each.uuid for each in this.standings if refused or _is_settled(each)]
        this.within(await estate.clear(this.job, settled=settled))

    async def _let_go(self, this: _Pass, estate: Estate) -> None:
        """Takes the finalizers off a job of which nothing runs any more."""
        held = not FINALIZERS.isdisjoint(this.job.metadata.finalizers)
        under_way = any(standing.claim is not None for standing in this.standings)  # quicker than to ask for all of it
        if not held or estate or under_way or self._something_of(this.job):
            return
        if await self._predecessor.blocks() is not None:
            this.within(self._timing.recheck)
            return
        this.job = await self._without_finalizers(this.job)

    async def _end(self, job: FlashJob) -> float | None:
        """The job is being deleted: its Pods are ended by the loop over Devices, and then it is let go."""
        self._context.metrics.forget(job.metadata.uid)
        if FINALIZERS.isdisjoint(job.metadata.finalizers):
            return None
        estate = await self._predecessor.look(job)
        if estate:
            return await estate.clear(job, settled=())
        if self._something_of(job):
            return self._timing.recheck
        await self._without_finalizers(job)
        return None

    def _something_of(self, job: FlashJob) -> bool:
        """Whether a claim, a Pod or a Service of the job is left."""
        uid = job.metadata.uid
        if self._claims.known(uid):
            return True
        return bool(of_job(self._context.pods, uid) or of_job(self._context.services, uid))

    # --- showing ---------------------------------------------------------------------------------------------------

    async def _show(self, this: _Pass, memory: _Memory) -> None:
        """Writes the status where it has changed and the last write is long enough ago."""
        every = self._timing.status_every
        if any(each.state in (DeviceState.WAITING, DeviceState.FLASHING) for each in this.standings):
            every *= min(_SELDOM, max(1.0, len(this.standings) / _HEAVY))
        now = self._clock.elapsed()
        if memory.wrote is not None and memory.wrote + every > now:
            this.within(memory.wrote + every - now)
            return
        job = this.job
        status = status_of(
            job,
            this.standings,
            observed=memory.observed,
            now=this.snapshot.now,
            hold=this.hold,
            waiting=this.waiting,
            attestation=self._context.settings.attestation,
        )
        status = await self._predecessor.spared(job, status)
        if status != job.status:
            with telling(self._context.recorder, job, Reason.STATUS_UPDATE_FAILED):
                written = await self._context.client.of(FlashJob).write_status(job, status)
            memory.wrote = self._clock.elapsed()
            this.job = self._jobs.wrote(written)
            tell_lost(self._context.recorder, job, this.standings)
            self._context.recorder.record_transitions(job, job.status.conditions, status.conditions, bad=WARNINGS)
        await self._expire(this, status)

    async def _expire(self, this: _Pass, status: FlashJobStatus) -> None:
        """Deletes a job whose time after its end is over."""
        seconds = this.job.spec.ttl_seconds_after_finished
        if seconds is None or status.completion_time is None or self._something_of(this.job):
            return
        left = (status.completion_time + timedelta(seconds=seconds) - this.snapshot.now).total_seconds()
        if left > 0:
            this.within(left)
            return
        try:
            with telling(self._context.recorder, this.job, Reason.DELETION_FAILED):
                # Not one that asks for something else by now, and is not finished any more.
                metadata = this.job.metadata
                await self._context.client.of(FlashJob).delete(
                    this.job.key, uid=metadata.uid, resource_version=metadata.resource_version
                )
        except NotFound:
            return
        except Conflict:
            this.within(PASS_EVERY)

    # --- reading ---------------------------------------------------------------------------------------------------

    def _remember(self, job: FlashJob) -> _Memory:
        """What is remembered of the job: again where it is another one, or asks for something else by now."""
        memory = self._memory.get(job.key)
        metadata, status = job.metadata, job.status
        if memory is None or memory.uid != metadata.uid or memory.generation != metadata.generation:
            observed = self._clock.now().replace(microsecond=0)
            if status.observed_generation == metadata.generation and status.observed_time is not None:
                observed = status.observed_time
            fresh = _Memory(metadata.uid, metadata.generation, observed)
            if memory is not None and memory.uid == metadata.uid:
                fresh.wrote = memory.wrote
            memory = self._memory[job.key] = fresh
        return memory

    def _look_around(self, job: FlashJob, memory: _Memory, meant: Meant) -> JobSnapshot:
        uid = job.metadata.uid
        return JobSnapshot(
            devices=meant.devices,
            pods=by_device(of_job(self._context.pods, uid)),
            services=by_device(of_job(self._context.services, uid)),
            traces=meant.traces,
            observed=memory.observed,
            now=self._clock.now(),
            local=self._settings.local,
            living=self._context.keeps,
        )


def add_jobs(manager: Manager, context: Context, predecessor: Predecessor, *, workers: int = 4) -> Controller:
    """Adds the loop over FlashJobs to the manager; `predecessor` is what the other loop asks too."""
    jobs = Jobs(context, predecessor)
    return manager.controller(
        "flashjob",
        jobs.reconcile,
        For(context.jobs),
        Maps(context.devices.cache, lambda device: jobs_of(device, context), when=tells_something),
        Owns(context.pods.cache),
        Owns(context.services.cache),
        Maps(context.pods.cache, predecessor.jobs_of),
        Maps(context.jobs, lambda job: waiting_for_room(job, context), when=is_gone),
        Maps(context.pods.cache, lambda pod: limited_jobs(pod, context), when=is_gone),
        Maps(context.services.cache, lambda service: limited_jobs(service, context), when=is_gone),
        Maps(context.rollouts, lambda rollout: jobs_of_rollout(rollout, context), when=intent_changed),
        Maps(context.fleets, lambda fleet: every_job(fleet, context), when=intent_changed),
        workers=workers,
    )


def _devices_by_name(standings: Iterable[DeviceStanding]) -> dict[str, Device]:
    return {each.device.metadata.name: each.device for each in standings if each.device is not None}


def _wishing(standings: Iterable[DeviceStanding]) -> list[str]:
    """The names of the Devices that could be claimed or gone on with."""
    return [
        each.device.metadata.name for each in standings if each.need is not Need.NOTHING and each.device is not None
    ]


def _is_settled(standing: DeviceStanding) -> bool:
    """Whether it is known, without what another operator left of it, how to go on with a device."""
    return standing.claim is not None or standing.record is not None or standing.state is DeviceState.FAILED
