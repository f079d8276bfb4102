"""The FlashJobs of a rollout: how they are made, and what they tell of what the rollout has done.

A batch is open when it has a FlashJob; its devices are the entries of spec.uuid of its FlashJobs. Which batch and
revision a job belongs to, that the rollout has stopped and that a batch is closed stands in annotations: they are the
memory of the rollout, whose status may be wiped. Pure.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Final, TypeVar

import msgspec

from edgewright.api.firmwarerollout import (
    BATCH_ANNOTATION,
    BATCH_SIZE_ANNOTATION,
    CLOSED_ANNOTATION,
    JOB_DEVICES,
    OPENED_ANNOTATION,
    REQUESTS_ANNOTATION,
    RETRY_ANNOTATION,
    REVISION_ANNOTATION,
    REVISION_HASH_ANNOTATION,
    ROLLOUT_LABEL,
    ROLLOUT_UID_LABEL,
    STOPPED_ANNOTATION,
    FirmwareRollout,
    FirmwareRolloutSpec,
)
from edgewright.api.flashjob import MAX_DEVICES, DeviceState, FlashJob, FlashJobPhase, FlashJobSpec
from edgewright.controllers.flashjob.names import label_value, state_of
from edgewright.controllers.rollout.requests import Requests
from edgewright.controllers.rollout.targets import Target
from edgewright.runtime.objects import ObjectMeta, Struct, owner_reference

T = TypeVar("T", bound=Struct)

_HASH: Final = 5
_MAX_PREFIX: Final = 200


class Halt(StrEnum):
    """Why a rollout has paused a FlashJob of its own."""

    PAUSE = "pause"
    """A rule of stop: until somebody resumes the rollout."""
    ABORT = "abort"
    """A rule of stop, or spec.aborted: for ever."""
    RECALL = "recall"
    """A rule of stop: for ever, and its devices go back."""
    PAUSED = "paused"
    """spec.paused."""
    SUPERSEDED = "superseded"
    """The rollout flashes something else by now."""


class Stop(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """That a rollout has paused a FlashJob: when, and why."""

    action: str = Halt.PAUSED
    time: datetime | None = None
    why: str = ""
    request: str = ""
    """The spec.resumeRequest under which it was: a later one ends a pause."""


class Closed(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """That a batch has passed: when, and which of its devices had regressed by then."""

    time: datetime | None = None
    regressed: tuple[int, ...] = ()
    """Their places in spec.uuid, which only ever gets longer."""


@dataclass(slots=True)
class BatchJob:
    """One FlashJob of a rollout, as far as the rollout reads it."""

    job: FlashJob
    uid: str
    revision: int
    hash: str
    batch: int
    index: int
    state: str
    version: str
    retry: str = ""
    size: int | None = None
    stop: Stop | None = None
    closed: Closed | None = None
    requests: Requests | None = None
    opened: datetime | None = None
    """When the first batch of the rollout opened, as far as this job tells."""
    failed: dict[str, tuple[str, datetime | None]] = field(default_factory=dict)
    """Outcome and time of the devices that failed without a record on their Device."""
    over: bool = False
    """Whether the job says that all of its devices have ended."""
    watched: bool = False
    """Whether devices that fall back after their success count against it."""
    regressed: frozenset[str] = frozenset()
    """The devices that had regressed when its batch was closed."""
    plain: bool = False
    """Whether a success needs no second look, as the survey goes."""
    waiting: int = 0
    """How many of its devices wait, as the survey counts them."""
    succeeded: int = 0
    """How many of its devices have succeeded, as the survey counts them."""
    ended: datetime | None = None
    """When the latest of those ended."""

    @property
    def members(self) -> tuple[str, ...]:
        """Its devices, by the names of their Devices."""
        return self.job.spec.uuids

    @property
    def target(self) -> Target:
        """What its devices are to run."""
        spec = self.job.spec
        return Target(spec.firmware, spec.version, spec.device or "")


class BatchJobs:
    """The FlashJobs of one revision of a rollout, in the order in which they were made."""

    def __init__(self, jobs: Sequence[BatchJob]) -> None:
        self.all = sorted(jobs, key=lambda job: (job.batch, job.index))

    @cached_property
    def members(self) -> dict[str, BatchJob]:
        """The job that each device is in; of several the latest, which tries it once more."""
        found: dict[str, BatchJob] = {}
        for job in self.all:
            found.update(dict.fromkeys(job.members, job))
        return found

    @cached_property
    def by_batch(self) -> dict[int, list[BatchJob]]:
        """The jobs of each batch that is open."""
        found: defaultdict[int, list[BatchJob]] = defaultdict(list)
        for job in self.all:
            found[job.batch].append(job)
        return dict(found)

    @property
    def top(self) -> int:
        """The number of the latest batch that is open; 0 where none is."""
        return max(self.by_batch, default=0)

    @cached_property
    def opened(self) -> datetime | None:
        """When the first batch opened."""
        times = [job.job.metadata.creation_timestamp for job in self.all]
        return min((time for time in times if time is not None), default=None)

    def missing(self, batch: int) -> int:
        """How many devices a batch lacks of what it was opened with: its jobs were made in part, or one was deleted."""
        jobs = self.by_batch.get(batch, [])
        size = max((job.size for job in jobs if job.size is not None), default=0)
        return max(0, size - sum(len(job.members) for job in jobs if not job.retry)) if size else 0

    def next_index(self, batch: int) -> int:
        """The number of the next job of a batch."""
        return max((job.index for job in self.by_batch.get(batch, [])), default=-1) + 1


@dataclass(frozen=True)
class Revisions:
    """The FlashJobs of a rollout by revision."""

    number: int
    """The current one's."""
    hash: str
    current: BatchJobs
    older: dict[int, list[BatchJob]]

    @property
    def opened(self) -> datetime | None:
        """When the first batch of the first revision opened, also where the jobs of that are not kept any more."""
        jobs = (job for jobs in (self.current.all, *self.older.values()) for job in jobs)
        return min((job.opened for job in jobs if job.opened is not None), default=None)


def revisions_of(spec: FirmwareRolloutSpec, jobs: Iterable[FlashJob]) -> Revisions:
    """The jobs of a rollout by revision: the latest is the current one where it flashes what the spec asks for."""
    wanted = revision_hash(spec)
    by_number: defaultdict[int, list[BatchJob]] = defaultdict(list)
    for job in jobs:
        if not job.deleting:
            read = read_job(job)
            by_number[read.revision].append(read)
    latest = max(by_number, default=0)
    if latest and all(job.hash == wanted for job in by_number[latest]):
        return Revisions(latest, wanted, BatchJobs(by_number.pop(latest)), dict(by_number))
    return Revisions(latest + 1, wanted, BatchJobs(()), dict(by_number))


def revision_hash(spec: FirmwareRolloutSpec) -> str:
    """A hash of what is flashed and how: another one is another revision."""
    parts = (spec.firmware, spec.version, spec.firmwares, spec.recall, spec.template)
    return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()[:16]


def read_job(job: FlashJob) -> BatchJob:
    """What a FlashJob of a rollout tells."""
    marks = job.metadata.annotations
    status = job.status
    spec = job.spec
    current = status.observed_generation == job.metadata.generation
    closed = _decoded(marks.get(CLOSED_ANNOTATION), Closed)
    read = BatchJob(
        job=job,
        uid=job.metadata.uid,
        revision=_number(marks.get(REVISION_ANNOTATION), 1),
        hash=marks.get(REVISION_HASH_ANNOTATION, ""),
        batch=_number(marks.get(BATCH_ANNOTATION), 1),
        index=_number(job.metadata.name.rpartition("-")[2], 0),
        state=state_of(spec),
        version=spec.version,
        retry=marks.get(RETRY_ANNOTATION, ""),
        size=_number(marks.get(BATCH_SIZE_ANNOTATION), 0) or None,
        stop=_decoded(marks.get(STOPPED_ANNOTATION), Stop),
        closed=closed,
        requests=_decoded(marks.get(REQUESTS_ANNOTATION), Requests),
        opened=_moment(marks.get(OPENED_ANNOTATION)) or job.metadata.creation_timestamp,
        over=current and status.phase in _OVER and status.completion_time is not None,
    )
    if current and status.counts is not None and status.counts.failed:
        read.failed = {each.uuid: (each.outcome, each.time) for each in status.devices if each.state == _FAILED}
    if closed is not None and closed.regressed:
        uuids = spec.uuids
        read.regressed = frozenset(uuids[place] for place in closed.regressed if 0 <= place < len(uuids))
    return read


def make_job(
    rollout: FirmwareRollout,
    revisions: Revisions,
    devices: Sequence[str],
    target: Target,
    *,
    batch: int,
    index: int,
    size: int | None = None,
    retry: str = "",
    requests: Requests | None = None,
) -> FlashJob:
    """A FlashJob of a batch; the same batch and index give the same name always."""
    metadata = rollout.metadata
    marks = {
        BATCH_ANNOTATION: str(batch),
        REVISION_ANNOTATION: str(revisions.number),
        REVISION_HASH_ANNOTATION: revisions.hash,
    }
    if size is not None:
        marks[BATCH_SIZE_ANNOTATION] = str(size)
    if (opened := revisions.opened) is not None:
        marks[OPENED_ANNOTATION] = opened.isoformat()
    if retry:
        marks[RETRY_ANNOTATION] = retry
    if requests is not None and requests != Requests():
        marks[REQUESTS_ANNOTATION] = msgspec.json.encode(requests).decode()
    return FlashJob(
        metadata=ObjectMeta(
            name=job_name(rollout, revisions.number, batch, index),
            namespace=metadata.namespace,
            labels={ROLLOUT_LABEL: label_value(metadata.name), ROLLOUT_UID_LABEL: metadata.uid},
            annotations=marks,
            owner_references=(owner_reference(rollout),),
        ),
        spec=FlashJobSpec(
            **msgspec.structs.asdict(rollout.spec.template),
            uuid=tuple(devices),
            firmware=target.firmware,
            version=target.version,
            device=target.type or None,
            max_concurrent=concurrency_of(rollout.spec),
        ),
    )


def concurrency_of(spec: FirmwareRolloutSpec) -> int | None:
    """How many devices a FlashJob of the rollout flashes at once: the rollout's own limit is over all of them."""
    return None if spec.max_concurrent is None else min(spec.max_concurrent, MAX_DEVICES)


def job_name(rollout: FirmwareRollout, revision: int, batch: int, index: int) -> str:
    """What a FlashJob is called: a rollout of the same name that is made later never meets it."""
    metadata = rollout.metadata
    digest = hashlib.sha256(f"{metadata.name}\0{metadata.uid}".encode()).hexdigest()[:_HASH]
    return f"{metadata.name[:_MAX_PREFIX].rstrip('.-')}-{digest}-{revision}-{batch}-{index}"


def chunks(devices: Sequence[str], size: int = JOB_DEVICES) -> list[Sequence[str]]:
    """The devices in as many parts as FlashJobs are needed."""
    return [devices[start : start + size] for start in range(0, len(devices), size)]


_OVER: Final = frozenset({FlashJobPhase.COMPLETED.value, FlashJobPhase.FAILED.value})
_FAILED: Final = DeviceState.FAILED.value


def _number(text: str | None, default: int) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else default


def _moment(text: str | None) -> datetime | None:
    try:
        found = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return found if found is not None and found.tzinfo is not None else None


def _decoded(text: str | None, as_type: type[T]) -> T | None:
    """What an annotation of ours holds; None where there is none, or where people wrote into it."""
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=as_type)
    except (msgspec.DecodeError, UnicodeError):
        return None
