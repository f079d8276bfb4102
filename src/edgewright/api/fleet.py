"""Fleet: the switch that stops every new flash at once. There is one object of this kind, and it is called fleet.

People write it with `edgewright freeze` and `unfreeze`, or with kubectl; the one place that admits a start reads it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar, Final

from edgewright.api.annotations import Rule, Schema
from edgewright.api.crd import AGE, Column, CustomResource, Definition
from edgewright.runtime.objects import Kind, RawObject, Struct

FLEET: Final = "fleet"
"""The name of the one object."""


class FleetSpec(Struct, frozen=True, kw_only=True):
    """Whether devices may be started."""

    frozen: bool = False
    """While true no device is started by any job or rollout; those under way finish."""

    reason: Annotated[str, Schema(max_length=1024)] = ""
    """Why, for those whose devices wait."""

    by: Annotated[str, Schema(max_length=253)] = ""
    """Who froze it."""

    since: datetime | None = None
    """When it was frozen."""


FREEZE_MANAGER: Final = "edgewright-freeze"
"""Who owns the fields of the switch, whichever way it is turned."""


class Fleet(CustomResource, frozen=True, kw_only=True):
    """The switch that stops every new flash at once; the only object of this kind is called fleet."""

    kind: ClassVar[Kind] = Kind(
        group="edgewright.dev", version="v1alpha1", kind="Fleet", plural="fleets", namespaced=False
    )
    definition: ClassVar[Definition] = Definition(
        categories=("edgewright",),
        columns=(
            Column(name="Frozen", path=".spec.frozen", type="boolean", description="Whether nothing starts."),
            Column(name="Reason", path=".spec.reason", description="Why."),
            Column(name="By", path=".spec.by", description="Who froze it.", priority=1),
            AGE,
        ),
    )
    object_schema: ClassVar[Schema] = Schema(
        rules=(Rule(rule="self.metadata.name == 'fleet'", message="the only Fleet is called fleet"),)
    )

    spec: FleetSpec = FleetSpec()
    """Whether devices may be started."""


def switched(spec: FleetSpec) -> RawObject:
    """The one Fleet as it is applied: with every field, so that one that was set before does not stay."""
    since = {"since": spec.since.isoformat().replace("+00:00", "Z")} if spec.since else {}
    return {
        "apiVersion": Fleet.kind.api_version,
        "kind": Fleet.kind.kind,
        "metadata": {"name": FLEET},
        "spec": {"frozen": spec.frozen, "reason": spec.reason, "by": spec.by, **since},
    }
