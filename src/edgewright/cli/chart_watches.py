"""What `edgewright run --watches` does before the operator starts: the file is read, and its kinds are looked up.

Nothing of Helm is imported where no watches file is named.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgewright.cli.failure import Failed
from edgewright.runtime import Client

if TYPE_CHECKING:
    from edgewright.controllers.chart.helm import Access
    from edgewright.controllers.chart.settings import ChartSettings
    from edgewright.controllers.chart.watches import Defaults, Watch

NAMESPACES = "WATCH_NAMESPACE"
"""The environment variable with the namespaces that are watched, separated by commas; empty: all."""


@dataclass(frozen=True, kw_only=True)
class Charts:
    """A watches file that was read, and how Helm is to find the cluster."""

    file: Path
    watches: tuple[Watch, ...]
    access: Access
    namespaces: tuple[str, ...] = ()

    async def served(self, client: Client) -> ChartSettings:
        """The settings of the controllers; each kind must be served already."""
        from edgewright.controllers.chart.discovery import Discovery  # noqa: PLC0415 - other commands need none of it
        from edgewright.controllers.chart.manifests import TypeName  # noqa: PLC0415
        from edgewright.controllers.chart.settings import ChartSettings  # noqa: PLC0415

        discovery = Discovery(client)
        found = []
        for each in self.watches:
            api_version = f"{each.group}/{each.version}" if each.group else each.version
            kind = await discovery.kind_of(TypeName(api_version, each.kind))
            if kind is None:
                raise Failed(
                    f"{self.file}: {api_version}, Kind={each.kind} is not served: install its definition first, "
                    "for example with `make install`"
                )
            if not kind.namespaced:
                raise Failed(f"{self.file}: {api_version}, Kind={each.kind} has no namespaces, but a release needs one")
            found.append((each, kind))
        return ChartSettings(served=tuple(found), access=self.access, namespaces=self.namespaces)


def read(
    path: Path | None,
    *,
    kubeconfig: Path | None,
    context: str | None,
    defaults: Callable[[], Defaults] | None = None,
) -> Charts | None:
    """The file that was named, checked, with its templates expanded; None where none was."""
    if path is None:
        return None
    from edgewright.controllers.chart.helm import Access  # noqa: PLC0415 - other commands need none of it
    from edgewright.controllers.chart.watches import WatchesError  # noqa: PLC0415
    from edgewright.controllers.chart.watches import read as read_watches  # noqa: PLC0415

    try:
        watches = read_watches(path, defaults=defaults() if defaults else None)
    except WatchesError as error:
        raise Failed(str(error)) from error
    watches = _expanded(path, watches)
    given = (name.strip() for name in os.environ.get(NAMESPACES, "").split(","))
    return Charts(
        file=path,
        watches=watches,
        access=Access(kubeconfig=kubeconfig and kubeconfig.absolute(), context=context),
        namespaces=tuple(name for name in given if name),
    )


def _expanded(path: Path, watches: tuple[Watch, ...]) -> tuple[Watch, ...]:
    """The entries with the templates in their overrides expanded by Helm, which is started for that alone."""
    from edgewright.controllers.chart import templates  # noqa: PLC0415 - other commands need none of it
    from edgewright.controllers.chart.helm import Access, HelmGone, HelmProcess  # noqa: PLC0415
    from edgewright.runtime.clock import SystemClock  # noqa: PLC0415

    if not any(templates.has_template(each.overrides) for each in watches):
        return watches

    async def expand() -> tuple[Watch, ...]:
        helm = HelmProcess(Access(), clock=SystemClock())
        try:
            return tuple(
                [
                    replace(each, overrides=await templates.expanded(helm, each.overrides, os.environ))
                    for each in watches
                ]
            )
        finally:
            await helm.close()

    try:
        return asyncio.run(expand())
    except (templates.TemplateError, HelmGone) as error:
        raise Failed(f"{path}: {error}") from error
