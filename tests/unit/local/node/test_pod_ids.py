"""The users and groups of Pods: each Pod its own, and none that somebody else on the machine has."""

from __future__ import annotations

import pytest

from edgewright.local.node.pod_ids import NoIdLeft, PodIds, parse


def test_every_pod_gets_one_of_its_own_until_there_is_none() -> None:
    ids = PodIds(10, 12)
    assert [ids.own(set()), ids.own({10}), ids.own({10, 12})] == [10, 10 + 1, 11]
    with pytest.raises(NoIdLeft, match="every id from 10 to 12 belongs to a Pod"):
        ids.own({10, 11, 12})


@pytest.mark.parametrize(
    ("number", "allowed"), [(0, False), (9, False), (10, True), (12, True), (13, False), (65532, True)]
)
def test_a_pod_may_ask_for_what_is_in_the_range_or_stands_for_nobody(number: int, allowed: bool) -> None:
    assert PodIds(10, 12).allow(number) is allowed


def test_a_range_is_read_as_it_is_written() -> None:
    assert parse("1000-2000") == PodIds(1000, 2000)
    assert parse(str(PodIds())) == PodIds()


@pytest.mark.parametrize("text", ["", "0-5", "5", "9-1", "a-b", "1-99999999999", "1-4294967295"])
def test_what_is_no_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not FIRST-LAST"):
        parse(text)
