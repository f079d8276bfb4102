"""Who may have which name: definitions of a group must not claim what another one, or a built-in kind, already has.

`crd_controller` asks for every definition whose names are not settled. The answer is data: the names that are accepted
and the condition that says so; nothing is written here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from edgewright.local.go_format import quote
from edgewright.local.served import Served
from edgewright.runtime.objects import RawObject


@dataclass(frozen=True)
class Taken:
    """The names of one group that somebody has: of resources, and of kinds."""

    resources: frozenset[str]
    kinds: frozenset[str]


def taken(group: str, definitions: Iterable[RawObject], builtin: Iterable[Served]) -> Taken:
    """What the accepted names of all definitions and the built-in kinds leave nobody else in a group."""
    resources: set[str] = set()
    kinds: set[str] = set()
    for crd in definitions:
        if crd["spec"]["group"] == group:
            names = accepted_names(crd)
            resources |= {names.get("plural", ""), names.get("singular", ""), *(names.get("shortNames") or ())}
            kinds |= {names.get("kind", ""), names.get("listKind", "")}
    for served in builtin:
        if served.kind.group == group:
            resources |= {served.kind.plural, served.singular, *served.short_names}
            kinds |= {served.kind.kind, served.list_kind}
    return Taken(frozenset(resources - {""}), frozenset(kinds - {""}))


def settle(crd: RawObject, others: Taken) -> tuple[RawObject, RawObject]:
    """The names that a definition gets, and its condition NamesAccepted; what is in conflict stays as it was."""
    wanted, had = crd["spec"]["names"], accepted_names(crd)
    got = dict(had)
    reason, message = "", ""
    for field, names, why in (
        ("plural", others.resources, "PluralConflict"),
        ("singular", others.resources, "SingularConflict"),
        ("shortNames", others.resources, "ShortNamesConflict"),
        ("kind", others.kinds, "KindConflict"),
        ("listKind", others.kinds, "ListKindConflict"),
    ):
        asked, before = _several(wanted.get(field)), _several(had.get(field))
        clashes = [f"{quote(name)} is already in use" for name in asked if name not in before and name in names]
        if clashes:
            reason, message = why, _joined(clashes)
        elif wanted.get(field):
            got[field] = wanted[field]
        else:
            got.pop(field, None)
    got.pop("categories", None)
    if wanted.get("categories"):
        got["categories"] = wanted["categories"]
    status = "False" if reason else "True"
    return _ordered(got), {
        "type": "NamesAccepted",
        "status": status,
        "reason": reason or "NoConflicts",
        "message": message or "no conflicts found",
    }


def accepted_names(crd: RawObject) -> RawObject:
    """The names that a definition has got so far."""
    names: RawObject = (crd.get("status") or {}).get("acceptedNames") or {}
    return names


def _several(value: str | list[str] | None) -> list[str]:
    return [value] if isinstance(value, str) else value or []


def _joined(messages: list[str]) -> str:
    distinct = list(dict.fromkeys(messages))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def _ordered(names: RawObject) -> RawObject:
    """In the order of the real answer; plural and kind are there even when nothing was accepted."""
    order = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
    filled = {"plural": "", "kind": "", **names}
    return {name: filled[name] for name in order if name in filled}
