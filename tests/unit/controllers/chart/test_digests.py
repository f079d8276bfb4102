"""Digests: the same for the same, another for anything else."""

from __future__ import annotations

from pathlib import Path

from edgewright.controllers.chart.digests import chart_digest, values_digest
from edgewright.controllers.chart.values import with_overrides
from tests.unit.controllers.chart.charts import write_chart


def test_a_charts_digest_follows_names_and_contents(tmp_path: Path) -> None:
    first, second = write_chart(tmp_path / "a"), write_chart(tmp_path / "b")
    assert chart_digest(first) == chart_digest(second)
    (second / "values.yaml").write_text("greeting: other\n")
    changed = chart_digest(second)
    assert changed != chart_digest(first)
    (second / "values.yaml").rename(second / "more.yaml")
    assert chart_digest(second) not in {changed, chart_digest(first)}


def test_the_order_of_values_does_not_matter() -> None:
    assert values_digest({"a": 1, "b": {"c": 2, "d": 3}}) == values_digest({"b": {"d": 3, "c": 2}, "a": 1})
    assert values_digest({"a": 1}) != values_digest({"a": "1"})


def test_overrides_nest_and_leave_what_was_given_alone() -> None:
    given = {"image": {"tag": "1", "name": "shop"}, "flat": 1}
    assert with_overrides(given, {"image.tag": "2", "flat.deep": "x", "new.a.b": "y"}) == {
        "image": {"tag": "2", "name": "shop"},
        "flat": {"deep": "x"},
        "new": {"a": {"b": "y"}},
    }
    assert given == {"image": {"tag": "1", "name": "shop"}, "flat": 1}
