"""What is wrong with a spec, told with its field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from edgewright.api.firmwarerollout import FirmwareRollout, FirmwareRolloutSpec, Window
from edgewright.controllers.rollout.validation import in_a_sentence, problems
from tests.unit.controllers.rollout.rollout_world import spec_of

SAMPLE = Path(__file__).parents[4] / "config/samples/edgewright_v1alpha1_firmwarerollout.yaml"
ESP = {"type": "esp32", "firmware": "r.example/esp32:1", "version": "1"}
IN = {"key": "site", "operator": "In", "values": ["a"]}


def fields(**spec: Any) -> list[str]:
    """The fields that are wrong."""
    return [problem.field for problem in problems(spec_of(**spec))]


def test_the_sample_can_be_acted_on() -> None:
    sample = msgspec.convert(yaml.safe_load(SAMPLE.read_text(encoding="utf-8")), FirmwareRollout)
    assert problems(sample.spec) == []


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"firmwares": [ESP]},
        {"recall": {"name": "r", "uid": "u"}},
        {"batchSize": 5, "intervalSeconds": 60},
        {"batches": [{"name": "a", "size": "10%"}, {"name": "b"}]},
        {"selector": {"labels": {"matchExpressions": [IN, {"key": "a", "operator": "Exists"}]}}},
        {"stop": [{"action": "pause", "threshold": "20%", "outcomes": ["regressed", "not-found"]}]},
        {"budgets": [{"label": "site", "maxUnavailable": "10%"}]},
        {"windows": [{"cron": "*/5 * * * *", "durationSeconds": 60, "timeZone": "Europe/Athens"}]},
    ],
)
def test_what_is_right_is_not_told(spec: dict[str, Any]) -> None:
    assert fields(**spec) == []


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"firmware": ""}, "spec.firmware"),
        ({"firmware": "no reference"}, "spec.firmware"),
        ({"version": " "}, "spec.version"),
        ({"version": "1" * 200}, "spec.version"),
        ({"firmware": "r.example/a:1", "firmwares": [ESP]}, "spec.firmwares"),
        ({"firmwares": [ESP], "version": "1"}, "spec.version"),
        ({"firmwares": [ESP, {**ESP, "type": "ESP32"}]}, "spec.firmwares[0].type"),
        ({"firmwares": [{**ESP, "type": ""}]}, "spec.firmwares[0].type"),
        ({"firmwares": [{**ESP, "version": ""}]}, "spec.firmwares[0].version"),
        ({"recall": {"name": "r", "uid": "u"}, "firmware": "r.example/a:1"}, "spec.firmware"),
        ({"recall": {"name": "r", "uid": "u"}, "firmwares": [ESP]}, "spec.firmwares"),
        ({"recall": {"name": "r", "uid": "u"}, "selector": {"types": ["a"]}}, "spec.selector"),
        ({"recall": {"name": "r"}}, "spec.recall.uid"),
        ({"exclude": {}}, "spec.exclude"),
        (
            {"exclude": {"labels": {"matchExpressions": [{**IN, "key": ""}]}}},
            "spec.exclude.labels.matchExpressions[0].key",
        ),
        (
            {"selector": {"labels": {"matchExpressions": [{**IN, "operator": "Near"}]}}},
            "spec.selector.labels.matchExpressions[0].operator",
        ),
        (
            {"selector": {"labels": {"matchExpressions": [{"key": "a", "operator": "NotIn"}]}}},
            "spec.selector.labels.matchExpressions[0].values",
        ),
        (
            {"selector": {"labels": {"matchExpressions": [{**IN, "operator": "Exists"}]}}},
            "spec.selector.labels.matchExpressions[0].values",
        ),
        ({"batchSize": 2, "batches": [{"name": "a"}]}, "spec.batchSize"),
        ({"batchSize": 0}, "spec.batchSize"),
        ({"intervalSeconds": 5}, "spec.intervalSeconds"),
        ({"batchSize": 1, "intervalSeconds": -5}, "spec.intervalSeconds"),
        ({"batches": [{"name": "", "size": 1}]}, "spec.batches[0].name"),
        ({"batches": [{"name": "a", "size": 1}, {"name": "a", "size": 1}]}, "spec.batches[0].name"),
        ({"batches": [{"name": "a", "size": "10%x"}]}, "spec.batches[0].size"),
        ({"batches": [{"name": "a", "size": "0%"}]}, "spec.batches[0].size"),
        ({"batches": [{"name": "a", "size": 0}]}, "spec.batches[0].size"),
        ({"batches": [{"name": "a"}, {"name": "b", "size": 1}]}, "spec.batches[0]"),
        ({"batches": [{"name": "a", "size": 1, "soakSeconds": -1}]}, "spec.batches[0].soakSeconds"),
        ({"batches": [{"name": "a", "gate": {"successPercent": 101}}]}, "spec.batches[0].gate.successPercent"),
        ({"batches": [{"name": "a", "gate": {"approval": "maybe"}}]}, "spec.batches[0].gate.approval"),
        (
            {"batches": [{"name": "a", "selector": {"labels": {"matchExpressions": [{**IN, "operator": ""}]}}}]},
            "spec.batches[0].selector.labels.matchExpressions[0].operator",
        ),
        ({"budgets": [{"label": "", "maxUnavailable": 1}]}, "spec.budgets[0].label"),
        ({"budgets": [{"label": "a"}]}, "spec.budgets[0].maxUnavailable"),
        ({"budgets": [{"label": "a", "maxUnavailable": "many"}]}, "spec.budgets[0].maxUnavailable"),
        ({"windows": [{"cron": "often", "durationSeconds": 60}]}, "spec.windows[0].cron"),
        (
            {"windows": [{"cron": "0 1 * * *", "durationSeconds": 60, "timeZone": "Mars/Base"}]},
            "spec.windows[0].timeZone",
        ),
        ({"windows": [{"cron": "0 1 * * *"}]}, "spec.windows[0].durationSeconds"),
        ({"stop": [{"action": "panic"}]}, "spec.stop[0].action"),
        ({"stop": [{"action": "abort", "threshold": "-1"}]}, "spec.stop[0].threshold"),
        ({"stop": [{"action": "abort", "outcomes": ["succeeded"]}]}, "spec.stop[0].outcomes[0]"),
    ],
)
def test_what_is_wrong_is_told_with_its_field(spec: dict[str, Any], field: str) -> None:
    assert fields(**spec)[:1] == [field]


def test_all_that_is_wrong_fits_into_a_condition() -> None:
    spec = FirmwareRolloutSpec(windows=tuple(Window(cron="x" * 100) for _ in range(50)))
    text = in_a_sentence(problems(spec))
    assert text.startswith("spec.firmware: it is empty")
    assert len(text) <= 2048
