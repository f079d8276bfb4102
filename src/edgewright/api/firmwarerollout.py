"""FirmwareRollout: these devices get this firmware step by step, and it stops by itself when it goes wrong.

People and CI write it. The rollout controller writes status only, and creates the FlashJobs of each batch; the one
place that admits the start of a flash reads its limits. What a rollout has done stands in its FlashJobs and in the
records of the Devices, so a wiped status changes nothing but what is shown.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Final, TypeAlias

from edgewright.api.annotations import Schema
from edgewright.api.crd import AGE, Column, CustomResource, Definition
from edgewright.api.flash_pod import Outcome
from edgewright.api.flashjob import MAX_TTL, MAX_VERSION, FlashJobTemplate, ImageReference, Name
from edgewright.api.label_selector import LabelSelector
from edgewright.runtime.objects import Condition, Kind, Struct

JOB_DEVICES: Final = 1000
"""How many devices one FlashJob of a rollout has at most."""
MAX_BATCHES: Final = 100
"""How many batches a rollout may name."""
MAX_BATCHES_SHOWN: Final = 200
"""How many batches stand in the status one by one: a small batchSize over a large fleet creates thousands."""
MAX_NAMED: Final = 5000
"""How many devices a selector may name one by one."""
DEFAULT_QUARANTINE: Final = 3
DEFAULT_REVISIONS: Final = 10
DEFAULT_SUCCESS: Final = 90
"""A small canary must go well as a whole; a large batch may have the few dead boards that every fleet has."""
ROLLOUT_LABEL: Final = "edgewright.dev/rollout"
"""Label of a FlashJob that a rollout made: the rollout's name."""
ROLLOUT_UID_LABEL: Final = "edgewright.dev/rollout-uid"
"""Label of a FlashJob that a rollout made: the rollout's uid, which stands in the owner reference too."""
BATCH_ANNOTATION: Final = "edgewright.dev/batch"
"""Annotation of a FlashJob that a rollout made: the number of its batch, from 1 on."""
REVISION_ANNOTATION: Final = "edgewright.dev/revision"
"""Annotation of a FlashJob that a rollout made: the number of the rollout's revision, from 1 on."""
REVISION_HASH_ANNOTATION: Final = "edgewright.dev/revision-hash"
"""Annotation of a FlashJob that a rollout made: a hash of what that revision flashes and how."""
BATCH_SIZE_ANNOTATION: Final = "edgewright.dev/batch-size"
"""Annotation of a FlashJob that a rollout made: how many devices its batch has in all; absent: all the rest."""
OPENED_ANNOTATION: Final = "edgewright.dev/opened"
"""Annotation of a FlashJob of a rollout: when the first batch of its first revision opened; absent: it is this."""
RETRY_ANNOTATION: Final = "edgewright.dev/retry"
"""Annotation of a FlashJob that tries failed devices once more: the spec.retryRequest that asked for it."""
REQUESTS_ANNOTATION: Final = "edgewright.dev/requests"
"""Annotation of a FlashJob of a rollout: when the operator saw which spec.resumeRequest and retryRequest, as JSON."""
STOPPED_ANNOTATION: Final = "edgewright.dev/stopped"
"""Annotation of a FlashJob that its rollout has paused: when, by which action and why, as JSON."""
NOTIFICATIONS_ANNOTATION: Final = "edgewright.dev/notifications"
"""Annotation of a rollout: what a webhook was told of it last, and what is still to be told, as JSON."""
CLOSED_ANNOTATION: Final = "edgewright.dev/closed"
"""Annotation of a FlashJob whose batch has passed its soak time: when, and the places in spec.uuid that regressed."""

Percent: TypeAlias = Annotated[int, Schema(minimum=0, maximum=100)]
Seconds: TypeAlias = Annotated[int, Schema(minimum=0, maximum=31_536_000)]
Sentence: TypeAlias = Annotated[str, Schema(max_length=2048)]


class RolloutPhase(StrEnum):
    """How far a rollout is."""

    PENDING = "Pending"
    """It has not begun: its spec was not read yet, cannot be acted on, or selects no device."""
    PROGRESSING = "Progressing"
    """Devices are being flashed, or wait for their turn."""
    SOAKING = "Soaking"
    """A batch has ended, and is watched before the next one opens."""
    WAITING = "Waiting"
    """It waits for a person, a window or the fleet to thaw; the message says which."""
    PAUSED = "Paused"
    ABORTED = "Aborted"
    RECALLED = "Recalled"
    """It went wrong, and a rollout of its own takes its devices back."""
    COMPLETED = "Completed"
    FAILED = "Failed"
    """A batch has ended with more failed devices than its gate allows: no further one opens until somebody acts."""


class StopAction(StrEnum):
    """What is done when a rule of `stop` holds."""

    PAUSE = "pause"
    """No new starts until somebody resumes it."""
    ABORT = "abort"
    """No new starts ever; those under way finish."""
    RECALL = "recall"
    """As abort, and the devices that it changed go back to what each ran before."""


class Approval(StrEnum):
    """Who lets the next batch begin."""

    AUTOMATIC = "automatic"
    MANUAL = "manual"


class DeviceSelector(Struct, frozen=True, kw_only=True):
    """Which devices: those that meet every condition that is given; none given selects all."""

    types: tuple[Name, ...] = ()
    """Types of device, for example esp32s3."""

    applications: tuple[Name, ...] = ()
    """Applications that they run, for example thermo."""

    versions: tuple[Annotated[str, Schema(max_length=MAX_VERSION)], ...] = ()
    """Versions that they run when they are chosen; one that was chosen stays."""

    labels: LabelSelector | None = None
    """Their labels."""

    uuids: Annotated[tuple[Annotated[str, Schema(max_length=253)], ...], Schema(max_items=MAX_NAMED)] = ()
    """Uids of Akri Instances or of Devices."""

    names: Annotated[tuple[Annotated[str, Schema(max_length=253)], ...], Schema(max_items=MAX_NAMED)] = ()
    """Names of Devices."""


class FirmwareFor(Struct, frozen=True, kw_only=True):
    """The firmware of one type of device."""

    type: Annotated[str, Schema(min_length=1, max_length=63, required=True)] = ""
    """The type of device."""

    firmware: Annotated[ImageReference, Schema(min_length=1, required=True)] = ""
    """The OCI image that holds the firmware."""

    version: Annotated[str, Schema(min_length=1, max_length=MAX_VERSION, required=True)] = ""
    """The version that the device must report afterwards."""


class Gate(Struct, frozen=True, kw_only=True):
    """What must hold before the next batch opens."""

    success_percent: Annotated[Percent | None, Schema(absent=DEFAULT_SUCCESS)] = None
    """So many per cent of the batch's devices have succeeded, and are well after the soak time."""

    approval: Annotated[str | None, Schema(enum=Approval, nullable=False)] = None
    """automatic, the default, or manual: somebody names the batch among the approvals."""


class Batch(Struct, frozen=True, kw_only=True):
    """A step of the rollout."""

    name: Annotated[str, Schema(min_length=1, max_length=63, required=True)] = ""
    """What it is called, for example canary."""

    size: int | str | None = None
    """How many devices: a count, or a share of all selected ones as 10%, rounded up. Absent: all that it selects."""

    selector: DeviceSelector | None = None
    """Which devices, of those that no earlier batch has."""

    soak_seconds: Seconds = 0
    """How long its devices are watched after the last one has ended, before the next batch opens."""

    gate: Gate = Gate()
    """What must hold before the next batch opens."""


class Budget(Struct, frozen=True, kw_only=True):
    """A limit on each group of devices that share the value of a label."""

    label: Annotated[str, Schema(min_length=1, max_length=317, required=True)] = ""
    """The label by whose value devices are grouped, for example site. A device without it is in no group."""

    max_unavailable: Annotated[int | str | None, Schema(required=True, nullable=False)] = None
    """How many devices of a group, as 1 or 10% (rounded down, but at least 1), may be updating or broken at once."""


class Window(Struct, frozen=True, kw_only=True):
    """A time in which devices may be started. Outside all windows none is; those under way finish."""

    cron: Annotated[str, Schema(min_length=9, max_length=128, required=True)] = ""
    """When it opens, as five fields: minute, hour, day of month, month, day of week."""

    duration_seconds: Annotated[int, Schema(minimum=60, maximum=604_800, required=True)] = 0
    """How long it is open."""

    time_zone: Annotated[str, Schema(max_length=63)] = ""
    """The time zone of the cron expression, for example Europe/Athens. Empty: UTC."""


class StopRule(Struct, frozen=True, kw_only=True):
    """When the rollout stops by itself."""

    outcomes: tuple[Annotated[str, Schema(max_length=63)], ...] = ()
    """Which outcomes count, such as reverted, or regressed for one that fell back later. None: every failure."""

    threshold: int | str = 1
    """How many devices, as 3, or which share of those that have ended, as 20%."""

    min_sample: Annotated[int, Schema(minimum=1)] = 1
    """A share counts only once so many devices have ended."""

    action: Annotated[str, Schema(enum=StopAction, required=True)] = StopAction.PAUSE
    """pause, abort or recall."""


class Observe(Struct, frozen=True, kw_only=True):
    """What counts against a device after its success, within the soak time of its batch."""

    disappeared: bool = True
    """Whether one that is not seen any more has regressed."""

    version: bool = True
    """Whether one that runs another version, by its own word or Akri's, has regressed."""


class RolloutReference(Struct, frozen=True, kw_only=True):
    """Another rollout of the same namespace."""

    name: Annotated[str, Schema(min_length=1, max_length=253, required=True)] = ""
    """Its name."""

    uid: Annotated[str, Schema(max_length=63)] = ""
    """Its uid: it may be gone by now, or its name be another one's."""


class FirmwareRolloutSpec(Struct, frozen=True, kw_only=True):
    """Who gets what, how fast, and when it stops."""

    selector: DeviceSelector = DeviceSelector()
    """Which devices."""

    exclude: DeviceSelector | None = None
    """Which of those not."""

    dynamic: bool | None = None
    """Whether devices that appear later join; true where it is absent."""

    firmware: ImageReference = ""
    """The OCI image that holds the firmware."""

    version: Annotated[str, Schema(max_length=MAX_VERSION)] = ""
    """The version that the devices must report afterwards."""

    firmwares: Annotated[tuple[FirmwareFor, ...], Schema(max_items=50, list_type="map", list_map_keys=("type",))] = ()
    """The firmware of each type of device, in place of firmware and version; a type without one is left out."""

    recall: RolloutReference | None = None
    """In place of firmware and selector: the devices that this rollout changed go back to what each ran before."""

    template: FlashJobTemplate = FlashJobTemplate()
    """How each device is flashed."""

    batch_size: Annotated[int | None, Schema(minimum=1)] = None
    """The simple form: so many devices at a time."""

    interval_seconds: Seconds = 0
    """The simple form: so long from the end of a batch to the next one."""

    batches: Annotated[tuple[Batch, ...], Schema(max_items=MAX_BATCHES, list_type="atomic")] = ()
    """The steps, in order; a last one with all the rest is implied."""

    max_concurrent: Annotated[int | None, Schema(minimum=1)] = None
    """How many devices are flashed at once, over all batches; absent: as the FlashJobs do."""

    max_per_minute: Annotated[int | None, Schema(minimum=1)] = None
    """How many devices are started within any 60 seconds."""

    budgets: Annotated[tuple[Budget, ...], Schema(max_items=20, list_type="map", list_map_keys=("label",))] = ()
    """How many devices of a group may be updating or broken at once."""

    windows: Annotated[tuple[Window, ...], Schema(max_items=50, list_type="atomic")] = ()
    """When devices may be started; none: always."""

    stop: Annotated[tuple[StopRule, ...], Schema(max_items=20, list_type="atomic")] = ()
    """When it stops by itself."""

    quarantine_after: Annotated[int | None, Schema(minimum=0, absent=DEFAULT_QUARANTINE)] = None
    """A device whose flash failed so often in a row is left alone until somebody releases it; 0: never."""

    observe: Observe = Observe()
    """What counts against a device after its success."""

    paused: bool | None = None
    """While true no further device is started; those under way finish."""

    aborted: bool | None = None
    """True: no further device is ever started; those under way finish."""

    approvals: Annotated[
        tuple[Annotated[str, Schema(max_length=63)], ...], Schema(max_items=MAX_BATCHES, list_type="set")
    ] = ()
    """The names of the batches with manual approval after which it may go on."""

    resume_request: Annotated[str, Schema(max_length=63)] = ""
    """Any new text ends a pause by a rule of stop, and outcomes so far count for none any more: `rollout resume`."""

    retry_request: Annotated[str, Schema(max_length=63)] = ""
    """With any new text the devices that have failed so far are tried once more: `rollout retry`."""

    ttl_seconds_after_finished: Annotated[int | None, Schema(minimum=0, maximum=MAX_TTL)] = None
    """So long after its end the rollout is deleted, with its FlashJobs; absent: never."""

    revision_history_limit: Annotated[int | None, Schema(minimum=0, maximum=100, absent=DEFAULT_REVISIONS)] = None
    """Of how many earlier revisions the FlashJobs are kept, for history and undo."""


class OutcomeCounts(Struct, frozen=True, kw_only=True, omit_defaults=False):
    """How many devices stand where; every selected device is counted in exactly one."""

    total: int = 0
    """All that are selected."""
    succeeded: int = 0
    """Those that run the new version, by proof."""
    current: int = 0
    """Those that ran it before."""
    failed: int = 0
    """Those whose flash failed for good."""
    regressed: int = 0
    """Those that fell back, disappeared or changed after their success."""
    flashing: int = 0
    """Those under way."""
    waiting: int = 0
    """Those that have not started."""
    quarantined: int = 0
    """Those that keep failing, and are left alone."""
    excluded: int = 0
    """Those that cannot get it: no firmware for their type, or not allowed in this namespace."""


class BatchStatus(Struct, frozen=True, kw_only=True):
    """One batch, as last seen."""

    number: int = 0
    """Its number, from 1 on."""
    name: Annotated[str, Schema(max_length=63)] = ""
    """What it is called."""
    phase: Annotated[str, Schema(max_length=63)] = ""
    """Planned, Running, Soaking, AwaitingApproval, Passed, Failed."""
    size: int = 0
    """How many devices it has."""
    done: int = 0
    """How many of them run the new version."""
    failed: int = 0
    """How many of them failed or regressed."""
    opened: datetime | None = None
    """When it was opened."""
    ended: datetime | None = None
    """When its last device ended."""
    passed: datetime | None = None
    """When it could be followed by the next."""
    message: Sentence = ""
    """Why it waits, in a sentence."""


class FirmwareRolloutStatus(Struct, frozen=True, kw_only=True):
    """How far the rollout is, as last seen by the operator."""

    phase: Annotated[str, Schema(enum=RolloutPhase)] = ""
    """Pending, Progressing, Soaking, Waiting, Paused, Aborted, Recalled, Completed or Failed."""

    message: Sentence = ""
    """What happens next and why, in a sentence for people."""

    conditions: Annotated[tuple[Condition, ...], Schema(list_type="map", list_map_keys=("type",))] = ()
    """The state of the rollout in the form that kubectl wait and other tools read."""

    observed_generation: Annotated[int, Schema(minimum=0)] = 0
    """The generation of the spec that this status is about."""

    revision: int = 0
    """The number of the revision: it grows with every change of what is flashed."""

    counts: OutcomeCounts | None = None
    """How many devices stand where."""

    outcomes: dict[str, int] = {}
    """How many devices ended how, by the outcome."""

    progress: Annotated[str, Schema(max_length=32)] = ""
    """Those that run the new version and all, as 3/12."""

    batch: Annotated[str, Schema(max_length=80)] = ""
    """The batch that is open, and how many there are, as canary (1/3)."""

    batches: Annotated[tuple[BatchStatus, ...], Schema(max_items=MAX_BATCHES_SHOWN, list_type="atomic")] = ()
    """The batches one by one: the open ones, those before, and the next."""

    batches_omitted: int = 0
    """How many more there are than stand in batches."""

    next_opening: datetime | None = None
    """When the next window opens, where it waits for one."""

    estimated_end: datetime | None = None
    """When the last device would end, if all goes on as it did so far."""

    observed_by: Annotated[str, Schema(max_length=63)] = ""
    """How devices are watched during their soak time: by asking them (Prober), or by what Akri tells (Instances)."""

    start_time: datetime | None = None
    """When the first batch opened."""

    completion_time: datetime | None = None
    """When it ended."""

    recall: Annotated[str, Schema(max_length=253)] = ""
    """The rollout that takes its devices back."""


class FirmwareRollout(CustomResource, frozen=True, kw_only=True):
    """Gives devices a firmware step by step, and stops by itself when it goes wrong."""

    kind: ClassVar[Kind] = Kind(
        group="edgewright.dev", version="v1alpha1", kind="FirmwareRollout", plural="firmwarerollouts"
    )
    definition: ClassVar[Definition] = Definition(
        short_names=("fro",),
        categories=("edgewright",),
        columns=(
            Column(name="Phase", path=".status.phase", description="How far it is."),
            Column(name="Done", path=".status.progress", description="How many devices run the new version."),
            Column(name="Failed", path=".status.counts.failed", type="integer", description="How many failed."),
            Column(name="Batch", path=".status.batch", description="The batch that is open."),
            Column(name="Version", path=".spec.version", description="The version that the devices must run."),
            Column(name="Message", path=".status.message", description="What happens next and why.", priority=1),
            AGE,
        ),
    )

    spec: Annotated[FirmwareRolloutSpec, Schema(required=True)] = FirmwareRolloutSpec()
    """Who gets what, how fast, and when it stops."""

    status: FirmwareRolloutStatus = FirmwareRolloutStatus()
    """How far the rollout is, as last seen by the operator."""


FAILURES: Final = frozenset(outcome for outcome in Outcome if not outcome.good)
"""The outcomes that count as a failure, where a rule of stop names none."""
REGRESSED: Final = "regressed"
"""What a rule of stop calls a device that fell back, disappeared or changed after its success."""
