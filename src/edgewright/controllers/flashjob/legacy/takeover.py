"""Takes over from the original operator: finds what it left, waits for what still runs, and then clears it away.

`operator` creates one and gives it to both loops, which know it as a `predecessor.Predecessor`. A Pod of the original
that runs is never ended before its time is over, and nobody else has its device until then; the device is then claimed
to be checked before its leftovers go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Final

import msgspec

from edgewright.api.device import Mark
from edgewright.api.endpoint import normalize_endpoint
from edgewright.api.flash_pod import Variable
from edgewright.api.flashjob import FINALIZERS, FlashJob, FlashJobStatus
from edgewright.api.pod import Pod
from edgewright.api.service import Service
from edgewright.controllers.flashjob.admission import ForeignFlash
from edgewright.controllers.flashjob.context import Context
from edgewright.controllers.flashjob.events import telling
from edgewright.controllers.flashjob.legacy.leftovers import (
    Leftovers,
    clearable,
    devices_of,
    had_by_original,
    meant_by,
    overdue,
    recognise,
    to_remember,
    with_namesakes,
)
from edgewright.controllers.flashjob.legacy.original import Original
from edgewright.controllers.flashjob.legacy.traces import traces_of
from edgewright.controllers.flashjob.lookup import ContextDirectory, resolve
from edgewright.controllers.flashjob.names import label_value
from edgewright.controllers.flashjob.predecessor import Block, Meant
from edgewright.controllers.flashjob.reasons import Reason, fetch_failed, removal_failed
from edgewright.runtime.errors import Conflict, NotFound
from edgewright.runtime.objects import Key

_SOON: Final = 0.2
"""Seconds until what was asked to go is looked for again."""


class Takeover:
    """Finds and clears what the original left; it asks the server only for jobs that carry a finalizer."""

    def __init__(self, context: Context, original: Original | None = None) -> None:
        self.context = context
        self.directory = ContextDirectory(context)
        self._timing = context.settings.timing
        self._original = original or Original(context.client, context.clock, every=self._timing.original_every)
        self._clean: set[str] = set()
        """The uids of the jobs that nothing was found for: we are the only one who creates anything from then on."""
        self._found: dict[str, tuple[FlashJob, Leftovers]] = {}
        """What was found at the last look, by the uid of its job."""
        self._seen = 0
        """How many times the original had been seen at work when it was last asked for."""
        self._settled: int | None = None
        """How many times it had been when all jobs were looked at; None before that."""
        self._settling = asyncio.Lock()

    async def blocks(self) -> Block | None:
        """Why nothing may be started now: the original operator runs."""
        running = await self._original.look()
        if running is None:
            return None
        return Block(
            reason=Reason.ORIGINAL_OPERATOR_RUNS,
            message=running.message,
            short="waits until the original operator is stopped",
            after=self._timing.original_every,
        )

    async def look(self, job: FlashJob) -> Inheritance:
        """What there is for a job now."""
        return Inheritance(self, job, await self._look(job))

    async def _look(self, job: FlashJob) -> Leftovers:
        uid = job.metadata.uid
        if _unmarked(job):
            self._found.pop(uid, None)
            return Leftovers()
        running = await self._original.look()
        if self._seen != self._original.sightings:
            self._seen = self._original.sightings
            self._clean.clear()  # it may have made something for any job, at any time
        if uid in self._clean:
            return Leftovers()
        client, namespace = self.context.client, job.metadata.namespace
        labels = f"app={label_value(job.metadata.name)}"
        with telling(self.context.recorder, job, fetch_failed(Pod.kind)):
            pods = await client.of(Pod).list(namespace, labels=labels)
        with telling(self.context.recorder, job, fetch_failed(Service.kind)):
            services = await client.of(Service).list(namespace, labels=labels)
        found = recognise(job, pods.items, services.items)
        if found:
            self._found[uid] = (job, found)
        else:
            self._found.pop(uid, None)
        if not found and running is None:
            self._clean.add(uid)
        return found

    async def flashing(self, *, now: datetime) -> list[ForeignFlash]:
        """The Pods of the original that have not ended, whichever job they are of.

        All jobs are looked at before the first answer, and again where the original has been at work since: one that
        has not had its pass yet may have a Pod on the very device that another job is about to start with.
        """
        async with self._settling:
            seen = self._original.sightings
            if self._settled != seen:
                for job in self.context.jobs:
                    await self._look(job)
                self._settled = seen
        found: list[ForeignFlash] = []
        for job, leftovers in self._found.values():
            late = overdue(job, leftovers, now=now, grace=self._timing.start_grace)
            left = devices_of(leftovers, self.directory)
            for uuid, pod in leftovers.pods.items():
                if pod.finished:
                    continue
                # What does not tell for which of the job's devices it was made may flash any of them.
                its = {uuid: left[uuid]} if uuid in left else {} if uuid else resolve(job.spec.uuids, self.directory)
                found.append(
                    ForeignFlash(
                        why=_waiting(pod.key),
                        namespace=pod.metadata.namespace,
                        job=job.metadata.uid,
                        devices=frozenset(device.metadata.name for device in its.values()),
                        endpoint=normalize_endpoint(pod.variable(Variable.HOST_ENDPOINT)),
                        overdue=pod.metadata.name in late,
                    )
                )
        return found

    def jobs_of(self, pod: Pod) -> Iterable[Key]:
        """The job that the original's Pod is labelled with: not every version of it set owner references."""
        labels = pod.metadata.labels
        if "app" in labels and Mark.JOB_UID not in labels:
            yield Key(pod.metadata.namespace, labels["app"])

    def started(self, job: FlashJob) -> None:
        """Notes that the job's finalizer will be ours: where it carries none yet, nothing was left."""
        if _unmarked(job):
            self._clean.add(job.metadata.uid)

    def forget(self, uid: str) -> None:
        """The job is gone."""
        self._clean.discard(uid)
        self._found.pop(uid, None)

    async def spared(self, job: FlashJob, status: FlashJobStatus) -> FlashJobStatus:
        """The status that we may write now: an original that runs flashes again what is not counted as done in it."""
        before, after = job.status.completed_uuids, status.completed_uuids
        if set(before) <= set(after) or await self._original.look() is None:
            return status
        return msgspec.structs.replace(status, completed_uuids=tuple(dict.fromkeys((*before, *after))))

    async def clear(self, job: FlashJob, leftovers: Iterable[Pod | Service]) -> None:
        """Asks for the deletion of these, which were made for the job; what is gone already is gone."""
        for obj in leftovers:
            if obj.deleting:
                continue
            api = self.context.client.of(type(obj))
            try:
                with telling(self.context.recorder, job, removal_failed(obj.kind, job_goes=job.deleting)):
                    await api.delete(Key(obj.metadata.namespace, obj.metadata.name), uid=obj.metadata.uid)
            except (NotFound, Conflict):
                continue


class Inheritance:
    """What the original left for one job: an estate, as the loop over FlashJobs knows it."""

    def __init__(self, takeover: Takeover, job: FlashJob, leftovers: Leftovers) -> None:
        self.leftovers = leftovers
        self._takeover = takeover
        self._job = job
        self._timing = takeover.context.settings.timing

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return bool(self.leftovers)

    def meant(self, now: datetime) -> Meant:
        """Which Devices the job means, and what is left of each."""
        job = self._job
        found = meant_by(job, self.leftovers, self._takeover.directory)
        note = to_remember(job, found.leftovers)
        traces = traces_of(
            job,
            found.leftovers,
            told=found.told,
            late=self._late(found.leftovers, now),
            had=with_namesakes(had_by_original(job, note), found.devices),
        )
        annotations = {} if note is None else {Mark.TAKEN_OVER.value: note or None}
        return Meant(found.devices, traces, annotations)

    async def clear(self, job: FlashJob, *, settled: Collection[str]) -> float:
        """Removes what is of no use any more, unless the original runs and the job stays; when to look again."""
        timing = self._timing
        if not job.deleting and await self._takeover.blocks() is not None:
            return min(timing.recheck, timing.original_every)
        late = self._late(self.leftovers, self._takeover.context.clock.now())
        going = clearable(job, self.leftovers, settled=settled, late=late)
        await self._takeover.clear(job, going)
        return min(_SOON, timing.recheck) if going else timing.recheck

    def _late(self, leftovers: Leftovers, now: datetime) -> frozenset[str]:
        return overdue(self._job, leftovers, now=now, grace=self._timing.start_grace)


def _waiting(pod: Key) -> str:
    return f"waiting for Pod {pod.name} of the original operator in namespace {pod.namespace}, which is flashing it"


def _unmarked(job: FlashJob) -> bool:
    """Whether a job carries no finalizer of the original's: then that has made nothing for it."""
    return FINALIZERS.isdisjoint(job.metadata.finalizers)
