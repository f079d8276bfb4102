"""How many edge devices are in which state, for Prometheus: asked when somebody reads it, by the process that leads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from edgewright.api.edgedevice import ONLINE, READY, EdgeDevice

NAME: Final = "edgewright_edge_devices"
HELP: Final = "EdgeDevices by state: ready, not-ready, offline, new."
STATES: Final = ("ready", "not-ready", "offline", "new")


class EdgeMetrics(Collector):
    """The gauge."""

    def __init__(self, registry: CollectorRegistry, devices: Iterable[EdgeDevice], leads: Callable[[], bool]) -> None:
        self._devices = devices
        self._leads = leads
        registry.register(self)

    def describe(self) -> Iterable[Metric]:
        """What there is, without counting."""
        return [GaugeMetricFamily(NAME, HELP, labels=["state"])]

    def collect(self) -> Iterator[Metric]:
        """The counts."""
        family = GaugeMetricFamily(NAME, HELP, labels=["state"])
        if self._leads():
            found = Counter(map(state_of, self._devices))
            for state in STATES:
                family.add_metric([state], found[state])
        yield family


def state_of(device: EdgeDevice) -> str:
    """The state of a device, by its conditions."""
    conditions = {each.type: each.status for each in device.status.conditions}
    if ONLINE not in conditions:
        return "new"
    if conditions[ONLINE] != "True":
        return "offline"
    return "ready" if conditions.get(READY) == "True" else "not-ready"
