"""What a rollout does next: from its spec, the fleet and its own FlashJobs to a list of actions and a status.

The loop asks it in every pass and carries the actions out in their order. Nothing is read from the status of the
rollout: wiping it changes nothing but what is shown. A crash between two actions leaves a world that is decided on as
any other. Pure: no I/O, no clock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from edgewright.api.device import Device
from edgewright.api.firmwarerollout import (
    DEFAULT_REVISIONS,
    JOB_DEVICES,
    FirmwareRollout,
    FirmwareRolloutStatus,
    RolloutPhase,
)
from edgewright.api.flashjob import FlashJob
from edgewright.api.fleet import Fleet
from edgewright.controllers.flashjob.windows import is_open, next_opening, open_until
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
from edgewright.controllers.rollout.batches import Step, Steps, ordered, taken_by
from edgewright.controllers.rollout.jobs import (
    Closed,
    Halt,
    Revisions,
    Stop,
    chunks,
    concurrency_of,
    make_job,
    revisions_of,
)
from edgewright.controllers.rollout.recall import recall_names, recall_of
from edgewright.controllers.rollout.requests import requests_of
from edgewright.controllers.rollout.soak import Watch
from edgewright.controllers.rollout.standing import Picture
from edgewright.controllers.rollout.status import refused_status, status_of
from edgewright.controllers.rollout.stop_rules import more_severe, standing_stop, tripped
from edgewright.controllers.rollout.survey import Survey, Surveyor
from edgewright.controllers.rollout.targets import Target
from edgewright.controllers.rollout.validation import problems
from edgewright.controllers.staging.gates import BatchPhase, Verdict, judge

MAX_CREATED: Final = 50
"""How many FlashJobs are made in one pass; the next one goes on."""
_RESUMABLE: Final = frozenset({Halt.PAUSE.value, Halt.PAUSED.value})
_ENDS: Final = frozenset({RolloutPhase.COMPLETED, RolloutPhase.FAILED, RolloutPhase.ABORTED, RolloutPhase.RECALLED})


@dataclass(frozen=True)
class Decision:
    """What is to be done now, in this order, what is shown, and when to look again if nothing happens until then."""

    status: FirmwareRolloutStatus
    actions: tuple[Action, ...] = ()
    after: float | None = None
    unseen: int = 0
    """How many devices a batch waits for to be seen at the end of its soak time: that comes without a change."""


def decide(
    rollout: FirmwareRollout,
    devices: Iterable[Device],
    jobs: Iterable[FlashJob],
    now: datetime,
    *,
    fleet: Fleet | None = None,
    recalls: Mapping[str, FirmwareRollout] | None = None,
    observed_by: str = "",
    watch: Watch | None = None,
) -> Decision:
    """What is to be done for a rollout; `jobs` are those that it owns, `recalls` the rollouts named as its recall.

    Without a `watch`, or where nothing observes a device, a soak time ends for it without its being seen.
    """
    found = problems(rollout.spec)
    if found:
        return Decision(refused_status(rollout, found, now))
    return _Pass(rollout, jobs, now, fleet, recalls or {}, observed_by, watch).decide(devices)


@dataclass
class _Pass:
    """One decision, as far as it has come."""

    rollout: FirmwareRollout
    jobs: Iterable[FlashJob]
    now: datetime
    fleet: Fleet | None
    recalls: Mapping[str, FirmwareRollout]
    observed_by: str
    watch: Watch | None
    actions: list[Action] = field(default_factory=list)
    created: int = 0

    def decide(self, devices: Iterable[Device]) -> Decision:
        """What is to be done."""
        spec = self.rollout.spec
        self.steps = Steps(spec)
        self.revisions: Revisions = revisions_of(spec, self.jobs)
        current = self.current = self.revisions.current
        top = current.top
        for job in current.by_batch.get(top, ()):
            job.watched = job.closed is None and self.steps.get(top).soak > 0
        older = frozenset(job.uid for jobs in self.revisions.older.values() for job in jobs)
        noted = (job.requests for job in current.all if job.requests is not None)
        self.requests, unnoted = requests_of(spec, noted, self.now)
        surveyor = Surveyor(self.rollout, current, older, self.requests, self.revisions.opened, watch=self.watch)
        self.target_of = surveyor.target_of
        self.survey: Survey = surveyor.go(devices)
        self._supersede()
        stop = self._stop()
        if stop is not None:
            self._halt(stop)
        elif spec.paused:
            self._pause()
        else:
            self._resume()
        verdicts = dict(self._verdicts(top))
        shut = not is_open(spec.windows, self.now)
        closed_until = next_opening(spec.windows, self.now) if shut else None
        frozen = self.fleet is not None and self.fleet.spec.frozen
        if stop is None and not spec.paused:
            self._close(top, verdicts.get(top))
            if not shut and not frozen:
                self._retry()
                self._open(top, verdicts.get(top))
        picture = Picture(
            rollout=self.rollout,
            now=self.now,
            survey=self.survey,
            counts=self.survey.counts(),
            revisions=self.revisions,
            steps=self.steps,
            verdicts=verdicts,
            stop=stop,
            fleet=self.fleet if frozen else None,
            shut=shut,
            next_opening=closed_until,
            recall=self._recall_name() if stop is not None and stop.action == Halt.RECALL else "",
            observed_by=self.observed_by,
            busy=bool(self.actions),
        )
        status = status_of(picture)
        self._expire(status)
        if unnoted and current.all:
            # When it was asked comes first: what follows from it is decided once that stands.
            self.actions = [NoteRequests(current.all[-1].job, self.requests)]
        after = self._after(status, verdicts.get(top), closed_until)
        unseen = self.survey.tallies[top].unseen if top else 0
        return Decision(status, tuple(self.actions), after, unseen)

    # --- earlier revisions -----------------------------------------------------------------------------------------

    def _supersede(self) -> None:
        """Stops what earlier revisions have not started, and deletes the jobs of those that are not kept."""
        limit = self.rollout.spec.revision_history_limit
        kept = DEFAULT_REVISIONS if limit is None else limit
        numbers = sorted(self.revisions.older, reverse=True)
        for place, number in enumerate(numbers):
            for job in sorted(self.revisions.older[number], key=lambda job: job.job.metadata.name):
                if place >= kept and job.uid not in self.survey.busy:
                    self.actions.append(DeleteJob(job.job))
                elif not job.over and (job.stop is None or job.stop.action != Halt.SUPERSEDED):
                    why = f"revision {self.revisions.number} of the rollout is under way"
                    self.actions.append(HaltJob(job.job, Stop(action=Halt.SUPERSEDED, time=self._moment, why=why)))

    # --- stopping and going on -------------------------------------------------------------------------------------

    @property
    def _moment(self) -> datetime:
        return self.now.replace(microsecond=0)

    def _stop(self) -> Stop | None:
        """What stops the rollout: what was written down, what the rules say now, or spec.aborted."""
        spec = self.rollout.spec
        stop = standing_stop(self.current.all, self.requests.resume.text)
        stop = more_severe(stop, tripped(spec.stop, self.survey.fresh, self.now, self.requests.resume.text))
        if spec.aborted:
            stop = more_severe(stop, Stop(action=Halt.ABORT, time=self._moment, why="spec.aborted is set"))
        return stop

    def _halt(self, stop: Stop) -> None:
        """Pauses what has not ended, and writes down why on one job at least."""
        jobs = self.current.all
        unwritten = not any(_tells(job.stop, stop) for job in jobs)
        for job in jobs:
            told = _tells(job.stop, stop)
            unfinished = job.uid in self.survey.unfinished
            if (unfinished or (unwritten and job is jobs[-1])) and not (told and job.job.spec.paused):
                self.actions.append(HaltJob(job.job, stop))
        if stop.action == Halt.RECALL and not self._recall_name():
            taken = next(name for name in recall_names(self.rollout) if name not in self.recalls)
            self.actions.append(CreateRecall(recall_of(self.rollout, taken)))

    def _recall_name(self) -> str:
        """The rollout that takes the devices back, where there is one."""
        uid = self.rollout.metadata.uid
        for name in recall_names(self.rollout):
            other = self.recalls.get(name)
            if other is not None and other.spec.recall is not None and other.spec.recall.uid == uid:
                return name
        return ""

    def _pause(self) -> None:
        stop = Stop(action=Halt.PAUSED, time=self._moment, why="spec.paused is set")
        for job in self.current.all:
            if job.uid in self.survey.unfinished and not job.job.spec.paused:
                self.actions.append(HaltJob(job.job, stop))

    def _resume(self) -> None:
        """Lets jobs go on that the rollout had paused, and keeps their limit as the spec has it."""
        limit = concurrency_of(self.rollout.spec)
        for job in self.current.all:
            if job.stop is not None and job.stop.action in _RESUMABLE:
                self.actions.append(ResumeJob(job.job))
            elif job.uid in self.survey.unfinished and job.job.spec.max_concurrent != limit:
                self.actions.append(LimitJob(job.job, limit))

    # --- batches ---------------------------------------------------------------------------------------------------

    def _verdicts(self, top: int) -> Iterator[tuple[int, Verdict]]:
        approvals = frozenset(self.rollout.spec.approvals)
        more = bool(self.survey.candidates) and (self.steps.last is None or top < self.steps.last)
        for number, jobs in self.current.by_batch.items():
            times = [job.job.metadata.creation_timestamp for job in jobs]
            closed = all(job.closed is not None for job in jobs)
            yield (
                number,
                judge(
                    self.steps.get(number),
                    self.survey.tallies[number],
                    opened=min((time for time in times if time is not None), default=None),
                    now=self.now,
                    over=number < top or (closed and not self.survey.tallies[number].pending),
                    missing=self._fillable(number) if number == top else 0,
                    follows=more,
                    approvals=approvals,
                    unseen=self.survey.tallies[number].unseen,
                    lost_at=self.survey.tallies[number].lost_at,
                ),
            )

    def _fillable(self, number: int) -> int:
        """How many devices a batch lacks of those that it was opened with, and can still get."""
        missing = self.current.missing(number)
        if not missing:
            return 0
        chooses = self.steps.get(number).chooses
        left = self.survey.candidates
        return min(missing, len(left) if chooses is None else sum(map(chooses, left)))

    def _close(self, top: int, verdict: Verdict | None) -> None:
        """Writes down that a batch has passed after its soak time: what its devices do later is not its matter."""
        if verdict is None or verdict.phase is not BatchPhase.PASSED or not self.steps.get(top).soak:
            return
        for job in self.current.by_batch[top]:
            if job.closed is None:
                fallen = set(self.survey.fallen.get(job.uid, ()))
                places = tuple(place for place, name in enumerate(job.members) if name in fallen)
                self.actions.append(CloseJob(job.job, Closed(time=self._moment, regressed=places)))

    def _open(self, top: int, verdict: Verdict | None) -> None:
        """Opens the next batch where the last one has passed, or gives more devices to the one that is open."""
        if not self.survey.candidates or self.survey.retryable.get(top):
            return  # none is left, or some of the last one are tried once more first
        if top and (missing := self._fillable(top)):
            step = self.steps.get(top)
            taken = taken_by(step, self._ordered(), total=self._total)[:missing]
            self._create(taken, step, size=max(job.size or 0 for job in self.current.by_batch[top]), opens=False)
        elif top and self.steps.last is not None and top >= self.steps.last:
            self._extend(top)
        elif verdict is None or verdict.phase is BatchPhase.PASSED:
            left = self._ordered()
            number = top + 1
            while not (taken := taken_by(self.steps.get(number), left, total=self._total)):
                number += 1
            step = self.steps.get(number)
            self._create(taken, step, size=None if step.last else len(taken), opens=True)

    @property
    def _total(self) -> int:
        return self.survey.counts().total

    def _ordered(self) -> list[Device]:
        def current(device: Device) -> bool:
            target = self.target_of(device)
            return isinstance(target, Target) and target.version == device.status.version

        return ordered(self.survey.candidates, simple=self.steps.simple, current=current)

    def _by_target(self, devices: Sequence[Device]) -> dict[Target, list[str]]:
        found: defaultdict[Target, list[str]] = defaultdict(list)
        for device in devices:
            target = self.target_of(device)
            if isinstance(target, Target):
                found[target].append(device.metadata.name)
        return found

    def _create(self, devices: Sequence[Device], step: Step, *, size: int | None, opens: bool) -> None:
        for target, names in self._by_target(devices).items():
            self._create_jobs(names, target, step.number, size=size, opens=opens)

    def _create_jobs(
        self,
        names: Sequence[str],
        target: Target,
        batch: int,
        *,
        size: int | None = None,
        opens: bool = False,
        retry: str = "",
    ) -> None:
        for part in chunks(names):
            if self.created >= MAX_CREATED:
                return
            made = sum(isinstance(each, CreateJob) and each.batch == batch for each in self.actions)
            index = self.current.next_index(batch) + made
            job = make_job(
                self.rollout,
                self.revisions,
                part,
                target,
                batch=batch,
                index=index,
                size=size,
                retry=retry,
                requests=self.requests,
            )
            self.actions.append(CreateJob(job, batch, opens=opens and not made))
            self.created += 1

    def _extend(self, top: int) -> None:
        """Gives devices that have appeared to the jobs of the last batch that have room, or to further ones."""
        step = self.steps.get(top)
        for target, names in self._by_target(self._ordered()).items():
            left: Sequence[str] = names
            for job in self.current.by_batch[top]:
                room = JOB_DEVICES - len(job.members)
                if left and room > 0 and job.closed is None and not job.retry and job.target == target:
                    self.actions.append(ExtendJob(job.job, (*job.members, *left[:room])))
                    left = left[room:]
            self._create_jobs(left, target, step.number)

    def _retry(self) -> None:
        """Tries devices once more that failed before somebody asked for that, each in its own batch."""
        mark = self.requests.retry.text
        for batch, devices in sorted(self.survey.retryable.items()):
            by_target: defaultdict[Target, list[str]] = defaultdict(list)
            for device in devices:
                name = device.metadata.name
                by_target[self.current.members[name].target].append(name)
            for target, names in sorted(by_target.items(), key=lambda each: min(each[1])):
                self._create_jobs(sorted(names), target, batch, retry=mark)

    # --- the end ---------------------------------------------------------------------------------------------------

    def _expire(self, status: FirmwareRolloutStatus) -> None:
        if self._expires(status) is not None and not self.actions and (self._expires(status) or 0.0) <= 0:
            self.actions.append(DeleteRollout())

    def _expires(self, status: FirmwareRolloutStatus) -> float | None:
        """In how many seconds the rollout is deleted; None where it is not."""
        ttl = self.rollout.spec.ttl_seconds_after_finished
        if ttl is None or status.phase not in _ENDS or status.completion_time is None:
            return None
        return (status.completion_time + timedelta(seconds=ttl) - self.now).total_seconds()

    def _after(
        self, status: FirmwareRolloutStatus, verdict: Verdict | None, closed_until: datetime | None
    ) -> float | None:
        """In how many seconds something changes without anybody's doing."""
        spec = self.rollout.spec
        moments = [closed_until, verdict.until if verdict is not None else None]
        if spec.windows and closed_until is None and status.phase not in _ENDS:
            moments.append(open_until(spec.windows, self.now))
        found = [(moment - self.now).total_seconds() for moment in moments if moment is not None]
        expires = self._expires(status)
        if expires is not None:
            found.append(expires)
        return max(0.0, min(found)) if found else None


def _tells(written: Stop | None, stop: Stop) -> bool:
    """Whether what is written down is this stop, and not one that was ended since."""
    return written is not None and written.action == stop.action and written.request == stop.request
