"""The roles that every cluster has, and what is put back of them."""

from __future__ import annotations

import copy

from edgewright.local.access import default_roles
from edgewright.runtime.objects import RawObject


def named(kind: str, name: str) -> RawObject:
    found = [each for each in default_roles.load() if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return copy.deepcopy(found[0])


def test_every_binding_gives_a_role_that_is_there() -> None:
    roles = {each["metadata"]["name"] for each in default_roles.load() if each["kind"] == "ClusterRole"}
    bound = {each["roleRef"]["name"] for each in default_roles.load() if each["kind"] == "ClusterRoleBinding"}
    assert bound <= roles
    assert {"admin", "cluster-admin", "edit", "view", "system:discovery", "system:node"} <= roles


def test_what_was_taken_from_a_default_role_is_put_back_and_what_was_added_stays() -> None:
    wanted = named("ClusterRole", "system:discovery")
    assert default_roles.completed(wanted, wanted) is None
    more = {"verbs": ["get"], "nonResourceURLs": ["/mine"]}
    changed = {**wanted, "rules": [more]}
    completed = default_roles.completed(changed, wanted)
    assert completed is not None
    assert completed["rules"] == [more, *wanted["rules"]]
    assert default_roles.completed(completed, wanted) is None


def test_subjects_are_put_back_too() -> None:
    wanted = named("ClusterRoleBinding", "system:basic-user")
    completed = default_roles.completed({**wanted, "subjects": None}, wanted)
    assert completed is not None
    assert completed["subjects"] == wanted["subjects"]


def test_who_says_so_keeps_a_default_role_as_it_is() -> None:
    wanted = named("ClusterRole", "system:discovery")
    own = {**wanted, "metadata": {"name": "system:discovery", "annotations": {}}, "rules": []}
    assert default_roles.completed(own, wanted) is None
    assert default_roles.completed(named("ClusterRole", "admin"), named("ClusterRole", "admin")) is None
