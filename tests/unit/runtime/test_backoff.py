"""Back-off: exponential, bounded, spread."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewright.runtime.backoff import Backoff, delay


@pytest.mark.parametrize(
    ("failures", "expected"), [(-1, 0.0), (0, 0.0), (1, 0.5), (2, 1.0), (3, 2.0), (6, 16.0), (7, 20.0), (100_000, 20.0)]
)
def test_the_wait_doubles_up_to_the_cap(failures: int, expected: float) -> None:
    assert delay(failures, base=0.5, cap=20.0) == expected


@given(failures=st.integers(1, 10_000), base=st.floats(1e-6, 10), cap=st.floats(1e-6, 1e6))
def test_a_wait_is_never_above_the_cap_and_never_shrinks(failures: int, base: float, cap: float) -> None:
    wait = delay(failures, base=base, cap=cap)
    assert 0 < wait <= cap
    assert delay(failures + 1, base=base, cap=cap) >= wait


@given(
    seed=st.integers(),
    base=st.floats(0.001, 10),
    cap=st.floats(0.001, 100),
    jitter=st.floats(0, 1),
    count=st.integers(1, 50),
)
def test_jitter_shortens_a_wait_and_never_lengthens_it(
    seed: int, base: float, cap: float, jitter: float, count: int
) -> None:
    backoff = Backoff(base=base, cap=cap, jitter=jitter, rng=random.Random(seed))
    for number in range(1, count + 1):
        exact = delay(number, base=base, cap=cap)
        wait = backoff.next()
        assert wait <= exact <= cap
        assert wait >= exact * (1 - jitter) * (1 - 1e-9)


def test_a_success_starts_over() -> None:
    backoff = Backoff(base=1.0, cap=100.0, jitter=0.0)
    assert [backoff.next() for _ in range(3)] == [1.0, 2.0, 4.0]
    backoff.reset()
    assert backoff.next() == 1.0


def test_two_clients_do_not_come_back_together() -> None:
    assert len({Backoff(base=1.0, rng=random.Random(seed)).next() for seed in range(20)}) == 20
