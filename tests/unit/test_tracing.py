"""What repeats itself is not traced for coverage, and everything after it is."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from tests.conftest import pytest_runtest_protocol


@pytest.mark.untraced
def test_tracing_stops_for_a_test_that_is_marked_so_and_goes_on_after_it(request: pytest.FixtureRequest) -> None:
    assert sys.gettrace() is None

    def tracer(frame: FrameType, event: str, argument: Any) -> None:
        """Coverage, say."""

    sys.settrace(tracer)
    try:
        protocol = pytest_runtest_protocol(request.node)
        next(protocol)
        during = sys.gettrace()
        with pytest.raises(StopIteration) as answer:
            protocol.send(True)
        after = sys.gettrace()
    finally:
        sys.settrace(None)
    assert during is None
    assert after is tracer
    assert answer.value.value is True
