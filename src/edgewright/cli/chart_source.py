"""Where the chart of `edgewright chart init` comes from: a folder, or whatever Helm itself can fetch.

`cli.chart` calls it. What is fetched lives in a temporary folder as long as the chart is used.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import typer

from edgewright.cli.failure import Failed
from edgewright.controllers.chart.helm import Access, HelmError, HelmGone, HelmProcess, Source
from edgewright.runtime.clock import SystemClock

_REMOTE: Final = re.compile(r"[a-z]+://.+|[A-Za-z0-9][\w.-]*/[\w.-]+")
"""A URL, a reference, or REPOSITORY/CHART."""


@contextmanager
def opened(source: Source) -> Iterator[Path]:
    """The folder of the chart; BadParameter where there can be none, Failed where Helm cannot fetch it."""
    local = None if source.new or source.repo else Path(source.chart)
    if local is not None and local.exists() and source.version:
        raise typer.BadParameter(f"{local} is here, in the version that it has", param_hint="--helm-chart-version")
    if local is not None and local.is_dir():
        yield local
        return
    if local is not None and not local.exists() and not _REMOTE.fullmatch(source.chart):
        raise typer.BadParameter(f"there is no {local}", param_hint="--helm-chart")
    with tempfile.TemporaryDirectory(prefix="edgewright-chart-") as into:
        asyncio.run(_fetch(source, Path(into)))
        found = [path.parent for path in Path(into).glob("*/Chart.yaml")]
        if not found:
            raise Failed(f"{source.chart}: there is no chart in it")
        yield found[0]


async def _fetch(source: Source, into: Path) -> None:
    helm = HelmProcess(Access(), clock=SystemClock())
    try:
        await helm.fetch(source, into)
    except HelmError as error:
        raise Failed(f"{source.chart}: Helm cannot fetch it: {error}") from error
    except HelmGone as error:
        raise Failed(str(error)) from error
    finally:
        await helm.close()
