"""The list of kinds that are about identities and rights, for `catalogue`: roles, bindings and reviews."""

from __future__ import annotations

from typing import Any

from edgewright.local.builtin import rbac, reviews
from edgewright.local.structs.rules import BuiltinRules
from edgewright.runtime.objects import Kind

TOKEN_REQUEST = Kind(group="authentication.k8s.io", version="v1", kind="TokenRequest", plural="tokenrequests")
"""What is posted to the `token` of a ServiceAccount; it has no path of its own."""


def entries() -> list[tuple[BuiltinRules, dict[str, Any]]]:
    """The rules of all of them, and what else `catalogue` is to know; each call gives rules of its own."""
    asked: dict[str, Any] = {"verbs": ("create",)}
    of_the_cluster: dict[str, Any] = {"namespaced": False}
    return [
        (rbac.RoleRules(), {}),
        (rbac.ClusterRoleRules(), of_the_cluster),
        (rbac.RoleBindingRules(), {}),
        (rbac.ClusterRoleBindingRules(), of_the_cluster),
        (reviews.SelfSubjectReviewRules(), asked | of_the_cluster),
        (reviews.TokenReviewRules(), asked | of_the_cluster),
        (reviews.SelfSubjectAccessReviewRules(), asked | of_the_cluster),
        (reviews.SelfSubjectRulesReviewRules(), asked | of_the_cluster),
        (reviews.SubjectAccessReviewRules(), asked | of_the_cluster),
        (reviews.LocalSubjectAccessReviewRules(), asked),
    ]
