"""Fills in aggregated ClusterRoles: such a role has the rules of all others that its selectors select.

`add` registers the controller, which does what that of kube-controller-manager does. What somebody wrote into such a
role by hand is replaced; other roles are never touched.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, ClassVar

from edgewright.runtime import DONE, For, Key, Kind, Manager, Maps, RawObject, Resource, Result, Struct
from edgewright.runtime.errors import NotFound
from edgewright.runtime.label_requirements import holds
from edgewright.runtime.predicates import anything

MANAGER = "clusterrole-aggregation-controller"


class _Term(Struct, frozen=True, gc=False, kw_only=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class Selector(Struct, frozen=True, gc=False, kw_only=True):
    """Which roles give their rules."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[_Term, ...] = ()

    def selects(self, labels: dict[str, str]) -> bool:
        """Whether a role with these labels is one."""
        return self.match_labels.items() <= labels.items() and all(
            holds(term, labels) for term in self.match_expressions
        )


class AggregationRule(Struct, frozen=True, gc=False, kw_only=True):
    """Where the rules of an aggregated role come from."""

    cluster_role_selectors: tuple[Selector, ...] = ()


class ClusterRole(Resource, frozen=True, gc=False, kw_only=True):
    """A role, as far as its rules are put together here."""

    kind: ClassVar[Kind] = Kind(
        group="rbac.authorization.k8s.io", version="v1", kind="ClusterRole", plural="clusterroles", namespaced=False
    )

    aggregation_rule: AggregationRule | None = None
    rules: tuple[dict[str, Any], ...] | None = ()


def gathered(role: ClusterRole, others: Iterable[ClusterRole]) -> list[RawObject]:
    """The rules of an aggregated role, in the order of its selectors and of the names of roles, each once."""
    known = sorted(others, key=lambda other: other.key.name)
    rules: list[RawObject] = []
    for selector in (role.aggregation_rule or AggregationRule()).cluster_role_selectors:
        for other in known:
            if other.key != role.key and selector.selects(other.metadata.labels):
                rules += [rule for rule in other.rules or () if rule not in rules]
    return rules


def add(manager: Manager) -> None:
    """Registers the controller."""
    _Aggregation(manager).add()


class _Aggregation:
    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self._client = manager.client
        self._roles = manager.cache(ClusterRole)
        self._roles.add_index("aggregated", lambda role: ("",) if role.aggregation_rule else ())

    def add(self) -> None:
        self._manager.controller(
            "clusterrole-aggregation",
            self._reconcile,
            For(self._roles, when=anything),
            Maps(self._roles, lambda _: [role.key for role in self._roles.by("aggregated", "")]),
        )

    async def _reconcile(self, key: Key) -> Result:
        role = self._roles.get(key)
        if role is None or role.aggregation_rule is None or role.deleting:
            return DONE
        rules = gathered(role, self._roles)
        if rules == list(role.rules or ()):
            return DONE
        wanted = {
            "apiVersion": ClusterRole.kind.api_version,
            "kind": ClusterRole.kind.kind,
            "metadata": {"name": key.name, "uid": role.metadata.uid},
            "rules": rules,
        }
        with suppress(NotFound):  # it has gone, or another one has its name: the cache will say so
            await self._client.raw(ClusterRole.kind).apply(wanted, manager=MANAGER, force=True)
        return DONE
