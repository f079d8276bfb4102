"""The watches file: what it says is read, and what cannot be is one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewright.controllers.chart.watches import Defaults, WatchesError, read
from tests.unit.controllers.chart.charts import write_chart

ENTRY = "- group: a.b\n  version: v1\n  kind: Shop\n  chart: charts/shop\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_chart(tmp_path / "charts" / "shop")
    return tmp_path


def write(folder: Path, text: str) -> Path:
    path = folder / "watches.yaml"
    path.write_text(text)
    return path


def test_an_entry_is_read_with_its_chart_next_to_the_file(folder: Path) -> None:
    (watch,) = read(write(folder, ENTRY))
    assert watch.gvk == ("a.b", "v1", "Shop")
    assert watch.chart == folder / "charts" / "shop"
    assert (watch.chart_name, len(watch.digest)) == ("shop", 40)
    assert (watch.dependents, watch.labels, watch.policy.period, dict(watch.overrides)) == (True, "", None, {})


def test_every_key_is_read(folder: Path) -> None:
    more = """  watchDependentResources: false
  overrideValues: {image.tag: "$TAG-${REST}", enabled: true, count: 3, gone: $NONE}
  selector:
    matchLabels: {tier: web}
    matchExpressions:
      - {key: a, operator: In, values: [u, w]}
      - {key: b, operator: NotIn, values: [z]}
      - {key: c, operator: Exists}
      - {key: d, operator: DoesNotExist}
  reconcilePeriod: 1m30s
  dryRunOption: server
  maxConcurrentReconciles: 2
"""
    (watch,) = read(write(folder, ENTRY + more), environ={"TAG": "1", "REST": "2"})
    assert not watch.dependents
    assert watch.overrides == {"image.tag": "1-2", "enabled": "true", "count": "3", "gone": ""}
    assert watch.labels == "tier=web,a in (u,w),b notin (z),c,!d"
    assert (watch.policy.period, watch.workers) == (90.0, 2)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("$A-${A}", "1-1"),
        ("${no-such}$NONE", ""),
        ("$1x", "x"),  # a digit alone is a name
        ("$$A", "A"),  # and so is a dollar
        ("5$ $", "5$ $"),
        ("a${", "a"),
        ("$Aé", "1é"),
    ],
)
def test_variables_are_expanded_as_go_expands_them(folder: Path, text: str, found: str) -> None:
    (watch,) = read(write(folder, f"{ENTRY}  overrideValues: {{a: '{text}'}}\n"), environ={"A": "1"})
    assert watch.overrides == {"a": found}


def test_what_is_null_is_as_if_it_were_not_there(folder: Path) -> None:
    more = "  watchDependentResources:\n  selector:\n  reconcilePeriod:\n  overrideValues: {a: , b: 1.0, c: 1.5}\n"
    (watch,) = read(write(folder, ENTRY + more))
    assert (watch.dependents, watch.labels, watch.policy.period) == (True, "", None)
    assert watch.overrides == {"a": "", "b": "1", "c": "1.5"}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("a: [", "is not YAML"),
        ("", "must be a list"),
        ("- 1", "entry 1: must be a mapping"),
        (ENTRY + "  colour: red\n", "unknown key 'colour': use group, version"),
        (ENTRY + "  watchDependentResources: 1\n", "watchDependentResources: must be true or false"),
        (ENTRY + "  maxConcurrentReconciles: true\n", "maxConcurrentReconciles: must be a number"),
        (ENTRY + "  maxConcurrentReconciles: 0\n", "must be 1 to 64"),
        (ENTRY + "  dryRunOption: client\n", "dryRunOption: must be empty or 'server'"),
        (ENTRY + "  reconcilePeriod: soon\n", "reconcilePeriod: 'soon' is not a duration"),
        (ENTRY + "  overrideValues: {a: [1]}\n", "overrideValues: a: must be one text"),
        (ENTRY + "  overrideValues: {a: 'b,c'}\n", "overrideValues: a: 'c' is not PATH=TEXT"),
        (ENTRY + "  overrideValues: {a..b: c}\n", "overrideValues: a..b: 'a..b' is not a path"),
        (ENTRY + "  drift: {mode: fix}\n", "drift: mode: 'fix' is not one of correct, warn, off"),
        (ENTRY + "  selector: {names: a}\n", "selector: must have matchLabels and matchExpressions only"),
        (ENTRY + "  selector: {matchLabels: {a: 'b c'}}\n", "'b c' is not the value of a label"),
        (ENTRY + "  selector: {matchExpressions: [{key: a, operator: Near}]}\n", "each needs a key, an operator"),
        (ENTRY + ENTRY, "entry 2: duplicate a.b/v1/Shop"),
        (ENTRY.replace("  kind: Shop\n", ""), "kind: is missing"),
        (ENTRY.replace("charts/shop", "charts/none"), "chart: charts/none is no folder with a Chart.yaml"),
    ],
)
def test_what_cannot_be_is_one_sentence_with_the_key(folder: Path, text: str, sentence: str) -> None:
    with pytest.raises(WatchesError) as refused:
        read(write(folder, text))
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["name: [", "version: 1", "- a"])
def test_a_chart_without_a_name_is_refused(folder: Path, text: str) -> None:
    (folder / "charts" / "shop" / "Chart.yaml").write_text(text)
    with pytest.raises(WatchesError, match=r"Chart.yaml"):
        read(write(folder, ENTRY))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WatchesError, match="No such file"):
        read(tmp_path / "none.yaml")


@pytest.mark.parametrize("text", ["0", "0s"])
def test_a_period_of_zero_is_that_of_the_command_line(folder: Path, text: str) -> None:
    path = write(folder, f"{ENTRY}  reconcilePeriod: '{text}'\n")
    assert read(path)[0].policy.period is None
    assert read(path, defaults=Defaults(period=60.0))[0].policy.period == 60.0
