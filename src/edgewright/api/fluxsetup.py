"""FluxSetup: how large the mini-cluster of the Flux of the same name is, and what its brokers are told.

Administrators write it; the mini-cluster controller reads spec and writes status only. The published kind requires its
three texts; here each may be left out and is generated then.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from edgewright.api.annotations import Schema
from edgewright.api.crd import AGE, Column, CustomResource, Definition
from edgewright.api.flux import FLUX_GROUP
from edgewright.runtime.objects import Condition, Kind, Struct

MAX_SIZE: Final = 1000
"""How many workers a mini-cluster may have."""


class ConfigText(Struct, frozen=True, kw_only=True):
    """A text, as it is or as a whole manifest of a ConfigMap or Secret that holds it."""

    config: Annotated[str, Schema(max_length=262_144)] = ""
    """The text or the manifest."""


class FluxSetupSpec(Struct, frozen=True, kw_only=True):
    """Size and configuration of a mini-cluster."""

    size: Annotated[int | None, Schema(minimum=1, maximum=MAX_SIZE)] = None
    """How many workers there are; 1 where it is absent."""

    hostfile: ConfigText | None = None
    """The hosts of the mini-cluster; generated where it is absent."""

    cert: ConfigText | None = None
    """The curve certificate of the brokers; generated where it is absent."""

    broker: ConfigText | None = None
    """The configuration of the brokers (TOML). Certificate, addresses and hosts in it are the operator's."""


class FluxSetupStatus(Struct, frozen=True, kw_only=True):
    """Whether the set-up is in use, as last seen by the operator."""

    message: Annotated[str, Schema(max_length=32_768)] = ""
    """What happened last, in a sentence for people."""

    conditions: Annotated[tuple[Condition, ...], Schema(list_type="map", list_map_keys=("type",))] = ()
    """The state of the set-up in the form that kubectl wait and other tools read."""

    observed_generation: Annotated[int, Schema(minimum=0)] = 0
    """The generation of the spec that this status is about."""


class FluxSetup(CustomResource, frozen=True, kw_only=True):
    """Says how the mini-cluster of the Flux of the same name is set up."""

    kind: ClassVar[Kind] = Kind(group=FLUX_GROUP, version="v1alpha1", kind="FluxSetup", plural="fluxsetups")
    definition: ClassVar[Definition] = Definition(
        categories=("edgewright",),
        columns=(
            Column(name="Size", path=".spec.size", type="integer", description="How many workers there are."),
            Column(
                name="Ready",
                path='.status.conditions[?(@.type=="Ready")].status',
                description="Whether a Flux uses it.",
            ),
            Column(name="Message", path=".status.message", description="What happened last.", priority=1),
            AGE,
        ),
    )

    spec: Annotated[FluxSetupSpec, Schema(required=True)] = FluxSetupSpec()
    """Size and configuration of the mini-cluster."""

    status: FluxSetupStatus = FluxSetupStatus()
    """Whether the set-up is in use, as last seen by the operator."""
