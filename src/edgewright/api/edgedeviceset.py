"""EdgeDeviceSet, and EdgeDeviceGroup, its first published name: settings for all the devices that are labelled with it.

A device with the label flotta/member-of takes the set's spec whole, in place of its own. The two kinds are one to the
gateway and the controllers; of two with one name the older counts.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from edgewright.api.annotations import Schema
from edgewright.api.crd import AGE, Column, CustomResource, Definition
from edgewright.api.edgedevice import GROUP, DeviceSettings
from edgewright.runtime.objects import Condition, Kind, Struct


class EdgeDeviceSetStatus(Struct, frozen=True, kw_only=True):
    """What is known of the set."""

    members: Annotated[int, Schema(minimum=0)] = 0
    """How many devices take its settings."""
    conditions: Annotated[tuple[Condition, ...], Schema(list_type="map", list_map_keys=("type",))] = ()
    """Ready; and Conflict, where an older object of the other kind has its name."""
    observed_generation: Annotated[int, Schema(minimum=0)] = 0
    """The generation of the spec that this status is about."""


_DEFINITION = Definition(
    categories=("edgewright",),
    columns=(
        Column(name="Members", path=".status.members", type="integer", description="How many devices it is for."),
        Column(
            name="Ready", path='.status.conditions[?(@.type=="Ready")].status', description="Whether it is in effect."
        ),
        AGE,
    ),
)


class EdgeDeviceSet(CustomResource, frozen=True, kw_only=True):
    """Settings for all the devices with the label flotta/member-of=NAME."""

    kind: ClassVar[Kind] = Kind(group=GROUP, version="v1alpha1", kind="EdgeDeviceSet", plural="edgedevicesets")
    definition: ClassVar[Definition] = _DEFINITION

    spec: DeviceSettings = DeviceSettings()
    """What its devices are to do."""

    status: EdgeDeviceSetStatus = EdgeDeviceSetStatus()
    """What is known of it."""


class EdgeDeviceGroup(EdgeDeviceSet, frozen=True, kw_only=True):
    """An EdgeDeviceSet under its first published name."""

    kind: ClassVar[Kind] = Kind(group=GROUP, version="v1alpha1", kind="EdgeDeviceGroup", plural="edgedevicegroups")
