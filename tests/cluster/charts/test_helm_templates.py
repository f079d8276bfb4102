"""Templates in overrides, expanded by the real Helm, which only suites on real parts have."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewright.cli import chart_watches
from edgewright.cli.failure import Failed
from edgewright.controllers.chart.helm import Access, HelmProcess
from edgewright.controllers.chart.templates import TemplateError, expanded
from edgewright.runtime.clock import SystemClock
from tests.unit.cli.test_chart_watches import FILE, written


async def expand(**overrides: str) -> dict[str, str]:
    helm = HelmProcess(Access(), clock=SystemClock())
    try:
        return await expanded(helm, overrides, {"IMAGE": "registry.example/shop:1.2"})
    finally:
        await helm.close()


async def test_templates_are_expanded_by_helms_own_engine() -> None:
    found = await expand(
        tag='{{ ("shop:1.2" | split ":")._1 }}',
        name='{{ env "IMAGE" | splitList ":" | first | base }}',
        plain="as it is",
        nothing='{{ env "UNSET" | default "none" | upper }}',
        expanded='{{ expandenv "x" }}-{{ trimSuffix "-a" "b-a" }}',
    )
    assert found == {"tag": "1.2", "name": "shop", "plain": "as it is", "nothing": "NONE", "expanded": "x-b"}


async def test_a_template_that_does_not_expand_is_refused_with_its_key() -> None:
    with pytest.raises(TemplateError, match=r"overrideValues: bad: the template does not expand: .*nosuch"):
        await expand(bad="{{ nosuch 1 }}")


def test_templates_in_overrides_are_expanded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IMG", "registry.example/shop:1.2")
    text = FILE.replace("chart: shop", 'chart: shop, overrideValues: {tag: \'{{ ("$IMG" | split ":")._1 }}\'}')
    charts = chart_watches.read(written(tmp_path, text), kubeconfig=None, context=None)
    assert charts is not None
    assert dict(charts.watches[0].overrides) == {"tag": "1.2"}
    with pytest.raises(Failed, match="overrideValues: tag: the template does not expand"):
        chart_watches.read(written(tmp_path, text.replace("split", "nosuch")), kubeconfig=None, context=None)
