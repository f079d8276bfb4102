"""Which taints a Node object gets, and which of those that it has stay."""

from __future__ import annotations

import pytest

from edgewright.local.node.registration import with_taints
from edgewright.runtime.objects import RawObject

OURS = {"key": "ours", "effect": "NoSchedule"}
THEIRS = {"key": "theirs", "value": "x", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("present", "wanted", "then"),
    [
        ([], {}, []),
        ([], {"ours": True}, [OURS]),
        ([], {"ours": False}, []),
        ([THEIRS], {"ours": True}, [THEIRS, OURS]),
        ([OURS, THEIRS], {"ours": True}, [OURS, THEIRS]),
        ([OURS, THEIRS], {"ours": False}, [THEIRS]),
        ([{"key": "ours", "effect": "PreferNoSchedule"}], {"ours": True}, [OURS]),
        ([{**OURS, "value": "by hand"}], {"ours": True}, [{**OURS, "value": "by hand"}]),
    ],
)
def test_a_node_has_its_own_taints_and_those_of_others(
    present: list[RawObject], wanted: dict[str, bool], then: list[RawObject]
) -> None:
    assert with_taints(present, wanted) == then
