"""The variables of Services, as the kubelet makes them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from edgewright.local.controllers.resources import Service
from edgewright.local.node.service_variables import service_variables
from tests.unit.local.node.podspecs import pod


def service(name: str, address: str = "10.0.0.9", *ports: Any, namespace: str = "default") -> Service:
    given = [{"port": port} if isinstance(port, int) else port for port in ports or (80,)]
    body = {"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterIP": address, "ports": given}}
    return msgspec.convert(body, Service)


API = service("kubernetes", "10.96.0.1", {"name": "https", "port": 443})


def test_a_pod_is_told_of_the_services_of_its_namespace() -> None:
    redis = service(
        "redis-primary", "10.0.0.11", {"port": 6379}, {"name": "gossip-in", "port": 7946, "protocol": "UDP"}
    )
    assert service_variables(pod(), [redis]) == {
        "REDIS_PRIMARY_SERVICE_HOST": "10.0.0.11",
        "REDIS_PRIMARY_SERVICE_PORT": "6379",
        "REDIS_PRIMARY_SERVICE_PORT_GOSSIP_IN": "7946",
        "REDIS_PRIMARY_PORT": "tcp://10.0.0.11:6379",
        "REDIS_PRIMARY_PORT_6379_TCP": "tcp://10.0.0.11:6379",
        "REDIS_PRIMARY_PORT_6379_TCP_PROTO": "tcp",
        "REDIS_PRIMARY_PORT_6379_TCP_PORT": "6379",
        "REDIS_PRIMARY_PORT_6379_TCP_ADDR": "10.0.0.11",
        "REDIS_PRIMARY_PORT_7946_UDP": "udp://10.0.0.11:7946",
        "REDIS_PRIMARY_PORT_7946_UDP_PROTO": "udp",
        "REDIS_PRIMARY_PORT_7946_UDP_PORT": "7946",
        "REDIS_PRIMARY_PORT_7946_UDP_ADDR": "10.0.0.11",
    }


def test_the_api_server_is_told_of_in_every_namespace_and_without_links() -> None:
    elsewhere = pod(metadata={"namespace": "other"}, enableServiceLinks=False)
    found = service_variables(elsewhere, [API, service("own", namespace="other")])
    assert found["KUBERNETES_SERVICE_HOST"] == "10.96.0.1"
    assert found["KUBERNETES_SERVICE_PORT_HTTPS"] == "443"
    assert not any(name.startswith("OWN") for name in found)


@pytest.mark.parametrize(
    "unseen",
    [
        pytest.param(service("a", "None"), id="headless"),
        pytest.param(service("a", ""), id="without an address"),
        pytest.param(service("a", namespace="other"), id="of another namespace"),
        pytest.param(msgspec.convert({"metadata": {"name": "a", "namespace": "default"}}, Service), id="no ports"),
    ],
)
def test_a_service_without_an_address_here_gives_no_variables(unseen: Service) -> None:
    assert service_variables(pod(), [unseen]) == {}


def test_a_service_of_the_pods_own_namespace_wins_over_the_api_server() -> None:
    found = service_variables(
        pod(metadata={"namespace": "other"}), [service("kubernetes", "10.0.0.5", namespace="other"), API]
    )
    assert found["KUBERNETES_SERVICE_HOST"] == "10.0.0.5"


def test_an_address_with_colons_stands_in_brackets() -> None:
    assert service_variables(pod(), [service("six", "fd00::1")])["SIX_PORT"] == "tcp://[fd00::1]:80"
