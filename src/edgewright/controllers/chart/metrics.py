"""What somebody who runs charts wants to see in Prometheus: releases by state, Helm's actions, drift.

The loops count here; what stands on objects is read from their caches when Prometheus asks, and only where this process
leads. `resource_created_at_seconds` is operator-sdk's: its dashboards go on working.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from edgewright.controllers.chart.objects import ChartObject
from edgewright.controllers.chart.states import State
from edgewright.controllers.metrics import Declared
from edgewright.runtime.conditions import READY, find
from edgewright.runtime.objects import Kind

ACTION_BUCKETS: Final = (0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)

RELEASES: Final = Declared(
    name="edgewright_chart_releases",
    type="gauge",
    help="Objects that charts serve, by kind and by the state of their release.",
    labels=("kind", "state"),
)
NOT_READY: Final = Declared(
    name="edgewright_chart_releases_not_ready",
    type="gauge",
    help="Objects that charts serve whose condition Ready is not True; suspended ones do not count.",
    labels=("kind",),
)
ACTIONS: Final = Declared(
    name="edgewright_chart_helm_actions_total",
    type="counter",
    help="Actions of Helm by verb and by how they ended: succeeded, failed, or gone where nobody can tell.",
    labels=("kind", "verb", "result"),
)
DURATION: Final = Declared(
    name="edgewright_chart_helm_action_duration_seconds",
    type="histogram",
    help="How long Helm took for an action, with its hooks.",
    labels=("verb",),
)
CORRECTED: Final = Declared(
    name="edgewright_chart_drift_corrected_total",
    type="counter",
    help="Objects of releases that somebody had changed and that were put right.",
    labels=("kind",),
)
DRIFTED: Final = Declared(
    name="edgewright_chart_releases_drifted",
    type="gauge",
    help="Releases with objects that somebody changed and that are left so.",
    labels=("kind",),
)
CREATED: Final = Declared(
    name="resource_created_at_seconds",
    type="gauge",
    help="When each object that a chart serves was created, in seconds since 1970.",
    labels=("group", "kind", "name", "namespace", "version"),
)
CHART_DECLARED: Final = (RELEASES, NOT_READY, ACTIONS, DURATION, CORRECTED, DRIFTED, CREATED)
"""Those of charts, in the order in which they are documented."""


class ChartMetrics(Collector):
    """The metrics of all charts in one registry."""

    def __init__(self, registry: CollectorRegistry, *, leading: Callable[[], bool] = lambda: True) -> None:
        self._leading = leading
        self._served: list[tuple[Kind, Iterable[ChartObject]]] = []
        self._actions = Counter(ACTIONS.name, ACTIONS.help, ACTIONS.labels, registry=registry)
        self._duration = Histogram(
            DURATION.name, DURATION.help, DURATION.labels, registry=registry, buckets=ACTION_BUCKETS
        )
        self._corrected = Counter(CORRECTED.name, CORRECTED.help, CORRECTED.labels, registry=registry)
        registry.register(self)

    def serve(self, kind: Kind, objects: Iterable[ChartObject]) -> None:
        """Has the objects of a kind counted at each scrape."""
        self._served.append((kind, objects))
        self._corrected.labels(kind.kind)

    def acted(self, kind: str, verb: str, result: str, *, seconds: float) -> None:
        """Helm has ended an action."""
        self._actions.labels(kind, verb, result).inc()
        self._duration.labels(verb).observe(max(0.0, seconds))

    def corrected(self, kind: str, count: int) -> None:
        """So many objects of a release were put right."""
        self._corrected.labels(kind).inc(count)

    def gauges(self) -> Iterator[tuple[Declared, Mapping[tuple[str, ...], float]]]:
        """The gauges with their values by labels; none where another process does the work."""
        if not self._leading():
            return
        states: Tally[tuple[str, ...]] = Tally()
        unready: Tally[tuple[str, ...]] = Tally()
        drifted: Tally[tuple[str, ...]] = Tally()
        created: dict[tuple[str, ...], float] = {}
        for kind, objects in self._served:
            states.update({(kind.kind, state.value): 0 for state in State})
            unready[kind.kind,] += 0
            drifted[kind.kind,] += 0
            for each in objects:
                states[kind.kind, each.status.state or State.ABSENT.value] += 1
                ready = find(each.status.conditions, READY)
                suspended = find(each.status.conditions, "Suspended") is not None
                unready[kind.kind,] += not suspended and (ready is None or ready.status != "True")
                drifted[kind.kind,] += find(each.status.conditions, "Drifted") is not None
                if each.metadata.creation_timestamp:
                    labels = (kind.group, kind.kind, each.metadata.name, each.metadata.namespace, kind.version)
                    created[labels] = _seconds(each.metadata.creation_timestamp)
        yield RELEASES, states
        yield NOT_READY, unready
        yield DRIFTED, drifted
        yield CREATED, created

    def describe(self) -> Iterable[Metric]:
        """Their names, without a look at the objects."""
        return [GaugeMetricFamily(each.name, each.help) for each in CHART_DECLARED if each.type == "gauge"]

    def collect(self) -> Iterable[Metric]:
        """The gauges as Prometheus wants them."""
        for declared, values in self.gauges():
            family = GaugeMetricFamily(declared.name, declared.help, labels=declared.labels)
            for labels, value in values.items():
                family.add_metric(labels, value)
            yield family


def _seconds(time: datetime) -> float:
    return time.timestamp()
