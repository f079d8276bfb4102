"""The gateway's page for Prometheus: a line per device, written in a small part of the time that the registry takes."""

from __future__ import annotations

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from edgewright.gateway.metrics import DECLARED, GatewayMetrics
from edgewright.runtime.metrics import Metrics
from edgewright.runtime.objects import Key

HEARTBEATS = "flotta_api_edge_devices_heartbeat"
FLEET = [Key("default", f"agent-{number:05}") for number in range(10_000)]


def page(metrics: Metrics) -> str:
    return metrics.render().decode()


def test_every_metric_is_on_the_page_with_its_kind_and_its_labels() -> None:
    metrics = Metrics(process=False)
    gateway = GatewayMetrics(metrics)
    gateway.heartbeats.count(Key("default", "a"))
    gateway.answered(200)
    families = {each.name: each for each in text_string_to_metric_families(page(metrics))}
    for name, kind, labels, _ in DECLARED:
        family = families[name.removesuffix("_total")]
        assert family.type == kind
        for sample in family.samples:
            # The parser gives every counter that ending.
            found = (sample.name.removesuffix("_total"), tuple(sample.labels))
            assert found == (name.removesuffix("_total"), labels)


def test_what_published_dashboards_read_has_its_published_name() -> None:
    metrics = Metrics(process=False)
    gateway = GatewayMetrics(metrics)
    gateway.heartbeats.count(Key("default", "a"))
    gateway.registered.inc()
    shown = page(metrics)
    ends = (
        "successful_registration",
        "failed_registration",
        "unregistration",
        "failed_authentication",
        "invalid_owner",
    )
    for number, end in zip((1, 0, 0, 0, 0), ends, strict=True):
        assert f"\nflotta_api_edge_devices_{end} {number}.0\n" in shown
    assert '\nflotta_api_edge_devices_heartbeat{deviceID="a",deviceNamespace="default"} 1.0\n' in shown


def test_heartbeats_are_counted_for_each_device() -> None:
    metrics = Metrics(process=False)
    gateway = GatewayMetrics(metrics)
    one, other = Key("default", "one"), Key("shop", "one")
    for device in (one, other, one):
        gateway.heartbeats.count(device)
    (family,) = [each for each in text_string_to_metric_families(page(metrics)) if each.name == HEARTBEATS]
    found = {(each.labels["deviceNamespace"], each.labels["deviceID"]): each.value for each in family.samples}
    assert found == {one: 2, other: 1}


def test_a_scrape_of_ten_thousand_devices_takes_a_small_part_of_what_the_registry_takes() -> None:
    registry = CollectorRegistry()
    counter = Counter(HEARTBEATS, "Heartbeats.", ["deviceID", "deviceNamespace"], registry=registry)
    metrics = Metrics(process=False)
    gateway = GatewayMetrics(metrics)
    for device in FLEET:
        counter.labels(device.name, device.namespace).inc()
        gateway.heartbeats.count(device)
    registrys, ours = cpu_seconds(lambda: generate_latest(registry)), cpu_seconds(metrics.render)
    assert ours <= registrys / 5, (ours, registrys)


def cpu_seconds(work: Callable[[], object]) -> float:
    """The least CPU time that it takes of several times."""

    def once() -> float:
        before = time.process_time()
        work()
        return time.process_time() - before

    return min(once() for _ in range(5))
