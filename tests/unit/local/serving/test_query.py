"""The query of a request is read as Go reads it."""

from __future__ import annotations

import pytest

from edgewright.local.errors import Refusal
from edgewright.local.serving import query


@pytest.mark.parametrize(
    ("raw", "options"),
    [
        ("", []),
        ("a=1&b=2&a=3", [("a", "1"), ("b", "2"), ("a", "3")]),
        ("a", [("a", "")]),
        ("a=b=c", [("a", "b=c")]),
        ("a=x+y%20z%2B", [("a", "x y z+")]),
        ("a=1;b=2&c=3", [("c", "3")]),
        ("a=%zz&b=%2&c=3", [("c", "3")]),
        ("&&a=1&", [("a", "1")]),
        ("a=%ff", [("a", "\ufffd")]),
    ],
)
def test_what_is_broken_is_left_out_and_the_rest_counts(raw: str, options: list[tuple[str, str]]) -> None:
    assert list(query.parse(raw).items()) == options


@pytest.mark.parametrize("said", ["", "5s", "1h2m3.5s", "0", "-1ms", "+.5s", "10us"])
def test_a_time_that_go_knows_is_taken(said: str) -> None:
    query.check_timeout(query.parse(f"timeout={said}".replace("+", "%2B")))


@pytest.mark.parametrize(
    ("said", "why"), [("5", "missing unit in duration"), ("x", "invalid duration"), ("5y", "invalid")]
)
def test_a_time_that_go_does_not_know_is_refused(said: str, why: str) -> None:
    with pytest.raises(Refusal, match=why) as refusal:
        query.check_timeout(query.parse(f"timeout={said}"))
    assert refusal.value.code == 400
