"""The chart controllers as a whole: one loop per kind, one Helm process and one set of watches for all of them.

`controllers.operator` calls `add_charts`. It only joins the parts.
"""

from __future__ import annotations

from edgewright.controllers.chart.controller import ChartLoop, Parts, announce
from edgewright.controllers.chart.dependents import Dependents
from edgewright.controllers.chart.discovery import Discovery
from edgewright.controllers.chart.helm import Helm, HelmProcess
from edgewright.controllers.chart.metrics import ChartMetrics
from edgewright.controllers.chart.settings import ChartSettings
from edgewright.controllers.chart.values import Sources
from edgewright.runtime.clock import Clock
from edgewright.runtime.manager import Manager


def add_charts(manager: Manager, settings: ChartSettings, clock: Clock, *, helm: Helm | None = None) -> None:
    """Adds a loop for each kind that charts serve; run the manager afterwards."""
    if helm is None:
        process = HelmProcess(settings.access, clock=clock, fence=manager.leadership)
        manager.background("helm", process.run)
        helm = process
    discovery = Discovery(manager.client)
    parts = Parts(
        helm=helm,
        dependents=Dependents(manager.client, discovery, namespaces=settings.namespaces, clock=clock),
        discovery=discovery,
        sources=Sources(manager.client, clock=clock),
        metrics=ChartMetrics(manager.metrics.registry, leading=lambda: manager.leads),
    )
    manager.background("dependents", parts.dependents.run)
    manager.background("sources", parts.sources.run)
    for watch, kind in settings.served:
        ChartLoop(manager, watch, kind, parts, clock=clock)
        announce(watch)
