"""What somebody who runs the operator with a watches file has chosen; `cli.chart_watches` fills it in."""

from __future__ import annotations

from dataclasses import dataclass, field

from edgewright.controllers.chart.helm import Access
from edgewright.controllers.chart.watches import Watch
from edgewright.runtime.objects import Kind


@dataclass(frozen=True, kw_only=True)
class ChartSettings:
    """The kinds that charts serve, and how Helm finds the cluster."""

    served: tuple[tuple[Watch, Kind], ...]
    """Each entry of the watches file with where its kind is served."""
    access: Access = field(default_factory=Access)
    namespaces: tuple[str, ...] = ()
    """Where objects of releases are watched; none: in all namespaces."""
