"""Makes the Jobs of CronJobs when they are due, and removes old ones.

`due` is pure. Nothing is polled: each pass says when the next one is.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

import msgspec

from edgewright.local import schedules
from edgewright.local.controllers.workloads.dependents import Indexed, is_controlled_by, reference
from edgewright.local.controllers.workloads.kinds import CronJob, CronJobStatus, Job, JobReference
from edgewright.local.controllers.workloads.loop import Loop
from edgewright.runtime import DONE, Clock, For, Key, Manager, Owns, RawObject, Result, requeue_after
from edgewright.runtime.errors import AlreadyExists, ApiError
from edgewright.runtime.predicates import anything

SCHEDULED: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"
_MANY: Final = 100
"""After so many missed times only the last one counts, and people are told."""


@dataclass(frozen=True)
class Due:
    """When a Job should have been made last (None: none since), when one is due next, and how many were missed."""

    last: datetime | None
    following: datetime | None
    missed: int = 0


def due(found: CronJob, now: datetime) -> Due:
    """What the schedule says at this moment."""
    schedule, zone = schedules.parse(found.spec.schedule), _zone(found)
    since = found.status.last_schedule_time or found.metadata.creation_timestamp or now
    if found.spec.starting_deadline_seconds is not None:
        since = max(since, now - timedelta(seconds=found.spec.starting_deadline_seconds))
    last, missed = None, 0
    at = schedule.after(since, zone)
    while at is not None and at <= now and missed <= _MANY:
        last, missed = at, missed + 1
        at = schedule.after(at, zone)
    if missed > _MANY:
        last = _latest(schedule, zone, now) or last
    return Due(last, schedule.after(now, zone), missed)


def _latest(schedule: schedules.Schedule, zone: tzinfo, now: datetime) -> datetime | None:
    """The last time before now, looked for further and further back."""
    back = timedelta(hours=1)
    while back < timedelta(days=3660):
        at, last = schedule.after(now - back, zone), None
        for _ in range(100_000):
            if at is None or at > now:
                break
            last, at = at, schedule.after(at, zone)
        if last is not None:
            return last
        back *= 8
    return None


def _zone(found: CronJob) -> tzinfo:
    return zoneinfo.ZoneInfo(found.spec.time_zone) if found.spec.time_zone else UTC


def job_of(found: CronJob, at: datetime) -> RawObject:
    """The Job that is due at a time; its name says which, so that it is made once."""
    template = found.spec.job_template
    about = template.get("metadata") or {}
    moment = at.astimezone(_zone(found)).isoformat().replace("+00:00", "Z")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": f"{found.metadata.name}-{int(at.timestamp()) // 60}",
            "namespace": found.metadata.namespace,
            "labels": about.get("labels") or {},
            "annotations": {**(about.get("annotations") or {}), SCHEDULED: moment},
            "ownerReferences": [reference(found)],
        },
        "spec": template.get("spec") or {},
    }


def superfluous(found: CronJob, jobs: Iterable[Job]) -> list[Job]:
    """The finished Jobs that are not kept, the oldest first."""
    gone: list[Job] = []
    successful, failed = found.spec.successful_jobs_history_limit, found.spec.failed_jobs_history_limit
    for type_, limit in (("Complete", successful), ("Failed", failed)):
        over = sorted((job for job in jobs if job.condition(type_)), key=_begun)
        if limit is not None:
            gone += over[: max(0, len(over) - limit)]
    return gone


def _begun(job: Job) -> tuple[float, str]:
    moment = job.status.start_time or job.metadata.creation_timestamp
    return moment.timestamp() if moment else 0.0, job.metadata.name


class CronJobs(Loop):
    """The loop over CronJobs."""

    component = "cronjob-controller"

    def __init__(self, manager: Manager, clock: Clock) -> None:
        super().__init__(manager, clock)
        self._cron_jobs = manager.cache(CronJob)
        self._jobs = Indexed(manager, Job)
        sources = For(self._cron_jobs, when=anything), Owns(self._jobs.cache)
        manager.controller("cronjobs", self._reconcile, *sources, workers=2)

    async def _reconcile(self, key: Key) -> Result:
        found = self._cron_jobs.get(key)
        if found is None or found.deleting:
            return DONE
        jobs = self._jobs.of(found)
        status = self._looked_at(found, jobs)
        now = self._clock.now()
        try:
            said = due(found, now)
        except (schedules.BadSchedule, zoneinfo.ZoneInfoNotFoundError) as error:
            self.recorder.record(found, "Warning", "InvalidSchedule", f"invalid schedule: {error}")
            return DONE
        for job in superfluous(found, jobs):
            await self._discard(job)
        if not found.spec.suspend and said.last is not None:
            status = await self._start(found, status, jobs, said)
        await self._client.of(CronJob).write_status(found, status)
        if found.spec.suspend or said.following is None:
            return DONE
        return requeue_after(max(0.0, (said.following - self._clock.now()).total_seconds()) + 0.05)

    def _looked_at(self, found: CronJob, jobs: Sequence[Job]) -> CronJobStatus:
        """The status without the Jobs that have ended since."""
        by_uid = {job.metadata.uid: job for job in jobs}
        kept, successful = [], found.status.last_successful_time
        for each in found.status.active:
            job = by_uid.get(each.uid)
            if job is not None and job.finished is not None:
                said = f"Saw completed job: {each.name}, condition: {job.finished.type}"
                self.recorder.record(found, "Normal", "SawCompletedJob", said)
            elif job is None and self._is_gone(found, each):
                self.recorder.record(found, "Normal", "MissingJob", f"Active job went missing: {each.name}")
            else:
                kept.append(each)
        for job in jobs:
            if job.condition("Complete") and job.status.completion_time is not None:
                successful = max(filter(None, (successful, job.status.completion_time)))
        return msgspec.structs.replace(found.status, active=tuple(kept), last_successful_time=successful)

    def _is_gone(self, found: CronJob, each: JobReference) -> bool:
        """Whether a Job is gone, and not just unknown to the cache yet."""
        known = self._jobs.cache.get(Key(found.metadata.namespace, each.name))
        fresh = found.status.last_schedule_time is not None and self._clock.now() - found.status.last_schedule_time
        return known is None and (not fresh or fresh > timedelta(seconds=5))

    async def _start(self, found: CronJob, status: CronJobStatus, jobs: Sequence[Job], said: Due) -> CronJobStatus:
        at = said.last
        if at is None or (status.last_schedule_time is not None and at <= status.last_schedule_time):
            return status
        if said.missed > _MANY:
            why = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            self.recorder.record(found, "Warning", "TooManyMissedTimes", why)
        running = [job for job in jobs if job.finished is None]
        if found.spec.concurrency_policy == "Forbid" and running:
            why = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self.recorder.record(found, "Normal", "JobAlreadyActive", why)
            return status
        if found.spec.concurrency_policy == "Replace":
            for job in running:
                await self._discard(job)
                self.recorder.record(found, "Normal", "SuccessfulDelete", f"Deleted job {job.metadata.name}")
            status = msgspec.structs.replace(status, active=())
        body = job_of(found, at)
        name = body["metadata"]["name"]
        try:
            made = await self._client.raw(Job.kind).create(body)
        except AlreadyExists:
            there = await self._jobs.cache.fetch(Key(found.metadata.namespace, name))
            if there is None or not is_controlled_by(there, found):
                raise
            uid, version = there.metadata.uid, there.metadata.resource_version
        except ApiError as error:
            self.recorder.record(found, "Warning", "FailedCreate", f"Error creating job: {error}")
            raise
        else:
            uid, version = made["metadata"]["uid"], made["metadata"]["resourceVersion"]
            self.recorder.record(found, "Normal", "SuccessfulCreate", f"Created job {name}")
        mine = JobReference(namespace=found.metadata.namespace, name=name, uid=uid, resource_version=version)
        others = tuple(each for each in status.active if each.uid != uid)
        return msgspec.structs.replace(status, active=(*others, mine), last_schedule_time=at)

    async def _discard(self, job: Job) -> None:
        await self._client.of(Job).discard(job, propagation="Background")
