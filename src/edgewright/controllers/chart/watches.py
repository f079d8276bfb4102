"""The watches file: which kinds are served by which charts, read and checked before anything is started.

`cli.chart_watches` calls `read`. A file that says something which cannot be is refused as a whole, with
the entry and the key; nothing is looked up in a cluster here.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from edgewright.controllers.chart import durations, policy
from edgewright.controllers.chart.digests import chart_digest
from edgewright.controllers.chart.policy import Policy, PolicyError
from edgewright.controllers.chart.templates import has_template
from edgewright.controllers.chart.values import with_overrides
from edgewright.runtime.yaml_loader import load

GroupVersionKind = tuple[str, str, str]

_KEYS: Final = {
    "group": str,
    "version": str,
    "kind": str,
    "chart": str,
    "watchDependentResources": bool,
    "overrideValues": dict,
    "selector": dict,
    "reconcilePeriod": str,
    "dryRunOption": str,
    "maxConcurrentReconciles": int,
    **dict.fromkeys(policy.KEYS, object),
}
_WORDS: Final = {str: "a text", bool: "true or false", dict: "a mapping", int: "a number"}
_VARIABLE: Final = re.compile(r"\$(?:\{(?P<braced>[^}]*)\}|\{|(?P<plain>[-*#$@!?0-9]|[A-Za-z_][A-Za-z0-9_]*))")
"""What Go's os.ExpandEnv replaces."""
_LABEL_VALUE: Final = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
MAX_WORKERS: Final = 64
DEFAULT_WORKERS: Final = 8
"""Twice as many as Helm has: while it works for some, what comes before and after is done for others."""


class WatchesError(Exception):
    """The watches file says something that cannot be; the message names the entry and the key."""


@dataclass(frozen=True, kw_only=True)
class Watch:
    """One kind and the chart that serves it."""

    group: str
    version: str
    kind: str
    chart: Path
    """The chart's folder, as an absolute path."""
    chart_name: str
    digest: str
    """Of everything in that folder."""
    dependents: bool = True
    """Whether what belongs to a release is watched."""
    overrides: Mapping[str, str] = field(default_factory=dict)
    """Values that are put over those of the object, by their dotted path; always texts. May hold templates at first."""
    hide_overrides: bool = False
    """Events tell that a value is overridden, not with what."""
    labels: str = ""
    """A label selector: only objects with these labels are served."""
    policy: Policy = field(default_factory=Policy)
    """How releases are looked after, unless an object says otherwise."""
    workers: int = DEFAULT_WORKERS

    @property
    def gvk(self) -> GroupVersionKind:
        """What makes the entry one of its own."""
        return self.group, self.version, self.kind


@dataclass(frozen=True, kw_only=True)
class Defaults:
    """What the command line says for entries that do not say it themselves."""

    period: float | None = None
    workers: int = DEFAULT_WORKERS
    hide_overrides: bool = False


def read(path: Path, *, environ: Mapping[str, str] = os.environ, defaults: Defaults | None = None) -> tuple[Watch, ...]:
    """The entries of a watches file; charts are looked for from the working directory, then next to the file."""
    try:
        document = load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WatchesError(f"{path}: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise WatchesError(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(document, list) or not document:
        raise WatchesError(f"{path}: must be a list of entries with group, version, kind and chart")
    found: dict[GroupVersionKind, Watch] = {}
    for number, entry in enumerate(document):
        watch = _watch(
            entry,
            where=f"{path}: entry {number + 1}",
            folder=path.parent,
            environ=environ,
            defaults=defaults or Defaults(),
        )
        if watch.gvk in found:
            raise WatchesError(f"{path}: entry {number + 1}: duplicate {'/'.join(filter(None, watch.gvk))}")
        found[watch.gvk] = watch
    return tuple(found.values())


def _watch(entry: object, *, where: str, folder: Path, environ: Mapping[str, str], defaults: Defaults) -> Watch:
    if not isinstance(entry, dict):
        raise WatchesError(f"{where}: must be a mapping")
    entry = {key: value for key, value in entry.items() if value is not None}  # as Go reads null
    for key, value in entry.items():
        if key not in _KEYS:
            raise WatchesError(f"{where}: unknown key {key!r}: use {', '.join(_KEYS)}")
        if not isinstance(value, _KEYS[key]) or (_KEYS[key] is int and isinstance(value, bool)):
            raise WatchesError(f"{where}: {key}: must be {_WORDS[_KEYS[key]]}")
    for key in ("version", "kind", "chart"):
        if not entry.get(key):
            raise WatchesError(f"{where}: {key}: is missing")
    if entry.get("dryRunOption", "") not in {"", "server"}:
        raise WatchesError(f"{where}: dryRunOption: must be empty or 'server'")
    workers = entry.get("maxConcurrentReconciles", defaults.workers)
    if not 1 <= workers <= MAX_WORKERS:
        raise WatchesError(f"{where}: maxConcurrentReconciles: must be 1 to {MAX_WORKERS}")
    chart = _chart_folder(entry["chart"], where=where, folder=folder)
    return Watch(
        group=entry.get("group", ""),
        version=entry["version"],
        kind=entry["kind"],
        chart=chart,
        chart_name=_chart_name(chart, where=where),
        digest=chart_digest(chart),
        dependents=entry.get("watchDependentResources", True),
        overrides=_overrides(entry.get("overrideValues") or {}, where=where, environ=environ),
        labels=_selector(entry.get("selector") or {}, where=where),
        policy=_policy(entry, where=where, default=defaults.period),
        hide_overrides=defaults.hide_overrides,
        workers=workers,
    )


def _chart_folder(text: str, *, where: str, folder: Path) -> Path:
    for path in (Path(text), folder / text):
        if (path / "Chart.yaml").is_file():
            return path.absolute()
    raise WatchesError(f"{where}: chart: {text} is no folder with a Chart.yaml")


def _chart_name(chart: Path, *, where: str) -> str:
    try:
        metadata = load((chart / "Chart.yaml").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise WatchesError(f"{where}: chart: {chart / 'Chart.yaml'}: {' '.join(str(error).split())}") from error
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str) or not name:
        raise WatchesError(f"{where}: chart: {chart / 'Chart.yaml'} has no name")
    return name


def _overrides(given: dict[Any, Any], *, where: str, environ: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for key, value in given.items():
        if not isinstance(key, str) or not key or isinstance(value, dict | list):
            raise WatchesError(f"{where}: overrideValues: {key}: must be one text, number or truth value")
        found[key] = _VARIABLE.sub(lambda name: environ.get(name["braced"] or name["plain"] or "", ""), _text(value))
    if not has_template(found):
        check_overrides(found, where=where)
    return found


def check_overrides(overrides: Mapping[str, str], *, where: str) -> None:
    """Refuses what Helm could not set; templates must be expanded before."""
    for key, text in overrides.items():
        try:
            with_overrides({}, {key: text})
        except ValueError as error:
            raise WatchesError(f"{where}: overrideValues: {key}: {error}") from error


def _text(value: object) -> str:
    """A value of YAML where Go wants a text."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value).removesuffix(".0") if isinstance(value, float) else str(value)


def _selector(given: dict[Any, Any], *, where: str) -> str:
    unknown = [key for key in given if key not in {"matchLabels", "matchExpressions"}]
    labels, expressions = given.get("matchLabels") or {}, given.get("matchExpressions") or []
    if unknown or not isinstance(labels, dict) or not isinstance(expressions, list):
        raise WatchesError(f"{where}: selector: must have matchLabels and matchExpressions only")
    parts = [f"{key}={_label_value(value, where)}" for key, value in labels.items()]
    parts += [_requirement(each, where) for each in expressions]
    return ",".join(parts)


def _requirement(given: object, where: str) -> str:
    each = given if isinstance(given, dict) else {}
    key, operator, values = each.get("key"), each.get("operator"), each.get("values") or []
    if isinstance(key, str) and key and isinstance(values, list):
        joined = ",".join(_label_value(value, where) for value in values)
        match operator:
            case "In" if values:
                return f"{key} in ({joined})"
            case "NotIn" if values:
                return f"{key} notin ({joined})"
            case "Exists" if not values:
                return key
            case "DoesNotExist" if not values:
                return f"!{key}"
    raise WatchesError(
        f"{where}: selector: matchExpressions: each needs a key, an operator (In, NotIn, Exists, DoesNotExist) "
        "and values where the operator takes some"
    )


def _label_value(value: object, where: str) -> str:
    if not isinstance(value, str) or not _LABEL_VALUE.fullmatch(value):
        raise WatchesError(f"{where}: selector: {value!r} is not the value of a label")
    return value


def _policy(entry: Mapping[str, Any], *, where: str, default: float | None) -> Policy:
    try:
        period = durations.seconds(entry.get("reconcilePeriod", ""))
    except ValueError as error:
        raise WatchesError(f"{where}: reconcilePeriod: {error}") from error
    try:
        return policy.from_entry(entry, period=period or default)
    except PolicyError as error:
        raise WatchesError(f"{where}: {error}") from error
