"""Alert rules and dashboard: every metric and every label that they name is one that we publish.

Whether the rules fire when they must is in tests/images, with promtool.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from edgewright.controllers.chart.metrics import CHART_DECLARED
from edgewright.controllers.edgedevice.metrics import NAME as EDGE_NAME
from edgewright.controllers.metrics import DECLARED
from edgewright.gateway.metrics import DECLARED as GATEWAY_DECLARED
from edgewright.runtime.metrics import Metrics

ROOT = Path(__file__).resolve().parents[2] / "config"
CONFIG = ROOT / "prometheus"
WORDS = {
    *("sum", "max", "increase", "rate", "absent", "histogram_quantile", "by", "and", "unless", "le", "time"),
    *("pod", "namespace"),  # labels that Prometheus adds
}


def published() -> dict[str, set[str]]:
    """Every name under which something is published, with its labels."""
    declared = (*DECLARED, *CHART_DECLARED)
    found: dict[str, tuple[str, set[str]]] = {each.name: (each.type, set(each.labels)) for each in declared}
    found |= {name: (kind, set(labels)) for name, kind, labels, _ in GATEWAY_DECLARED}
    found[EDGE_NAME] = ("gauge", {"state"})
    for metric in Metrics(process=False).registry._names_to_collectors.items():
        name, collector = metric
        found.setdefault(name, (collector._type, set(collector._labelnames)))  # type: ignore[attr-defined]
    names: dict[str, set[str]] = {}
    for name, (kind, labels) in found.items():
        names[name] = labels
        if kind == "histogram":
            names |= {f"{name}_bucket": labels | {"le"}, f"{name}_sum": labels, f"{name}_count": labels}
    return names


def rules() -> list[dict[str, Any]]:
    document = yaml.safe_load((CONFIG / "rules.yaml").read_text(encoding="utf-8"))
    found: list[dict[str, Any]] = [rule for group in document["spec"]["groups"] for rule in group["rules"]]
    return found


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((CONFIG / "dashboard.json").read_text(encoding="utf-8"))["panels"]
    return found


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in rules())
    yield from (target["expr"] for panel in panels() for target in panel["targets"])


@pytest.mark.parametrize("expression", sorted(set(expressions())))
def test_what_an_expression_names_exists(expression: str) -> None:
    known = published()
    bare = re.sub(r'"[^"]*"|\[[^]]*\]', "", expression)
    words = set(re.findall(r"[a-zA-Z_][a-zA-Z0-9_]*", bare))
    metrics = words & known.keys()
    assert metrics
    assert words - metrics - WORDS <= set().union(*(known[name] for name in metrics))


def test_every_alert_says_what_is_wrong_and_how_bad_it_is() -> None:
    for rule in rules():
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert rule["annotations"]["summary"].endswith(".")
        assert rule["for"]


def test_an_operator_of_fleets_is_told_of_what_goes_wrong() -> None:
    assert {rule["alert"] for rule in rules()} == {
        "EdgewrightFlashesFail",
        "EdgewrightDeviceStuck",
        "EdgewrightNothingMoves",
        "EdgewrightChartReleaseFails",
        "EdgewrightChartNotReady",
        "EdgewrightChartDriftFight",
        "EdgewrightReconcileErrors",
        "EdgewrightWorkerStuck",
        "EdgewrightNoLeader",
        "EdgewrightEdgeDevicesOffline",
        "EdgewrightGatewayFails",
        "EdgewrightGatewayCertificateEnds",
    }


def test_the_panels_of_the_dashboard_have_numbers_of_their_own_and_a_name() -> None:
    numbers = [panel["id"] for panel in panels()]
    assert len(set(numbers)) == len(numbers)
    assert all(panel["title"] for panel in panels())


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def test_prometheus_reads_the_gateway_whose_metrics_alerts_name() -> None:
    """Without a monitor for its Pods no such alert would ever fire."""
    assert [rule for rule in rules() if any(name in rule["expr"] for name, *_ in GATEWAY_DECLARED)]
    applied = [read(CONFIG / name) for name in read(CONFIG / "kustomization.yaml")["resources"]]
    (monitor,) = (each["spec"] for each in applied if each["kind"] == "PodMonitor")
    pod = read(ROOT / "gateway/gateway.yaml")["spec"]["template"]
    assert monitor["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    (container,) = pod["spec"]["containers"]
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    (endpoint,) = monitor["podMetricsEndpoints"]
    assert f"--metrics-port={ports[endpoint['port']]}" in container["args"]
    policy = read(ROOT / "network-policy/allow-agents.yaml")["spec"]
    assert policy["podSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    for_agents, for_prometheus = policy["ingress"]
    assert [each["port"] for each in for_agents["ports"]] == [ports["agents"]]
    assert "from" not in for_agents
    assert [each["port"] for each in for_prometheus["ports"]] == [ports[endpoint["port"]]]
    assert for_prometheus["from"] == [{"namespaceSelector": {"matchLabels": {"metrics": "enabled"}}}]
