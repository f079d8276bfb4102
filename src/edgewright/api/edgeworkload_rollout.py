"""How a changed workload reaches the devices that it selects step by step: a part of EdgeWorkload and EdgeDeployment.

People write it; the edgeworkload controller opens one batch after another and shows how far it is, the gateway sends
each device the version that is its own. Without it a change reaches all devices at once.
"""

from __future__ import annotations

from typing import Annotated, Final

from edgewright.api.annotations import Schema
from edgewright.api.firmwarerollout import MAX_BATCHES, BatchStatus, Gate, RolloutPhase, Seconds, Sentence
from edgewright.api.label_selector import LabelSelector
from edgewright.runtime.objects import Struct

DEFAULT_SOAK: Final = 60
"""A device takes a version for good after 30 seconds; what fails in that time is seen before the next batch opens."""
DEFAULT_DEADLINE: Final = 600
ROLLED_OUT: Final = "RolledOut"
"""The condition that says whether all devices have the newest version of a workload with a rollout."""


class WorkloadBatch(Struct, frozen=True, kw_only=True):
    """A step of the rollout of a changed workload."""

    name: Annotated[str, Schema(min_length=1, max_length=63, required=True)] = ""
    """What it is called, for example canary."""

    size: int | str | None = None
    """How many devices: a count, or a share of all that the workload selects as 10%, rounded up. Absent: all that it
    selects."""

    selector: LabelSelector | None = None
    """Which devices, by their labels, of those that no earlier batch has; flotta/member-of is the label of a set."""

    soak_seconds: Annotated[Seconds | None, Schema(absent=DEFAULT_SOAK)] = None
    """How long its devices are watched after the last one runs the new version, before the next batch opens."""

    gate: Gate = Gate()
    """What must hold before the next batch opens."""


class WorkloadRollout(Struct, frozen=True, kw_only=True):
    """A change reaches the devices step by step, and pauses by itself when it goes wrong."""

    batches: Annotated[tuple[WorkloadBatch, ...], Schema(max_items=MAX_BATCHES, list_type="atomic")] = ()
    """The steps, in order; a last one with all the rest is implied."""

    deadline_seconds: Annotated[int | None, Schema(minimum=1, maximum=604_800, absent=DEFAULT_DEADLINE)] = None
    """A device that does not run the new version so long after its batch was opened has failed."""

    max_failures: int | str | None = None
    """It pauses as soon as so many devices have failed, also within a batch: a count, or a share of those that have
    ended as 20%. Absent: only the gates of the batches count."""

    paused: bool | None = None
    """While true no further batch is opened; devices of those that are open go on."""

    approvals: Annotated[
        tuple[Annotated[str, Schema(max_length=63)], ...], Schema(max_items=MAX_BATCHES, list_type="set")
    ] = ()
    """The names of the batches with manual approval after which it may go on."""

    resume_request: Annotated[str, Schema(max_length=63)] = ""
    """Any new text ends a pause that a failed batch or maxFailures brought, and accepts what has failed so far."""


class WorkloadRolloutStatus(Struct, frozen=True, kw_only=True):
    """How far the rollout of the newest version is."""

    phase: Annotated[str, Schema(enum=RolloutPhase)] = ""
    """Progressing, Soaking, Waiting, Paused or Completed."""

    message: Sentence = ""
    """What happens next and why, in a sentence for people."""

    revision: Annotated[str, Schema(max_length=63)] = ""
    """The newest version, by its hash; devices show the one that they have applied."""

    number: int = 0
    """How many versions there have been, with it."""

    progress: Annotated[str, Schema(max_length=32)] = ""
    """The devices that run it and all, as 3/12."""

    batch: Annotated[str, Schema(max_length=80)] = ""
    """The batch that is open, and how many there are, as canary (1/3)."""

    batches: Annotated[tuple[BatchStatus, ...], Schema(max_items=MAX_BATCHES + 1, list_type="atomic")] = ()
    """The batches that were opened, one by one."""
