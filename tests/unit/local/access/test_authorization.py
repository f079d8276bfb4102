"""Who may do what by the roles and bindings in the store, and that changes count at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgewright.local.access import ADMINISTRATOR
from edgewright.local.access.attributes import Attributes
from edgewright.local.access.authentication import User
from edgewright.local.access.authorization import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from edgewright.local.errors import Refusal
from tests.unit.local.access.rights import BOB, ROBOT, pods, policy, rule, subject

NODE = User(name="system:node:edge", groups=("system:nodes", "system:authenticated"))


async def test_nobody_may_do_anything_without_a_binding_but_a_master(tmp_path: Path) -> None:
    async with policy(tmp_path) as made:
        await made.role("reader", rule("get,list", "pods"))
        assert not made.rights.allows(pods("get", "plant"), BOB)
        assert made.rights.allows(pods("get", "plant"), ADMINISTRATOR)
        assert made.rights.decide(pods("get"), ADMINISTRATOR) == (True, "")


@pytest.mark.parametrize(
    "who",
    [
        subject("User", "bob"),
        subject("Group", "team"),
        subject("Group", "system:authenticated"),
    ],
)
async def test_a_role_is_given_to_a_user_or_to_a_group(tmp_path: Path, who: dict[str, str]) -> None:
    async with policy(tmp_path) as made:
        await made.role("reader", rule("get,list", "pods"))
        await made.bind("b", "reader", who)
        assert made.rights.allows(pods("get", "plant"), BOB)
        assert made.rights.allows(pods("list"), BOB)
        assert not made.rights.allows(pods("delete", "plant"), BOB)
        assert not made.rights.allows(Attributes(verb="get", resource="secrets", namespace="plant"), BOB)
        assert not made.rights.allows(pods("get", "plant"), User(name="eve", groups=()))


async def test_a_binding_of_a_namespace_counts_there_alone(tmp_path: Path) -> None:
    async with policy(tmp_path) as made:
        await made.role("reader", rule("get", "pods"))
        await made.role("writer", rule("create", "pods"), namespace="plant")
        await made.bind("r", "reader", subject("User", "bob"), namespace="plant")
        await made.bind("w", "writer", subject("User", "bob"), namespace="plant", kind="Role")
        assert made.rights.allows(pods("get", "plant"), BOB)
        assert made.rights.allows(pods("create", "plant"), BOB)
        for elsewhere in ("", "office"):
            assert not made.rights.allows(pods("get", elsewhere), BOB)
            assert not made.rights.allows(pods("create", elsewhere), BOB)


async def test_an_account_is_one_of_its_namespace_or_of_the_bindings(tmp_path: Path) -> None:
    async with policy(tmp_path) as made:
        await made.role("reader", rule("get", "pods"))
        await made.bind("own", "reader", subject("ServiceAccount", "robot"), namespace="plant")
        await made.bind("far", "reader", subject("ServiceAccount", "robot", namespace="plant"), namespace="office")
        await made.bind("none", "reader", subject("ServiceAccount", "robot"))
        assert made.rights.allows(pods("get", "plant"), ROBOT)
        assert made.rights.allows(pods("get", "office"), ROBOT)
        assert not made.rights.allows(pods("get", "lab"), ROBOT)


async def test_a_right_can_be_for_some_names_only(tmp_path: Path) -> None:
    async with policy(tmp_path) as made:
        await made.role("one", rule("get,list", "pods", resourceNames=["a"]))
        await made.bind("b", "one", subject("User", "bob"))
        assert made.rights.allows(pods("get", "plant", name="a"), BOB)
        assert not made.rights.allows(pods("get", "plant", name="b"), BOB)
        assert not made.rights.allows(pods("list", "plant"), BOB)


async def test_a_path_of_no_resource_takes_a_right_of_its_own(tmp_path: Path) -> None:
    async with policy(tmp_path) as made:
        await made.role("all", rule("*", "*", "*"))
        await made.bind("b", "all", subject("User", "bob"))
        assert not made.rights.allows(Attributes(verb="get", path="/metrics"), BOB)
        await made.role("metrics", rule("get", nonResourceURLs=["/metrics"]))
        await made.bind("m", "metrics", subject("User", "bob"))
        assert made.rights.allows(Attributes(verb="get", path="/metrics"), BOB)
        assert not made.rights.allows(Attributes(verb="post", path="/metrics"), BOB)


async def test_a_change_counts_for_the_next_request(tmp_path: Path) -> None:
    async with policy(tmp_path) as made:
        await made.role("reader", rule("get", "pods"))
        await made.bind("b", "reader", subject("User", "bob"))
        assert made.rights.allows(pods("get"), BOB)
        await made.change(CLUSTER_ROLES, "reader", {"rules": [rule("list", "pods")]})
        assert not made.rights.allows(pods("get"), BOB)
        assert made.rights.allows(pods("list"), BOB)
        await made.change(CLUSTER_ROLE_BINDINGS, "b", {"roleRef": {"kind": "ClusterRole", "name": "reader"}})
        assert not made.rights.allows(pods("list"), BOB)
        await made.bind("c", "reader", subject("Group", "team"))
        assert made.rights.allows(pods("list"), BOB)
        await made.remove(CLUSTER_ROLE_BINDINGS, "c")
        assert not made.rights.allows(pods("list"), BOB)


async def test_what_was_stored_counts_after_a_restart(tmp_path: Path) -> None:
    async with policy(tmp_path) as made:
        await made.role("reader", rule("get", "pods"))
        await made.bind("b", "reader", subject("User", "bob"))
    async with policy(tmp_path) as again:
        assert again.rights.allows(pods("get"), BOB)


async def test_a_decision_says_by_what_it_is_so(tmp_path: Path) -> None:
    async with policy(tmp_path) as made:
        await made.role("reader", rule("get", "pods"))
        await made.bind("b", "reader", subject("ServiceAccount", "robot"), namespace="plant")
        await made.bind("c", "reader", subject("Group", "team"))
        by = 'RBAC: allowed by RoleBinding "b/plant" of ClusterRole "reader" to ServiceAccount "robot/plant"'
        assert made.rights.decide(pods("get", "plant"), ROBOT) == (True, by)
        by = 'RBAC: allowed by ClusterRoleBinding "c" of ClusterRole "reader" to Group "team"'
        assert made.rights.decide(pods("get", "plant"), BOB) == (True, by)
        assert made.rights.decide(pods("list", "plant"), BOB) == (False, "")


async def test_a_binding_to_a_role_that_is_not_there_is_told_to_whom_it_is_for(tmp_path: Path) -> None:
    async with policy(tmp_path) as made:
        await made.bind("b", "none", subject("User", "bob"))
        await made.bind("c", "nothing", subject("User", "bob"), namespace="plant", kind="Role")
        with pytest.raises(Refusal) as refused:
            made.rights.check(pods("get", "plant", name="a"), BOB)
        assert refused.value.message == (
            'pods "a" is forbidden: User "bob" cannot get resource "pods" in API group "" in the namespace "plant": '
            'RBAC: [clusterrole.rbac.authorization.k8s.io "none" not found, '
            'role.rbac.authorization.k8s.io "nothing" not found]'
        )


async def test_a_node_has_the_rights_of_the_role_of_nodes(tmp_path: Path) -> None:
    async with policy(tmp_path) as made:
        await made.role("system:node", rule("get", "pods"))
        assert made.rights.allows(pods("get", "plant"), NODE)
        assert not made.rights.allows(pods("create", "plant"), NODE)
        assert not made.rights.allows(pods("get", "plant"), User(name="bob", groups=("system:nodes",)))


async def test_who_asks_for_ever_new_things_fills_no_memory(tmp_path: Path) -> None:
    async with policy(tmp_path) as made:
        await made.role("reader", rule("get", "*", "*"))
        await made.bind("b", "reader", subject("User", "bob"))
        for number in range(10_000):
            assert made.rights.allows(Attributes(verb="get", resource=f"r{number}", namespace=f"n{number}"), BOB)
        assert made.rights.kept < 8193
