"""FlashJob: these devices run this firmware version. The published kind of the original operator, field for field.

People, GitOps and rollouts write it; the FlashJob controller reads spec and writes status only. Every field has a
default here, also those that the published schema requires: an object that an older schema let through is decoded and
answered with a condition, where one that does not decode could only be logged.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, ClassVar, TypeAlias

import msgspec

from edgewright.api.annotations import Schema
from edgewright.api.crd import AGE, Column, CustomResource, Definition
from edgewright.runtime.objects import Condition, Kind, Struct

MAX_DEVICES = 5000
"""How many devices one FlashJob may name."""

DeviceName: TypeAlias = Annotated[str, Schema(min_length=1, max_length=253)]
Name: TypeAlias = Annotated[str, Schema(max_length=253)]
ImageReference: TypeAlias = Annotated[str, Schema(max_length=1024)]


class FlashJobPhase(StrEnum):
    """The phases that the published kind knows; Running is read from older objects and never written."""

    IN_PROGRESS = "InProgress"
    COMPLETED = "Completed"
    FAILED = "Failed"
    RUNNING = "Running"


class FlashJobSpec(Struct, frozen=True, kw_only=True):
    """Which devices shall run which firmware."""

    uuid: Annotated[
        tuple[DeviceName, ...] | DeviceName | None,
        Schema(min_items=1, max_items=MAX_DEVICES, required=True, nullable=False),
    ] = None
    """The devices to flash: the uid of an Akri Instance, or a list of such uids, at most 5000."""

    firmware: Annotated[ImageReference, Schema(min_length=1, required=True)] = ""
    """The OCI image that holds the firmware, with its registry host, for example registry.example/esp32:1.4.0."""

    version: Annotated[str, Schema(min_length=1, max_length=128, required=True)] = ""
    """The version that the device must report afterwards. Put it in quotes: 1.0 without them is a number."""

    host_endpoint: Annotated[str | None, Schema(max_length=512)] = None
    """The address of the device; where it is absent, the address comes from the device's Akri Instance."""

    device: Name | None = None
    """The type of device, for example esp32s3."""

    application_type: Name | None = None
    """The application that the device runs, for example thermo."""

    external_ip: Annotated[str | None, Schema(max_length=253)] = msgspec.field(default=None, name="externalIP")
    """The address at which the device finds the flash Pod."""

    flashjob_pod_image: ImageReference | None = None
    """The container image of the flash Pod."""

    @property
    def uuids(self) -> tuple[str, ...]:
        """The devices as a list, whichever way they were written."""
        if isinstance(self.uuid, str):
            return (self.uuid,)
        return self.uuid or ()


class FlashJobStatus(Struct, frozen=True, kw_only=True):
    """How far the job is, as last seen by the operator."""

    phase: Annotated[str, Schema(enum=FlashJobPhase)] = ""
    """InProgress while devices are being flashed, then Completed or Failed. Running is found in older objects only."""

    message: Annotated[str, Schema(max_length=32768)] = ""
    """What happened last, in a sentence for people."""

    host_endpoint: Annotated[str, Schema(max_length=512)] = ""
    """The address of the device that was flashed."""

    completed_uuids: Annotated[tuple[DeviceName, ...], Schema(max_items=MAX_DEVICES)] = msgspec.field(
        default=(), name="completedUUIDs"
    )
    """The devices that are done, as they are named in spec.uuid."""

    conditions: Annotated[tuple[Condition, ...], Schema(list_type="map", list_map_keys=("type",))] = ()
    """The state of the job in the form that kubectl wait and other tools read."""

    observed_generation: Annotated[int, Schema(minimum=0)] = 0
    """The generation of the spec that this status is about."""


class FlashJob(CustomResource, frozen=True, kw_only=True):
    """Says that these devices run this version of a firmware."""

    kind: ClassVar[Kind] = Kind(
        group="application.flashjob.nbfc.io", version="v1alpha1", kind="FlashJob", plural="flashjobs"
    )
    definition: ClassVar[Definition] = Definition(
        short_names=("fj",),
        categories=("edgewright",),
        columns=(
            Column(name="Phase", path=".status.phase", description="How far the job is."),
            Column(name="Version", path=".spec.version", description="The version that the devices shall run."),
            Column(name="Device", path=".spec.device", description="The type of device.", priority=1),
            Column(name="Firmware", path=".spec.firmware", description="The firmware image.", priority=1),
            Column(name="Message", path=".status.message", description="What happened last.", priority=1),
            AGE,
        ),
    )

    spec: Annotated[FlashJobSpec, Schema(required=True)] = FlashJobSpec()
    """Which devices shall run which firmware."""

    status: FlashJobStatus = FlashJobStatus()
    """How far the job is, as last seen by the operator."""
