"""What the gateway counts: under published names what published dashboards read, and what operators need besides."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from prometheus_client import Counter
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from edgewright.runtime.metrics import Metrics
from edgewright.runtime.objects import Key

DECLARED: Final = (
    (
        "flotta_api_edge_devices_successful_registration",
        "counter",
        (),
        "Registrations answered with a certificate.",
    ),
    ("flotta_api_edge_devices_failed_registration", "counter", (), "Registrations that were refused."),
    ("flotta_api_edge_devices_unregistration", "counter", (), "Devices that were told to disconnect."),
    (
        "flotta_api_edge_devices_failed_authentication",
        "counter",
        (),
        "Requests without a certificate that is valid now.",
    ),
    (
        "flotta_api_edge_devices_invalid_owner",
        "counter",
        (),
        "Requests for another device than the certificate's.",
    ),
    ("flotta_api_edge_devices_heartbeat", "counter", ("deviceID", "deviceNamespace"), "Heartbeats."),
    ("edgewright_gateway_long_polls_total", "counter", (), "Questions for a configuration that may wait for news."),
    ("edgewright_gateway_answers_total", "counter", ("code",), "Requests of agents, by the code of the answer."),
    ("edgewright_gateway_connections", "gauge", (), "Open connections of agents."),
    ("edgewright_gateway_waiting", "gauge", (), "Agents that wait for a new configuration."),
    (
        "edgewright_gateway_certificate_end_timestamp_seconds",
        "gauge",
        ("certificate",),
        "When the authority, the gateway's or the registration certificate ends, in seconds since 1970.",
    ),
)
"""All of them, in the order in which they are documented."""
_HEARTBEATS: Final = "flotta_api_edge_devices_heartbeat"


class GatewayMetrics:
    """The counters of one gateway."""

    def __init__(
        self,
        metrics: Metrics,
        *,
        connections: Callable[[], int] = lambda: 0,
        waiting: Callable[[], int] = lambda: 0,
        ends: Callable[[], Mapping[str, datetime]] = dict,
    ) -> None:
        registry = metrics.registry

        def counter(name: str, text: str) -> Published:
            made = Published(f"flotta_api_edge_devices_{name}", text)
            metrics.add_text(made.text)
            return made

        self.registered = counter("successful_registration", "Registrations that were answered with a certificate.")
        self.not_registered = counter("failed_registration", "Registrations that were refused.")
        self.unregistered = counter("unregistration", "Devices that were told to disconnect.")
        self.not_authenticated = counter("failed_authentication", "Requests without a certificate that is valid now.")
        self.invalid_owner = counter("invalid_owner", "Requests for another device than the certificate's.")
        self.heartbeats = Heartbeats()
        metrics.add_text(self.heartbeats.text)
        self.polls = Counter(
            "edgewright_gateway_long_polls", "Questions for a configuration that may wait for news.", registry=registry
        )
        self.answers = Counter(
            "edgewright_gateway_answers", "Requests of agents, by the code of the answer.", ["code"], registry=registry
        )
        self._by_code: dict[int, Counter] = {}
        registry.register(_Now(connections, waiting, ends))

    def answered(self, code: int) -> None:
        """Counts an answer."""
        counter = self._by_code.get(code)
        if counter is None:
            counter = self._by_code[code] = self.answers.labels(str(code))
        counter.inc()


class Published:
    """A counter by its published name, which the registry would give the ending `_total`."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self._text = text
        self._count = 0

    def inc(self) -> None:
        """Counts one."""
        self._count += 1

    def text(self) -> str:
        """The family in Prometheus' text format."""
        return _family(self._name, self._text, [f"{self._name} {self._count}.0\n"])


class Heartbeats:
    """The heartbeats of each device, which writes its part of the page itself.

    The registry needs a second for ten thousand devices, in which the gateway would answer none of them.
    """

    def __init__(self) -> None:
        self._counts: dict[Key, int] = {}
        self._lines: dict[Key, str] = {}

    def count(self, device: Key) -> None:
        """Counts one of this device, whose name and namespace are Kubernetes' and need no escaping."""
        if device not in self._counts:
            labels = f'deviceID="{device.name}",deviceNamespace="{device.namespace}"'
            self._lines[device] = f"{_HEARTBEATS}{{{labels}}} "
        self._counts[device] = self._counts.get(device, 0) + 1

    def text(self) -> str:
        """The family in Prometheus' text format."""
        lines = [f"{self._lines[device]}{count}.0\n" for device, count in self._counts.items()]
        return _family(_HEARTBEATS, "Heartbeats.", lines)


def _family(name: str, text: str, lines: Sequence[str]) -> str:
    """A counter with its lines in Prometheus' text format, without the ending `_total` of the registry."""
    return "".join((f"# HELP {name} {text}\n# TYPE {name} counter\n", *lines))


class _Now(Collector):
    """What is so at the moment, asked when somebody reads it."""

    def __init__(
        self, connections: Callable[[], int], waiting: Callable[[], int], ends: Callable[[], Mapping[str, datetime]]
    ) -> None:
        self._connections = connections
        self._waiting = waiting
        self._ends = ends

    def collect(self) -> Iterator[Metric]:
        """The gauges."""
        yield GaugeMetricFamily(
            "edgewright_gateway_connections", "Open connections of agents.", value=self._connections()
        )
        yield GaugeMetricFamily(
            "edgewright_gateway_waiting", "Agents that wait for a new configuration.", value=self._waiting()
        )
        family = GaugeMetricFamily(
            "edgewright_gateway_certificate_end_timestamp_seconds",
            "When a certificate of the gateway ends, in seconds since 1970.",
            labels=["certificate"],
        )
        for name, end in self._ends().items():
            family.add_metric([name], end.timestamp())
        yield family
