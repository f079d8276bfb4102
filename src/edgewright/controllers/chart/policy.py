"""How one release is looked after: what its entry in the watches file says, with the object's annotations put over it.

`controller` asks for the policy of an object in every pass. The annotations of operator-sdk keep their names and their
meaning; those of our own begin with `edgewright.dev/`. Pure functions: what cannot be is refused with the name of the
annotation or the key, and nothing is done about the release.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeAlias, cast, get_args

from edgewright.controllers.chart import durations

DriftMode: TypeAlias = Literal["correct", "warn", "off"]
OnFailedInstall: TypeAlias = Literal["uninstall", "retry"]
OnFailedUpgrade: TypeAlias = Literal["rollback", "retry"]
Crds: TypeAlias = Literal["create", "replace", "skip"]
SourceKind: TypeAlias = Literal["ConfigMap", "Secret"]

_SDK: Final = "helm.sdk.operatorframework.io/"
SUSPEND: Final = "edgewright.dev/suspend"
DRIFT: Final = "edgewright.dev/drift"
"""On an object that a chart serves: the mode. On an object of a release: `off` leaves that one alone."""
TEST: Final = "edgewright.dev/test"
VALUES_FROM: Final = "edgewright.dev/values-from"
RETRY: Final = "edgewright.dev/retry"
"""Any other text than before has a release that failed tried again at once."""

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_POINTER: Final = re.compile(r"(?:/(?:[^~/]|~[01])*)+")
_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")
_MAX_HISTORY: Final = 100
_MAX_SOURCES: Final = 16


class PolicyError(ValueError):
    """A key or an annotation says something that cannot be; the message names it."""


@dataclass(frozen=True, kw_only=True)
class Ignored:
    """Fields of some objects of a release that are somebody else's business."""

    paths: tuple[str, ...]
    """JSON pointers, such as /spec/replicas."""
    kind: str = ""
    name: str = ""
    """A regular expression for whole names; empty: all."""

    def fits(self, kind: str, name: str) -> bool:
        """Whether the rule is about this object."""
        return self.kind in {"", kind} and (not self.name or re.fullmatch(self.name, name) is not None)


@dataclass(frozen=True, kw_only=True)
class Source:
    """A ConfigMap or Secret, in the object's namespace, with values for its release."""

    kind: SourceKind
    name: str
    key: str = "values.yaml"
    path: str = ""
    """Where the text goes, as a dotted path; empty: it is YAML with values for everything."""
    optional: bool = False


@dataclass(frozen=True, kw_only=True)
class Policy:
    """How one release is looked after."""

    drift: DriftMode = "correct"
    ignored: tuple[Ignored, ...] = ()
    on_failed_install: OnFailedInstall = "uninstall"
    on_failed_upgrade: OnFailedUpgrade = "rollback"
    retries: int | None = None
    """How often what failed is tried again; None: for ever, less and less often."""
    max_history: int = 10
    test: bool = False
    crds: Crds = "create"
    values_from: tuple[Source, ...] = ()
    period: float | None = None
    suspended: bool = False
    force_upgrade: bool = False
    """Objects that cannot be changed are deleted and made again, as `helm upgrade --force` does it."""
    force_rollback: bool = False
    """The same for the rollback after a failed upgrade."""
    wait_uninstalled: bool = False
    disabled_hooks: frozenset[str] = frozenset()
    """Verbs whose hooks do not run."""
    descriptions: Mapping[str, str] | None = None
    """What is stored with a revision, by verb."""
    retry: str = ""


KEYS: Final = ("drift", "remediation", "maxHistory", "test", "crds", "valuesFrom")
"""Of the watches file, besides those of operator-sdk."""


def from_entry(entry: Mapping[str, Any], *, period: float | None) -> Policy:
    """The policy that an entry of the watches file asks for."""
    drift, remediation = _mapping(entry, "drift"), _mapping(entry, "remediation")
    _only(drift, "drift", {"mode", "ignore"})
    _only(remediation, "remediation", {"install", "upgrade", "retries"})
    retries = remediation.get("retries")
    if retries is not None and not _is_number(retries, 0, 1000):
        raise PolicyError("remediation: retries: must be a number from 0 to 1000")
    history = entry.get("maxHistory", 10)
    if not _is_number(history, 2, _MAX_HISTORY):
        raise PolicyError(f"maxHistory: must be a number from 2 to {_MAX_HISTORY}")
    if not isinstance(entry.get("test", False), bool):
        raise PolicyError("test: must be true or false")
    return Policy(
        drift=cast(DriftMode, _word(drift.get("mode", "correct"), DriftMode, "drift: mode")),
        ignored=tuple(_ignored(each) for each in _list(drift.get("ignore"), "drift: ignore")),
        on_failed_install=cast(
            OnFailedInstall,
            _word(remediation.get("install", "uninstall"), OnFailedInstall, "remediation: install"),
        ),
        on_failed_upgrade=cast(
            OnFailedUpgrade,
            _word(remediation.get("upgrade", "rollback"), OnFailedUpgrade, "remediation: upgrade"),
        ),
        retries=retries,
        max_history=history,
        test=entry.get("test", False),
        crds=cast(Crds, _word(entry.get("crds", "create"), Crds, "crds")),
        values_from=_sources(entry.get("valuesFrom"), "valuesFrom"),
        period=period,
    )


def of_object(base: Policy, annotations: Mapping[str, str]) -> Policy:
    """The policy of one object: its annotations, over what its entry in the watches file says."""
    policy = base
    if annotations.get(f"{_SDK}reconcile-period"):
        name = f"{_SDK}reconcile-period"
        try:
            policy = replace(policy, period=durations.seconds(annotations[name]))
        except ValueError as error:
            raise PolicyError(f"the annotation {name}: {error}") from error
    if DRIFT in annotations:
        mode = cast(DriftMode, _word(annotations[DRIFT], DriftMode, f"the annotation {DRIFT}"))
        policy = replace(policy, drift=mode)
    if VALUES_FROM in annotations:
        what = f"the annotation {VALUES_FROM}"
        try:
            given = json.loads(annotations[VALUES_FROM])
        except ValueError as error:
            raise PolicyError(f"{what}: is not JSON: {error}") from error
        policy = replace(policy, values_from=(*base.values_from, *_sources(given, what)))
    return replace(
        policy,
        suspended=_truth(annotations, SUSPEND, default=False),
        test=_truth(annotations, TEST, default=base.test),
        force_upgrade=_truth(annotations, f"{_SDK}upgrade-force", default=False),
        force_rollback=_truth(annotations, f"{_SDK}rollback-force", default=False),
        wait_uninstalled=_truth(annotations, f"{_SDK}uninstall-wait", default=False),
        disabled_hooks=frozenset(
            verb
            for verb in ("install", "upgrade", "uninstall")
            if _truth(annotations, f"{_SDK}{verb}-disable-hooks", default=False)
        ),
        descriptions={
            verb: annotations[f"{_SDK}{verb}-description"]
            for verb in ("install", "upgrade", "uninstall")
            if f"{_SDK}{verb}-description" in annotations
        },
        retry=annotations.get(RETRY, ""),
    )


def _truth(annotations: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = annotations.get(name, "")
    if not text:
        return default
    if text not in _TRUE | _FALSE:
        raise PolicyError(f"the annotation {name}: {text!r} is neither true nor false")
    return text in _TRUE


def _ignored(given: object) -> Ignored:
    rule = given if isinstance(given, dict) else {}
    _only(rule, "drift: ignore", {"paths", "kind", "name"})
    paths, kind, name = _list(rule.get("paths"), "drift: ignore: paths"), rule.get("kind", ""), rule.get("name", "")
    if not paths or not all(isinstance(each, str) and _POINTER.fullmatch(each) for each in paths):
        raise PolicyError("drift: ignore: each rule needs paths, which are JSON pointers such as /spec/replicas")
    if not isinstance(kind, str) or not isinstance(name, str):
        raise PolicyError("drift: ignore: kind and name must be texts")
    try:
        re.compile(name)
    except re.error as error:
        raise PolicyError(f"drift: ignore: name: {name!r} is not a regular expression: {error}") from error
    return Ignored(paths=tuple(paths), kind=kind, name=name)


def _sources(given: object, what: str) -> tuple[Source, ...]:
    found = [_source(each, what) for each in _list(given, what)]
    if len(found) > _MAX_SOURCES:
        raise PolicyError(f"{what}: more than {_MAX_SOURCES}")
    return tuple(found)


def _source(given: object, what: str) -> Source:
    source = given if isinstance(given, dict) else {}
    _only(source, what, {"kind", "name", "valuesKey", "targetPath", "optional"})
    texts = {name: source.get(name, "") for name in ("kind", "name", "valuesKey", "targetPath")}
    if not all(isinstance(each, str) for each in texts.values()) or not isinstance(source.get("optional", False), bool):
        raise PolicyError(f"{what}: kind, name, valuesKey and targetPath must be texts, optional true or false")
    if not _NAME.fullmatch(texts["name"]):
        raise PolicyError(f"{what}: each needs the name of a ConfigMap or Secret")
    return Source(
        kind=cast(SourceKind, _word(texts["kind"], SourceKind, f"{what}: kind")),
        name=texts["name"],
        key=texts["valuesKey"] or "values.yaml",
        path=texts["targetPath"],
        optional=source.get("optional", False),
    )


def _word(given: object, words: Any, what: str) -> str:
    allowed = get_args(words)
    if given not in allowed:
        raise PolicyError(f"{what}: {given!r} is not one of {', '.join(allowed)}")
    return str(given)


def _mapping(entry: Mapping[str, Any], key: str) -> dict[str, Any]:
    given = entry.get(key) or {}
    if not isinstance(given, dict):
        raise PolicyError(f"{key}: must be a mapping")
    return given


def _list(given: object, what: str) -> list[Any]:
    if given is None:
        return []
    if not isinstance(given, list):
        raise PolicyError(f"{what}: must be a list")
    return given


def _only(given: Mapping[str, Any], what: str, keys: set[str]) -> None:
    unknown = [each for each in given if each not in keys]
    if unknown:
        raise PolicyError(f"{what}: unknown key {unknown[0]!r}: use {', '.join(sorted(keys))}")


def _is_number(given: object, least: int, most: int) -> bool:
    return isinstance(given, int) and not isinstance(given, bool) and least <= given <= most
