"""Runs Jobs: creates their Pods, counts how they end, tries again, gives up, and removes Jobs that are over for long.

`job_review` says how a Job stands and which Pods it wants. A Pod
is counted in two steps with its finalizer between them, so that none is forgotten or counted twice, whenever we die.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

import msgspec

from edgewright.local.builtin.job import JOB_NAME
from edgewright.local.controllers.resources import Pod
from edgewright.local.controllers.workloads import names
from edgewright.local.controllers.workloads import pods as podwork
from edgewright.local.controllers.workloads.job_backoff import Failures, counted, finished_at
from edgewright.local.controllers.workloads.job_review import (
    FAILURE_TARGET,
    SUCCESS_CRITERIA,
    TRACKING,
    Review,
    body,
    is_indexed,
    missing,
    review,
    seconds_left,
    surplus,
    tries_of,
    uids,
    written,
)
from edgewright.local.controllers.workloads.kinds import Job, JobCondition, JobStatus, UncountedPods
from edgewright.local.controllers.workloads.loop import Loop
from edgewright.runtime import DONE, Change, Clock, Key, Manager, Maps, Result, requeue_after
from edgewright.runtime.conditions import set_condition
from edgewright.runtime.errors import NotFound

OURS: Final = "kubernetes.io/job-controller"
_MAX_UNCOUNTED: Final = 500
_BY_JOB: Final = "tracked Pods of a Job"


def _job_of(pod: Pod) -> Iterable[Key]:
    """The Job whose name a Pod with our finalizer bears."""
    name = pod.metadata.labels.get(JOB_NAME, "")
    return (Key(pod.metadata.namespace, name),) if name and TRACKING in pod.metadata.finalizers else ()


class Jobs(Loop):
    """The loop over Jobs."""

    component = "job-controller"

    def __init__(self, manager: Manager, clock: Clock) -> None:
        super().__init__(manager, clock)
        self._work = podwork.PodWork(manager, Job, self.recorder, clock, finalizer=TRACKING)
        self._jobs = self._work.owners.cache
        self._pods = self._work.cache
        self._pods.add_index(_BY_JOB, _job_of)
        self._released: set[str] = set()  # uids of Pods whose finalizer has gone, and the cache does not know it yet
        self._failures: dict[str, Failures] = {}  # by uid
        self._seen_ended: dict[str, set[str]] = {}
        self._wrote: dict[Key, int] = {}  # the version that our last write made
        self._pods.subscribe(self._seen)
        manager.controller("jobs", self._reconcile, *self._work.sources(), Maps(self._pods, _job_of), workers=4)

    def _seen(self, change: Change[Pod]) -> None:
        if change.new is None or TRACKING not in change.new.metadata.finalizers:
            self._released.discard(change.latest.metadata.uid)

    async def _reconcile(self, key: Key) -> Result:
        job = self._jobs.get(key)
        if job is None:
            self._wrote.pop(key, None)
            await self._free(pod for pod in self._pods.by(_BY_JOB, key) if self._is_nobodys(pod))
            return DONE
        if job.spec.managed_by not in (None, OURS) or self._is_stale(job):
            return DONE
        if job.finished is not None:
            return await self._finished(job)
        pods = await self._work.claim(job)
        now = self._clock.now()
        found = review(job, pods, self._released, now)
        self._count_failures(job, found)
        later = await self._manage(job, found)
        await self._count(job, found)
        left = seconds_left(job, now)
        waits = [wait for wait in (later, left) if wait is not None and wait > 0]
        return requeue_after(min(waits)) if waits else DONE

    def _is_stale(self, job: Job) -> bool:
        """Whether the cache does not show our last write yet; its news will bring another pass."""
        version = job.metadata.resource_version
        return version.isdecimal() and int(version) < self._wrote.get(job.key, 0)

    async def _manage(self, job: Job, found: Review) -> float | None:
        """Makes and deletes Pods; gives in how many seconds more are to be made."""
        if job.deleting or not self._work.settled(job):
            return None
        if found.end is not None:
            await self._delete(job, found, found.active)
            return None
        if extra := surplus(job, found):
            await self._free(extra)  # first, for what was too many has not failed
            await self._delete(job, found, extra)
            return None
        indexes = missing(job, found)
        if not indexes:
            return None
        waits = self._waits(job, found, indexes)
        due = [index for index, wait in zip(indexes, waits, strict=True) if not wait]
        await self._work.make(job, [body(job, index, names.suffix(), found.kept.get(index or 0)) for index in due])
        return min((wait for wait in waits if wait), default=None)

    def _waits(self, job: Job, found: Review, indexes: Sequence[int | None]) -> list[float]:
        """How long each of the missing Pods is waited with: all alike, unless each index has failures of its own."""
        now = self._clock.now().timestamp()
        if job.spec.backoff_limit_per_index is None:
            return [self._failures.get(job.metadata.uid, Failures()).left(now)] * len(indexes)
        before = [found.kept.get(index or 0) for index in indexes]
        return [0.0 if pod is None else Failures(tries_of(pod), finished_at(pod)).left(now) for pod in before]

    async def _delete(self, job: Job, found: Review, pods: list[Pod]) -> None:
        await self._work.delete(job, pods)
        found.terminating += len(pods)
        found.active = [pod for pod in found.active if pod not in pods]

    def _count_failures(self, job: Job, found: Review) -> None:
        """Failures in a row make the next try wait longer; a success ends the row."""
        uid = job.metadata.uid
        known = self._seen_ended.setdefault(uid, set())
        succeeded = [pod for pod in found.succeeded if pod.metadata.uid not in known]
        failed = [pod for pod in found.failed if pod.metadata.uid not in known]
        known.update(uids((*succeeded, *failed)))
        self._failures[uid] = counted(self._failures.get(uid, Failures()), succeeded, failed)

    async def _count(self, job: Job, found: Review) -> None:
        """Notes who has ended, takes their finalizers, and counts them."""
        before = job.status.uncounted_terminated_pods or UncountedPods()
        uncounted = UncountedPods(
            succeeded=tuple(dict.fromkeys((*before.succeeded, *uids(found.succeeded))))[:_MAX_UNCOUNTED],
            failed=tuple(dict.fromkeys((*before.failed, *uids(found.failed))))[:_MAX_UNCOUNTED],
        )
        status = self._status(job, found)
        # Those of whom the status has told before, and whose finalizer has gone, are counted now.
        held = {*uids(found.succeeded), *uids(found.failed)}
        status, left = _counted(job, status, uncounted, held, found)
        waiting = {*left.succeeded, *left.failed}
        ending = [pod for pod in (*found.succeeded, *found.failed) if pod.metadata.uid in waiting]
        if ending:
            job = await self._write(job, msgspec.structs.replace(status, uncounted_terminated_pods=left))
        await self._free((*ending, *found.ignored))
        status, left = _counted(job, status, left, set(), found)
        await self._write(job, self._ended(job, status, found, left))

    def _status(self, job: Job, found: Review) -> JobStatus:
        now = self._clock.now().replace(microsecond=0)
        status, suspended = job.status, job.spec.suspend
        start = status.start_time
        conditions = status.conditions
        if found.end is None and suspended != (job.condition("Suspended") is not None):
            word, value = ("Suspended", "True") if suspended else ("Resumed", "False")
            said = _condition("Suspended", f"Job{word}", f"Job {word.lower()}", now, status=value)
            conditions = set_condition(conditions, said, now=now)
            self.recorder.record(job, "Normal", word, said.message)
            start = start if suspended else now
        if start is None and not suspended:
            start = now
        if found.end is not None:
            type_, reason, message = found.end
            if job.condition(type_) is None:
                conditions = set_condition(conditions, _condition(type_, reason, message, now), now=now)
        return msgspec.structs.replace(
            status,
            start_time=start,
            conditions=conditions,
            active=len(found.active),
            ready=found.ready,
            terminating=found.terminating,
            completed_indexes=written(found.done) if is_indexed(job) else "",
            failed_indexes=written(found.lost) if job.spec.backoff_limit_per_index is not None else None,
        )

    def _ended(self, job: Job, status: JobStatus, found: Review, left: UncountedPods) -> JobStatus:
        """The status, with the end of the Job in it once nothing of it runs any more."""
        status = msgspec.structs.replace(status, uncounted_terminated_pods=left)
        if found.end is None or found.active or found.terminating or left.succeeded or left.failed:
            return status
        now = self._clock.now().replace(microsecond=0)
        type_, reason, message = found.end
        last = _condition("Failed" if type_ == FAILURE_TARGET else "Complete", reason, message, now)
        if type_ == SUCCESS_CRITERIA:
            self.recorder.record(job, "Normal", "Completed", "Job completed")
            status = msgspec.structs.replace(status, completion_time=now, start_time=status.start_time or now)
        else:
            self.recorder.record(job, "Warning", reason, message)
        return msgspec.structs.replace(status, conditions=set_condition(status.conditions, last, now=now))

    async def _write(self, job: Job, status: JobStatus) -> Job:
        if status == job.status:
            return job
        after = await self._client.of(Job).write_status(job, status)
        if after.metadata.resource_version.isdecimal():
            self._wrote[job.key] = int(after.metadata.resource_version)
        return after

    async def _free(self, pods: Iterable[Pod]) -> None:
        """Takes our finalizer off Pods."""
        await asyncio.gather(*(self._free_one(pod) for pod in pods))

    async def _free_one(self, pod: Pod) -> None:
        if pod.metadata.uid in self._released:
            return
        left = [each for each in pod.metadata.finalizers if each != TRACKING]
        with suppress(NotFound):
            await self._client.of(Pod).change(pod, {"metadata": {"finalizers": left or None}})
            known = self._pods.get(pod.key)
            if known is not None and known.metadata.uid == pod.metadata.uid:
                self._released.add(pod.metadata.uid)

    def _is_nobodys(self, pod: Pod) -> bool:
        """Whether the Job that a Pod belonged to is gone, or has let it go."""
        owner = pod.controller
        if owner is None or owner.kind != Job.kind.kind:
            return True
        job = self._jobs.get(Key(pod.metadata.namespace, owner.name))
        return job is None or job.metadata.uid != owner.uid

    async def _finished(self, job: Job) -> Result:
        """What is left to do for a Job that is over: to let its last Pods go, and to remove it after its time."""
        for known in (self._failures, self._seen_ended):
            known.pop(job.metadata.uid, None)
        await self._free(pod for pod in self._pods.by(_BY_JOB, job.key))
        ttl, ended = job.spec.ttl_seconds_after_finished, job.finished
        if ttl is None or job.deleting or ended is None or ended.last_transition_time is None:
            return DONE
        left = _until(ended.last_transition_time + timedelta(seconds=ttl), self._clock.now())
        if left > 0:
            return requeue_after(left)
        with suppress(NotFound):
            await self._client.of(Job).delete(
                job.key,
                uid=job.metadata.uid,
                resource_version=job.metadata.resource_version,
                propagation="Foreground",
            )
        return DONE


def _until(moment: datetime, now: datetime) -> float:
    return (moment - now).total_seconds()


def _counted(
    job: Job, status: JobStatus, uncounted: UncountedPods, held: set[str], found: Review
) -> tuple[JobStatus, UncountedPods]:
    """The status in which Pods without a finalizer are counted, and who is left."""
    left = UncountedPods(
        succeeded=tuple(uid for uid in uncounted.succeeded if uid in held),
        failed=tuple(uid for uid in uncounted.failed if uid in held),
    )
    succeeded = status.succeeded + len(uncounted.succeeded) - len(left.succeeded)
    failed = status.failed + len(uncounted.failed) - len(left.failed)
    succeeded = len(found.done) if is_indexed(job) else succeeded
    return msgspec.structs.replace(status, succeeded=succeeded, failed=failed), left


def _condition(type_: str, reason: str, message: str, now: datetime, status: str = "True") -> JobCondition:
    return JobCondition(type=type_, status=status, reason=reason, message=message, last_probe_time=now)
