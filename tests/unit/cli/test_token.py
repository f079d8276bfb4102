"""`edgewright token`: the objects that it makes for a role, and what it refuses."""

from __future__ import annotations

from edgewright.api.user_roles import TokenRole
from edgewright.cli.token import LABEL, Wanted
from tests.unit.cli.command import edgewright


def kinds(wanted: Wanted) -> list[tuple[str, str]]:
    return [(kind.kind, obj["metadata"]["name"]) for kind, obj in wanted.objects()]


def test_a_role_counts_in_one_namespace_and_for_what_has_none() -> None:
    wanted = Wanted(name="eve", namespace="plant", role=TokenRole.VIEWER)
    assert kinds(wanted) == [
        ("ServiceAccount", "eve"),
        ("ClusterRole", "edgewright-token-viewer"),
        ("RoleBinding", "eve.edgewright-token-viewer"),
        ("ClusterRole", "edgewright-token-viewer-cluster"),
        ("ClusterRoleBinding", "plant.eve.edgewright-token-viewer-cluster"),
    ]
    assert all(
        obj["metadata"]["labels"] == {LABEL: "viewer"} for kind, obj in wanted.objects() if kind.kind != "ClusterRole"
    )


def test_everywhere_means_everywhere() -> None:
    wanted = Wanted(name="eve", namespace="plant", role=TokenRole.APPROVER, everywhere=True)
    assert "RoleBinding" not in [kind for kind, _ in kinds(wanted)]
    assert wanted.rights == "approver-everywhere"


def test_an_admin_has_no_role_of_ours() -> None:
    wanted = Wanted(name="eve", namespace="plant", role=TokenRole.ADMIN)
    assert kinds(wanted) == [("ServiceAccount", "eve"), ("RoleBinding", "eve.cluster-admin")]


def test_whatever_was_bound_is_found_again() -> None:
    for role in TokenRole:
        for everywhere in (True, False):
            wanted = Wanted(name="eve", namespace="plant", role=role, everywhere=everywhere)
            bound = {
                (kind.kind, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
                for kind, obj in wanted.objects()
                if kind.kind.endswith("Binding")
            }
            other = Wanted(name="eve", namespace="plant", role=TokenRole.VIEWER)
            assert bound <= {(kind.kind, key.namespace, key.name) for kind, key in other.bindings()}


def test_a_time_that_is_none_or_too_short_is_wrong_usage() -> None:
    for text in ("soon", "5m"):
        done = edgewright("token", "eve", "--for", text, "--kubeconfig", "none-has-this")
        assert done.returncode == 2
        assert done.stdout == ""
