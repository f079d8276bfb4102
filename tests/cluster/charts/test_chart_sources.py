"""Where `edgewright chart init` gets charts from, with the real Helm: archive, URL, repository, registry, a new one."""

from __future__ import annotations

import asyncio
import functools
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from edgewright.cli import chart
from edgewright.cli.failure import Failed
from edgewright.devices.simulated.registry import Registry
from tests.acceptance.console_stage import served

SHOP = {
    "Chart.yaml": "apiVersion: v2\nname: shop\nversion: {version}\n",
    "values.yaml": "greeting: hello\n",
    "templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\n",
}


def packed(folder: Path, version: str) -> Path:
    """An archive of the chart, as `helm package` makes it."""
    source = folder / f"source-{version}" / "shop"
    for name, text in SHOP.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(version=version))
    archives = folder / "archives"
    archives.mkdir(exist_ok=True)
    import_module("helm_python").package(source, destination=archives)
    return archives / f"shop-{version}.tgz"


@pytest.fixture
def archives(tmp_path: Path) -> Path:
    """Two versions of the chart, and the index of a repository."""
    folder = packed(tmp_path, "0.1.0").parent
    packed(tmp_path, "0.2.0")
    import_module("helm_python").repo_index_generate(folder)
    return folder


def version_of(project: Path) -> str:
    """The version of the chart that was copied into a project; its operator has rights on what it renders."""
    assert "configmaps" in (project / "config/rbac/role.yaml").read_text()
    return str(yaml.safe_load((project / "helm-charts/shop/Chart.yaml").read_text())["version"])


def test_an_archive_is_unpacked(archives: Path, tmp_path: Path) -> None:
    chart.init(helm_chart=str(archives / "shop-0.1.0.tgz"), folder=tmp_path / "shops")
    assert version_of(tmp_path / "shops") == "0.1.0"


def test_a_repository_has_the_newest_unless_a_version_is_named(archives: Path, tmp_path: Path) -> None:
    with served(archives) as url:  # a repository is files behind any web server
        chart.init(helm_chart="shop", helm_chart_repo=url, folder=tmp_path / "newest")
        chart.init(helm_chart="shop", helm_chart_repo=url, helm_chart_version="0.1.0", folder=tmp_path / "named")
        chart.init(helm_chart=f"{url}/shop-0.1.0.tgz", folder=tmp_path / "url")
        with pytest.raises(Failed, match=r"none: Helm cannot fetch it: .*not found"):
            chart.init(helm_chart="none", helm_chart_repo=url, folder=tmp_path / "none")
    assert version_of(tmp_path / "newest") == "0.2.0"
    assert version_of(tmp_path / "named") == version_of(tmp_path / "url") == "0.1.0"
    assert not (tmp_path / "none").exists()


async def test_a_registry_has_charts_too(archives: Path, tmp_path: Path) -> None:
    async with Registry() as registry:
        reference = f"oci://{registry.host}/charts"
        push = functools.partial(import_module("helm_python").push, plain_http=True)
        await asyncio.to_thread(push, archives / "shop-0.2.0.tgz", reference)
        init = functools.partial(chart.init, helm_chart=f"{reference}/shop", folder=tmp_path / "shops")
        with pytest.raises(Failed, match="Helm cannot fetch it"):
            await asyncio.to_thread(init)
        await asyncio.to_thread(init, plain_http=True, helm_chart_version="0.2.0")
    assert version_of(tmp_path / "shops") == "0.2.0"


def test_a_kind_alone_gets_the_chart_that_helm_makes(tmp_path: Path) -> None:
    chart.init(kind="Shop", folder=tmp_path / "shops")
    rights = (tmp_path / "shops/config/rbac/role.yaml").read_text()
    assert "deployments" in rights
    assert (tmp_path / "shops/helm-charts/shop/templates/deployment.yaml").is_file()


def test_a_repository_that_helm_does_not_know_is_told_in_helms_words(tmp_path: Path) -> None:
    with pytest.raises(Failed, match=r"shops/shop: Helm cannot fetch it: .*shops"):
        chart.init(helm_chart="shops/shop", folder=tmp_path / "shops")
