"""What `edgewright run --watches` and `edgewright up --watches` do with the file before its charts are served.

It is read, and its kinds are looked up; for `up` the definitions of the project are installed where a kind is missing.
Nothing of Helm is imported where no watches file is named.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edgewright.cli.failure import Failed
from edgewright.runtime import Client
from edgewright.runtime.definitions import DEFINITION, install
from edgewright.runtime.objects import RawObject
from edgewright.runtime.tls import ConfigError

if TYPE_CHECKING:
    from edgewright.controllers.chart.helm import Access
    from edgewright.controllers.chart.manifests import TypeName
    from edgewright.controllers.chart.settings import ChartSettings
    from edgewright.controllers.chart.watches import Defaults, Watch

# What the extra `charts` installs, by the name under which it is imported.
_LIBRARY: Final = "helm_python"
# Where `edgewright chart init` puts definitions, from where the watches file is.
_DEFINITIONS: Final = Path("config/crd/bases")
NAMESPACES = "WATCH_NAMESPACE"
"""The environment variable with the namespaces that are watched, separated by commas; empty: all."""
OPERATOR_NAME = "OPERATOR_NAME"
"""The environment variable that was there before --leader-election-id, and means the same."""


@dataclass(frozen=True, kw_only=True)
class Charts:
    """A watches file that was read, and how Helm is to find the cluster."""

    file: Path
    watches: tuple[Watch, ...]
    access: Access
    namespaces: tuple[str, ...] = ()
    lease: str = ""
    """The name of the leader's Lease where no option says one: what older projects of operator-sdk have as theirs."""
    definitions: Mapping[TypeName, RawObject] = field(default_factory=dict)
    """Those that lie next to the file, by each kind that they define, where they are wanted."""

    async def install_missing(self, client: Client) -> None:
        """Installs the definitions next to the file of kinds that are not served; one that is there stays as it is."""
        from edgewright.controllers.chart.discovery import Discovery  # noqa: PLC0415 - other commands need none of it

        discovery = Discovery(client)
        for type_ in map(_type_name, self.watches):
            document = self.definitions.get(type_)
            if document is not None and await discovery.kind_of(type_) is None:
                await install(client, document)

    async def served(self, client: Client) -> ChartSettings:
        """The settings of the controllers; each kind must be served already."""
        from edgewright.controllers.chart.discovery import Discovery  # noqa: PLC0415 - other commands need none of it
        from edgewright.controllers.chart.settings import ChartSettings  # noqa: PLC0415

        discovery = Discovery(client)
        found = []
        for each in self.watches:
            type_ = _type_name(each)
            kind = await discovery.kind_of(type_)
            if kind is None:
                raise Failed(
                    f"{self.file}: {type_.api_version}, Kind={type_.kind} is not served: install its definition first, "
                    "for example with `make install`"
                )
            if not kind.namespaced:
                raise Failed(
                    f"{self.file}: {type_.api_version}, Kind={type_.kind} has no namespaces, but a release needs one"
                )
            found.append((each, kind))
        return ChartSettings(served=tuple(found), access=self.access, namespaces=self.namespaces)


def require_library() -> None:
    """Says what to install where the extra of charts is missing."""
    if importlib.util.find_spec(_LIBRARY) is None:
        raise ConfigError(f"{_LIBRARY} is not installed, which charts need: pip install 'edgewright[charts]'")


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
        lease=os.environ.get(OPERATOR_NAME, ""),
    )


def read_project(path: Path | None) -> Charts | None:
    """The same with the definitions next to the file; how Helm is to find the cluster is not known yet."""
    charts = read(path, kubeconfig=None, context=None)
    return charts and replace(charts, definitions=_definitions(charts.file.parent / _DEFINITIONS))


def _type_name(watch: Watch) -> TypeName:
    from edgewright.controllers.chart.manifests import TypeName  # noqa: PLC0415 - other commands need none of it

    return TypeName(f"{watch.group}/{watch.version}" if watch.group else watch.version, watch.kind)


def _definitions(folder: Path) -> dict[TypeName, RawObject]:
    """The definitions in a folder, by each kind and version that they define; Failed where one cannot be read."""
    import yaml  # noqa: PLC0415 - as below

    from edgewright.controllers.chart.manifests import TypeName  # noqa: PLC0415 - other commands need none of it
    from edgewright.runtime.yaml_loader import Loader  # noqa: PLC0415

    found: dict[TypeName, RawObject] = {}
    for path in sorted(folder.glob("*.yaml")):
        try:
            documents = list(yaml.load_all(path.read_text(encoding="utf-8"), Loader=Loader))
            for each in documents:
                if isinstance(each, dict) and each.get("kind") == DEFINITION.kind:
                    group, kind = each["spec"]["group"], each["spec"]["names"]["kind"]
                    found |= {TypeName(f"{group}/{one['name']}", kind): each for one in each["spec"]["versions"]}
        except OSError as error:
            raise Failed(f"{path}: {error.strerror or error}") from error
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise Failed(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
        except (KeyError, TypeError) as error:
            raise Failed(f"{path}: is not the definition of a kind: {error}") from error
    return found


def _expanded(path: Path, watches: tuple[Watch, ...]) -> tuple[Watch, ...]:
    """The entries with the templates in their overrides expanded by Helm, which is started for that alone."""
    from edgewright.controllers.chart import templates  # noqa: PLC0415 - other commands need none of it
    from edgewright.controllers.chart.helm import Access, HelmGone, HelmProcess  # noqa: PLC0415
    from edgewright.controllers.chart.watches import WatchesError, check_overrides  # noqa: PLC0415
    from edgewright.runtime.clock import SystemClock  # noqa: PLC0415

    if not any(templates.has_template(each.overrides) for each in watches):
        return watches

    async def expand() -> tuple[Watch, ...]:
        helm = HelmProcess(Access(), clock=SystemClock())
        try:
            found = []
            for number, each in enumerate(watches):
                overrides = await templates.expanded(helm, each.overrides, os.environ)
                check_overrides(overrides, where=f"entry {number + 1}")
                found.append(replace(each, overrides=overrides))
            return tuple(found)
        finally:
            await helm.close()

    try:
        return asyncio.run(expand())
    except (templates.TemplateError, WatchesError, HelmGone) as error:
        raise Failed(f"{path}: {error}") from error
