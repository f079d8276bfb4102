"""Roles for people, and what tokens of a role may do."""

from __future__ import annotations

import pytest

from edgewright.api.capabilities import CAPABILITIES
from edgewright.api.user_roles import TokenRole, token_rules, user_roles


def rights(role: TokenRole, *, namespaced: bool = True) -> set[tuple[str, str]]:
    found = token_rules(role, CAPABILITIES, namespaced=namespaced)
    return {(verb, resource) for rule in found for verb in rule.verbs for resource in rule.resources}


def test_every_kind_has_a_viewer_and_an_editor() -> None:
    words: dict[str, set[str]] = {}
    for each in user_roles(CAPABILITIES):
        words.setdefault(each.kind.kind, set()).add(each.word)
    assert all({"viewer", "editor"} <= found for found in words.values())
    assert words["EdgeDeviceSignedRequest"] == {"viewer", "editor", "approver"}


def test_a_viewer_changes_nothing() -> None:
    for namespaced in (True, False):
        assert {verb for verb, _ in rights(TokenRole.VIEWER, namespaced=namespaced)} == {"get", "list", "watch"}


def test_an_operator_makes_requests_of_devices_and_does_not_decide_about_them() -> None:
    assert {("create", "flashjobs"), ("patch", "firmwarerollouts")} <= rights(TokenRole.OPERATOR)
    assert ("create", "edgedevicesignedrequest") in rights(TokenRole.OPERATOR)
    assert ("patch", "edgedevicesignedrequest") not in rights(TokenRole.OPERATOR)


def test_an_approver_decides_and_makes_nothing() -> None:
    found = rights(TokenRole.APPROVER)
    assert {("patch", "edgedevicesignedrequest"), ("patch", "firmwarerollouts")} <= found
    assert not {verb for verb, _ in found} & {"create", "delete", "deletecollection"}
    assert ("patch", "flashjobs") not in found


@pytest.mark.parametrize("role", [TokenRole.VIEWER, TokenRole.OPERATOR, TokenRole.APPROVER])
def test_kinds_without_a_namespace_are_apart(role: TokenRole) -> None:
    assert ("get", "devices") in rights(role, namespaced=False)
    assert not any(resource == "devices" for _, resource in rights(role))


@pytest.mark.parametrize("role", [TokenRole.VIEWER, TokenRole.OPERATOR, TokenRole.APPROVER])
def test_who_has_a_token_reads_what_happened_in_its_namespace(role: TokenRole) -> None:
    assert {verb for verb, resource in rights(role) if resource == "events"} == {"get", "list", "watch"}
