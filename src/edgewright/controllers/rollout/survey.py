"""Where each device of a rollout stands, read from the Devices and from the rollout's FlashJobs in one pass.

The decisions make one survey each time: it counts every device that the rollout means in exactly one place, tells which
ones no batch has yet, and how each batch stands. It goes through the whole fleet, so it is written to be quick. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from edgewright.api.device import STALE, Device, FlashRecord
from edgewright.api.firmwarerollout import REGRESSED, FirmwareRollout, Observe, OutcomeCounts
from edgewright.api.flash_pod import Outcome
from edgewright.api.flashjob import FlashJobSpec
from edgewright.controllers.flashjob.names import state_of
from edgewright.controllers.rollout.jobs import BatchJob, BatchJobs
from edgewright.controllers.rollout.recall import recall_targets
from edgewright.controllers.rollout.requests import Requests
from edgewright.controllers.rollout.selection import choice_of
from edgewright.controllers.rollout.soak import Sight, Watch
from edgewright.controllers.rollout.targets import Barred, Target, targets_of
from edgewright.runtime.conditions import is_true

_GOOD: Final = frozenset(outcome.value for outcome in Outcome if outcome.good)
_SUCCEEDED: Final = Outcome.SUCCEEDED.value
_CURRENT: Final = Outcome.ALREADY_CURRENT.value


@dataclass(slots=True)
class Tally:
    """How the devices of one batch stand."""

    number: int
    succeeded: int = 0
    current: int = 0
    """Proven to have run the version before."""
    failed: int = 0
    regressed: int = 0
    flashing: int = 0
    waiting: int = 0
    quarantined: int = 0
    excluded: int = 0
    unseen: int = 0
    """How many of those that run the new version were not seen since the end of the soak time."""
    lost_at: datetime | None = None
    """When those count as regressed."""
    ended: datetime | None = None
    """When the latest one ended."""

    @property
    def done(self) -> int:
        """How many run the new version."""
        return self.succeeded + self.current

    @property
    def bad(self) -> int:
        """How many failed or regressed."""
        return self.failed + self.regressed

    @property
    def size(self) -> int:
        """How many devices it has."""
        return self.done + self.bad + self.flashing + self.waiting + self.quarantined + self.excluded

    @property
    def pending(self) -> int:
        """How many have not ended, and will."""
        return self.flashing + self.waiting


@dataclass(slots=True)
class Survey:
    """Where all devices stand."""

    tallies: dict[int, Tally] = field(default_factory=dict)
    """Each batch that is open, by its number."""
    outside: Tally = field(default_factory=lambda: Tally(0))
    """The devices that no batch has."""
    candidates: list[Device] = field(default_factory=list)
    """Those of them that a batch may take."""
    presumed: int = 0
    """How many devices say that they run the version, and have not proven it."""
    outcomes: Counter[str] = field(default_factory=Counter)
    """How many devices ended how."""
    fresh: Counter[str] = field(default_factory=Counter)
    """The same of those that ended after somebody resumed it."""
    last_end: datetime | None = None
    """When the latest device ended."""
    retryable: dict[int, list[Device]] = field(default_factory=dict)
    """Those that are to be tried once more, by batch."""
    fallen: dict[str, list[str]] = field(default_factory=dict)
    """Those that have regressed, by the uid of their job."""
    unknown: list[str] = field(default_factory=list)
    """Those that are to go back, and nobody knows to what."""
    unfinished: set[str] = field(default_factory=set)
    """The uids of the jobs that have a device that has not ended."""
    busy: set[str] = field(default_factory=set)
    """The uids of all jobs that have a claim on a device."""
    sources: int = 0
    """How many devices the rollout that is recalled still has under way."""

    def counts(self) -> OutcomeCounts:
        """How many devices stand where."""
        parts = [self.outside, *self.tallies.values()]

        def add(name: str) -> int:
            return sum(getattr(part, name) for part in parts)

        return OutcomeCounts(
            total=add("size"),
            succeeded=add("succeeded"),
            current=add("current") + self.presumed,
            failed=add("failed"),
            regressed=add("regressed"),
            flashing=add("flashing"),
            waiting=add("waiting") - self.presumed,
            quarantined=add("quarantined"),
            excluded=add("excluded"),
        )

    @property
    def pending(self) -> int:
        """How many devices of open batches have not ended, and will."""
        return sum(tally.pending for tally in self.tallies.values())


class Surveyor:
    """Goes through the fleet once for one rollout."""

    def __init__(
        self,
        rollout: FirmwareRollout,
        jobs: BatchJobs,
        others: frozenset[str] = frozenset(),
        requests: Requests | None = None,
        opened: datetime | None = None,
        *,
        watch: Watch | None = None,
    ) -> None:
        """`others` are the uids of the jobs of earlier revisions; `opened` says when the first batch of all opened."""
        spec = rollout.spec
        self._spec = spec
        self._uid = rollout.metadata.uid
        self._namespace = rollout.metadata.namespace
        self._jobs = jobs
        self._living = {*others, *(job.uid for job in jobs.all)}
        self._recalls = spec.recall.uid if spec.recall is not None else ""
        self._chosen = choice_of(spec)
        self.target_of = recall_targets(spec.recall) if spec.recall is not None else targets_of(spec)
        self._fixed = opened if spec.dynamic is False else None
        asked = requests or Requests()
        self._resumed, self._retried = asked.resume.time, asked.retry.time
        self._retry = asked.retry.text
        self._states: dict[Target, str] = {}
        self._watch = watch
        self._watched: dict[int, list[tuple[Device, BatchJob, FlashRecord]]] = {}
        """By batch: the devices that count as well if they were seen at the end of the soak time."""
        self.survey = Survey(tallies={number: Tally(number) for number in jobs.by_batch})

    def go(self, devices: Iterable[Device]) -> Survey:
        """Counts all devices."""
        get = self._jobs.members.get
        for each in self._jobs.all:
            each.plain = self._resumed is None and not each.watched and not each.regressed
        for device in devices:
            status = device.status
            job = get(device.metadata.name)
            if job is None or status.claim is not None:
                self._claimed_or_other(device, job)
                continue
            uid = job.uid
            for record in status.records:
                if record.job.uid == uid:
                    break
            else:
                if status.conditions or job.failed or job.over or device.spec.allowed_namespaces:
                    self._unrecorded(device, job)
                else:
                    job.waiting += 1
                    if status.version == job.version:
                        self.survey.presumed += 1
                continue
            # What most devices of a large rollout are most of the time goes without a call.
            time = record.time
            if job.plain and record.outcome == _SUCCEEDED and record.state == job.state and time is not None:
                job.succeeded += 1
                if job.ended is None or time > job.ended:
                    job.ended = time
                continue
            self._recorded(device, job, record)
        self._add_up()
        return self.survey

    def _add_up(self) -> None:
        """Adds what was counted without a call to the rest."""
        survey = self.survey
        for job in self._jobs.all:
            tally = survey.tallies[job.batch]
            tally.waiting += job.waiting
            tally.succeeded += job.succeeded
            if job.waiting:
                survey.unfinished.add(job.uid)
            if job.succeeded and job.ended is not None:
                survey.outcomes[_SUCCEEDED] += job.succeeded
                survey.fresh[_SUCCEEDED] += job.succeeded
                self._end_at(tally, job.ended)
        for number, watched in self._watched.items():
            self._look_for(watched, survey.tallies[number], self._soak_of(number))

    def _claimed_or_other(self, device: Device, job: BatchJob | None) -> None:
        claim = device.status.claim
        if claim is not None:
            self.survey.busy.add(claim.job.uid)
            if self._recalls and claim.rollout == self._recalls:
                self.survey.sources += 1
        if job is None:
            if device.metadata.deletion_timestamp is None and (self._recalls or self._chosen(device)):
                self._other(device)
        elif claim is not None and claim.job.uid == job.uid:
            self.survey.unfinished.add(job.uid)
            tally = self.survey.tallies[job.batch]
            if claim.not_before is None or claim.attempt > 1:
                tally.flashing += 1
            else:
                tally.waiting += 1
        else:
            record = device.status.record_of(job.uid)
            if record is None:
                self._unrecorded(device, job)
            else:
                self._recorded(device, job, record)

    # --- devices of a batch ----------------------------------------------------------------------------------------

    def _recorded(self, device: Device, job: BatchJob, record: FlashRecord) -> None:
        if record.state == job.state:
            self._ended(device, job, self.survey.tallies[job.batch], record)
        else:
            self._unrecorded(device, job)

    def _unrecorded(self, device: Device, job: BatchJob) -> None:
        tally, name = self.survey.tallies[job.batch], device.metadata.name
        if name in job.failed:
            outcome, time = job.failed[name]
            self._failed(device, job, tally, outcome, time or job.job.status.completion_time)
        elif not device.spec.allows(self._namespace):
            tally.excluded += 1
        elif device.status.quarantined:
            tally.quarantined += 1
        elif job.over:
            self._failed(device, job, tally, Outcome.FAILED.value, job.job.status.completion_time)
        else:
            job.waiting += 1
            if device.status.version == job.version:
                self.survey.presumed += 1

    def _ended(self, device: Device, job: BatchJob, tally: Tally, record: FlashRecord) -> None:
        outcome, time = record.outcome, record.time
        if outcome not in _GOOD:
            self._failed(device, job, tally, outcome, time)
            return
        name = device.metadata.name
        if name in job.regressed or (job.watched and has_regressed(device, record, self._spec.observe)):
            self._fell(device, job, tally, time)
        elif self._is_watched(device, job):
            self._watched.setdefault(job.batch, []).append((device, job, record))
            if time is not None:
                self._end_at(tally, time)
        else:
            self._went_well(tally, record)

    def _is_watched(self, device: Device, job: BatchJob) -> bool:
        return (
            job.watched and self._spec.observe.disappeared and self._watch is not None and self._watch.observes(device)
        )

    def _soak_of(self, batch: int) -> float:
        return float(self._spec.batches[batch - 1].soak_seconds)

    def _look_for(self, watched: list[tuple[Device, BatchJob, FlashRecord]], tally: Tally, soak: float) -> None:
        """Counts devices that succeeded by whether they were seen at the end of the soak time."""
        watch = self._watch
        if watch is None or tally.pending or tally.ended is None:  # it has not begun
            for _, _, record in watched:
                self._went_well(tally, record)
            return
        soaked = tally.ended + timedelta(seconds=soak)
        lost_at = watch.lost_at(soaked, len(watched))
        for device, job, record in watched:
            sight = watch.sight_of(device, soaked, lost_at)
            if sight is Sight.LOST:
                self._fell(device, job, tally, record.time)
                continue
            self._went_well(tally, record)
            if sight is Sight.AWAITED:
                tally.unseen, tally.lost_at = tally.unseen + 1, lost_at

    def _went_well(self, tally: Tally, record: FlashRecord) -> None:
        if record.outcome == _CURRENT:
            tally.current += 1
        else:
            tally.succeeded += 1
        self._note(tally, record.outcome, record.time)

    def _fell(self, device: Device, job: BatchJob, tally: Tally, time: datetime | None) -> None:
        self.survey.fallen.setdefault(job.uid, []).append(device.metadata.name)
        tally.regressed += 1
        self._note(tally, REGRESSED, time)
        self._retry_later(device, job)

    def _failed(self, device: Device, job: BatchJob, tally: Tally, outcome: str, time: datetime | None) -> None:
        tally.failed += 1
        self._note(tally, outcome, time)
        if self._retried is not None and (time is None or time <= self._retried):
            self._retry_later(device, job)

    def _retry_later(self, device: Device, job: BatchJob) -> None:
        if self._retry and job.retry != self._retry:
            self.survey.retryable.setdefault(job.batch, []).append(device)

    def _note(self, tally: Tally, outcome: str, time: datetime | None) -> None:
        survey = self.survey
        survey.outcomes[outcome] += 1
        if time is None:
            survey.fresh[outcome] += 1
            return
        if self._resumed is None or time > self._resumed:
            survey.fresh[outcome] += 1
        self._end_at(tally, time)

    def _end_at(self, tally: Tally, time: datetime) -> None:
        if tally.ended is None or time > tally.ended:
            tally.ended = time
            if self.survey.last_end is None or time > self.survey.last_end:
                self.survey.last_end = time

    # --- devices that no batch has ---------------------------------------------------------------------------------

    def _other(self, device: Device) -> None:
        survey, outside = self.survey, self.survey.outside
        created = device.metadata.creation_timestamp
        if self._fixed is not None and created is not None and created > self._fixed:
            return
        target = self.target_of(device)
        if target is None:
            return
        if isinstance(target, Barred):
            outside.excluded += 1
            if target.unknown:
                survey.unknown.append(device.metadata.name)
        elif not device.spec.allows(self._namespace):
            outside.excluded += 1
        elif (record := self._orphaned(device, target)) is not None:
            if record.outcome == _CURRENT:
                outside.current += 1
            else:
                outside.succeeded += 1
            survey.outcomes[record.outcome] += 1
        elif device.status.quarantined:
            outside.quarantined += 1
        else:
            survey.candidates.append(device)
            outside.waiting += 1
            if device.status.version == target.version:
                survey.presumed += 1

    def _orphaned(self, device: Device, target: Target) -> FlashRecord | None:
        """That the rollout is done with the device, by a FlashJob that somebody has deleted since."""
        for record in device.status.records:
            if record.rollout == self._uid and record.outcome in _GOOD and record.job.uid not in self._living:
                state = self._states.get(target)
                if state is None:
                    spec = FlashJobSpec(firmware=target.firmware, version=target.version, device=target.type or None)
                    state = self._states[target] = state_of(spec)
                if record.state == state:
                    return record
        return None


def has_regressed(device: Device, record: FlashRecord, observe: Observe) -> bool:
    """Whether a device has fallen back, changed or disappeared after its success."""
    status = device.status
    if observe.version and status.version and record.version and status.version != record.version:
        return record.precedes(status.last_seen)
    return observe.disappeared and bool(status.conditions) and is_true(status.conditions, STALE)
