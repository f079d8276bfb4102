"""EdgeWorkloadRevision: one version of a workload for edge devices, and which devices have got it.

The edgeworkload controller writes it, the gateway reads from it what each device is sent. It is the memory of a staged
rollout: the status of a workload can be wiped. A kind of its own, because the gateway must list these and must not list
the ConfigMaps or ControllerRevisions of others. Back it up together with the workloads.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, ClassVar, Final, TypeAlias

from edgewright.api.annotations import Schema
from edgewright.api.crd import AGE, Column, CustomResource, Definition
from edgewright.runtime.objects import Kind, Struct

MAX_NAMED: Final = 20_000
"""How many devices the batches of a revision name; all others come with the last one, which names none."""

Name: TypeAlias = Annotated[str, Schema(max_length=253)]


class RevisionBatch(Struct, frozen=True, kw_only=True):
    """The devices that get the version together."""

    number: int = 0
    """Which step of the rollout it is, from 1 on."""
    name: Annotated[str, Schema(max_length=80)] = ""
    """What it is called."""
    opened: datetime | None = None
    """When its devices got the version."""
    rest: bool = False
    """True: all the devices that no other batch names, and those that come later."""
    devices: Annotated[tuple[Name, ...], Schema(max_items=MAX_NAMED, list_type="atomic")] = ()
    """Its devices."""


class RevisionStop(Struct, frozen=True, kw_only=True):
    """Why the rollout paused by itself."""

    time: datetime | None = None
    """When."""
    why: Annotated[str, Schema(max_length=2048)] = ""
    """In a sentence."""
    batch: int = 0
    """The batch that fell short; 0: too many devices have failed in all."""
    failed: int = 0
    """How many devices had failed by then."""
    request: Annotated[str, Schema(max_length=63)] = ""
    """The workload's resumeRequest at that time: another one ends the pause."""


class EdgeWorkloadRevisionSpec(Struct, frozen=True, kw_only=True):
    """What is sent, and to whom."""

    kind: Annotated[str, Schema(enum=("EdgeWorkload", "EdgeDeployment"), required=True)] = ""
    """The kind of the workload."""
    workload: Annotated[str, Schema(max_length=253, required=True)] = ""
    """Its name."""
    number: Annotated[int, Schema(minimum=1, required=True)] = 0
    """The later of two versions has the higher number."""
    hash: Annotated[str, Schema(max_length=63, required=True)] = ""
    """A hash of the content."""
    content: Annotated[dict[str, Any], Schema(preserve_unknown_fields=True, required=True)] = {}
    """What devices are sent of the workload: the fields of its spec, and the labels and annotations for podman."""
    batches: Annotated[tuple[RevisionBatch, ...], Schema(max_items=200, list_type="atomic")] = ()
    """Who has got it, in the order in which they did."""
    stop: RevisionStop | None = None
    """Why the rollout paused by itself."""
    accepted: int = 0
    """The failures of batches up to this number were accepted by whoever resumed it."""
    forgiven: int = 0
    """So many failed devices do not count for maxFailures any more."""
    completed: datetime | None = None
    """When the last batch had passed."""

    @property
    def for_all(self) -> bool:
        """Whether every device has got it, or something later."""
        return any(each.rest for each in self.batches)


class EdgeWorkloadRevision(CustomResource, frozen=True, kw_only=True):
    """One version of a workload for edge devices, and which devices have got it."""

    kind: ClassVar[Kind] = Kind(
        group="edgewright.dev", version="v1alpha1", kind="EdgeWorkloadRevision", plural="edgeworkloadrevisions"
    )
    definition: ClassVar[Definition] = Definition(
        short_names=("ewr",),
        columns=(
            Column(name="Workload", path=".spec.workload", description="The workload."),
            Column(name="Number", path=".spec.number", type="integer", description="Which version it is."),
            Column(name="Revision", path=".spec.hash", description="The hash of its content."),
            Column(name="Completed", path=".spec.completed", type="date", description="How long all have had it."),
            AGE,
        ),
    )

    spec: Annotated[EdgeWorkloadRevisionSpec, Schema(required=True)] = EdgeWorkloadRevisionSpec()
    """What is sent, and to whom."""
