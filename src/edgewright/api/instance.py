"""Akri's Instance: a device that Akri has discovered, as we read it. Akri writes it, and so does our simulated fleet.

An Instance is deleted as soon as no node sees its device, and comes back with another uid. The CRD is Akri's and is not
among our manifests; `instance_crd` is for places without Akri, that is tests and the simulated fleet.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from edgewright.api.annotations import Schema
from edgewright.api.crd import AGE, Column, CustomResource, Definition, custom_resource_definition
from edgewright.runtime.objects import Kind, RawObject, Struct


class InstanceSpec(Struct, frozen=True, kw_only=True):
    """What Akri knows about a discovered device."""

    configuration_name: Annotated[str, Schema(required=True)] = ""
    """The Configuration that made Akri look for this device."""

    cdi_name: Annotated[str, Schema(required=True)] = ""
    """The device's name for the Container Device Interface."""

    capacity: Annotated[int, Schema(required=True)] = 0
    """How many workloads may use the device at once."""

    shared: bool = False
    """Whether more than one node sees the device."""

    nodes: tuple[str, ...] = ()
    """The nodes that see the device."""

    device_usage: dict[str, str] = {}
    """The node that uses each slot of the device, empty where the slot is free."""

    broker_properties: dict[str, str] = {}
    """What discovery found out about the device: HOST_ENDPOINT, DEVICE, APPLICATION_TYPE, VERSION."""


class Instance(CustomResource, frozen=True, kw_only=True):
    """A device that Akri has discovered."""

    kind: ClassVar[Kind] = Kind(group="akri.sh", version="v0", kind="Instance", plural="instances")
    definition: ClassVar[Definition] = Definition(
        short_names=("akrii",),
        columns=(
            Column(name="Config", path=".spec.configurationName"),
            Column(name="Shared", path=".spec.shared", type="boolean"),
            Column(name="Nodes", path=".spec.nodes"),
            AGE,
        ),
    )

    spec: InstanceSpec = InstanceSpec()
    """What Akri knows about the device."""


def instance_crd() -> RawObject:
    """A CRD that takes the Instances that Akri writes, for a cluster without Akri."""
    return custom_resource_definition(Instance)
