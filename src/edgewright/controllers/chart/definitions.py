"""The custom resource definitions in a chart's folder `crds`, brought up to date where the policy is to replace them.

Helm itself only ever creates them, with the first install. `controller` calls `replaced` before an action. A definition
is never deleted: that would delete all of its objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import yaml

from edgewright.controllers.chart.dependents import HELM
from edgewright.runtime.client import Client
from edgewright.runtime.errors import NotFound
from edgewright.runtime.objects import Key, Kind, RawObject
from edgewright.runtime.yaml_loader import Loader

DEFINITION: Final = Kind(
    group="apiextensions.k8s.io",
    version="v1",
    kind="CustomResourceDefinition",
    plural="customresourcedefinitions",
    namespaced=False,
)


def in_chart(chart: Path) -> Iterator[RawObject]:
    """The definitions of a chart and of its subcharts on disk, in the order of their files."""
    for path in sorted(chart.glob("**/crds/**/*")):
        if path.suffix in {".yaml", ".yml", ".json"} and path.is_file():
            for document in yaml.load_all(path.read_text(encoding="utf-8"), Loader=Loader):
                if isinstance(document, dict) and document.get("kind") == DEFINITION.kind:
                    yield document


async def replaced(client: Client, chart: Path) -> None:
    """Makes each definition what the chart says; where nothing differs, the server changes nothing."""
    api = client.raw(DEFINITION)
    for body in in_chart(chart):
        key = Key("", body["metadata"]["name"])
        try:
            uid = (await api.get(key))["metadata"]["uid"]
        except NotFound:
            await api.create(body)
        else:
            await api.apply({**body, "metadata": {**body["metadata"], "uid": uid}}, manager=HELM, force=True)
