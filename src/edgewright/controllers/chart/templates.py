"""Overrides with templates in them, as operator-sdk allows in a watches file, expanded by Helm's own engine.

`edgewright run` calls `expanded` once, before anything is started. The functions are those of Helm's templates, to
which `env` and `expandenv` are added; what does not expand is refused with the key.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from edgewright.controllers.chart.helm import HelmError

_CHART: Final = "overrides"
_ENV: Final = re.compile(r'\benv\s+"([^"]*)"')
_EXPAND: Final = re.compile(r"\bexpandenv\b")
_ACTION: Final = re.compile(r"\{\{.*?\}\}", re.DOTALL)


class Renders(Protocol):
    """What renders charts: a Helm process."""

    async def render(
        self, chart: Path, *, release: str, namespace: str, values: Mapping[str, object]
    ) -> dict[str, str]:
        """The chart's templates, by name, without a cluster."""


class TemplateError(Exception):
    """A template does not expand; the message has its key and Helm's words."""


def has_template(overrides: Mapping[str, str]) -> bool:
    """Whether there is anything to expand."""
    return any("{{" in text for text in overrides.values())


async def expanded(helm: Renders, overrides: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """The same overrides with their templates expanded."""
    found = dict(overrides)
    for key, text in overrides.items():
        if "{{" in text:
            found[key] = await _expand(helm, key, with_environment(text, environ))
    return found


def with_environment(text: str, environ: Mapping[str, str]) -> str:
    """A template with what it asks of the environment put in: Helm's own templates may not ask."""

    def inside(action: re.Match[str]) -> str:
        known = _ENV.sub(lambda name: json.dumps(environ.get(name[1], ""), ensure_ascii=False), action[0])
        return _EXPAND.sub("print", known)

    return _ACTION.sub(inside, text)


async def _expand(helm: Renders, key: str, text: str) -> str:
    with tempfile.TemporaryDirectory(prefix="edgewright-overrides-") as folder:
        chart = Path(folder) / _CHART
        (chart / "templates").mkdir(parents=True)
        (chart / "Chart.yaml").write_text(f"apiVersion: v2\nname: {_CHART}\nversion: 0.1.0\n", encoding="utf-8")
        # Not YAML: what is expanded is a text, and Helm looks at nothing but the template.
        (chart / "templates" / "value.txt").write_text(text, encoding="utf-8")
        try:
            rendered = await helm.render(chart, release=_CHART, namespace="default", values={})
        except HelmError as error:
            raise TemplateError(f"overrideValues: {key}: the template does not expand: {error}") from error
    return rendered.get(f"{_CHART}/templates/value.txt", "")
