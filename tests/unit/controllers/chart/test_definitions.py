"""The definitions in a chart's folder `crds`, where the policy is to keep them up to date."""

from __future__ import annotations

import copy
from pathlib import Path

import yaml

from edgewright.controllers.chart.definitions import DEFINITION, in_chart, replaced
from edgewright.runtime.objects import Key
from tests.unit.cli.planes import planes
from tests.unit.controllers.chart import stage
from tests.unit.controllers.chart.charts import write_chart


def write(folder: Path, document: object) -> Path:
    chart = write_chart(folder / "shop")
    for place in (chart / "crds", chart / "charts" / "side" / "crds"):
        place.mkdir(parents=True, exist_ok=True)
    (chart / "crds" / "shop.yaml").write_text(f"{yaml.safe_dump(document)}---\nkind: Other\n")
    (chart / "crds" / "README.md").write_text("not one")
    return chart


def test_only_definitions_are_read(tmp_path: Path) -> None:
    chart = write(tmp_path, stage.DEFINITION)
    assert [each["metadata"]["name"] for each in in_chart(chart)] == [stage.SHOP.resource]


async def test_a_definition_is_made_and_later_changed(tmp_path: Path) -> None:
    async with planes(tmp_path / "data") as client:
        await replaced(client, write(tmp_path, stage.DEFINITION))
        newer = copy.deepcopy(stage.DEFINITION)
        newer["spec"]["names"]["shortNames"] = ["sh"]
        chart = write(tmp_path, newer)
        await replaced(client, chart)
        found = await client.raw(DEFINITION).get(Key("", stage.SHOP.resource))
        assert found["spec"]["names"]["shortNames"] == ["sh"]
        await replaced(client, chart)
        again = await client.raw(DEFINITION).get(Key("", stage.SHOP.resource))
        assert again["metadata"]["generation"] == found["metadata"]["generation"]
