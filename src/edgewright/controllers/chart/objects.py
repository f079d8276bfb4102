"""The custom resources that charts serve, and what their releases consist of: structs made when a kind is known.

`controller` creates one struct per kind in the watches file, `dependents` one per kind in a release. Only the fields
that we use are kept: a spec is the chart's values and stays as it is.
"""

from __future__ import annotations

from typing import Any, Final, cast

import msgspec

from edgewright.runtime.objects import Condition, Kind, Resource, Struct

FINALIZER: Final = "helm.sdk.operatorframework.io/uninstall-release"
"""The one that operator-sdk puts on its objects: what it left is ours to remove, and the other way round."""
OLD_FINALIZERS: Final = ("uninstall-helm-release",)


class DeployedRelease(Struct, frozen=True, kw_only=True):
    """The release that is deployed, and what it consists of."""

    name: str = ""
    manifest: str = ""


class ChartStatus(Struct, frozen=True, kw_only=True):
    """What is shown of an object that a chart serves."""

    conditions: tuple[Condition, ...] = ()
    deployed_release: DeployedRelease | None = None
    observed_generation: int = 0
    state: str = ""
    """Where the release stands, in one word: InSync, OutOfSync, Failed …"""
    revision: int = 0
    """The newest stored revision."""
    failures: int = 0
    """How many attempts at what is wanted have failed one after the other."""


class ChartObject(Resource, frozen=True, kw_only=True):
    """An object of a kind in the watches file: its spec is the values of its release."""

    spec: dict[str, Any] | None = None
    status: ChartStatus = ChartStatus()

    @property
    def values(self) -> dict[str, Any]:
        """The values; none where there is no spec."""
        return self.spec or {}


class Dependent(Resource, frozen=True, kw_only=True):
    """An object that belongs to a release, of a kind that is ready as soon as it is there."""


class Reporting(Dependent, frozen=True, kw_only=True):
    """An object that belongs to a release, of a kind whose status says whether it is ready."""

    status: Any = None
    """An object in all but the oddest of custom kinds."""


class Workload(Reporting, frozen=True, kw_only=True):
    """An object that belongs to a release, of a kind whose spec and status say whether it is ready."""

    spec: Any = None


def chart_kind(kind: Kind) -> type[ChartObject]:
    """The struct of a kind in the watches file."""
    return cast(type[ChartObject], _made(ChartObject, kind))


def dependent_kind(kind: Kind, base: type[Dependent]) -> type[Dependent]:
    """The struct of a kind in a release."""
    return cast(type[Dependent], _made(base, kind))


def _made(base: type[Resource], kind: Kind) -> type[Any]:
    return msgspec.defstruct(
        kind.kind, [], bases=(base,), namespace={"kind": kind}, frozen=True, gc=False, kw_only=True
    )
