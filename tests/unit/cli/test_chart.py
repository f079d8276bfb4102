"""`edgewright chart init`: the project it writes, and what it refuses before anything is written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from edgewright.cli import chart, chart_project
from edgewright.cli.failure import Failed
from edgewright.controllers.chart.helm import HelmError, HelmGone, HelmProcess, Source
from edgewright.controllers.chart.manifests import TypeName
from edgewright.controllers.chart.watches import read
from tests.unit.controllers.chart.charts import write_chart

TEMPLATES = {
    "shop/templates/NOTES.txt": "kind: Nothing",
    "shop/templates/a.yaml": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n",
    "shop/templates/b.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: b}\n",
}


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the chart renders; a test may put an error there."""
    found: dict[str, Any] = {"templates": TEMPLATES}

    async def render(*_: object, **__: object) -> dict[str, str]:
        if "error" in found:
            raise found["error"]
        return dict(found["templates"])

    monkeypatch.setattr(HelmProcess, "render", render)
    return found


def init(folder: Path, source: Path, **typed: Any) -> None:
    chart.init(domain="example.com", helm_chart=str(source), folder=folder, **typed)


def test_a_project_is_written_and_its_names_agree(tmp_path: Path, rendered: dict[str, Any]) -> None:
    folder = tmp_path / "shop-operator"
    folder.mkdir()
    init(folder, write_chart(tmp_path / "chart", "my-shop"))
    assert (folder / "helm-charts" / "my-shop" / "values.yaml").is_file()
    for path in folder.rglob("*"):
        assert not path.is_file() or not re.search(r"%%\w+%%", path.read_text()), path
    crd = yaml.safe_load((folder / "config/crd/bases/charts.example.com_myshops.yaml").read_text())
    assert crd["spec"]["names"]["kind"] == "MyShop"
    sample = yaml.safe_load((folder / "config/samples/charts_v1alpha1_myshop.yaml").read_text())
    assert (sample["metadata"]["name"], sample["spec"]) == ("myshop-sample", {"greeting": "hello"})
    (watch,) = read(folder / "watches.yaml")
    assert watch.gvk == ("charts.example.com", "v1alpha1", "MyShop")
    assert "IMAGE_TAG_BASE ?= example.com/shop-operator\n" in (folder / "Makefile").read_text()
    for path in folder.glob("config/**/*.yaml"):
        assert list(yaml.safe_load_all(path.read_text())), path


def test_the_role_has_what_the_chart_renders_and_never_lists_all_secrets(
    tmp_path: Path, rendered: dict[str, Any]
) -> None:
    folder = tmp_path / "shop-operator"
    init(folder, write_chart(tmp_path / "chart"))
    rules = yaml.safe_load((folder / "config/rbac/role.yaml").read_text())["rules"]
    by_resource = {tuple(rule["resources"]): rule["verbs"] for rule in rules}
    assert "watch" in by_resource["deployments",]
    assert not {"list", "watch"}.intersection(by_resource["secrets",])
    assert not any("*" in rule["verbs"] + rule["resources"] for rule in rules)


def test_nothing_is_written_over(tmp_path: Path, rendered: dict[str, Any]) -> None:
    folder = tmp_path / "shop-operator"
    folder.mkdir()
    (folder / "Makefile").write_text("mine\n")
    with pytest.raises(Failed, match="Makefile exists already: choose an empty folder"):
        init(folder, write_chart(tmp_path / "chart"))
    assert [path.name for path in folder.iterdir()] == ["Makefile"]


def test_a_project_inside_its_chart_is_refused(tmp_path: Path, rendered: dict[str, Any]) -> None:
    source = write_chart(tmp_path / "chart")
    with pytest.raises(Failed, match="is inside the chart's folder"):
        init(source / "shop-operator", source)


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ({"plugins": "go"}, "'go' is not helm"),
        ({"group": "A"}, "'A' cannot be used"),
        ({"version": "1"}, "'1' cannot be used"),
        ({"project_name": "_"}, "'_' cannot be used"),
        ({"kind": "shop"}, "'shop' is not a kind such as Minimart"),
    ],
)
def test_names_that_cannot_be_are_wrong_usage(tmp_path: Path, typed: dict[str, Any], sentence: str) -> None:
    with pytest.raises(typer.BadParameter, match=sentence):
        init(tmp_path / "shop-operator", write_chart(tmp_path / "chart"), **typed)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [(None, "is no folder with a Chart.yaml"), ("a: [", "is not YAML"), ("name: A B", "has no name")],
)
def test_a_folder_without_a_chart_is_wrong_usage(tmp_path: Path, text: str | None, sentence: str) -> None:
    if text is not None:
        (tmp_path / "Chart.yaml").write_text(text)
    with pytest.raises(typer.BadParameter, match=sentence):
        init(tmp_path / "shop-operator", tmp_path)


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ({"helm_chart": ""}, "name the chart, or a --kind alone for a new one"),
        ({"helm_chart": "", "kind": "Shop", "helm_chart_repo": "https://x"}, "name the chart, or a --kind alone"),
        ({"helm_chart": "./none.tgz"}, "there is no none.tgz"),
        ({"helm_chart": ".", "helm_chart_version": "1.0"}, ". is here, in the version that it has"),
    ],
)
def test_a_chart_that_cannot_be_anywhere_is_wrong_usage(tmp_path: Path, typed: dict[str, Any], sentence: str) -> None:
    with pytest.raises(typer.BadParameter, match=re.escape(sentence)):
        chart.init(domain="example.com", folder=tmp_path / "shop-operator", **typed)


def test_what_helm_fetches_is_copied_and_gone_afterwards(
    tmp_path: Path, rendered: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Source, Path]] = []

    async def fetch(_: HelmProcess, source: Source, into: Path) -> None:
        asked.append((source, into))
        if source.chart == "shops/none":
            raise HelmError("repo shops not found")
        if source.chart != "shops/empty":
            write_chart(into / "shop")

    monkeypatch.setattr(HelmProcess, "fetch", fetch)
    chart.init(helm_chart="shop", helm_chart_repo="https://x", helm_chart_version="1.2", folder=tmp_path / "shops")
    assert (tmp_path / "shops/helm-charts/shop/values.yaml").is_file()
    chart.init(kind="Stall", folder=tmp_path / "stalls")
    assert [source for source, _ in asked] == [
        Source(chart="shop", repo="https://x", version="1.2"),
        Source(chart="stall", new=True),
    ]
    assert not any(into.exists() for _, into in asked)
    with pytest.raises(Failed, match="shops/none: Helm cannot fetch it: repo shops not found"):
        chart.init(helm_chart="shops/none", folder=tmp_path / "none")
    with pytest.raises(Failed, match="shops/empty: there is no chart in it"):
        chart.init(helm_chart="shops/empty", folder=tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_chart_that_does_not_render_is_told_in_helms_words(tmp_path: Path, rendered: dict[str, Any]) -> None:
    source = write_chart(tmp_path / "chart")
    rendered["error"] = HelmError("values are missing")
    with pytest.raises(Failed, match="does not render with its default values: values are missing"):
        init(tmp_path / "shop-operator", source)
    rendered["error"] = HelmGone("pip install")
    with pytest.raises(Failed, match="pip install"):
        init(tmp_path / "shop-operator", source)
    assert not (tmp_path / "shop-operator").exists()


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("Minimart", "minimarts"),
        ("Ingress", "ingresses"),
        ("NetworkPolicy", "networkpolicies"),
        ("Gateway", "gateways"),
        ("Endpoints", "endpoints"),
    ],
)
def test_a_kind_has_the_plural_that_people_expect(kind: str, plural: str) -> None:
    assert chart_project.plural_of(kind) == plural


def test_a_chart_without_values_has_an_empty_sample(tmp_path: Path, rendered: dict[str, Any]) -> None:
    source = write_chart(tmp_path / "chart")
    (source / "values.yaml").unlink()
    init(tmp_path / "one", source)
    (source / "values.yaml").write_text("---\n# nothing\n")
    init(tmp_path / "two", source)
    for name in ("one", "two"):
        sample = yaml.safe_load((tmp_path / name / "config/samples/charts_v1alpha1_shop.yaml").read_text())
        assert sample["spec"] == {}


def test_rules_are_sorted_and_each_kind_stands_once() -> None:
    types = [TypeName("v1", "Service"), TypeName("apps/v1", "Deployment"), TypeName("v1", "ConfigMap")]
    rules = yaml.safe_load(chart_project.role_rules([*types, *types]))
    assert [(rule["apiGroups"], rule["resources"]) for rule in rules] == [
        ([""], ["configmaps"]),
        ([""], ["services"]),
        (["apps"], ["deployments"]),
    ]
