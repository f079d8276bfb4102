"""The list of kinds that are about identities and rights, for `catalogue`: roles, bindings and reviews."""

from __future__ import annotations

from typing import Any, NamedTuple

from edgewright.local.builtin import rbac, reviews
from edgewright.local.served import Rules
from edgewright.runtime.objects import Kind

TOKEN_REQUEST = Kind(group="authentication.k8s.io", version="v1", kind="TokenRequest", plural="tokenrequests")
"""What is posted to the `token` of a ServiceAccount; it has no path of its own."""


class Entry(NamedTuple):
    """A kind, the package of its definition, its rules, and what else `catalogue` is to know."""

    kind: Kind
    package: str
    rules: Rules
    settings: dict[str, Any]


def entries() -> list[Entry]:
    """All of them; each call gives rules of its own."""
    return [
        Entry(rbac.ROLE, rbac.PACKAGE, rbac.RoleRules(), {}),
        Entry(rbac.CLUSTER_ROLE, rbac.PACKAGE, rbac.ClusterRoleRules(), {}),
        Entry(rbac.ROLE_BINDING, rbac.PACKAGE, rbac.RoleBindingRules(), {}),
        Entry(rbac.CLUSTER_ROLE_BINDING, rbac.PACKAGE, rbac.ClusterRoleBindingRules(), {}),
        _review("authentication.k8s.io", "SelfSubjectReview", reviews.SelfSubjectReviewRules()),
        _review("authentication.k8s.io", "TokenReview", reviews.TokenReviewRules()),
        _review("authorization.k8s.io", "SelfSubjectAccessReview", reviews.SelfSubjectAccessReviewRules()),
        _review("authorization.k8s.io", "SelfSubjectRulesReview", reviews.SelfSubjectRulesReviewRules()),
        _review("authorization.k8s.io", "SubjectAccessReview", reviews.SubjectAccessReviewRules()),
        _review(
            "authorization.k8s.io",
            "LocalSubjectAccessReview",
            reviews.LocalSubjectAccessReviewRules(),
            namespaced=True,
        ),
    ]


def _review(group: str, name: str, rules: Rules, *, namespaced: bool = False) -> Entry:
    kind = Kind(group=group, version="v1", kind=name, plural=f"{name.lower()}s", namespaced=namespaced)
    package = f"io.k8s.api.{group.partition('.')[0]}.v1"
    return Entry(kind, package, rules, {"verbs": ("create",)})
