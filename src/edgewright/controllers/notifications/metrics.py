"""What somebody who relies on webhooks wants to see in Prometheus: what was sent, what failed, what waits.

The loop counts here; what waits is read from the cache when Prometheus asks, and only where this process leads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from edgewright.api.firmwarerollout import FirmwareRollout
from edgewright.controllers.metrics import Declared
from edgewright.controllers.notifications.outbox import outbox_of

DELIVERIES: Final = Declared(
    name="edgewright_webhook_deliveries_total",
    type="counter",
    help="Webhooks of rollouts: delivered, failed attempts (each is tried again), and dropped, which were given up.",
    labels=("result",),
)
PENDING: Final = Declared(
    name="edgewright_webhook_pending",
    type="gauge",
    help="Webhooks of rollouts that were not delivered yet.",
)
NOTIFICATIONS_DECLARED: Final = (DELIVERIES, PENDING)
"""Those of notifications, in the order in which they are documented."""


class NotificationMetrics(Collector):
    """The metrics of notifications in one registry."""

    def __init__(
        self,
        registry: CollectorRegistry,
        *,
        rollouts: Iterable[FirmwareRollout],
        leading: Callable[[], bool] = lambda: True,
    ) -> None:
        """`rollouts` is gone through at each scrape while `leading` says that this process does the work."""
        self._rollouts = rollouts
        self._leading = leading
        self._deliveries = Counter(DELIVERIES.name, DELIVERIES.help, DELIVERIES.labels, registry=registry)
        for result in ("delivered", "failed", "dropped"):
            self._deliveries.labels(result)
        registry.register(self)

    def delivered(self) -> None:
        """The receiver has taken one."""
        self._deliveries.labels("delivered").inc()

    def failed(self) -> None:
        """An attempt has failed."""
        self._deliveries.labels("failed").inc()

    def dropped(self, number: int = 1) -> None:
        """So many were given up."""
        self._deliveries.labels("dropped").inc(number)

    def describe(self) -> Iterable[Metric]:
        """What is read when Prometheus asks."""
        return [GaugeMetricFamily(PENDING.name, PENDING.help)]

    def collect(self) -> Iterable[Metric]:
        """The gauge; nothing where another process does the work."""
        if self._leading():
            pending = sum(len(outbox_of(rollout).pending) for rollout in self._rollouts)
            yield GaugeMetricFamily(PENDING.name, PENDING.help, value=pending)
