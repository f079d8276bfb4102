"""What the gateway counts, under the names that published dashboards read."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter


class GatewayMetrics:
    """The counters of one gateway."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"flotta_api_edge_devices_{name}", text, labels, registry=registry)

        self.registered = counter("successful_registration", "Registrations that were answered with a certificate.")
        self.not_registered = counter("failed_registration", "Registrations that were refused.")
        self.unregistered = counter("unregistration", "Devices that were told to disconnect.")
        self.not_authenticated = counter("failed_authentication", "Requests without a certificate that is valid now.")
        self.invalid_owner = counter("invalid_owner", "Requests for another device than the certificate's.")
        self.heartbeats = counter("heartbeat", "Heartbeats.", "deviceID", "deviceNamespace")
