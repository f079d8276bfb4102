"""Capabilities: what each brings is declared once, and asked for by name."""

from __future__ import annotations

import pytest

from edgewright.api.capabilities import CAPABILITIES, kinds_of, named
from edgewright.controllers.operator import _ADD


def test_every_capability_has_controllers() -> None:
    assert list(_ADD) == [each.name for each in CAPABILITIES]


def test_every_right_says_why_it_is_needed_and_none_is_everything() -> None:
    for rule in (rule for each in CAPABILITIES for rule in each.rules):
        assert rule.why
        assert "*" not in {*rule.groups, *rule.resources, *rule.verbs}, rule


def test_nobody_may_list_the_secrets_of_the_whole_cluster() -> None:
    for rule in (rule for each in CAPABILITIES for rule in each.rules):
        if "secrets" in rule.resources:
            assert not {"list", "watch"} & set(rule.verbs), rule


def test_capabilities_are_found_by_name_and_in_our_order() -> None:
    names = [each.name for each in CAPABILITIES]
    assert [each.name for each in named(reversed(names))] == names


def test_an_unknown_name_is_told_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="'rollouts' is not one of flashjob"):
        named(["rollouts"])


def test_each_kind_is_there_once() -> None:
    kinds = kinds_of((*CAPABILITIES, *CAPABILITIES))
    assert len(kinds) == len(set(kinds))
