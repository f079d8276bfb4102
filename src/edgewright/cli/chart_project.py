"""What `edgewright chart init` writes: the templates of `chart_scaffold` with the names of one project put in.

`cli.chart` calls it. The rights of the operator come from what the chart renders with its default values. It reads one
chart and writes one folder, and asks no cluster.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

import yaml

from edgewright import __version__
from edgewright.cli.chart_schema import structural
from edgewright.cli.failure import Failed
from edgewright.controllers.chart.helm import Access, HelmError, HelmGone, HelmProcess
from edgewright.controllers.chart.manifests import TypeName, parts
from edgewright.runtime.clock import SystemClock
from edgewright.runtime.yaml_dumper import Dumper
from edgewright.runtime.yaml_loader import load

_SCAFFOLD: Final = "chart_scaffold"
_NAME: Final = re.compile(r"%%(\w+)%%")
_IGNORED: Final = shutil.ignore_patterns(".git", "__pycache__")
_VERBS: Final = "get, list, watch, create, patch, update, delete"
_IRREGULAR: Final = {"Endpoints": "endpoints"}
_SAME_RIGHTS: Final = frozenset({("", "secrets")})
"""Its rights stand in the role already, without the right to list all."""


class Unrenderable(Exception):
    """The chart does not render with its default values; the text is Helm's."""


@dataclass(frozen=True)
class Chart:
    """A chart on disk."""

    folder: Path
    name: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The names of one project."""

    project: str
    domain: str
    short_group: str
    version: str
    kind: str
    chart: Chart

    @property
    def group(self) -> str:
        """The API group."""
        return f"{self.short_group}.{self.domain}"

    @property
    def singular(self) -> str:
        """The kind in small letters."""
        return self.kind.lower()

    @property
    def plural(self) -> str:
        """The resource's name."""
        return plural_of(self.kind)

    @property
    def sample(self) -> str:
        """The name of the sample's file."""
        return f"{self.short_group}_{self.version}_{self.singular}.yaml"


def read_chart(folder: Path) -> Chart:
    """The chart in a folder; ValueError says why there is none."""
    try:
        metadata = load((folder / "Chart.yaml").read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{folder} is no folder with a Chart.yaml: {error.strerror or error}") from error
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{folder / 'Chart.yaml'} is not YAML") from error
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not re.fullmatch(r"[a-z0-9][-a-z0-9.]*", name):
        raise ValueError(f"{folder / 'Chart.yaml'} has no name that a chart can have")
    return Chart(folder, name)


def kind_of(chart: str) -> str:
    """The kind of a chart: its name in camel case."""
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[-_.]", chart))


def plural_of(kind: str) -> str:
    """The resource's name of a kind, by the usual rules of English."""
    if kind in _IRREGULAR:
        return _IRREGULAR[kind]
    word = kind.lower()
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return f"{word}es"
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{word[:-1]}ies"
    return f"{word}s"


async def rules_of(plan: Plan) -> str:
    """The rights on what the chart renders with its default values, as lines of a role."""
    helm = HelmProcess(Access(), clock=SystemClock())
    try:
        templates = await helm.render(
            plan.chart.folder.absolute(), release=f"{plan.singular}-sample", namespace="default", values={}
        )
        found = {part.type for text in _manifests(templates) for part in parts(text)}
    except (HelmError, yaml.YAMLError) as error:
        raise Unrenderable(str(error)) from error
    except HelmGone as error:
        raise Failed(str(error)) from error
    finally:
        await helm.close()
    return role_rules(found)


def _manifests(templates: dict[str, str]) -> Iterable[str]:
    return (text for name, text in templates.items() if not name.endswith("NOTES.txt"))


def role_rules(types: Collection[TypeName]) -> str:
    """The lines of a role for these kinds, sorted."""
    named = sorted({(each.api_version.rpartition("/")[0], plural_of(each.kind)) for each in types})
    return "".join(
        f"  - apiGroups: [{group or _EMPTY}]\n    resources: [{plural}]\n    verbs: [{_VERBS}]\n"
        for group, plural in named
        if (group, plural) not in _SAME_RIGHTS
    )


_EMPTY: Final = '""'


def write(folder: Path, plan: Plan, rules: str) -> int:
    """Writes the project and says how many files; nothing is written where one of them is there already."""
    texts = dict(_texts(plan, rules))
    chart = folder / "helm-charts" / plan.chart.name
    taken = [path for path in (*(folder / name for name in texts), chart) if path.exists()]
    if taken:
        raise Failed(f"{taken[0]} exists already: choose an empty folder")
    if chart.resolve().is_relative_to(plan.chart.folder.resolve()):
        raise Failed(f"{folder} is inside the chart's folder: choose another one")
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    shutil.copytree(plan.chart.folder, chart, ignore=_IGNORED)
    return len(texts) + sum(path.is_file() for path in chart.rglob("*"))


def _texts(plan: Plan, rules: str) -> Iterable[tuple[str, str]]:
    names = {
        "project": plan.project,
        "domain": plan.domain,
        "short_group": plan.short_group,
        "group": plan.group,
        "version": plan.version,
        "kind": plan.kind,
        "singular": plan.singular,
        "plural": plan.plural,
        "chart": plan.chart.name,
        "edgewright": __version__,
        "rules": rules,
        "values": _values(plan.chart.folder),
        "spec": _spec(plan.chart.folder),
    }
    renamed = {
        "gitignore": ".gitignore",
        "dockerignore": ".dockerignore",
        "config/crd/bases/crd.yaml": f"config/crd/bases/{plan.group}_{plan.plural}.yaml",
        "config/manifests/bases/clusterserviceversion.yaml": (
            f"config/manifests/bases/{plan.project}.clusterserviceversion.yaml"
        ),
        "config/samples/sample.yaml": f"config/samples/{plan.sample}",
        **{
            f"config/rbac/{who}_role.yaml": f"config/rbac/{plan.singular}_{who}_role.yaml"
            for who in ("admin", "editor", "viewer")
        },
    }
    for name, text in _templates(resources.files("edgewright.cli") / _SCAFFOLD, ""):
        yield renamed.get(name, name), _NAME.sub(lambda found: names[found[1]], text)


def _templates(folder: Traversable, prefix: str) -> Iterable[tuple[str, str]]:
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        name = f"{prefix}{each.name}"
        if each.is_dir():
            yield from _templates(each, f"{name}/")
        else:
            yield name, each.read_text(encoding="utf-8")


def _values(folder: Path) -> str:
    """The chart's default values as they are written, comments too, as the spec of the sample."""
    try:
        text = (folder / "values.yaml").read_text(encoding="utf-8")
    except FileNotFoundError:
        return "  {}"
    lines = [f"  {line}".rstrip() for line in text.splitlines() if line.strip() != "---"]
    return "\n".join(lines) if isinstance(load(text), dict) and load(text) else "  {}"


def _spec(folder: Path) -> str:
    """The schema of the spec, from the chart's values.schema.json where there is one, as lines of the definition."""
    path = folder / "values.schema.json"
    schema: dict[str, object] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    if path.is_file():
        try:
            given = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise Failed(f"{path}: is not JSON: {error}") from error
        schema = structural(given if isinstance(given, dict) else {})
    described = {"description": "The values of the release, as the chart's values.yaml has them.", **schema}
    text = yaml.dump(described, Dumper=Dumper, sort_keys=False, width=1000, allow_unicode=True)
    return "\n".join(f"              {line}" for line in text.splitlines())
