"""Label selectors as objects hold them: whom one selects, and how it is written as text.

Tables and `/scale` show the text, evictions and rules ask whom one selects. Pure; what is wrong with a selector is said
by `builtin.labelselector`, and what a request asks for by `?labelSelector=` is read by `selectors`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from edgewright.runtime.label_requirements import holds
from edgewright.runtime.objects import RawObject

_SIGNS = {"In": "in", "NotIn": "notin"}


class _Term(msgspec.Struct, frozen=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()
    equals: bool = False
    """Whether it comes from `matchLabels`, and so is written with a sign of equality."""


def is_empty(selector: RawObject) -> bool:
    """Whether it has no terms at all, so that it selects everything."""
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def selects(selector: RawObject | None, labels: Mapping[str, str]) -> bool:
    """Whether these labels are selected; no selector selects nothing, an empty one everything."""
    return selector is not None and all(holds(term, labels) for term in _terms(selector))


def text(selector: RawObject | None) -> str:
    """The selector as `kubectl get -l` takes it."""
    terms = sorted(_terms(selector or {}), key=lambda term: term.key)
    return ",".join(map(_term_text, terms))


def _terms(selector: RawObject) -> list[_Term]:
    plain = [_Term(key, "In", (value,), equals=True) for key, value in (selector.get("matchLabels") or {}).items()]
    terms = [
        _Term(term["key"], term["operator"], tuple(term.get("values") or ()))
        for term in selector.get("matchExpressions") or ()
    ]
    return plain + terms


def _term_text(term: _Term) -> str:
    if term.equals:
        return f"{term.key}={term.values[0]}"
    if term.operator in _SIGNS:
        return f"{term.key} {_SIGNS[term.operator]} ({','.join(sorted(term.values))})"
    return term.key if term.operator == "Exists" else f"!{term.key}"
