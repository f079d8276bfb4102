"""Nobody gives a right that they do not have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from edgewright.local.access import ADMINISTRATOR
from edgewright.local.access.escalation import check_binding, check_role
from edgewright.local.builtin.rbac import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING
from edgewright.local.errors import Refusal
from tests.unit.local.access.rights import BOB, Policy, policy, rule, subject

RBAC = "rbac.authorization.k8s.io"
EVERYTHING = (rule("*", "*", "*"), rule("*", nonResourceURLs=["*"]))


def role(*rules: dict[str, Any], namespace: str = "", **more: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "new", **({"namespace": namespace} if namespace else {})},
        "rules": list(rules),
        **more,
    }


def binding(name: str, kind: str = "ClusterRole", namespace: str = "") -> dict[str, Any]:
    ref = {"kind": kind, "name": name, "apiGroup": RBAC}
    return {"metadata": {"name": "new", **({"namespace": namespace} if namespace else {})}, "roleRef": ref}


async def given(made: Policy, *rules: dict[str, Any], namespace: str = "") -> None:
    """Gives Bob rights."""
    await made.role("bobs", *rules)
    await made.bind("bobs", "bobs", subject("User", "bob"), namespace=namespace)


async def test_a_role_may_hold_what_its_author_has_and_no_more(tmp_path: Path) -> None:
    async with policy(tmp_path) as made:
        await given(made, rule("get,list", "pods"))
        check_role(made.rights, BOB, CLUSTER_ROLE, role(rule("get", "pods")), None)
        with pytest.raises(Refusal) as refused:
            check_role(made.rights, BOB, CLUSTER_ROLE, role(rule("get,list,watch,delete", "pods")), None)
        assert (refused.value.code, refused.value.reason) == (403, "Forbidden")
        assert refused.value.message == (
            'clusterroles.rbac.authorization.k8s.io "new" is forbidden: user "bob" '
            '(groups=["team" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'
            '{APIGroups:[""], Resources:["pods"], Verbs:["watch" "delete"]}'
        )
        check_role(made.rights, ADMINISTRATOR, CLUSTER_ROLE, role(*EVERYTHING), None)


async def test_rights_in_a_namespace_are_enough_for_a_role_of_it(tmp_path: Path) -> None:
    async with policy(tmp_path) as made:
        await given(made, rule("get", "pods"), namespace="plant")
        check_role(made.rights, BOB, ROLE, role(rule("get", "pods"), namespace="plant"), None)
        with pytest.raises(Refusal, match="not currently held"):
            check_role(made.rights, BOB, ROLE, role(rule("get", "pods"), namespace="office"), None)
        with pytest.raises(Refusal, match="not currently held"):
            check_role(made.rights, BOB, CLUSTER_ROLE, role(rule("get", "pods")), None)


async def test_the_right_to_escalate_is_enough(tmp_path: Path) -> None:
    async with policy(tmp_path) as made:
        await given(made, rule("escalate", "clusterroles", RBAC))
        check_role(made.rights, BOB, CLUSTER_ROLE, role(*EVERYTHING), None)
        with pytest.raises(Refusal, match="not currently held"):
            check_role(made.rights, BOB, ROLE, role(rule("get", "pods"), namespace="plant"), None)


async def test_only_who_may_do_everything_says_where_rules_are_gathered(tmp_path: Path) -> None:
    gathered: dict[str, Any] = {"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}
    async with policy(tmp_path) as made:
        await given(made, rule("get,list,watch,create,update,delete", "*", "*"))
        for obj, old in ((role(**gathered), None), (role(), role(**gathered))):
            with pytest.raises(Refusal, match="must have cluster-admin privileges to use the aggregationRule"):
                check_role(made.rights, BOB, CLUSTER_ROLE, obj, old)
        check_role(made.rights, ADMINISTRATOR, CLUSTER_ROLE, role(**gathered), None)


async def test_who_gives_a_role_has_what_is_in_it_or_may_bind_it(tmp_path: Path) -> None:
    async with policy(tmp_path) as made:
        await made.role("reader", rule("get", "pods"))
        await made.role("writer", rule("create", "pods"))
        await given(made, rule("get", "pods"))
        check_binding(made.rights, BOB, CLUSTER_ROLE_BINDING, binding("reader"))
        check_binding(made.rights, BOB, ROLE_BINDING, binding("reader", namespace="plant"))
        with pytest.raises(Refusal) as refused:
            check_binding(made.rights, BOB, CLUSTER_ROLE_BINDING, binding("writer"))
        assert refused.value.message.startswith(
            'clusterrolebindings.rbac.authorization.k8s.io "new" is forbidden: user'
        )
        await made.role("binder", rule("bind", "clusterroles", RBAC, resourceNames=["writer"]))
        await made.bind("binder", "binder", subject("User", "bob"), namespace="plant")
        check_binding(made.rights, BOB, ROLE_BINDING, binding("writer", namespace="plant"))
        with pytest.raises(Refusal, match="not currently held"):
            check_binding(made.rights, BOB, CLUSTER_ROLE_BINDING, binding("writer"))


async def test_a_role_that_is_not_there_is_given_by_nobody_but_who_may_bind_it(tmp_path: Path) -> None:
    async with policy(tmp_path) as made:
        await given(made, rule("get", "pods"))
        with pytest.raises(Refusal) as refused:
            check_binding(made.rights, BOB, ROLE_BINDING, binding("none", "Role", "plant"))
        assert (refused.value.code, refused.value.message) == (404, f'rolebindings.{RBAC} "none" not found')
        check_binding(made.rights, ADMINISTRATOR, ROLE_BINDING, binding("none", "Role", "plant"))


async def test_what_could_not_be_found_is_told_with_what_is_missing(tmp_path: Path) -> None:
    async with policy(tmp_path) as made:
        await made.bind("lost", "lost", subject("User", "bob"))
        with pytest.raises(Refusal) as refused:
            check_role(made.rights, BOB, CLUSTER_ROLE, role(rule("get", "pods")), None)
        assert refused.value.message.endswith(f'; resolution errors: [clusterrole.{RBAC} "lost" not found]')
