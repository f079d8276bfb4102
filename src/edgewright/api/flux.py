"""Flux: one command that runs in a Flux mini-cluster. The published kind, with a port and a greeting that are ours.

People write it; the mini-cluster controller reads spec and writes status only. A FluxSetup of the same name says how
large the mini-cluster is; a Flux without one runs on one worker.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Final

from edgewright.api.annotations import Rule, Schema
from edgewright.api.crd import AGE, Column, CustomResource, Definition
from edgewright.runtime.objects import Condition, Kind, Struct

FLUX_GROUP: Final = "flux-framework.org"
"""The group of the published kinds."""
FLUX_IMAGE: Final = "fluxrm/flux-sched:focal"
"""The image of brokers where a Flux names none."""
MAX_COMMAND: Final = 32_768
"""How many characters spec.command may have."""


class FluxPhase(StrEnum):
    """How far a mini-cluster is."""

    PENDING = "Pending"
    """Its objects are being made, or its workers are not all ready."""
    RUNNING = "Running"
    """The launcher runs the command."""
    SUCCEEDED = "Succeeded"
    """The command ended with exit code 0."""
    FAILED = "Failed"
    """The command ended with another exit code, or could not be run."""


class FluxSpec(Struct, frozen=True, kw_only=True):
    """What runs, and in which image."""

    object_schema: ClassVar[Schema] = Schema(
        rules=(
            Rule(
                rule="has(self.command) || has(self.port)",
                message="spec.command is required where spec.port is not given",
                reason="FieldValueRequired",
                field_path=".command",
            ),
        )
    )

    image: Annotated[str | None, Schema(max_length=1024)] = None
    """The image of workers and launcher, which holds flux; fluxrm/flux-sched:focal where it is absent."""

    command: Annotated[str | None, Schema(min_length=1, max_length=MAX_COMMAND, nullable=False)] = None
    """What `flux start` runs, split into words as a shell does; absent: a page that shows the greeting at the port."""

    port: Annotated[int | None, Schema(minimum=1, maximum=65_535, nullable=False)] = None
    """Where the command serves: it gets a NodePort Service of the Flux's name, and the variable PORT. A number from
    30000 to 32767 is the node port, too."""

    greeting: Annotated[str | None, Schema(max_length=4096)] = None
    """What the command is to say: it finds it in the variable GREETING."""


class FluxStatus(Struct, frozen=True, kw_only=True):
    """How far the mini-cluster is, as last seen by the operator."""

    phase: Annotated[str, Schema(enum=FluxPhase)] = ""
    """Pending, Running, Succeeded or Failed."""

    message: Annotated[str, Schema(max_length=32_768)] = ""
    """What happened last, in a sentence for people."""

    workers: Annotated[str, Schema(max_length=32)] = ""
    """Workers that are ready and all, as 3/4."""

    exit_code: int | None = None
    """The exit code of the command, once it has ended."""

    completion_time: datetime | None = None
    """When the command ended."""

    conditions: Annotated[tuple[Condition, ...], Schema(list_type="map", list_map_keys=("type",))] = ()
    """The state of the mini-cluster in the form that kubectl wait and other tools read."""

    observed_generation: Annotated[int, Schema(minimum=0)] = 0
    """The generation of the spec that this status is about."""


class Flux(CustomResource, frozen=True, kw_only=True):
    """Runs one command in a Flux mini-cluster."""

    kind: ClassVar[Kind] = Kind(group=FLUX_GROUP, version="v1alpha1", kind="Flux", plural="fluxes")
    definition: ClassVar[Definition] = Definition(
        categories=("edgewright",),
        columns=(
            Column(name="Phase", path=".status.phase", description="How far it is."),
            Column(name="Workers", path=".status.workers", description="How many workers are ready."),
            Column(name="Exit", path=".status.exitCode", type="integer", description="The command's exit code."),
            Column(name="Command", path=".spec.command", description="What runs.", priority=1),
            Column(name="Message", path=".status.message", description="What happened last.", priority=1),
            AGE,
        ),
    )

    spec: Annotated[FluxSpec, Schema(required=True)] = FluxSpec()
    """What runs, and in which image."""

    status: FluxStatus = FluxStatus()
    """How far the mini-cluster is, as last seen by the operator."""
