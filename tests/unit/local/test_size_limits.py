"""How deep objects may be, and of how many values."""

from __future__ import annotations

from typing import Any

import pytest

from edgewright.local import size_limits
from edgewright.local.errors import Refusal


def nested(levels: int, *, lists: bool) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value] if lists else {"a": value}
    return value


@pytest.mark.parametrize("lists", [True, False], ids=["lists", "objects"])
def test_what_has_more_levels_than_are_taken_is_refused(lists: bool) -> None:
    size_limits.check(nested(size_limits.DEEPEST, lists=lists))
    for levels in (size_limits.DEEPEST + 1, 100_000):
        with pytest.raises(Refusal, match="nested too deeply") as refusal:
            size_limits.check(nested(levels, lists=lists))
        assert refusal.value.code == 400


def test_what_has_more_values_than_are_taken_is_refused_wherever_they_are() -> None:
    half = size_limits.MAX_VALUES // 2
    size_limits.check([0] * size_limits.MAX_VALUES)
    size_limits.check({"a": [0] * half, "b": {str(number): 0 for number in range(half - 2)}})
    with pytest.raises(Refusal) as refusal:
        size_limits.check({"a": [0] * half, "b": {str(number): 0 for number in range(half)}})
    assert refusal.value.code == 413


@pytest.mark.parametrize("value", [None, 1, "x", {}, [], [{}, [{}]]])
def test_what_is_small_is_taken(value: Any) -> None:
    size_limits.check(value)
