"""What an aggregated role is put together from."""

from __future__ import annotations

from typing import Any

import msgspec

from edgewright.local.controllers.aggregation import ClusterRole, gathered


def role(name: str, *verbs: str, labels: dict[str, str] | None = None, selectors: Any = None) -> ClusterRole:
    rules = [{"verbs": [each]} for each in verbs]
    raw: dict[str, Any] = {"metadata": {"name": name, "labels": labels or {}}, "rules": rules}
    if selectors is not None:
        raw["aggregationRule"] = {"clusterRoleSelectors": selectors}
    return msgspec.convert(raw, ClusterRole)


def test_a_role_has_the_rules_of_those_that_it_selects_by_their_names_each_once() -> None:
    mine = role("mine", "old", labels={"a": "b"}, selectors=[{"matchLabels": {"a": "b"}}])
    others = [role("z", "get", "list", labels={"a": "b"}), role("y", "list", labels={"a": "b"}), role("x", "no")]
    assert gathered(mine, [mine, *others]) == [{"verbs": ["list"]}, {"verbs": ["get"]}]


def test_selectors_count_one_after_another_and_an_empty_one_selects_all() -> None:
    exists = {"matchExpressions": [{"key": "c", "operator": "Exists"}]}
    mine = role("mine", selectors=[exists, {}])
    others = [role("a", "first"), role("b", "second", labels={"c": ""})]
    assert gathered(mine, others) == [{"verbs": ["second"]}, {"verbs": ["first"]}]


def test_a_role_without_selectors_gathers_nothing() -> None:
    assert gathered(role("mine", selectors=[]), [role("a", "get")]) == []
    assert gathered(role("mine"), [role("a", "get")]) == []
