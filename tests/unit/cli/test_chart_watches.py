"""What `edgewright run --watches` finds out before the operator starts."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from edgewright.api.capabilities import CHARTS
from edgewright.cli import chart_watches, run
from edgewright.cli.failure import Failed
from edgewright.controllers.settings import Settings
from edgewright.runtime import logs
from tests.harness.waiting import wait_until_async
from tests.unit.cli.planes import planes
from tests.unit.controllers.chart.charts import write_chart
from tests.unit.controllers.chart.stage import SHOP, staged

FILE = "- {group: charts.example.com, version: v1alpha1, kind: Shop, chart: shop}\n"


def written(folder: Path, text: str = FILE) -> Path:
    write_chart(folder / "shop")
    path = folder / "watches.yaml"
    path.write_text(text)
    return path


def test_without_a_file_there_are_no_charts() -> None:
    assert chart_watches.read(None, kubeconfig=None, context=None) is None


def test_a_bad_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(Failed, match="unknown key 'colour'"):
        chart_watches.read(written(tmp_path, "- {colour: red}"), kubeconfig=None, context=None)


def test_namespaces_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCH_NAMESPACE", "one, two,")
    charts = chart_watches.read(written(tmp_path), kubeconfig=Path("k"), context="c")
    assert charts is not None
    assert charts.namespaces == ("one", "two")
    assert charts.access.options() == {"kubeconfig_path": str(Path("k").absolute()), "kube_context": "c"}


def test_the_name_of_an_older_project_is_that_of_its_lease(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    charts = chart_watches.read(written(tmp_path), kubeconfig=None, context=None)
    assert charts is not None
    assert charts.lease == ""
    monkeypatch.setenv("OPERATOR_NAME", "shop-operator")
    charts = chart_watches.read(written(tmp_path), kubeconfig=None, context=None)
    assert charts is not None
    assert charts.lease == "shop-operator"


async def test_each_kind_is_looked_up_and_must_be_served(tmp_path: Path) -> None:
    async with staged(tmp_path / "stage") as stage:
        charts = chart_watches.read(written(tmp_path), kubeconfig=None, context=None)
        assert charts is not None
        settings = await charts.served(stage.client)
        assert [kind for _, kind in settings.served] == [SHOP]
        text = FILE.replace("Shop", "Bank")
        charts = chart_watches.read(written(tmp_path, text), kubeconfig=None, context=None)
        assert charts is not None
        with pytest.raises(Failed, match="Kind=Bank is not served: install its definition first"):
            await charts.served(stage.client)
        text = FILE.replace("charts.example.com", "''").replace("v1alpha1", "v1").replace("Shop", "Namespace")
        charts = chart_watches.read(written(tmp_path, text), kubeconfig=None, context=None)
        assert charts is not None
        with pytest.raises(Failed, match="has no namespaces"):
            await charts.served(stage.client)


async def test_charts_without_a_watches_file_are_refused_when_they_are_asked_for(tmp_path: Path) -> None:
    async with planes(tmp_path / "data") as client:
        with pytest.raises(Failed, match="name the file with --watches"):
            await run.served_capabilities(client, (CHARTS,))


async def test_the_operator_says_which_kinds_it_watches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgewright.controllers.chart.operator.HelmProcess.run", lambda _: asyncio.Event().wait())
    async with staged(tmp_path / "stage") as stage:
        charts = chart_watches.read(written(tmp_path), kubeconfig=None, context=None)
        logs.setup(level="info", format="zap")
        before = signal.getsignal(signal.SIGTERM)

        async def stop() -> None:
            await wait_until_async(lambda: "leading" in capsys_text(), what="the operator leads")
            os.kill(os.getpid(), signal.SIGTERM)

        text = ""

        def capsys_text() -> str:
            nonlocal text
            text += capsys.readouterr().err
            return text

        await asyncio.gather(
            run.operate(
                stage.client.config,
                Settings(),
                serving=run.Serving(),
                leader_elect=True,
                install_crds=False,
                wanted=(CHARTS,),
                charts=charts,
                lease_name="shop-operator",
            ),
            stop(),
        )
        signal.signal(signal.SIGTERM, before)
    assert '"msg":"Starting EventSource","source":"kind source: charts.example.com/v1alpha1, Kind=Shop"' in text
    assert "default/shop-operator" in text
