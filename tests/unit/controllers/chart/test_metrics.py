"""What Prometheus sees of charts."""

from __future__ import annotations

from datetime import UTC, datetime

from prometheus_client import CollectorRegistry, generate_latest

from edgewright.controllers.chart.metrics import ChartMetrics
from edgewright.controllers.chart.objects import ChartObject, ChartStatus, chart_kind
from edgewright.runtime.objects import Condition, ObjectMeta
from tests.unit.controllers.chart.stage import SHOP

CREATED = datetime(2026, 11, 17, tzinfo=UTC)


def shop(name: str, state: str, *types: str, ready: str = "True") -> ChartObject:
    conditions = [Condition(type="Ready", status=ready), *(Condition(type=each, status="True") for each in types)]
    return chart_kind(SHOP)(
        metadata=ObjectMeta(name=name, namespace="default", creation_timestamp=CREATED),
        status=ChartStatus(state=state, conditions=tuple(conditions)),
    )


def page(metrics_of: CollectorRegistry) -> str:
    return generate_latest(metrics_of).decode()


def test_objects_are_counted_by_the_state_of_their_release() -> None:
    registry = CollectorRegistry()
    metrics = ChartMetrics(registry)
    metrics.serve(
        SHOP,
        [
            shop("a", "InSync"),
            shop("b", "InSync", "Drifted"),
            shop("c", "Failed", ready="False"),
            shop("d", "Failed", "Suspended", ready="False"),
        ],
    )
    text = page(registry)
    assert 'edgewright_chart_releases{kind="Shop",state="InSync"} 2.0' in text
    assert 'edgewright_chart_releases{kind="Shop",state="Failed"} 2.0' in text
    assert 'edgewright_chart_releases{kind="Shop",state="Locked"} 0.0' in text
    assert 'edgewright_chart_releases_not_ready{kind="Shop"} 1.0' in text
    assert 'edgewright_chart_releases_drifted{kind="Shop"} 1.0' in text
    labels = 'group="charts.example.com",kind="Shop",name="a",namespace="default",version="v1alpha1"'
    found = registry.get_sample_value("resource_created_at_seconds", dict(_pairs(labels)))
    assert found == CREATED.timestamp()


def _pairs(labels: str) -> list[tuple[str, str]]:
    return [(name, text.strip('"')) for name, _, text in (each.partition("=") for each in labels.split(","))]


def test_actions_and_corrections_are_counted() -> None:
    registry = CollectorRegistry()
    metrics = ChartMetrics(registry)
    metrics.acted("Shop", "upgrade", "failed", seconds=2.0)
    metrics.corrected("Shop", 3)
    text = page(registry)
    assert 'edgewright_chart_helm_actions_total{kind="Shop",result="failed",verb="upgrade"} 1.0' in text
    assert 'edgewright_chart_helm_action_duration_seconds_sum{verb="upgrade"} 2.0' in text
    assert 'edgewright_chart_drift_corrected_total{kind="Shop"} 3.0' in text


def test_who_does_not_lead_tells_of_no_objects() -> None:
    registry = CollectorRegistry()
    metrics = ChartMetrics(registry, leading=lambda: False)
    metrics.serve(SHOP, [shop("a", "InSync")])
    assert "edgewright_chart_releases{" not in page(registry)
