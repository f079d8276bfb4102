"""What happens next in the rollout of a changed workload: from its spec, its revisions and its devices to actions.

The loop over workloads asks it in every pass. All that is remembered stands in the revisions, nothing in a status: a
pass that was cut off is decided again. The first version of a workload reaches all devices at once, for there is
nothing to go back to. Pure: no I/O, no clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, TypeAlias

import msgspec

from edgewright.api.edge_revisions import Versions, content_of, hash_of, stable
from edgewright.api.edgedevice import ONLINE, EdgeDevice
from edgewright.api.edgeworkload import EdgeWorkload
from edgewright.api.edgeworkload_rollout import DEFAULT_DEADLINE, WorkloadRollout
from edgewright.api.edgeworkloadrevision import (
    MAX_NAMED,
    EdgeWorkloadRevision,
    EdgeWorkloadRevisionSpec,
    RevisionBatch,
    RevisionStop,
)
from edgewright.controllers.edgeworkload.steps import steps_of
from edgewright.controllers.edgeworkload.tallies import Tally, tally_of
from edgewright.controllers.staging.failures import too_many
from edgewright.controllers.staging.gates import BatchPhase, Verdict, judge
from edgewright.controllers.staging.steps import NamedSteps, ordered, taken_by
from edgewright.runtime.conditions import is_true
from edgewright.runtime.objects import ObjectMeta

APPROVE: Final = "add {} to spec.rollout.approvals"
_MAX_WHY: Final = 2000


@dataclass(frozen=True)
class Create:
    """A new version is written down."""

    revision: EdgeWorkloadRevision


@dataclass(frozen=True)
class Change:
    """A revision is written as it is now."""

    revision: EdgeWorkloadRevision
    spec: EdgeWorkloadRevisionSpec


@dataclass(frozen=True)
class Delete:
    """A revision that no device needs any more is deleted."""

    revision: EdgeWorkloadRevision


Action: TypeAlias = Create | Change | Delete


@dataclass(frozen=True, kw_only=True)
class Decision:
    """What is to be done now, and where the rollout stands once it is."""

    actions: tuple[Action, ...] = ()
    current: EdgeWorkloadRevision | None = None
    """The newest version."""
    steps: NamedSteps | None = None
    tallies: tuple[tuple[RevisionBatch, Tally, Verdict], ...] = ()
    """Each batch that is open, in their order."""
    running: int = 0
    """How many devices run the newest version."""
    after: float | None = None
    """In how many seconds something changes without anybody's doing."""


def decide(
    workload: EdgeWorkload,
    devices: Sequence[EdgeDevice],
    revisions: Sequence[EdgeWorkloadRevision],
    now: datetime,
) -> Decision:
    """What is to be done for a valid workload; `revisions` are its own, the newest first."""
    now = now.replace(microsecond=0)
    rollout = workload.spec.rollout
    content = content_of(workload)
    revision = hash_of(content)
    newest = revisions[0] if revisions else None
    if rollout is None or newest is None:
        return _recorded(workload, revision, revisions, now)
    if newest.spec.hash != revision:
        base = stable(revisions)
        if base is not None and base.spec.hash == revision:
            return _taken_back(base, revisions)
        made = _made(workload, revision, newest.spec.number + 1)
        return Decision(actions=(Create(made),), current=made)
    return _Pass(workload, rollout, tuple(devices), tuple(revisions), now).decide()


def _made(workload: EdgeWorkload, revision: str, number: int, *batches: RevisionBatch) -> EdgeWorkloadRevision:
    name = f"{workload.kind.kind.lower()}.{workload.metadata.name}.{number}"
    spec = EdgeWorkloadRevisionSpec(
        kind=workload.kind.kind,
        workload=workload.metadata.name,
        number=number,
        hash=revision,
        content=content_of(workload),
        batches=batches,
        completed=batches[0].opened if batches else None,
    )
    return EdgeWorkloadRevision(metadata=ObjectMeta(name=name, namespace=workload.metadata.namespace), spec=spec)


def _recorded(
    workload: EdgeWorkload, revision: str, revisions: Sequence[EdgeWorkloadRevision], now: datetime
) -> Decision:
    """The version that all devices get at once: the first one, or that of a workload without a rollout."""
    everyone = RevisionBatch(number=1, name="all", opened=now, rest=True)
    newest = revisions[0] if revisions else None
    if newest is None or newest.spec.hash != revision:
        made = _made(workload, revision, 1 if newest is None else newest.spec.number + 1, everyone)
        return Decision(actions=(Create(made),), current=made)
    actions: list[Action] = []
    if newest.spec.completed is None:
        batches = newest.spec.batches if newest.spec.for_all else (*newest.spec.batches, everyone)
        actions.append(Change(newest, msgspec.structs.replace(newest.spec, batches=batches, stop=None, completed=now)))
    return Decision(actions=(*actions, *map(Delete, reversed(revisions[1:]))), current=newest)


def _taken_back(base: EdgeWorkloadRevision, revisions: Sequence[EdgeWorkloadRevision]) -> Decision:
    """The spec is again what the other devices still have: those that got something later go back at once."""
    later = [each for each in revisions if each.spec.number > base.spec.number]
    # The oldest first: a device of the newest one does not pass through those in between.
    return Decision(actions=tuple(map(Delete, reversed(later))), current=base)


@dataclass
class _Pass:
    """One decision about a version that is on its way, or has arrived."""

    workload: EdgeWorkload
    rollout: WorkloadRollout
    devices: tuple[EdgeDevice, ...]
    revisions: tuple[EdgeWorkloadRevision, ...]
    now: datetime

    def decide(self) -> Decision:
        """What is to be done."""
        newest = self.newest = self.revisions[0]
        spec = self.spec = newest.spec
        self.steps = steps_of(self.rollout)
        named = {name for batch in spec.batches for name in batch.devices}
        self.left = [] if spec.for_all else [each for each in self.devices if each.metadata.name not in named]
        tallies = tuple(self._judged(batch, named) for batch in spec.batches)
        running = sum(tally.done for _, tally, _ in tallies)
        action = self._next(tallies)
        pruned = [Delete(each) for each in reversed(self.revisions[1:])] if spec.for_all else []
        return Decision(
            actions=((action,) if action is not None else tuple(pruned)),
            current=newest,
            steps=self.steps,
            tallies=tallies,
            running=running,
            after=None if spec.completed is not None else self._after(tallies),
        )

    def _judged(self, batch: RevisionBatch, named: set[str]) -> tuple[RevisionBatch, Tally, Verdict]:
        if batch.rest:
            members: Iterable[EdgeDevice] = (each for each in self.devices if each.metadata.name not in named)
        else:
            mine = frozenset(batch.devices)
            members = (each for each in self.devices if each.metadata.name in mine)
        spec = self.spec
        tally = tally_of(
            members,
            self.workload.metadata.name,
            spec.hash,
            opened=batch.opened or self.now,
            deadline=timedelta(seconds=self.rollout.deadline_seconds or DEFAULT_DEADLINE),
            now=self.now,
        )
        top = spec.batches[-1]
        verdict = judge(
            self.steps.get(batch.number),
            tally,
            opened=batch.opened,
            now=self.now,
            over=spec.completed is not None or batch is not top or batch.number <= spec.accepted,
            follows=bool(self.left),
            approvals=self.rollout.approvals,
            approve=APPROVE,
        )
        return batch, tally, verdict

    def _next(self, tallies: Sequence[tuple[RevisionBatch, Tally, Verdict]]) -> Action | None:
        """The one thing to write now."""
        spec = self.spec
        if spec.completed is not None:
            return None
        if spec.stop is not None:
            return None if spec.stop.request == self.rollout.resume_request else self._resume(spec.stop)
        stop = self._stop(tallies)
        if stop is not None:
            return self._write(stop=stop)
        if self.rollout.paused:
            return None
        if tallies and tallies[-1][2].phase is not BatchPhase.PASSED:
            return None
        return self._write(completed=self.now) if spec.for_all else self._open()

    def _stop(self, tallies: Sequence[tuple[RevisionBatch, Tally, Verdict]]) -> RevisionStop | None:
        """Why the rollout is to pause by itself."""
        if not tallies:
            return None
        batch, tally, verdict = tallies[-1]
        failed = sum(each.bad for _, each, _ in tallies)
        why, number = "", 0
        if verdict.phase is BatchPhase.FAILED:
            why, number = f"{verdict.message}: {tally.whose()}", batch.number
        elif self.rollout.max_failures is not None and failed > self.spec.forgiven:
            failures = {outcome: 0 for _, each, _ in tallies for outcome in each.failures}
            for _, each, _ in tallies:
                for outcome, count in each.failures.items():
                    failures[outcome] += count
            ended = sum(each.done + each.bad for _, each, _ in tallies)
            why = too_many(
                _without(failures, self.spec.forgiven),
                ended,
                self.rollout.max_failures,
                field="spec.rollout.maxFailures",
            )
            why = why and f"{why}: {tally.whose()}"
        if not why:
            return None
        return RevisionStop(
            time=self.now, why=why[:_MAX_WHY], batch=number, failed=failed, request=self.rollout.resume_request
        )

    def _resume(self, stop: RevisionStop) -> Change:
        """Somebody has asked to go on: what had failed by then is accepted."""
        return self._write(
            stop=None,
            accepted=max(self.spec.accepted, stop.batch),
            forgiven=max(self.spec.forgiven, stop.failed),
        )

    def _open(self) -> Change:
        """Opens the next batch that has devices; the last one has all the rest, also those that come later."""
        spec = self.spec
        versions = Versions(self.workload, self.revisions)
        left = ordered(
            self.left,
            simple=False,
            current=lambda each: (versions.of(each.metadata.name) or ("",))[0] == spec.hash,
            silent=lambda each: not is_true(each.status.conditions, ONLINE),
        )
        number = spec.batches[-1].number + 1 if spec.batches else 1
        last = self.steps.last or number
        room = MAX_NAMED - sum(len(each.devices) for each in spec.batches)
        taken: list[EdgeDevice] = []
        while number < last and not taken:
            taken = taken_by(self.steps.get(number), left, total=len(self.devices))[:room]
            number += 0 if taken else 1
        step = self.steps.get(number)
        names = tuple(sorted(each.metadata.name for each in taken))
        opened = RevisionBatch(number=number, name=step.name, opened=self.now, rest=not taken, devices=names)
        return self._write(batches=(*spec.batches, opened))

    def _write(self, **fields: object) -> Change:
        return Change(self.newest, msgspec.structs.replace(self.spec, **fields))

    def _after(self, tallies: Sequence[tuple[RevisionBatch, Tally, Verdict]]) -> float | None:
        moments = [verdict.until for _, _, verdict in tallies[-1:]] + [tally.due for _, tally, _ in tallies]
        found = [(moment - self.now).total_seconds() for moment in moments if moment is not None]
        return max(1.0, min(found)) if found else None


def _without(failures: dict[str, int], forgiven: int) -> dict[str, int]:
    """The failures that are left when so many do not count any more."""
    left = dict(failures)
    for outcome in sorted(left):
        gone = min(left[outcome], forgiven)
        left[outcome] -= gone
        forgiven -= gone
    return left
